/* Allocations of other programs, as `headroom run --record` writes them (interpose/record.h): a recording of events.
 *
 * A file of a program that was killed ends anywhere: what it has is read.  Lines that make no sense are passed over. */
#ifndef HRI_SEE_ALLOCATIONS_H
#define HRI_SEE_ALLOCATIONS_H

#include <stddef.h>
#include "see/recording.h"

bool hri_allocations_is(const void *bytes, size_t count);
/* Finished, or *out untouched.  HR_E_FORMAT when there is no allocation in it. */
HR_MUST_CHECK hr_status hri_allocations_decode(const char *text, size_t count, hri_recording *out,
                                               hri_prose *why);

#endif
