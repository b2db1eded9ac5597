// Attention with a mask by the products of warpgroups (Hopper), for 2-byte types, forward, 65 to 128 deep, without dropout: 128 keys a
// step, a pair of tiles of bits that lie anywhere.
//
// Two warpgroups have 64 queries each and compute.  Warps of a third have the copy engine bring keys, values and queries, and numbers of a
// mask, each by a ring of their own, and list the tiles that are seen.  The values of a step are added while the probabilities of the next
// are made, and the two warpgroups take turns, so that products of one run under the probabilities of the other.  What limits it is how long a
// warpgroup takes from scores to probabilities: no step looks for the largest score, but for a sum that is large, and where products lie is
// known to be the same for a warp (`operand`).  A block goes from one tile
// of 128 queries to another, and copies for the next begin before it is done with the first.
// attention_hopper.cuh, attention_hopper_tiles.cuh, attention_hopper_bits.cuh and attention_hopper_bits_pairs.cuh stand before it.
//
// PIECED: numbers of a mask come from memory to the registers of the thread that adds them, 16 bytes at a time, a step ahead.  The order of
// keys within a tile is free as long as keys and values have the same: the copy engine lays them so that a thread has 8 side by side of
// every 32.  A number that hides does so by what it is, so all tiles that are seen are added (ADD_ALL) but where CAUSAL hides, which is in
// words.  DIRECT (and PIECED): nobody looked at the mask before, and every tile has numbers.
// SPREAD: numbers of f32 are two of bf16 (attention_spread.cu), and the second ones are loaded only where a tile has any.

// ---- computing ----

// Scores with numbers of keys, by a product with ones.
HR_INLINE void add_key_numbers(float (&d)[2][8][4], const hr_u32 (&a)[4], const char *numbers,
                               int slot) {
#ifdef HRI_EMULATED
    operand b;
    b.init(numbers + slot * 32);
    product_wide<0>(d, a, b);
#elif defined(__CUDA_ARCH_FEAT_SM90_ALL)
    const char *const at = numbers + slot * (2 * TILE * 16);
    const hr_u64 operand = 8ull << 32 | (hr_u32)((KEY_ZEROS - slot * (2 * TILE * 16)) / 16) << 16 |
                           (hr_u32)__cvta_generic_to_shared(at) >> 4;
    if (is_bf16(ELEM())) {
        WIDE_BY_REGISTERS("bf16", operand, 0);
    } else {
        WIDE_BY_REGISTERS("f16", operand, 0);
    }
#endif
}

// Numbers of a mask that the copy engine brought, 16 rows of this warp by 64 keys: two of 2 bytes in a word, or one of 4; words lie as
// a thread has its scores.
enum { MASK_WORDS = 8 * (int)sizeof(NUMS) };
HR_INLINE void take_numbers(hr_u32 (&x)[MASK_WORDS], const char *room) {
    const int lane = threadIdx.x & 31, warp = threadIdx.x / 32;
#pragma unroll
    for (int n = 0; n < 8 && sizeof(MELEM) == 2; n += 2) {
        hr_u32 w[4];
        hr_ldmatrix(w, room + spot(warp * 16 + lane % 16, n + lane / 16));
#pragma unroll
        for (int i = 0; i < 4; i++) {
            x[(2 * n + i) % MASK_WORDS] = w[i];
        }
    }
#pragma unroll
    for (int i = 0; i < 16 && sizeof(MELEM) == 4; i++) { // two neighbours of a row
        const int n = i / 2, row = warp * 16 + lane / 4 + i % 2 * 8;
        const uint2 y = *(const uint2 *)(room + n / 4 * (OWN * 128) +
                                         spot(row, n % 4 * 2 + lane % 4 / 2) + lane % 2 * 8);
        x[2 * i % MASK_WORDS] = y.x;
        x[(2 * i + 1) % MASK_WORDS] = y.y;
    }
}
HR_INLINE float number_of(const hr_u32 (&x)[MASK_WORDS], int i) {
    return sizeof(NUMS) == 4 ? hr_bits_float(x[i % MASK_WORDS])
           : i % 2           ? high_of(x[i / 2], NUMS())
                             : low_of(x[i / 2], NUMS());
}
HR_INLINE void add_taken(float (&s)[8][4], const hr_u32 (&x)[MASK_WORDS], float over) {
#pragma unroll
    for (int i = 0; i < 32; i++) {
        s[i / 4][i % 4] = fmaf(number_of(x, i), over, s[i / 4][i % 4]);
    }
}
// PIECED: a thread's own of two rows of a tile, from memory.  They lie so many bytes behind the head's: pointers would have 64 bits.
struct pieces {
    const char *head;
    hr_u32 on[2];
    HR_INLINE const NUMS *at(int row, hr_u32 tile, int half) const {
        return (const NUMS *)(head + (on[row] + tile * (TILE * (hr_u32)sizeof(NUMS)))) + half * 32;
    }
};
HR_INLINE void load_pieces(hr_u32 (&x)[MASK_WORDS], const pieces &own, hr_u32 tile) {
#pragma unroll
    for (int i = 0; i < 4; i++) { // of a row, of the other, of the next 32 keys
        const NUMS *const from = own.at(i % 2, tile, i / 2);
#ifdef HRI_EMULATED
        const uint4 y = *(const uint4 *)from;
        x[4 * i] = y.x;
        x[4 * i + 1] = y.y;
        x[4 * i + 2] = y.z;
        x[4 * i + 3] = y.w;
#else
        asm volatile("ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(x[4 * i]), "=r"(x[4 * i + 1]), "=r"(x[4 * i + 2]), "=r"(x[4 * i + 3])
                     : "l"(from));
#endif
    }
}
// The word of bits of those keys: attention_words.cu has 16 side by side.
HR_INLINE hr_u32 pieces_of(const hr_u32 *words) {
    const hr_u16 *const own = (const hr_u16 *)words + threadIdx.x % 4;
    return own[0] | (hr_u32)own[4] << 16;
}
HR_INLINE void add_pieces(float (&s)[8][4], const hr_u32 (&x)[MASK_WORDS], float over) {
#pragma unroll
    for (int i = 0; i < 32; i++) { // 8 keys of a row, of the other, of the next 32
        float &y = s[i / 16 * 4 + i % 8 / 2][i / 8 % 2 * 2 + i % 2];
        y = fmaf(number_of(x, i), over, y);
    }
}
// Second parts of numbers, which come when they are needed: few tiles have any.
HR_INLINE void add_parts(float (&s)[8][4], const pieces &own, hr_i64 plane, hr_u32 tile, float over) {
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const uint4 y = *(const uint4 *)(own.at(i % 2, tile, i / 2) + plane);
        const hr_u32 words[4] = {y.x, y.y, y.z, y.w};
#pragma unroll
        for (int k = 0; k < 8; k++) {
            float &z = s[i / 2 * 4 + k / 2][i % 2 * 2 + k % 2];
            z = fmaf(k % 2 ? high_of(words[k / 2], NUMS()) : low_of(words[k / 2], NUMS()), over, z);
        }
        apart();
    }
}
// Probabilities of scores, as left operands, and what a thread adds to the sums of its two rows.  FAR: the rounding of a product may be
// large; then the difference comes first.
template <bool FAR>
HR_INLINE void soften_wide(const float (&s)[2][8][4], hr_u32 (&p)[2][4][4], float (&part)[2],
                           float scale, const float (&use)[2]) {
    float add[2][2] = {{0.0f, 0.0f}, {0.0f, 0.0f}};
    const float shift[2] = {use[0] * scale, use[1] * scale};
#pragma unroll
    for (int n = 0; n < 16; n++) {
        float x[4];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const float y = s[n / 8][n % 8][i];
            x[i] = hr_exp2(FAR ? (y - use[i / 2]) * scale : fmaf(y, scale, -shift[i / 2]));
            add[i / 2][i % 2] += x[i];
        }
        p[n / 8][n / 2 % 4][n % 2 * 2] = hr_two(x[0], x[1], ELEM());
        p[n / 8][n / 2 % 4][n % 2 * 2 + 1] = hr_two(x[2], x[3], ELEM());
    }
    part[0] = add[0][0] + add[0][1];
    part[1] = add[1][0] + add[1][1];
}
// The largest score of a row.
HR_INLINE float most_of(const float (&s)[2][8][4], int half) {
    float m[2] = {s[0][0][2 * half], s[0][0][2 * half + 1]};
#pragma unroll
    for (int n = 1; n < 16; n++) {
        m[0] = fmaxf(m[0], s[n / 8][n % 8][2 * half]);
        m[1] = fmaxf(m[1], s[n / 8][n % 8][2 * half + 1]);
    }
    float most = fmaxf(m[0], m[1]);
    most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 1));
    return fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 2));
}
// What scores are taken from moves on: sums and results so far are multiplied, and probabilities made again.
HR_INLINE void rise_wide(running &r, const float (&s)[2][8][4], hr_u32 (&p)[2][4][4], float (&part)[2],
                         float (&out)[PANELS][8][4], float scale) {
    float use[2], keep[2];
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const float most = fmaxf(most_of(s, half), r.most[half]);
        use[half] = most == none() ? 0.0f : most;
        keep[half] = hr_exp2((r.most[half] - use[half]) * scale);
        r.most[half] = most;
        r.sum[half] *= keep[half];
    }
#pragma unroll
    for (int i = 0; i < 64; i++) {
        out[i / 32][i / 4 % 8][i % 4] *= keep[i / 2 % 2];
    }
    soften_wide<true>(s, p, part, scale, use);
}
// Four words of the four threads of a row change places.
HR_INLINE void turn_words(hr_u32 (&w)[4]) {
    const bool odd = threadIdx.x & 1, high = threadIdx.x & 2;
#pragma unroll
    for (int i = 0; i < 4; i += 2) {
        const hr_u32 got = __shfl_xor_sync(0xffffffffu, odd ? w[i] : w[i + 1], 1);
        w[i] = odd ? got : w[i];
        w[i + 1] = odd ? w[i + 1] : got;
    }
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const hr_u32 got = __shfl_xor_sync(0xffffffffu, high ? w[i] : w[i + 2], 2);
        w[i] = high ? got : w[i];
        w[i + 2] = high ? w[i + 2] : got;
    }
}
// The 16 rows of this warp, from registers.
HR_INLINE void put_wide(ELEM *to, hr_i64 stride, hr_i64 left, hr_i32 depth,
                        const float (&out)[PANELS][8][4], const float (&by)[2]) {
    const int lane = threadIdx.x & 31;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        ELEM *const row = to + (lane / 4 + half * 8) * stride;
#pragma unroll
        for (int g = 0; g < 4; g++) {
            hr_u32 w[4];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const float(&x)[4] = out[g / 2][g % 2 * 4 + i];
                w[i] = hr_two(x[2 * half] * by[half], x[2 * half + 1] * by[half], ELEM());
            }
            turn_words(w);
            const int c = (g * 4 + lane % 4) * 8;
            if (lane / 4 + half * 8 < left && c < depth) {
                const uint4 x = {w[0], w[1], w[2], w[3]};
                *(uint4 *)(row + c) = x;
            }
        }
    }
}

// All products are over.  ptxas moves a wait up to where it may, so that it stands behind a branch: one that needs x and is never taken.
HR_INLINE void products_wait_behind(float x) {
#ifndef HRI_EMULATED
    asm volatile("{\n.reg .pred p;\n.reg .b32 b;\nmov.b32 b, %0;\nsetp.eq.b32 p, b, 0x7fedcba9;\n@!p bra PAST;\n"
                 "nanosleep.u32 0;\nPAST:\n}" ::"f"(x)
                 : "memory");
#endif
    products_wait<0>();
}

// The first two warpgroups.
template <int N> struct is {
    enum { value = N };
};
enum { EARLY_TILES = sizeof(NUMS) == 4 ? 1 : 2 }; // of numbers of a mask that registers have room for
HR_INLINE void attend_all(const memory &m, ELEM *o, float *lse, const ELEM *v, const shape &a,
                          const hr_u32 *bits, const hr_u8 *seen, const bits_shape &e,
                          const MELEM *mask, const hr_control *control, hr_u32 items,
                          const NUMS *nums, hr_i64 plane) {
    const int lane = threadIdx.x & 31, own = own_warp(), warpgroup = own / 4;
    const float scale = a.scale * HR_LOG2E;
    const hr_u32 all_ones[4] = {NUMBER_ONES, NUMBER_ONES, ONE_ONE, ONE_ONE};
    cursor<SIDES> keys, values;
    cursor<2> list;
    cursor<NUMBER_SLOTS ? (int)NUMBER_SLOTS : 1> number;
    operand queries, all_keys, all_values;
    queries.init(m.queries + warpgroup * (64 * 128));
    all_keys.init(m.keys);
    all_values.init(m.values);
    hr_u32 turn = 0;
    keys.init();
    values.init();
    list.init();
    number.init();
    float out[PANELS][8][4], s[2][8][4];
    hr_u32 p[2][4][4];
    const auto attend = [&](hr_u32 item, auto adding) {
        enum { ADDING = decltype(adding)::value != 0, PARTED = decltype(adding)::value == 2, NUMBERED = ADDING || KEYED };
        const hr_u32 *const order = m.lists + list.slot * m.list, *words = bits;
        const int count = count_of(order);
        pieces rows = {};
        {
            place at;
            at.init(item, a, e);
            if (ADDING && PIECED) {
                rows.head = (const char *)(nums + (at.b * e.mask_batch + at.h * e.mask_head));
#pragma unroll
                for (int half = 0; half < 2; half++) {
                    const hr_i64 query = at.q0 + own * 16 + lane / 4 + half * 8;
                    rows.on[half] = (hr_u32)((query < a.queries ? query : a.queries - 1) * e.mask_row + lane % 4 * 8) *
                                    (hr_u32)sizeof(NUMS);
#ifndef HRI_EMULATED
                    asm volatile("" : "+r"(rows.on[half])); // is not to be made again every time
#endif
                }
            }
            if (!KEYED && !ADD_ALL) {
                words += (at.tile + (own < at.count ? own : at.count - 1) * e.rows) * 32 +
                         (PIECED ? lane / 4 * 4 : lane);
            }
        }
        const auto word_of = [&](int i) -> hr_u32 {
            return i >= count          ? 0u
                   : KEYED || ADD_ALL ? ~0u
                   : PIECED            ? pieces_of(words + (order[i] & 0xffffu) * 32)
                                       : words[(order[i] & 0xffffu) * 32];
        };
        running r = {{none(), none()}, {0.0f, 0.0f}};
        hr_u32 word[2] = {word_of(0), word_of(1)};
        clear(out);
        const auto scores = [&] {
            const operand tile = all_keys.behind(keys.slot * WIDE_SIDE);
            products_begin();
#pragma unroll
            for (int i = 0; i < STEPS; i++) {
                product_wide(s, queries.behind(i / 4 * (OWN * 128) + i % 4 * 32),
                             tile.behind(i / 4 * WIDE_PANEL + i % 4 * 32), i > 0);
            }
            if (KEYED) {
                add_key_numbers(s, all_ones, m.numbers, keys.slot);
            }
            products_end();
        };
        const auto add_values = [&] {
            const operand tile = all_values.behind(values.slot * WIDE_SIDE);
            products_begin();
#pragma unroll
            for (int t = 0; t < 8; t++) {
                product_wide<1>(out, p[t / 4][t % 4], tile.behind(t * 2048));
            }
            products_end();
        };
        const auto done = [&](hr_u64 *bars, cursor<SIDES> &at) {
            if (lane == 0) {
                bar_arrive(bars + at.slot);
            }
            at.next();
        };
        // The numbers of step j to come, where this warp has any: of both tiles, or of one at a time.
        hr_u32 numbers[ADD ? EARLY_TILES : 1][MASK_WORDS];
        bool added[2] = {false, false};
        int held[2] = {-1, -1}; // their places, until they were read: an arrival does not wait for loads
        const auto take = [&](int j, int half) {
            const hr_u32 tile = tile_of(order, count, 2 * j + half);
            added[half] = tile >> (16 + own) & 1u;
            if (tile >> 16 & 0xffu) {
                bar_wait(m.n_full + number.slot, number.phase);
                if (added[half]) {
                    take_numbers(numbers[half % EARLY_TILES],
                                 m.numbers + number.slot * HALF_NUMBERS);
                }
                held[half] = number.slot;
                number.next();
            }
        };
        const auto give_back = [&](int half) {
            if (lane == 0 && held[half] >= 0) {
                bar_arrive(m.n_empty + held[half]);
            }
            held[half] = -1;
        };
        // Of every tile, seen or not: ptxas has what may be under way waited for where a branch leaves that open.
        const auto take_pieces = [&](int i) {
            load_pieces(numbers[i % EARLY_TILES], rows, order[i < count ? i : count - 1] & 0xffffu);
            word[i % 2] = ADD_ALL ? ~0u : word_of(i);
        };
        // Numbers of two tiles from i on, all at once: who waits for one waits for all.
        const auto take_more = [&](int i) {
#pragma unroll
            for (int half = 0; half < 2 && ADDING && PIECED; half++) {
                take_pieces(i + half);
            }
        };
        const auto take_early = [&](int j) {
#pragma unroll
            for (int half = 0; half < EARLY_TILES && ADDING && !PIECED; half++) {
                take(j, half);
            }
        };
        // Scores of step j with the mask; then numbers of the next are asked for.
        const auto mask_scores = [&](int j) {
#pragma unroll
            for (int half = 0; half < 2; half++) {
                if (ADDING && !PIECED && half >= EARLY_TILES) {
                    take(j, half);
                }
                if (ADDING && PIECED) {
                    add_pieces(s[half], numbers[half % EARLY_TILES], e.over);
                    const hr_u32 tile = PARTED ? tile_of(order, count, 2 * j + half) : 0u;
                    if (PARTED && tile >> (24 + own) & 1u) {
                        add_parts(s[half], rows, plane, tile & 0xffffu, e.over);
                    }
                } else if (ADDING && added[half]) {
                    add_taken(s[half], numbers[half % EARLY_TILES], e.over);
                }
                if (ADD_ALL) { // numbers hide, but for a tile that is not there
                    if (half == 1 && 2 * j + 1 >= count) {
                        apart(); // a branch, which is rare
                        hide(s[1], 0u);
                    }
                } else if (__any_sync(0xffffffffu, word[half] != ~0u)) {
                    hide(s[half], word[half]);
                }
                if (!ADDING || !PIECED) {
                    word[half] = word_of(2 * j + 2 + half);
                }
            }
            take_more(2 * j + 2);
        };
        // Probabilities of a step, when products with those before are over.  Scores are taken from the largest of those before them, as long as no
        // probability becomes large.
        const auto weigh = [&] {
            float part[2];
            soften_wide<false>(s, p, part, scale, r.most);
            const bool small = part[0] < LIMIT && part[1] < LIMIT; // not where a score is not a number, or nothing was seen before
            if (__builtin_expect(__any_sync(0xffffffffu, !small || (NUMBERED && is_far(r, scale))), 0)) {
                rise_wide(r, s, p, part, out, scale);
            }
            if (ADDING && !PIECED) { // all lanes have read their numbers: what became of them was looked at, by a branch
                give_back(0);
                give_back(1);
            }
            r.sum[0] += part[0];
            r.sum[1] += part[1];
        };
        const auto step = [&](int j) {
            bar_wait(m.k_full + keys.slot, keys.phase);
            turn_wait(warpgroup);
            scores();
            bar_wait(m.v_full + values.slot, values.phase);
            add_values();
            turn_pass(warpgroup);
            take_early(j);
            products_wait<1>();
            pin(s);
            done(m.k_empty, keys);
            mask_scores(j);
            products_wait_behind(s[1][7][3]);
            pin(out);
            done(m.v_empty, values);
            weigh();
        };
        const int steps = (count + 1) / 2;
        take_more(0);
        bar_wait(m.q_full, turn);
        turn ^= 1u;
        bar_wait(m.k_full + keys.slot, keys.phase);
        turn_wait(warpgroup);
        scores();
        turn_pass(warpgroup);
        take_early(0);
        products_wait<0>();
        pin(s);
        done(m.k_empty, keys);
        mask_scores(0);
        r.most[0] = most_of(s, 0);
        r.most[1] = most_of(s, 1);
        weigh();
        for (int j = 1; j < steps; j++) {
            step(j);
        }
        if (lane == 0) {
            bar_arrive(m.q_empty);
        }
        bar_wait(m.v_full + values.slot, values.phase);
        add_values();
        products_wait<0>();
        pin(out);
        done(m.v_empty, values);
        place at;
        at.init(item, a, e);
        float weight[2];
        bool blind[2]; // a query that sees nothing
#pragma unroll
        for (int half = 0; half < 2; half++) {
            float l = r.sum[half];
            l += __shfl_xor_sync(0xffffffffu, l, 1);
            l += __shfl_xor_sync(0xffffffffu, l, 2);
            blind[half] = l == 0.0f || (PIECED && r.most[half] <= HIDING * e.over);
            weight[half] = blind[half] ? 0.0f : 1.0f / l;
            const hr_i64 query = at.q0 + own * 16 + lane / 4 + half * 8;
            if (lane % 4 == 0 && query < a.queries) {
                lse[at.head * a.queries + query] =
                    blind[half] ? -none()
                    : NUMBERS   ? row_kept(r.most[half], a.scale, l)
                                : r.most[half] * a.scale + logf(l);
            }
        }
        put_wide(o + at.b * a.o_batch + at.h * a.depth + (at.q0 + own * 16) * a.o_row, a.o_row,
                 a.queries - at.q0 - own * 16, a.depth, out, weight);
        if (NUMBERS) {
            __syncwarp();
            weigh_blind(item, (blind[0] ? 1u : 0u) | (blind[1] ? 2u : 0u), o, lse, mask, v, a, seen,
                        e, control);
        }
        __syncwarp();
        if (lane == 0) {
            bar_arrive(m.list_empty + list.slot);
        }
    };
    for (hr_u32 item = blockIdx.x; item < items; item += gridDim.x) {
        bar_wait(m.list_full + list.slot, list.phase);
        const hr_u32 has = m.lists[list.slot * m.list - 1];
        if (SPREAD && (has & SOME_PARTS)) {
            attend(item, is<SPREAD ? 2 : 0>());
        } else if (ADD && (ADD_ALL || (has & SOME_ADD))) {
            attend(item, is<ADD>());
        } else if (!ADD_ALL) {
            attend(item, is<0>());
        }
        list.next();
    }
}

HR_KERNEL __launch_bounds__(BLOCK, 1)
    attention_forward_pairs(HR_TABLE tensor_map qm, HR_TABLE tensor_map km, HR_TABLE tensor_map vm,
                            HR_TABLE tensor_map mm, const ELEM *v, ELEM *o, float *lse, shape a,
                            const hr_u32 *bits, const hr_u8 *seen, bits_shape e, const MELEM *mask, const hr_control *control, hr_u32 items,
                            const NUMS *nums, hr_i64 plane) {
    HR_SHARED(shared);
    memory m;
    m.init(shared, a);
    if (threadIdx.x >= 64 && threadIdx.x < 64 + (int)SIDES) {
        const int i = threadIdx.x - 64;
        bar_init(m.k_full + i, 1);
        bar_init(m.k_empty + i, THREADS / 32);
        bar_init(m.v_full + i, 1);
        bar_init(m.v_empty + i, THREADS / 32);
    } else if (threadIdx.x < 2) {
        bar_init(m.list_full + threadIdx.x, 1);
        bar_init(m.list_empty + threadIdx.x, THREADS / 32 + ROLES);
    } else if (threadIdx.x < 2 + (int)NUMBER_SLOTS) {
        bar_init(m.n_full + threadIdx.x - 2, 1);
        bar_init(m.n_empty + threadIdx.x - 2, THREADS / 32);
    } else if (threadIdx.x == 32) {
        bar_init(m.q_full, 1);
        bar_init(m.q_empty, THREADS / 32);
    }
    bars_shown();
    if (KEYED) { // behind each row's numbers
        const uint4 zeros = {0, 0, 0, 0};
        for (int i = threadIdx.x; i < WIDE_PANEL / 16; i += BLOCK) {
            *(uint4 *)(m.numbers + i * 16) = zeros;
        }
        shown();
    }
    __syncthreads();
    if (threadIdx.x >= THREADS) {
        registers_fewer<COPY_REGISTERS>();
        if (threadIdx.x < THREADS + 32 * ROLES) {
            copy_all(m, qm, km, vm, mm, a, bits, e, items);
        } else if (threadIdx.x < THREADS + 32 * ROLES + 32) {
            list_all(m, a, seen, e, items);
        }
    } else {
        registers_more<REGISTERS>();
        if (threadIdx.x >= 128) {
            turn_pass(1);
        }
        attend_all(m, o, lse, v, a, bits, seen, e, mask, control, items, nums, plane);
    }
}
