// The gradient of attention by the products of warpgroups (Hopper), for 2-byte types: two passes, as in attention.cu, each of which
// makes the probabilities again, so that the bits are the same every time.  attention_hopper.cuh stands before it.
//
// SCORES: the pass of keys comes first and leaves the gradients of the scores in memory, in tiles of 64 keys by 64 queries as its threads
// have them; attention_hopper_sum.cu makes dq of those, so that nothing is computed twice.
#ifndef SCORES
#define SCORES 0
#endif
#ifndef DROP // there is dropout, with SCORES alone
#define DROP 0
#endif
#ifndef ALONE // a head of k and v serves one of q
#define ALONE 0
#endif
#ifndef TAKEN // nobody looked at the mask, of whole rows: it may do anything everywhere
#define TAKEN 0
#endif
#ifndef SPLIT // with EARLY, of two warpgroups each waits for the other's part of a tile alone, so they may be half a step apart
#define SPLIT 0
#endif
#ifndef EARLY // the pass of keys begins the products of the next tile before it waits for those of this one
#define EARLY 0
#endif

// The probability of a score.  None is over 1 but by rounding, which may be as large as a mask is: it stays a number.
HR_INLINE float weight(float s, float scale, float shift) {
    const float x = fmaf(s, scale, -shift);
    return hr_exp2(MASK && !BITS ? fminf(x, 14.0f) : x);
}
// Of numbers that are large.
HR_INLINE float large_weight(float s, float scale, float shift) {
    return hr_exp2(fminf(fmaf(s, scale, -shift), 14.0f));
}

// Scores of queries that see none but keys with large numbers (attention_stats.cuh) become those that `weight` wants with a shift of 0.
HR_INLINE float far_score(float s, float scale, float lse) {
    return row_power(s * scale, lse) / (scale * HR_LOG2E);
}

#if !SCORES
// dq of a block's queries, over the keys they see.
HR_KERNEL __launch_bounds__(THREADS, BLOCKS)
    attention_grad_queries(const ELEM *q, const ELEM *k, const ELEM *v, const ELEM *dout,
                           const float *lse, const float *delta, ELEM *dq, shape a,
                           const MELEM *mask, const hr_u8 *flags, const hr_control *control,
                           extra e) {
    HR_SHARED(shared);
    char *const qs = aligned(shared), *const ds = qs + MINE, *const stages = ds + MINE;
    own_rows mine;
    mine.init();
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
        times(s, mine.of(qs), stage);
        products_end();
        times(dp, mine.of(ds), stage + SIDE);
        products_end();
        products_wait<1>();
        pinned(s);
        masked<false>(s, flag, m, stage + 2 * SIDE, q0, (hr_i64)j * TILE);
        if (MASK == 4 && (flag & HIDES)) {
            hide(s, word);
        }
        float now[2] = {shift[0], shift[1]};
        if (MASK && !BITS && (flag & FINITE) &&
            __any_sync(0xffffffffu, row_sees_far(shift[0]) || row_sees_far(shift[1]))) {
#pragma unroll
            for (int half = 0; half < 2; half++) {
                if (row_sees_far(shift[half])) {
                    const float own = lse[head * a.queries + q0 + row + half * 8];
#pragma unroll
                    for (int i = 0; i < 16; i++) {
                        float &y = s[i / 2][half * 2 + i % 2];
                        y = far_score(y, a.scale, own);
                    }
                    now[half] = 0.0f;
                }
            }
        }
        const int ahead = (int)(q0 - (hr_i64)j * TILE) + row; // the last key it sees
        const bool edge = CAUSAL && (int)(q0 - (hr_i64)j * TILE) < TILE - 1 + OWN;
#pragma unroll
        for (int i = 0; i < 32; i++) {
            const int key = column_of(i), half = i / 2 % 2;
            const float p = weight(s[i / 4][i % 4], scale, now[half]);
            s[i / 4][i % 4] = edge && key > ahead + half * 8 ? 0.0f : p;
        }
        if (MASK != 4 &&
            (hr_i64)(j + 1) * TILE > a.keys) { // what is behind the last key might weigh anything
#pragma unroll
            for (int i = 0; i < 32; i++) {
                s[i / 4][i % 4] = (hr_i64)j * TILE + column_of(i) < a.keys ? s[i / 4][i % 4] : 0.0f;
            }
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
#endif

// All products are over.  ptxas moves a wait up to where it may, so that it stands behind a branch that needs the probabilities: their
// signs are never all set.
HR_INLINE void products_wait_behind(const hr_u32 (&f)[4][4]) {
    hr_u32 all = ~0u;
#pragma unroll
    for (int t = 0; t < 4; t++) {
        all &= f[t][0] & f[t][1] & f[t][2] & f[t][3];
    }
    if (__any_sync(0xffffffffu, all == ~0u)) {
        products_wait<0>();
#ifndef HRI_EMULATED
        asm volatile("nanosleep.u32 1;");
#endif
    } else {
        products_wait<0>();
    }
}

// Which of the scores of a step are kept, bit n * 4 + i for score i of piece n: keys `key` and `key` + 8 by queries n * 8 and the one behind.
// Four keys side by side of one query share a draw, `across` of which are a query's; threads four apart have those keys.  `row`: the number
// of the draw of this thread's first query and key 0.
HR_INLINE hr_u32 kept_bits(const hr_control *control, const extra &e, hr_u32 sample, hr_u32 row,
                           hr_u32 across, hr_u32 key) {
    const hr_control c = *control;
    const int lane = threadIdx.x & 31, turn = lane / 4 % 4;
    const hr_u32 limit = (hr_u32)ceilf(e.drop * 16777216.0f);
    const hr_u32 first = row + turn % 2 * across + key / 4 + turn / 2 * 2;
    hr_u32 all = 0;
#pragma unroll
    for (int n = 0; n < 8; n++) {
        hr_u32 w[4], own = 0;
        hr_philox(c.seed, c.step, e.node, c.first_sample + sample, first + n * 8 * across, w);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            own |= w[i] >> 8 >= limit ? 1u << i : 0u;
        }
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const hr_u32 bits = __shfl_sync(0xffffffffu, own, (lane & 19) | i << 2);
            all |= (bits >> turn & 1u) << (n * 4 + i);
        }
    }
    return all;
}

// Sums that are minus infinity because a finite number of the mask is so low become the lowest finite ones.
HR_INLINE void lift(float (&s)[8][4], const head_mask &m, const char *tile) {
#pragma unroll
    for (int n = 0; n < 8; n += 2) {
        float x[2][4];
        take<true>(x, tile, n, MELEM());
#pragma unroll
        for (int i = 0; i < 8; i++) {
            float &y = s[n + i / 4][i % 4];
            y = y < ROW_LOWEST && x[i / 4][i % 4] >= ROW_LOWEST ? ROW_LOWEST : y;
        }
    }
}

// 0, of which the compiler does not know: what depends on it is made again every time, not kept in registers.
HR_INLINE int nought() {
    int x = 0;
#ifndef HRI_EMULATED
    asm volatile("mov.u32 %0, 0;" : "=r"(x));
#endif
    return x;
}

// dk and dv of a block's keys, over the queries that see them; scores are turned: rows are keys.
HR_KERNEL __launch_bounds__(THREADS, BLOCKS > 2 ? 2 : BLOCKS)
    attention_grad_keys(const ELEM *q, const ELEM *k, const ELEM *v, const ELEM *dout,
                        const float *lse, const float *delta, ELEM *dk, ELEM *dv, shape a,
                        const MELEM *mask, const hr_u8 *flags, const hr_control *control, extra e,
                        uint4 *scores, hr_i64 from, const MELEM *numbers) {
    HR_SHARED(shared);
    enum { ROOMS = MASK == 5 ? 2 * OWN * TILE * (int)sizeof(MELEM) : 0 }; // two of each warp
    char *const ks = aligned(shared), *const vs = ks + MINE, *const stages = vs + MINE;
    own_rows mine;
    mine.init();
    enum { EACH = EARLY ? 2 * SIDE : STAGE }; // tiles of a mask have two places of their own
    char *const masks = stages + STAGES * EACH;
    hr_u64 *const bars = (hr_u64 *)(masks + (EARLY ? 2 * MASKED_BYTES : 0) + ROOMS);
    hr_u64 *const pace = bars + (MASK == 5 ? THREADS / 16 : 0); // a tile is there
    float *const columns = (float *)(pace + (SPLIT ? 2 : 0)); // of a stage: TILE of lse, TILE of delta
    hr_u32 *const words = (hr_u32 *)(columns + STAGES * 2 * TILE);
    const int lane = threadIdx.x & 31, row = threadIdx.x / 32 * 16 + lane / 4;
    const hr_u32 tiles = (hr_u32)((a.keys + OWN - 1) / OWN), all = gridDim.x / tiles;
    const hr_i64 k0 = (hr_i64)(blockIdx.x / all) * OWN, head = from + blockIdx.x % all;
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
    hr_u64 *const own_bars = bars + threadIdx.x / 32 * 2;
    char *const own_rooms = masks + threadIdx.x / 32 * (2 * NUMBERS_OF_WARP);
    hr_u32 flips = 0;
    if (MASK == 5) {
        if (threadIdx.x < THREADS / 16) {
            bar_init(bars + threadIdx.x, 1);
        }
        bars_shown();
    }
    if (SPLIT && threadIdx.x == 0) {
        bar_init(pace, THREADS / 32);
    }
    const auto head_of = [&](int n) { return ALONE ? nought() : n / each; };
    const auto tile_at = [&](int n) { return begin + (ALONE ? n : n % each); }; // of queries
    if (MASK) {
        for (int n = threadIdx.x; n < steps; n += THREADS) {
            hr_u32 word = TAKEN ? (SEEN | ADDS | FINITE) * 0x01010101u : 0;
            m.init(mask, flags, e, a, b, h * a.group + head_of(n));
            for (int w = 0; w < WGS && !TAKEN; w++) {
                const hr_i64 first = (hr_i64)tile_at(n) * TILE;
                if (MASK == 5) {
                    word |= m.adding(k0 + w * 64, first, a.keys) << (16 + w * 4);
                }
                word |=
                    (BITS ? m.of_bits(k0 + w * 64, first, a.keys) : m.of(first, k0 + w * 64))
                    << (w * 8);
            }
            words[n] = word;
        }
        __syncthreads();
    }
    // A warp's tile of words and numbers.  Rows behind the last key have none, and are hidden: they might weigh anything.
    const hr_u32 own = (hr_u32)k0 / 16 + threadIdx.x / 32;
    const bool beyond = BITS && own > (hr_u32)(a.keys - 1) / 16;
    const hr_u32 first_tile =
        (hr_u32)(b * e.flag_batch + h * a.group * e.flag_head + own * e.mask_row);
    const auto tile_of = [&](int n) -> hr_u32 {
        return first_tile + (hr_u32)head_of(n) * (hr_u32)e.flag_head +
               (hr_u32)tile_at(n) * (hr_u32)e.flag_row;
    };
    const auto adds = [&](int n) {
        return MASK == 5 && n < steps && (words[n] >> (16 + threadIdx.x / 32) & 1u);
    };
    const float *const column = threadIdx.x < TILE ? lse : delta;
    // The queries of step n to a stage, with do.
    const auto fetch_queries = [&](int n, int slot, int flip) {
        if (n < steps) {
            const hr_i64 g = head_of(n), first = (hr_i64)tile_at(n) * TILE;
            char *const to = stages + slot * EACH;
            fetch<TILE>(to, q + g * a.depth, a.q_row, first, a.queries, a.depth);
            fetch<TILE>(to + SIDE, dout + g * a.depth, a.o_row, first, a.queries, a.depth);
            if (MASK == 2 && (words[n] & 0x02020202u)) {
                m.init(mask, flags, e, a, b, h * a.group + g);
                m.fetch_tile<TILE, OWN>(EARLY ? masks + flip * MASKED_BYTES : to + 2 * SIDE, first,
                                        k0);
            }
            if (adds(n) && lane == 0) {
                load_numbers(own_rooms + flip * NUMBERS_OF_WARP,
                             numbers + (hr_i64)tile_of(n) * 1024, own_bars + flip);
            }
            if (threadIdx.x < 2 * TILE) {
                const int i = threadIdx.x % TILE;
                const bool there = first + i < a.queries;
                async_word(columns + slot * 2 * TILE + threadIdx.x,
                           column + (there ? g * a.queries + first + i : 0), there);
            }
        }
        hr_async_commit();
    };
    int n = following(words, 0, steps), next = following(words, n + 1, steps), slot = 0;
    fetch_queries(n, 0, 0);
    fetch_queries(next, 1, 1);
    hr_async_wait<1>();
    shown();
    __syncthreads();
    float out_k[PANELS][8][4], out_v[PANELS][8][4], s[8][4], dp[8][4];
    hr_u32 f[4][4], g[4][4];
    clear(out_k);
    clear(out_v);
    const auto begin_tile = [&](const char *stage) {
        products_begin();
        times(s, mine.of(ks), stage);
        products_end();
        times(dp, mine.of(vs), stage + SIDE);
        products_end();
    };
    const auto word_of = [&](int n) -> hr_u32 {
        if (!BITS || n >= steps || beyond || !(flag_of(words, n) & HIDES)) {
            return beyond ? 0u : ~0u;
        }
        return ((const hr_u32 *)mask)[(hr_i64)tile_of(n) * 32 + lane];
    };
    const auto kept_of = [&](int n) -> hr_u32 {
        if (!DROP || n >= steps) {
            return ~0u;
        }
        const hr_u32 across = ((hr_u32)a.keys + 3) / 4;
        const hr_i64 query =
            (h * a.group + head_of(n)) * a.queries + (hr_i64)tile_at(n) * TILE + lane % 4 * 2;
        return kept_bits(control, e, (hr_u32)b, (hr_u32)query * across, across, (hr_u32)(k0 + row));
    };
    // Probabilities from the scores of step n.
    const auto weigh = [&](int n, int slot, int flip, const char *tile, hr_u32 word, hr_u32 kept) {
        const float *const column = columns + slot * 2 * TILE + lane % 4 * 2;
        const hr_i64 q0 = (hr_i64)tile_at(n) * TILE;
        const hr_u32 flag = flag_of(words, n);
        if (MASK && !BITS) {
            m.init(mask, flags, e, a, b, h * a.group + head_of(n));
        }
        masked<true>(s, flag & FINITE ? flag : flag & ~HIDES, m, tile, k0, q0); // minus infinity is added
        if (adds(n)) {
            bar_wait(own_bars + flip, flips >> flip & 1u);
            flips ^= 1u << flip;
            add_tile(s, own_rooms + flip * NUMBERS_OF_WARP, 1.0f / a.scale);
            __syncwarp();
        }
        const bool large = MASK == 5 && (flag & FINITE);
        if (large) { // as `with` has it
#pragma unroll
            for (int i = 0; i < 32; i++) {
                s[i / 4][i % 4] = fmaxf(s[i / 4][i % 4], ROW_LOWEST);
            }
        }
        if (BITS && (beyond || (flag & HIDES))) {
            hide(s, word);
        }
        const float *const first = columns + slot * 2 * TILE + lane;
        const bool far =
            MASK != 4 && (flag & FINITE) &&
            __any_sync(0xffffffffu, row_sees_far(first[0]) || row_sees_far(first[32]));
        if (far && TAKEN) { // finite numbers that were too low for a sum
            lift(s, m, tile);
        }
        if (far) {
#pragma unroll
            for (int i = 0; i < 32; i++) {
                const float own = column[i / 4 * 8 + i % 2];
                s[i / 4][i % 4] = row_sees_far(own) ? far_score(s[i / 4][i % 4], a.scale, own)
                                                    : s[i / 4][i % 4];
            }
        }
        const int behind = (int)(k0 - q0) + row; // the first query that sees it
        const bool edge = CAUSAL && (int)(k0 - q0) + OWN > 1;
        const auto make = [&](auto of) {
#pragma unroll
            for (int i = 0; i < 32; i += 2) {
                const float2 by = *(const float2 *)(column + i / 4 * 8);
                const int query = i / 4 * 8 + lane % 4 * 2, key = behind + i / 2 % 2 * 8;
                const float p0 = of(s[i / 4][i % 4], by.x * HR_LOG2E);
                const float p1 = of(s[i / 4][i % 4 + 1], by.y * HR_LOG2E);
                s[i / 4][i % 4] = edge && key > query ? 0.0f : p0;
                s[i / 4][i % 4 + 1] = edge && key > query + 1 ? 0.0f : p1;
            }
        };
        if (far) {
            make([&](float x, float shift) {
                return large_weight(x, scale, row_sees_far(shift) ? 0.0f : shift);
            });
        } else if (large) {
            make([&](float x, float shift) { return large_weight(x, scale, shift); });
        } else {
            make([&](float x, float shift) { return weight(x, scale, shift); });
        }
        if (!BITS && k0 + OWN > a.keys) { // what is behind the last key might weigh anything
#pragma unroll
            for (int i = 0; i < 32; i++) {
                s[i / 4][i % 4] = k0 + row + i / 2 % 2 * 8 < a.keys ? s[i / 4][i % 4] : 0.0f;
            }
        }
        pack(f, s);
#pragma unroll
        for (int i = 0; i < 16 && DROP; i++) {
            f[i / 4][i % 4] &= (kept >> (2 * i) & 1u ? 0xffffu : 0u) |
                               (kept >> (2 * i + 1) & 1u ? 0xffff0000u : 0u);
        }
    };
    // dv, then the gradients of scores and dk; two groups of products.
    const auto add_tile = [&](const char *stage, int slot, hr_u32 kept) {
        const float *const column = columns + slot * 2 * TILE + lane % 4 * 2;
        products_begin();
        add_rows(out_v, f, stage + SIDE);
        products_end();
#pragma unroll
        for (int i = 0; i < 32; i += 2) {
            const float2 off = *(const float2 *)(column + TILE + i / 4 * 8);
            if (DROP) {
                dp[i / 4][i % 4] = kept >> i & 1u ? dp[i / 4][i % 4] * e.keep : 0.0f;
                dp[i / 4][i % 4 + 1] = kept >> (i + 1) & 1u ? dp[i / 4][i % 4 + 1] * e.keep : 0.0f;
            }
            dp[i / 4][i % 4] = s[i / 4][i % 4] * (dp[i / 4][i % 4] - off.x);
            dp[i / 4][i % 4 + 1] = s[i / 4][i % 4 + 1] * (dp[i / 4][i % 4 + 1] - off.y);
        }
        pack(g, dp);
        products_begin();
        add_rows(out_k, g, stage);
        products_end();
    };
    const hr_u32 first_scores =
        (hr_u32)((hr_i64)(blockIdx.x % all) * a.group * ((a.keys + TILE - 1) / TILE) + k0 / TILE +
                 threadIdx.x / 128);
    const auto leave_scores = [&](int n) {
        if (SCORES && k0 + threadIdx.x / 128 * 64 < a.keys) {
            const hr_u32 of = first_scores + (hr_u32)(head_of(n) * (int)((a.keys + TILE - 1) / TILE));
            const hr_u32 tile = of * (hr_u32)end + (hr_u32)tile_at(n); // they have 512 MiB at most
            uint4 *const to =
                scores + (hr_i64)tile * BLOB + threadIdx.x / 32 % 4 * 128 + lane;
#pragma unroll
            for (int t = 0; t < 4; t++) {
                to[t * 32] = make_uint4(g[t][0], g[t][1], g[t][2], g[t][3]);
            }
        }
    };
#if EARLY
    int flip = 0;
    hr_u32 word = word_of(n), kept = kept_of(n);
    begin_tile(stages);
    products_wait<1>();
    pinned(s);
    hr_u32 phase = 0;
    while (n < steps) {
        const int after = slot == STAGES - 1 ? 0 : slot + 1;
        weigh(n, slot, flip, masks + flip * MASKED_BYTES, word, kept);
        products_wait_behind(f);
        pinned(dp);
        if (SPLIT) { // this thread's part of the next tile is there, and it has weighed: it is done with the mask's
            hr_async_wait<0>();
            shown();
            __syncwarp();
            if (lane == 0) {
                bar_arrive(pace);
            }
        }
        add_tile(stages + slot * EACH, slot, kept);
        if (SPLIT) {
            bar_wait(pace, phase);
            phase ^= 1u;
        } else {
            hr_async_wait<0>();
            shown();
            __syncthreads(); // the next tile is there, and all are done with the one before this
        }
        const int later = following(words, next + 1, steps);
        fetch_queries(later, after == STAGES - 1 ? 0 : after + 1, flip);
        begin_tile(stages + after * EACH); // behind the last it is read by nobody
        leave_scores(n);
        word = word_of(next);
        kept = kept_of(next);
        products_wait<1>();
        pinned(s);
        pin(out_v);
        pin(out_k);
        n = next;
        next = later;
        slot = after;
        flip ^= 1;
    }
    products_wait<0>();
    pin(out_v);
    pin(out_k);
    __syncthreads(); // all are done with ks
#else
    while (n < steps) {
        const char *const stage = stages + slot * EACH;
        const int after = slot == STAGES - 1 ? 0 : slot + 1;
        const int later = following(words, next + 1, steps);
        fetch_queries(later, after == STAGES - 1 ? 0 : after + 1, 0);
        const hr_u32 word = word_of(n);
        begin_tile(stage);
        const hr_u32 kept = kept_of(n);
        products_wait<1>();
        pinned(s);
        weigh(n, slot, 0, stage + 2 * SIDE, word, kept);
        products_wait<0>();
        pinned(dp);
        add_tile(stage, slot, kept);
        leave_scores(n);
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
#endif
    put_rows(dk + b * a.k_batch + h * a.depth, a.k_row, k0, a.keys, a.depth, ks, out_k, a.scale,
             a.scale);
    const float by = DROP ? e.keep : 1.0f; // of what is not dropped
    put_rows(dv + b * a.v_batch + h * a.depth, a.v_row, k0, a.keys, a.depth, ks, out_v, by, by);
}
