/* Choosing between candidates by a rule that no clock can sway, and keeping what was chosen for the next run.
 *
 * Two algorithms of a library differ in the order of their sums, and so in the last bits of what they give; which of two
 * is faster differs from run to run.  So times alone must not choose.  Instead, in a trial (device/gpu.h):
 *
 *   1. candidates stand in the order of the library's own guess, under limits that depend on the problem alone;
 *   2. operands are filled from the shape alone (tune.cu): once with numbers of many sizes, once so that the true result
 *      is zero and only each algorithm's own rounding is left;
 *   3. each candidate runs on both; those with the same digest of the result are a group; one that gives two digests for
 *      one operand is out;
 *   4. the group of the first candidate that runs is taken, and the fastest of the group.
 *
 * So bits follow the GPU's model and the versions of the libraries, never a clock, a load, a cache or free memory.  What
 * that costs is shown by bench/gpu --choices.
 *
 * A choice is a line of text: a key that names the problem, the library with its version and the GPU; a tag that names
 * the candidate; the digest of its group.  Choices live in the hri_gpu and in the file `choices-2` of its cache folder,
 * newest last; a damaged line is passed over.  Only files of this folder include it. */
#ifndef HRI_DEVICE_CUDA_GPU_TUNE_H
#define HRI_DEVICE_CUDA_GPU_TUNE_H

#include "device/cuda/gpu_state.h"

enum { HRI_GPU_KEY = 256, HRI_GPU_CANDIDATES = HRI_GPU_CONTEST_MOST };
/* How many are asked for: each that is tried leaves its code on the device, so they are few. */
uint32_t hri_gpu_candidates(const hri_gpu *gpu);

/* ---- gpu_choices.c ---- */

/* NULL: nothing was chosen for that key yet. */
const char *hri_gpu_choice_get(hri_gpu *gpu, const char *key);
/* Keeps it if that is possible; a choice that cannot be kept is made again. */
void hri_gpu_choice_put(hri_gpu *gpu, const char *key, const char *tag, hri_hash128 digest);
/* It runs: noted while hri_gpu_note says so. */
void hri_gpu_choice_used(hri_gpu *gpu, const char *key);
/* Reads the cache and the given file. */
HR_MUST_CHECK hr_status hri_gpu_choices_open(hri_gpu *gpu, const char *given, hri_prose *why);

/* ---- gpu_tune.c ---- */

/* The rule; tags (may be NULL) are for the report.  HR_E_UNSUPPORTED when all candidates failed, HR_E_BUSY outside a
 * trial and while a step is captured. */
HR_MUST_CHECK hr_status hri_gpu_pick(hri_gpu *gpu, const char *key, const hri_gpu_contest *contest,
                                     const char *const *tags, uint32_t *out, hri_hash128 *digest);

#endif
