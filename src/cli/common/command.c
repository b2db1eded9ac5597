/* Commands by name. */
#include "cli/common/command.h"

#include <string.h>
#include "base/nearest.h"

enum { COMMANDS_MAX = 64 };

const hri_command *hri_command_find(const char *name) {
    for (size_t i = 0; hri_commands[i]; i++) {
        if (!strcmp(hri_commands[i]->name, name)) {
            return hri_commands[i];
        }
    }
    return NULL;
}

int hri_command_unknown(hri_cli *cli, const char *name) {
    const char *names[COMMANDS_MAX];
    size_t count = 0;
    for (size_t i = 0; hri_commands[i] && count < COMMANDS_MAX; i++) {
        if (!hri_commands[i]->hidden) {
            names[count++] = hri_commands[i]->name;
        }
    }
    const char *near = hri_nearest(name, names, count, sizeof names[0]);
    if (near) {
        hri_say_error(cli, "unknown command \"%s\"; did you mean \"%s\"?", name, near);
        hri_say_hint(cli, "headroom %s --help", near);
    } else {
        hri_say_error(cli, "unknown command \"%s\"", name);
        hri_say_hint(cli, "headroom help");
    }
    return HRI_EXIT_USAGE;
}
