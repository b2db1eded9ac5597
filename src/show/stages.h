/* The list of pipeline stages for people, from the stages' own descriptors. */
#ifndef HRI_SHOW_STAGES_H
#define HRI_SHOW_STAGES_H

#include "show/show.h"

/* All of them, a line each. */
HR_MUST_CHECK hr_status hri_stages_show(hri_out *out, const hri_term *term);
/* One with its options.  HR_E_NOT_FOUND: there is none of that name. */
HR_MUST_CHECK hr_status hri_stage_show(const char *name, hri_out *out, const hri_term *term);

#endif
