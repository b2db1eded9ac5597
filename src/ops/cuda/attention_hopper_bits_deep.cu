// Attention with a mask by the products of warpgroups (Hopper), for 2-byte types, forward, 65 to 128 deep: what
// attention_hopper_bits.cu does, where a multiprocessor has registers for one block alone.  Scores of the next step are made, and values
// of the one before added, while the probabilities of a step are made.
// attention_hopper.cuh and attention_hopper_bits.cuh stand before it.

// As in attention_hopper_bits.cu.
template <bool ADDING>
HR_INLINE hr_u32 attend(const ELEM *k, const ELEM *v, ELEM *o, float *lse, const shape &a,
                        const hr_u32 *bits, const bits_shape &e, const MELEM *mask,
                        const hr_control *control, char *ring, char *room, char *numbers_of_keys,
                        hr_u64 *full, const hr_u32 *order, const MELEM *tiles) {
    enum { NUMBERED = ADDING || (NUMBERS && KEYED), LATE = ADDING && ROOMS == 2 && !TILED };
    char *const qs = ring + (RING - 1) * (2 * SIDE);
    hr_u64 *const empty = full + RING;
    place at;
    at.init(this_block(), a, e);
    const hr_i64 q0 = at.q0, b = at.b, h = at.h;
    const int lane = threadIdx.x & 31, own = threadIdx.x / 32;
    const float scale = a.scale * HR_LOG2E;
    const int steps = (int)(order[-1] & ~SOME_ADD);
    k += b * a.k_batch + h / a.group * a.depth;
    v += b * a.v_batch + h / a.group * a.depth;
    bits += KEYED ? at.tile * (TILE * 4)
                  : (at.tile + (own < at.count ? own : at.count - 1) * e.rows) * 32 + lane;
    // This thread's pieces of a tile, of 16 bytes.
    const int piece = threadIdx.x % ACROSS, mine = threadIdx.x / ACROSS % HOP;
    const int row = (int)a.k_row * 2; // bytes; v has the same
    const hr_i64 apart = (const char *)v - (const char *)k;
    const char *const pieces = (const char *)(k + mine * a.k_row + piece * 8);
    const int there = piece * 8 < a.depth ? (int)a.keys - mine : 0;
    const auto numbers_at = [&](int slot) {
        return numbers_of_keys + slot / NUMBER_TILES * (TILE * 128);
    };
    const auto copy = [&](int j, int slot) {
        if (j < steps) {
            const int n = (int)(order[j] & 0xffffu);
            const char *from = pieces + (hr_i64)(n * TILE) * row;
            char *const to = ring + slot * (2 * SIDE) + piece / 8 * (TILE * 128);
#pragma unroll
            for (int i = 0; i < TILE; i += HOP) {
                const hr_u32 bytes = n * TILE + i < there ? 16u : 0u;
                const int where = spot(place_of(mine + i), piece % 8);
                hr_async_copy(to + where, from, bytes);
                hr_async_copy(to + where + SIDE, from + apart, bytes);
                from += (hr_i64)HOP * row;
            }
            if (KEYED && threadIdx.x < TILE) {
                hr_async_copy(numbers_at(slot) +
                                  spot(place_of(threadIdx.x), slot % NUMBER_TILES * 2),
                              bits + (n * TILE + threadIdx.x) * 4, 16u);
            }
        }
    };
    const auto word_of = [&](int j) -> hr_u32 {
        return KEYED ? ~0u : j < steps ? bits[(order[j] & 0xffffu) * 32] : 0u;
    };
    const auto adds = [&](int j) { return ADDING && j < steps && (order[j] >> (16 + own) & 1u); };
    const MELEM *numbers = mask;
    int down = 0;
    hr_u64 *const own_bar = full + 2 * RING + own * ROOMS;
    char *const own_room = room + own * (ROOMS * NUMBERS_OF_WARP);
    hr_u32 flips = 0; // of own_bar
    if (ADDING && TILED) {
        numbers = tiles + (at.tile + (own < at.count ? own : at.count - 1) * e.rows) * 1024;
    } else if (ADDING) {
        const hr_i64 first = q0 + own * 16 + lane / 4, last = a.queries - 1;
        numbers += b * e.mask_batch + h * e.mask_head + (first < last ? first : last) * e.mask_row +
                   lane % 4 * 16;
        down = first + 8 <= last ? (int)e.mask_row * 8
               : first < last    ? (int)((last - first) * e.mask_row)
                                 : 0;
    }
    // Of this thread's draws, in the first tile.
    const hr_u32 block =
        (hr_u32)(h * a.queries + q0 + own * 16 + lane / 4) * (((hr_u32)a.keys + 3) / 4) + lane % 4 * 4;
    // They arrive before the tile that is asked for next.
    const auto copy_ahead = [&](int j) {
        if (TILED) {
            if (adds(j) && lane == 0) {
                load_numbers(own_room + j % ROOMS * NUMBERS_OF_WARP,
                             numbers + (hr_i64)(order[j] & 0xffffu) * 1024, own_bar + j % ROOMS);
            }
            return;
        }
        if (adds(j)) {
            copy_numbers(room + j % ROOMS * (ROOM / ROOMS) + threadIdx.x * 16, numbers, down,
                         (int)(order[j] & 0xffffu) * TILE, (int)a.keys);
        }
        if (ADDING) {
            hr_async_commit();
        }
    };
    if (KEYED) { // behind each row's numbers
        const uint4 zeros = {0, 0, 0, 0};
        for (int i = threadIdx.x; i < 2 * TILE * NUMBER_TILES; i += THREADS) {
            *(uint4 *)(numbers_of_keys + i / (TILE * NUMBER_TILES) * (TILE * 128) +
                       spot(i / NUMBER_TILES % TILE, i % NUMBER_TILES * 2 + 1)) = zeros;
        }
    }
    copy_ahead(0);
    hr_u32 word = word_of(0);
#pragma unroll
    for (int j = 0; j < LEAD; j++) {
        copy(j, j);
        hr_async_commit();
    }
    if (LATE || (TILED && ROOMS == 2)) {
        copy_ahead(1);
    }
    hr_async_wait<LEAD - 1 + LATE>(); // queries and the first tile
    shown();
    bar_arrive(full);
    __syncthreads();
    hr_u32 own_q[STEPS][4];
#pragma unroll
    for (int i = 0; i < STEPS; i++) {
        hr_ldmatrix(own_q[i],
                    qs + i / 4 * (OWN * 128) + spot(own * 16 + lane % 16, 2 * (i % 4) + lane / 16));
    }
    __syncthreads(); // the last tile may be written
    float out[PANELS][8][4], s[8][4], s1[8][4], part[2], sums[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    hr_u32 p[4][4], p1[4][4];
    running r = {{none(), none()}, {0.0f, 0.0f}};
    int slot = 0, before = 0, ahead = LEAD;
    hr_u32 phase = 0, free = 1; // of full, of empty: what was never used is free
    clear(out);
    const hr_u32 all_ones[4] = {NUMBER_ONES, NUMBER_ONES, ONE_ONE, ONE_ONE};
    const auto scores = [&](float(&x)[8][4]) {
        bar_wait(full + slot, phase);
        products_begin();
#pragma unroll
        for (int i = 0; i < STEPS; i++) {
            product<0>(x, own_q[i], ring + slot * (2 * SIDE), i / 4 * (TILE * 128) + i % 4 * 32,
                       i > 0);
        }
        if (KEYED) {
            product<0>(x, all_ones, numbers_at(slot), slot % NUMBER_TILES * 32, 1);
        }
        products_end();
    };
    const auto values = [&](const hr_u32(&x)[4][4], int at) {
        products_begin();
        add_rows(out, x, ring + at * (2 * SIDE) + SIDE);
        products_end();
    };
    // What this thread copied in the step before has arrived; products of all are under way meanwhile.  Returns the bits of step j: the
    // next are asked for behind the fence, which would wait for them.
    const auto further = [&](int j) -> hr_u32 {
        hr_async_wait<LATE>(); // but for the last numbers
        shown();
        bar_arrive(full + (ahead == 0 ? RING - 1 : ahead - 1));
        const hr_u32 now = word;
        word = word_of(j + 1);
        if (j + LEAD < steps) {
            bar_wait(empty + ahead, free);
        }
        copy(j + LEAD, ahead);
        hr_async_commit();
        ahead = ahead == RING - 1 ? 0 : ahead + 1;
        free ^= ahead == 0;
        return now;
    };
    // Probabilities.  Products with `out` are over when `over` was called: ptxas moves a wait up to where it may, so it stands behind a
    // branch that needs the probabilities.
    const auto weigh = [&](int j, float(&x)[8][4], hr_u32(&y)[4][4], hr_u32 now, auto over) {
        if (TILED && adds(j)) {
            bar_wait(own_bar + j % ROOMS, flips >> j % ROOMS & 1u);
            flips ^= 1u << j % ROOMS;
            add_tile(x, own_room + j % ROOMS * NUMBERS_OF_WARP, e.over);
        } else if (adds(j)) {
            add_numbers(x, room + j % ROOMS * (ROOM / ROOMS) + threadIdx.x * 16, down, e.over);
        }
        if (!TILED) {
            copy_ahead(j + ROOMS);
        }
        if (!KEYED && __any_sync(0xffffffffu, now != ~0u)) {
            hide(x, now);
        }
        soften<false, false>(x, y, part, scale, r.most[0], r.most[1]);
        if (__any_sync(0xffffffffu, !(part[0] < LIMIT) || !(part[1] < LIMIT) ||
                                        (NUMBERED && is_far(r, scale)))) {
            over();
            pin(out);
            rise<NUMBERED, false>(r, x, y, part, sums, out, scale);
        } else {
            over();
            pin(out);
        }
        if (TILED) { // all lanes have their numbers: that they were asked for would not be enough
            copy_ahead(j + ROOMS);
        }
        r.sum[0] += part[0];
        r.sum[1] += part[1];
        if (DROP) {
            drop(y, control, e.node, (hr_u32)b, block + (order[j] & 0xffffu) * (TILE / 4),
                 ((hr_u32)a.keys + 3) / 4 * 8, e.limit);
        }
    };
    const auto step = [&](int j, float(&is)[8][4], float(&next)[8][4], hr_u32(&y)[4][4],
                          bool first) {
        const int done = before;
        before = slot;
        slot = slot == RING - 1 ? 0 : slot + 1;
        phase ^= slot == 0;
        scores(next);
        const hr_u32 now = further(j);
        weigh(j, is, y, now, [] { products_wait<1>(); });
        if (!first && lane == 0) {
            bar_arrive(empty + done);
        }
        values(y, before);
        products_wait<1>();
        pinned(next);
    };
    const auto last = [&](float(&is)[8][4], hr_u32(&y)[4][4]) {
        if (ADDING) {
            hr_async_wait<0>();
        }
        weigh(steps - 1, is, y, word, [] { products_wait<0>(); });
        values(y, slot);
    };
    scores(s);
    hr_async_wait<1 + LATE>();
    shown();
    bar_arrive(full + 1);
    products_wait<0>();
    pinned(s);
    if (steps == 1) {
        last(s, p);
    } else {
        int j = 1;
        step(0, s, s1, p, true);
        for (; j + 2 < steps; j += 2) {
            step(j, s1, s, p1, false);
            step(j + 1, s, s1, p, false);
        }
        if (j + 1 < steps) {
            step(j, s1, s, p1, false);
            last(s, p);
        } else {
            last(s1, p1);
        }
    }
    products_wait<0>();
    pin(out);
    hr_async_wait<0>();
    float by[2];
    bool blind[2]; // a query that sees nothing
    place end;
    end.init(this_block(), a, e);
#pragma unroll
    for (int half = 0; half < 2; half++) {
        float l = r.sum[half];
        l += __shfl_xor_sync(0xffffffffu, l, 1);
        l += __shfl_xor_sync(0xffffffffu, l, 2);
        blind[half] = l == 0.0f;
        by[half] = blind[half] ? 0.0f : (DROP ? e.keep : 1.0f) / l;
        const hr_i64 query = end.q0 + own * 16 + lane / 4 + half * 8;
        if (lane % 4 == 0 && query < a.queries) {
            lse[end.head * a.queries + query] =
                blind[half] ? -none()
                : NUMBERS   ? row_kept(r.most[half], a.scale, l)
                            : r.most[half] * a.scale + logf(l);
        }
    }
    __syncthreads(); // all are done with the ring
    put_rows(o + end.b * a.o_batch + end.h * a.depth, a.o_row, end.q0, a.queries, a.depth, qs, out,
             by[0], by[1]);
    return (blind[0] ? 1u : 0u) | (blind[1] ? 2u : 0u);
}

HR_KERNEL __launch_bounds__(THREADS, BLOCKS)
    attention_forward_deep(const ELEM *q, const ELEM *k, const ELEM *v, ELEM *o, float *lse,
                           shape a, const hr_u32 *bits, const hr_u8 *seen, bits_shape e,
                           const MELEM *mask, const hr_control *control, const MELEM *tiles) {
    HR_SHARED(shared);
    char *const ring = aligned(shared), *const qs = ring + (RING - 1) * (2 * SIDE);
    char *const room = ring + RING * 2 * SIDE, *const numbers_of_keys = room + ROOM;
    hr_u64 *const full = (hr_u64 *)(numbers_of_keys + NUMBER_BYTES);
    // Of tiles that are seen.
    hr_u32 *const order = (hr_u32 *)(full + 2 * RING + ROOM_BARS) + 1;
    const int all = (int)((a.keys + TILE - 1) / TILE);
    place at;
    at.init(this_block(), a, e);
    fetch<OWN>(qs, q + at.b * a.q_batch + at.h * a.depth, a.q_row, at.q0, a.queries, a.depth);
    if (threadIdx.x < 32) {
        tiles_seen(order, seen + at.tile, e.rows, all, at.count);
    }
    if (threadIdx.x < RING) {
        bar_init(full + threadIdx.x, THREADS);
        bar_init(full + RING + threadIdx.x, THREADS / 32);
    }
    if (ADD && TILED) {
        if ((int)threadIdx.x < (int)ROOM_BARS) {
            bar_init(full + 2 * RING + threadIdx.x, 1);
        }
        bars_shown();
    }
    __syncthreads();
    const hr_u32 blind =
        ADD && (order[-1] & SOME_ADD)
            ? attend<ADD>(k, v, o, lse, a, bits, e, mask, control, ring, room, numbers_of_keys,
                          full, order, tiles)
            : attend<false>(k, v, o, lse, a, bits, e, mask, control, ring, room, numbers_of_keys,
                            full, order, tiles);
    if (NUMBERS) {
        weigh_blind(this_block(), blind, o, lse, mask, v, a, seen, e, control);
    }
}
