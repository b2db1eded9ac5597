/* headroom find-rate: a short training whose learning rate rises, and where the loss falls fastest. */
#include "cli/common/command.h"
#include "cli/common/outputs.h"
#include "cli/common/train_run.h"
#include "show/find_rate.h"
#include "show/help_texts.h"

static int find(hri_train_run *r, hr_ctx *ctx) {
    hri_found_rate found = {0};
    hr_error error = {0};
    hri_prose why = {0};
    hri_json json;
    r->o.svg = r->o.log = r->o.tensorboard = NULL;
    if (hri_job_find_rate(ctx, &r->o, r->flags->rate, r->flags->final_rate, &found, &error) !=
        HR_OK) {
        return hri_cli_error(r->cli, &error);
    }
    const hr_status status = hri_show_rates_write(&found, r->model, r->flags->svg, &why);
    if (r->flags->json) {
        hri_cli_json_start(&json);
        hri_show_rates_json(&found, &json);
    } else {
        hri_show_rates_text(&found, &r->cli->out);
    }
    hri_found_rate_deinit(&found);
    if (status != HR_OK) {
        hri_say_error(r->cli, "--svg: %s", why.text[0] ? why.text : hr_status_text(status));
    }
    const int code = status == HR_OK ? HRI_EXIT_YES : hri_cli_exit_code(status);
    return r->flags->json ? hri_cli_json_end(r->cli, &json, code) : code;
}

static int run(hri_cli *cli, const void *options, int count, const char *const *arguments) {
    hri_train_run r = {.cli = cli, .flags = options, .model = arguments[0]};
    hr_ctx *ctx = NULL;
    (void)count;
    int code = hri_cli_output_check(cli, "--svg", r.flags->svg, HRI_OUTPUT_FILE);
    code = code == HRI_EXIT_YES ? hri_train_run_init(&r) : code;
    code = code == HRI_EXIT_YES ? hri_cli_open_for(cli, r.flags->device, &ctx) : code;
    code = code == HRI_EXIT_YES ? find(&r, ctx) : code;
    hr_ctx_destroy(ctx);
    hri_train_run_deinit(&r);
    return code;
}

const hri_command hri_command_find_rate = {
    .name = "find-rate",
    .summary = "find a learning rate by a short training in which it rises",
    .arguments = "MODEL",
    .choices = "",
    .arguments_min = 1,
    .arguments_max = 1,
    .help = hri_help_find_rate,
    .examples = {{"headroom find-rate resnet18:size=64 --data images:flowers --svg rates.svg",
                  "100 steps from 1e-7 to 10, with a chart"}},
    .fields = hri_train_flag_fields,
    .options_bytes = sizeof(hri_train_flags),
    .settle = hri_train_keys_settle,
    .reads = "final-rate",
    .run = run,
};
