// The gradient of attention by the products of warpgroups (Hopper), for 2-byte types: two passes, as in attention.cu, each of which
// makes the probabilities again, so that the bits are the same every time.  attention_hopper.cuh stands before it.

// The probability of a score.  None is over 1 but by rounding, which may be as large as a mask is: it stays a number.
HR_INLINE float weight(float s, float scale, float shift) {
    const float x = fmaf(s, scale, -shift);
    return hr_exp2(MASK && MASK != 4 ? fminf(x, 14.0f) : x);
}

// dq of a block's queries, over the keys they see.
HR_KERNEL __launch_bounds__(THREADS, BLOCKS)
    attention_grad_queries(const ELEM *q, const ELEM *k, const ELEM *v, const ELEM *dout,
                           const float *lse, const float *delta, ELEM *dq, shape a,
                           const MELEM *mask, const hr_u8 *flags, const hr_control *control,
                           extra e) {
    HR_SHARED(shared);
    char *const qs = aligned(shared), *const ds = qs + MINE, *const stages = ds + MINE;
    hr_u32 *const words = (hr_u32 *)(stages + STAGES * STAGE);
    const int lane = threadIdx.x & 31, row = threadIdx.x / 32 * 16 + lane / 4;
    const hr_u32 tiles = (hr_u32)((a.queries + OWN - 1) / OWN), all = gridDim.x / tiles;
    const hr_i64 q0 = (hr_i64)(tiles - 1 - blockIdx.x / all) * OWN, head = blockIdx.x % all;
    const hr_i64 b = head / a.heads, h = head % a.heads;
    const hr_i64 end = CAUSAL && q0 + OWN < a.keys ? q0 + OWN : a.keys;
    const int steps = (int)((end + TILE - 1) / TILE);
    const float scale = a.scale * HR_LOG2E;
    k += b * a.k_batch + h / a.group * a.depth;
    v += b * a.v_batch + h / a.group * a.depth;
    fetch<OWN>(qs, q + b * a.q_batch + h * a.depth, a.q_row, q0, a.queries, a.depth);
    fetch<OWN>(ds, dout + b * a.o_batch + h * a.depth, a.o_row, q0, a.queries, a.depth);
    head_mask m;
    if (MASK) {
        m.init(mask, flags, e, a, b, h);
        for (int j = threadIdx.x; j < steps; j += THREADS) {
            hr_u32 word = 0;
            for (int w = 0; w < WGS; w++) {
                const hr_i64 first = q0 + w * 64;
                word |= (MASK == 4 ? m.of_bits(first, (hr_i64)j * TILE, a.queries)
                                   : m.of(first, (hr_i64)j * TILE))
                        << (w * 8);
            }
            words[j] = word;
        }
        __syncthreads();
    }
    const auto fetch_keys = [&](int j, int slot) {
        if (j < steps) {
            char *const to = stages + slot * STAGE;
            fetch<TILE, MASK == 4>(to, k, a.k_row, (hr_i64)j * TILE, a.keys, a.depth);
            fetch<TILE, MASK == 4>(to + SIDE, v, a.v_row, (hr_i64)j * TILE, a.keys, a.depth);
            if (MASK == 2 && (words[j] & 0x02020202u)) {
                m.fetch_tile<OWN, TILE>(to + 2 * SIDE, q0, (hr_i64)j * TILE);
            }
        }
        hr_async_commit();
    };
    int j = following(words, 0, steps), next = following(words, j + 1, steps), slot = 0;
    fetch_keys(j, 0);
    fetch_keys(next, 1);
    float shift[2], less[2];
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const hr_i64 at = q0 + row + half * 8;
        shift[half] = at < a.queries ? lse[head * a.queries + at] * HR_LOG2E : -none();
        less[half] = at < a.queries ? delta[head * a.queries + at] : 0.0f;
    }
    hr_async_wait<1>();
    shown();
    __syncthreads();
    float out[PANELS][8][4];
    clear(out);
    while (j < steps) {
        const char *const stage = stages + slot * STAGE;
        const int after = slot == STAGES - 1 ? 0 : slot + 1;
        const int later = following(words, next + 1, steps);
        float s[8][4], dp[8][4];
        hr_u32 f[4][4];
        fetch_keys(later, after == STAGES - 1 ? 0 : after + 1);
        const hr_u32 flag = flag_of(words, j);
        const hr_u32 word =
            MASK == 4 && (flag & HIDES) ? m.word(q0, (hr_i64)j * TILE, a.queries) : ~0u;
        products_begin();
        times(s, qs, stage);
        products_end();
        times(dp, ds, stage + SIDE);
        products_end();
        products_wait<1>();
        pinned(s);
        masked<false>(s, flag, m, stage + 2 * SIDE, q0, (hr_i64)j * TILE);
        if (MASK == 4 && (flag & HIDES)) {
            hide(s, word);
        }
        const int ahead = (int)(q0 - (hr_i64)j * TILE) + row; // the last key it sees
        const bool edge = CAUSAL && (int)(q0 - (hr_i64)j * TILE) < TILE - 1 + OWN;
#pragma unroll
        for (int i = 0; i < 32; i++) {
            const int key = column_of(i), half = i / 2 % 2;
            const float p = weight(s[i / 4][i % 4], scale, shift[half]);
            s[i / 4][i % 4] = edge && key > ahead + half * 8 ? 0.0f : p;
        }
        products_wait<0>();
        pinned(dp);
#pragma unroll
        for (int i = 0; i < 32; i++) {
            s[i / 4][i % 4] *= dp[i / 4][i % 4] - less[i / 2 % 2];
        }
        pack(f, s);
        products_begin();
        add_rows(out, f, stage);
        products_end();
        products_wait<0>();
        pin(out);
        hr_async_wait<1>();
        shown();
        __syncthreads(); // the next tile is there, and all are done with this one
        j = next;
        next = later;
        slot = after;
    }
    put_rows(dq + b * a.q_batch + h * a.depth, a.q_row, q0, a.queries, a.depth, qs, out, a.scale,
             a.scale);
}

// dk and dv of a block's keys, over the queries that see them; scores are turned: rows are keys.
HR_KERNEL __launch_bounds__(THREADS, BLOCKS > 2 ? 2 : BLOCKS)
    attention_grad_keys(const ELEM *q, const ELEM *k, const ELEM *v, const ELEM *dout,
                        const float *lse, const float *delta, ELEM *dk, ELEM *dv, shape a,
                        const MELEM *mask, const hr_u8 *flags, const hr_control *control, extra e) {
    HR_SHARED(shared);
    char *const ks = aligned(shared), *const vs = ks + MINE, *const stages = vs + MINE;
    float *const columns =
        (float *)(stages + STAGES * STAGE); // of a stage: TILE of lse, TILE of delta
    hr_u32 *const words = (hr_u32 *)(columns + STAGES * 2 * TILE);
    const int lane = threadIdx.x & 31, row = threadIdx.x / 32 * 16 + lane / 4;
    const hr_u32 tiles = (hr_u32)((a.keys + OWN - 1) / OWN), all = gridDim.x / tiles;
    const hr_i64 k0 = (hr_i64)(blockIdx.x / all) * OWN, head = blockIdx.x % all;
    const hr_i64 shared_heads = a.heads / a.group; // heads of k and v: a block has rows of one
    const hr_i64 b = head / shared_heads, h = head % shared_heads;
    // A causal tile begins with the queries that see its first key.
    const int begin = CAUSAL ? (int)(k0 / TILE) : 0, end = (int)((a.queries + TILE - 1) / TILE);
    // Steps go over the queries of one head of the group after the other.
    const int each = end > begin ? end - begin : 0, steps = each * a.group;
    const float scale = a.scale * HR_LOG2E;
    q += b * a.q_batch + h * a.group * a.depth;
    dout += b * a.o_batch + h * a.group * a.depth;
    lse += (b * a.heads + h * a.group) * a.queries;
    delta += (b * a.heads + h * a.group) * a.queries;
    fetch<OWN>(ks, k + b * a.k_batch + h * a.depth, a.k_row, k0, a.keys, a.depth);
    fetch<OWN>(vs, v + b * a.v_batch + h * a.depth, a.v_row, k0, a.keys, a.depth);
    head_mask m;
    if (MASK) {
        for (int n = threadIdx.x; n < steps; n += THREADS) {
            hr_u32 word = 0;
            m.init(mask, flags, e, a, b, h * a.group + n / each);
            for (int w = 0; w < WGS; w++) {
                const hr_i64 first = (hr_i64)(begin + n % each) * TILE;
                word |=
                    (MASK == 4 ? m.of_bits(k0 + w * 64, first, a.keys) : m.of(first, k0 + w * 64))
                    << (w * 8);
            }
            words[n] = word;
        }
        __syncthreads();
    }
    // The queries of step n to a stage, with do.
    const auto fetch_queries = [&](int n, int slot) {
        if (n < steps) {
            const hr_i64 g = n / each, first = (hr_i64)(begin + n % each) * TILE;
            char *const to = stages + slot * STAGE;
            fetch<TILE>(to, q + g * a.depth, a.q_row, first, a.queries, a.depth);
            fetch<TILE>(to + SIDE, dout + g * a.depth, a.o_row, first, a.queries, a.depth);
            if (MASK == 2 && (words[n] & 0x02020202u)) {
                m.init(mask, flags, e, a, b, h * a.group + g);
                m.fetch_tile<TILE, OWN>(to + 2 * SIDE, first, k0);
            }
            if (threadIdx.x < 2 * TILE) {
                const int i = threadIdx.x % TILE;
                const bool there = first + i < a.queries;
                async_word(columns + slot * 2 * TILE + threadIdx.x,
                           (threadIdx.x < TILE ? lse : delta) +
                               (there ? g * a.queries + first + i : 0),
                           there);
            }
        }
        hr_async_commit();
    };
    int n = following(words, 0, steps), next = following(words, n + 1, steps), slot = 0;
    fetch_queries(n, 0);
    fetch_queries(next, 1);
    hr_async_wait<1>();
    shown();
    __syncthreads();
    float out_k[PANELS][8][4], out_v[PANELS][8][4];
    clear(out_k);
    clear(out_v);
    while (n < steps) {
        const char *const stage = stages + slot * STAGE;
        const float *const column = columns + slot * 2 * TILE + lane % 4 * 2;
        const int after = slot == STAGES - 1 ? 0 : slot + 1;
        const int later = following(words, next + 1, steps);
        const hr_i64 q0 = (hr_i64)(begin + n % each) * TILE;
        float s[8][4], dp[8][4];
        hr_u32 f[4][4], g[4][4];
        fetch_queries(later, after == STAGES - 1 ? 0 : after + 1);
        if (MASK) {
            m.init(mask, flags, e, a, b, h * a.group + n / each);
        }
        const hr_u32 flag = flag_of(words, n);
        const hr_u32 word = MASK == 4 && (flag & HIDES) ? m.word(k0, q0, a.keys) : ~0u;
        products_begin();
        times(s, ks, stage);
        products_end();
        times(dp, vs, stage + SIDE);
        products_end();
        products_wait<1>();
        pinned(s);
        masked<true>(s, flag, m, stage + 2 * SIDE, k0, q0);
        if (MASK == 4 && (flag & HIDES)) {
            hide(s, word);
        }
        const int behind = (int)(k0 - q0) + row; // the first query that sees it
        const bool edge = CAUSAL && (int)(k0 - q0) + OWN > 1;
#pragma unroll
        for (int i = 0; i < 32; i += 2) {
            const float2 by = *(const float2 *)(column + i / 4 * 8);
            const int query = i / 4 * 8 + lane % 4 * 2, key = behind + i / 2 % 2 * 8;
            const float p0 = weight(s[i / 4][i % 4], scale, by.x * HR_LOG2E);
            const float p1 = weight(s[i / 4][i % 4 + 1], scale, by.y * HR_LOG2E);
            s[i / 4][i % 4] = edge && key > query ? 0.0f : p0;
            s[i / 4][i % 4 + 1] = edge && key > query + 1 ? 0.0f : p1;
        }
        pack(f, s);
        products_wait<0>();
        pinned(dp);
        products_begin();
        add_rows(out_v, f, stage + SIDE);
        products_end();
#pragma unroll
        for (int i = 0; i < 32; i += 2) {
            const float2 off = *(const float2 *)(column + TILE + i / 4 * 8);
            dp[i / 4][i % 4] = s[i / 4][i % 4] * (dp[i / 4][i % 4] - off.x);
            dp[i / 4][i % 4 + 1] = s[i / 4][i % 4 + 1] * (dp[i / 4][i % 4 + 1] - off.y);
        }
        pack(g, dp);
        products_begin();
        add_rows(out_k, g, stage);
        products_end();
        products_wait<0>();
        pin(out_v);
        pin(out_k);
        hr_async_wait<1>();
        shown();
        __syncthreads(); // the next tile is there, and all are done with this one
        n = next;
        next = later;
        slot = after;
    }
    put_rows(dk + b * a.k_batch + h * a.depth, a.k_row, k0, a.keys, a.depth, ks, out_k, a.scale,
             a.scale);
    put_rows(dv + b * a.v_batch + h * a.depth, a.v_row, k0, a.keys, a.depth, ks, out_v, 1.0f, 1.0f);
}
