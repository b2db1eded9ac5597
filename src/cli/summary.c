/* headroom summary: the layers of a model. */
#include "cli/common/command.h"
#include "cli/common/spell.h"
#include "see/summary.h"
#include "show/help_texts.h"

typedef struct summary_options {
    bool json;
    int64_t batch;
    const char *options, *save;
} summary_options;

static const hri_field fields[] = {
    {"batch", "samples per step", offsetof(summary_options, batch), HRI_FIELD_INT, "32", .min = 1,
     .max = 1e9, .metavar = "N"},
    {"options", "training options, for example precision=bf16,optimizer=adamw",
     offsetof(summary_options, options), HRI_FIELD_STRING, .metavar = "TEXT"},
    {"save", "write the model as a model file, for example my.hr", offsetof(summary_options, save),
     HRI_FIELD_STRING, .metavar = "FILE"},
    {"json", "print one JSON object", offsetof(summary_options, json), HRI_FIELD_BOOL,
     .value = NULL},
    {0},
};

static int run(hri_cli *cli, const void *options, int count, const char *const *arguments) {
    const summary_options *o = options;
    hri_see_summary s = {0};
    hr_error why = {0};
    (void)count;
    hr_status status = hri_see_summary_open(arguments[0], o->options, o->batch, &s, &why);
    if (status != HR_OK) {
        hri_say_error(cli, "%s", why.message[0] ? why.message : hr_status_text(status));
        return hri_cli_exit_code_of_input(status);
    }
    if (o->save && (status = hr_model_write(s.model, o->save, &why)) != HR_OK) {
        hri_say_error(cli, "%s", why.message[0] ? why.message : hr_status_text(status));
        hri_see_summary_close(&s);
        return status == HR_E_IO ? HRI_EXIT_FAULT : hri_cli_exit_code_of_input(status);
    }
    int code = HRI_EXIT_YES;
    if (o->json) {
        hri_json json;
        hri_cli_json_start(&json);
        hri_see_summary_json(&s, &json);
        code = hri_cli_json_end(cli, &json, HRI_EXIT_YES);
    } else if ((status = hri_see_summary_text(&s, &cli->out, &cli->out_term)) != HR_OK) {
        code = hri_cli_failed(cli, NULL, "summary", status);
    } else {
        hri_text next = {0};
        hri_text_add(&next, "headroom plan ");
        hri_text_word(&next, arguments[0]);
        hri_text_add(&next, " --batch %lld", (long long)o->batch);
        hri_say_next(cli, hri_text_get(&next));
        hri_text_deinit(&next);
    }
    hri_see_summary_close(&s);
    return code;
}

const hri_command hri_command_summary = {
    .name = "summary",
    .summary = "list the layers of a model with shapes, parameters and memory",
    .arguments = "MODEL",
    .choices = "",
    .arguments_min = 1,
    .arguments_max = 1,
    .help = hri_help_summary,
    .examples = {{"headroom summary resnet50 --batch 32", "a table"},
                 {"headroom summary gpt2 --batch 8 --options precision=bf16", "in bf16"},
                 {"headroom summary 'net: input(28x28x1) | conv(32) | relu | global_pool | "
                  "dense(10)' --save my.hr",
                  "a network in one line, written as a model file"},
                 {"headroom summary my.hr --json", "a model file, for programs"}},
    .fields = fields,
    .options_bytes = sizeof(summary_options),
    .run = run,
};
