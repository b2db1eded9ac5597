// What attention.cu and attention_grad.cu share, between the prelude and them: attention on tensor cores, for 2-byte types.
//
//   s = scale q k'   p = exp(s - lse)   o = p v      delta = rowsum(o do)   ds = p (do v' - delta)
//   dv = p' do   dk = scale ds' q   dq = scale ds k
//
// Forward, a block has BQ queries and goes over the keys with a running maximum and sum.  Backward, one pass has a tile
// of queries and makes dq, another has a tile of keys and makes dk and dv; each makes the probabilities again, so that
// nothing is added into from two sides and the bits are the same every time.
//
// A warp owns 16 rows (MT times, backward MG) of what its block keeps.  All products take their left operand from registers: the pass
// over queries works with k q' (turned), so that p' and ds' are where the next product wants them.  Tiles of the other
// side come through two stages of shared memory; their rows are 16 bytes longer than needed, which keeps ldmatrix free
// of bank conflicts.
//
// Defines: ELEM; DP, the depth in whole sixteens, at most 128; CAUSAL; MT; BK, keys a step; MG and BG, the same for the passes backward.
#ifndef ELEM
#define ELEM   hr_bf16
#define DP     64
#define CAUSAL 1
#define MT     2
#define BK     64
#define MG     2
#define BG     32
#endif

// MASKED: numbers of type MELEM are added to the scores, and with DROP probabilities are dropped: attention_masked.  Tiles of
// 32 by 32 that the mask hides whole are skipped, and where it adds nothing it is not read (attention_flags.cu has looked).
#ifndef MASKED
#define MASKED 0
#endif
#ifndef DROP
#define DROP 0
#endif
// MROWS 0: the mask has one row for all queries.
#ifndef MROWS
#define MROWS 1
#endif
#if MASKED
#ifndef MELEM
#define MELEM float
#endif
#define EXTRA , const MELEM *mask, const hr_u8 *flags, const hr_control *control, extra e
#else
#define EXTRA
#endif

enum {
    THREADS = 128,
    WARPS = 4,
    STEPS = DP / 16,
    TILES = DP / 8,
    PITCH = DP + 8,
    BQ = 16 * MT * WARPS, // queries of a block, forward
    BM = 16 * MG * WARPS, // rows of a block, backward
    // Whether fragments of the block's own rows stay in registers: forward and for dq, for dk and dv.
    HOLD = DP <= 64,
    HOLD_KEYS = DP <= 64 && MG == 1
};

// ops/common/attention_cuda.c has the same.  Elements from sample to sample and from place to place.
struct shape {
    hr_i64 queries, keys;
    hr_i64 q_batch, q_row, k_batch, k_row, v_batch, v_row, o_batch, o_row;
    hr_i32 heads, depth;
    float scale;
    hr_i32 group; // heads of q to a head of k and v
};

#define HR_LOG2E 1.4426950408889634f

HR_INLINE float none() {
    return hr_bits_float(0xff800000u); // minus infinity
}

#if MASKED

// As attention_cuda.c has it; strides of 0 are the same for all.
struct extra {
    hr_i64 mask_batch, mask_head, mask_row;
    hr_i64 flag_batch, flag_head, flag_row;
    float drop, keep;
    hr_u32 node, pairs; // pairs: two neighbours may be read at once
};

enum { SEEN = 1, ADDS = 2, HIDES = 4, FINITE = 8 };

// Two neighbours of a mask as they lie: small types in one word.
template <typename T> struct neighbours {
    hr_u32 word;

    HR_INLINE void take(const T *a, const T *b, bool pair) {
        word = pair ? *(const hr_u32 *)a : (hr_u32)b->bits << 16 | a->bits;
    }
    HR_INLINE float low() const {
        T x;
        x.bits = (hr_u16)(word & 0xffffu);
        return hr_load(x);
    }
    HR_INLINE float high() const {
        T x;
        x.bits = (hr_u16)(word >> 16);
        return hr_load(x);
    }
};
template <> struct neighbours<float> {
    float2 both;

    HR_INLINE void take(const float *a, const float *b, bool pair) {
        if (pair) {
            both = *(const float2 *)a;
        } else {
            both.x = *a;
            both.y = *b;
        }
    }
    HR_INLINE float low() const {
        return both.x;
    }
    HR_INLINE float high() const {
        return both.y;
    }
};

// The mask of one head.
struct head_mask {
    const MELEM *at;
    const hr_u8 *flags;
    hr_i64 row, flag_row;
    bool pairs;
    float over; // 1 / scale: scores are scaled later

    HR_INLINE void init(const MELEM *mask, const hr_u8 *all, const extra &e, hr_i64 b, hr_i64 h,
                        float scale) {
        at = mask ? mask + b * e.mask_batch + h * e.mask_head : mask;
        flags = all ? all + b * e.flag_batch + h * e.flag_head : all;
        row = e.mask_row;
        flag_row = e.flag_row;
        pairs = e.pairs != 0;
        over = 1.0f / scale;
    }
    // SEEN, ADDS, HIDES and FINITE of these queries and keys, both from whole tiles of 32 on or inside of one.
    HR_INLINE hr_u32 of(hr_i64 q0, int rows, hr_i64 queries, hr_i64 k0, int columns,
                        hr_i64 keys) const {
        hr_u32 all = at ? 0 : SEEN;
        if (at) {
            for (hr_i64 i = q0 / 32; i * 32 < q0 + rows && i * 32 < queries; i++) {
                for (hr_i64 j = k0 / 32; j * 32 < k0 + columns && j * 32 < keys; j++) {
                    all |= flags[i * flag_row + j];
                }
            }
        }
        return all;
    }
    // A score with a number of the mask.  Finite ones stay finite, so that a query that sees none but those weighs them.
    HR_INLINE float on(float s, float x, bool hides) const {
        const float sum = fmaf(x, over, s);
        return !hides ? sum : x == none() ? x : sum < ROW_LOWEST ? ROW_LOWEST : sum;
    }
    // Where the numbers of a query and a key lie; behind the last of either, where those of another do.
    HR_INLINE const MELEM *place(hr_i64 i, hr_i64 j, hr_i64 queries, hr_i64 keys) const {
        return at + (MROWS ? (i < queries ? i : queries - 1) * row : 0) + (j < keys ? j : 0);
    }
    // That of a query and a key.
    HR_INLINE float single(hr_i64 i, hr_i64 j, hr_i64 queries, hr_i64 keys) const {
        return hr_load(*place(i, j, queries, keys));
    }
    // And of a query and the keys j, which is even, and j + 1.
    HR_INLINE void two(neighbours<MELEM> &x, hr_i64 i, hr_i64 j, hr_i64 queries,
                       hr_i64 keys) const {
        const MELEM *from = place(i, j, queries, keys);
        x.take(from, j + 1 < keys ? from + 1 : from, pairs);
    }
};

// What a thread adds to M times N tiles of scores, queries being rows; taken before the scores are made where there is room for it.
template <int M, int N> struct added {
    enum { ROWS = MROWS ? 2 * M : 1, AHEAD = !MROWS || sizeof(MELEM) == 2 };
    neighbours<MELEM> x[ROWS][N];

    HR_INLINE void take(const head_mask &mask, hr_i64 q0, hr_i64 k0, const shape &a) {
        const int lane = threadIdx.x & 31;
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
#pragma unroll
            for (int n = 0; n < N; n++) {
                mask.two(x[r][n], q0 + r * 8 + lane / 4, k0 + n * 8 + lane % 4 * 2, a.queries,
                         a.keys);
            }
        }
    }
    template <bool HIDDEN>
    HR_INLINE void put(float (&s)[N][4], int m, const head_mask &mask) const {
#pragma unroll
        for (int n = 0; n < N; n++) {
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const neighbours<MELEM> &y = x[MROWS ? 2 * m + i / 2 : 0][n];
                s[n][i] = mask.on(s[n][i], i & 1 ? y.high() : y.low(), HIDDEN);
            }
        }
    }
    HR_INLINE void add(float (&s)[N][4], int m, const head_mask &mask, hr_u32 flag) const {
        if (flag & HIDES) {
            put<true>(s, m, mask);
        } else if (flag & ADDS) {
            put<false>(s, m, mask);
        }
    }
};

// Which of the four of a draw are kept, a bit each: those of query i and keys j up to j + 3; a row of them is whole fours.
HR_INLINE hr_u32 kept_bits(const hr_control *control, const extra &e, const shape &a, hr_i64 b,
                           hr_i64 h, hr_i64 i, hr_i64 j) {
    hr_u32 words[4], bits = 0;
    hr_philox(control->seed, control->step, e.node, control->first_sample + (hr_u32)b,
              (hr_u32)(((hr_u64)h * (hr_u64)a.queries + (hr_u64)i) * (((hr_u64)a.keys + 3) / 4)) +
                  (hr_u32)(j / 4),
              words);
#pragma unroll
    for (int n = 0; n < 4; n++) {
        bits |= hr_uniform(words[n]) >= e.drop ? 1u << n : 0u;
    }
    return bits;
}
// The four of a thread of a tile, by one draw of each thread of the warp: queries i and i + 8 by keys j and j + 1, where
// two threads side by side have the four keys of a draw;
HR_INLINE void kept_four(float (&by)[4], const hr_control *control, const extra &e, const shape &a,
                     hr_i64 b, hr_i64 h, hr_i64 i, hr_i64 j) {
    const hr_u32 odd = threadIdx.x & 1u,
                 own = kept_bits(control, e, a, b, h, i + (odd ? 8 : 0), j & ~(hr_i64)3),
                 other = __shfl_xor_sync(0xffffffffu, own, 1),
                 both = (odd ? other | own << 4 : own | other << 4) >> odd * 2;
    for (int x = 0; x < 4; x++) {
        by[x] = both >> (x / 2 * 4 + x % 2) & 1u ? e.keep : 0.0f;
    }
}
// or turned: keys j and j + 8 by queries i and i + 1, where threads four apart have those keys.
HR_INLINE void kept_four_turned(float (&by)[4], const hr_control *control, const extra &e,
                                const shape &a, hr_i64 b, hr_i64 h, hr_i64 i, hr_i64 j) {
    const int lane = threadIdx.x & 31, turn = lane / 4 % 4;
    const hr_u32 own = kept_bits(control, e, a, b, h, i + turn % 2,
                                 (j & ~(hr_i64)3) + turn / 2 * 8);
    for (int x = 0; x < 4; x++) {
        const hr_u32 bits = __shfl_sync(0xffffffffu, own, (lane & 19) | x << 2);
        by[x] = bits >> turn & 1u ? e.keep : 0.0f;
    }
}

#endif

// Rows first .. first + ROWS of one head to shared memory; those behind `end`, and what is deeper than a head, are 0.
template <int ROWS>
HR_INLINE void fetch(ELEM *to, const ELEM *from, hr_i64 stride, hr_i64 first, hr_i64 end,
                     hr_i32 depth) {
    enum { CHUNKS = DP / 8 };
#pragma unroll
    for (int i = threadIdx.x; i < ROWS * CHUNKS; i += THREADS) {
        const int row = i / CHUNKS, c = i % CHUNKS * 8;
        const bool there = first + row < end && c < depth;
        hr_async_copy(to + row * PITCH + c, from + (there ? (first + row) * stride + c : 0),
                      there ? 16u : 0u);
    }
}

// A fragment of the left operand: 16 rows by 16 columns.
HR_INLINE void left(hr_u32 (&a)[4], const ELEM *rows, int column) {
    const int lane = threadIdx.x & 31;
    hr_ldmatrix(a, rows + (lane % 16) * PITCH + column + lane / 16 * 8);
}
// The right operand of a product with rows turned into columns: 16 rows by 16 columns; [0], [1] for the first eight rows.
HR_INLINE void right_rows(hr_u32 (&b)[4], const ELEM *rows, int column) {
    const int lane = threadIdx.x & 31;
    hr_ldmatrix(b, rows + (lane / 16 * 8 + lane % 8) * PITCH + column + lane / 8 % 2 * 8);
}
// The right operand as it lies: 16 rows by 16 columns; [0], [1] for the first eight columns.
HR_INLINE void right_columns(hr_u32 (&b)[4], const ELEM *rows, int column) {
    const int lane = threadIdx.x & 31;
    hr_ldmatrix_turned(b, rows + (lane % 16) * PITCH + column + lane / 16 * 8);
}
HR_INLINE void product(float (&d0)[4], float (&d1)[4], const hr_u32 (&a)[4], const hr_u32 (&b)[4]) {
    const hr_u32 b0[2] = {b[0], b[1]}, b1[2] = {b[2], b[3]};
    hr_mma(d0, a, b0, ELEM());
    hr_mma(d1, a, b1, ELEM());
}
// Two neighbouring tiles of a result as a fragment of the next left operand.
HR_INLINE void as_left(hr_u32 (&a)[4], const float (&d0)[4], const float (&d1)[4]) {
    a[0] = hr_two(d0[0], d0[1], ELEM());
    a[1] = hr_two(d0[2], d0[3], ELEM());
    a[2] = hr_two(d1[0], d1[1], ELEM());
    a[3] = hr_two(d1[2], d1[3], ELEM());
}
template <int N> HR_INLINE void clear(float (&d)[N][4]) {
#pragma unroll
    for (int i = 0; i < N; i++) {
        d[i][0] = d[i][1] = d[i][2] = d[i][3] = 0.0f;
    }
}

// 16 rows of results of this warp, through its rows of shared memory, in accesses of 16 bytes.
HR_INLINE void put_rows(ELEM *to, hr_i64 stride, hr_i64 first, hr_i64 end, hr_i32 depth, ELEM *room,
                        const float (&d)[TILES][4], float by_low, float by_high) {
    const int lane = threadIdx.x & 31;
    __syncwarp();
#pragma unroll
    for (int n = 0; n < TILES; n++) {
        ELEM *at = room + lane / 4 * PITCH + n * 8 + lane % 4 * 2;
        *(hr_u32 *)at = hr_two(d[n][0] * by_low, d[n][1] * by_low, ELEM());
        *(hr_u32 *)(at + 8 * PITCH) = hr_two(d[n][2] * by_high, d[n][3] * by_high, ELEM());
    }
    __syncwarp();
    for (int i = lane; i < 16 * (DP / 8); i += 32) {
        const int row = i / (DP / 8), c = i % (DP / 8) * 8;
        if (first + row < end && c < depth) {
            *(uint4 *)(to + (first + row) * stride + c) = *(const uint4 *)(room + row * PITCH + c);
        }
    }
}

// The probability of a score, backward.  None is over 1 but by rounding, which may be as large as a mask is: it stays a number.
HR_INLINE float weight(float s, float scale, float shift) {
    const float x = fmaf(s, scale, -shift);
    return hr_exp2(MASKED ? fminf(x, 14.0f) : x);
}
