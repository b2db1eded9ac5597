// Attention with a mask by the products of warpgroups (Hopper), for 2-byte types up to 64 deep, forward: many queries.
//
// A block has 256 queries, four warpgroups of 64, and a fifth whose first warp feeds them: the copy engine brings tiles of queries, keys
// and values, by maps of where they lie, to rings in shared memory; one barrier of a tile says that it is there, another that it may be
// written again.  A block is one of as many as there are multiprocessors, and goes over pieces of work; tiles of the next one come while
// the last values of this one are added, and a second warp has listed what it sees before.  So many queries share what a block reads: with
// 128 of them the second cache cannot bring keys and values as fast as they are used up.
//
// Words of attention_words.cu (NATURAL) are the mask, as in attention_hopper_bits.cu.  Numbers (ADD) come as tiles of attention_spread.cu, which
// hide by themselves, and scores begin with them: products add to what is there (attention_hopper_bits_wide.cuh).  KEYED: one row for all queries, of f32 (attention_key_row).
// attention_hopper.cuh, _tiles.cuh, _bits.cuh and _bits_wide.cuh stand before it; WGS is 4, THREADS those that compute.
enum {
    Q_BYTES = OWN * 128,
    NUMBERS_BYTES = KEYED ? TILE * 4 : ADD ? OWN * 128 : 0,
    WARPS = THREADS / 32,
    IDLE_WARPS = 2, // of the warpgroup that feeds
    FEEDER_REGISTERS = 32,
    OTHER_REGISTERS = 112 // five times 96 at the start
};

// ---- the copy engine ----

HR_INLINE void load_row(char *to, const float *from, hr_u64 *bar) {
#ifdef HRI_EMULATED
    for (int i = 0; i < TILE; i++) {
        ((float *)to)[i] = from[i];
    }
#elif defined(__CUDA_ARCH_FEAT_SM90_ALL)
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1], %2, [%3];" ::"r"((hr_u32)__cvta_generic_to_shared(to)),
                 "l"(from), "r"((hr_u32)(TILE * 4)), "r"((hr_u32)__cvta_generic_to_shared(bar))
                 : "memory");
#endif
}

// ---- rings: what was never used is free ----

struct room {
    char *q, *k, *v, *numbers;
    hr_u64 *full_q, *empty_q, *full_k, *empty_k, *full_v, *empty_v, *full_n, *empty_n;
    hr_u64 *all_made;  // where masks are MAKING
    hr_u64 *full_list; // of two pieces of work
    hr_u32 *orders;    // of those, too
    int all;           // tiles of keys
    HR_INLINE void init(unsigned char *shared, const shape &a) {
        q = aligned(shared);
        k = q + 2 * Q_BYTES;
        v = k + RING * SIDE;
        numbers = v + RING * SIDE;
        full_q = (hr_u64 *)(numbers + NUMBER_ROOMS * NUMBERS_BYTES);
        empty_q = full_q + 2;
        full_k = empty_q + 2;
        empty_k = full_k + RING;
        full_v = empty_k + RING;
        empty_v = full_v + RING;
        full_n = empty_v + RING;
        empty_n = full_n + NUMBER_ROOMS;
        all_made = empty_n + NUMBER_ROOMS;
        full_list = all_made + 1;
        orders = (hr_u32 *)(full_list + 2);
        all = (int)((a.keys + TILE - 1) / TILE);
    }
    HR_INLINE hr_u32 *order(int i) const { // its number stands before it
        return orders + i * (all + 1) + 1;
    }
    HR_INLINE void make_bars() const {
        for (int i = 0; i < RING; i++) {
            bar_init(full_k + i, 1);
            bar_init(full_v + i, 1);
            bar_init(empty_k + i, WARPS);
            bar_init(empty_v + i, WARPS);
        }
        for (int i = 0; i < NUMBER_ROOMS; i++) {
            bar_init(full_n + i, 1);
            bar_init(empty_n + i, WARPS);
        }
        for (int i = 0; i < 2; i++) {
            bar_init(full_q + i, 1);
            bar_init(empty_q + i, WARPS);
            bar_init(full_list + i, 1);
        }
        bar_init(all_made, IDLE_WARPS);
    }
};

// ---- pieces of work ----

// Where the queries of a piece are; pieces that are not whole come last.  A block has other queries of each head that it comes to, because
// some may see more keys than others.
struct piece {
    int q0, b, h;
    hr_i64 tile; // the first of its tiles of bits
    int count;   // those of 16 queries
    HR_INLINE void init(hr_u32 work, const shape &a, const bits_shape &e, hr_u32 heads_all) {
        const hr_u32 whole = (hr_u32)(a.queries / OWN);
        const bool last = work >= heads_all * whole;
        const hr_u32 head = last ? work - heads_all * whole : work / whole;
        q0 = (int)((last ? whole : (work + head * whole / gridDim.x) % whole) * OWN);
        b = (int)(head / (hr_u32)a.heads);
        h = (int)(head % (hr_u32)a.heads);
        if (ADD && e.head != 0 && e.batch == 0) { // samples that share a mask run side by side
            const hr_u32 samples = heads_all / (hr_u32)a.heads;
            b = (int)(head % samples);
            h = (int)(head / samples);
        }
        tile = b * e.batch + h * e.head + q0 / 16 * e.rows;
        count = (int)((a.queries - q0 + 15) / 16);
    }
};

// The tiles of keys that any of `count` times 16 queries sees, as tiles_seen has them, one at least; in the upper half how many tiles of numbers
// there are, where what hides is a number too, and HIDES_SOME.
#define HIDES_SOME 0x40000u
HR_INLINE void steps_seen(hr_u32 *order, const hr_u8 *seen, hr_i64 rows, int all, int count) {
    tiles_seen(order, seen, rows, all, count);
    __syncwarp();
    const int steps = (int)(order[-1] & ~SOME_ADD);
    for (int j = threadIdx.x & 31; ADD && j < steps; j += 32) {
        const hr_u32 tile = order[j] & 0xffffu;
        hr_u32 flags = 0;
        for (int i = 0; i < OWN / 16 && i < count; i++) {
            flags |= seen[i * rows + tile];
        }
        order[j] = tile | (!(flags & ADDS) ? 0u : PLANES == 2 && flags & PARTS ? 2u : 1u) << 16 |
                   (MAKING && flags & HIDES ? HIDES_SOME : 0u);
    }
}
// How many tiles of numbers, or rows of keys, a step begins with.
HR_INLINE int begins_with(hr_u32 step) {
    return KEYED ? 1 : ADD ? (int)(step >> 16 & 3u) : 0;
}

// The warp that lists what each piece sees.
HR_INLINE void list_all(const room &r, const hr_u8 *seen, const shape &a, const bits_shape &e,
                        hr_u32 heads_all, hr_u32 works, const making &m) {
    cursor<2> mine;
    mine.init();
    for (hr_u32 w = blockIdx.x; w < works; w += gridDim.x) {
        piece p;
        p.init(w, a, e, heads_all);
        bar_wait(r.empty_q + mine.slot, mine.phase ^ 1u);
        if (MAKING) {
            wait_made(m, (hr_u32)p.tile, r.all_made);
        }
        steps_seen(r.order(mine.slot), seen + p.tile, e.rows, r.all, p.count);
        __syncwarp();
        if (threadIdx.x % 32 == 0) {
            bar_arrive(r.full_list + mine.slot);
        }
        mine.next();
    }
}

// The warp that feeds.
HR_INLINE void feed(const room &r, const tensor_map &q, const tensor_map &k, const tensor_map &v,
                    const tensor_map &numbers, const float *row, const shape &a,
                    const bits_shape &e, hr_u32 heads_all, hr_u32 works) {
    const bool first = threadIdx.x % 32 == 0;
    cursor<2> mine;
    cursor<RING> at;
    cursor<NUMBER_ROOMS> n_at;
    mine.init();
    at.init();
    n_at.init();
    for (hr_u32 w = blockIdx.x; w < works; w += gridDim.x) {
        piece p;
        p.init(w, a, e, heads_all);
        const hr_u32 *const order = r.order(mine.slot);
        bar_wait(r.full_list + mine.slot, mine.phase); // whoever listed has waited for the place of the queries
        if (first) {
            hr_u64 *const bar = r.full_q + mine.slot;
            bar_expect(bar, Q_BYTES);
            load_box(r.q + mine.slot * Q_BYTES, q, bar, 0, p.h, p.q0, p.b);
            boxes_end(bar);
            const int steps = (int)(order[-1] & ~SOME_ADD), head = p.h / a.group;
            for (int j = 0; j < steps; j++) {
                const int c0 = (int)(order[j] & 0xffffu) * TILE;
                for (int part = 0; part < begins_with(order[j]); part++) {
                    hr_u64 *const full = r.full_n + n_at.slot;
                    char *const to = r.numbers + n_at.slot * NUMBERS_BYTES;
                    bar_wait(r.empty_n + n_at.slot, n_at.phase ^ 1u);
                    bar_expect(full, NUMBERS_BYTES);
                    if (KEYED) {
                        load_row(to, row + p.tile * TILE + c0, full);
                    }
                    if (ADD) {
                        load_box(to, numbers, full, c0, p.q0, e.mask_head ? p.h : 0,
                                 e.mask_batch ? p.b + part * (int)e.samples : part);
                    }
                    boxes_end(full);
                    n_at.next();
                }
                bar_wait(r.empty_k + at.slot, at.phase ^ 1u);
                bar_expect(r.full_k + at.slot, SIDE);
                load_box(r.k + at.slot * SIDE, k, r.full_k + at.slot, 0, head, c0, p.b);
                boxes_end(r.full_k + at.slot);
                bar_wait(r.empty_v + at.slot, at.phase ^ 1u);
                bar_expect(r.full_v + at.slot, SIDE);
                load_box(r.v + at.slot * SIDE, v, r.full_v + at.slot, 0, head, c0, p.b);
                boxes_end(r.full_v + at.slot);
                at.next();
            }
        }
        __syncwarp();
        mine.next();
    }
}

// ---- a warpgroup ----

// Rows of probabilities added up, by products of a warp with ones.
HR_INLINE void add_up(float (&sums)[4], const hr_u32 (&p)[4][4]) {
#ifdef HRI_EMULATED
    add_ones(sums, p, nullptr);
#else
#define BY_ONES(T)                                                                                 \
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." T "." T                                  \
                 ".f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%8}, {%0,%1,%2,%3};"                      \
                 : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])                      \
                 : "r"(p[t][0]), "r"(p[t][1]), "r"(p[t][2]), "r"(p[t][3]), "r"(ONE_ONE))
#pragma unroll
    for (int t = 0; t < 4; t++) {
        if (is_bf16(ELEM())) {
            BY_ONES("bf16");
        } else {
            BY_ONES("f16");
        }
    }
#endif
}
struct computing {
    const room &r;
    const shape &a;
    const bits_shape &e;
    const hr_u32 *bits;
    float scale; // of scores, for powers of 2
    cursor<2> mine;
    cursor<RING> k_at, v_at;
    cursor<NUMBER_ROOMS> n_at;
    piece p;
    hr_u32 first_tile;
    int lane, own;
    hr_u32 unit; // of the product that adds numbers

    float s[8][4], out[PANELS][8][4], sums[4];
    hr_u32 probs[4][4], word;
    running run;

    HR_INLINE computing(const room &room_, const shape &a_, const bits_shape &e_,
                        const hr_u32 *bits_)
        : r(room_), a(a_), e(e_), bits(bits_) {
        scale = a.scale * HR_LOG2E;
        mine.init();
        k_at.init();
        v_at.init();
        n_at.init();
        lane = threadIdx.x & 31;
        own = own_warp();
        unit = ADD ? on_diagonal(e.over, FIRST()) : 0u;
    }
    HR_INLINE const hr_u32 *order() const {
        return r.order(mine.slot);
    }
    HR_INLINE int steps() const {
        return (int)(order()[-1] & ~SOME_ADD);
    }
    HR_INLINE void pin_all() {
        pin(out);
        pinned_sums(sums);
    }
    HR_INLINE void clear_all() {
        clear(out);
        sums[0] = sums[1] = sums[2] = sums[3] = 0.0f;
    }
    HR_INLINE void word_of(int j) {
        word = KEYED || ADD ? ~0u : bits[(hr_i64)(first_tile + (order()[j] & 0xffffu)) * 32 + lane];
    }
    // Queries are there.
    HR_INLINE void enter() {
        bar_wait(r.full_q + mine.slot, mine.phase);
        first_tile = (hr_u32)(p.tile + (own < p.count ? own : p.count - 1) * e.rows);
    }
    // Scores begin with the numbers of a step.
    HR_INLINE void take_numbers(int count, hr_u32 step) {
        const char *const numbers = r.numbers + n_at.slot * NUMBERS_BYTES;
        bar_wait(r.full_n + n_at.slot, n_at.phase);
        if (KEYED) {
            begin_with_row(s, numbers);
        } else if (MAKING && step & HIDES_SOME) {
            begin_with<true>(s, numbers, unit, e.over);
        } else {
            begin_with<false>(s, numbers, unit, e.over);
        }
        if (PLANES == 2 && count == 2) {
            cursor<NUMBER_ROOMS> second = n_at;
            second.next();
            bar_wait(r.full_n + second.slot, second.phase);
            add_second(s, r.numbers + second.slot * NUMBERS_BYTES, e.over);
        }
        pinned(s);
    }
    // Their place is given back, as often as there are.
    HR_INLINE void numbers_done(int count) {
        for (int part = 0; part < (PLANES == 2 ? count : 1); part++) {
            if (lane == 0) {
                bar_arrive(r.empty_n + n_at.slot);
            }
            n_at.next();
        }
    }
    // Products of step j are under way.
    HR_INLINE void begin(int j) {
        const hr_u32 now = order()[j];
        const int count = begins_with(now);
        if (count) {
            take_numbers(count, now);
        }
        bar_wait(r.full_k + k_at.slot, k_at.phase);
        products_begin();
        const char *const q = r.q + mine.slot * Q_BYTES + own / 4 * (64 * 128);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            product(s, q, i * 32, r.k + k_at.slot * SIDE, i * 32, i > 0 || count);
        }
        products_end();
        if (count) { // here, where products have the numbers: an arrival does not wait for what is still being loaded
            __syncwarp();
            numbers_done(count);
        }
    }
    HR_INLINE void add_values() {
        bar_wait(r.full_v + v_at.slot, v_at.phase);
        products_begin();
        add_rows(out, probs, r.v + v_at.slot * SIDE);
        products_end();
    }
    HR_INLINE void keys_done() {
        if (lane == 0) {
            bar_arrive(r.empty_k + k_at.slot);
        }
        k_at.next();
    }
    HR_INLINE void values_done() {
        if (lane == 0) {
            bar_arrive(r.empty_v + v_at.slot);
        }
        v_at.next();
    }
    // Sums of a step are kept, or made of its probabilities.
    HR_INLINE void count(const float (&part)[2]) {
        if (ONES) {
            add_up(sums, probs);
        } else {
            run.sum[0] += part[0];
            run.sum[1] += part[1];
        }
    }
    HR_INLINE void probabilities() {
        float part[2];
        const bool hides = !KEYED && !ADD && __any_sync(0xffffffffu, word != ~0u);
        if (hides && !ONES) {
            hide(s, word);
        }
        soften<false, ONES>(s, probs, part, scale, run.most[0], run.most[1]);
        bool larger = !(part[0] < LIMIT) || !(part[1] < LIMIT);
        if (ONES) {
            if (hides) {
                hide_pairs(probs, word);
            }
            hr_u32 all_bits = 0;
#pragma unroll
            for (int i = 0; i < 16; i++) {
                all_bits |= probs[i / 4][i % 4];
            }
            larger = (all_bits & 0x40004000u) != 0; // one is 2 or more, or not a number
        }
        if (__any_sync(0xffffffffu, larger || ((ADD || KEYED) && is_far(run, scale)))) {
            if (hides && ONES) {
                hide(s, word);
            }
            rise<ADD || KEYED, ONES>(run, s, probs, part, sums, out, scale);
        }
        count(part);
    }
    // The same of a first step, where there is nothing to multiply.
    HR_INLINE void first_probabilities() {
        float part[2], use[2];
        if (!KEYED && !ADD && __any_sync(0xffffffffu, word != ~0u)) {
            hide(s, word);
        }
#pragma unroll
        for (int half = 0; half < 2; half++) {
            float m = fmaxf(s[0][2 * half], s[0][2 * half + 1]);
#pragma unroll
            for (int n = 1; n < 8; n++) {
                m = fmaxf(m, fmaxf(s[n][2 * half], s[n][2 * half + 1]));
            }
            m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, 1));
            m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, 2));
            run.most[half] = ONES ? m + MARGIN / scale : m;
            use[half] = m == none() ? 0.0f : run.most[half];
            run.sum[half] = 0.0f;
        }
        soften<ADD || KEYED, ONES>(s, probs, part, scale, use[0], use[1]);
        count(part);
    }
    HR_INLINE void step(int j) {
        begin(j);
        add_values();
        word_of(j);
        products_wait<0>();
        pinned(s);
        pin_all();
        keys_done();
        values_done();
        probabilities();
    }
    // Results of a piece, by way of the place of its queries; not 0: one of this thread's two queries sees nothing.
    HR_INLINE hr_u32 put(const piece &of, int at, ELEM *o, float *lse) {
        float by[2];
        hr_u32 blind = 0;
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const bool unseen = ADD && run.most[half] < UNSEEN * e.over;
            float l = ONES ? sums[2 * half] : unseen ? 0.0f : run.sum[half];
            if (!ONES) {
                l += __shfl_xor_sync(0xffffffffu, l, 1);
                l += __shfl_xor_sync(0xffffffffu, l, 2);
            }
            const int row = of.q0 + own * 16 + lane / 4 + half * 8;
            blind |= l == 0.0f ? 1u : 0u;
            by[half] = l == 0.0f ? 0.0f : 1.0f / l;
            if (lane % 4 == 0 && row < a.queries) {
                lse[((hr_i64)of.b * a.heads + of.h) * a.queries + row] =
                    l == 0.0f ? -none()
                    : NUMBERS ? row_kept(run.most[half], a.scale, l)
                              : run.most[half] * a.scale + logf(l);
            }
        }
        put_rows(o + of.b * a.o_batch + of.h * a.depth, a.o_row, of.q0, a.queries, a.depth,
                 r.q + at * Q_BYTES, out, by[0], by[1]);
        return blind;
    }
    HR_INLINE void queries_done(int at) {
        shown();
        __syncwarp();
        if (lane == 0) {
            bar_arrive(r.empty_q + at);
        }
    }
    // Nothing of this piece is this warpgroup's.
    HR_INLINE void pass() {
        bar_wait(r.full_q + mine.slot, mine.phase);
        const hr_u32 *const seen = order();
        const int count = steps();
        for (int j = 0; j < count; j++) {
            for (int part = 0; part < begins_with(seen[j]); part++) {
                bar_wait(r.full_n + n_at.slot, n_at.phase);
                numbers_done(1);
            }
            bar_wait(r.full_k + k_at.slot, k_at.phase);
            keys_done();
            bar_wait(r.full_v + v_at.slot, v_at.phase);
            values_done();
        }
        queries_done(mine.slot);
        mine.next();
    }
    // Whether this warpgroup has queries of a piece; it passes the others.
    HR_INLINE bool seek(hr_u32 work, int group, hr_u32 heads_all) {
        p.init(work, a, e, heads_all);
        if (!has_queries(group)) {
            pass();
            return false;
        }
        return true;
    }
    HR_INLINE void start() {
        enter();
        word_of(0);
        begin(0);
        products_wait<0>();
        pinned(s);
        keys_done();
        clear_all();
        first_probabilities();
    }
    HR_INLINE bool has_queries(int group) const {
        return p.q0 + group * 64 < a.queries;
    }
};

// Queries of a piece that see nothing, but are hidden from by finite numbers: lse is infinite of them, and of no others.
HR_INLINE void weigh_unseen(const piece &p, ELEM *o, float *lse, const MELEM *mask, const ELEM *v,
                            const shape &a, const hr_u8 *seen, const bits_shape &e) {
    const int all = (int)((a.keys + TILE - 1) / TILE), lane = threadIdx.x & 31;
    const int own = threadIdx.x / 32;
    const hr_i64 first = p.q0 + own * 16;
    float *const stats = lse + ((hr_i64)p.b * a.heads + p.h) * a.queries;
    hr_u32 finite = 0;
    for (int n = lane; n < all && own < p.count; n += 32) {
        finite |= seen[p.tile + own * e.rows + n] & FINITE;
    }
    if (!__any_sync(0xffffffffu, finite != 0)) {
        return;
    }
    const bool blind = lane < 16 && first + lane < a.queries && stats[first + lane] == -none();
    for (hr_u32 left = __ballot_sync(0xffffffffu, blind); left; left &= left - 1) {
        const hr_i64 i = first + __ffs((int)left) - 1;
        weigh_hidden(o + p.b * a.o_batch + p.h * a.depth + i * a.o_row, stats + i,
                     mask + p.b * e.mask_batch + p.h * e.mask_head + i * e.mask_row,
                     v + p.b * a.v_batch + p.h / a.group * a.depth, a, e, nullptr, (hr_u32)p.b,
                     p.h * a.queries + i, CAUSAL && i + 1 < a.keys ? i + 1 : a.keys);
    }
}
// Those of all pieces of a block, when it is done with them: done between two of them, it would take registers that the next one has.
HR_INLINE void weigh_all_unseen(ELEM *o, float *lse, const MELEM *mask, const ELEM *v,
                                const shape &a, const hr_u8 *seen, const bits_shape &e,
                                hr_u32 heads_all, hr_u32 works) {
    __syncwarp(); // all have put what they have
#pragma unroll 1
    for (hr_u32 w = blockIdx.x; w < works; w += gridDim.x) {
        piece p;
        p.init(w, a, e, heads_all);
        weigh_unseen(p, o, lse, mask, v, a, seen, e);
    }
}

HR_KERNEL __launch_bounds__(THREADS + 128, 1)
    attention_forward_wide(HR_TABLE tensor_map q_map, HR_TABLE tensor_map k_map,
                           HR_TABLE tensor_map v_map, HR_TABLE tensor_map numbers_map, const ELEM *v,
                           ELEM *o, float *lse, shape a, hr_u32 *bits, hr_u8 *seen, bits_shape e,
                           const MELEM *mask, hr_u32 heads_all, hr_u32 works, making m) {
#ifdef HRI_EMULATED
    HR_SHARED(shared);
    const int group = threadIdx.x / 128;
#else
    extern __shared__ __align__(1024) unsigned char shared[];
    const int group = __shfl_sync(0xffffffffu, threadIdx.x / 128, 0); // the same for the compiler, too
#endif
    room r;
    r.init(shared, a);
    if (threadIdx.x == 0) {
        r.make_bars();
        bars_shown();
    }
    __syncthreads();
    if (group == WGS) {
        registers_fewer<FEEDER_REGISTERS>();
        if (threadIdx.x < THREADS + 32) {
            feed(r, q_map, k_map, v_map, numbers_map, (const float *)bits, a, e, heads_all, works);
        } else if (threadIdx.x < THREADS + 64) {
            list_all(r, seen, a, e, heads_all, works, m);
        } else if (MAKING) {
            make_masks(m, mask, bits, seen, r.all_made);
        }
        return;
    }
    registers_more<OTHER_REGISTERS>();
    computing c(r, a, e, bits);
    hr_u32 w = blockIdx.x, blind = 0;
    while (w < works && !c.seek(w, group, heads_all)) {
        w += gridDim.x;
    }
    if (w < works) {
        c.start();
    }
    while (w < works) {
        const int steps = c.steps();
        for (int j = 1; j < steps; j++) {
            c.step(j);
        }
        const piece now = c.p;
        const int at = c.mine.slot;
        bool more = false;
        c.mine.next();
        w += gridDim.x;
        if (w < works) {
            c.p.init(w, a, e, heads_all);
            more = c.has_queries(group);
        }
        if (more) { // scores of the next while the last values are added
            c.enter();
            c.word_of(0);
            c.begin(0);
            c.add_values();
            products_wait<0>();
            pinned(c.s);
            c.pin_all();
            c.keys_done();
        } else {
            c.add_values();
            products_wait<0>();
            c.pin_all();
        }
        c.values_done();
        blind |= c.put(now, at, o, lse);
        c.queries_done(at);
        if (more) {
            c.clear_all();
            c.first_probabilities();
            continue;
        }
        while (w < works && !c.seek(w, group, heads_all)) {
            w += gridDim.x;
        }
        if (w < works) {
            c.start();
        }
    }
    if (NUMBERS && __any_sync(0xffffffffu, blind != 0)) {
        weigh_all_unseen(o, lse, mask, v, a, seen, e, heads_all, works);
    }
}
