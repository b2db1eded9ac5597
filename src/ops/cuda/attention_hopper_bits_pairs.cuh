// What attention_hopper_bits_pairs.cu consists of, but for computing: products of 128 columns, where things are in shared memory, and
// the third warpgroup, which has all of it copied there.
#ifndef PIECED
#define PIECED 0
#endif
#ifndef SPREAD // numbers of f32 are two of bf16 (attention_spread.cu)
#define SPREAD 0
#endif
template <typename T, int S> struct added_as {
    typedef T type;
};
template <typename T> struct added_as<T, 1> {
    typedef hr_bf16 type;
};
typedef added_as<MELEM, SPREAD>::type NUMS;
enum {
    BLOCK = THREADS + 128,
    WIDE_PANEL = 2 * TILE * 128,
    WIDE_SIDE = 2 * WIDE_PANEL,
    HALF_NUMBERS = OWN * TILE * (int)sizeof(MELEM), // of the mask, of one tile of keys
    NUMBER_SLOTS = !ADD || PIECED ? 0 : sizeof(MELEM) == 4 ? 2 : 4,
    ROLES = ADD && !PIECED ? 3 : 2, // warps that copy, before the one that lists tiles
    ADD_ALL = ADD && PIECED && !CAUSAL, // numbers hide by what they are
    SIDES = PIECED ? 3 : 2, // steps of keys, and of values, in shared memory
    BARS_ALL = 12 + 2 + 4 + 8,
    REGISTERS = ADD ? 240 : 232, // of those who compute, and of those who copy: 64,512 together
    COPY_REGISTERS = ADD ? 24 : 40
};

// Where an operand of a product lies in shared memory, and what is so many bytes behind it: pointers would have 64 bits.
struct operand {
#ifdef HRI_EMULATED
    const char *at;
    HR_INLINE void init(const char *x) {
        at = x;
    }
    HR_INLINE operand behind(int bytes) const {
        operand x;
        x.at = at + bytes;
        return x;
    }
#else
    hr_u32 at; // in pieces of 16 bytes
    HR_INLINE void init(const char *x) {
        at = (hr_u32)__cvta_generic_to_shared(x) / 16;
    }
    HR_INLINE operand behind(int bytes) const {
        operand x;
        x.at = at + (hr_u32)(bytes / 16);
        return x;
    }
#endif
};
#ifndef HRI_EMULATED
HR_INLINE hr_u64 described(operand x) {
    return 0x40000040ull << 32 | (0x10000u + x.at);
}
// Operands that are turned: panels of 64 columns one behind the other.
HR_INLINE hr_u64 described_turned(operand x) {
    return 0x40000040ull << 32 | ((hr_u32)(WIDE_PANEL / 16) * 0x10000u + x.at);
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
        : "l"(described(a)), "l"(described(b)), "r"(add))
#endif

// d (64, 128) += a (64, 16) b: 16 rows of 128 columns of b, or where it is not TURNED (emulated alone) 128 of 16.
template <int TURNED>
HR_INLINE void product_wide(float (&d)[2][8][4], const hr_u32 (&a)[4], operand b) {
#ifdef HRI_EMULATED
    hr_emulated_wgmma(d[0], a, b.at, TURNED, 1, is_bf16(ELEM()));
    hr_emulated_wgmma(d[1], a, b.at + (TURNED ? WIDE_PANEL : TILE * 128), TURNED, 1,
                      is_bf16(ELEM()));
#elif defined(__CUDA_ARCH_FEAT_SM90_ALL)
    if (is_bf16(ELEM())) {
        WIDE_BY_REGISTERS("bf16", described_turned(b), 1);
    } else {
        WIDE_BY_REGISTERS("f16", described_turned(b), 1);
    }
#endif
}
// The same with a in shared memory.
HR_INLINE void product_wide(float (&d)[2][8][4], operand a, operand b, int add) {
#ifdef HRI_EMULATED
    hr_emulated_wgmma(d[0], a.at, b.at, 0, add, is_bf16(ELEM()));
    hr_emulated_wgmma(d[1], a.at, b.at + TILE * 128, 0, add, is_bf16(ELEM()));
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
    if (warpgroup == 0) { // as constants: there are no registers to keep a number in
        asm volatile("bar.sync 1, 256;" ::: "memory");
    } else {
        asm volatile("bar.sync 2, 256;" ::: "memory");
    }
#endif
}
HR_INLINE void turn_pass(int warpgroup) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    if (warpgroup == 0) {
        asm volatile("bar.arrive 2, 256;" ::: "memory");
    } else {
        asm volatile("bar.arrive 1, 256;" ::: "memory");
    }
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
        values = keys + SIDES * WIDE_SIDE;
        numbers = values + SIDES * WIDE_SIDE;
        k_full = (hr_u64 *)(numbers + (KEYED ? WIDE_PANEL : NUMBER_SLOTS * HALF_NUMBERS));
        k_empty = k_full + 3;
        v_full = k_full + 6;
        v_empty = k_full + 9;
        q_full = k_full + 12;
        q_empty = k_full + 13;
        list_full = k_full + 14;
        list_empty = k_full + 16;
        n_full = k_full + 18;
        n_empty = k_full + 22;
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

// PIECED: two tiles of keys or values, 32 at a time; their order is that of i, t, j in key t * 8 + j * 2 + i.  `first8` is that of the
// sample, in rows of 8.
HR_INLINE void load_pieced(char *to, const tensor_map &map, hr_u64 *bar, hr_u32 first, hr_u32 second,
                           int head, int first8) {
    bar_expect(bar, WIDE_SIDE);
#pragma unroll
    for (int i = 0; i < 8; i++) {
        const int quarter = i / 2, panel = i % 2;
        const hr_u32 tile = (quarter >= 2 ? second : first) & 0xffffu;
        load_box(to + panel * WIDE_PANEL + quarter * (32 * 128), map, bar, head * DP + panel * 64, 0,
                 tile == NO_TILE ? OUTSIDE : first8 + (int)tile * 8 + quarter % 2 * 4, 0);
    }
    boxes_end(bar);
}

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

// SPREAD: which of those 16 queries have second parts, in the highest bits of each tile.
#define SOME_PARTS 0x40000000u
HR_INLINE int count_of(const hr_u32 *order) {
    return (int)(order[-1] & ~(SOME_ADD | SOME_PARTS));
}
HR_INLINE void parts_seen(hr_u32 *order, const hr_u8 *seen, hr_i64 rows, int count) {
    __syncwarp();
    const int tiles = count_of(order);
    bool some = false;
    for (int j = threadIdx.x & 31; j < tiles; j += 32) {
        const hr_u32 tile = order[j];
        hr_u32 parts = 0;
#pragma unroll
        for (int i = 0; i < OWN / 16; i++) {
            parts |= i < count ? (hr_u32)(seen[i * rows + (tile & 0xffffu)] & 16u) / 16u << i : 0u;
        }
        order[j] = tile | parts << 24;
        some |= parts != 0;
    }
    some = __any_sync(0xffffffffu, some);
    __syncwarp();
    if (threadIdx.x % 32 == 0 && some) {
        order[-1] |= SOME_PARTS;
    }
}

// All of so many tiles, with numbers everywhere.  A warp.
HR_INLINE void tiles_all(hr_u32 *order, int all) {
    for (int n = threadIdx.x & 31; n < all; n += 32) {
        order[n] = (hr_u32)n | 0xff0000u;
    }
    if (threadIdx.x % 32 == 0) {
        order[-1] = (hr_u32)all | SOME_ADD;
    }
}
// A tile of numbers.
HR_INLINE void load_mask(const memory &m, const tensor_map &mm, int slot, hr_u32 tile, int q0,
                         int head, int sample) {
    bar_expect(m.n_full + slot, HALF_NUMBERS);
#pragma unroll
    for (int panel = 0; panel < HALF_NUMBERS / (OWN * 128); panel++) {
        load_box(m.numbers + slot * HALF_NUMBERS + panel * (OWN * 128), mm, m.n_full + slot,
                 (int)tile * TILE + panel * (TILE / 2), q0, head, sample);
    }
    boxes_end(m.n_full + slot);
}

// A warp of the third warpgroup lists the tiles of an item while those of the one before it are copied.
HR_INLINE void list_all(const memory &m, const shape &a, const hr_u8 *seen, const bits_shape &e,
                        hr_u32 items) {
    const int all = (int)((a.keys + TILE - 1) / TILE);
    cursor<2> list;
    list.init();
    for (hr_u32 item = blockIdx.x; item < items; item += gridDim.x) {
        place at;
        at.init(item, a, e);
        hr_u32 *const order = m.lists + list.slot * m.list;
        bar_wait(m.list_empty + list.slot, list.phase ^ 1u);
        if (DIRECT) {
            tiles_all(order, all);
        } else {
            tiles_seen(order, seen + at.tile, e.rows, all, at.count);
        }
        if (SPREAD) {
            parts_seen(order, seen + at.tile, e.rows, at.count);
        }
        __syncwarp();
        if (threadIdx.x % 32 == 0) {
            bar_arrive(m.list_full + list.slot);
        }
        list.next();
    }
}
// The others copy: one keys, one values and queries, one the mask.
HR_INLINE void copy_all(const memory &m, const tensor_map &qm, const tensor_map &km,
                        const tensor_map &vm, const tensor_map &mm, const shape &a,
                        const hr_u32 *bits, const bits_shape &e, hr_u32 items) {
    const int role = (threadIdx.x - THREADS) / 32;
    const bool first = threadIdx.x % 32 == 0;
    cursor<SIDES> side;
    cursor<2> list;
    cursor<NUMBER_SLOTS ? (int)NUMBER_SLOTS : 1> number;
    hr_u32 turn = 0; // of queries
    side.init();
    list.init();
    number.init();
    for (hr_u32 item = blockIdx.x; item < items; item += gridDim.x) {
        place at;
        at.init(item, a, e);
        const hr_u32 *const order = m.lists + list.slot * m.list;
        bar_wait(m.list_full + list.slot, list.phase);
        const int count = count_of(order), b = (int)at.b,
                  head = (int)at.h / a.group;
        if (first && role == 0) {
            for (int j = 0; j < count; j += 2) {
                bar_wait(m.k_empty + side.slot, side.phase ^ 1u);
                const hr_u32 next = tile_of(order, count, j + 1);
                if (KEYED) {
                    load_key_numbers(m, bits + at.tile * (TILE * 4), order[j], next, side.slot);
                }
                if (PIECED) {
                    load_pieced(m.keys + side.slot * WIDE_SIDE, km, m.k_full + side.slot, order[j], next,
                                head, b * (int)(a.k_batch / a.k_row / 8));
                } else {
                    load_step(m.keys + side.slot * WIDE_SIDE, km, m.k_full + side.slot, order[j], next,
                              head, b, !KEYED ? 0 : next == NO_TILE ? TILE * 16 : 2 * TILE * 16);
                }
                side.next();
            }
        } else if (first && role == 1 && count > 0) {
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
                if (PIECED) {
                    load_pieced(m.values + side.slot * WIDE_SIDE, vm, m.v_full + side.slot, order[j],
                                tile_of(order, count, j + 1), head,
                                b * (int)(a.v_batch / a.v_row / 8));
                } else {
                    load_step(m.values + side.slot * WIDE_SIDE, vm, m.v_full + side.slot, order[j],
                              tile_of(order, count, j + 1), head, b);
                }
                side.next();
            }
        } else if (!PIECED && first && role == 2) {
            const int of_head = e.mask_head ? (int)at.h : 0, sample = e.mask_batch ? b : 0;
            for (int j = 0; j < count; j++) {
                if (order[j] >> 16 & 0xffu) {
                    bar_wait(m.n_empty + number.slot, number.phase ^ 1u);
                    load_mask(m, mm, number.slot, order[j] & 0xffffu, (int)at.q0, of_head, sample);
                    number.next();
                }
            }
        }
        __syncwarp();
        if (first) {
            bar_arrive(m.list_empty + list.slot);
        }
        list.next();
    }
}
