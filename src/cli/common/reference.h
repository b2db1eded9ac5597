/* The reference pages: man pages in the man macros, and docs/commands.md, both printed from the tables. */
#ifndef HRI_CLI_REFERENCE_H
#define HRI_CLI_REFERENCE_H

#include "cli/common/command.h"

/* headroom(1) for NULL, else headroom-<name>(1). */
void hri_reference_man(hri_out *out, const hri_command *command);
/* The whole of docs/commands.md. */
void hri_reference_markdown(hri_out *out);

#endif
