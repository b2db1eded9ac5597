// Attention on tensor cores, for 2-byte types, forward: a block has BQ queries and goes over the keys with a running maximum and sum.
// attention.cuh stands before it.

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
            float by[4];
            kept_four(by, control, e, a, b, h, q0 + (warp * MT + m) * 16 + lane / 4,
                      k0 + n * 8 + lane % 4 * 2);
            for (int i = 0; i < 4; i++) {
                s[m][n][i] *= by[i];
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
#if MASKED
                lse[head * a.queries + row] = blind  ? -none()
                                              : mask ? row_kept(most[m][half], a.scale, l)
                                                     : most[m][half] * a.scale + logf(l);
#else
                lse[head * a.queries + row] = most[m][half] * a.scale + logf(l);
#endif
            }
        }
        put_rows(o, a.o_row, first, a.queries, a.depth, own + m * 16 * PITCH, out[m], over[0],
                 over[1]);
    }
}
