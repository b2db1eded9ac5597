/* headroom help: the list of commands, or one command in full. */
#include "cli/common/command.h"

static int run(hri_cli *cli, const void *options, int count, const char *const *arguments) {
    (void)options;
    if (count == 0) {
        hri_help_program(&hri_program_manual, &cli->out, &cli->out_term);
        return HRI_EXIT_YES;
    }
    const hri_command *command = hri_command_find(arguments[0]);
    if (!command) {
        return hri_command_unknown(cli, arguments[0]);
    }
    hri_help_command(&hri_program_manual, command, &cli->out, &cli->out_term);
    return HRI_EXIT_YES;
}

const hri_command hri_command_help = {
    .name = "help",
    .summary = "show help for a command",
    .arguments = "[COMMAND]",
    .choices = "@commands",
    .arguments_max = 1,
    .help = "Without a command it lists all commands and the common options. \"headroom COMMAND "
            "--help\" prints the same as \"headroom help COMMAND\".",
    .examples = {{"headroom help", "the list of commands"},
                 {"headroom help devices", "one command in full"}},
    .run = run,
};
