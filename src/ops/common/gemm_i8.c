/* Packing, tiles and tasks of gemm_i8.h. */
#include "ops/common/gemm_i8.h"

#include <string.h>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

#include "ops/common/requantize.h"

enum { NR = HRI_I8_COLUMNS, MR = HRI_I8_ROWS, TILE_BYTES = 192 << 10, TILE_ROWS = 240 };

/* ---- how the work is cut: by the shape alone ---- */

typedef struct cut {
    int64_t fours;           /* groups of four along the depth */
    int64_t panels;          /* of B */
    int64_t m_tile, m_tiles; /* rows of a task, a multiple of MR */
    int64_t n_tile, n_tiles; /* panels of a task */
} cut;

static int64_t over(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}

static cut cut_of(int64_t m, int64_t n, int64_t k) {
    cut u = {.fours = over(k, 4), .panels = over(n, NR)};
    const int64_t deep = u.fours ? u.fours * 4 : 4;
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
    r.add = up((uint64_t)(u->panels * u->fours) * NR * 4);
    r.by = r.add + up(columns * sizeof(int32_t));
    r.rows = r.by + 2 * up(columns * sizeof(float));
    r.each = copies ? up((uint64_t)(u->m_tile * u->fours) * 4) : 0;
    r.total = r.rows + r.each * threads;
    return r;
}

/* Rows are read where they lie when a group of four never crosses their end. */
static int is_direct(int64_t k, int copies) {
    return !copies && k % 4 == 0;
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
#else
    for (int j = 0; j < NR; j++) {
        for (int q = 0; q < 4; q++) {
            to[4 * j + q] = row[q][j];
        }
    }
#endif
}

/* Columns first .. first + NR at depth k .. k + 4 of B (K, N). */
static void pack_four(const hri_gemm_i8 *g, int64_t first, int64_t columns, int64_t k, int8_t *to) {
    int8_t edge[4][NR];
    const int8_t *row[4];
    for (int64_t q = 0; q < 4; q++) {
        const int8_t *from = g->b + (k + q) * g->n + first;
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

static void pack_turned(const hri_gemm_i8 *g, int64_t first, int64_t columns, int64_t fours,
                        int8_t *to) {
    for (int64_t j = 0; j < NR; j++) {
        const int8_t *from = g->b + (first + j) * g->k;
        for (int64_t f = 0; f < fours; f++) {
            int8_t *four = to + (f * NR + j) * 4;
            if (j < columns && f * 4 + 4 <= g->k) {
                memcpy(four, from + f * 4, 4);
            } else {
                for (int64_t q = 0; q < 4; q++) {
                    four[q] = (int8_t)(j < columns && f * 4 + q < g->k ? from[f * 4 + q] : 0);
                }
            }
        }
    }
}

/* Task: one panel, and what is added to its sums. */
static void pack_panel(void *arg, uint32_t number, uint32_t worker) {
    const job *w = arg;
    const hri_gemm_i8 *g = w->g;
    const int64_t first = (int64_t)number * NR, fours = w->u.fours;
    const int64_t columns = g->n - first < NR ? g->n - first : NR;
    int8_t *to = (int8_t *)w->memory + number * fours * NR * 4;
    int32_t *add = (int32_t *)(void *)(w->memory + w->r.add) + first;
    float *by = (float *)(void *)(w->memory + w->r.by) + first, *bias = by + w->u.panels * NR;
    int32_t sum[NR] = {0};
    (void)worker;
    if (g->b_turned) {
        pack_turned(g, first, columns, fours, to);
    }
    for (int64_t f = 0; f < fours; f++) {
        int8_t *four = to + f * NR * 4;
        if (!g->b_turned) {
            pack_four(g, first, columns, f * 4, four);
        }
        for (int j = 0; j < NR; j++) {
            sum[j] += four[4 * j] + four[4 * j + 1] + four[4 * j + 2] + four[4 * j + 3];
        }
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
    const uint8_t *a = g->a + m0 * g->k;
    int64_t lda = g->k;
    if (!w->direct) {
        uint8_t *to = w->memory + w->r.rows + worker * w->r.each;
        lda = u->fours * 4;
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
            .ldc = g->n,
        };
        for (int64_t i = 0; i < rows; i += MR) {
            const int64_t at = (m0 + i) * g->n + first;
            f.c = g->c ? g->c + at : NULL;
            f.real = g->c ? NULL : g->real + at;
            w->kernel->run(u->fours, a + i * lda, lda, (int)(rows - i < MR ? rows - i : MR),
                           (const int8_t *)w->memory + p * u->fours * NR * 4, &f);
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
