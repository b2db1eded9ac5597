/* Adapters put into the weights they belong to: W + (alpha / rank) B A, a file of the model without adapters. */
#ifndef HRI_WEIGHTS_MERGE_H
#define HRI_WEIGHTS_MERGE_H

#include "weights/checkpoint.h"

typedef struct hri_merge_report {
    uint64_t layers;     /* whose weights were changed */
    uint64_t parameters; /* of the model */
    uint64_t bytes;      /* of its tensors */
} hri_merge_report;

/* Reads c, a checkpoint with the pass lora, and writes a checkpoint of weights alone.  Sums are computed in double and
 * rounded to f32 once.  HR_E_INVALID when c has no adapters; what is missing or of another shape is named, and nothing is
 * written then. */
HR_MUST_CHECK hr_status hri_checkpoint_merge(const hri_checkpoint *c, const char *path,
                                             hri_merge_report *out, hri_prose *why);

#endif
