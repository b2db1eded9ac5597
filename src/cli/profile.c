/* headroom profile: a few steps of a plan, every op timed, memory read from outside. */
#include "cli/common/command.h"
#include "cli/common/outputs.h"
#include "cli/common/spell.h"
#include "see/outputs.h"
#include "see/profile.h"
#include "see/report.h"
#include "show/help_texts.h"

typedef struct profile_options {
    bool measure;
    int64_t batch, steps, seed;
    const char *data, *budget, *device, *options, *out, *html;
} profile_options;

#define AT(M) offsetof(profile_options, M)

static const hri_field fields[] = {
    {"batch", "samples per step", AT(batch), HRI_FIELD_INT, "32", .min = 1, .max = 1e6,
     .metavar = "N"},
    {"data", "data that sizes and classes are taken from; the steps run on synthetic data",
     AT(data), HRI_FIELD_STRING, NULL, .metavar = "SRC"},
    {"budget", "memory limit, or a share of the device; default: all that is free", AT(budget),
     HRI_FIELD_SIZE, NULL, .metavar = "SIZE"},
    {"device", "host or cuda:0", AT(device), HRI_FIELD_STRING, "host", .metavar = "DEVICE"},
    {"options", "training options, for example precision=bf16,optimizer=adamw", AT(options),
     HRI_FIELD_STRING, NULL, .metavar = "TEXT"},
    {"steps", "steps to time; one more runs op by op", AT(steps), HRI_FIELD_INT, "3", .min = 0,
     .max = 1e6, .metavar = "N"},
    {"out", "the recording to write", AT(out), HRI_FIELD_STRING, "profile.hrp",
     .metavar = "FILE.hrp"},
    {"html", "write a page that shows memory and time, op by op", AT(html), HRI_FIELD_STRING, NULL,
     .metavar = "FILE"},
    {"measure", "plan with measured kernel times; --no-measure: with an analytic model",
     AT(measure), HRI_FIELD_BOOL, "true"},
    {"seed", "of parameters and synthetic data", AT(seed), HRI_FIELD_INT, "0", .min = 0,
     .max = 1e15, .metavar = "N"},
    {0},
};

static int profile(hri_cli *cli, const profile_options *o, hr_plan *plan, hri_recording *r) {
    hri_why why = {0};
    hri_prose prose = {0};
    hr_status status = hri_see_profile(plan, (uint64_t)o->steps, o->out, r, &why);
    if (status != HR_OK) {
        return hri_cli_why(cli, &why, status);
    }
    status = hri_see_write(r, &(hri_see_outputs){.html = o->html, .record = o->out}, &prose);
    if (status != HR_OK) {
        hri_say_error(cli, "%s", prose.text[0] ? prose.text : hr_status_text(status));
        return hri_cli_exit_code(status);
    }
    status = hri_see_report_text(r, 10, &cli->out, &cli->out_term);
    return status == HR_OK ? HRI_EXIT_YES : hri_cli_failed(cli, NULL, "profile", status);
}

static int make(hri_cli *cli, const profile_options *o, const char *model, hr_plan **plan,
                hr_ctx **ctx) {
    hr_error error = {0};
    const hr_job_options job = {.size = sizeof job,
                                .model = model,
                                .training = o->options,
                                .data = o->data,
                                .batch = o->batch,
                                .budget = o->budget,
                                .device = o->device,
                                .seed = (uint64_t)o->seed,
                                .no_measure = !o->measure};
    const int code = hri_cli_open_for(cli, o->device, ctx);
    if (code != HRI_EXIT_YES) {
        return code;
    }
    return hr_job_plan(*ctx, &job, plan, &error) == HR_OK ? HRI_EXIT_YES
                                                          : hri_cli_error(cli, &error);
}

static int run(hri_cli *cli, const void *options, int count, const char *const *arguments) {
    const profile_options *o = options;
    hri_recording r = {.truncated = false};
    hr_plan *plan = NULL;
    hr_ctx *ctx = NULL;
    (void)count;
    int code = hri_cli_output_check(cli, "--out", o->out, HRI_OUTPUT_FILE);
    if (code == HRI_EXIT_YES) {
        code = hri_cli_output_check(cli, "--html", o->html, HRI_OUTPUT_FILE);
    }
    if (code == HRI_EXIT_YES) {
        code = make(cli, o, arguments[0], &plan, &ctx);
    }
    if (code == HRI_EXIT_YES) {
        code = profile(cli, o, plan, &r);
    }
    if (code == HRI_EXIT_YES) {
        hri_say_next_page(cli, o->out);
    }
    hri_recording_deinit(&r);
    hr_plan_destroy(plan);
    hr_ctx_destroy(ctx);
    return code;
}

const hri_command hri_command_profile = {
    .name = "profile",
    .summary = "run a few training steps and record every op and every byte",
    .arguments = "MODEL",
    .choices = "",
    .arguments_min = 1,
    .arguments_max = 1,
    .help = hri_help_profile,
    .examples = {{"headroom profile resnet18:size=64 --batch 16 --budget 256MiB --out r18.hrp",
                  "profile three steps"},
                 {"headroom report r18.hrp --html page.html", "look at it"}},
    .fields = fields,
    .options_bytes = sizeof(profile_options),
    .run = run,
};
