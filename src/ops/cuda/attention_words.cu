// A mask as words of bits, as the scores of attention_hopper_bits.cu lie: a word is what one thread of a warp has of 16 queries by 64
// keys, those of queries lane / 4 and lane / 4 + 8 and of keys lane % 4 * 16 up to 15 more (`spread` has their order); 1: shown.
//
// MELEM hr_u8: 0 hides.  Numbers are added to scores: HIDDEN and less hides, 0 shows, and all else is added by whoever reads the words.
// A byte for each tile says whether anything is shown (1), is to be added (2), is not shown (4), is hidden by a finite number (8).
// No mask at all shows everything.  CAUSAL hides later keys than the query.  WHOLE: rows are whole pieces of 16 bytes.  TURNED: tiles are 16 keys by 64 queries, for the
// gradient of keys; a thread has queries n * 8 + lane % 4 * 2 and the one behind then, n up to 7.
#ifndef TURNED
#define TURNED 0
#endif
#ifndef CAUSAL
#define CAUSAL 0
#endif
#ifndef WHOLE
#define WHOLE 0
#endif
#ifndef MELEM
#define MELEM hr_u8
#endif

enum { THREADS = 256, SEEN = 1, ADDS = 2, HIDES = 4, FINITE = 8 };
#define HIDDEN (-1e30f)

// Of 16 keys side by side, a bit each.
struct keys16 {
    hr_u32 shown;
    bool adds, finite;
};

template <int N> HR_INLINE void look(keys16 &m, const hr_pack<hr_u8, N> &x, int first) {
#pragma unroll
    for (int i = 0; i < N; i++) {
        m.shown |= x.at[i] ? 1u << (first + i) : 0u;
    }
}
// Bytes that are not 0 have their highest bit set, and four of those bits come side by side by a product.
HR_INLINE void look(keys16 &m, const hr_pack<hr_u8, 16> &x, int) {
    const hr_pack<hr_u32, 4> y = *(const hr_pack<hr_u32, 4> *)&x;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const hr_u32 set = (((y.at[i] & 0x7f7f7f7fu) + 0x7f7f7f7fu) | y.at[i]) & 0x80808080u;
        m.shown |= (set >> 7) * 0x01020408u >> 24 << (4 * i);
    }
}
template <typename T, int N> HR_INLINE void look(keys16 &m, const hr_pack<T, N> &x, int first) {
#pragma unroll
    for (int i = 0; i < N; i++) {
        const float y = hr_load(x.at[i]);
        const bool hidden = y <= HIDDEN;
        m.shown |= hidden ? 0u : 1u << (first + i);
        m.adds |= !hidden && y != 0.0f;
        m.finite |= hidden && y > hr_bits_float(0xff800000u);
    }
}
// `count` of the 16 are there; the others are hidden.
HR_INLINE keys16 look_at(const MELEM *from, hr_i64 count) {
    enum { EACH = WHOLE ? 16 / (int)sizeof(MELEM) : 1 };
    keys16 m = {0, false, false};
    hr_pack<MELEM, EACH> x[16 / EACH];
#pragma unroll
    for (int i = 0; i < 16; i += EACH) {
        if (i < count) {
            x[i / EACH] = *(const hr_pack<MELEM, EACH> *)(from + i);
        }
    }
#pragma unroll
    for (int i = 0; i < 16; i += EACH) {
        if (i < count) {
            look(m, x[i / EACH], i);
        }
    }
    return m;
}
// Key n * 2 + i of the first 16 queries has bit n % 4 * 2 of byte n / 4 * 2 + i, and of the others the bit behind it.
HR_INLINE hr_u32 spread(hr_u32 x) {
    return (x & 0x55u) | (x & 0xaau) << 7 | (x & 0x5500u) << 8 | (x & 0xaa00u) << 15;
}

// The first two bits of each byte, side by side.
HR_INLINE hr_u32 pairs(hr_u32 x) {
    return (x & 3u) | (x >> 6 & 12u) | (x >> 12 & 48u) | (x >> 18 & 192u);
}

// Masks (count, rows, keys), rows as many as queries or 1; tiles (count, along, across) of them.  Where all queries see the same there
// is one tile of queries, of which along or across is 1 then.  A warp has a tile.
HR_KERNEL __launch_bounds__(THREADS)
    attention_words(const MELEM *mask, hr_u32 *words, hr_u8 *seen, hr_i64 tiles, hr_i64 along,
                    hr_i64 across, hr_i64 rows, hr_i64 queries, hr_i64 keys) {
    const hr_i64 tile = (hr_i64)blockIdx.x * (THREADS / 32) + threadIdx.x / 32;
    if (tile >= tiles) {
        return; // the whole warp
    }
    const int lane = threadIdx.x % 32;
    const hr_i64 r0 = tile / across % along * 16, c0 = tile % across * 64;
    const hr_i64 step = rows == 1 ? 0 : keys;
    const bool all_shown = mask == nullptr;
    mask += tile / across / along * rows * keys;
    keys16 m[2];
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const hr_i64 query = TURNED ? c0 + lane + half * 32 : r0 + lane / 4 + half * 8;
        const hr_i64 key = TURNED ? r0 : c0 + lane % 4 * 16;
        // One tile of queries stands for all of them.
        const bool there = query < queries || (rows == 1 && !CAUSAL);
        const hr_i64 count = there ? keys - key : 0;
        if (all_shown) {
            m[half] = {count <= 0 ? 0u : count > 15 ? 0xffffu : (1u << count) - 1u, false, false};
        } else {
            m[half] = look_at(mask + query * step + key, count);
        }
        if (CAUSAL) {
            const hr_i64 left = query - key; // the last of the 16 that it sees
            m[half].shown &= left < 0 ? 0u : left > 15 ? 0xffffu : (2u << left) - 1u;
        }
    }
    hr_u32 own[2] = {m[0].shown, m[1].shown};
    if (TURNED) {
#pragma unroll
        for (int key = 0; key < 16; key++) {
            const hr_u32 low = __ballot_sync(0xffffffffu, m[0].shown >> key & 1u),
                         high = __ballot_sync(0xffffffffu, m[1].shown >> key & 1u);
            if (key % 8 == lane / 4) {
                own[key / 8] = pairs(low >> lane % 4 * 2) | pairs(high >> lane % 4 * 2) << 8;
            }
        }
    }
    const hr_u32 word = spread(own[0]) | spread(own[1]) << 1;
    words[tile * 32 + lane] = word;
    const bool any = __any_sync(0xffffffffu, word != 0), all = __all_sync(0xffffffffu, word == ~0u),
               adds = __any_sync(0xffffffffu, m[0].adds || m[1].adds),
               finite = __any_sync(0xffffffffu, m[0].finite || m[1].finite);
    if (lane == 0) {
        seen[tile] = (hr_u8)((any ? SEEN : 0) | (adds ? ADDS : 0) | (all ? 0 : HIDES) |
                             (finite ? FINITE : 0));
    }
}
