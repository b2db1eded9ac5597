/* Matrix multiplication for every op that is one: C (M, N) = A (M, K) * B (K, N), f32 inside.
 *
 * The one idea: the matrices are never asked for as matrices.  An op gives two packers, which copy a block of A or B
 * into small panels in the order the kernel reads them, converting and gathering as they go.  So convolution needs no
 * unfolded image, transposition costs nothing, and scratch is a constant a thread.
 *
 * C is cut into tiles, and a long K into parts, by the shape alone; each tile is one task and parts are added in
 * order.  So the bits do not depend on the number of threads.  Threads take tiles, the arithmetic is our own kernel
 * (8 x 12 in registers): a BLAS would hold buffers of its own that no plan knows of. */
#ifndef HRI_OPS_COMMON_GEMM_H
#define HRI_OPS_COMMON_GEMM_H

#include "graph/op.h"

enum {
    HRI_GEMM_MR = 8,    /* rows of a panel of A */
    HRI_GEMM_UNIT = 12, /* what columns are rounded up to where room is left for them */
#ifdef HRI_GEMM_WIDE
    HRI_GEMM_NR = 32, /* columns of a panel of B */
#else
    HRI_GEMM_NR = HRI_GEMM_UNIT,
#endif
    HRI_GEMM_MC = 128, /* rows of a tile */
    HRI_GEMM_NC = 384, /* columns of a tile, at most */
    HRI_GEMM_KC = 256, /* depth of a block */
    HRI_GEMM_PIECE =
        16 /* numbers of a piece of a line, at least, but for the first and the last of a block */
};

/* How wide the panel is that begins where `left` columns are left: in wide ones no more room is taken than there is. */
static inline int64_t hri_gemm_width(int64_t left) {
    return HRI_GEMM_NR == HRI_GEMM_UNIT || left >= HRI_GEMM_NR ? HRI_GEMM_NR : (left + 3) / 4 * 4;
}

typedef struct hri_gemm hri_gemm;

/* Panels: row i, depth k of a panel of A lies at to[k * MR + i]; depth k, column j of one of B at to[k * NR + j], of the last
 * one at to[k * hri_gemm_width() + j].  Panels follow one another (kc * MR or kc * NR apart).  Rows and columns beyond the matrix are packed as zeros. */
typedef void hri_pack_fn(const hri_gemm *g, int64_t batch, int64_t first, int64_t count, int64_t k0,
                         int64_t kc, float *to);

/* Where a block of A lies as it is, for kernels that take numbers of A one by one (wide ones): of each panel MR rows for each
 * piece of the depth, at[piece * MR + row] being dense along the depth. */
typedef struct hri_gemm_lines {
    int64_t pieces;
    int64_t length[HRI_GEMM_KC / HRI_GEMM_PIECE + 2];
    struct {
        const float *const *at;
    } panel[HRI_GEMM_MC / HRI_GEMM_MR];
} hri_gemm_lines;

/* As hri_pack_fn for A, in `room` as large as what would be packed, at least MC numbers.  0: it has to be packed. */
typedef int hri_gemm_lines_fn(const hri_gemm *g, int64_t batch, int64_t first, int64_t count,
                              int64_t k0, int64_t kc, float *room, hri_gemm_lines *out);

struct hri_gemm {
    int64_t batch, m, n, k;
    hri_pack_fn *pack_a;      /* first, count: rows */
    hri_pack_fn *pack_b;      /* first, count: columns */
    hri_gemm_lines_fn *lines; /* may be NULL */
    /* Where row i of the result begins, in elements from c; NULL: (batch * m + i) * n. */
    int64_t (*row)(const hri_gemm *g, int64_t batch, int64_t i);
    const void *ctx;
    hr_type c_type;
    void *c;
    int add;           /* 1: the result, which must be f32, is added to what lies there */
    int64_t bias_step; /* between batches */
    const void *bias;  /* (N) of bias_type, or NULL */
    hr_type bias_type;
    const void *a, *b; /* for the packers */
    hr_type a_type, b_type;
    int64_t lda, ldb;       /* for the plain packers: elements between rows */
    int64_t a_step, b_step; /* and between batches */
    const struct hri_gemm_tiles
        *tiles; /* matrix units (gemm_tiles.h); NULL: those of the processor */
};

/* Plain packers: A (M, K), A transposed (K, M), B (K, N), B transposed (N, K), any real type. */
hri_pack_fn hri_pack_a, hri_pack_a_t, hri_pack_b, hri_pack_b_t;

/* Plain lines, for the same: A (M, K), f32. */
hri_gemm_lines_fn hri_gemm_lines_a;

/* Lines of `count` rows, MC at most and `lda` apart, of depth kc; `at` has room for whole panels. */
void hri_gemm_lines_rows(const float *a, int64_t lda, int64_t count, int64_t kc, const float **at,
                         hri_gemm_lines *out);

/* One panel from `rows` rows that are dense along the depth, `ld` apart, element `at` first; width is MR or NR. */
void hri_pack_turn(hr_type type, const void *p, int64_t at, int64_t ld, int64_t rows, int64_t kc,
                   int64_t width, float *to);
/* The same from eight rows of f32 anywhere. */
void hri_pack_turn8(const float *const rows[HRI_GEMM_MR], int64_t kc, float *to);

/* Tiles by themselves, for ops that pack their own: c (m, n) = or += panels of A, `apart` numbers from one another, times panels
 * of B, which follow one another.  Whole panels of c are written, but for columns beyond the next multiple of four, which may or
 * may not be. */
void hri_gemm_tile(int64_t m, int64_t n, int64_t k, const float *a, int64_t apart, const float *b,
                   float *c, int64_t ldc, int first);
/* The same with rows of A where they lie, in pieces; `room` is for panels of them. */
void hri_gemm_tile_lines(int64_t m, int64_t n, int64_t k, const hri_gemm_lines *lines, float *room,
                         const float *b, float *c, int64_t ldc, int first);
#ifdef HRI_GEMM_WIDE
/* The same with A where it lies, rows `lda` apart, or turned: (k, m), lines `lda` apart that have whole panels.  c (m, n), no
 * more and no less, is written. */
void hri_gemm_tile_rows(int64_t m, int64_t n, int64_t k, const float *a, int64_t lda,
                        const float *b, float *c, int64_t ldc, int first);
void hri_gemm_tile_turned(int64_t m, int64_t n, int64_t k, const float *a, int64_t lda,
                          const float *b, float *c, int64_t ldc, int first);
#endif

uint64_t hri_gemm_workspace(int64_t batch, int64_t m, int64_t n, int64_t k, uint32_t threads);
void hri_gemm_run(const hri_gemm *g, hri_threads *threads, void *workspace);

#endif
