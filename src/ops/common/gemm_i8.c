/* Packing, tiles and tasks of gemm_i8.h. */
#include "ops/common/gemm_i8.h"

#include <string.h>

#if defined(__x86_64__)
#include <emmintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#include "ops/common/requantize.h"

enum { NR = HRI_I8_COLUMNS, MR = HRI_I8_ROWS, TILE_BYTES = 192 << 10, TILE_ROWS = 240, DEEP = 8 };

/* ---- how the work is cut: by the shape alone ---- */

typedef struct cut {
    int64_t depth;           /* bytes of a packed row or column: whole groups of any kernel */
    int64_t panels;          /* of B */
    int64_t m_tile, m_tiles; /* rows of a task, a multiple of MR */
    int64_t n_tile, n_tiles; /* panels of a task */
} cut;

static int64_t over(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}

static cut cut_of(int64_t m, int64_t n, int64_t k) {
    cut u = {.depth = over(k, DEEP) * DEEP, .panels = over(n, NR)};
    const int64_t deep = u.depth ? u.depth : DEEP;
    int64_t rows = TILE_BYTES / deep < TILE_ROWS ? TILE_BYTES / deep : TILE_ROWS;
    rows = rows < m ? rows : m;
    u.m_tile = rows < MR ? MR : rows / MR * MR;
    u.m_tiles = over(m, u.m_tile);
    /* Few rows: panels are dealt out as well. */
    const int64_t wanted = u.m_tiles && u.m_tiles < 16 ? over(16, u.m_tiles) : 1;
    u.n_tile = u.panels ? over(u.panels, wanted < u.panels ? wanted : u.panels) : 1;
    u.n_tiles = over(u.panels, u.n_tile);
    return u;
}

typedef struct room {
    uint64_t panels, add, by, rows, total; /* where they lie; rows: by worker */
    uint64_t each;                         /* bytes of a worker's rows */
} room;

static uint64_t up(uint64_t bytes) {
    return (bytes + 63) / 64 * 64;
}

static room room_of(const cut *u, int copies, uint32_t threads) {
    room r = {0};
    const uint64_t columns = (uint64_t)(u->panels * NR);
    r.add = up((uint64_t)(u->panels * u->depth) * NR);
    r.by = r.add + up(columns * sizeof(int32_t));
    r.rows = r.by + 2 * up(columns * sizeof(float));
    r.each = copies ? up((uint64_t)(u->m_tile * u->depth)) : 0;
    r.total = r.rows + r.each * threads;
    return r;
}

/* Rows are read where they lie when a group never crosses their end. */
static int is_direct(int64_t k, int copies) {
    return !copies && k % DEEP == 0;
}

uint64_t hri_gemm_i8_workspace(int64_t m, int64_t n, int64_t k, int copies, uint32_t threads) {
    const cut u = cut_of(m, n, k);
    return room_of(&u, !is_direct(k, copies), threads).total;
}

/* ---- packing B ---- */

typedef struct job {
    const hri_gemm_i8 *g;
    const hri_i8_kernel *kernel;
    cut u;
    room r;
    int direct;
    unsigned char *memory;
} job;

/* Four rows of 32 columns: columns one after the other, each with its four numbers. */
static void weave(const int8_t *const row[4], int8_t *to) {
#if defined(__x86_64__)
    for (int j = 0; j < NR; j += 16) {
        const __m128i r0 = _mm_loadu_si128((const __m128i *)(const void *)(row[0] + j));
        const __m128i r1 = _mm_loadu_si128((const __m128i *)(const void *)(row[1] + j));
        const __m128i r2 = _mm_loadu_si128((const __m128i *)(const void *)(row[2] + j));
        const __m128i r3 = _mm_loadu_si128((const __m128i *)(const void *)(row[3] + j));
        const __m128i a = _mm_unpacklo_epi8(r0, r1), b = _mm_unpacklo_epi8(r2, r3);
        const __m128i c = _mm_unpackhi_epi8(r0, r1), d = _mm_unpackhi_epi8(r2, r3);
        __m128i *out = (__m128i *)(void *)(to + 4 * j);
        _mm_storeu_si128(out, _mm_unpacklo_epi16(a, b));
        _mm_storeu_si128(out + 1, _mm_unpackhi_epi16(a, b));
        _mm_storeu_si128(out + 2, _mm_unpacklo_epi16(c, d));
        _mm_storeu_si128(out + 3, _mm_unpackhi_epi16(c, d));
    }
#elif defined(__aarch64__)
    for (int j = 0; j < NR; j += 16) {
        const int8x16x4_t rows = {{vld1q_s8(row[0] + j), vld1q_s8(row[1] + j), vld1q_s8(row[2] + j),
                                   vld1q_s8(row[3] + j)}};
        vst4q_s8(to + 4 * j, rows);
    }
#else
    for (int j = 0; j < NR; j++) {
        for (int q = 0; q < 4; q++) {
            to[4 * j + q] = row[q][j];
        }
    }
#endif
}

/* Two groups of four of every column become one of eight. */
static void join_fours(const int8_t *low, const int8_t *high, int8_t *to) {
    for (int j = 0; j < NR; j++) {
        memcpy(to + 8 * j, low + 4 * j, 4);
        memcpy(to + 8 * j + 4, high + 4 * j, 4);
    }
}

/* Columns first .. first + NR at depth k .. k + 4 of B (K, N); zeros beyond its end. */
static void pack_four(const hri_gemm_i8 *g, int64_t first, int64_t columns, int64_t k, int8_t *to) {
    int8_t edge[4][NR];
    const int8_t *row[4];
    for (int64_t q = 0; q < 4; q++) {
        const int8_t *from = g->b + (k + q < g->k ? (k + q) * g->n + first : 0);
        if (k + q < g->k && columns == NR) {
            row[q] = from;
            continue;
        }
        memset(edge[q], 0, sizeof edge[q]);
        if (k + q < g->k) {
            memcpy(edge[q], from, (size_t)columns);
        }
        row[q] = edge[q];
    }
    weave(row, to);
}

static void pack_turned(const hri_gemm_i8 *g, int64_t first, int64_t columns, int64_t depth,
                        int deep, int8_t *to) {
    for (int64_t j = 0; j < NR; j++) {
        const int8_t *from = g->b + (first + j) * g->k;
        for (int64_t k = 0; k < depth; k += deep) {
            int8_t *group = to + k * NR + j * deep;
            const int64_t there = j >= columns || k >= g->k ? 0 : g->k - k < deep ? g->k - k : deep;
            memset(group, 0, (size_t)deep);
            memcpy(group, from + (there ? k : 0), (size_t)there);
        }
    }
}

static void pack_plain(const hri_gemm_i8 *g, int64_t first, int64_t columns, int64_t depth,
                       int deep, int8_t *to) {
    for (int64_t k = 0; k < depth; k += deep, to += NR * deep) {
        if (deep == 4) {
            pack_four(g, first, columns, k, to);
        } else {
            int8_t low[NR * 4], high[NR * 4];
            pack_four(g, first, columns, k, low);
            pack_four(g, first, columns, k + 4, high);
            join_fours(low, high, to);
        }
    }
}

static void sum_columns(const int8_t *packed, int64_t depth, int deep, int32_t *sum) {
    for (int64_t k = 0; k < depth; k += deep, packed += NR * deep) {
        for (int j = 0; j < NR; j++) {
            for (int q = 0; q < deep; q += 4) {
                const int8_t *x = packed + j * deep + q;
                sum[j] += x[0] + x[1] + x[2] + x[3];
            }
        }
    }
}

/* Task: one panel, and what is added to its sums. */
static void pack_panel(void *arg, uint32_t number, uint32_t worker) {
    const job *w = arg;
    const hri_gemm_i8 *g = w->g;
    const int64_t first = (int64_t)number * NR, depth = w->u.depth;
    const int64_t columns = g->n - first < NR ? g->n - first : NR;
    int8_t *to = (int8_t *)w->memory + number * depth * NR;
    int32_t *add = (int32_t *)(void *)(w->memory + w->r.add) + first;
    float *by = (float *)(void *)(w->memory + w->r.by) + first, *bias = by + w->u.panels * NR;
    int32_t sum[NR] = {0};
    (void)worker;
    if (g->b_turned) {
        pack_turned(g, first, columns, depth, w->kernel->deep, to);
    } else {
        pack_plain(g, first, columns, depth, w->kernel->deep, to);
    }
    if (w->kernel->deep == 4) {
        sum_columns(to, depth, 4, sum);
    } else {
        sum_columns(to, depth, 8, sum);
    }
    for (int64_t j = 0; j < NR; j++) {
        const float scale = j < columns ? g->scale[first + j] : 0.0f;
        const float unit = g->a_scale * scale, own = j < columns ? g->bias[first + j] : 0.0f;
        const int32_t whole = g->c && j < columns ? hri_quantize_bias(own, unit) : 0;
        add[j] = whole - (g->a_zero - w->kernel->bias) * sum[j];
        by[j] = g->c ? unit / g->c_scale : unit;
        bias[j] = own;
    }
}

/* ---- tasks ---- */

/* Task: some rows, some panels. */
static void run_tile(void *arg, uint32_t number, uint32_t worker) {
    const job *w = arg;
    const hri_gemm_i8 *g = w->g;
    const cut *u = &w->u;
    const int64_t m0 = number % u->m_tiles * u->m_tile;
    const int64_t p0 = number / u->m_tiles * u->n_tile;
    const int64_t rows = g->m - m0 < u->m_tile ? g->m - m0 : u->m_tile;
    const int64_t p1 = p0 + u->n_tile < u->panels ? p0 + u->n_tile : u->panels;
    const int64_t groups = u->depth / w->kernel->deep;
    const uint8_t *a = g->a + m0 * g->k;
    int64_t lda = g->k;
    if (!w->direct) {
        uint8_t *to = w->memory + w->r.rows + worker * w->r.each;
        lda = u->depth;
        if (g->rows) {
            g->rows(g, m0, rows, to, lda);
        } else {
            for (int64_t i = 0; i < rows; i++) {
                memcpy(to + i * lda, a + i * g->k, (size_t)g->k);
            }
        }
        for (int64_t i = 0; i < rows && lda > g->k; i++) { /* meets zeros, but is read */
            memset(to + i * lda + g->k, 0, (size_t)(lda - g->k));
        }
        a = to;
    }
    for (int64_t p = p0; p < p1; p++) {
        const int64_t first = p * NR;
        const float *by = (const float *)(const void *)(w->memory + w->r.by) + first;
        hri_i8_finish f = {
            .add = (const int32_t *)(const void *)(w->memory + w->r.add) + first,
            .by = by,
            .bias = by + u->panels * NR,
            .low = g->relu ? 0.0f : -(float)g->c_zero,
            .high = 255.0f - (float)g->c_zero,
            .zero = g->c_zero,
            .relu = g->relu,
            .columns = (int)(g->n - first < NR ? g->n - first : NR),
            .ldc = g->ldc ? g->ldc : g->n,
        };
        for (int64_t i = 0; i < rows; i += MR) {
            const int64_t at = (m0 + i) * (g->ldc ? g->ldc : g->n) + first;
            f.c = g->c ? g->c + at : NULL;
            f.real = g->c ? NULL : g->real + at;
            w->kernel->run(groups, a + i * lda, lda, (int)(rows - i < MR ? rows - i : MR),
                           (const int8_t *)w->memory + p * u->depth * NR, &f);
        }
    }
}

void hri_gemm_i8_with(const hri_gemm_i8 *g, const hri_i8_kernel *kernel, hri_threads *threads,
                      void *workspace) {
    const int copies = g->rows != NULL;
    job w = {.g = g,
             .kernel = kernel,
             .u = cut_of(g->m, g->n, g->k),
             .direct = is_direct(g->k, copies),
             .memory = workspace};
    w.r = room_of(&w.u, !w.direct, hri_threads_count(threads));
    if (g->m == 0 || g->n == 0) {
        return;
    }
    hri_threads_run(threads, (uint32_t)w.u.panels, pack_panel, &w);
    hri_threads_run(threads, (uint32_t)(w.u.m_tiles * w.u.n_tiles), run_tile, &w);
}

void hri_gemm_i8_run(const hri_gemm_i8 *g, hri_threads *threads, void *workspace) {
    hri_gemm_i8_with(g, hri_i8_kernel_pick(), threads, workspace);
}
