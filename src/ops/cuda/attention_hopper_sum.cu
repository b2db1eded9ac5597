// dq from the gradients of scores that the pass of keys of attention_hopper_grad.cu left in memory (SCORES), by products with the keys
// (Hopper).  What limits it is what comes from the second cache: keys as often as a head has blocks, so blocks have many queries.
// attention_hopper.cuh stands before it.

// An 8 by 8 matrix of 2-byte numbers, two neighbours of row lane / 4 a thread, turned.
HR_INLINE hr_u32 turn(hr_u32 x) {
#ifdef HRI_EMULATED
    const int lane = threadIdx.x & 31, from = lane % 4 * 8 + lane / 8;
    const hr_u32 low = __shfl_sync(0xffffffffu, x, from);
    const hr_u32 high = __shfl_sync(0xffffffffu, x, from + 4);
    return lane / 4 % 2 ? low >> 16 | (high & 0xffff0000u) : (low & 0xffffu) | high << 16;
#else
    hr_u32 y;
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(y) : "r"(x));
    return y;
#endif
}

// dq of a block's queries from the gradients of scores: a warp has 16 queries, of which 16 keys are one piece of 16 bytes a thread.
HR_KERNEL __launch_bounds__(THREADS, WGS > 2 ? 1 : DP == 64 ? 3 : 2)
    attention_grad_sum(const ELEM *k, const uint4 *scores, ELEM *dq, shape a, const MELEM *mask,
                       const hr_u8 *flags, extra e, hr_i64 from) {
    enum { DEEP = DP > 64, ROOM = SIDE + OWN * TILE * 2, ROOMS = STAGES + DEEP }; // DEEP: products are waited for a step later
    HR_SHARED(shared);
    char *const stages = aligned(shared);
    hr_u32 *const words = (hr_u32 *)(stages + ROOMS * ROOM);
    const int lane = threadIdx.x & 31, group = threadIdx.x / 128, warp = threadIdx.x / 32 % 4;
    const hr_u32 tiles = (hr_u32)((a.queries + OWN - 1) / OWN), all = gridDim.x / tiles;
    const hr_i64 q0 = (hr_i64)(tiles - 1 - blockIdx.x / all) * OWN, local = blockIdx.x % all;
    const hr_i64 b = (from + local) / a.heads, h = (from + local) % a.heads;
    const hr_i64 end = CAUSAL && q0 + OWN < a.keys ? q0 + OWN : a.keys;
    const int steps = (int)((end + TILE - 1) / TILE);
    const hr_i64 across = (a.queries + TILE - 1) / TILE, own = q0 / TILE + group;
    k += b * a.k_batch + h / a.group * a.depth;
    head_mask m;
    m.init(mask, flags, e, a, b, h);
    const auto tile_of = [&](int j) { return (hr_i64)(steps - 1 - j); }; // the last were written last
    for (int j = threadIdx.x; MASK && j < steps; j += THREADS) {
        hr_u32 word = 0;
        for (int w = 0; w < WGS && q0 + w * 64 < a.queries; w++) {
            const hr_i64 key = tile_of(j) * TILE, query = q0 + w * 64;
            word |= (BITS ? m.of_bits(key, query, a.keys) : m.of(query, key)) << (w * 8);
        }
        words[j] = word;
    }
    __syncthreads();
    // What nobody sees was not written.
    const auto seen_at = [&](int j) {
        return (flag_of(words, j) & SEEN) && own < across &&
               !(CAUSAL && tile_of(j) > own);
    };
    // Every thread copies the pieces that it reads.
    const uint4 *const mine =
        scores + (local * ((a.keys + TILE - 1) / TILE) * across + own) * BLOB + warp * 32 + lane;
    const auto fetch_keys = [&](int j, int slot) {
        if (j < steps) {
            char *const to = stages + slot * ROOM;
            fetch<TILE>(to, k, a.k_row, tile_of(j) * TILE, a.keys, a.depth);
            if (seen_at(j)) {
                const uint4 *const at = mine + tile_of(j) * across * BLOB;
#pragma unroll
                for (int t = 0; t < 4; t++) {
                    hr_async_copy(to + SIDE + (t * THREADS + (int)threadIdx.x) * 16, at + t * 128,
                                  16u);
                }
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
    float out[PANELS][8][4];
    clear(out);
    const auto step = [&](hr_u32 (&f)[4][4]) {
        const char *const stage = stages + slot * ROOM;
        const int after = slot == ROOMS - 1 ? 0 : slot + 1;
        const int later = following(words, next + 1, steps);
        fetch_keys(later, after == ROOMS - 1 ? 0 : after + 1);
        const bool seen = seen_at(j);
#pragma unroll
        for (int t = 0; t < 4; t++) {
            const uint4 x = *(const uint4 *)(stage + SIDE + (t * THREADS + (int)threadIdx.x) * 16);
            f[t][0] = turn(seen ? x.x : 0u);
            f[t][1] = turn(seen ? x.z : 0u);
            f[t][2] = turn(seen ? x.y : 0u);
            f[t][3] = turn(seen ? x.w : 0u);
        }
        products_begin();
        add_rows(out, f, stage);
        products_end();
        products_wait<DEEP>();
        if (!DEEP) {
            pin(out);
        }
        hr_async_wait<1>();
        shown();
        __syncthreads(); // the next tile is there, and all are done with this one, or with the one before it
        j = next;
        next = later;
        slot = after;
    };
    hr_u32 f[4][4], g[4][4];
    while (j < steps) {
        step(f);
        if (DEEP && j < steps) {
            step(g);
        }
    }
    products_wait<0>();
    pin(out);
    hr_async_wait<0>();
    __syncthreads();
    put_rows(dq + b * a.q_batch + h * a.depth, a.q_row, q0, a.queries, a.depth, stages, out,
             a.scale, a.scale);
}
