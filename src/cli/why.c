/* headroom why: what the last refusal, or the end, of a program under headroom run was about. */
#include <stdlib.h>

#include "broker/wire.h"
#include "cli/common/command.h"
#include "show/why.h"
#include "show/help_texts.h"

typedef struct why_options {
    bool json;
} why_options;

static const hri_field fields[] = {
    {"json", "print one JSON object, sizes in bytes", offsetof(why_options, json), HRI_FIELD_BOOL,
     .value = NULL},
    {0},
};

static int run(hri_cli *cli, const void *options, int count, const char *const *arguments) {
    const why_options *o = options;
    char folder[HRI_WIRE_PATH];
    char *end = NULL;
    const uint64_t job = count ? strtoull(arguments[0], &end, 10) : 0;
    if (count && (*end || !job)) {
        hri_say_error(cli, "'%s' is not a job number", arguments[0]);
        return HRI_EXIT_USAGE;
    }
    hri_story story = {0};
    if (hri_wire_folder(folder, sizeof folder) != 0 ||
        hri_story_read(folder, job, &story) != HR_OK) {
        hri_say_error(cli, "there is no record of %s",
                      count ? arguments[0] : "a program under headroom run");
        return HRI_EXIT_USAGE;
    }
    hri_text next = {0};
    int code = HRI_EXIT_YES;
    hri_why_next(&story, &next);
    if (o->json) {
        hri_json json;
        hri_cli_json_start(&json);
        hri_why_json(&story, &json);
        hri_json_string(&json, "next", hri_text_get(&next));
        code = hri_cli_json_end(cli, &json, HRI_EXIT_YES);
    } else {
        hri_why_text(&story, &cli->out);
        if (*hri_text_get(&next)) {
            hri_say_next(cli, hri_text_get(&next));
        }
    }
    hri_text_deinit(&next);
    hri_story_deinit(&story);
    return code;
}

const hri_command hri_command_why = {
    .name = "why",
    .summary = "explain the last refused allocation of a program",
    .arguments = "[JOB]",
    .choices = "",
    .arguments_max = 1,
    .help = hri_help_why,
    .examples = {{"headroom why", "the latest refusal"}, {"headroom why 3", "job 3"}},
    .fields = fields,
    .options_bytes = sizeof(why_options),
    .run = run,
};
