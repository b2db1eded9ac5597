/* headroom merge: LoRA adapters put into the weights of their model. */
#include "cli/common/command.h"
#include "cli/common/outputs.h"
#include "cli/common/spell.h"
#include "show/files.h"

typedef struct merge_options {
    const char *out;
    bool json;
} merge_options;

static const hri_field fields[] = {
    {"out", "file to write", offsetof(merge_options, out), HRI_FIELD_STRING, NULL,
     .metavar = "FILE", .letter = 'o'},
    {"json", "print one JSON object", offsetof(merge_options, json), HRI_FIELD_BOOL, .value = NULL},
    {0},
};

static int print(hri_cli *cli, const merge_options *o, const hr_merge_result *r) {
    if (o->json) {
        hri_json json;
        hri_cli_json_start(&json);
        hri_merge_json(o->out, r, &json);
        return hri_cli_json_end(cli, &json, HRI_EXIT_YES);
    }
    hri_text next = {0};
    hri_merge_show(o->out, r, &cli->out);
    hri_text_add(&next, "headroom eval ");
    hri_text_word(&next, o->out);
    hri_text_add(&next, " --data SRC");
    if (hri_text_status(&next) == HR_OK) {
        hri_say_next(cli, hri_text_get(&next));
    }
    hri_text_deinit(&next);
    return HRI_EXIT_YES;
}

static int run(hri_cli *cli, const void *options, int count, const char *const *arguments) {
    const merge_options *o = options;
    hr_checkpoint *c = NULL;
    hr_error error = {0};
    hr_merge_result r = {.size = sizeof r};
    (void)count;
    if (!o->out) {
        hri_say_error(cli, "merge: --out is required, for example -o merged.safetensors");
        return HRI_EXIT_USAGE;
    }
    const int code = hri_cli_output_check(cli, "--out", o->out, HRI_OUTPUT_FILE);
    if (code != HRI_EXIT_YES) {
        return code;
    }
    hr_status status = hr_checkpoint_open(arguments[0], &c, &error);
    if (status == HR_OK) {
        status = hr_checkpoint_merge(c, o->out, &r, &error);
    }
    hr_checkpoint_close(c);
    return status == HR_OK ? print(cli, o, &r) : hri_cli_error(cli, &error);
}

const hri_command hri_command_merge = {
    .name = "merge",
    .summary = "put LoRA adapters into the parameters of their model",
    .arguments = "CHECKPOINT",
    .choices = "",
    .arguments_min = 1,
    .arguments_max = 1,
    .help = hri_merge_help,
    .examples = {{"headroom merge runs/gpt2-1 -o merged.safetensors", "a file without adapters"},
                 {"headroom eval merged.safetensors --data tokens:test.bin", "evaluate it"}},
    .fields = fields,
    .options_bytes = sizeof(merge_options),
    .run = run,
};
