// A mask of numbers as kernels add it by products: bf16, rows as many as queries, keys up to a whole tile of 64.
//
// A product multiplies every number of a row, so all are finite: what hides (HIDDEN and less, minus infinity, later keys where CAUSAL,
// keys behind the last) is LOW, which times 1 / scale is far below every score and still finite.  Numbers of MELEM that are no bf16 are
// the sum of two (17 bits): the second plane lies behind the first, `plane` elements on.
//
// A byte for each tile of 16 queries by 64 keys says whether anything is shown (1), is to be added (2, hiding is adding), is not shown (4), is
// hidden by a finite number (8), has a second part (16).  WHOLE: rows are whole pieces of 16 bytes.
#ifndef CAUSAL
#define CAUSAL 0
#endif
#ifndef WHOLE
#define WHOLE 0
#endif
#ifndef MELEM
#define MELEM hr_bf16
#endif
#ifndef PLANES // 1: MELEM is bf16
#define PLANES 1
#endif

enum { THREADS = 256, SEEN = 1, ADDS = 2, HIDES = 4, FINITE = 8, PARTS = 16 };
#define HIDDEN (-1e30f)
#define LOW    0xf180u // -2^100

// What 16 keys of a row are.
struct keys16 {
    hr_u32 hidden, nonzero, finite, parts;
};

HR_INLINE hr_u32 bits_of(float x) { // of the nearest bf16
    hr_bf16 y;
    hr_store(&y, x);
    return y.bits;
}
HR_INLINE void split(float x, bool hidden, hr_u32 &first, hr_u32 &second) {
    const hr_u32 near = bits_of(x);
    const float left = x - hr_bits_float(near << 16);
    first = hidden ? LOW : near;
    second = hidden || !(left - left == 0.0f) ? 0u : bits_of(left);
}

// Keys `key` to `key` + 15 of a row, of which `count` are there and `shown` are not later.
HR_INLINE void take(keys16 &m, hr_u32 (&first)[8], hr_u32 (&second)[8], const MELEM *from, hr_i32 count,
                    hr_i32 shown) {
    enum { EACH = WHOLE ? 16 / (int)sizeof(MELEM) : 1 };
    const float none = hr_bits_float(0xff800000u);
    hr_pack<MELEM, EACH> x[16 / EACH];
#pragma unroll
    for (int i = 0; i < 16 / EACH; i++) {
        x[i] = i * EACH < count ? *(const hr_pack<MELEM, EACH> *)(from + i * EACH) : hr_pack<MELEM, EACH>();
    }
#pragma unroll
    for (int i = 0; i < 16; i++) {
        const float y = hr_load(x[i / EACH].at[i % EACH]);
        const bool hidden = i >= shown || y <= HIDDEN;
        hr_u32 one, other;
        split(y, hidden, one, other);
        m.hidden |= hidden ? 1u << i : 0u;
        m.nonzero |= one;
        m.parts |= other;
        m.finite |= i < shown && hidden && y > none ? 1u : 0u;
        first[i / 2] = i % 2 ? first[i / 2] | one << 16 : one;
        second[i / 2] = i % 2 ? second[i / 2] | other << 16 : other;
    }
}
HR_INLINE void put(hr_bf16 *to, const hr_u32 (&x)[8]) {
    *(uint4 *)to = {x[0], x[1], x[2], x[3]};
    *(uint4 *)(to + 8) = {x[4], x[5], x[6], x[7]};
}

// Masks (count, queries, keys); tiles (count, along, across) of them.  A warp has a tile, a thread 16 keys of two rows.
HR_KERNEL __launch_bounds__(THREADS)
    attention_spread(const MELEM *mask, hr_bf16 *copy, hr_u8 *seen, hr_i64 tiles, hr_i64 along, hr_i64 across,
                     hr_i64 queries, hr_i64 keys, hr_i64 plane) {
    const hr_u32 tile = blockIdx.x * (THREADS / 32) + threadIdx.x / 32, line = tile / (hr_u32)across;
    if (tile >= tiles) {
        return; // the whole warp
    }
    const int lane = threadIdx.x % 32;
    const hr_i32 key = (hr_i32)(tile % (hr_u32)across) * 64 + lane % 4 * 16;
    keys16 m = {0, 0, 0, 0};
    hr_u32 shown = 0;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const hr_i32 query = (hr_i32)(line % (hr_u32)along) * 16 + lane / 4 + half * 8;
        const hr_i64 row = (hr_i64)(line / (hr_u32)along) * queries + query;
        const hr_i32 count = query < queries ? (hr_i32)keys - key : 0, later = query + 1 - key;
        hr_u32 first[8], second[8];
        keys16 own = {0, 0, 0, 0};
        take(own, first, second, mask + row * keys + key, count, CAUSAL && later < count ? later : count);
        if (query < queries) {
            put(copy + row * across * 64 + key, first);
            if (PLANES == 2) {
                put(copy + plane + row * across * 64 + key, second);
            }
            shown |= ~own.hidden & 0xffffu;
            m.hidden |= own.hidden;
            m.nonzero |= own.nonzero & 0x7fffu; // minus 0 adds nothing
            m.finite |= own.finite;
            m.parts |= own.parts & 0x7fffu;
        }
    }
    const bool any = __any_sync(0xffffffffu, shown != 0), adds = __any_sync(0xffffffffu, m.nonzero != 0),
               hides = __any_sync(0xffffffffu, m.hidden != 0), finite = __any_sync(0xffffffffu, m.finite != 0),
               parts = __any_sync(0xffffffffu, m.parts != 0);
    if (lane == 0) {
        seen[tile] = (hr_u8)((any ? SEEN : 0) | (adds ? ADDS : 0) | (hides ? HIDES : 0) | (finite ? FINITE : 0) |
                             (parts ? PARTS : 0));
    }
}
