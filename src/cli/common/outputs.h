/* Places that a command will write to, looked at before it begins: a minute of planning for a file that cannot be written
 * is a minute lost.
 *
 * Nothing is made or changed.  Whatever can still go wrong later (the disk fills up, somebody takes the right away) is an
 * error of the write that meets it. */
#ifndef HRI_CLI_OUTPUTS_H
#define HRI_CLI_OUTPUTS_H

#include "cli/common/cli.h"

typedef enum hri_output_kind {
    HRI_OUTPUT_FILE,        /* in a folder that is there */
    HRI_OUTPUT_FILE_DEEPER, /* folders that are missing are made */
    HRI_OUTPUT_FOLDER       /* made with those above it */
} hri_output_kind;

/* Can `path` be written?  An exit code, after the reason was said.  NULL is allowed: nothing is written. */
int hri_output_check(hri_cli *cli, const char *flag, const char *path, hri_output_kind kind);
/* Has the disk behind `path` (which need not be there yet) so many bytes for `what`?  `instead` is what to type else. */
int hri_output_room(hri_cli *cli, const char *path, uint64_t bytes, const char *what,
                    const char *instead);

#endif
