/* Tiles and parts of gemm.h. */
#include "ops/common/gemm.h"

#include <string.h>

#include "ops/common/blocks.h"
#ifdef HRI_GEMM_WIDE
#include "ops/common/gemm_wide.h"
#endif
#include "ops/common/gemm_kernel.h"
#include "ops/common/gemm_tiles.h"

enum {
    MR = HRI_GEMM_MR,
    NR = HRI_GEMM_NR,
    UNIT = HRI_GEMM_UNIT,
    MC = HRI_GEMM_MC,
    NC = HRI_GEMM_NC,
    KC = HRI_GEMM_KC
};

/* ---- how the work is cut: by the shape alone ---- */

typedef struct cut {
    int64_t m_tiles, m_tile; /* m_tile: rows of a tile, a multiple of 2 MR, MC at most */
    int64_t n_tiles, n_tile; /* n_tile: columns of a tile, a multiple of UNIT */
    int64_t parts, k_part;   /* k_part: a multiple of KC, but for one part */
} cut;

static int64_t over(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}

static cut cut_of(int64_t batch, int64_t m, int64_t n, int64_t k) {
    cut u;
    u.m_tiles = over(m, MC);
    u.m_tile = u.m_tiles ? over(over(m, u.m_tiles), 2 * MR) * 2 * MR : MC;
    u.n_tiles = over(n, NC);
    u.n_tile = u.n_tiles ? over(over(n, u.n_tiles), UNIT) * UNIT : UNIT;
    const int64_t tiles = batch * u.m_tiles * u.n_tiles;
    /* Enough tasks for a machine of some size, but no part shorter than four blocks. */
    u.parts = tiles > 0 && tiles < 16 ? over(16, tiles) : 1;
    if (u.parts > k / (4 * KC)) {
        u.parts = k / (4 * KC) > 1 ? k / (4 * KC) : 1;
    }
    u.k_part = u.parts > 1 ? over(over(k, u.parts), KC) * KC : k;
    u.parts = u.k_part ? over(k, u.k_part) : 1;
    return u;
}

static int64_t scratch_floats(const cut *u, int64_t k) {
    const int64_t kc = k < KC ? k : KC;
    return MC * kc + kc * u->n_tile + MC * u->n_tile + 48;
}

uint64_t hri_gemm_workspace(int64_t batch, int64_t m, int64_t n, int64_t k, uint32_t threads) {
    const cut u = cut_of(batch, m, n, k);
    const int64_t partial = u.parts > 1 ? u.parts * batch * m * n : 0;
    return (uint64_t)(scratch_floats(&u, k) * threads + partial) * sizeof(float);
}

/* ---- tasks ---- */

typedef struct job {
    const hri_gemm *g;
    cut u;
    float *scratch; /* by worker */
    int64_t scratch_floats;
    float *partial; /* (parts, batch, M, N) */
    hri_gemm_kernels kernels;
    hri_gemm_tiles tiles; /* multiply is NULL: not for this product */
    int in_place;         /* the kernels write the result where it belongs, or among the parts */
    int64_t groups;       /* of rows: a task computes one with the same panels of B */
    int64_t rows;         /* of a group */
    int64_t m_tile;       /* rows that are computed together */
} job;

/* One row of results to its place, in its type. */
static void put_row(const hri_gemm *g, int64_t batch, int64_t i, int64_t j, int64_t count,
                    const float *from) {
    const int64_t at = (g->row ? g->row(g, batch, i) : (batch * g->m + i) * g->n) + j;
    float line[64];
    for (int64_t k = 0; k < count; k += 64) {
        const int64_t n = count - k < 64 ? count - k : 64;
        const float *x = from + k;
        if (g->bias) {
            for (int64_t q = 0; q < n; q++) {
                line[q] =
                    x[q] + hri_real_at(g->bias_type, g->bias, batch * g->bias_step + j + k + q);
            }
            x = line;
        }
        if (g->add) {
            float *to = (float *)g->c + at + k;
            for (int64_t q = 0; q < n; q++) {
                to[q] += x[q];
            }
        } else if (g->c_type == HR_TYPE_F32) {
            memcpy((float *)g->c + at + k, x, (size_t)n * sizeof *x);
        } else {
            hri_block_put(g->c_type, g->c, at + k, n, x);
        }
    }
}

/* One block of the depth: c (mc, nc) of row length ldc, from panels of A, `apart` from one another, and B. */
static void multiply_apart(const hri_gemm_kernels *kernels, int64_t mc, int64_t nc, int64_t kc,
                           const float *a, int64_t apart, const float *b, float *c, int64_t ldc,
                           int first) {
#ifdef HRI_GEMM_WIDE
    (void)kernels;
    hri_wide_multiply(mc, nc, kc, a, apart, b, c, ldc, first);
#else
    for (int64_t j = 0; j < nc; j += NR) {
        const int64_t left = nc - j;
        hri_gemm_kernel_fn *one = left <= 8 && kernels->one_8 ? kernels->one_8 : kernels->one;
        hri_gemm_kernel_fn *two = left <= 4 && kernels->two_4 ? kernels->two_4 : kernels->two;
        for (int64_t i = 0; i < mc;) {
            const int panels = kernels->four && i + 3 * MR < mc ? 4 : two && i + MR < mc ? 2 : 1;
            hri_gemm_kernel_fn *fn = panels == 4 ? kernels->four : panels == 2 ? two : one;
            fn(kc, a + i / MR * apart, apart, b + j * kc, c + i * ldc + j, ldc, first);
            i += panels * MR;
        }
    }
#endif
}

/* The same of panels that follow one another. */
static void multiply(const hri_gemm_kernels *kernels, int64_t mc, int64_t nc, int64_t kc,
                     const float *a, const float *b, float *c, int64_t ldc, int first) {
    multiply_apart(kernels, mc, nc, kc, a, kc * MR, b, c, ldc, first);
}

void hri_gemm_tile(int64_t m, int64_t n, int64_t k, const float *a, int64_t apart, const float *b,
                   float *c, int64_t ldc, int first) {
    const hri_gemm_kernels kernels = hri_gemm_kernels_pick();
    multiply_apart(&kernels, m, n, k, a, apart, b, c, ldc, first);
}

#ifdef HRI_GEMM_WIDE
void hri_gemm_tile_rows(int64_t m, int64_t n, int64_t k, const float *a, int64_t lda,
                        const float *b, float *c, int64_t ldc, int first) {
    for (int64_t done = 0; done < m; done += MC) {
        const float *rows[MC];
        hri_gemm_lines lines;
        const int64_t count = m - done < MC ? m - done : MC;
        hri_gemm_lines_rows(a + done * lda, lda, count, k, rows, &lines);
        hri_wide_multiply_lines(count, n, k, &lines, b, c + done * ldc, ldc, first, 0, 0);
    }
}

void hri_gemm_tile_turned(int64_t m, int64_t n, int64_t k, const float *a, int64_t lda,
                          const float *b, float *c, int64_t ldc, int first) {
    hri_wide_multiply_turned(m, n, k, a, lda, b, c, ldc, first);
}
#endif

void hri_gemm_tile_lines(int64_t m, int64_t n, int64_t k, const hri_gemm_lines *lines, float *room,
                         const float *b, float *c, int64_t ldc, int first) {
#ifdef HRI_GEMM_WIDE
    (void)room;
    hri_wide_multiply_lines(m, n, k, lines, b, c, ldc, first, 0, 1);
#else
    float *to = room;
    for (int64_t i = 0; i < m; i += MR) {
        const float *const *at = lines->panel[i / MR].at;
        for (int64_t p = 0; p < lines->pieces; p++, at += MR) {
            hri_pack_turn8(at, lines->length[p], to);
            to += lines->length[p] * MR;
        }
    }
    hri_gemm_tile(over(m, MR) * MR, n, k, room, k * MR, b, c, ldc, first);
#endif
}

/* A strip of whole panels that reach beyond the matrix: by way of `room`, whose rows are `ld` apart. */
static void multiply_strip(const hri_gemm_kernels *kernels, int64_t mc, int64_t nc, int64_t kc,
                           const float *a, const float *b, float *c, int64_t ldc, int first,
                           float *room, int64_t ld) {
    for (int64_t i = 0; i < mc && !first; i++) {
        memcpy(room + i * ld, c + i * ldc, (size_t)nc * sizeof *c);
    }
    multiply(kernels, mc, nc, kc, a, b, room, ld, first);
    for (int64_t i = 0; i < mc; i++) {
        memcpy(c + i * ldc, room + i * ld, (size_t)nc * sizeof *c);
    }
}

/* One block of the depth to its place: whole panels at once, what is left of columns and rows by way of `room`. */
static void multiply_in_place(const hri_gemm_kernels *kernels, int64_t mc, int64_t nc, int64_t kc,
                              const float *a, const float *b, float *c, int64_t ldc, int first,
                              float *room, int64_t ld) {
#ifdef HRI_GEMM_WIDE
    const int64_t m = mc, n = nc; /* nothing reaches beyond */
#else
    const int64_t m = mc - mc % MR, n = nc - nc % NR;
#endif
    multiply(kernels, m, n, kc, a, b, c, ldc, first);
    if (n < nc) {
        multiply_strip(kernels, m, nc - n, kc, a, b + n * kc, c + n, ldc, first, room, NR);
    }
    if (m < mc) {
        multiply_strip(kernels, mc - m, nc, kc, a + m * kc, b, c + m * ldc, ldc, first, room, ld);
    }
}

#ifdef HRI_GEMM_WIDE
/* How far from a block of A the one lies that is so many rows below and so much deeper; 0: not known. */
static int64_t ahead_of(const hri_gemm *g, int64_t down, int64_t deeper) {
    return g->lines == hri_gemm_lines_a ? down * g->lda + deeper : 0;
}
#endif

/* The same of a block of A where it lies; the next one is `down` rows below and `deeper`.  0: it has to be packed. */
static int multiply_lines(const job *w, int64_t batch, int64_t m0, int64_t mc, int64_t nc,
                          int64_t k0, int64_t kc, float *a, const float *b, float *c, int64_t ldc,
                          int first, int64_t down, int64_t deeper) {
#ifdef HRI_GEMM_WIDE
    hri_gemm_lines lines;
    if (w->g->lines && w->g->lines(w->g, batch, m0, mc, k0, kc, a, &lines)) {
        hri_wide_multiply_lines(mc, nc, kc, &lines, b, c, ldc, first, ahead_of(w->g, down, deeper),
                                0);
        return 1;
    }
#endif
    (void)w, (void)batch, (void)m0, (void)mc, (void)nc, (void)k0, (void)kc, (void)a, (void)b;
    (void)c, (void)ldc, (void)first, (void)down, (void)deeper;
    return 0;
}

/* A tile from `room` to its place. */
static void put_tile(const job *w, int64_t batch, int64_t m0, int64_t mc, int64_t n0, int64_t nc,
                     const float *room) {
    for (int64_t i = 0; i < mc; i++, room += w->u.n_tile) {
        put_row(w->g, batch, m0 + i, n0, nc, room);
    }
}

/* Where a tile is written in place. */
static float *place_of(const job *w, int64_t part, int64_t batch, int64_t m0, int64_t n0) {
    const hri_gemm *g = w->g;
    float *const all = w->u.parts > 1 ? w->partial + part * g->batch * g->m * g->n : g->c;
    return all + (batch * g->m + m0) * g->n + n0;
}

static void add_bias(const hri_gemm *g, int64_t batch, int64_t nc, int64_t n0, int64_t mc,
                     float *c) {
    float room[NC];
    const float *line = hri_block_in(g->bias_type, g->bias, batch * g->bias_step + n0, nc, room);
    for (int64_t i = 0; i < mc; i++, c += g->n) {
        for (int64_t j = 0; j < nc; j++) {
            c[j] += line[j];
        }
    }
}

/* Panels begin where a line of the cache does; scratch_floats has room for it. */
static float *aligned(float *p) {
    return (float *)(((uintptr_t)p + 63) & ~(uintptr_t)63);
}

/* ---- by matrix units ---- */

/* Rows whose panels of tiles have room next to those of B; a multiple of HRI_TILES_PANEL. */
static int64_t tile_rows(const cut *u, int64_t k) {
    const int64_t kc = k < KC ? k : KC;
    const int64_t left = scratch_floats(u, k) - 16 - hri_gemm_tiles_floats(u->n_tile, kc);
    const int64_t panels = left / hri_gemm_tiles_floats(HRI_TILES_PANEL, kc);
    return (panels < MC / HRI_TILES_PANEL ? panels : MC / HRI_TILES_PANEL) * HRI_TILES_PANEL;
}

/* Plain matrices of f32 that fill tiles.  Rows do not count: what a row becomes depends on no other. */
static int fits_tiles(const hri_gemm *g, const cut *u) {
    enum { LEAST_N = 32, LEAST_K = 64 };
    const int plain = (g->pack_a == hri_pack_a || g->pack_a == hri_pack_a_t) &&
                      (g->pack_b == hri_pack_b || g->pack_b == hri_pack_b_t);
    return plain && !g->row && !g->add && g->a_type == HR_TYPE_F32 && g->b_type == HR_TYPE_F32 &&
           g->c_type == HR_TYPE_F32 && g->n >= LEAST_N && g->k >= LEAST_K && tile_rows(u, g->k) > 0;
}

/* A block of the depth of a group of tiles: B to its panels, then so many rows after another. */
static void multiply_tiles(const job *w, int64_t part, int64_t batch, int64_t first, int64_t last,
                           int64_t n0, int64_t nc, int64_t k0, int64_t kc, uint16_t *at) {
    const hri_gemm *g = w->g;
    const int a_straight = g->pack_a == hri_pack_a_t, b_straight = g->pack_b == hri_pack_b;
    const float *a = (const float *)g->a + batch * g->a_step;
    const float *b = (const float *)g->b + batch * g->b_step;
    uint16_t *const of_a = at + 2 * hri_gemm_tiles_floats(nc, kc);
    const int64_t rows = tile_rows(&w->u, g->k);
    w->tiles.pack_b(b + (b_straight ? k0 * g->ldb + n0 : n0 * g->ldb + k0), g->ldb, b_straight, nc,
                    kc, at);
    for (int64_t m0 = first; m0 < last; m0 += rows) {
        const int64_t mc = last - m0 < rows ? last - m0 : rows;
        w->tiles.pack_a(a + (a_straight ? k0 * g->lda + m0 : m0 * g->lda + k0), g->lda, a_straight,
                        mc, kc, of_a);
        float *const c = place_of(w, part, batch, m0, n0);
        w->tiles.multiply(mc, nc, kc, of_a, at, c, g->n, k0 == part * w->u.k_part);
        if (g->bias && w->u.parts == 1 && k0 + kc == g->k) {
            add_bias(g, batch, nc, n0, mc, c);
        }
    }
}

/* Task: a group of tiles of one part, one block of the depth after the other. */
static void run_tiles(void *arg, uint32_t number, uint32_t worker) {
    const job *w = arg;
    const hri_gemm *g = w->g;
    const cut *u = &w->u;
    int64_t rest = number;
    /* Tiles of the same rows follow one another: what a thread wrote it reads in the next op, and what it reads here it has. */
    const int64_t in = rest % u->n_tiles;
    rest /= u->n_tiles;
    const int64_t part = rest % u->parts;
    rest /= u->parts;
    const int64_t first = rest % w->groups * w->rows, batch = rest / w->groups;
    const int64_t n0 = in * u->n_tile;
    const int64_t last = g->m - first < w->rows ? g->m : first + w->rows;
    const int64_t nc = g->n - n0 < u->n_tile ? g->n - n0 : u->n_tile;
    const int64_t begin = part * u->k_part;
    const int64_t end = begin + u->k_part < g->k ? begin + u->k_part : g->k;
    const int64_t depth = g->k < KC ? g->k : KC;
    float *room = aligned(w->scratch + worker * w->scratch_floats); /* (MC, n_tile) */
    float *a = room + MC * u->n_tile, *b = a + MC * depth;
    if (w->tiles.multiply) {
        for (int64_t k0 = begin; k0 < end; k0 += KC) {
            multiply_tiles(w, part, batch, first, last, n0, nc, k0, end - k0 < KC ? end - k0 : KC,
                           (uint16_t *)(void *)room);
        }
        return;
    }
    for (int64_t k0 = begin; k0 < end; k0 += KC) {
        const int64_t kc = end - k0 < KC ? end - k0 : KC;
        g->pack_b(g, batch, n0, nc, k0, kc, b);
        for (int64_t m0 = first; m0 < last; m0 += w->m_tile) {
            const int64_t mc = last - m0 < w->m_tile ? last - m0 : w->m_tile;
            float *c = w->in_place ? place_of(w, part, batch, m0, n0) : room;
            const int64_t ldc = w->in_place ? g->n : u->n_tile;
            const int more = m0 + w->m_tile < last, deeper = !more && k0 + kc < end;
            const int64_t down = more ? w->m_tile : deeper ? first - m0 : 0;
            if (!multiply_lines(w, batch, m0, mc, nc, k0, kc, a, b, c, ldc, k0 == begin, down,
                                deeper ? KC : 0)) {
                g->pack_a(g, batch, m0, mc, k0, kc, a);
                if (w->in_place) {
                    multiply_in_place(&w->kernels, mc, nc, kc, a, b, c, ldc, k0 == begin, room,
                                      u->n_tile);
                } else {
                    multiply(&w->kernels, mc, nc, kc, a, b, c, ldc, k0 == begin);
                }
            }
            if (k0 + kc < end) {
                continue;
            }
            if (!w->in_place) {
                put_tile(w, batch, m0, mc, n0, nc, room);
            } else if (g->bias && u->parts == 1) {
                add_bias(g, batch, nc, n0, mc, c);
            }
        }
    }
    if (end <= begin) { /* K is 0: one tile, see group_tiles */
        memset(room, 0, (size_t)(MC * u->n_tile) * sizeof *room);
        put_tile(w, batch, first, last - first, n0, nc, room);
    }
}

/* Into how many groups the rows are cut: as few as give every thread the same number of tasks, or each of them many.  Where later
 * depths are added to sums, those of a group have to stay close. */
static int64_t groups_of(const hri_gemm *g, const cut *u, int64_t threads) {
    enum { MOST = 8 /* tiles */, MANY = 4 /* tasks of a thread */ };
    const int64_t others = g->batch * u->parts * u->n_tiles;
    int64_t groups = g->k <= KC ? 1 : over(u->m_tiles, MOST);
    if (g->batch == 1 && u->m_tiles >= MOST && threads <= u->m_tiles && groups < threads) {
        groups = threads; /* rows of its own for each */
    }
    while (groups < u->m_tiles && groups * others % threads && groups * others < MANY * threads) {
        groups++;
    }
    return groups;
}

/* Which rows a task computes: what it packs of B serves them all.  No bit depends on it. */
static void group_tiles(job *w, uint32_t threads) {
    const hri_gemm *g = w->g;
    const cut *u = &w->u;
    w->in_place = u->parts > 1 || (!g->row && !g->add && g->c_type == HR_TYPE_F32);
    w->groups = u->m_tiles;
    w->rows = w->m_tile = u->m_tile;
    if (g->k == 0 || g->m == 0 || (g->k > KC && !w->in_place)) {
        return;
    }
    w->rows = over(over(g->m, groups_of(g, u, threads)), 2 * MR) * 2 * MR;
    w->groups = over(g->m, w->rows);
    w->m_tile = over(over(w->rows, over(w->rows, MC)), 2 * MR) * 2 * MR;
}

/* Range over rows of all batches: adds the parts in order. */
static void add_parts(void *arg, uint64_t begin, uint64_t end, uint32_t worker) {
    const job *w = arg;
    const hri_gemm *g = w->g;
    const int64_t all = g->batch * g->m * g->n;
    (void)worker;
    for (int64_t r = (int64_t)begin; r < (int64_t)end; r++) {
        float *sum = w->partial + r * g->n;
        for (int64_t p = 1; p < w->u.parts; p++) {
            const float *more = sum + p * all;
            for (int64_t j = 0; j < g->n; j++) {
                sum[j] += more[j];
            }
        }
        put_row(g, r / g->m, r % g->m, 0, g->n, sum);
    }
}

void hri_gemm_run(const hri_gemm *g, hri_threads *threads, void *workspace) {
    job w = {.g = g, .u = cut_of(g->batch, g->m, g->n, g->k), .scratch = workspace};
    w.kernels = hri_gemm_kernels_pick();
    if (fits_tiles(g, &w.u)) {
        w.tiles = g->tiles ? *g->tiles : hri_gemm_tiles_pick();
    }
    w.scratch_floats = scratch_floats(&w.u, g->k);
    w.partial = w.scratch + w.scratch_floats * hri_threads_count(threads);
    group_tiles(&w, hri_threads_count(threads));
    const int64_t tasks = g->batch * w.u.parts * w.groups * w.u.n_tiles;
    hri_threads_run(threads, (uint32_t)tasks, run_tiles, &w);
    if (w.u.parts > 1) {
        hri_threads_range(threads, (uint64_t)(g->batch * g->m), 16, add_parts, &w);
    }
}
