/* Places that a job will write to, looked at before it begins: a minute of planning for a file that cannot be written is a
 * minute lost.
 *
 * Nothing is made or changed.  Whatever can still go wrong later (the disk fills up, somebody takes the right away) is an
 * error of the write that meets it. */
#ifndef HRI_JOB_OUTPUTS_H
#define HRI_JOB_OUTPUTS_H

#include "job/why.h"

typedef enum hri_output_kind {
    HRI_OUTPUT_FILE,        /* in a folder that is there */
    HRI_OUTPUT_FILE_DEEPER, /* folders that are missing are made */
    HRI_OUTPUT_FOLDER       /* made with those above it */
} hri_output_kind;

/* Can `path` be written?  NULL is allowed: nothing is written. */
HR_MUST_CHECK hr_status hri_output_check(hri_why *why, const char *option, const char *path,
                                         hri_output_kind kind);
/* Has the disk behind `path` (which need not be there yet) so many bytes for `what`?  `instead` is what to do else. */
HR_MUST_CHECK hr_status hri_output_room(hri_why *why, const char *path, uint64_t bytes,
                                        const char *what, const char *instead);

#endif
