/* The list of pipeline stages for people, from the stages' own descriptors. */
#ifndef HRI_CLI_STAGES_H
#define HRI_CLI_STAGES_H

#include "cli/common/cli.h"

/* All of them, a line each; or those named, with their options.  Returns an exit code. */
int hri_stages_print(hri_cli *cli, int count, const char *const *names);

#endif
