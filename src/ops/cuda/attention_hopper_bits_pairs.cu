// Attention with a mask by the products of warpgroups (Hopper), for 2-byte types, forward, 65 to 128 deep, without dropout: 128 keys a
// step, a pair of tiles of bits that lie anywhere.
//
// Two warpgroups have 64 queries each and compute.  Warps of a third have the copy engine bring keys, values and queries, and numbers of a
// mask, each by a ring of their own, and list the tiles that are seen.  The values of a step are added while the probabilities of the next
// are made, and the two warpgroups take turns, so that products of one run under the probabilities of the other.  A block goes from one tile
// of 128 queries to another, and copies for the next begin before it is done with the first.
// attention_hopper.cuh, attention_hopper_tiles.cuh and attention_hopper_bits.cuh stand before it.
enum {
    BLOCK = THREADS + 128,
    WIDE_PANEL = 2 * TILE * 128,
    WIDE_SIDE = 2 * WIDE_PANEL,
    HALF_NUMBERS = OWN * TILE * (int)sizeof(MELEM), // of the mask, of one tile of keys
    NUMBER_SLOTS = !ADD ? 0 : sizeof(MELEM) == 4 ? 2 : 4,
    ROLES = ADD ? 3 : 2, // warps that copy
    BARS_ALL = 4 + 4 + 2 + 4 + 8,
    REGISTERS = ADD ? 240 : 232, // of those who compute, and of those who copy: 64,512 together
    COPY_REGISTERS = ADD ? 24 : 40
};

#ifndef HRI_EMULATED
// Operands that are turned: panels of 64 columns one behind the other.
HR_INLINE hr_u64 described_turned(const char *at, int on) {
    const hr_u32 place = ((hr_u32)__cvta_generic_to_shared(at) >> 4) + (hr_u32)(on / 16);
    return 0x40000040ull << 32 | (hr_u32)(WIDE_PANEL / 16) << 16 | place;
}
#define FOUR_OF(X, N) "+f"(d[X][N][0]), "+f"(d[X][N][1]), "+f"(d[X][N][2]), "+f"(d[X][N][3])
#define EIGHT_OF(X)                                                                                \
    FOUR_OF(X, 0), FOUR_OF(X, 1), FOUR_OF(X, 2), FOUR_OF(X, 3), FOUR_OF(X, 4), FOUR_OF(X, 5),      \
        FOUR_OF(X, 6), FOUR_OF(X, 7)
#define WIDE_RESULTS                                                                               \
    "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,"  \
    "%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47," \
    "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63}"
#define WIDE_WGMMA(T) "wgmma.mma_async.sync.aligned.m64n128k16.f32." T "." T " " WIDE_RESULTS
#define WIDE_BY_REGISTERS(T, B, TURN)                                                              \
    asm volatile(WIDE_WGMMA(T) ", {%64,%65,%66,%67}, %68, 1, 1, 1, %69;"                           \
                 : EIGHT_OF(0), EIGHT_OF(1)                                                        \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(B), "n"(TURN))
#define WIDE_BY_MEMORY(T)                                                                          \
    asm volatile(                                                                                  \
        "{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n" WIDE_WGMMA(T) ", %64, %65, p, 1, 1, 0, 0;\n}" \
        : EIGHT_OF(0), EIGHT_OF(1)                                                                 \
        : "l"(described(a, a_on)), "l"(described(b, b_on)), "r"(add))
#endif

// d (64, 128) += a (64, 16) b: 16 rows of 128 columns of b, or where it is not TURNED (emulated alone) 128 of 16.
template <int TURNED>
HR_INLINE void product_wide(float (&d)[2][8][4], const hr_u32 (&a)[4], const char *b, int b_on) {
#ifdef HRI_EMULATED
    hr_emulated_wgmma(d[0], a, b + b_on, TURNED, 1, is_bf16(ELEM()));
    hr_emulated_wgmma(d[1], a, b + b_on + (TURNED ? WIDE_PANEL : TILE * 128), TURNED, 1,
                      is_bf16(ELEM()));
#elif defined(__CUDA_ARCH_FEAT_SM90_ALL)
    if (is_bf16(ELEM())) {
        WIDE_BY_REGISTERS("bf16", described_turned(b, b_on), 1);
    } else {
        WIDE_BY_REGISTERS("f16", described_turned(b, b_on), 1);
    }
#endif
}
// The same with a in shared memory.
HR_INLINE void product_wide(float (&d)[2][8][4], const char *a, int a_on, const char *b, int b_on,
                            int add) {
#ifdef HRI_EMULATED
    hr_emulated_wgmma(d[0], a + a_on, b + b_on, 0, add, is_bf16(ELEM()));
    hr_emulated_wgmma(d[1], a + a_on, b + b_on + TILE * 128, 0, add, is_bf16(ELEM()));
#elif defined(__CUDA_ARCH_FEAT_SM90_ALL)
    if (is_bf16(ELEM())) {
        WIDE_BY_MEMORY("bf16");
    } else {
        WIDE_BY_MEMORY("f16");
    }
#endif
}

// ---- whose turn it is ----

// Nothing but time depends on it.
HR_INLINE void turn_wait(int warpgroup) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    asm volatile("bar.sync %0, 256;" ::"r"(1 + warpgroup) : "memory");
#endif
}
HR_INLINE void turn_pass(int warpgroup) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    asm volatile("bar.arrive %0, 256;" ::"r"(2 - warpgroup) : "memory");
#endif
}

// ---- where things are ----

struct memory {
    char *queries, *keys, *values, *numbers;
    hr_u64 *k_full, *k_empty, *v_full, *v_empty, *q_full, *q_empty, *list_full, *list_empty,
        *n_full, *n_empty;
    hr_u32 *lists; // of tiles, two of them; their length stands before the first
    int list;      // words of one
    HR_INLINE void init(unsigned char *shared, const shape &a) {
        queries = aligned(shared);
        keys = queries + OWN * DP * 2;
        values = keys + 2 * WIDE_SIDE;
        numbers = values + 2 * WIDE_SIDE;
        k_full = (hr_u64 *)(numbers + (KEYED ? WIDE_PANEL : NUMBER_SLOTS * HALF_NUMBERS));
        k_empty = k_full + 2;
        v_full = k_full + 4;
        v_empty = k_full + 6;
        q_full = k_full + 8;
        q_empty = k_full + 9;
        list_full = k_full + 10;
        list_empty = k_full + 12;
        n_full = k_full + 14;
        n_empty = k_full + 18;
        lists = (hr_u32 *)(k_full + BARS_ALL) + 1;
        list = (int)((a.keys + TILE - 1) / TILE) + 1;
    }
};
// The tiles of a step: two, or one and `NO_TILE`.
#define NO_TILE 0xffffu
#define OUTSIDE (1 << 30) // what is there is 0
HR_INLINE hr_u32 tile_of(const hr_u32 *order, int count, int i) {
    return i < count ? order[i] : NO_TILE;
}

// ---- copying ----

// Two tiles of keys or values of a head: panels of 64 columns.
HR_INLINE void load_step(char *to, const tensor_map &map, hr_u64 *bar, hr_u32 first, hr_u32 second,
                         int head, int b, int more = 0) {
    bar_expect(bar, WIDE_SIDE + more);
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const hr_u32 tile = (half ? second : first) & 0xffffu;
        const int row = tile == NO_TILE ? OUTSIDE : (int)tile * TILE;
#pragma unroll
        for (int panel = 0; panel < PANELS; panel++) {
            load_box(to + panel * WIDE_PANEL + half * (TILE * 128), map, bar, panel * 64, head, row,
                     b);
        }
    }
    boxes_end(bar);
}

// Numbers of keys (attention_words.cu) of a step, 16 bytes a key: the left half of a right operand that is not swizzled, whose right
// half is 0 for all steps.  They come before the keys.
enum { KEY_ZEROS = 2 * 2 * TILE * 16 }; // behind those of two steps
HR_INLINE void load_key_numbers(const memory &m, const hr_u32 *numbers, hr_u32 first, hr_u32 second,
                                int slot) {
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const hr_u32 tile = (half ? second : first) & 0xffffu;
        if (tile == NO_TILE) {
            break;
        }
#ifdef HRI_EMULATED // swizzled
        for (int i = 0; i < TILE; i++) {
            *(uint4 *)(m.numbers + half * (TILE * 128) + spot(i, slot * 2)) =
                *(const uint4 *)(numbers + (tile * TILE + i) * 4);
        }
#elif defined(__CUDA_ARCH_FEAT_SM90_ALL)
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                     "[%0], [%1], %2, [%3];" ::"r"((hr_u32)__cvta_generic_to_shared(
                         m.numbers + (slot * 2 + half) * (TILE * 16))),
                     "l"(numbers + tile * (TILE * 4)), "r"(TILE * 16),
                     "r"((hr_u32)__cvta_generic_to_shared(m.k_full + slot))
                     : "memory");
#endif
    }
}

// The third warpgroup: a warp for keys and the lists of tiles, one for values and queries, one for the mask.
HR_INLINE void copy_all(const memory &m, const tensor_map &qm, const tensor_map &km,
                        const tensor_map &vm, const tensor_map &mm, const shape &a,
                        const hr_u32 *bits, const hr_u8 *seen, const bits_shape &e, hr_u32 items) {
    const int role = (threadIdx.x - THREADS) / 32;
    const int all = (int)((a.keys + TILE - 1) / TILE);
    const bool first = threadIdx.x % 32 == 0;
    cursor<2> side, list;
    cursor<NUMBER_SLOTS ? (int)NUMBER_SLOTS : 1> number;
    hr_u32 turn = 0; // of queries
    side.init();
    list.init();
    number.init();
    if (role >= ROLES) {
        return;
    }
    for (hr_u32 item = blockIdx.x; item < items; item += gridDim.x) {
        place at;
        at.init(item, a, e);
        hr_u32 *const order = m.lists + list.slot * m.list;
        if (role == 0) {
            bar_wait(m.list_empty + list.slot, list.phase ^ 1u);
            tiles_seen(order, seen + at.tile, e.rows, all, at.count);
            __syncwarp();
            if (first) {
                bar_arrive(m.list_full + list.slot);
            }
        } else {
            bar_wait(m.list_full + list.slot, list.phase);
        }
        const int count = (int)(order[-1] & ~SOME_ADD), b = (int)at.b,
                  head = (int)at.h / a.group;
        if (first && role == 0) {
            for (int j = 0; j < count; j += 2) {
                bar_wait(m.k_empty + side.slot, side.phase ^ 1u);
                const hr_u32 next = tile_of(order, count, j + 1);
                if (KEYED) {
                    load_key_numbers(m, bits + at.tile * (TILE * 4), order[j], next, side.slot);
                }
                load_step(m.keys + side.slot * WIDE_SIDE, km, m.k_full + side.slot, order[j], next,
                          head, b, !KEYED ? 0 : next == NO_TILE ? TILE * 16 : 2 * TILE * 16);
                side.next();
            }
        } else if (first && role == 1) {
            bar_wait(m.q_empty, turn ^ 1u);
            bar_expect(m.q_full, OWN * DP * 2);
#pragma unroll
            for (int panel = 0; panel < PANELS; panel++) {
                load_box(m.queries + panel * (OWN * 128), qm, m.q_full, panel * 64, (int)at.h,
                         (int)at.q0, b);
            }
            boxes_end(m.q_full);
            turn ^= 1u;
            for (int j = 0; j < count; j += 2) {
                bar_wait(m.v_empty + side.slot, side.phase ^ 1u);
                load_step(m.values + side.slot * WIDE_SIDE, vm, m.v_full + side.slot, order[j],
                          tile_of(order, count, j + 1), head, b);
                side.next();
            }
        } else if (first) {
            const int of_head = e.mask_head ? (int)at.h : 0, sample = e.mask_batch ? b : 0;
            for (int j = 0; j < count; j++) {
                if (order[j] >> 16 & 0xffu) {
                    bar_wait(m.n_empty + number.slot, number.phase ^ 1u);
                    bar_expect(m.n_full + number.slot, HALF_NUMBERS);
#pragma unroll
                    for (int panel = 0; panel < HALF_NUMBERS / (OWN * 128); panel++) {
                        load_box(m.numbers + number.slot * HALF_NUMBERS + panel * (OWN * 128), mm,
                                 m.n_full + number.slot,
                                 (int)(order[j] & 0xffffu) * TILE + panel * (TILE / 2),
                                 (int)at.q0, of_head, sample);
                    }
                    boxes_end(m.n_full + number.slot);
                    number.next();
                }
            }
        }
        __syncwarp();
        if (role > 0 && first) {
            bar_arrive(m.list_empty + list.slot);
        }
        list.next();
    }
}
// ---- computing ----

// Scores with numbers of keys, by a product with ones.
HR_INLINE void add_key_numbers(float (&d)[2][8][4], const hr_u32 (&a)[4], const char *numbers,
                               int slot) {
#ifdef HRI_EMULATED
    product_wide<0>(d, a, numbers, slot * 32);
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
enum { MASK_WORDS = 8 * (int)sizeof(MELEM) };
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
    return sizeof(MELEM) == 4 ? hr_bits_float(x[i % MASK_WORDS])
           : i % 2            ? high_of(x[i / 2], MELEM())
                              : low_of(x[i / 2], MELEM());
}
HR_INLINE void add_taken(float (&s)[8][4], const hr_u32 (&x)[MASK_WORDS], float over) {
#pragma unroll
    for (int i = 0; i < 32; i++) {
        s[i / 4][i % 4] = fmaf(number_of(x, i), over, s[i / 4][i % 4]);
    }
}
// Probabilities of scores, in their place, and what a thread adds to the sums of its two rows.
HR_INLINE void soften_wide(float (&s)[2][8][4], float (&part)[2], float scale,
                           const float (&shift)[2]) {
    float add[2][2] = {{0.0f, 0.0f}, {0.0f, 0.0f}};
#pragma unroll
    for (int n = 0; n < 16; n++) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            float &x = s[n / 8][n % 8][i];
            x = hr_exp2(fmaf(x, scale, -shift[i / 2]));
            add[i / 2][i % 2] += x;
        }
    }
    part[0] = add[0][0] + add[0][1];
    part[1] = add[1][0] + add[1][1];
}
HR_INLINE void most_of(const float (&s)[2][8][4], float (&most)[2]) {
#pragma unroll
    for (int half = 0; half < 2; half++) {
        float m[2] = {s[0][0][2 * half], s[0][0][2 * half + 1]};
#pragma unroll
        for (int n = 1; n < 16; n++) {
            m[0] = fmaxf(m[0], s[n / 8][n % 8][2 * half]);
            m[1] = fmaxf(m[1], s[n / 8][n % 8][2 * half + 1]);
        }
        most[half] = fmaxf(m[0], m[1]);
    }
}
// The maximum moves on; what is so far is to be multiplied by `keep`.
HR_INLINE void rise_wide(running &r, float (&most)[2], float (&keep)[2], float scale) {
#pragma unroll
    for (int half = 0; half < 2; half++) {
        float m = most[half];
        m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, 1));
        m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, 2));
        m = fmaxf(m, r.most[half]);
        keep[half] = m == none() ? 1.0f : hr_exp2((r.most[half] - m) * scale);
        r.most[half] = m;
        r.sum[half] *= keep[half];
    }
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

// The first two warpgroups.
template <int N> struct is {
    enum { value = N };
};
enum { EARLY_TILES = sizeof(MELEM) == 4 ? 1 : 2 }; // of numbers of a mask that registers have room for
HR_INLINE void attend_all(const memory &m, ELEM *o, float *lse, const ELEM *v, const shape &a,
                          const hr_u32 *bits, const hr_u8 *seen, const bits_shape &e,
                          const MELEM *mask, const hr_control *control, hr_u32 items) {
    const int lane = threadIdx.x & 31, own = threadIdx.x / 32, warpgroup = threadIdx.x / 128;
    const float scale = a.scale * HR_LOG2E;
    const hr_u32 all_ones[4] = {NUMBER_ONES, NUMBER_ONES, ONE_ONE, ONE_ONE};
    cursor<2> keys, values, list;
    cursor<NUMBER_SLOTS ? (int)NUMBER_SLOTS : 1> number;
    hr_u32 turn = 0;
    keys.init();
    values.init();
    list.init();
    number.init();
    const float ahead = 8.0f / scale; // how far scores may be over what they are taken from
    float out[PANELS][8][4], s[2][8][4];
    hr_u32 p[2][4][4];
    const auto attend = [&](hr_u32 item, auto adding) {
        enum { ADDING = decltype(adding)::value, NUMBERED = ADDING || KEYED };
        const hr_u32 *const order = m.lists + list.slot * m.list, *words = bits;
        const int count = (int)(order[-1] & ~SOME_ADD);
        bool far = false; // what scores are taken from is large
        {
            place at;
            at.init(item, a, e);
            if (!KEYED) {
                words += (at.tile + (own < at.count ? own : at.count - 1) * e.rows) * 32 + lane;
            }
        }
        const auto word_of = [&](int i) -> hr_u32 {
            return i >= count ? 0u : KEYED ? ~0u : words[(order[i] & 0xffffu) * 32];
        };
        running r = {{none(), none()}, {0.0f, 0.0f}};
        hr_u32 word[2] = {word_of(0), word_of(1)};
        clear(out);
        const auto scores = [&] {
            const char *const tile = m.keys + keys.slot * WIDE_SIDE;
            bar_wait(m.k_full + keys.slot, keys.phase);
            products_begin();
#pragma unroll
            for (int i = 0; i < STEPS; i++) {
                product_wide(s, m.queries + warpgroup * (64 * 128),
                             i / 4 * (OWN * 128) + i % 4 * 32, tile,
                             i / 4 * WIDE_PANEL + i % 4 * 32, i > 0);
            }
            if (KEYED) {
                add_key_numbers(s, all_ones, m.numbers, keys.slot);
            }
            products_end();
        };
        const auto add_values = [&] {
            const char *const tile = m.values + values.slot * WIDE_SIDE;
            bar_wait(m.v_full + values.slot, values.phase);
            products_begin();
#pragma unroll
            for (int t = 0; t < 8; t++) {
                product_wide<1>(out, p[t / 4][t % 4], tile, t * 2048);
            }
            products_end();
        };
        const auto done = [&](hr_u64 *bars, cursor<2> &at) {
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
        const auto take_early = [&](int j) {
#pragma unroll
            for (int half = 0; half < EARLY_TILES && ADDING; half++) {
                take(j, half);
            }
        };
        // Probabilities of step j.  Products with `out` are over when `over` was called: ptxas moves a wait up to where it may, so it
        // stands behind a branch that needs the probabilities.
        const auto weigh = [&](int j, auto over) {
#pragma unroll
            for (int half = 0; half < 2; half++) {
                if (ADDING && half >= EARLY_TILES) {
                    take(j, half);
                }
                if (ADDING && added[half]) {
                    add_taken(s[half], numbers[half % EARLY_TILES], e.over);
                }
                if (__any_sync(0xffffffffu, word[half] != ~0u)) {
                    hide(s[half], word[half]);
                }
                word[half] = word_of(2 * j + 2 + half);
            }
            float most[2], keep[2] = {1.0f, 1.0f}, part[2];
            most_of(s, most);
            const bool rises = __any_sync(0xffffffffu, most[0] > r.most[0] + ahead ||
                                                           most[1] > r.most[1] + ahead);
            if (rises) {
                rise_wide(r, most, keep, scale);
                far = NUMBERED && __any_sync(0xffffffffu, is_far(r, scale));
            }
            if (ADDING) { // all lanes have read their numbers: their scores were looked at
                give_back(0);
                give_back(1);
            }
            const float use[2] = {r.most[0] == none() ? 0.0f : r.most[0],
                                  r.most[1] == none() ? 0.0f : r.most[1]};
            float shift[2] = {use[0] * scale, use[1] * scale};
            if (far) { // the rounding of a product would be large: the difference comes first
#pragma unroll
                for (int i = 0; i < 64; i++) {
                    s[i / 32][i / 4 % 8][i % 4] -= use[i / 2 % 2];
                }
                shift[0] = shift[1] = 0.0f;
            }
            soften_wide(s, part, scale, shift);
            r.sum[0] += part[0];
            r.sum[1] += part[1];
            if (rises) {
                over();
                pin(out);
#pragma unroll
                for (int i = 0; i < 64; i++) {
                    out[i / 32][i / 4 % 8][i % 4] *= keep[i / 2 % 2];
                }
            } else {
                over();
                pin(out);
            }
            pack(p[0], s[0]);
            pack(p[1], s[1]);
        };
        const auto step = [&](int j) {
            turn_wait(warpgroup);
            scores();
            add_values();
            turn_pass(warpgroup);
            take_early(j);
            products_wait<1>();
            pin(s);
            done(m.k_empty, keys);
            weigh(j, [] { products_wait<0>(); });
            done(m.v_empty, values);
        };
        const int steps = (count + 1) / 2;
        bar_wait(m.q_full, turn);
        turn ^= 1u;
        turn_wait(warpgroup);
        scores();
        turn_pass(warpgroup);
        take_early(0);
        products_wait<0>();
        pin(s);
        done(m.k_empty, keys);
        weigh(0, [] {});
        for (int j = 1; j < steps; j++) {
            step(j);
        }
        if (lane == 0) {
            bar_arrive(m.q_empty);
        }
        add_values();
        products_wait<0>();
        pin(out);
        done(m.v_empty, values);
        place at;
        at.init(item, a, e);
        float by[2];
        bool blind[2]; // a query that sees nothing
#pragma unroll
        for (int half = 0; half < 2; half++) {
            float l = r.sum[half];
            l += __shfl_xor_sync(0xffffffffu, l, 1);
            l += __shfl_xor_sync(0xffffffffu, l, 2);
            blind[half] = l == 0.0f;
            by[half] = blind[half] ? 0.0f : 1.0f / l;
            const hr_i64 query = at.q0 + own * 16 + lane / 4 + half * 8;
            if (lane % 4 == 0 && query < a.queries) {
                lse[at.head * a.queries + query] =
                    blind[half] ? -none() : r.most[half] * a.scale + logf(l);
            }
        }
        put_wide(o + at.b * a.o_batch + at.h * a.depth + (at.q0 + own * 16) * a.o_row, a.o_row,
                 a.queries - at.q0 - own * 16, a.depth, out, by);
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
        if (ADD && (m.lists[list.slot * m.list - 1] & SOME_ADD)) {
            attend(item, is<ADD>());
        } else {
            attend(item, is<0>());
        }
        list.next();
    }
}

HR_KERNEL __launch_bounds__(BLOCK, 1)
    attention_forward_pairs(HR_TABLE tensor_map qm, HR_TABLE tensor_map km, HR_TABLE tensor_map vm,
                            HR_TABLE tensor_map mm, const ELEM *v, ELEM *o, float *lse, shape a,
                            const hr_u32 *bits, const hr_u8 *seen, bits_shape e, const MELEM *mask, const hr_control *control, hr_u32 items) {
    HR_SHARED(shared);
    memory m;
    m.init(shared, a);
    if (threadIdx.x < 2) {
        bar_init(m.k_full + threadIdx.x, 1);
        bar_init(m.k_empty + threadIdx.x, THREADS / 32);
        bar_init(m.v_full + threadIdx.x, 1);
        bar_init(m.v_empty + threadIdx.x, THREADS / 32);
        bar_init(m.list_full + threadIdx.x, 1);
        bar_init(m.list_empty + threadIdx.x, THREADS / 32 + ROLES - 1);
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
        copy_all(m, qm, km, vm, mm, a, bits, seen, e, items);
    } else {
        registers_more<REGISTERS>();
        if (threadIdx.x >= 128) {
            turn_pass(1);
        }
        attend_all(m, o, lse, v, a, bits, seen, e, mask, control, items);
    }
}
