/* A file of a checkpoint whose linear layers have weights of 8 or 4 bits; everything else stays as it is.
 *
 * The file is a checkpoint with the pass `weights` over its model, so evaluation, prediction and generation take it as any
 * other.  One layer is in memory at a time; no data is needed. */
#ifndef HRI_WEIGHTS_WEIGHT_CODES_H
#define HRI_WEIGHTS_WEIGHT_CODES_H

#include "weights/quantize.h"

/* Writes `path`.  text: the pass, "weights:bits=4,group=64".  g: the evaluation graph before it (hri_quantize_graph with ""). */
HR_MUST_CHECK hr_status hri_checkpoint_weight_codes(const hri_checkpoint *c, const hr_graph *g,
                                                    const char *text, const char *path,
                                                    hri_quantize_report *out, hri_prose *why);

#endif
