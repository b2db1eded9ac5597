/* What stands behind the public door (headroom/run.h), for those inside who feed and load value by value. */
#ifndef HRI_FIT_RUN_INT_H
#define HRI_FIT_RUN_INT_H

#include <headroom/run.h>
#include "run/execute.h"

/* NULL when there is no such graph. */
hri_exec *hri_run_exec(hr_run *run, size_t graph);
/* hr_run_step for whoever puts inputs through that executor, and so answers for them. */
HR_MUST_CHECK hr_status hri_run_fed(hr_run *run, size_t graph);

#endif
