/* What `headroom shrink` says. */
#ifndef HRI_SHOW_SHRINK_H
#define HRI_SHOW_SHRINK_H

#include "job/shrink.h"
#include "show/show.h"

extern const char hri_shrink_help[];

HR_MUST_CHECK hr_status hri_shrink_show(const hri_shrink_job *job, const hri_shrink_result *r,
                                        hri_out *out, const hri_term *term);
void hri_shrink_json(const hri_shrink_job *job, const hri_shrink_result *r, hri_json *json);

#endif
