// Attention on tensor cores, for 2-byte types: forward, and backward in two passes.
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
// Defines: BACKWARD, as a module has one direction; ELEM; DP, the depth in whole sixteens, at most 128; CAUSAL; MT; BK, keys a step; MG and BG, the same for
// the passes backward.
#ifndef ELEM
#define ELEM     hr_bf16
#define DP       64
#define CAUSAL   1
#define BACKWARD 0
#define MT       2
#define BK       64
#define MG       2
#define BG       32
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

enum { SEEN = 1, ADDS = 2, HIDES = 4 };

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
    // SEEN, ADDS and HIDES of these queries and keys, both from whole tiles of 32 on or inside of one.
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
        return !hides ? sum : x == none() ? x : sum < -1e30f ? -1e30f : sum;
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

// What the probability of a query and a key is multiplied by.
HR_INLINE float kept(const hr_control *control, const extra &e, const shape &a, hr_i64 b, hr_i64 h,
                     hr_i64 i, hr_i64 j) {
    const hr_u64 index = ((hr_u64)h * (hr_u64)a.queries + (hr_u64)i) * (hr_u64)a.keys + (hr_u64)j;
    hr_u32 words[4];
    hr_philox(control->seed, control->step, e.node, control->first_sample + (hr_u32)b,
              (hr_u32)(index / 4), words);
    const hr_u32 word =
        (index & 2) ? ((index & 1) ? words[3] : words[2]) : ((index & 1) ? words[1] : words[0]);
    return hr_uniform(word) >= e.drop ? e.keep : 0.0f;
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

#if !BACKWARD

// ---- forward ----

// Scores of one step to probabilities; `most` and `sum` move on, and out is scaled to the new maximum.
HR_INLINE void soften(float (&s)[BK / 8][4], float (&out)[TILES][4], float (&most)[2],
                      float (&sum)[2], float scale) {
#pragma unroll
    for (int half = 0; half < 2; half++) {
        float m = most[half];
#pragma unroll
        for (int n = 0; n < BK / 8; n++) {
            m = fmaxf(m, fmaxf(s[n][2 * half], s[n][2 * half + 1]));
        }
        m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, 1));
        m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, 2));
        const float base = MASKED && m == none() ? 0.0f : m; // nothing seen so far: all stays 0
        const float keep = hr_exp2((most[half] - base) * scale), shift = base * scale;
        float add = 0.0f;
#pragma unroll
        for (int n = 0; n < BK / 8; n++) {
#pragma unroll
            for (int e = 2 * half; e < 2 * half + 2; e++) {
                // Masks may be so large that the rounding of a product is: the difference comes first.
                s[n][e] = hr_exp2(MASKED ? (s[n][e] - base) * scale : fmaf(s[n][e], scale, -shift));
                add += s[n][e];
            }
        }
        sum[half] = fmaf(sum[half], keep, add);
        most[half] = m;
#pragma unroll
        for (int n = 0; n < TILES; n++) {
            out[n][2 * half] *= keep;
            out[n][2 * half + 1] *= keep;
        }
    }
}

// One step of a warp: scores of its rows with BK keys, then what they take of the values.
HR_INLINE void step(float (&out)[MT][TILES][4], float (&most)[MT][2], float (&sum)[MT][2],
                    hr_u32 (&qf)[MT][HOLD ? STEPS : 1][4], const ELEM *own, const ELEM *kj,
                    const ELEM *vj, hr_i64 k0, hr_i64 q0, float scale, const shape &a
#if MASKED
                    ,
                    const head_mask &mask, hr_u32 flag, const hr_control *control, const extra &e,
                    hr_i64 b, hr_i64 h
#endif
) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x & 31;
    float s[MT][BK / 8][4];
#if MASKED
    added<MT, BK / 8> more;
    const hr_i64 own_q = q0 + warp * MT * 16;
    if (more.AHEAD && (flag & ADDS)) {
        more.take(mask, own_q, k0, a);
    }
#endif
#pragma unroll
    for (int m = 0; m < MT; m++) {
        clear(s[m]);
    }
#pragma unroll
    for (int t = 0; t < STEPS; t++) {
        if (!HOLD) {
#pragma unroll
            for (int m = 0; m < MT; m++) {
                left(qf[m][0], own + m * 16 * PITCH, t * 16);
            }
        }
#pragma unroll
        for (int n = 0; n < BK / 16; n++) {
            hr_u32 bf[4];
            right_rows(bf, kj + n * 16 * PITCH, t * 16);
#pragma unroll
            for (int m = 0; m < MT; m++) {
                product(s[m][2 * n], s[m][2 * n + 1], qf[m][HOLD ? t : 0], bf);
            }
        }
    }
    const int keys = a.keys - k0 < BK ? (int)(a.keys - k0) : BK; // of this step
    const int ahead = (int)(q0 - k0);
    const bool edge = keys < BK || (CAUSAL && BK > ahead + warp * 16 * MT + 1);
#if MASKED
    if (!more.AHEAD && (flag & ADDS)) {
        more.take(mask, own_q, k0, a);
    }
#endif
#pragma unroll
    for (int m = 0; m < MT; m++) {
#if MASKED
        more.add(s[m], m, mask, flag);
#endif
        if (edge) {
            const int row = ahead + (warp * MT + m) * 16 + lane / 4;
#pragma unroll
            for (int n = 0; n < BK / 8; n++) {
#pragma unroll
                for (int e = 0; e < 4; e++) {
                    const int key = n * 8 + lane % 4 * 2 + (e & 1);
                    if (key >= keys || (CAUSAL && key > row + e / 2 * 8)) {
                        s[m][n][e] = none();
                    }
                }
            }
        }
        soften(s[m], out[m], most[m], sum[m], scale);
#if DROP
        for (int n = 0; n < BK / 8; n++) {
            for (int i = 0; i < 4; i++) {
                s[m][n][i] *=
                    kept(control, e, a, b, h, q0 + (warp * MT + m) * 16 + lane / 4 + i / 2 * 8,
                         k0 + n * 8 + lane % 4 * 2 + (i & 1));
            }
        }
#endif
    }
#pragma unroll
    for (int n = 0; n < BK / 16; n++) {
        hr_u32 pf[MT][4];
#pragma unroll
        for (int m = 0; m < MT; m++) {
            as_left(pf[m], s[m][2 * n], s[m][2 * n + 1]);
        }
#pragma unroll
        for (int t = 0; t < STEPS; t++) {
            hr_u32 bf[4];
            right_columns(bf, vj + n * 16 * PITCH, t * 16);
#pragma unroll
            for (int m = 0; m < MT; m++) {
                product(out[m][2 * t], out[m][2 * t + 1], pf[m], bf);
            }
        }
    }
}

HR_KERNEL __launch_bounds__(THREADS) attention_forward(const ELEM *q, const ELEM *k, const ELEM *v,
                                                       ELEM *o, float *lse, shape a EXTRA) {
    HR_SHARED(shared);
    ELEM *const qs = (ELEM *)shared, *const ks = qs + BQ * PITCH, *const vs = ks + 2 * BK * PITCH;
    const int warp = threadIdx.x / 32, lane = threadIdx.x & 31;
    const hr_u32 tiles = (hr_u32)((a.queries + BQ - 1) / BQ), all = gridDim.x / tiles;
    // Heads change fastest and the tiles that see most come first.
    const hr_i64 q0 = (hr_i64)(tiles - 1 - blockIdx.x / all) * BQ, head = blockIdx.x % all;
    const hr_i64 b = head / a.heads, h = head % a.heads;
    const hr_i64 end = CAUSAL && q0 + BQ < a.keys ? q0 + BQ : a.keys;
    const int steps = (int)((end + BK - 1) / BK);
    const float scale = a.scale * HR_LOG2E;
    q += b * a.q_batch + h * a.depth;
    k += b * a.k_batch + h / a.group * a.depth;
    v += b * a.v_batch + h / a.group * a.depth;
    fetch<BQ>(qs, q, a.q_row, q0, a.queries, a.depth);
    hr_async_commit();
#if MASKED
    head_mask m0;
    m0.init(mask, flags, e, b, h, a.scale);
    // The first step from j on in which anything is seen.
    const auto following = [&](int j) {
        while (j < steps && !(m0.of(q0, BQ, a.queries, (hr_i64)j * BK, BK, a.keys) & SEEN)) {
            j++;
        }
        return j;
    };
#else
    const auto following = [](int j) { return j; };
#endif
    int j = following(0);
    fetch<BK>(ks, k, a.k_row, (hr_i64)j * BK, a.keys, a.depth);
    fetch<BK>(vs, v, a.v_row, (hr_i64)j * BK, a.keys, a.depth);
    hr_async_commit();
    ELEM *const own = qs + warp * 16 * MT * PITCH;
    hr_u32 qf[MT][HOLD ? STEPS : 1][4];
    hr_async_wait<1>();
    __syncthreads();
    if (HOLD) {
#pragma unroll
        for (int m = 0; m < MT; m++) {
#pragma unroll
            for (int t = 0; t < STEPS; t++) {
                left(qf[m][HOLD ? t : 0], own + m * 16 * PITCH, t * 16);
            }
        }
    }
    float out[MT][TILES][4], most[MT][2], sum[MT][2];
#pragma unroll
    for (int m = 0; m < MT; m++) {
        clear(out[m]);
        most[m][0] = most[m][1] = none();
        sum[m][0] = sum[m][1] = 0.0f;
    }
    for (int stage = 0; j < steps; stage ^= 1) {
        const ELEM *const kj = ks + stage * BK * PITCH, *const vj = vs + stage * BK * PITCH;
        const hr_i64 k0 = (hr_i64)j * BK;
        j = following(j + 1);
        if (j < steps) {
            const int next = stage ^ 1;
            fetch<BK>(ks + next * BK * PITCH, k, a.k_row, (hr_i64)j * BK, a.keys, a.depth);
            fetch<BK>(vs + next * BK * PITCH, v, a.v_row, (hr_i64)j * BK, a.keys, a.depth);
        }
        hr_async_commit();
        hr_async_wait<1>();
        __syncthreads();
        if (!CAUSAL || k0 < q0 + (warp + 1) * 16 * MT) { // else no row of the warp sees these keys
#if MASKED
            const hr_u32 flag = m0.of(q0 + warp * 16 * MT, 16 * MT, a.queries, k0, BK, a.keys);
            if (flag & SEEN) {
                step(out, most, sum, qf, own, kj, vj, k0, q0, scale, a, m0, flag, control, e, b, h);
            }
#else
            step(out, most, sum, qf, own, kj, vj, k0, q0, scale, a);
#endif
        }
        __syncthreads();
    }
    o += b * a.o_batch + h * a.depth;
#pragma unroll
    for (int m = 0; m < MT; m++) {
        const hr_i64 first = q0 + (warp * MT + m) * 16;
        float over[2];
#pragma unroll
        for (int half = 0; half < 2; half++) {
            float l = sum[m][half];
            l += __shfl_xor_sync(0xffffffffu, l, 1);
            l += __shfl_xor_sync(0xffffffffu, l, 2);
            const bool blind = MASKED && l == 0.0f; // a query that sees nothing
            over[half] = blind ? 0.0f : 1.0f / l;
            const hr_i64 row = first + lane / 4 + half * 8;
            if (lane % 4 == 0 && row < a.queries) {
                lse[head * a.queries + row] = blind ? -none() : most[m][half] * a.scale + logf(l);
            }
        }
        put_rows(o, a.o_row, first, a.queries, a.depth, own + m * 16 * PITCH, out[m], over[0],
                 over[1]);
    }
}

#else

// ---- backward ----

// The fragments of own rows, all of them or one step's.
template <bool HELD> struct own_rows {
    hr_u32 f[MG][HELD ? STEPS : 1][4];
    const ELEM *at;

    HR_INLINE void init(const ELEM *rows) {
        at = rows;
        if (HELD) {
#pragma unroll
            for (int t = 0; t < STEPS; t++) {
                load(t);
            }
        }
    }
    HR_INLINE void load(int t) {
#pragma unroll
        for (int m = 0; m < MG; m++) {
            left(f[m][HELD ? t : 0], at + m * 16 * PITCH, t * 16);
        }
    }
};

// The two products of a step: s = x rows_x', d = y rows_y'.
template <bool HELD>
HR_INLINE void two_products(float (&s)[MG][BG / 8][4], float (&d)[MG][BG / 8][4], own_rows<HELD> &x,
                            own_rows<HELD> &y, const ELEM *rows_x, const ELEM *rows_y) {
#pragma unroll
    for (int m = 0; m < MG; m++) {
        clear(s[m]);
        clear(d[m]);
    }
#pragma unroll
    for (int t = 0; t < STEPS; t++) {
        if (!HELD) {
            x.load(t);
            y.load(t);
        }
#pragma unroll
        for (int n = 0; n < BG / 16; n++) {
            hr_u32 bx[4], by[4];
            right_rows(bx, rows_x + n * 16 * PITCH, t * 16);
            right_rows(by, rows_y + n * 16 * PITCH, t * 16);
#pragma unroll
            for (int m = 0; m < MG; m++) {
                product(s[m][2 * n], s[m][2 * n + 1], x.f[m][HELD ? t : 0], bx);
                product(d[m][2 * n], d[m][2 * n + 1], y.f[m][HELD ? t : 0], by);
            }
        }
    }
}
// out += s rows, s being tiles of a result.
HR_INLINE void add_product(float (&out)[MG][TILES][4], const float (&s)[MG][BG / 8][4],
                           const ELEM *rows) {
#pragma unroll
    for (int n = 0; n < BG / 16; n++) {
        hr_u32 af[MG][4];
#pragma unroll
        for (int m = 0; m < MG; m++) {
            as_left(af[m], s[m][2 * n], s[m][2 * n + 1]);
        }
#pragma unroll
        for (int t = 0; t < STEPS; t++) {
            hr_u32 bf[4];
            right_columns(bf, rows + n * 16 * PITCH, t * 16);
#pragma unroll
            for (int m = 0; m < MG; m++) {
                product(out[m][2 * t], out[m][2 * t + 1], af[m], bf);
            }
        }
    }
}

// dq of BM queries, over the keys they see.
HR_KERNEL __launch_bounds__(THREADS, MG == 1 ? 3 : 2)
    attention_grad_queries(const ELEM *q, const ELEM *k, const ELEM *v, const ELEM *dout,
                           const float *lse, const float *delta, ELEM *dq, shape a EXTRA) {
    HR_SHARED(shared);
    ELEM *const qs = (ELEM *)shared, *const ds = qs + BM * PITCH, *const ks = ds + BM * PITCH,
                *const vs = ks + 2 * BG * PITCH;
    const int warp = threadIdx.x / 32, lane = threadIdx.x & 31;
    const hr_u32 tiles = (hr_u32)((a.queries + BM - 1) / BM), all = gridDim.x / tiles;
    const hr_i64 q0 = (hr_i64)(tiles - 1 - blockIdx.x / all) * BM, head = blockIdx.x % all;
    const hr_i64 b = head / a.heads, h = head % a.heads;
    const hr_i64 end = CAUSAL && q0 + BM < a.keys ? q0 + BM : a.keys;
    const int steps = (int)((end + BG - 1) / BG);
    const float scale = a.scale * HR_LOG2E;
    q += b * a.q_batch + h * a.depth;
    k += b * a.k_batch + h / a.group * a.depth;
    v += b * a.v_batch + h / a.group * a.depth;
    dout += b * a.o_batch + h * a.depth;
    fetch<BM>(qs, q, a.q_row, q0, a.queries, a.depth);
    fetch<BM>(ds, dout, a.o_row, q0, a.queries, a.depth);
    hr_async_commit();
#if MASKED
    head_mask m0;
    m0.init(mask, flags, e, b, h, a.scale);
    const auto following = [&](int j) {
        while (j < steps && !(m0.of(q0, BM, a.queries, (hr_i64)j * BG, BG, a.keys) & SEEN)) {
            j++;
        }
        return j;
    };
#else
    const auto following = [](int j) { return j; };
#endif
    int j = following(0);
    fetch<BG>(ks, k, a.k_row, (hr_i64)j * BG, a.keys, a.depth);
    fetch<BG>(vs, v, a.v_row, (hr_i64)j * BG, a.keys, a.depth);
    hr_async_commit();
    ELEM *const own = qs + warp * 16 * MG * PITCH;
    own_rows<HOLD> own_q, own_d;
    float out[MG][TILES][4], shift[MG][2], less[MG][2];
#pragma unroll
    for (int m = 0; m < MG; m++) {
        clear(out[m]);
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const hr_i64 row = q0 + (warp * MG + m) * 16 + lane / 4 + half * 8;
            const bool there = row < a.queries;
            shift[m][half] = there ? lse[head * a.queries + row] * HR_LOG2E : -none();
            less[m][half] = there ? delta[head * a.queries + row] : 0.0f;
        }
    }
    hr_async_wait<1>();
    __syncthreads();
    own_q.init(own);
    own_d.init(ds + warp * 16 * MG * PITCH);
    for (int stage = 0; j < steps; stage ^= 1) {
        const ELEM *const kj = ks + stage * BG * PITCH, *const vj = vs + stage * BG * PITCH;
        const hr_i64 k0 = (hr_i64)j * BG;
        j = following(j + 1);
        if (j < steps) {
            const int next = stage ^ 1;
            fetch<BG>(ks + next * BG * PITCH, k, a.k_row, (hr_i64)j * BG, a.keys, a.depth);
            fetch<BG>(vs + next * BG * PITCH, v, a.v_row, (hr_i64)j * BG, a.keys, a.depth);
        }
        hr_async_commit();
        hr_async_wait<1>();
        __syncthreads();
#if MASKED
        const hr_u32 flag = m0.of(q0 + warp * 16 * MG, 16 * MG, a.queries, k0, BG, a.keys);
        const bool sees = (flag & SEEN) != 0;
#else
        const bool sees = true;
#endif
        if (sees &&
            (!CAUSAL || k0 < q0 + (warp + 1) * 16 * MG)) { // else no row of the warp sees these
            float s[MG][BG / 8][4], dp[MG][BG / 8][4];
#if MASKED
            added<MG, BG / 8> more;
            if (flag & ADDS) {
                more.take(m0, q0 + warp * MG * 16, k0, a);
            }
#endif
            two_products<HOLD>(s, dp, own_q, own_d, kj, vj);
            const int keys = a.keys - k0 < BG ? (int)(a.keys - k0) : BG; // of this step
            const int ahead = (int)(q0 - k0) + warp * 16 * MG;
            const bool edge = keys < BG || (CAUSAL && BG > ahead + 1);
#pragma unroll
            for (int m = 0; m < MG; m++) {
                const int row = ahead + m * 16 + lane / 4;
#if MASKED
                more.add(s[m], m, m0, flag);
#endif
#pragma unroll
                for (int n = 0; n < BG / 8; n++) {
#if DROP
                    const hr_i64 q_at = q0 + (warp * MG + m) * 16 + lane / 4;
                    const hr_i64 k_at = k0 + n * 8 + lane % 4 * 2;
#endif
#pragma unroll
                    for (int i = 0; i < 4; i++) {
                        const int key = n * 8 + lane % 4 * 2 + (i & 1);
                        const float p = weight(s[m][n][i], scale, shift[m][i / 2]);
#if DROP
                        dp[m][n][i] *= kept(control, e, a, b, h, q_at + i / 2 * 8, k_at + (i & 1));
#endif
                        const float d = p * (dp[m][n][i] - less[m][i / 2]);
                        const bool seen =
                            !edge || (key < keys && !(CAUSAL && key > row + i / 2 * 8));
                        s[m][n][i] = seen ? d : 0.0f;
                    }
                }
            }
            add_product(out, s, kj);
        }
        __syncthreads();
    }
#pragma unroll
    for (int m = 0; m < MG; m++) {
        put_rows(dq + b * a.q_batch + h * a.depth, a.q_row, q0 + (warp * MG + m) * 16, a.queries,
                 a.depth, own + m * 16 * PITCH, out[m], a.scale, a.scale);
    }
}

// dk and dv of BM keys, over the queries that see them; scores are turned: rows are keys.
HR_KERNEL __launch_bounds__(THREADS)
    attention_grad_keys(const ELEM *q, const ELEM *k, const ELEM *v, const ELEM *dout,
                        const float *lse, const float *delta, ELEM *dk, ELEM *dv, shape a EXTRA) {
    HR_SHARED(shared);
    ELEM *const ks = (ELEM *)shared, *const vs = ks + BM * PITCH, *const qs = vs + BM * PITCH,
                *const ds = qs + 2 * BG * PITCH;
    float *const shifts = (float *)(ds + 2 * BG * PITCH), *const lesses = shifts + 2 * BG;
    const int warp = threadIdx.x / 32, lane = threadIdx.x & 31;
    const hr_u32 tiles = (hr_u32)((a.keys + BM - 1) / BM), all = gridDim.x / tiles;
    const hr_i64 k0 = (hr_i64)(blockIdx.x / all) * BM, head = blockIdx.x % all;
    const hr_i64 shared_heads = a.heads / a.group; // heads of k and v: a block has rows of one
    const hr_i64 b = head / shared_heads, h = head % shared_heads;
    // A causal tile begins with the queries that see its first key.
    const int begin = CAUSAL ? (int)(k0 / BG) : 0, end = (int)((a.queries + BG - 1) / BG);
    // Steps go over the queries of one head of the group after the other.
    const int each = end > begin ? end - begin : 0, steps = each * a.group;
    const float scale = a.scale * HR_LOG2E;
    q += b * a.q_batch + h * a.group * a.depth;
    k += b * a.k_batch + h * a.depth;
    v += b * a.v_batch + h * a.depth;
    dout += b * a.o_batch + h * a.group * a.depth;
    lse += (b * a.heads + h * a.group) * a.queries;
    delta += (b * a.heads + h * a.group) * a.queries;
#if MASKED
    head_mask m0;
    const auto following = [&](int n) {
        for (; n < steps; n++) {
            m0.init(mask, flags, e, b, h * a.group + n / each, a.scale);
            if (m0.of((hr_i64)(begin + n % each) * BG, BG, a.queries, k0, BM, a.keys) & SEEN) {
                break;
            }
        }
        return n;
    };
#else
    const auto following = [](int n) { return n; };
#endif
    // The tile of queries of step n, with do, to a stage.
    const auto fetch_queries = [&](int n, int stage) {
        const hr_i64 g = n / each * a.depth, first = (hr_i64)(begin + n % each) * BG;
        fetch<BG>(qs + stage * BG * PITCH, q + g, a.q_row, first, a.queries, a.depth);
        fetch<BG>(ds + stage * BG * PITCH, dout + g, a.o_row, first, a.queries, a.depth);
    };
    fetch<BM>(ks, k, a.k_row, k0, a.keys, a.depth);
    fetch<BM>(vs, v, a.v_row, k0, a.keys, a.depth);
    hr_async_commit();
    int n = following(0);
    if (n < steps) {
        fetch_queries(n, 0);
    }
    hr_async_commit();
    ELEM *const own = ks + warp * 16 * MG * PITCH;
    own_rows<HOLD_KEYS> own_k, own_v;
    float out_k[MG][TILES][4], out_v[MG][TILES][4];
#pragma unroll
    for (int m = 0; m < MG; m++) {
        clear(out_k[m]);
        clear(out_v[m]);
    }
    hr_async_wait<1>();
    __syncthreads();
    own_k.init(own);
    own_v.init(vs + warp * 16 * MG * PITCH);
    for (int stage = 0; n < steps; stage ^= 1) {
        const ELEM *const qj = qs + stage * BG * PITCH, *const dj = ds + stage * BG * PITCH;
        float *const shift = shifts + stage * BG, *const less = lesses + stage * BG;
        const hr_i64 q0 = (hr_i64)(begin + n % each) * BG, of = n / each * a.queries;
#if MASKED
        const hr_i64 hq = h * a.group + n / each;
#endif
        n = following(n + 1);
        if (n < steps) {
            fetch_queries(n, stage ^ 1);
        }
        hr_async_commit();
        for (int i = threadIdx.x; i < BG; i += THREADS) {
            shift[i] = q0 + i < a.queries ? lse[of + q0 + i] * HR_LOG2E : -none();
            less[i] = q0 + i < a.queries ? delta[of + q0 + i] : 0.0f;
        }
        hr_async_wait<1>();
        __syncthreads();
        const int behind =
            (int)(k0 - q0) + warp * 16 * MG; // the warp's first key after the first query
#if MASKED
        head_mask own_mask;
        own_mask.init(mask, flags, e, b, hq, a.scale);
        const hr_u32 flag = own_mask.of(q0, BG, a.queries, k0 + warp * 16 * MG, 16 * MG, a.keys);
        const bool sees = (flag & SEEN) != 0;
#else
        const bool sees = true;
#endif
        if (sees && (!CAUSAL || behind < BG)) { // else no query sees its keys
            float s[MG][BG / 8][4], dp[MG][BG / 8][4];
#if MASKED && !MROWS
            float more[MG][2]; // the same for all queries
#pragma unroll
            for (int m = 0; m < MG; m++) {
#pragma unroll
                for (int half = 0; half < 2; half++) {
                    const hr_i64 key = k0 + (warp * MG + m) * 16 + lane / 4 + half * 8;
                    more[m][half] = flag & ADDS ? own_mask.single(0, key, a.queries, a.keys) : 0.0f;
                }
            }
#endif
            two_products<HOLD_KEYS>(s, dp, own_k, own_v, qj, dj);
            const bool edge = CAUSAL && behind + 16 * MG > 1;
#pragma unroll
            for (int t = 0; t < BG / 8; t++) {
                const int i = t * 8 + lane % 4 * 2;
                const float2 by = *(const float2 *)(shift + i), off = *(const float2 *)(less + i);
#pragma unroll
                for (int m = 0; m < MG; m++) {
                    const int key = behind + m * 16 + lane / 4;
#if MASKED
                    const hr_i64 k_at = k0 + (warp * MG + m) * 16 + lane / 4;
#endif
#pragma unroll
                    for (int x = 0; x < 4; x++) {
#if MASKED && MROWS
                        if (flag & ADDS) {
                            s[m][t][x] =
                                own_mask.on(s[m][t][x],
                                            own_mask.single(q0 + i + (x & 1), k_at + x / 2 * 8,
                                                            a.queries, a.keys),
                                            (flag & HIDES) != 0);
                        }
#elif MASKED
                        s[m][t][x] = own_mask.on(s[m][t][x], more[m][x / 2], (flag & HIDES) != 0);
#endif
                        const float p = weight(s[m][t][x], scale, x & 1 ? by.y : by.x);
                        const bool seen = !edge || key + x / 2 * 8 <= i + (x & 1);
                        s[m][t][x] = seen ? p : 0.0f;
#if DROP
                        const float by_drop =
                            kept(control, e, a, b, hq, q0 + i + (x & 1), k_at + x / 2 * 8);
                        dp[m][t][x] =
                            s[m][t][x] * (by_drop * dp[m][t][x] - (x & 1 ? off.y : off.x));
                        s[m][t][x] *= by_drop;
#else
                        dp[m][t][x] = s[m][t][x] * (dp[m][t][x] - (x & 1 ? off.y : off.x));
#endif
                    }
                }
            }
            add_product(out_v, s, dj);
            add_product(out_k, dp, qj);
        }
        __syncthreads();
    }
#pragma unroll
    for (int m = 0; m < MG; m++) {
        const hr_i64 first = k0 + (warp * MG + m) * 16;
        ELEM *const room = own + m * 16 * PITCH;
        put_rows(dk + b * a.k_batch + h * a.depth, a.k_row, first, a.keys, a.depth, room, out_k[m],
                 a.scale, a.scale);
        put_rows(dv + b * a.v_batch + h * a.depth, a.v_row, first, a.keys, a.depth, room, out_v[m],
                 1.0f, 1.0f);
    }
}

#endif
