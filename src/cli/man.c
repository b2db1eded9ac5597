/* headroom man: the reference pages, for the build and for machines without them.
 *
 * The build runs `headroom man --dir DIR` once and installs what it wrote; docs/commands.md is
 * `headroom man --markdown`. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "cli/common/command.h"

typedef struct man_options {
    const char *dir;
    bool markdown;
} man_options;

static const hri_field fields[] = {
    {"dir", "write headroom.1 and one page per command into this directory",
     offsetof(man_options, dir), HRI_FIELD_STRING, NULL, .metavar = "DIR"},
    {"markdown", "print docs/commands.md instead", offsetof(man_options, markdown), HRI_FIELD_BOOL,
     .value = NULL},
    {0},
};

static int write_page(hri_cli *cli, const char *dir, const hri_command *command) {
    char path[4096];
    snprintf(path, sizeof path, "%s/headroom%s%s.1", dir, command ? "-" : "",
             command ? command->name : "");
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    hri_out page;
    hri_out_init(&page, fd);
    if (fd >= 0) {
        hri_man_page(&hri_program_manual, command, &page);
        hri_out_flush(&page);
    } else {
        page.error = errno;
    }
    if (fd >= 0 && close(fd) != 0 && !page.error) {
        page.error = errno;
    }
    if (page.error) {
        hri_say_error(cli, "cannot write %s: %s", path, strerror(page.error));
        return HRI_EXIT_FAULT;
    }
    return HRI_EXIT_YES;
}

static int write_all_pages(hri_cli *cli, const char *dir) {
    int code = write_page(cli, dir, NULL);
    for (size_t i = 0; code == HRI_EXIT_YES && hri_commands[i]; i++) {
        if (!hri_commands[i]->hidden) {
            code = write_page(cli, dir, hri_commands[i]);
        }
    }
    return code;
}

static int run(hri_cli *cli, const void *options, int count, const char *const *arguments) {
    const man_options *o = options;
    if ((o->dir != NULL) + o->markdown + (count > 0) > 1) {
        hri_say_error(cli, "man: --dir, --markdown and a command cannot be combined");
        return HRI_EXIT_USAGE;
    }
    if (o->dir) {
        return write_all_pages(cli, o->dir);
    }
    if (o->markdown) {
        hri_markdown_page(&hri_program_manual, &cli->out);
        return HRI_EXIT_YES;
    }
    const hri_command *command = count ? hri_command_find(arguments[0]) : NULL;
    if (count && !command) {
        return hri_command_unknown(cli, arguments[0]);
    }
    hri_man_page(&hri_program_manual, command, &cli->out);
    return HRI_EXIT_YES;
}

const hri_command hri_command_man = {
    .name = "man",
    .summary = "print the man page of the program or of a command",
    .arguments = "[COMMAND]",
    .choices = "@commands",
    .arguments_max = 1,
    .help = "The pages are generated from the program's own option tables.",
    .examples = {{"headroom man devices | man -l -", "read a page without installing it"},
                 {"headroom man --markdown > docs/commands.md", "rewrite the reference page"}},
    .fields = fields,
    .options_bytes = sizeof(man_options),
    .hidden = 1,
    .run = run,
};
