/* The checks of hr_doctor: things really tried, each with a result and a sentence.
 *
 * A check leaves the machine as it found it.  One that makes no sense here (a copy on a null device) is skipped with the
 * reason. */
#ifndef HRI_JOB_DOCTOR_H
#define HRI_JOB_DOCTOR_H

#include <headroom/headroom.h>
#include "base/arena.h"
#include "base/vector.h"

HRI_VECTOR(hri_check_list, hr_check)
HRI_VECTOR(hri_component_list, hr_component)

struct hr_doctor {
    hri_arena texts;
    hri_check_list checks;
    hri_component_list components;
    hr_status status; /* HR_E_NOMEM_HOST when something could not be kept */
};

void hri_doctor_check(hr_doctor *d, const char *subject, const char *name, hr_check_result result,
                      const char *format, ...) HR_PRINTF(5, 6);

/* Maps a page, copies and compares, asks for pinned memory; on the host, its total must not exceed what the cgroup
 * grants. */
void hri_doctor_check_device(hr_doctor *d, hr_ctx *ctx, hr_device *device);
/* Makes, writes, reads and removes a file there. */
void hri_doctor_check_cache(hr_doctor *d, const char *path);

#endif
