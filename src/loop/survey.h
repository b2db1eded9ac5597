/* What is learnt from the training samples before training: means and deviations of the columns of a table.
 *
 * The one idea: a pass over exactly the samples that are trained on, so that nothing of the held-out ones gets into a
 * number that training uses.  Sums are double, in the order of the samples: the same table on every machine. */
#ifndef HRI_LOOP_SURVEY_H
#define HRI_LOOP_SURVEY_H

#include "loop/source.h"

/* Gives every sample of the pipeline `text` to fn, once; samples that cannot be read are left out.  What fn says in *why stands;
 * the failures of the pipeline get its own sentence.  table: of a source of columns; NULL: none. */
HR_MUST_CHECK hr_status hri_survey_each(const char *text, const hri_tabular *table,
                                        hr_element_fn *fn, void *user, hri_prose *why);
/* Fills mean and std of the numbers of s->table, and marks it as fitted.  `text` is the pipeline of the training samples
 * without further stages.  HR_E_INVALID for a column that has no number there.  On failure the table is as it was. */
HR_MUST_CHECK hr_status hri_survey_table(const char *text, hri_source *s, int scale_targets,
                                         hri_prose *why);

#endif
