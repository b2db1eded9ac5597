/* headroom merge: LoRA adapters put into the weights of their model. */
#include <headroom/bytes.h>
#include <headroom/checkpoint.h>

#include "cli/common/command.h"
#include "cli/common/outputs.h"
#include "cli/common/spell.h"

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
        hri_json_string(&json, "file", o->out);
        hri_json_u64(&json, "layers", r->layers);
        hri_json_u64(&json, "parameters", r->parameters);
        hri_json_u64(&json, "bytes", r->bytes);
        return hri_cli_json_end(cli, &json, HRI_EXIT_YES);
    }
    char size[32];
    hri_text next = {0};
    hri_out_printf(&cli->out, "merged the adapters of %llu layers: %s has %llu parameters, %s\n",
                   (unsigned long long)r->layers, o->out, (unsigned long long)r->parameters,
                   hr_bytes_print(r->bytes, size, sizeof size));
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
    .help =
        "CHECKPOINT is the directory of a run that was trained with --lora (its best parameters "
        "are "
        "used, or else its last) or a file in it. Each weight W with adapters A and B becomes W + "
        "alpha / rank * B A, computed in f64 and rounded to f32 once. The file that is written is "
        "a "
        "checkpoint of the model without adapters: eval, predict and --init take it, and other "
        "programs load it as they load the model's own file.",
    .examples = {{"headroom merge runs/gpt2-1 -o merged.safetensors", "a file without adapters"},
                 {"headroom eval merged.safetensors --data tokens:test.bin", "evaluate it"}},
    .fields = fields,
    .options_bytes = sizeof(merge_options),
    .run = run,
};
