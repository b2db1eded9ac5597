// A mask as words of bits, as the scores of attention_hopper_bits.cu lie: a word is what one thread of a warp has of 16 queries by 64
// keys, those of queries lane / 4 and lane / 4 + 8 and of keys lane % 4 * 16 up to 15 more (`spread` has their order); 1: shown.
//
// MELEM hr_u8: 0 hides.  Numbers are added to scores: HIDDEN and less hides, 0 shows, and all else is added by whoever reads the words.
// A byte for each tile says whether anything is shown (1), is to be added (2), is not shown (4), is hidden by a finite number (8).
// No mask at all shows everything.  CAUSAL hides later keys than the query.  WHOLE: rows are whole pieces of 16 bytes.  COPY: the mask is
// written again with `pitch` elements a row, a multiple of 64; those behind the last key are 0.  TILED: numbers are written again as threads
// have their scores, 1,024 of each tile that has any to add.  TURNED: tiles are 16 keys by 64 queries, for the
// gradient of keys; a thread has queries n * 8 + lane % 4 * 2 and the one behind then, n up to 7.  NATURAL: a thread has keys n * 8 + lane % 4 * 2
// and the one behind, as keys lie (attention_hopper_bits_wide.cu and _pairs.cu).  ELEM is the type of the scores' operands.
#ifndef TURNED
#define TURNED 0
#endif
#ifndef NATURAL
#define NATURAL 0
#endif
#ifndef CAUSAL
#define CAUSAL 0
#endif
#ifndef WHOLE
#define WHOLE 0
#endif
#ifndef COPY
#define COPY 0
#endif
#ifndef TILED
#define TILED 0
#endif
#ifndef MELEM
#define MELEM hr_u8
#endif
#ifndef ELEM
#define ELEM hr_bf16
#endif

// The gradient adds numbers wherever it can: nothing else hides than minus infinity, and tiles with large numbers are FINITE.
#define EXACT (TURNED && TILED)

enum { THREADS = 256, SEEN = 1, ADDS = 2, HIDES = 4, FINITE = 8 };
#define HIDDEN (-1e30f)
#define LARGE  1e5f

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
        const float none = hr_bits_float(0xff800000u);
        const bool hidden = EXACT ? y == none : y <= HIDDEN;
        m.shown |= hidden ? 0u : 1u << (first + i);
        m.adds |= !hidden && y != 0.0f;
        m.finite |= EXACT ? !hidden && !(fabsf(y) <= LARGE) : hidden && y > none;
    }
}
// Halves two at a time, where none is so low that it might hide: sign and two bits of the exponent are not all set.
template <typename T> HR_INLINE void look_halves(keys16 &m, const hr_pack<T, 8> &x, int first) {
    const hr_pack<hr_u32, 4> y = *(const hr_pack<hr_u32, 4> *)&x;
    hr_u32 low = 0, any = 0;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        low |= y.at[i] & y.at[i] << 1 & y.at[i] << 2;
        any |= y.at[i];
    }
    if (EXACT || low & 0x80008000u) {
        look<T, 8>(m, x, first);
    } else {
        m.shown |= 0xffu << first;
        m.adds |= (any & 0x7fff7fffu) != 0;
    }
}
HR_INLINE void look(keys16 &m, const hr_pack<hr_bf16, 8> &x, int first) {
    look_halves(m, x, first);
}
HR_INLINE void look(keys16 &m, const hr_pack<hr_f16, 8> &x, int first) {
    look_halves(m, x, first);
}
// 16 of them in memory, in pieces; what is not there is 0.
enum { EACH = WHOLE ? 16 / (int)sizeof(MELEM) : 1 };
struct row16 {
    hr_pack<MELEM, EACH> at[16 / EACH];
};
HR_INLINE void put_bits(hr_u8 &to, hr_u32 bits) {
    to = (hr_u8)bits;
}
HR_INLINE void put_bits(hr_bf16 &to, hr_u32 bits) {
    to.bits = (hr_u16)bits;
}
HR_INLINE void put_bits(hr_f16 &to, hr_u32 bits) {
    to.bits = (hr_u16)bits;
}
HR_INLINE void put_bits(float &to, hr_u32 bits) {
    to = __uint_as_float(bits);
}
// Pieces of 16 bytes as they lie in memory, of which some of what is asked for is a part, and shifted.
HR_INLINE void fetch_shifted(row16 &x, const MELEM *from, hr_i32 count) {
    enum { SIZE = (int)sizeof(MELEM), WORDS = 4 * SIZE, IN_WORD = 4 / SIZE };
    const hr_u32 skew = (hr_u32)(size_t)from & 15u;
    const hr_i32 there = count < 16 ? count : 16, end = there > 0 ? (hr_i32)skew + there * SIZE : 0;
    const char *const at = (const char *)from - skew;
    hr_u32 w[WORDS + 4];
#pragma unroll
    for (int i = 0; i <= SIZE; i++) {
        const uint4 y = i * 16 < end ? *(const uint4 *)(at + i * 16) : make_uint4(0, 0, 0, 0);
        w[4 * i] = y.x;
        w[4 * i + 1] = y.y;
        w[4 * i + 2] = y.z;
        w[4 * i + 3] = y.w;
    }
#pragma unroll
    for (int i = 0; i < WORDS + 2; i++) {
        w[i] = skew & 8u ? w[i + 2] : w[i];
    }
#pragma unroll
    for (int i = 0; i < WORDS + 1; i++) {
        w[i] = skew & 4u ? w[i + 1] : w[i];
    }
#pragma unroll
    for (int i = 0; i < WORDS; i++) {
        w[i] = (hr_u32)(((hr_u64)w[i + 1] << 32 | w[i]) >> (skew & 3u) * 8);
    }
#pragma unroll
    for (int i = 0; i < 16; i++) {
        put_bits(x.at[i / EACH].at[i % EACH],
                 i < count ? w[i / IN_WORD] >> i % IN_WORD * (8 * SIZE) : 0u);
    }
}
HR_INLINE void fetch(row16 &x, const MELEM *from, hr_i32 count) {
    if (!WHOLE) {
        fetch_shifted(x, from, count);
        return;
    }
    const hr_pack<MELEM, EACH> zeros = {};
#pragma unroll
    for (int i = 0; i < 16 / EACH; i++) {
        x.at[i] = i * EACH < count ? *(const hr_pack<MELEM, EACH> *)(from + i * EACH) : zeros;
    }
}
// To a row of whole pieces.
HR_INLINE void put_row(MELEM *to, const row16 &x) {
    enum { WIDE = 16 / (int)sizeof(MELEM) };
#pragma unroll
    for (int i = 0; i < 16; i += WIDE) {
        hr_pack<MELEM, WIDE> y;
#pragma unroll
        for (int k = 0; k < WIDE; k++) {
            y.at[k] = x.at[(i + k) / EACH].at[(i + k) % EACH];
        }
        *(hr_pack<MELEM, WIDE> *)(to + i) = y;
    }
}
// The first so many of 16.
HR_INLINE hr_u32 up_to(hr_i32 count) {
    return count <= 0 ? 0u : count > 15 ? 0xffffu : (1u << count) - 1u;
}
// Key n * 2 + i of the first 16 queries has bit n % 4 * 2 of byte n / 4 * 2 + i, and of the others the bit behind it.
HR_INLINE hr_u32 spread(hr_u32 x) {
    return (x & 0x55u) | (x & 0xaau) << 7 | (x & 0x5500u) << 8 | (x & 0xaa00u) << 15;
}

// The first two bits of each byte, side by side.
HR_INLINE hr_u32 pairs(hr_u32 x) {
    return (x & 3u) | (x >> 6 & 12u) | (x >> 12 & 48u) | (x >> 18 & 192u);
}

// A tile's; whether it has numbers to add.
HR_INLINE bool put(const keys16 (&m)[2], hr_u32 *words, hr_u8 *seen) {
    const int lane = threadIdx.x % 32;
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
    if (NATURAL) { // four neighbours have the keys of each other
        const hr_u32 both = m[0].shown | m[1].shown << 16;
        const int pair = lane % 4 * 2;
        own[0] = own[1] = 0;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const hr_u32 x = __shfl_sync(0xffffffffu, both, (lane & ~3) + i) >> pair;
            own[0] |= ((x & 3u) | (x >> 6 & 12u)) << (4 * i);
            own[1] |= ((x >> 16 & 3u) | (x >> 22 & 12u)) << (4 * i);
        }
    }
    const hr_u32 word = spread(own[0]) | spread(own[1]) << 1;
    words[lane] = word;
    const bool any = __any_sync(0xffffffffu, word != 0), all = __all_sync(0xffffffffu, word == ~0u),
               adds = __any_sync(0xffffffffu, m[0].adds || m[1].adds),
               finite = __any_sync(0xffffffffu, m[0].finite || m[1].finite);
    if (lane == 0) {
        *seen = (hr_u8)((any ? SEEN : 0) | (adds ? ADDS : 0) | (all ? 0 : HIDES) |
                        (finite ? FINITE : 0));
    }
    return adds;
}

// The numbers of a tile: piece after piece of 16 bytes, of all lanes each; for each pair of neighbouring columns a thread has two of its first
// row, then two of the other.  What is hidden adds 0.
enum { WIDE = 16 / (int)sizeof(MELEM) };
HR_INLINE void put_numbers(MELEM *tile, const row16 (&x)[2]) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int first = 0; first < 32; first += WIDE) {
        hr_pack<MELEM, WIDE> y;
#pragma unroll
        for (int i = 0; i < WIDE; i++) {
            const int key = (first + i) / 4 * 2 + i % 2;
            const MELEM number = x[(first + i) / 2 % 2].at[key / EACH].at[key % EACH];
            y.at[i] = hr_load(number) <= HIDDEN ? MELEM{} : number;
        }
        *(hr_pack<MELEM, WIDE> *)(tile + (first / WIDE * 32 + lane) * WIDE) = y;
    }
}
// The same of 16 keys by 64 queries; a thread has the 16 keys of two queries, and `room` is the warp's.
HR_INLINE void put_turned(MELEM *tile, const row16 (&x)[2], MELEM *room) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int half = 0; half < 2; half++) {
#pragma unroll
        for (int key = 0; key < 16; key++) {
            const MELEM number = x[half].at[key / EACH].at[key % EACH];
            const int i = (half * 4 + lane / 8) * 4 + key / 8 * 2 + lane % 2;
            room[(i / WIDE * 32 + key % 8 * 4 + lane % 8 / 2) * WIDE + i % WIDE] =
                hr_load(number) == hr_bits_float(0xff800000u) ? MELEM{} : number;
        }
    }
    __syncwarp();
#pragma unroll
    for (int i = 0; i < 1024; i += 32 * WIDE) {
        *(hr_pack<MELEM, WIDE> *)(tile + i + lane * WIDE) =
            *(const hr_pack<MELEM, WIDE> *)(room + i + lane * WIDE);
    }
}

// Masks (count, rows, keys), rows as many as queries or 1; tiles (count, along, across) of them.  Where all queries see the same there
// is one tile of queries, of which along or across is 1 then.  A warp has a tile.
// `zeros`: counters with which a later kernel begins (attention_hopper_bits_wide.cuh).
HR_KERNEL __launch_bounds__(THREADS)
    attention_words(const MELEM *mask, hr_u32 *words, hr_u8 *seen, hr_i64 tiles, hr_i64 along,
                    hr_i64 across, hr_i64 rows, hr_i64 queries, hr_i64 keys, MELEM *copy,
                    hr_i64 pitch, hr_u32 *zeros, hr_u32 zero_count) {
    for (hr_u32 i = threadIdx.x; blockIdx.x == 0 && i < zero_count; i += THREADS) {
        zeros[i] = 0;
    }
    __shared__ uint4 rooms[THREADS / 32][EXACT ? 64 * sizeof(MELEM) : 1];
    const hr_u32 tile = blockIdx.x * (THREADS / 32) + threadIdx.x / 32,
                 line = tile / (hr_u32)across;
    if (tile >= tiles) {
        return; // the whole warp
    }
    const int lane = threadIdx.x % 32;
    const hr_i64 step = rows == 1 ? 0 : keys;
    const hr_i32 r0 = (hr_i32)(line % (hr_u32)along) * 16,
                 c0 = (hr_i32)(tile % (hr_u32)across) * 64;
    row16 x[2];
    hr_i32 count[2]; // keys that are there
    keys16 m[2];
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const hr_i32 query = TURNED ? c0 + lane + half * 32 : r0 + lane / 4 + half * 8;
        const hr_i32 key = TURNED ? r0 : c0 + lane % 4 * 16;
        // One tile of queries stands for all of them.
        const bool there = query < queries || (rows == 1 && !CAUSAL);
        count[half] = there ? (hr_i32)keys - key : 0;
        fetch(x[half], mask + ((hr_i64)(line / (hr_u32)along) * rows * keys + query * step + key),
              mask == nullptr ? 0 : count[half]);
        if (COPY && query < rows) {
            put_row(copy + ((hr_i64)(line / (hr_u32)along) * rows + query) * pitch + key, x[half]);
        }
        if (CAUSAL) { // later keys are not
            count[half] = count[half] < query - key + 1 ? count[half] : query - key + 1;
        }
    }
#pragma unroll
    for (int half = 0; half < 2; half++) {
        m[half] = {0, false, false};
#pragma unroll
        for (int k = 0; k < 16 / EACH; k++) {
            look(m[half], x[half].at[k], k * EACH);
        }
        m[half].shown = (mask == nullptr ? 0xffffu : m[half].shown) & up_to(count[half]);
    }
    const bool adds = put(m, words + (hr_i64)tile * 32, seen + tile);
    if (TILED && !TURNED && adds) {
        put_numbers(copy + (hr_i64)tile * 1024, x);
    }
    if (EXACT && adds) {
        put_turned(copy + (hr_i64)tile * 1024, x, (MELEM *)rooms[threadIdx.x / 32]);
    }
}

// A number in three parts that add up to it; what is left behind them is 0 where it is infinite.
HR_INLINE void split(float left, hr_u32 (&parts)[3], hr_bf16) {
#pragma unroll
    for (int i = 0; i < 3; i++) {
        parts[i] = __float_as_uint(left) >> 16;
        left = left - left == 0.0f ? left - hr_bits_float(parts[i] << 16) : 0.0f;
    }
}
// Of f16 the first part is over 2^15, which takes numbers up to 65,504 over a scale of 2^-15.
HR_INLINE void split(float left, hr_u32 (&parts)[3], hr_f16) {
#pragma unroll
    for (int i = 0; i < 3; i++) {
        const float by = i == 0 ? 32768.0f : 1.0f;
        hr_f16 part;
        hr_store(&part, left / by);
        parts[i] = part.bits;
        left = left - left == 0.0f ? left - hr_load(part) * by : 0.0f;
    }
}

// The same of masks of one row for all queries, as numbers: of each key three of ELEM that add up to its number over the scale (minus
// infinity where it is hidden) and five of 0, keys up to a whole tile.  A warp has a tile of 64 keys; tiles (count, across).
HR_KERNEL __launch_bounds__(THREADS)
    attention_key_numbers(const MELEM *mask, uint4 *numbers, hr_u8 *seen, hr_i64 tiles,
                          hr_i64 across, hr_i64 keys, float over) {
    const hr_u32 tile = blockIdx.x * (THREADS / 32) + threadIdx.x / 32, right = (hr_u32)across;
    if (tile >= tiles) {
        return; // the whole warp
    }
    bool any = false, adds = false, hides = false, finite = false;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const hr_i32 own = threadIdx.x % 32 + half * 32, key = (hr_i32)(tile % right) * 64 + own;
        const float none = hr_bits_float(0xff800000u),
                    x = key < keys ? hr_load(mask[(hr_i64)(tile / right) * keys + key]) : none;
        const bool hidden = sizeof(MELEM) == 1 ? key >= keys || x == 0.0f : x <= HIDDEN;
        const float left = hidden ? none : sizeof(MELEM) == 1 ? 0.0f : x * over;
        hr_u32 parts[3];
        any |= !hidden;
        hides |= hidden;
        adds |= !hidden && left != 0.0f;
        finite |= hidden && sizeof(MELEM) > 1 && x > none;
        split(left, parts, ELEM());
        numbers[(hr_i64)tile * 64 + own] = {parts[0] | parts[1] << 16, parts[2], 0, 0};
    }
    any = __any_sync(0xffffffffu, any);
    adds = __any_sync(0xffffffffu, adds);
    hides = __any_sync(0xffffffffu, hides);
    finite = __any_sync(0xffffffffu, finite);
    if (threadIdx.x % 32 == 0) {
        seen[tile] = (hr_u8)((any ? SEEN : 0) | (adds ? ADDS : 0) | (hides ? HIDES : 0) |
                             (finite ? FINITE : 0));
    }
}

// The same as rows of f32, one number a key, over the scale: minus infinity where it is hidden, and behind the last one.
HR_KERNEL __launch_bounds__(THREADS)
    attention_key_row(const MELEM *mask, float *row, hr_u8 *seen, hr_i64 tiles, hr_i64 across,
                      hr_i64 keys, float over) {
    const hr_u32 tile = blockIdx.x * (THREADS / 32) + threadIdx.x / 32, right = (hr_u32)across;
    if (tile >= tiles) {
        return; // the whole warp
    }
    bool any = false, adds = false, hides = false, finite = false;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const hr_i32 own = threadIdx.x % 32 + half * 32, key = (hr_i32)(tile % right) * 64 + own;
        const float none = hr_bits_float(0xff800000u),
                    x = key < keys ? hr_load(mask[(hr_i64)(tile / right) * keys + key]) : none;
        const bool hidden = sizeof(MELEM) == 1 ? key >= keys || x == 0.0f : x <= HIDDEN;
        const float left = hidden ? none : sizeof(MELEM) == 1 ? 0.0f : x * over;
        any |= !hidden;
        hides |= hidden;
        adds |= !hidden && left != 0.0f;
        finite |= hidden && sizeof(MELEM) > 1 && x > none;
        row[(hr_i64)tile * 64 + own] = left;
    }
    any = __any_sync(0xffffffffu, any);
    adds = __any_sync(0xffffffffu, adds);
    hides = __any_sync(0xffffffffu, hides);
    finite = __any_sync(0xffffffffu, finite);
    if (threadIdx.x % 32 == 0) {
        seen[tile] = (hr_u8)((any ? SEEN : 0) | (adds ? ADDS : 0) | (hides ? HIDES : 0) |
                             (finite ? FINITE : 0));
    }
}
