/* How much each class counts in the loss of a training: from the data, or from a file.
 *
 *   auto    all labels / (classes * labels of this class): every class counts the same in all, and the mean over the data
 *           is 1, so that losses and learning rates stay what they were
 *   FILE    a line per class: a weight, in the order of the classes, or NAME,WEIGHT in any order */
#ifndef HRI_LOOP_CLASS_WEIGHTS_H
#define HRI_LOOP_CLASS_WEIGHTS_H

#include "loop/source.h"

/* Reads every sample that the pipeline `text` gives, once.  out has room for `classes` numbers.  HR_E_INVALID for a class
 * that has no samples; labels below 0 do not count. */
HR_MUST_CHECK hr_status hri_class_weights_count(const char *text, const hri_source *s,
                                                int64_t classes, float *out, hri_prose *why);
/* HR_E_FORMAT with file and line; HR_E_NOT_FOUND without such a file. */
HR_MUST_CHECK hr_status hri_class_weights_read(const char *path, const hri_source *s,
                                               int64_t classes, float *out, hri_prose *why);

#endif
