/* What the optimizer updates share.
 *
 * Inputs are (w, g, scalars..., states... [, factor]); outputs are the new w and the new states, which lie over the old
 * ones.  w, g and the states have one shape; each may have a real type of its own, and the arithmetic is f32.  Scalars
 * are f32: the learning rate first, so that a schedule needs no new graph.
 *
 * `factor` multiplies every gradient: clipping, the loss scale.  A factor of 0, or one that is not finite, means "skip
 * this step": nothing is touched. */
#ifndef HRI_OPS_COMMON_UPDATE_H
#define HRI_OPS_COMMON_UPDATE_H

#include "graph/op.h"

enum { HRI_UPDATE_BLOCK = 1024, HRI_UPDATE_STATES = 2 };

typedef struct hri_update {
    const void *attr;
    float rate;
    float scalar; /* the second one, where there is one */
    float factor; /* 1 when the input is left out */
} hri_update;

/* One block: updates w[0..n) and the states in place; the gradient is u->factor * g[i]. */
typedef void hri_update_fn(const hri_update *u, uint64_t n, float *w, const float *g, float *s0,
                           float *s1);

/* The host kernel of an op with so many scalars and states. */
HR_MUST_CHECK hr_status hri_update_run(const hri_call *c, uint32_t scalars, uint32_t states,
                                       hri_update_fn *fn);
/* The shape rule; sets all outputs. */
HR_MUST_CHECK hr_status hri_update_infer(hri_infer *c, uint32_t scalars, uint32_t states);

/* `flops` an element of w. */
static inline void hri_update_cost(const hri_sig *s, hri_cost *cost, double flops) {
    cost->flops = flops * (double)hr_shape_count(&s->in[0].shape);
}

#endif
