/* A quantized file of a checkpoint: batch norms folded, weights of i8 with a scale for each output, ranges of activations.
 *
 * The file is a checkpoint with the pass `quantize` over its model, so evaluation and prediction take it as any other. */
#ifndef HRI_WEIGHTS_QUANTIZE_H
#define HRI_WEIGHTS_QUANTIZE_H

#include "passes/common/quantizing.h"
#include "passes/common/threshold.h"
#include "weights/checkpoint.h"

typedef struct hri_quantize_report {
    uint64_t layers;              /* that compute in bytes, or that batch norms were folded into */
    uint64_t real_layers;         /* convolutions and linear layers that stay as they are */
    uint64_t bytes, bytes_before; /* of the tensors of a model */
} hri_quantize_report;

/* The evaluation graph that passes of the checkpoint make, for a batch of 1; hr_graph_destroy() it. */
HR_MUST_CHECK hr_status hri_quantize_graph(const hri_checkpoint *c, const char *more,
                                           hr_graph **out, hri_prose *why);
/* Writes `path`.  ranges: by value of q->g that has one of its own; NULL with `to` fold.  HR_E_FORMAT, HR_E_NOT_FOUND: the
 * checkpoint, and nothing is written. */
HR_MUST_CHECK hr_status hri_checkpoint_quantize(const hri_checkpoint *c, const hri_quantizing *q,
                                                hri_quantize_to to, const hri_range *ranges,
                                                const char *path, hri_quantize_report *out,
                                                hri_prose *why);

#endif
