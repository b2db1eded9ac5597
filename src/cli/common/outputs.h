/* Places that a command will write to, looked at before it begins (job/outputs.h), for a command: the reason is said. */
#ifndef HRI_CLI_OUTPUTS_H
#define HRI_CLI_OUTPUTS_H

#include "cli/common/cli.h"
#include "job/outputs.h"

/* Can `path` be written?  An exit code, after the reason was said.  NULL is allowed: nothing is written. */
int hri_cli_output_check(hri_cli *cli, const char *flag, const char *path, hri_output_kind kind);

#endif
