/* What stands behind the public door (headroom/run.h), for those inside who feed and load value by value. */
#ifndef HRI_FIT_RUN_INT_H
#define HRI_FIT_RUN_INT_H

#include <headroom/run.h>
#include "run/execute.h"

/* As hr_run_open with a budget of which so many bytes are for something else.  why->wanted_bytes: the minimum, those
 * included, of HR_E_NO_PLAN. */
HR_MUST_CHECK hr_status hri_run_open_beside(const hr_run_options *options, uint64_t beside_bytes,
                                            hr_run **out, hr_error *why);
/* NULL when there is no such graph. */
hri_exec *hri_run_exec(hr_run *run, size_t graph);
/* hr_run_step for whoever puts inputs through that executor, and so answers for them. */
HR_MUST_CHECK hr_status hri_run_fed(hr_run *run, size_t graph);

#endif
