/* A PyTorch memory snapshot (torch.cuda.memory._dump_snapshot) as a recording: an op per event, a buffer per allocation. */
#ifndef HRI_SEE_TORCH_H
#define HRI_SEE_TORCH_H

#include "see/recording.h"

/* 1 when the bytes begin like a pickle. */
bool hri_torch_is(const void *bytes, size_t count);
/* Finished, or *out untouched.  The device with the most events.  What was allocated before the history began lives from its start;
 * addresses are packed, with segments kept apart.  HR_E_FORMAT for a pickle of something else. */
HR_MUST_CHECK hr_status hri_torch_decode(const void *bytes, size_t count, hri_recording *out,
                                         hri_prose *why);

#endif
