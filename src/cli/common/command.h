/* A command: one file src/cli/<name>.c with one `const hri_command hri_command_<name>`; the build lists the folder.  The
 * descriptor is manual/manual.h's.  A '-' in a command's name is a '_' in the name of its file. */
#ifndef HRI_CLI_COMMAND_H
#define HRI_CLI_COMMAND_H

#include "cli/common/cli.h"
#include "manual/manual.h"

enum { HRI_OPTIONS_BYTES = 1024 }; /* the most that options_bytes may be */

/* Written by the build from the folder listing; ends with NULL. */
extern const hri_command *const hri_commands[];
/* What help, man pages and completions are printed from. */
extern const hri_manual hri_program_manual;

/* NULL when there is none. */
const hri_command *hri_command_find(const char *name);
/* Says on stderr that there is no such command, with the nearest one; returns HRI_EXIT_USAGE. */
int hri_command_unknown(hri_cli *cli, const char *name);

#endif
