/* How linear_cross_entropy_train cuts the scores s = x w^T (N, V): by rows.
 *
 * All classes of some rows at a time: their loss is complete, the gradient of their scores takes the place of the scores,
 * and so does their part of dx; only dw (V, C) is a sum over cuts, in order, in f32.  Three products in all, where a cut by
 * classes (linear_loss.h) needs four or the memory of all scores.
 *
 * The cut depends on the shape alone: an eighth of the rows, at least as many as fill the machine, and at most so many
 * that the scores stay within a limit. */
#ifndef HRI_OPS_COMMON_LINEAR_LOSS_TRAIN_H
#define HRI_OPS_COMMON_LINEAR_LOSS_TRAIN_H

#include "ops/common/linear_loss.h"

typedef struct hri_linear_train_attr {
    double smoothing;
    bool sum, frozen;
} hri_linear_train_attr;

typedef struct hri_linear_train {
    int64_t rows, depth, classes; /* N, C, V */
    int64_t cut;                  /* rows of a cut, but for the last */
    hr_type type, ids;
} hri_linear_train;

enum { HRI_LINEAR_TRAIN_CUTS = 8 };

/* `least` rows fill the machine, a cut is a multiple of `tile`, `most` numbers of scores in rows that are filled up to
 * multiples of `pad`; `cuts` of them where nothing else says how many. */
static inline hri_linear_train hri_linear_train_of(const hri_sig *s, int64_t least, int64_t tile,
                                                   int64_t most, int64_t pad, int64_t cuts) {
    hri_linear_train z = {.rows = hr_shape_count(&s->in[2].shape),
                          .depth = s->in[1].shape.dim[1],
                          .classes = s->in[1].shape.dim[0],
                          .type = s->in[0].type,
                          .ids = s->in[2].type};
    const int64_t width = (z.classes + pad - 1) / pad * pad;
    const int64_t part = (z.rows / cuts + tile - 1) / tile * tile;
    const int64_t limit = hri_max64(most / width / tile * tile, tile);
    z.cut = hri_min64(z.rows, hri_min64(hri_max64(part, least), limit));
    return z;
}

/* Rows of the last cut: its products are others, and may want more scratch. */
static inline int64_t hri_linear_train_last(const hri_linear_train *z) {
    const int64_t rest = z->cut ? z->rows % z->cut : 0;
    return rest ? rest : z->cut;
}

hr_status hri_linear_train_cuda(const hri_gpu_call *c);
uint64_t hri_linear_train_cuda_workspace(const hri_sig *s, hri_gpu *gpu, uint32_t variant);

#endif
