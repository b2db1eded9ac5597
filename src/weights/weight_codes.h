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
/* The f32 weight v of g out of the codes of c, in the layout of g, all of it; hri_free() it.  HR_E_NOT_FOUND: c has no codes of
 * it, and `why` is left alone; HR_E_FORMAT: they have another form. */
HR_MUST_CHECK hr_status hri_checkpoint_decode_weight(const hri_checkpoint *c, const hr_graph *g,
                                                     hr_value v, float **out, hri_prose *why);
/* Does c have codes of it, in the form that the pass of c says?  Statuses as above. */
HR_MUST_CHECK hr_status hri_checkpoint_check_codes(const hri_checkpoint *c, const hr_graph *g,
                                                   hr_value v, hri_prose *why);

#endif
