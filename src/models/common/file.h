/* Model files: the graphs of a model for training and evaluation as text, for any batch (docs/graph-format.md).
 *
 *   headroom model 1
 *   name "lenet"
 *   classes 10
 *   form train
 *   %1 = input "image" f32[N,28,28,1]
 *   ...
 *   form eval
 *   ...
 *
 * The text stays in memory and is read anew for each graph that is built: nothing is executed, and what a line can do is
 * what graph/text.h says. */
#ifndef HRI_MODELS_COMMON_FILE_H
#define HRI_MODELS_COMMON_FILE_H

#include "models/common/model.h"

enum { HRI_MODEL_FILE_BYTES = 16 << 20 }; /* the longest that is read */

/* 1 when a model's text is a path, not a name. */
int hri_model_file_is(const char *text);
/* Fills the model; everything in it is checked by building it.  On failure hr_model_close takes it apart, and
 * the sentence begins with the path. */
HR_MUST_CHECK hr_status hri_model_file_open(const char *path, hr_model *m, hri_prose *why);
/* The same from memory, without the check by building. */
HR_MUST_CHECK hr_status hri_model_file_parse(const char *text, size_t bytes, hr_model *m,
                                             hri_prose *why);
/* The model as such a text; hri_free() it. */
HR_MUST_CHECK hr_status hri_model_file_print(const hr_model *m, char **out, size_t *out_bytes,
                                             hri_prose *why);
void hri_model_file_close(hri_model_file *file);
HR_MUST_CHECK hr_status hri_model_file_build(const hri_model_file *file, hr_graph *g, int64_t batch,
                                             int training);
/* Builds the model for several batches and compares what must not depend on them (model.c). */
HR_MUST_CHECK hr_status hri_model_check(hr_model *m, hri_prose *why);

#endif
