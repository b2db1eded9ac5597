// What a step of attention_hopper_bits.cu consists of, behind attention_hopper.cuh: barriers in memory, probabilities, numbers of a mask,
// dropout.
//
// Defines, next to those of attention_hopper.cuh: RING, tiles of keys and values in shared memory; LEAD, how many steps ahead they are
// copied, at most RING - 2; NUMBERS: the mask has numbers (MELEM), in rows of whole pieces of 16 bytes; KEYED: it is the same
// for all queries, and its numbers come by a product with ones; DROP: there is dropout; ONES: rows are added up by such a product, where
// nothing is added.
#ifndef RING
#define RING 6
#define LEAD 3
#endif
#ifndef NUMBERS
#define NUMBERS 0
#define KEYED   0
#endif
#define ADD (NUMBERS && !KEYED)
#ifndef DROP
#define DROP 0
#endif
#ifndef ONES
#define ONES 0
#endif
#ifndef PAIRS // a block has several tiles of queries, and two tiles of keys a step
#define PAIRS 0
#endif
#ifndef DIRECT // nobody looked at the mask before: there are no words (attention_hopper_bits_pairs.cu)
#define DIRECT 0
#endif
#ifndef TILED // numbers are tiles of attention_words.cu
#define TILED 0
#endif

// ops/common/attention_bits.c has the same.  Tiles from sample to sample, from head to head, from 16 queries to the next, and elements
// of a mask of numbers; 0: the same.
struct bits_shape {
    hr_i64 batch, head, rows, mask_batch, mask_head, mask_row;
    float over;         // 1 / scale: scores are scaled later
    float keep;         // what is not dropped is multiplied by it
    hr_u32 node, limit; // draws under the limit drop
    hr_i64 samples;     // of the batch
};

#define ONE_ONE (is_bf16(ELEM()) ? 0x3f803f80u : 0x3c003c00u)
// Two neighbouring left operands of the product that adds the numbers of keys: those of f16 have their first part over 2^15.
#define NUMBER_ONES (is_bf16(ELEM()) || threadIdx.x % 4 != 0 ? ONE_ONE : 0x3c007800u)
#define LIMIT       4096.0f
#define MARGIN      6.0f
#define SOME_ADD    0x80000000u
#define HIDING      (-1e30f) // numbers that hide, and lower ones
enum {
    ACROSS = DP / 8, // pieces of 16 bytes of a row of keys or values
    HOP = THREADS / ACROSS < TILE ? THREADS / ACROSS : TILE, // rows of a turn
    PIECES = (int)sizeof(MELEM), // of 16 bytes that a thread has of a row of the mask
    EACH = 16 / (int)sizeof(MELEM),
    ROOMS = DP == 128 && (PIECES == 2 || TILED) ? 2 : 1, // for numbers to add, of a step each
    ROOM_BARS = ADD && TILED ? THREADS / 32 * ROOMS : 0,
    ONES_BYTES = 512,
    ROOM = ADD ? ROOMS * 2 * PIECES * 16 * THREADS : 0,
    Q_TILE = ADD ? RING : RING - 1, // where queries come in, and stay where numbers are added
    // Where nothing is added the ring has their place too.
    PLAIN_RING = ADD ? 5 : RING,
    PLAIN_LEAD = ADD ? 3 : LEAD,
    BARS = RING > (int)PLAIN_RING ? RING : (int)PLAIN_RING,
    NUMBER_TILES = 4, // of keys' numbers, side by side in rows of 128 bytes
    NUMBER_BYTES = !KEYED ? 0 : (DP == 64 ? 1 : 2) * TILE * 128
};

// ---- a step ----

struct running {
    float most[2],
        sum[2]; // most: what scores are taken from, minus infinity where nothing was seen
};

// Probabilities of scores, and what a thread adds to the sums of its two rows, unless a product does (SUMMED).  FAR: masks may be so large that the rounding of a
// product is; then the difference comes first.
template <bool FAR, bool SUMMED>
HR_INLINE void soften(const float (&s)[8][4], hr_u32 (&p)[4][4], float (&part)[2], float scale,
                      float low, float high) {
    float add[2][2] = {{0.0f, 0.0f}, {0.0f, 0.0f}};
    const float shift[2] = {low * scale, high * scale};
#pragma unroll
    for (int n = 0; n < 8; n++) {
        float e[4];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            e[i] = hr_exp2(FAR ? (s[n][i] - (i < 2 ? low : high)) * scale
                               : fmaf(s[n][i], scale, -shift[i / 2]));
            if (!SUMMED) {
                add[i / 2][i % 2] += e[i];
            }
        }
        p[n / 2][n % 2 * 2] = hr_two(e[0], e[1], ELEM());
        p[n / 2][n % 2 * 2 + 1] = hr_two(e[2], e[3], ELEM());
    }
    part[0] = add[0][0] + add[0][1];
    part[1] = add[1][0] + add[1][1];
}
// Then they are made by rise alone.
HR_INLINE bool is_far(const running &r, float scale) {
    return fmaxf(fabsf(r.most[0]), fabsf(r.most[1])) * scale > 1024.0f;
}
// The maximum moves on: sums and results so far are multiplied, and probabilities made again.
template <bool FAR, bool SUMMED>
HR_INLINE void rise(running &r, const float (&s)[8][4], hr_u32 (&p)[4][4], float (&part)[2],
                    float (&sums)[4], float (&out)[PANELS][8][4], float scale) {
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
        const float to = fmaxf(SUMMED ? m + MARGIN / scale : m, r.most[half]);
        use[half] = to == none() ? 0.0f : to;
        keep[half] = hr_exp2((r.most[half] - use[half]) * scale);
        r.most[half] = to;
        r.sum[half] *= keep[half];
        sums[2 * half] *= keep[half];
        sums[2 * half + 1] *= keep[half];
    }
#pragma unroll
    for (int x = 0; x < PANELS; x++) {
#pragma unroll
        for (int i = 0; i < 32; i++) {
            out[x][i / 4][i % 4] *= keep[i / 2 % 2];
        }
    }
    soften<FAR, SUMMED>(s, p, part, scale, use[0], use[1]);
}

// ---- sums of rows by a product with ones, and probabilities of what is hidden ----

HR_INLINE hr_u32 spread(hr_u32 x, hr_u32 how) {
#ifdef HRI_EMULATED
    hr_u32 y = 0;
    for (int i = 0; i < 4; i++) {
        y |= (x >> ((how >> (4 * i) & 3u) * 8 + 7) & 1u ? 0xffu : 0u) << (8 * i);
    }
    return y;
#else
    hr_u32 y;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(y) : "r"(x), "r"(0), "r"(how));
    return y;
#endif
}
HR_INLINE void hide_pairs(hr_u32 (&p)[4][4], hr_u32 word) {
#pragma unroll
    for (int k = 0; k < 8; k++) {
        const hr_u32 x = word << (7 - k);
        p[k / 4][k % 4] &= spread(x, 0x9988);
        p[k / 4 + 2][k % 4] &= spread(x, 0xbbaa);
    }
}
#ifndef HRI_EMULATED
#define ADD_ONES(T)                                                                                \
    asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32." T "." T                              \
                 " {%0,%1,%2,%3}, {%4,%5,%6,%7}, %8, 1, 1, 1, 0;"                                  \
                 : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])                      \
                 : "r"(p[t][0]), "r"(p[t][1]), "r"(p[t][2]), "r"(p[t][3]),                         \
                   "l"(described_ones(ones)))
// Not swizzled; 128 bytes from eight columns to the next.
HR_INLINE hr_u64 described_ones(const char *at) {
    return 0x10ull << 32 | 8u << 16 | (hr_u32)__cvta_generic_to_shared(at) >> 4;
}
#endif
HR_INLINE void add_ones(float (&sums)[4], const hr_u32 (&p)[4][4], const char *ones) {
#ifdef HRI_EMULATED
    for (int half = 0; half < 2; half++) {
        float more = 0.0f;
        for (int k = half; k < 16; k += 2) {
            more += low_of(p[k / 4][k % 4], ELEM()) + high_of(p[k / 4][k % 4], ELEM());
        }
        more += __shfl_xor_sync(0xffffffffu, more, 1);
        more += __shfl_xor_sync(0xffffffffu, more, 2);
        sums[2 * half] += more;
        sums[2 * half + 1] += more;
    }
#elif defined(__CUDA_ARCH_FEAT_SM90_ALL)
#pragma unroll
    for (int t = 0; t < 4; t++) {
        if (is_bf16(ELEM())) {
            ADD_ONES("bf16");
        } else {
            ADD_ONES("f16");
        }
    }
#endif
}

HR_INLINE void pinned_sums(float (&sums)[4]) {
#ifndef HRI_EMULATED
    asm volatile("" : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])::"memory");
#endif
}

// ---- numbers of a mask ----

// 16 bytes to shared memory by way of the near cache: other warps and blocks read the same.
HR_INLINE void copy_near(char *to, const MELEM *from, hr_u32 bytes) {
#ifdef HRI_EMULATED
    fake_now->async_copy(to, from, 16, bytes);
#else
    asm volatile(
        "cp.async.ca.shared.global [%0], [%1], 16, %2;" ::"r"((hr_u32)__cvta_generic_to_shared(to)),
        "l"(from), "r"(bytes)
        : "memory");
#endif
}
// This thread's of two rows of one tile; `at` is that of its first key in the first tile, the second row is `down` behind.
HR_INLINE void copy_numbers(char *room, const MELEM *at, int down, int key, int keys) {
    const int left = keys - key - threadIdx.x % 4 * 16;
    at += key;
#pragma unroll
    for (int row = 0; row < 2; row++) {
        if (row == 0 || down != 0) {
#pragma unroll
            for (int i = 0; i < PIECES; i++) {
                copy_near(room + (row * PIECES + i) * (THREADS * 16), at + i * EACH,
                          i * EACH < left ? 16u : 0u);
            }
        }
        at += down;
        apart();
    }
}
HR_INLINE void add_numbers(float (&s)[8][4], const char *room, int down, float over) {
#pragma unroll
    for (int i = 0; i < 2 * PIECES; i++) {
        const hr_pack<MELEM, EACH> x =
            *(const hr_pack<MELEM, EACH> *)(room + i % PIECES * (THREADS * 16) +
                                            (i < PIECES || down == 0 ? 0 : PIECES * THREADS * 16));
#pragma unroll
        for (int c = 0; c < EACH; c++) {
            const int key = i % PIECES * EACH + c;
            float &y = s[key / 2][i / PIECES * 2 + key % 2];
            y = fmaf(hr_load(x.at[c]), over, y);
        }
        apart();
    }
}
// ---- dropout ----

// Of 16 keys side by side of two rows; blocks of four draws, those of the second row `down` behind.
HR_INLINE void drop(hr_u32 (&p)[4][4], const hr_control *control, hr_u32 node, hr_u32 sample,
                    hr_u32 block, hr_u32 down, hr_u32 limit) {
    const hr_control c = *control;
#pragma unroll
    for (int i = 0; i < 8; i++) {
        const int half = i / 4, k = i % 4;
        hr_u32 w[4];
        hr_philox(c.seed, c.step, node, c.first_sample + sample, block + half * down + k, w);
        p[k][half] &= (w[0] < limit ? 0u : 0xffffu) | (w[1] < limit ? 0u : 0xffff0000u);
        p[k][half + 2] &= (w[2] < limit ? 0u : 0xffffu) | (w[3] < limit ? 0u : 0xffff0000u);
    }
}

// A query that sees no key weighs those the same that are hidden by the largest finite number.  A warp.
HR_INLINE void weigh_hidden(ELEM *o, float *lse, const MELEM *mask, const ELEM *v, const shape &a,
                            const bits_shape &e, const hr_control *control, hr_u32 sample,
                            hr_i64 row, hr_i64 keys) {
    int lane = threadIdx.x & 31;
#ifndef HRI_EMULATED
    asm volatile("mov.u32 %0, %laneid;" : "=r"(lane)); // what is made of it is not kept in registers over the steps before
#endif
    float sum[DP / 32] = {}, count = 0.0f, most = none();
    hr_u32 w[4] = {0, 0, 0, 0};
    for (hr_i64 j = lane; j < keys; j += 32) {
        most = fmaxf(most, hr_load(mask[j]));
    }
    most = hr_warp_max(most);
    for (hr_i64 j = 0; j < keys; j++) {
        if (DROP && j % 4 == 0) {
            hr_philox(control->seed, control->step, e.node, control->first_sample + sample,
                      (hr_u32)((hr_u64)row * (((hr_u64)a.keys + 3) / 4) + (hr_u64)j / 4), w);
        }
        if (hr_load(mask[j]) == most && most > none()) {
            const hr_u32 draw = j & 2 ? (j & 1 ? w[3] : w[2]) : (j & 1 ? w[1] : w[0]);
            const float by = !DROP ? 1.0f : draw < e.limit ? 0.0f : e.keep;
            count += 1.0f;
#pragma unroll
            for (int i = 0; i < DP / 32; i++) {
                sum[i] +=
                    lane + 32 * i < a.depth ? by * hr_load(v[j * a.v_row + lane + 32 * i]) : 0.0f;
            }
        }
    }
#pragma unroll
    for (int i = 0; i < DP / 32; i++) {
        if (count > 0.0f && lane + 32 * i < a.depth) {
            hr_store(&o[lane + 32 * i], sum[i] / count);
        }
    }
    if (count > 0.0f && lane == 0) {
        *lse = row_kept(most, 1.0f, count);
    }
}

// What is made of it is made again, not kept in registers over a loop.
HR_INLINE hr_u32 this_block() {
#if defined(HRI_EMULATED) || !TILED // elsewhere registers are enough, and divisions cost short rows time
    return blockIdx.x;
#else
    hr_u32 block;
    asm volatile("mov.u32 %0, %ctaid.x;" : "=r"(block));
    return block;
#endif
}
// Where a block's queries are.
struct place {
    hr_i64 q0, head, b, h, tile; // tile: the first of its tiles of bits
    int count;                   // those of 16 queries
    HR_INLINE void init(hr_u32 block, const shape &a, const bits_shape &e) {
        const hr_u32 tiles = (hr_u32)((a.queries + OWN - 1) / OWN);
        q0 = (hr_i64)(block % tiles) * OWN;
        head = block / tiles;
        b = head / a.heads;
        h = head % a.heads;
        if ((TILED || PAIRS) && ADD && e.head != 0 && e.batch == 0) { // samples that share a mask run side by side
            const hr_i64 samples = PAIRS ? e.samples : gridDim.x / tiles / a.heads;
            b = head % samples;
            h = head / samples;
            head = b * a.heads + h;
        }
        tile = b * e.batch + h * e.head + q0 / 16 * e.rows;
        count = (int)((a.queries - q0 + 15) / 16);
    }
};

// Queries that see nothing, but are hidden from by finite numbers: `blind` as attend returns it.
HR_INLINE void weigh_blind(hr_u32 block, hr_u32 blind, ELEM *o, float *lse, const MELEM *mask, const ELEM *v,
                           const shape &a, const hr_u8 *seen, const bits_shape &e,
                           const hr_control *control) {
    const int all = (int)((a.keys + TILE - 1) / TILE), lane = threadIdx.x & 31;
    const int own = threadIdx.x / 32;
    hr_u32 finite = 0;
    place at;
    if (!__any_sync(0xffffffffu, blind != 0)) {
        return;
    }
    at.init(block, a, e);
    for (int n = lane; n < all && own < at.count && !DIRECT; n += 32) {
        finite |= seen[at.tile + own * e.rows + n] & FINITE;
    }
    if (!DIRECT && !__any_sync(0xffffffffu, finite != 0)) {
        return;
    }
#pragma unroll
    for (int half = 0; half < 2; half++) {
        for (hr_u32 left = __ballot_sync(0xffffffffu, blind >> half & 1u) & 0x11111111u; left;
             left &= left - 1) {
            const hr_i64 i = at.q0 + own * 16 + half * 8 + (__ffs((int)left) - 1) / 4;
            if (i < a.queries) {
                weigh_hidden(o + at.b * a.o_batch + at.h * a.depth + i * a.o_row,
                             lse + at.head * a.queries + i,
                             mask + at.b * e.mask_batch + at.h * e.mask_head + i * e.mask_row,
                             v + at.b * a.v_batch + at.h / a.group * a.depth, a, e, control,
                             (hr_u32)at.b, at.h * a.queries + i,
                             CAUSAL && i + 1 < a.keys ? i + 1 : a.keys);
            }
        }
    }
}

// ---- what is seen ----

// The tiles of keys that any of `count` times 16 queries sees, in their order, and in the upper half which of those 16 queries have
// numbers to add; one at least.  Their number stands before them, its highest bit is set where there is anything to add.  A warp.
HR_INLINE void tiles_seen(hr_u32 *order, const hr_u8 *seen, hr_i64 rows, int all, int count) {
    const int lane = threadIdx.x & 31;
    int found = 0;
    bool some = false;
    for (int first = 0; first < all; first += 32) {
        const int n = first + lane;
        hr_u32 any = 0, adds = 0;
        if (n < all) {
#pragma unroll
            for (int i = 0; i < OWN / 16; i++) {
                const hr_u32 flags = i < count ? seen[i * rows + n] : 0u;
                any |= flags & SEEN;
                adds |= (flags & ADDS) / ADDS << i;
            }
        }
        const hr_u32 these = __ballot_sync(0xffffffffu, n < all && any != 0);
        some |= __any_sync(0xffffffffu, adds != 0);
        if (these >> lane & 1u) {
            order[found + __popc(these & ((1u << lane) - 1u))] = (hr_u32)n | adds << 16;
        }
        found += __popc(these);
    }
    if (lane == 0) {
        if (found == 0) {
            order[0] = 0;
        }
        order[-1] = (hr_u32)(found > 0 ? found : 1) | (some ? SOME_ADD : 0u);
    }
}
