/* The files that --html, --record, --trace, --csv and --tensorboard ask for. */
#ifndef HRI_SEE_OUTPUTS_H
#define HRI_SEE_OUTPUTS_H

#include <headroom/plan.h>
#include "job/why.h"
#include "see/recording.h"

/* Paths; NULL: not wanted. */
typedef struct hri_see_outputs {
    const char *html, *record, *trace; /* files */
    const char *csv, *tensorboard;     /* folders */
} hri_see_outputs;

/* Can they be written?  Nothing is. */
HR_MUST_CHECK hr_status hri_see_outputs_check(const hri_see_outputs *o, hri_why *why);
HR_MUST_CHECK hr_status hri_see_write(const hri_recording *r, const hri_see_outputs *o,
                                      hri_prose *why);
/* The same of a plan that fits. */
HR_MUST_CHECK hr_status hri_see_write_plan(hr_plan *plan, const hri_see_outputs *o, hri_prose *why);

#endif
