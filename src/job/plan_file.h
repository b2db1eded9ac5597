/* Plans in files: saved, and read and checked again.
 *
 * A file names what it was made for (model, batch, options, size of the parts) and holds one plan for each graph, with
 * the times it was made with, since they are part of the problem.  Reading builds the graphs anew and passes every plan
 * through the checker: a file is trusted in nothing. */
#ifndef HRI_JOB_PLAN_FILE_H
#define HRI_JOB_PLAN_FILE_H

#include "job/plan_job.h"

/* The text of a file; hri_free() it. */
HR_MUST_CHECK hr_status hri_plan_file_print(const hri_plan_job *job, const hri_fit_plans *plans,
                                            const hri_plan *plan, char **out, hri_prose *why);
/* The plans of a text, for a model. */
HR_MUST_CHECK hr_status hri_plan_file_parse(hri_plan_job *job, const char *text, size_t bytes,
                                            hri_fit_plans *plans, hri_prose *why);
HR_MUST_CHECK hr_status hri_plan_file_save(const hri_plan_job *job, const hri_fit_plans *plans,
                                           const hri_plan *plan, const char *path, hri_prose *why);
/* plans is filled for a model, plan for a problem.  HR_E_INVALID when it was made for something else, or when the
 * checker refuses it. */
HR_MUST_CHECK hr_status hri_plan_file_load(hri_plan_job *job, const char *path,
                                           hri_fit_plans *plans, hri_plan **plan, hri_prose *why);

#endif
