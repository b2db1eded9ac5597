/* headroom version: what this program is. */
#include "cli/common/command.h"

typedef struct version_options {
    bool json;
} version_options;

static const hri_field fields[] = {
    {"json", "print one JSON object", offsetof(version_options, json), HRI_FIELD_BOOL,
     .value = NULL},
    {0},
};

static int run(hri_cli *cli, const void *options, int count, const char *const *arguments) {
    (void)count;
    (void)arguments;
    const version_options *o = options;
    if (!o->json) {
        hri_out_printf(&cli->out, "headroom %s\n", hr_version());
        return HRI_EXIT_YES;
    }
    hri_json json;
    hri_cli_json_start(&json);
    hri_json_string(&json, "headroom", hr_version());
    hri_json_string(&json, "compiler", __VERSION__);
    hri_json_i64(&json, "c_standard", __STDC_VERSION__);
    return hri_cli_json_end(cli, &json, HRI_EXIT_YES);
}

const hri_command hri_command_version = {
    .name = "version",
    .summary = "print the version",
    .arguments = "",
    .choices = "",
    .help = "Prints the version of the program and its library. \"headroom doctor\" shows what "
            "was found on this machine.",
    .examples = {{"headroom version", "one line"},
                 {"headroom version --json", "the same for programs"}},
    .fields = fields,
    .options_bytes = sizeof(version_options),
    .run = run,
};
