/* A command: one file src/cli/<name>.c with one `const hri_command hri_command_<name>`; the build lists the folder.
 *
 * The one idea: what a command can do is written once.  The same descriptor is what the parser obeys and what --help,
 * the man pages, docs/commands.md and the shells' completions are printed from, so none of them can be stale.
 *
 * A '-' in a command's name is a '_' in the name of its file. */
#ifndef HRI_CLI_COMMAND_H
#define HRI_CLI_COMMAND_H

#include <stddef.h>
#include "base/options.h"
#include "cli/common/cli.h"

typedef struct hri_example {
    const char *command; /* as typed, "headroom" in front */
    const char *text;    /* what it does, lower case, no full stop */
} hri_example;

enum { HRI_EXAMPLES = 4, HRI_OPTIONS_BYTES = 1024 };

typedef struct hri_command {
    const char *name;
    const char *summary;   /* one line, lower case, no full stop */
    const char *arguments; /* "[COMMAND]"; "" for none */
    const char
        *choices; /* words that the argument may be, with spaces between; "" any; "@commands" */
    int arguments_min, arguments_max;
    const char *help; /* paragraphs with an empty line between; '\n' elsewhere is only a space */
    hri_example examples[HRI_EXAMPLES];
    const hri_field *fields; /* the options, over a struct of options_bytes; NULL: none */
    size_t options_bytes;    /* at most HRI_OPTIONS_BYTES */
    int hidden;              /* works, but is not shown in the list */
    /* After parsing: brings different ways to say one thing to one form.  NULL: there are none. */
    hr_status (*settle)(hri_options *o, hri_prose *why);
    /* options points at the parsed struct; arguments[0..count) are the positional ones.  Returns an exit code. */
    int (*run)(hri_cli *cli, const void *options, int count, const char *const *arguments);
} hri_command;

enum { HRI_ARGUMENTS_MAX = 64 };

/* Written by the build from the folder listing; ends with NULL. */
extern const hri_command *const hri_commands[];

/* NULL when there is none. */
const hri_command *hri_command_find(const char *name);
/* Says on stderr that there is no such command, with the nearest one; returns HRI_EXIT_USAGE. */
int hri_command_unknown(hri_cli *cli, const char *name);

#endif
