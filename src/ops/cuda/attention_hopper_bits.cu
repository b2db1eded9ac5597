// Attention with a mask by the products of warpgroups (Hopper), for 2-byte types, forward.
//
// The words of attention_words.cu are the mask: 32 bits of a thread, as its scores of 16 queries by 64 keys lie.  Keys behind the last and
// later ones than the query are hidden by them too, so that nothing else is asked of a score; tiles that are hidden whole are left out.
// With a mask of numbers (ADD), what is neither 0 nor hidden is added: of tiles that have such numbers each thread copies its own ahead
// to memory of its own; a block that sees none of those goes the way of bits.  Queries that see nothing, but are hidden from by finite numbers, weigh all of those keys the same.
//
// attention_forward_bits: a warpgroup has 64 queries.  Threads copy tiles of keys and values ahead to a ring; one barrier in memory says
// that a tile is there and another that it may be written again, so that warpgroups wait for one another only where one is far ahead.
// Queries stay in registers; the last tile of the ring is where they came in, and where results go out.
// Scores are taken from a maximum that moves on only where sums of a step would pass LIMIT: probabilities do not wait for a maximum,
// and where one has to move they are made again from the scores.  With dropout (DROP) probabilities are dropped once their sums are
// taken, four of one row by a draw.  attention_hopper.cuh
// and attention_hopper_bits.cuh stand before it.

// The block's queries from q0 on, which are in the last tile of the ring, over the keys of tiles in `order`.  ADDING: there are numbers to
// add; SUMMED: rows are added up by a product; SLOTS and AHEAD: tiles of the ring, and how many steps ahead they are copied.  Returns which
// of this thread's two queries see nothing.
template <bool ADDING, bool SUMMED, int SLOTS, int AHEAD>
HR_INLINE hr_u32 attend(const ELEM *k, const ELEM *v, ELEM *o, float *lse, const shape &a,
                        const hr_u32 *bits, const bits_shape &e, const MELEM *mask,
                        const hr_control *control, char *ring, char *numbers_of_keys, char *ones,
                        hr_u64 *full, const hr_u32 *order, const MELEM *tiles) {
    char *const qs = ring + Q_TILE * (2 * SIDE), *const room = qs + 2 * SIDE;
    hr_u64 *const empty = full + BARS;
    const int lane = threadIdx.x & 31, own = threadIdx.x / 32;
    place at;
    at.init(this_block(), a, e);
    const hr_i64 q0 = at.q0, b = at.b, h = at.h;
    k += b * a.k_batch + h / a.group * a.depth;
    v += b * a.v_batch + h / a.group * a.depth;
    const hr_u32 first_tile =
        (hr_u32)(at.tile + (own < at.count ? own : at.count - 1) * e.rows); // of this warp
    if (!TILED) {
        bits += KEYED ? at.tile * (TILE * 4) : (hr_i64)first_tile * 32 + lane;
    }
    const float scale = a.scale * HR_LOG2E;
    const int steps = (int)(order[-1] & ~SOME_ADD);
    // This thread's pieces of a tile, of 16 bytes.
    const int piece = threadIdx.x % 8, mine = threadIdx.x / 8 % HOP;
    const int row = (int)a.k_row * 2; // bytes; v has the same
    const hr_i64 apart = (const char *)v - (const char *)k;
    const char *const pieces = (const char *)(k + mine * a.k_row + piece * 8);
    const int there = piece * 8 < a.depth ? (int)a.keys - mine : 0;
    const auto copy = [&](int j, int slot) {
        if (j < steps) {
            const int n = (int)(order[j] & 0xffffu);
            const char *at = pieces + (hr_i64)(n * TILE) * row;
            char *const to = ring + slot * (2 * SIDE);
#pragma unroll
            for (int i = 0; i < TILE; i += HOP) {
                const hr_u32 bytes = n * TILE + i < there ? 16u : 0u;
                hr_async_copy(to + spot(place_of(mine + i), piece), at, bytes);
                hr_async_copy(to + spot(place_of(mine + i), piece) + SIDE, at + apart, bytes);
                at += (hr_i64)HOP * row;
            }
            if (KEYED && threadIdx.x < TILE) {
                hr_async_copy(numbers_of_keys + spot(place_of(threadIdx.x), j % NUMBER_TILES * 2),
                              bits + (n * TILE + threadIdx.x) * 4, 16u);
            }
        }
    };
    const auto word_of = [&](int j) -> hr_u32 {
        return KEYED        ? ~0u
               : j >= steps ? 0u
               : TILED      ? bits[(hr_i64)(first_tile + (order[j] & 0xffffu)) * 32 + lane]
                            : bits[(order[j] & 0xffffu) * 32];
    };
    const auto adds = [&](int j) { return ADDING && j < steps && (order[j] >> (16 + own) & 1u); };
    const MELEM *numbers = mask;
    int down = 0;
    hr_u64 *const own_bar = full + 2 * BARS + own;
    char *const own_room = room + own * NUMBERS_OF_WARP;
    hr_u32 flip = 0; // of own_bar
    if (ADDING && !TILED) {
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
    const auto copy_ahead = [&](int j) {
        if (ADDING && TILED) {
            if (adds(j) && lane == 0) {
                load_numbers(own_room, tiles + (hr_i64)(first_tile + (order[j] & 0xffffu)) * 1024,
                             own_bar);
            }
        } else if (ADDING) {
            if (adds(j)) {
                copy_numbers(room + threadIdx.x * 16, numbers, down,
                             (int)(order[j] & 0xffffu) * TILE, (int)a.keys);
            }
            hr_async_commit();
        }
    };
    if (KEYED) { // behind each row's numbers
        const uint4 zeros = {0, 0, 0, 0};
        for (int i = threadIdx.x; i < TILE * NUMBER_TILES; i += THREADS) {
            *(uint4 *)(numbers_of_keys + spot(i / NUMBER_TILES, i % NUMBER_TILES * 2 + 1)) = zeros;
        }
    }
    hr_u32 word = word_of(0);
#pragma unroll
    for (int j = 0; j < AHEAD; j++) {
        copy(j, j);
    }
    hr_async_commit();
    copy_ahead(0);
    hr_async_wait<0>();
    shown();
#pragma unroll
    for (int j = 0; j < AHEAD; j++) {
        bar_arrive(full + j);
    }
    __syncthreads();
    hr_u32 own_q[4][4];
#pragma unroll
    for (int i = 0; i < 4 && !ADDING; i++) {
        hr_ldmatrix(own_q[i], qs + spot(threadIdx.x / 32 * 16 + lane % 16, 2 * i + lane / 16));
    }
    if (SUMMED) {
        ((hr_u32 *)ones)[threadIdx.x % (ONES_BYTES / 4)] = ONE_ONE;
        shown();
    }
    __syncthreads(); // the last tile may be written
    float s[8][4], out[PANELS][8][4], part[2], sums[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    hr_u32 p[4][4];
    running r = {{none(), none()}, {0.0f, 0.0f}};
    int slot = 0, before = 0, ahead = AHEAD;
    hr_u32 phase = 0, free = 1; // of full, of empty: what was never used is free
    clear(out);
    const hr_u32 all_ones[4] = {NUMBER_ONES, NUMBER_ONES, ONE_ONE, ONE_ONE};
    // Scores and probabilities of step j; values of the step before are added with its probabilities.
    const auto step = [&](int j, bool first) {
        const int next = slot == SLOTS - 1 ? 0 : slot + 1;
        bar_wait(full + slot, phase);
        products_begin();
#pragma unroll
        for (int i = 0; i < 4; i++) {
            if (ADDING) {
                product(s, qs + threadIdx.x / 128 * (64 * 128), i * 32, ring + slot * (2 * SIDE),
                        i * 32, i > 0);
            } else {
                product<0>(s, own_q[i], ring + slot * (2 * SIDE), i * 32, i > 0);
            }
        }
        if (KEYED) {
            product<0>(s, all_ones, numbers_of_keys, j % NUMBER_TILES * 32, 1);
        }
        products_end();
        if (!first) {
            add_rows(out, p, ring + before * (2 * SIDE) + SIDE);
            if (SUMMED) {
                add_ones(sums, p, ones);
            }
            products_end();
        }
        // What this thread copied in the step before has arrived; products of all are under way meanwhile.
        if (!first) {
            hr_async_wait<ADDING && !TILED ? 1 : 0>();
            shown();
            bar_arrive(full + (ahead == 0 ? SLOTS - 1 : ahead - 1));
        }
        const hr_u32 now = word; // the next is asked for behind the fence, which would wait for it
        word = word_of(j + 1);
        if (j + AHEAD < steps) {
            bar_wait(empty + ahead, free);
            if (KEYED && j + AHEAD == NUMBER_TILES) {
                __syncthreads(); // the first numbers make room before the ring is full: all have read them
            }
        }
        copy(j + AHEAD, ahead);
        hr_async_commit();
        products_wait<0>();
        pinned(s);
        pin(out);
        if (!first && lane == 0) {
            bar_arrive(empty + before);
        }
        if (TILED && adds(j)) {
            bar_wait(own_bar, flip);
            flip ^= 1;
            add_tile(s, own_room, e.over);
        } else if (adds(j)) {
            hr_async_wait<1>();
            add_numbers(s, room + threadIdx.x * 16, down, e.over);
        }
        if (!TILED) {
            copy_ahead(j + 1);
        }
        const bool hides = !KEYED && __any_sync(0xffffffffu, now != ~0u);
        if (hides && !SUMMED) {
            hide(s, now);
        }
        soften<false, SUMMED>(s, p, part, scale, r.most[0], r.most[1]);
        bool larger = !(part[0] < LIMIT) || !(part[1] < LIMIT);
        if (SUMMED) {
            pinned_sums(sums);
            if (hides) {
                hide_pairs(p, now);
            }
            hr_u32 all_bits = 0;
#pragma unroll
            for (int i = 0; i < 16; i++) {
                all_bits |= p[i / 4][i % 4];
            }
            larger = (all_bits & 0x40004000u) != 0; // one is 2 or more, or not a number
        }
        if (__any_sync(0xffffffffu,
                       larger || ((ADDING || (NUMBERS && KEYED)) && is_far(r, scale)))) {
            if (hides && SUMMED) {
                hide(s, now);
            }
            rise<ADDING || (NUMBERS && KEYED), SUMMED>(r, s, p, part, sums, out, scale);
        }
        if (TILED) { // all lanes have their numbers: that they were asked for would not be enough
            copy_ahead(j + 1);
        }
        r.sum[0] += part[0];
        r.sum[1] += part[1];
        if (DROP) {
            drop(p, control, e.node, (hr_u32)b, block + (order[j] & 0xffffu) * (TILE / 4),
                 ((hr_u32)a.keys + 3) / 4 * 8, e.limit);
        }
        before = slot;
        slot = next;
        phase ^= next == 0;
        ahead = ahead == SLOTS - 1 ? 0 : ahead + 1;
        free ^= ahead == 0;
    };
    step(0, true);
    for (int j = 1; j < steps; j++) {
        step(j, false);
    }
    products_begin();
    add_rows(out, p, ring + before * (2 * SIDE) + SIDE);
    if (SUMMED) {
        add_ones(sums, p, ones);
    }
    products_end();
    products_wait<0>();
    pin(out);
    if (SUMMED) {
        pinned_sums(sums);
    }
    hr_async_wait<0>();
    float by[2];
    bool blind[2]; // a query that sees nothing
    place end;
    end.init(this_block(), a, e);
#pragma unroll
    for (int half = 0; half < 2; half++) {
        float l = SUMMED ? sums[2 * half] : r.sum[half];
        if (!SUMMED) {
            l += __shfl_xor_sync(0xffffffffu, l, 1);
            l += __shfl_xor_sync(0xffffffffu, l, 2);
        }
        blind[half] = l == 0.0f;
        by[half] = blind[half] ? 0.0f : (DROP ? e.keep : 1.0f) / l;
        const hr_i64 row = end.q0 + threadIdx.x / 32 * 16 + lane / 4 + half * 8;
        if (lane % 4 == 0 && row < a.queries) {
            lse[end.head * a.queries + row] =
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
    attention_forward_bits(const ELEM *q, const ELEM *k, const ELEM *v, ELEM *o, float *lse,
                           shape a, const hr_u32 *bits, const hr_u8 *seen, bits_shape e,
                           const MELEM *mask, const hr_control *control, const MELEM *tiles) {
#ifdef HRI_EMULATED
    HR_SHARED(shared);
#else
    extern __shared__ __align__(1024) unsigned char shared[];
#endif
    char *const ring = aligned(shared), *const qs = ring + Q_TILE * (2 * SIDE);
    char *const behind = qs + 2 * SIDE + ROOM, *const numbers_of_keys = behind;
    // For sums, in the room of numbers where that is not in use.
    enum { APART = ONES && (!ADD || TILED) };
    char *const ones = APART ? behind + NUMBER_BYTES : qs + 2 * SIDE;
    hr_u64 *const full = (hr_u64 *)(behind + NUMBER_BYTES + (APART ? ONES_BYTES : 0));
    // Of tiles that are seen.
    hr_u32 *const order = (hr_u32 *)(full + 2 * BARS + ROOM_BARS) + 1;
    const int all = (int)((a.keys + TILE - 1) / TILE);
    place at;
    at.init(this_block(), a, e);
    fetch<OWN>(qs, q + at.b * a.q_batch + at.h * a.depth, a.q_row, at.q0, a.queries, a.depth);
    if (threadIdx.x < 32) {
        tiles_seen(order, seen + at.tile, e.rows, all, at.count);
    }
    if (threadIdx.x < BARS) {
        bar_init(full + threadIdx.x, THREADS);
        bar_init(full + BARS + threadIdx.x, THREADS / 32);
    }
    if (ADD && TILED) {
        if ((int)threadIdx.x < (int)ROOM_BARS) {
            bar_init(full + 2 * BARS + threadIdx.x, 1);
        }
        bars_shown();
    }
    __syncthreads();
    hr_u32 blind;
    if (ADD && (order[-1] & SOME_ADD)) {
        blind = attend<ADD, ONES && TILED, RING, LEAD>(k, v, o, lse, a, bits, e, mask, control,
                                                       ring, numbers_of_keys, ones, full, order,
                                                       tiles);
    } else {
        blind = attend<false, ONES, PLAIN_RING, PLAIN_LEAD>(
            k, v, o, lse, a, bits, e, mask, control, ring, numbers_of_keys, ones, full, order,
            tiles);
    }
    if (NUMBERS) {
        weigh_blind(this_block(), blind, o, lse, mask, v, a, seen, e, control);
    }
}
