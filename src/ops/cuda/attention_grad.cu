// The gradient of attention on tensor cores, for 2-byte types: a pass over tiles of queries makes dq, another over tiles of keys makes dk
// and dv.  attention.cuh stands before it.

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

#if MASKED
// Scores of queries that see none but keys with large numbers become those that `weight` wants with a shift of 0; lse is that of the
// first of 16 queries.
HR_INLINE void weigh_far(float (&s)[BG / 8][4], float (&shift)[2], const float *lse, float scale) {
    const int row = (threadIdx.x & 31) / 4;
    const bool far[2] = {row_sees_far(shift[0]), row_sees_far(shift[1])};
    if (!far[0] && !far[1]) {
        return;
    }
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const float own = far[half] ? lse[row + half * 8] : 0.0f;
#pragma unroll
        for (int n = 0; n < BG / 8; n++) {
#pragma unroll
            for (int i = 2 * half; i < 2 * half + 2; i++) {
                s[n][i] = far[half] ? row_power(s[n][i] * scale, own) / (scale * HR_LOG2E) : s[n][i];
            }
        }
        shift[half] = far[half] ? 0.0f : shift[half];
    }
}
#endif

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
                float by_row[2] = {shift[m][0], shift[m][1]};
#if MASKED
                more.add(s[m], m, m0, flag);
                if (flag & FINITE) {
                    weigh_far(s[m], by_row, lse + head * a.queries + q0 + (warp * MG + m) * 16,
                              a.scale);
                }
#endif
#pragma unroll
                for (int n = 0; n < BG / 8; n++) {
#if DROP
                    const hr_i64 q_at = q0 + (warp * MG + m) * 16 + lane / 4;
                    const hr_i64 k_at = k0 + n * 8 + lane % 4 * 2;
                    float by[4];
                    kept_four(by, control, e, a, b, h, q_at, k_at);
#endif
#pragma unroll
                    for (int i = 0; i < 4; i++) {
                        const int key = n * 8 + lane % 4 * 2 + (i & 1);
                        const float p = weight(s[m][n][i], scale, by_row[i / 2]);
#if DROP
                        dp[m][n][i] *= by[i];
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
        hr_u32 flag = own_mask.of(q0, BG, a.queries, k0 + warp * 16 * MG, 16 * MG, a.keys);
        const bool sees = (flag & SEEN) != 0;
        // Are there queries that see none but keys with large numbers?
        const bool far =
            (flag & FINITE) && __any_sync(0xffffffffu, row_sees_far(shift[lane % BG]));
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
#if MASKED
            if (far) { // their scores become what `weight` wants with a shift of 0
#pragma unroll
                for (int m = 0; m < MG; m++) {
#pragma unroll
                    for (int t = 0; t < BG / 8; t++) {
#pragma unroll
                        for (int x = 0; x < 4; x++) {
                            const int i = t * 8 + lane % 4 * 2 + (x & 1);
                            const hr_i64 key = k0 + (warp * MG + m) * 16 + lane / 4 + x / 2 * 8;
                            float &y = s[m][t][x];
                            y = own_mask.on(y, own_mask.single(q0 + i, key, a.queries, a.keys),
                                            true);
                            if (row_sees_far(shift[i])) {
                                y = row_power(y * a.scale, lse[of + q0 + i]) / scale;
                            }
                        }
                    }
                }
                flag = SEEN; // nothing is left to add
#if !MROWS
#pragma unroll
                for (int m = 0; m < MG; m++) {
                    more[m][0] = more[m][1] = 0.0f;
                }
#endif
            }
#endif
#pragma unroll
            for (int t = 0; t < BG / 8; t++) {
                const int i = t * 8 + lane % 4 * 2;
                float2 by = *(const float2 *)(shift + i);
                const float2 off = *(const float2 *)(less + i);
#if MASKED
                if (far) {
                    by.x = row_sees_far(by.x) ? 0.0f : by.x;
                    by.y = row_sees_far(by.y) ? 0.0f : by.y;
                }
#endif
#pragma unroll
                for (int m = 0; m < MG; m++) {
                    const int key = behind + m * 16 + lane / 4;
#if MASKED
                    const hr_i64 k_at = k0 + (warp * MG + m) * 16 + lane / 4;
#endif
#if DROP
                    float by_drop[4];
                    kept_four_turned(by_drop, control, e, a, b, hq, q0 + i, k_at);
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
                        dp[m][t][x] =
                            s[m][t][x] * (by_drop[x] * dp[m][t][x] - (x & 1 ? off.y : off.x));
                        s[m][t][x] *= by_drop[x];
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
