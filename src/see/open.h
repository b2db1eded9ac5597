/* Opening whatever a user wants to look at: a recording, a PyTorch memory snapshot, an XLA buffer assignment. */
#ifndef HRI_SEE_OPEN_H
#define HRI_SEE_OPEN_H

#include "see/recording.h"

/* By its content, not by its name.  HR_E_FORMAT with what it could have been; the sentence starts with the path. */
HR_MUST_CHECK hr_status hri_see_open(const char *path, hri_recording *out, hri_prose *why);

#endif
