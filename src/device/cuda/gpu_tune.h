/* Choosing between candidates by their time, and keeping what was chosen for the next run.
 *
 * A choice is a line of text: a key that names the problem, the library with its version and the GPU, and a tag that
 * names the candidate.  Choices live in the hri_gpu and in the file `choices` of its cache folder, one line each, newest
 * last; a damaged line is passed over.  So a plan that is made again finds the same algorithms, which keeps its results
 * the same to the last bit.  Only files of this folder include it. */
#ifndef HRI_DEVICE_CUDA_GPU_TUNE_H
#define HRI_DEVICE_CUDA_GPU_TUNE_H

#include "device/cuda/gpu_state.h"

/* Each candidate that is tried leaves its code on the device, so they are few. */
enum { HRI_GPU_KEY = 256, HRI_GPU_CANDIDATES = 6 };

/* NULL: nothing was chosen for that key yet. */
const char *hri_gpu_choice_get(hri_gpu *gpu, const char *key);
/* Keeps it if that is possible; a choice that cannot be kept is made again. */
void hri_gpu_choice_put(hri_gpu *gpu, const char *key, const char *tag);

/* The candidate with the least time; each runs a few times, so `run` must leave what it reads as it was.  A candidate
 * that fails is left out; HR_E_UNSUPPORTED when all did.  Not while a step is captured. */
HR_MUST_CHECK hr_status hri_gpu_fastest(hri_gpu *gpu, uint32_t count, hri_gpu_try_fn *run,
                                        void *user, uint32_t *out);

#endif
