// Attention with a mask of bits by the products of warpgroups (Hopper), for 2-byte types, forward.
//
// The words of attention_words.cu are the mask: 32 bits of a thread, as its scores of 16 queries by 64 keys lie.  Keys behind the last and
// later ones than the query are hidden by them too, so that nothing else is asked of a score; tiles that are hidden whole are left out.
//
// attention_forward_bits: a warpgroup has 64 queries.  Threads copy tiles of keys and values ahead to a ring; one barrier in memory says
// that a tile is there and another that it may be written again, so that warpgroups wait for one another only where one is far ahead.
// Queries stay in registers; the last tile of the ring is where they came in, and where results go out.
// Scores are taken from a maximum that moves on only where sums of a step would pass LIMIT: probabilities do not wait for a maximum,
// and where one has to move they are made again from the scores.  attention_hopper.cuh stands before it.
#ifndef RING
#define RING 6
#define LEAD 3
#endif

// ops/common/attention_bits.c has the same.  Tiles from sample to sample, from head to head, from 16 queries to the next; 0: the same.
struct bits_shape {
    hr_i64 batch, head, rows;
};

#define LIMIT 4096.0f
enum { HOP = THREADS / 8 < TILE ? THREADS / 8 : TILE }; // rows of a turn: 1, 2 or 4 warpgroups

// ---- barriers in memory: a phase is over when all have arrived ----

HR_INLINE void bar_init(hr_u64 *bar, hr_u32 count) {
#ifndef HRI_EMULATED
    asm volatile(
        "mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"((hr_u32)__cvta_generic_to_shared(bar)),
        "r"(count)
        : "memory");
#endif
}
HR_INLINE void bar_arrive(hr_u64 *bar) {
#ifndef HRI_EMULATED
    asm volatile(
        "mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"((hr_u32)__cvta_generic_to_shared(bar))
        : "memory");
#endif
}
HR_INLINE void bar_wait(hr_u64 *bar, hr_u32 phase) {
#ifndef HRI_EMULATED
    asm volatile("{\n.reg .pred p;\nAGAIN:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
                 "@p bra DONE;\nbra AGAIN;\nDONE:\n}" ::"r"((hr_u32)__cvta_generic_to_shared(bar)),
                 "r"(phase)
                 : "memory");
#endif
}

// ---- a step ----

struct running {
    float shift[2], sum[2]; // shift: the maximum times scale, minus infinity where nothing was seen
};

// Probabilities of scores, and what a thread adds to the sums of its two rows.
HR_INLINE void soften(const float (&s)[8][4], hr_u32 (&p)[4][4], float (&part)[2], float scale,
                      float low, float high) {
    float add[2][2] = {{0.0f, 0.0f}, {0.0f, 0.0f}};
#pragma unroll
    for (int n = 0; n < 8; n++) {
        float e[4];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            e[i] = hr_exp2(fmaf(s[n][i], scale, i < 2 ? -low : -high));
            add[i / 2][i % 2] += e[i];
        }
        p[n / 2][n % 2 * 2] = hr_two(e[0], e[1], ELEM());
        p[n / 2][n % 2 * 2 + 1] = hr_two(e[2], e[3], ELEM());
    }
    part[0] = add[0][0] + add[0][1];
    part[1] = add[1][0] + add[1][1];
}
// The maximum moves on: sums and results so far are multiplied, and probabilities made again.
HR_INLINE void rise(running &r, const float (&s)[8][4], hr_u32 (&p)[4][4], float (&part)[2],
                    float (&out)[PANELS][8][4], float scale) {
    float use[2], keep[2];
#pragma unroll
    for (int half = 0; half < 2; half++) {
        float m = s[0][2 * half];
#pragma unroll
        for (int n = 0; n < 8; n++) {
            m = fmaxf(m, fmaxf(s[n][2 * half], s[n][2 * half + 1]));
        }
        m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, 1));
        m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, 2));
        const float to = fmaxf(m * scale, r.shift[half]);
        use[half] = to == none() ? 0.0f : to;
        keep[half] = hr_exp2(r.shift[half] - use[half]);
        r.shift[half] = to;
        r.sum[half] *= keep[half];
    }
#pragma unroll
    for (int x = 0; x < PANELS; x++) {
#pragma unroll
        for (int i = 0; i < 32; i++) {
            out[x][i / 4][i % 4] *= keep[i / 2 % 2];
        }
    }
    soften(s, p, part, scale, use[0], use[1]);
}
// The tiles of keys that any of `count` times 16 queries sees, in their order; one at least.  A warp.
HR_INLINE void tiles_seen(hr_u16 *order, const hr_u8 *seen, hr_i64 rows, int all, int count) {
    const int lane = threadIdx.x & 31;
    int found = 0;
    for (int first = 0; first < all; first += 32) {
        const int n = first + lane;
        hr_u32 any = 0;
        if (n < all) {
#pragma unroll
            for (int i = 0; i < OWN / 16; i++) {
                any |= i < count ? seen[i * rows + n] & 1u : 0u;
            }
        }
        const hr_u32 these = __ballot_sync(0xffffffffu, n < all && any != 0);
        if (these >> lane & 1u) {
            order[found + __popc(these & ((1u << lane) - 1u))] = (hr_u16)n;
        }
        found += __popc(these);
    }
    if (lane == 0) {
        if (found == 0) {
            order[0] = 0;
        }
        ((hr_i32 *)order)[-1] = found > 0 ? found : 1;
    }
}
HR_KERNEL __launch_bounds__(THREADS, BLOCKS)
    attention_forward_bits(const ELEM *q, const ELEM *k, const ELEM *v, ELEM *o, float *lse,
                           shape a, const hr_u32 *bits, const hr_u8 *seen, bits_shape e) {
    HR_SHARED(shared);
    char *const ring = aligned(shared), *const qs = ring + (RING - 1) * (2 * SIDE);
    hr_u64 *const full = (hr_u64 *)(ring + RING * 2 * SIDE), *const empty = full + RING;
    const hr_u32 tiles = (hr_u32)((a.queries + OWN - 1) / OWN);
    const hr_i64 q0 = (hr_i64)(blockIdx.x % tiles) * OWN, head = blockIdx.x / tiles;
    const hr_i64 b = head / a.heads, h = head % a.heads;
    const int all = (int)((a.keys + TILE - 1) / TILE), lane = threadIdx.x & 31;
    const float scale = a.scale * HR_LOG2E;
    q += b * a.q_batch + h * a.depth;
    k += b * a.k_batch + h / a.group * a.depth;
    v += b * a.v_batch + h / a.group * a.depth;
    hr_u16 *const order =
        (hr_u16 *)(empty + RING + 1); // of tiles that are seen; their number stands before it
    const hr_i64 tile = b * e.batch + h * e.head + q0 / 16 * e.rows;
    const int count = (int)((a.queries - q0 + 15) / 16), own = threadIdx.x / 32;
    bits += (tile + (own < count ? own : count - 1) * e.rows) * 32 + lane;
    fetch<OWN>(qs, q, a.q_row, q0, a.queries, a.depth);
    if (threadIdx.x < 32) {
        tiles_seen(order, seen + tile, e.rows, all, count);
    }
    if (threadIdx.x < RING) {
        bar_init(full + threadIdx.x, THREADS);
        bar_init(empty + threadIdx.x, THREADS / 32);
    }
    __syncthreads();
    const int steps = ((const hr_i32 *)order)[-1];
    // This thread's pieces of a tile, of 16 bytes.
    const int piece = threadIdx.x % 8, mine = threadIdx.x / 8 % HOP;
    const int row = (int)a.k_row * 2; // bytes; v has the same
    const hr_i64 apart = (const char *)v - (const char *)k;
    const char *const pieces = (const char *)(k + mine * a.k_row + piece * 8);
    const int there = piece * 8 < a.depth ? (int)a.keys - mine : 0;
    char *const spots = ring + spot(mine, piece);
    const auto copy = [&](int j, int slot) {
        if (j < steps) {
            const int n = order[j];
            const char *at = pieces + (hr_i64)(n * TILE) * row;
            char *const to = spots + slot * (2 * SIDE);
#pragma unroll
            for (int i = 0; i < TILE; i += HOP) {
                const hr_u32 bytes = n * TILE + i < there ? 16u : 0u;
                hr_async_copy(to + i * 128, at, bytes);
                hr_async_copy(to + i * 128 + SIDE, at + apart, bytes);
                at += (hr_i64)HOP * row;
            }
        }
    };
    const auto word_of = [&](int j) -> hr_u32 { return j < steps ? bits[order[j] * 32] : 0u; };
    hr_u32 word = word_of(0);
#pragma unroll
    for (int j = 0; j < LEAD; j++) {
        copy(j, j);
    }
    hr_async_commit();
    hr_async_wait<0>();
    shown();
#pragma unroll
    for (int j = 0; j < LEAD; j++) {
        bar_arrive(full + j);
    }
    __syncthreads();
    hr_u32 own_q[4][4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        hr_ldmatrix(own_q[i], qs + spot(threadIdx.x / 32 * 16 + lane % 16, 2 * i + lane / 16));
    }
    __syncthreads(); // the last tile may be written
    float s[8][4], out[PANELS][8][4], part[2];
    hr_u32 p[4][4];
    running r = {{none(), none()}, {0.0f, 0.0f}};
    int slot = 0, before = 0, ahead = LEAD;
    hr_u32 phase = 0, free = 1; // of full, of empty: what was never used is free
    clear(out);
    // Scores and probabilities of step j; values of the step before are added with its probabilities.
    const auto step = [&](int j, bool first) {
        const int next = slot == RING - 1 ? 0 : slot + 1;
        bar_wait(full + slot, phase);
#ifdef HRI_EMULATED
        __syncthreads();
#endif
        products_begin();
#pragma unroll
        for (int i = 0; i < 4; i++) {
            product<0>(s, own_q[i], ring + slot * (2 * SIDE), i * 32, i > 0);
        }
        products_end();
        if (!first) {
            add_rows(out, p, ring + before * (2 * SIDE) + SIDE);
            products_end();
        }
        const hr_u32 now = word;
        word = word_of(j + 1);
        // What this thread copied in the step before has arrived; products of all are under way meanwhile.
        if (!first) {
            hr_async_wait<0>();
            shown();
            bar_arrive(full + (ahead == 0 ? RING - 1 : ahead - 1));
        }
        if (j + LEAD < steps) {
            bar_wait(empty + ahead, free);
        }
        copy(j + LEAD, ahead);
        hr_async_commit();
        products_wait<0>();
        pinned(s);
        pin(out);
        if (!first && lane == 0) {
            bar_arrive(empty + before);
        }
        if (__any_sync(0xffffffffu, now != ~0u)) {
            hide(s, now);
        }
        soften(s, p, part, scale, r.shift[0], r.shift[1]);
        if (__any_sync(0xffffffffu, !(part[0] < LIMIT) || !(part[1] < LIMIT))) {
            rise(r, s, p, part, out, scale);
        }
        r.sum[0] += part[0];
        r.sum[1] += part[1];
        before = slot;
        slot = next;
        phase ^= next == 0;
        ahead = ahead == RING - 1 ? 0 : ahead + 1;
        free ^= ahead == 0;
    };
    step(0, true);
    for (int j = 1; j < steps; j++) {
        step(j, false);
    }
    products_begin();
    add_rows(out, p, ring + before * (2 * SIDE) + SIDE);
    products_end();
    products_wait<0>();
    pin(out);
    hr_async_wait<0>();
    float by[2];
#pragma unroll
    for (int half = 0; half < 2; half++) {
        float l = r.sum[half];
        l += __shfl_xor_sync(0xffffffffu, l, 1);
        l += __shfl_xor_sync(0xffffffffu, l, 2);
        const bool blind = l == 0.0f; // a query that sees nothing
        by[half] = blind ? 0.0f : 1.0f / l;
        const hr_i64 row = q0 + threadIdx.x / 32 * 16 + lane / 4 + half * 8;
        if (lane % 4 == 0 && row < a.queries) {
            lse[head * a.queries + row] =
                blind ? -none() : r.shift[half] * (1.0f / HR_LOG2E) + logf(l);
        }
    }
    __syncthreads(); // all are done with the ring
    put_rows(o + b * a.o_batch + h * a.depth, a.o_row, q0, a.queries, a.depth, qs, out, by[0],
             by[1]);
}
