/* A file as the other memory of a plan: values that wait on a disk.
 *
 * The file lies in a folder of the user's, has no name there (it is gone when the process is, whatever it dies of), and
 * has all its bytes promised by the file system before the first step, so a full disk is told when memory is taken and
 * not in the middle of a training.  What is written goes through the page cache, which the kernel gives up when memory is
 * short: none of it is in the resident set of the process.
 *
 * Left out on purpose: O_DIRECT (alignment rules that differ by file system), syncing (nobody reads it later).
 *
 * Threads: one at a time. */
#ifndef HRI_RUN_SPILL_H
#define HRI_RUN_SPILL_H

#include <stdint.h>
#include <headroom/status.h>
#include "base/prose.h"

typedef struct hri_spill hri_spill;

/* Makes the file, empty.  HR_E_NOT_FOUND when the folder is not there, HR_E_IO for other refusals, with a sentence. */
HR_MUST_CHECK hr_status hri_spill_open(const char *folder, hri_spill **out, hri_prose *why);
/* NULL is allowed. */
void hri_spill_close(hri_spill *s);
/* Takes so many bytes of the disk; again is allowed.  HR_E_IO with the bytes when the disk has not got them. */
HR_MUST_CHECK hr_status hri_spill_take(hri_spill *s, uint64_t bytes, hri_prose *why);

HR_MUST_CHECK hr_status hri_spill_write(hri_spill *s, uint64_t at, const void *from,
                                        uint64_t bytes);
HR_MUST_CHECK hr_status hri_spill_read(hri_spill *s, uint64_t at, void *to, uint64_t bytes);

#endif
