/* What the optimizer updates share: blocks of f32, whatever the stored types.
 *
 * A block of each input is converted to f32 on the stack, worked on, and stored in its type.  Inputs are
 * (w, g, rate, states...); outputs are the new w and the new states, which lie over the old ones. */
#ifndef HRI_OPS_COMMON_UPDATE_H
#define HRI_OPS_COMMON_UPDATE_H

#include "graph/op.h"

enum { HRI_UPDATE_BLOCK = 512, HRI_UPDATE_IN = 6 };

typedef struct hri_update_block {
    uint64_t count;
    float *x[HRI_UPDATE_IN]; /* by input; of scalars nothing */
    float room[HRI_UPDATE_IN][HRI_UPDATE_BLOCK];
} hri_update_block;

/* Inputs [i, end) or one block of them, for the first `in` inputs that are not scalars. */
void hri_update_load(hri_update_block *b, const hri_call *c, uint32_t in, uint64_t i, uint64_t end);
/* x[0..out) to outputs 0..out-1: the caller puts the new states behind the new weights. */
void hri_update_store(const hri_update_block *b, const hri_call *c, uint32_t out, uint64_t i);
/* w, g and states of one shape, scalars f32: inputs scalar0 .. scalar0 + scalars - 1; sets out 0. */
HR_MUST_CHECK hr_status hri_update_infer(hri_infer *c, uint32_t count, uint32_t scalars,
                                         uint32_t scalar0);

#endif
