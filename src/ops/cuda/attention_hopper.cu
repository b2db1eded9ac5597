// Attention by the products of warpgroups (Hopper), for 2-byte types, forward: what attention.cu does, with masks.
//
// The scores of the next step are under way while this step's probabilities take their values.  attention_hopper.cuh stands before it.

// Scores to probabilities; `most` and `sum` move on, keep is what sums so far are multiplied by.
HR_INLINE void soften(float (&s)[8][4], float (&most)[2], float (&sum)[2], float (&keep)[2],
                      float scale) {
    float base[2];
#pragma unroll
    for (int half = 0; half < 2; half++) {
        float m = most[half];
#pragma unroll
        for (int n = 0; n < 8; n++) {
            m = fmaxf(m, fmaxf(s[n][2 * half], s[n][2 * half + 1]));
        }
        m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, 1));
        m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, 2));
        base[half] = m == none() ? 0.0f : m; // nothing seen so far: all stays 0
        keep[half] = hr_exp2((most[half] - base[half]) * scale);
        most[half] = m;
    }
    // Masks may be so large that the rounding of a product is: then the difference comes first.
    const bool far = fmaxf(fabsf(base[0]), fabsf(base[1])) * scale > 1024.0f;
    if (MASK && __any_sync(0xffffffffu, far)) {
#pragma unroll
        for (int i = 0; i < 32; i++) {
            s[i / 4][i % 4] = hr_exp2((s[i / 4][i % 4] - base[i / 2 % 2]) * scale);
        }
    } else {
        const float shift[2] = {base[0] * scale, base[1] * scale};
#pragma unroll
        for (int i = 0; i < 32; i++) {
            s[i / 4][i % 4] = hr_exp2(fmaf(s[i / 4][i % 4], scale, -shift[i / 2 % 2]));
        }
    }
#pragma unroll
    for (int half = 0; half < 2; half++) {
        float add = 0.0f;
#pragma unroll
        for (int n = 0; n < 8; n++) {
            add += s[n][2 * half] + s[n][2 * half + 1];
        }
        sum[half] = fmaf(sum[half], keep[half], add);
    }
}

HR_INLINE void hide_edge(float (&s)[8][4], hr_i64 q0, hr_i64 k0, hr_i64 keys) {
    const int lane = threadIdx.x & 31, own = threadIdx.x / 32 * 16;
    const int left = keys - k0 < TILE ? (int)(keys - k0) : TILE;
    const int row = (int)(q0 - k0) + own + lane / 4; // the last key it sees
    if (left < TILE || (CAUSAL && (int)(q0 - k0) + own < TILE - 1)) {
#pragma unroll
        for (int i = 0; i < 32; i++) {
            const int key = i / 4 * 8 + lane % 4 * 2 + (i & 1);
            if (key >= left || (CAUSAL && key > row + i / 2 % 2 * 8)) {
                s[i / 4][i % 4] = none();
            }
        }
    }
}

HR_KERNEL __launch_bounds__(THREADS, BLOCKS)
    attention_forward(const ELEM *q, const ELEM *k, const ELEM *v, ELEM *o, float *lse, shape a,
                      const MELEM *mask, const hr_u8 *flags, const hr_control *control, extra e) {
    HR_SHARED(shared);
    char *const qs = aligned(shared), *const stages = qs + MINE;
    own_rows own;
    own.init();
    hr_u32 *const words = (hr_u32 *)(stages + STAGES * STAGE);
    const hr_u32 tiles = (hr_u32)((a.queries + OWN - 1) / OWN), all = gridDim.x / tiles;
    // Heads change fastest and the tiles that see most come first.
    const hr_i64 q0 = (hr_i64)(tiles - 1 - blockIdx.x / all) * OWN, head = blockIdx.x % all;
    const hr_i64 b = head / a.heads, h = head % a.heads;
    const hr_i64 end = CAUSAL && q0 + OWN < a.keys ? q0 + OWN : a.keys;
    const int steps = (int)((end + TILE - 1) / TILE);
    const float scale = a.scale * HR_LOG2E;
    q += b * a.q_batch + h * a.depth;
    k += b * a.k_batch + h / a.group * a.depth;
    v += b * a.v_batch + h / a.group * a.depth;
    fetch<OWN>(qs, q, a.q_row, q0, a.queries, a.depth);
    head_mask m;
    if (MASK) {
        m.init(mask, flags, e, a, b, h);
        for (int j = threadIdx.x; j < steps; j += THREADS) {
            hr_u32 word = 0;
            for (int w = 0; w < WGS; w++) {
                word |= m.of(q0 + w * 64, (hr_i64)j * TILE) << (w * 8);
            }
            words[j] = word;
        }
        __syncthreads();
    }
    const auto fetch_keys = [&](int j, int slot) {
        if (j < steps) {
            char *const to = stages + slot * STAGE;
            fetch<TILE>(to, k, a.k_row, (hr_i64)j * TILE, a.keys, a.depth);
            fetch<TILE>(to + SIDE, v, a.v_row, (hr_i64)j * TILE, a.keys, a.depth);
            if (MASK == 2 && (words[j] & 0x02020202u)) {
                m.fetch_tile<OWN, TILE>(to + 2 * SIDE, q0, (hr_i64)j * TILE);
            }
        }
        hr_async_commit();
    };
    int j = following(words, 0, steps), next = following(words, j + 1, steps), slot = 0;
    fetch_keys(j, 0);
    fetch_keys(next, 1);
    hr_async_wait<1>();
    shown();
    __syncthreads();
    float s[8][4], out[PANELS][8][4];
    float most[2] = {none(), none()}, sum[2] = {0.0f, 0.0f}, keep[2];
    hr_u32 p[4][4];
    clear(out);
    if (j < steps) {
        products_begin();
        times(s, own.of(qs), stages);
        products_end();
        products_wait<0>();
        pinned(s);
        masked<false>(s, flag_of(words, j), m, stages + 2 * SIDE, q0, (hr_i64)j * TILE);
        hide_edge(s, q0, (hr_i64)j * TILE, a.keys);
        soften(s, most, sum, keep, scale);
        pack(p, s);
    }
    while (next < steps) {
        const int after = slot == STAGES - 1 ? 0 : slot + 1;
        const char *const values = stages + slot * STAGE + SIDE, *const stage =
                                                                     stages + after * STAGE;
        hr_async_wait<0>();
        shown();
        __syncthreads(); // the next tile is there, and all are done with the one before this
        const int later = following(words, next + 1, steps);
        fetch_keys(later, after == STAGES - 1 ? 0 : after + 1);
        products_begin();
        times(s, own.of(qs), stage);
        products_end();
        add_rows(out, p, values);
        products_end();
        products_wait<1>();
        pinned(s);
        masked<false>(s, flag_of(words, next), m, stage + 2 * SIDE, q0, (hr_i64)next * TILE);
        hide_edge(s, q0, (hr_i64)next * TILE, a.keys);
        soften(s, most, sum, keep, scale);
        products_wait<0>();
        pin(out);
        if (__any_sync(0xffffffffu, keep[0] != 1.0f || keep[1] != 1.0f)) {
#pragma unroll
            for (int x = 0; x < PANELS; x++) {
#pragma unroll
                for (int i = 0; i < 32; i++) {
                    out[x][i / 4][i % 4] *= keep[i / 2 % 2];
                }
            }
        }
        pack(p, s);
        next = later;
        slot = after;
    }
    if (j < steps) {
        products_begin();
        add_rows(out, p, stages + slot * STAGE + SIDE);
        products_end();
        products_wait<0>();
        pin(out);
    }
    const int lane = threadIdx.x & 31;
    float by[2];
#pragma unroll
    for (int half = 0; half < 2; half++) {
        float l = sum[half];
        l += __shfl_xor_sync(0xffffffffu, l, 1);
        l += __shfl_xor_sync(0xffffffffu, l, 2);
        const bool blind = l == 0.0f; // a query that sees nothing
        by[half] = blind ? 0.0f : 1.0f / l;
        const hr_i64 row = q0 + threadIdx.x / 32 * 16 + lane / 4 + half * 8;
        if (lane % 4 == 0 && row < a.queries) {
            lse[head * a.queries + row] = blind ? -none() : row_kept(most[half], a.scale, l);
        }
    }
    __syncthreads(); // all are done with q
    put_rows(o + b * a.o_batch + h * a.depth, a.o_row, q0, a.queries, a.depth, qs, out, by[0],
             by[1]);
}
