/* headroom completion: completion scripts for bash and zsh (manual/completion.c). */
#include <string.h>
#include "cli/common/command.h"

static int run(hri_cli *cli, const void *options, int count, const char *const *arguments) {
    (void)options;
    (void)count;
    if (!strcmp(arguments[0], "bash")) {
        hri_completion_bash(&hri_program_manual, &cli->out);
    } else if (!strcmp(arguments[0], "zsh")) {
        hri_completion_zsh(&hri_program_manual, &cli->out);
    } else {
        hri_say_error(cli, "completion: \"%s\" is not supported; use bash or zsh", arguments[0]);
        return HRI_EXIT_USAGE;
    }
    return HRI_EXIT_YES;
}

const hri_command hri_command_completion = {
    .name = "completion",
    .summary = "print a completion script for bash or zsh",
    .arguments = "bash|zsh",
    .choices = "bash zsh",
    .arguments_min = 1,
    .arguments_max = 1,
    .help = "The script is generated from the program's own option tables. An installed Headroom "
            "includes it; this command is for one that is not installed.",
    .examples = {{"source <(headroom completion bash)", "for this shell"},
                 {"headroom completion zsh > ~/.zfunc/_headroom",
                  "for every zsh, if ~/.zfunc is in fpath"}},
    .run = run,
};
