/* How linear_cross_entropy and its gradient cut the scores s = x w^T (N, V).
 *
 * The cut goes through V: all rows of x meet a block of rows of w.  Forward then needs a running maximum and sum for
 * each row, as attention does.  Backward, a block of dw is complete at once, and only dx (N, C) is a sum over blocks;
 * cut by rows, dw (V, C) would be that sum, which is larger and would need a copy in f32 under mixed precision.
 *
 * The width of a block depends on the shape alone: whole tiles of gemm.h, about 24 MiB of scores, 384 columns at
 * least.  Scores are f32 whatever the stored type.
 *
 * With `keep` all scores are kept for the gradient, block after block, each (N, width): the gradient saves a product and
 * costs the memory of all scores.  Everything else is computed in the same order, so both ways give the same bits. */
#ifndef HRI_OPS_COMMON_LINEAR_LOSS_H
#define HRI_OPS_COMMON_LINEAR_LOSS_H

#include "ops/common/blocks.h"
#include "ops/common/gemm.h"

enum { HRI_LINEAR_LOSS_SCORES = 6 << 20, HRI_LINEAR_LOSS_TILES = 16 };

typedef struct hri_linear_loss_attr {
    double smoothing;
    bool sum, keep;
} hri_linear_loss_attr;

#define HRI_LINEAR_LOSS_FIELDS                                                                     \
    {"smoothing",                                                                                  \
     "label smoothing",                                                                            \
     offsetof(hri_linear_loss_attr, smoothing),                                                    \
     HRI_FIELD_DOUBLE,                                                                             \
     "0",                                                                                          \
     .min = 0,                                                                                     \
     .max = 1},                                                                                    \
        {"sum", "add the rows instead of averaging", offsetof(hri_linear_loss_attr, sum),          \
         HRI_FIELD_BOOL, NULL},                                                                    \
    {                                                                                              \
        "keep", "keep all scores for the gradient", offsetof(hri_linear_loss_attr, keep),          \
            HRI_FIELD_BOOL, NULL                                                                   \
    }

typedef struct hri_linear_loss {
    int64_t rows, depth, classes; /* N, C, V */
    int64_t width;                /* classes of a block, but for the last */
} hri_linear_loss;

static inline hri_linear_loss hri_linear_loss_of(const hr_meta *x, const hr_meta *w,
                                                 const hr_meta *ids) {
    hri_linear_loss z = {.rows = hr_shape_count(&ids->shape),
                         .depth = x->shape.dim[x->shape.rank - 1],
                         .classes = w->shape.dim[0]};
    const int64_t tiles = HRI_LINEAR_LOSS_SCORES / HRI_GEMM_NC / hri_max64(z.rows, 1);
    z.width = HRI_GEMM_NC * hri_max64(hri_min64(tiles, HRI_LINEAR_LOSS_TILES), 1);
    z.width = hri_min64(z.width, z.classes);
    return z;
}

/* Both ops: x (..., C) and w (V, C) of one real type, ids (...). */
static inline hr_status hri_linear_loss_infer(hri_infer *c, uint32_t first) {
    const hr_meta *x = &c->in[first], *w = x + 1, *ids = x + 2;
    if (!hr_type_is_real(x->type) || x->type != w->type) {
        return hri_infer_fail(c, "x and w must have the same floating-point type");
    }
    if (ids->type != HR_TYPE_I32 && ids->type != HR_TYPE_I64) {
        return hri_infer_fail(c, "the ids must be i32 or i64");
    }
    if (x->shape.rank < 1 || w->shape.rank != 2 || w->shape.dim[0] < 1 ||
        w->shape.dim[1] != x->shape.dim[x->shape.rank - 1]) {
        return hri_infer_fail(c, "w must be (classes, last dimension of x)");
    }
    hr_shape rows = x->shape;
    rows.dim[--rows.rank] = 0;
    if (!hr_shape_same(&rows, &ids->shape)) {
        return hri_infer_fail(c, "the ids must have the shape of x without the last dimension");
    }
    return HR_OK;
}

/* Parts of the workspace begin at cache lines. */
static inline uint64_t hri_linear_loss_up(uint64_t bytes) {
    return (bytes + 63) / 64 * 64;
}

static inline uint64_t hri_linear_loss_bytes(const hri_linear_loss *z) {
    return hri_linear_loss_up((uint64_t)(z->rows * z->width) * sizeof(float));
}

/* Classes of the last block: its products are cut in another way, and may want more scratch. */
static inline int64_t hri_linear_loss_last(const hri_linear_loss *z) {
    const int64_t rest = z->classes % z->width;
    return rest ? rest : z->width;
}

/* What is kept of the scores: (..., V), or (..., 0). */
static inline hr_meta hri_linear_loss_kept(const hr_meta *w, const hr_meta *ids, bool keep) {
    hr_meta kept = {HR_TYPE_F32, ids->shape};
    kept.shape.dim[kept.shape.rank++] = keep ? w->shape.dim[0] : 0;
    return kept;
}

/* The scores of `count` classes from v0 on, (N, count). */
static inline void hri_linear_loss_scores(const hri_linear_loss *z, hr_type type, const void *x,
                                          const void *w, int64_t v0, int64_t count, float *scores,
                                          hri_threads *threads, void *scratch) {
    const hri_gemm g = {
        .batch = 1,
        .m = z->rows,
        .n = count,
        .k = z->depth,
        .pack_a = hri_pack_a,
        .pack_b = hri_pack_b_t,
        .c_type = HR_TYPE_F32,
        .c = scores,
        .a = x,
        .b = (const char *)w + (size_t)(v0 * z->depth) * hr_type_bytes(type),
        .a_type = type,
        .b_type = type,
        .lda = z->depth,
        .ldb = z->depth,
    };
    hri_gemm_run(&g, threads, scratch);
}

#endif
