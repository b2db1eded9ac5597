/* Softmax and log-softmax along one dimension, and their gradients from the output.
 *
 *   x (outer, L, inner), sums over L;  softmax: dx = y (dy - sum y dy);  log: dx = dy - exp(y) sum dy
 *
 * With inner 1 a row is summed in lanes; otherwise a tile of neighbouring columns goes down together.  Every output may
 * lie over an input of its type. */
#ifndef HRI_OPS_COMMON_SOFTMAX_H
#define HRI_OPS_COMMON_SOFTMAX_H

#include "graph/op.h"

typedef struct hri_softmax_attr {
    int64_t axis;
} hri_softmax_attr;

extern const hri_field hri_softmax_fields[];

HR_MUST_CHECK hr_status hri_softmax_infer(hri_infer *c); /* all inputs of one meta; axis in range */
hri_samples hri_softmax_samples(const hri_sig *s, uint32_t batched);
void hri_softmax_cost(const hri_sig *s, hri_cost *cost);
hr_status hri_softmax_run(const hri_call *c, int logs);
/* Inputs dy, y. */
hr_status hri_softmax_grad_run(const hri_call *c, int logs);
/* The same on a GPU. */
hr_status hri_softmax_cuda(const hri_gpu_call *c, int logs);
hr_status hri_softmax_grad_cuda(const hri_gpu_call *c, int logs);

#endif
