/* The files that --html and --record ask for. */
#ifndef HRI_SEE_OUTPUTS_H
#define HRI_SEE_OUTPUTS_H

#include <headroom/plan.h>
#include "see/recording.h"

/* Either path may be NULL. */
HR_MUST_CHECK hr_status hri_see_write(const hri_recording *r, const char *html, const char *record,
                                      hri_prose *why);
/* The same of a plan that fits. */
HR_MUST_CHECK hr_status hri_see_write_plan(hr_plan *plan, const char *html, const char *record,
                                           hri_prose *why);

#endif
