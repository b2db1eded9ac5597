/* Between the files of fit.h: making and dropping a case. */
#ifndef HRI_TRAIN_FIT_INT_H
#define HRI_TRAIN_FIT_INT_H

#include "train/fit.h"

HR_MUST_CHECK hr_status hri_fit_case_open(const hri_fit_job *job, int64_t part, int slices,
                                          hri_fit_case **out, hri_prose *why);
/* NULL is allowed. */
void hri_fit_case_close(hri_fit_case *c);
/* GPU: runtime as it is now, and the floor that follows. */
void hri_fit_case_measure(const hri_fit_job *job, hri_fit_case *c);
/* What the whole of it takes with an arena of that size. */
uint64_t hri_fit_peak(const hri_fit_job *job, const hri_fit_case *c, uint64_t arena_bytes);
/* In whole pages of the job. */
uint64_t hri_fit_pages(const hri_fit_job *job, uint64_t bytes);

#endif
