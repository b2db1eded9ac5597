// What attention_hopper.cu, attention_hopper_grad.cu and attention_hopper_sum.cu share, between the prelude and them: products of warpgroups, tiles, masks.
//
// A warpgroup of 128 threads has 64 rows.  Left operands are in registers (a result of 64 by 64 lies there as the next product wants
// it), right ones in shared memory: panels of 64 columns, rows of 128 bytes, whose pieces of 16 bytes are swizzled by the row.  Tiles
// of the other side come in three stages of shared memory, so that one barrier a step is enough.
//
// A mask of rows is a tile of the same stages, and matrices are loaded from it as the scores lie: plain, and turned in the pass that
// has keys as rows.  What a mask does to each step is read once from the flags (attention_flags.cu) to shared memory.
//
// Defines: ELEM; MELEM; DP, the depth, 64 or 128; CAUSAL; BACKWARD; WGS, warpgroups of a block; BLOCKS of a multiprocessor; MASK: 0 none,
// 1 one row for all queries, 2 rows of whole 16 bytes, 3 any rows, 4 words of bits (attention_words.cu), 5 the same
// with numbers, in the pass of keys alone (BITS: words).
#ifndef ELEM
#define ELEM     hr_bf16
#define MELEM    hr_bf16
#define DP       64
#define CAUSAL   0
#define BACKWARD 0
#define WGS      3
#define MASK     2
#define BLOCKS   1
#endif

#define BITS (MASK == 4 || MASK == 5)

enum {
    THREADS = 128 * WGS,
    OWN = 64 * WGS, // rows of a block
    TILE = 64,      // rows of a step
    STAGES = 3,
    PANELS = DP / 64,
    STEPS = DP / 16,
    BLOB = TILE * TILE * 2 / 16, // pieces of 16 bytes of a tile of scores in memory
    SIDE = TILE * DP * 2, // bytes of a tile of k or v, or backward of q or do
    MASKED_BYTES = MASK == 2 ? OWN * TILE * (int)sizeof(MELEM) : 0,
    STAGE = 2 * SIDE + MASKED_BYTES,
    MINE = OWN * DP * 2 // bytes of the block's own rows
};

// ops/common/attention_cuda.c has the same.  Elements from sample to sample and from place to place.
struct shape {
    hr_i64 queries, keys;
    hr_i64 q_batch, q_row, k_batch, k_row, v_batch, v_row, o_batch, o_row;
    hr_i32 heads, depth;
    float scale;
    hr_i32 group;
};
struct extra {
    hr_i64 mask_batch, mask_head, mask_row;
    hr_i64 flag_batch, flag_head, flag_row;
    float drop, keep;
    hr_u32 node, pairs;
};

enum { SEEN = 1, ADDS = 2, HIDES = 4, FINITE = 8 };
#define HR_LOG2E 1.4426950408889634f

// Which of its block's warps this is; ptxas knows that it is the same for all of a warp.
HR_INLINE int own_warp() {
    return __shfl_sync(0xffffffffu, (int)(threadIdx.x / 32), 0);
}
HR_INLINE float none() {
    return hr_bits_float(0xff800000u); // minus infinity
}

// ---- products of a warpgroup ----

#ifndef HRI_EMULATED
// Pieces swizzled over 128 bytes, 1,024 from eight rows to the next; `on` bytes behind `at`.
HR_INLINE hr_u64 described(const char *at, int on) {
    const hr_u32 place = ((hr_u32)__cvta_generic_to_shared(at) >> 4 | 0x10000u) + (hr_u32)(on / 16);
    return 0x40000040ull << 32 | place;
}
#define FOUR(N)     "+f"(d[N][0]), "+f"(d[N][1]), "+f"(d[N][2]), "+f"(d[N][3])
#define ALL_RESULTS FOUR(0), FOUR(1), FOUR(2), FOUR(3), FOUR(4), FOUR(5), FOUR(6), FOUR(7)
#define RESULTS                                                                                    \
    "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,"  \
    "%25,%26,%27,%28,%29,%30,%31}"
#define WGMMA(T) "wgmma.mma_async.sync.aligned.m64n64k16.f32." T "." T " " RESULTS
#define BY_REGISTERS(T)                                                                            \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %37, 0;\n" WGMMA(                               \
                     T) ", {%32,%33,%34,%35}, %36, p, 1, 1, %38;\n}"                               \
                 : ALL_RESULTS                                                                     \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(described(b, b_on)), "r"(add),  \
                   "n"(TURNED))
#define BY_MEMORY(T)                                                                               \
    asm volatile(                                                                                  \
        "{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n" WGMMA(T) ", %32, %33, p, 1, 1, 0, 0;\n}"      \
        : ALL_RESULTS                                                                              \
        : "l"(described(a, a_on)), "l"(described(b, b_on)), "r"(add))
#endif

HR_INLINE bool is_bf16(hr_bf16) {
    return true;
}
HR_INLINE bool is_bf16(hr_f16) {
    return false;
}

// d (64, 64) [+]= a (64, 16) b: 64 rows of 16 columns of b, turned: 16 rows of 64.
template <int TURNED>
HR_INLINE void product(float (&d)[8][4], const hr_u32 (&a)[4], const char *b, int b_on, int add) {
#ifdef HRI_EMULATED
    hr_emulated_wgmma(d, a, b + b_on, TURNED, add, is_bf16(ELEM()));
#elif defined(__CUDA_ARCH_FEAT_SM90_ALL)
    if (is_bf16(ELEM())) {
        BY_REGISTERS("bf16");
    } else {
        BY_REGISTERS("f16");
    }
#endif
}
// The same with a in shared memory.
HR_INLINE void product(float (&d)[8][4], const char *a, int a_on, const char *b, int b_on,
                       int add) {
#ifdef HRI_EMULATED
    hr_emulated_wgmma(d, a + a_on, b + b_on, 0, add, is_bf16(ELEM()));
#elif defined(__CUDA_ARCH_FEAT_SM90_ALL)
    if (is_bf16(ELEM())) {
        BY_MEMORY("bf16");
    } else {
        BY_MEMORY("f16");
    }
#endif
}
// Registers are as products need them; a group of products ends; all but N groups are over.
HR_INLINE void products_begin() {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#endif
}
HR_INLINE void products_end() {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#endif
}
template <int N> HR_INLINE void products_wait() {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
#endif
}
// What the compiler may not move over a wait.
HR_INLINE void pinned(float (&d)[8][4]) {
#ifndef HRI_EMULATED
#pragma unroll
    for (int n = 0; n < 8; n++) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            asm volatile("" : "+f"(d[n][i])::"memory");
        }
    }
#endif
}
// Copies that were waited for are seen by products after the next barrier.
HR_INLINE void shown() {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

// ---- tiles ----

// A piece of 16 bytes of a panel.
HR_INLINE int spot(int row, int piece) {
    return row * 128 + ((piece ^ (row & 7)) << 4);
}
// Where row `key` of a tile of 64 lies, so that a thread has 16 of them side by side: its score n * 4 + half * 2 + i is that of key
// lane % 4 * 16 + n * 2 + i.  With words of bits (attention_words.cu).
HR_INLINE int place_of(int key) {
    return key % 16 / 2 * 8 + key / 16 * 2 + key % 2;
}
// Which of 64 keys score i of a thread is.
HR_INLINE int column_of(int i) {
    const int own = threadIdx.x % 4;
    return MASK == 4 ? own * 16 + i / 4 * 2 + i % 2 : i / 4 * 8 + own * 2 + i % 2;
}
HR_INLINE char *aligned(unsigned char *shared) { // to 1,024 bytes
#ifdef HRI_EMULATED
    return (char *)shared + (1024 - (size_t)shared % 1024) % 1024;
#else
    return (char *)shared + ((1024 - ((hr_u32)__cvta_generic_to_shared(shared) & 1023)) & 1023);
#endif
}

// One number to shared memory as hr_async_copy does it, or 0.
HR_INLINE void async_word(float *to, const float *from, bool there) {
#ifdef HRI_EMULATED
    fake_now->async_copy(to, from, 4, there ? 4 : 0);
#else
    asm volatile(
        "cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"((hr_u32)__cvta_generic_to_shared(to)),
        "l"(from), "r"(there ? 4 : 0)
        : "memory");
#endif
}

// Rows first .. first + ROWS of one head to panels, PLACED by place_of; those behind `end`, and what is deeper than a head, are 0.
template <int ROWS, bool PLACED = false>
HR_INLINE void fetch(char *to, const ELEM *from, hr_i64 stride, hr_i64 first, hr_i64 end,
                     hr_i32 depth) {
    enum {
        PIECES = DP / 8,
        HOP = THREADS / PIECES
    }; // threads side by side, rows from one turn to the next
    const int c = threadIdx.x % PIECES, r = threadIdx.x / PIECES, step = (int)stride;
    const ELEM *at = from + (hr_i64)r * step + c * 8 + (hr_i64)(int)first * step;
    to += c / 8 * (ROWS * 128);
    if (depth == DP && end - first >= ROWS && ROWS % HOP == 0) {
#pragma unroll
        for (int i = 0; i < ROWS; i += HOP) {
            hr_async_copy(to + spot(PLACED ? place_of(r + i) : r + i, c % 8), at, 16u);
            at += (hr_i64)HOP * step;
        }
        return;
    }
    for (int row = r; row < ROWS; row += HOP) {
        const bool there = first + row < end && c * 8 < depth;
        hr_async_copy(to + spot(PLACED ? place_of(row) : row, c % 8), there ? at : from,
                      there ? 16u : 0u);
        at += (hr_i64)HOP * step;
    }
}

// This warpgroup's 64 rows of a panel: to be asked for once, then ptxas knows that it is the same for all of a warp, and keeps it in registers
// of warps.  Backward over 64 deep with rows of numbers there are too few of any, and it is made again every time.
struct own_rows {
    int on;
    HR_INLINE void init() {
        on = own_warp() / 4 * (64 * 128);
    }
    HR_INLINE const char *of(const char *panel) const {
        return panel + (BACKWARD && DP > 64 && !BITS ? (int)threadIdx.x / 128 * (64 * 128) : on);
    }
};
// s = those rows times those of a tile, turned.  Both lie in shared memory: what ptxas 13.0 does to left operands that
// stay in registers over a loop with others is wrong (it gives the same registers to both).
HR_INLINE void times(float (&s)[8][4], const char *own, const char *tile) {
#pragma unroll
    for (int t = 0; t < STEPS; t++) {
        product(s, own, t / 4 * (OWN * 128) + t % 4 * 32, tile, t / 4 * (TILE * 128) + t % 4 * 32,
                t > 0);
    }
}

// A result as a left operand of 64 columns.
HR_INLINE void pack(hr_u32 (&a)[4][4], const float (&s)[8][4]) {
#pragma unroll
    for (int t = 0; t < 4; t++) {
        a[t][0] = hr_two(s[2 * t][0], s[2 * t][1], ELEM());
        a[t][1] = hr_two(s[2 * t][2], s[2 * t][3], ELEM());
        a[t][2] = hr_two(s[2 * t + 1][0], s[2 * t + 1][1], ELEM());
        a[t][3] = hr_two(s[2 * t + 1][2], s[2 * t + 1][3], ELEM());
    }
}
// out += a times the rows of a tile.
HR_INLINE void add_rows(float (&out)[PANELS][8][4], const hr_u32 (&a)[4][4], const char *tile) {
#pragma unroll
    for (int t = 0; t < 4; t++) {
#pragma unroll
        for (int p = 0; p < PANELS; p++) {
            product<1>(out[p], a[t], tile, p * (TILE * 128) + t * 2048, 1);
        }
    }
}
HR_INLINE void clear(float (&out)[PANELS][8][4]) {
#pragma unroll
    for (int p = 0; p < PANELS; p++) {
#pragma unroll
        for (int n = 0; n < 8; n++) {
            out[p][n][0] = out[p][n][1] = out[p][n][2] = out[p][n][3] = 0.0f;
        }
    }
}
HR_INLINE void pin(float (&out)[PANELS][8][4]) {
#pragma unroll
    for (int p = 0; p < PANELS; p++) {
        pinned(out[p]);
    }
}

// The 16 rows of this warp, through its rows of a tile that nobody reads any more.
HR_INLINE void put_rows(ELEM *to, hr_i64 stride, hr_i64 first, hr_i64 end, hr_i32 depth, char *tile,
                        const float (&d)[PANELS][8][4], float by_low, float by_high) {
    const int lane = threadIdx.x & 31, own = threadIdx.x / 32 * 16;
    __syncwarp();
#pragma unroll
    for (int p = 0; p < PANELS; p++) {
        char *panel = tile + p * (OWN * 128) + lane % 4 * 4;
#pragma unroll
        for (int n = 0; n < 8; n++) {
            *(hr_u32 *)(panel + spot(own + lane / 4, n)) =
                hr_two(d[p][n][0] * by_low, d[p][n][1] * by_low, ELEM());
            *(hr_u32 *)(panel + spot(own + lane / 4 + 8, n)) =
                hr_two(d[p][n][2] * by_high, d[p][n][3] * by_high, ELEM());
        }
    }
    __syncwarp();
    for (int i = lane; i < 16 * (DP / 8); i += 32) {
        const int row = i / (DP / 8), c = i % (DP / 8);
        if (first + own + row < end && c * 8 < depth) {
            *(uint4 *)(to + (first + own + row) * stride + c * 8) =
                *(const uint4 *)(tile + c / 8 * (OWN * 128) + spot(own + row, c % 8));
        }
    }
    __syncwarp();
}

// ---- masks ----

// Those of one head: of queries and keys, in a tile of shared memory where MASK is 2.
struct head_mask {
    const MELEM *at;
    const hr_u8 *flags;
    const hr_u32
        *bits; // those of this warp's first rows, where MASK is 4; row and flag_row are tiles then
    hr_i64 row, flag_row, queries, keys;
    float over; // 1 / scale: scores are scaled later

    HR_INLINE void init(const MELEM *mask, const hr_u8 *all, const extra &e, const shape &a,
                        hr_i64 b, hr_i64 h) {
        at = mask + b * e.mask_batch + h * e.mask_head;
        flags = all + b * e.flag_batch + h * e.flag_head;
        bits = (const hr_u32 *)mask + (b * e.flag_batch + h * e.flag_head) * 32;
        row = e.mask_row;
        flag_row = e.flag_row;
        queries = a.queries;
        keys = a.keys;
        over = 1.0f / a.scale;
    }
    // What 16 rows by 64 columns of bits are to 64 rows, and the word of this thread.
    HR_INLINE hr_u32 of_bits(hr_i64 r0, hr_i64 c0, hr_i64 rows) const {
        hr_u32 all = 0;
        for (hr_i64 i = r0 / 16; i < r0 / 16 + 4 && i * 16 < rows; i++) {
            all |= flags[i * row + c0 / 64 * flag_row];
        }
        return all;
    }
    // Which of those four have numbers.
    HR_INLINE hr_u32 adding(hr_i64 r0, hr_i64 c0, hr_i64 rows) const {
        hr_u32 all = 0;
        for (int i = 0; i < 4 && r0 + i * 16 < rows; i++) {
            all |= (hr_u32)(flags[(r0 / 16 + i) * row + c0 / 64 * flag_row] & ADDS) / ADDS << i;
        }
        return all;
    }
    HR_INLINE hr_u32 word(hr_i64 r0, hr_i64 c0, hr_i64 rows) const {
        const hr_i64 own = r0 / 16 + threadIdx.x / 32, last = (rows - 1) / 16;
        return bits[((own < last ? own : last) * row + c0 / 64 * flag_row) * 32 +
                    (threadIdx.x & 31)];
    }
    // SEEN, ADDS, HIDES and FINITE of 64 queries and 64 keys.
    HR_INLINE hr_u32 of(hr_i64 q0, hr_i64 k0) const {
        hr_u32 all = 0;
        for (hr_i64 i = q0 / 32; i < q0 / 32 + 2 && i * 32 < queries; i++) {
            for (hr_i64 j = k0 / 32; j < k0 / 32 + 2 && j * 32 < keys; j++) {
                all |= flags[i * flag_row + j];
            }
        }
        return all;
    }
    HR_INLINE float single(hr_i64 i, hr_i64 j) const {
        return hr_load(at[(MASK == 1 ? 0 : (i < queries ? i : queries - 1) * row) +
                          (j < keys ? j : keys - 1)]);
    }
    // ROWS queries by COLUMNS keys, to panels of 128 bytes a row.
    template <int ROWS, int COLUMNS>
    HR_INLINE void fetch_tile(char *to, hr_i64 q0, hr_i64 k0) const {
        enum { EACH = 16 / sizeof(MELEM), PIECES = COLUMNS / EACH };
        enum { HOP = THREADS / PIECES };
        const int c = threadIdx.x % PIECES, r = threadIdx.x / PIECES, step = (int)row;
        const MELEM *from = at + (hr_i64)r * step + c * EACH + (hr_i64)(int)q0 * step + k0;
        to += c / 8 * (ROWS * 128);
        if (k0 + COLUMNS <= keys && q0 + ROWS <= queries && ROWS % HOP == 0) {
#pragma unroll
            for (int i = 0; i < ROWS; i += HOP) {
                hr_async_copy(to + spot(r + i, c % 8), from, 16u);
                from += (hr_i64)HOP * step;
            }
            return;
        }
        for (int i = r; i < ROWS; i += HOP) {
            const bool there = q0 + i < queries && k0 + c * EACH < keys;
            hr_async_copy(to + spot(i, c % 8), there ? from : at, there ? 16u : 0u);
            from += (hr_i64)HOP * step;
        }
    }
};

// A score with a number of the mask.  Finite ones stay finite, so that a query that sees none but those weighs them.
template <bool HIDDEN> HR_INLINE float with(float s, float x, float over) {
    const float sum = fmaf(x, over, s);
    return !HIDDEN ? sum : x == none() ? x : sum < ROW_LOWEST ? ROW_LOWEST : sum;
}
HR_INLINE float low_of(hr_u32 word, hr_bf16) {
    return hr_bits_float(word << 16);
}
HR_INLINE float high_of(hr_u32 word, hr_bf16) {
    return hr_bits_float(word & 0xffff0000u);
}
HR_INLINE float low_of(hr_u32 word, hr_f16) {
    hr_f16 x;
    x.bits = (hr_u16)(word & 0xffffu);
    return hr_load(x);
}
HR_INLINE float high_of(hr_u32 word, hr_f16) {
    hr_f16 x;
    x.bits = (hr_u16)(word >> 16);
    return hr_load(x);
}

// Four numbers of two neighbouring pieces n, n + 1 of a tile as the scores lie: rows of the warp, or TURNED columns of it.
template <bool TURNED, typename T>
HR_INLINE void take(float (&x)[2][4], const char *tile, int n, T) {
    const int lane = threadIdx.x & 31, warp = threadIdx.x / 32;
    hr_u32 w[4];
    if (TURNED) {
        hr_ldmatrix_turned(w,
                           tile + warp / 4 * (TILE * 128) +
                               spot((n + lane / 16) * 8 + lane % 8, warp % 4 * 2 + lane / 8 % 2));
    } else {
        hr_ldmatrix(w, tile + spot(warp * 16 + lane % 16, n + lane / 16));
    }
#pragma unroll
    for (int i = 0; i < 4; i++) {
        x[i / 2][i % 2 * 2] = low_of(w[i], T());
        x[i / 2][i % 2 * 2 + 1] = high_of(w[i], T());
    }
}
template <bool TURNED> HR_INLINE void take(float (&x)[2][4], const char *tile, int n, float) {
    const int lane = threadIdx.x & 31, warp = threadIdx.x / 32;
#pragma unroll
    for (int i = 0; i < 8; i++) {
        const int r = warp * 16 + lane / 4 + i / 2 % 2 * 8; // of the block
        const int c = (n + i / 4) * 8 + lane % 4 * 2 + i % 2;
        const int row = TURNED ? c : r, column = TURNED ? r : c;
        x[i / 4][i % 4] = *(const float *)(tile + column / 32 * ((TURNED ? TILE : OWN) * 128) +
                                           spot(row, column % 32 / 4) + column % 4 * 4);
    }
}

// Scores with what the mask adds; the block's rows begin at r0, the step's at c0, TURNED: rows are keys.
template <bool TURNED, bool HIDDEN>
HR_INLINE void add_mask(float (&s)[8][4], const head_mask &m, const char *tile, hr_i64 r0,
                        hr_i64 c0) {
    const int lane = threadIdx.x & 31;
    const hr_i64 r = r0 + threadIdx.x / 32 * 16 + lane / 4, c = c0 + lane % 4 * 2;
    float both[2];
    if (MASK == 1 && TURNED) {
        both[0] = m.single(0, r);
        both[1] = m.single(0, r + 8);
    }
#pragma unroll
    for (int n = 0; n < 8; n += 2) {
        float x[2][4];
        if (MASK == 2) {
            take<TURNED>(x, tile, n, MELEM());
        }
#pragma unroll
        for (int i = 0; i < 8 && MASK != 2; i++) {
            const hr_i64 row = r + i / 2 % 2 * 8, column = c + (n + i / 4) * 8 + i % 2;
            if (MASK == 1) {
                x[i / 4][i % 4] = TURNED  ? both[i / 2 % 2]
                                  : i & 2 ? x[i / 4][i % 4 - 2]
                                          : m.single(0, column);
            } else {
                x[i / 4][i % 4] = TURNED ? m.single(column, row) : m.single(row, column);
            }
        }
#pragma unroll
        for (int i = 0; i < 8; i++) {
            s[n + i / 4][i % 4] = with<HIDDEN>(s[n + i / 4][i % 4], x[i / 4][i % 4], m.over);
        }
    }
}
// By a word of attention_words.cu.
HR_INLINE void hide(float (&s)[8][4], hr_u32 word) {
#pragma unroll
    for (int i = 0; i < 32; i++) {
        const int n = i / 4, bit = n / 4 * 16 + i % 2 * 8 + n % 4 * 2 + i / 2 % 2;
        s[n][i % 4] = word & 1u << bit ? s[n][i % 4] : none();
    }
}
template <bool TURNED>
HR_INLINE void masked(float (&s)[8][4], hr_u32 flag, const head_mask &m, const char *tile,
                      hr_i64 r0, hr_i64 c0) {
    if (BITS) {
        // words were asked for before the products
    } else if (MASK && (flag & HIDES)) {
        add_mask<TURNED, true>(s, m, tile, r0, c0);
    } else if (MASK && (flag & ADDS)) {
        add_mask<TURNED, false>(s, m, tile, r0, c0);
    }
}
HR_INLINE hr_u32 flag_of(const hr_u32 *words, int step) {
    return MASK ? words[step] >> (threadIdx.x / 128 * 8) & 255u : SEEN;
}
// The first step from j on in which anything is seen.
HR_INLINE int following(const hr_u32 *words, int j, int steps) {
    while (MASK && j < steps && !(words[j] & (MASK == 5 ? 0x0101u : 0x01010101u))) {
        j++;
    }
    return j;
}
