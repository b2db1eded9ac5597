// A mask of numbers as kernels add it by products: numbers of 2 bytes, rows as many as queries, keys up to a whole tile of 64.
//
// A product multiplies every number of a row, so all are finite: what hides (HIDDEN and less, minus infinity, later keys where CAUSAL,
// keys behind the last) is LOW, a number of bf16 that times 1 / scale is far below every score and still finite.  PLANES 2: a second plane lies
// `plane` elements behind the first.  Numbers of f32 are two of bf16 that add up to them (17 bits); f16 has no number as low, so its numbers are as
// they are, and the second plane is bf16 and hides.
//
// A byte for each tile of 16 queries by 64 keys says whether anything is shown (1), is to be added (2, hiding is adding), is not shown (4), is
// hidden by a finite number (8), has anything in the second plane (16).  WHOLE: rows are whole pieces of 16 bytes.
//
// WORDS: for threads that add them.  Then LOW is minus infinity, words of bits hide too, as attention_words.cu has them, hiding is not adding, and
// the second plane is written only in tiles that have anything there.
#ifndef CAUSAL
#define CAUSAL 0
#endif
#ifndef WHOLE
#define WHOLE 0
#endif
#ifndef MELEM
#define MELEM hr_bf16
#endif
#ifndef COPY // 0: only what each tile does
#define COPY 1
#endif
#ifndef WORDS
#define WORDS 0
#endif
#ifndef PLANES // 1: MELEM is bf16
#define PLANES 1
#endif

enum { THREADS = 256, SEEN = 1, ADDS = 2, HIDES = 4, FINITE = 8, PARTS = 16 };
#define HIDDEN (-1e30f)
#define LOW    (WORDS ? 0xff80u : 0xf180u) // -2^100

// What 16 keys of a row are.
struct keys16 {
    hr_u32 hidden, nonzero, finite, parts;
};

HR_INLINE hr_u32 bits_of(float x) { // of the nearest bf16
    hr_bf16 y;
    hr_store(&y, x);
    return y.bits;
}
HR_INLINE void split(hr_bf16 x, bool hidden, hr_u32 &first, hr_u32 &second) {
    first = hidden ? LOW : x.bits;
    second = 0;
}
HR_INLINE void split(float x, bool hidden, hr_u32 &first, hr_u32 &second) {
    const hr_u32 near = bits_of(x);
    const float left = x - hr_bits_float(near << 16);
    first = hidden ? LOW : near;
    second = hidden || !(left - left == 0.0f) ? 0u : bits_of(left);
}
HR_INLINE void split(hr_f16 x, bool hidden, hr_u32 &first, hr_u32 &second) {
    first = hidden ? 0u : x.bits;
    second = hidden ? LOW : 0u;
}

// Numbers of bf16 of which none is so low that it might hide: sign and two bits of the exponent are not all set.
template <typename T> HR_INLINE bool as_they_are(keys16 &m, hr_u32 (&first)[8], const T &x) {
    const hr_u32 *const words = (const hr_u32 *)&x;
    hr_u32 low = 0, any = 0;
#pragma unroll
    for (int i = 0; i < 8; i++) {
        first[i] = words[i];
        low |= words[i] & words[i] << 1 & words[i] << 2;
        any |= words[i];
    }
    m.nonzero = (any | any >> 16) & 0x7fffu;
    return !(low & 0x80008000u);
}
// Numbers of f32 of which none is large, so that none hides, or which are all minus infinity.
template <typename T>
HR_INLINE bool in_short(keys16 &m, hr_u32 (&first)[8], hr_u32 (&second)[8], const T &x) {
    enum { COUNT = (int)sizeof(T) / 4 }; // 16
    const hr_u32 *const words = (const hr_u32 *)&x;
    const hr_u32 none = 0xff800000u;
    hr_u32 large = 0, unlike = 0;
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
        large |= words[i] & words[i] << 1;
        unlike |= words[i] ^ none;
    }
    if (unlike == 0) {
#pragma unroll
        for (int i = 0; i < 8; i++) {
            first[i] = LOW << 16 | LOW;
            second[i] = 0;
        }
        m.hidden = 0xffffu;
        m.nonzero = WORDS ? 0u : 1u;
        return true;
    }
    if (large & 0x40000000u) { // two bits of the exponent
        return false;
    }
#pragma unroll
    for (int i = 0; i < COUNT; i += 2) {
        const float y[2] = {hr_bits_float(words[i]), hr_bits_float(words[i + 1])};
        const hr_u32 one = bits_of(y[0]) | bits_of(y[1]) << 16;
        first[i / 2] = one;
        second[i / 2] = bits_of(y[0] - hr_bits_float(one << 16)) |
                        bits_of(y[1] - hr_bits_float(one & 0xffff0000u)) << 16;
        m.parts |= second[i / 2] & 0x7fff7fffu;
        m.nonzero |= one & 0x7fff7fffu;
    }
    return true;
}
// 16 keys of a row in memory, in pieces; what is not there is 0.
enum { EACH = WHOLE ? 16 / (int)sizeof(MELEM) : 1 };
struct row16 {
    hr_pack<MELEM, EACH> at[16 / EACH];
};
HR_INLINE void fetch(row16 &x, const MELEM *from, hr_i32 count) {
    const hr_pack<MELEM, EACH> zeros = {};
#pragma unroll
    for (int i = 0; i < 16 / EACH; i++) {
        x.at[i] = i * EACH < count ? *(const hr_pack<MELEM, EACH> *)(from + i * EACH) : zeros;
    }
}
// The first `shown` of them are there, and not later than the query.
HR_INLINE void take(keys16 &m, hr_u32 (&first)[8], hr_u32 (&second)[8], const row16 &x, hr_i32 shown) {
    const float none = hr_bits_float(0xff800000u);
    if (PLANES == 1 && WHOLE && shown >= 16 && as_they_are(m, first, x)) {
        return;
    }
    if (sizeof(MELEM) == 4 && WHOLE && shown >= 16 && in_short(m, first, second, x)) {
        return;
    }
#pragma unroll
    for (int i = 0; i < 16; i++) {
        const MELEM number = x.at[i / EACH].at[i % EACH];
        const float y = hr_load(number);
        const bool hidden = i >= shown || y <= HIDDEN;
        hr_u32 one, other;
        split(number, hidden, one, other);
        m.hidden |= hidden ? 1u << i : 0u;
        m.nonzero |= WORDS && hidden ? 0u : (one | other) & 0x7fffu; // minus 0 adds nothing
        m.parts |= other & 0x7fffu;
        m.finite |= i < shown && hidden && y > none ? 1u : 0u;
        first[i / 2] = i % 2 ? first[i / 2] | one << 16 : one;
        second[i / 2] = i % 2 ? second[i / 2] | other << 16 : other;
    }
}
HR_INLINE void put(hr_bf16 *to, const hr_u32 (&x)[8]) {
    *(uint4 *)to = {x[0], x[1], x[2], x[3]};
    *(uint4 *)(to + 8) = {x[4], x[5], x[6], x[7]};
}

// Key n * 2 + i of one row has bit n % 4 * 2 of byte n / 4 * 2 + i, and of the other the bit behind it (attention_words.cu).
HR_INLINE hr_u32 every_second(hr_u32 x) {
    return (x & 0x55u) | (x & 0xaau) << 7 | (x & 0x5500u) << 8 | (x & 0xaa00u) << 15;
}

// Masks (count, queries, keys); tiles (count, along, across) of them.  A warp has a tile, a thread 16 keys of two rows.
// `zeros`: counters with which a later kernel begins (attention_hopper_bits_wide.cuh).
HR_KERNEL __launch_bounds__(THREADS)
    attention_spread(const MELEM *mask, hr_bf16 *copy, hr_u8 *seen, hr_i64 tiles, hr_i64 along, hr_i64 across,
                     hr_i64 queries, hr_i64 keys, hr_i64 plane, hr_u32 *zeros, hr_u32 zero_count, hr_u32 *words) {
    for (hr_u32 i = threadIdx.x; blockIdx.x == 0 && i < zero_count; i += THREADS) {
        zeros[i] = 0;
    }
    const hr_u32 tile = blockIdx.x * (THREADS / 32) + threadIdx.x / 32, line = tile / (hr_u32)across;
    if (tile >= tiles) {
        return; // the whole warp
    }
    const int lane = threadIdx.x % 32;
    const hr_i32 key = (hr_i32)(tile % (hr_u32)across) * 64 + lane % 4 * 16;
    const hr_i32 r0 = (hr_i32)(line % (hr_u32)along) * 16 + lane / 4;
    const hr_i64 row = (hr_i64)(line / (hr_u32)along) * queries + r0;
    keys16 m = {0, 0, 0, 0};
    hr_u32 shown[2] = {0, 0}, second[2][8];
    row16 x[2];
#pragma unroll
    for (int half = 0; half < 2; half++) {
        fetch(x[half], mask + (row + half * 8) * keys + key, r0 + half * 8 < queries ? (hr_i32)keys - key : 0);
    }
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const hr_i32 query = r0 + half * 8, there = (hr_i32)keys - key, later = query + 1 - key;
        hr_bf16 *const to = copy + (row + half * 8) * across * 64 + key;
        hr_u32 first[8];
        keys16 own = {0, 0, 0, 0};
        take(own, first, second[half], x[half], CAUSAL && later < there ? later : there);
        if (query < queries) {
            if (COPY) {
                put(to, first);
            }
            if (COPY && PLANES == 2 && !WORDS) {
                put(to + plane, second[half]);
            }
            shown[half] = ~own.hidden & 0xffffu;
            m.hidden |= own.hidden;
            m.nonzero |= own.nonzero;
            m.finite |= own.finite;
            m.parts |= own.parts;
        }
    }
    const bool any = __any_sync(0xffffffffu, (shown[0] | shown[1]) != 0), adds = __any_sync(0xffffffffu, m.nonzero != 0),
               hides = __any_sync(0xffffffffu, m.hidden != 0), finite = __any_sync(0xffffffffu, m.finite != 0),
               parts = __any_sync(0xffffffffu, m.parts != 0);
#pragma unroll
    for (int half = 0; half < 2 && WORDS; half++) {
        if (parts && r0 + half * 8 < queries) {
            put(copy + plane + (row + half * 8) * across * 64 + key, second[half]);
        }
    }
    if (WORDS) {
        words[(hr_i64)tile * 32 + lane] = every_second(shown[0]) | every_second(shown[1]) << 1;
    }
    if (lane == 0) {
        seen[tile] = (hr_u8)((any ? SEEN : 0) | (adds ? ADDS : 0) | (hides ? HIDES : 0) | (finite ? FINITE : 0) |
                             (parts ? PARTS : 0));
    }
}
