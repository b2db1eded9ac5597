/* An XLA buffer assignment (XLA_FLAGS=--xla_dump_to=DIR, *buffer-assignment.txt) as a recording: an op per instruction, a buffer per
 * value.  Lifetimes stand behind it in the same file, or in *live-range.txt beside it, which is given as a second text. */
#ifndef HRI_SEE_XLA_H
#define HRI_SEE_XLA_H

#include "see/recording.h"

bool hri_xla_is(const void *bytes, size_t count);
/* Finished, or *out untouched.  `ranges` may be NULL; values whose lifetime nobody tells live all the time, and the note says so. */
HR_MUST_CHECK hr_status hri_xla_decode(const char *bytes, size_t count, const char *ranges,
                                       size_t range_count, hri_recording *out, hri_prose *why);

#endif
