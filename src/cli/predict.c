/* headroom predict: what a trained model takes pictures for, inside a budget.
 *
 * The one idea: predictions go out batch by batch, so a folder of any size takes no more memory than one batch; the
 * object of --json is printed in pieces for the same reason. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/common/command.h"
#include "cli/common/inference.h"
#include "cli/common/spell.h"
#include "job/given.h"
#include "show/predict.h"
#include "show/help_texts.h"

typedef struct predict_options {
    int64_t top;
    const char *out;
    hri_inference_flags shared;
} predict_options;

static const hri_field fields[] = {
    {"top", "number of classes to show, most likely first", offsetof(predict_options, top),
     HRI_FIELD_INT, "1", .min = 1, .max = 100, .metavar = "K"},
    {"out", "of a model that predicts masks: directory for masks and overlays",
     offsetof(predict_options, out), HRI_FIELD_STRING, NULL, .metavar = "DIR"},
    HRI_INFERENCE_FIELDS(predict_options),
    {"json", "print one JSON object instead of CSV", offsetof(predict_options, shared.json),
     HRI_FIELD_BOOL, .value = NULL},
    {0},
};

typedef struct work {
    hri_cli *cli;
    const predict_options *o;
    hri_inference i;
    hri_given given;
    hri_mask_files masks;
    int code; /* of what went wrong here */
} work;

static hri_prediction_sheet sheet_of(const work *w) {
    const int64_t classes = (int64_t)w->i.info.class_count;
    return (hri_prediction_sheet){.infer = hri_inference_sheet(&w->i),
                                  .given = &w->given,
                                  .masks = w->o->out ? &w->masks : NULL,
                                  .top = w->o->top < classes ? w->o->top : classes};
}

static int said(const work *w, hr_status status, const hri_prose *why) {
    if (!why->text[0]) {
        return hri_cli_failed(w->cli, NULL, "predict", status);
    }
    hri_say_error(w->cli, "%s", why->text);
    return hri_cli_exit_code_of_input(status);
}

/* Nobody reads on (| head), or there is no room: the rest would be predicted for nothing, unless it writes files. */
static bool unread(const work *w) {
    return w->cli->out.error && !w->o->out;
}

static hr_status show(void *user, const hr_prediction *p) {
    work *w = user;
    hri_prose why = {{0}};
    const hri_prediction_sheet sheet = sheet_of(w);
    const hr_status made = w->o->out ? hri_mask_files_write(&w->masks, p, &why) : HR_OK;
    const hr_status status = made != HR_OK       ? made
                             : w->o->shared.json ? hri_prediction_json(&sheet, p, &w->cli->out)
                                                 : hri_prediction_csv(&sheet, p, &w->cli->out);
    w->code = status == HR_OK ? HRI_EXIT_YES : said(w, status, &why);
    return status == HR_OK && unread(w) ? HR_E_CANCELLED : status;
}

/* The object of --json begins and ends apart from its predictions. */
static int print_keys(work *w, bool first, int code) {
    const hri_prediction_sheet sheet = sheet_of(w);
    hri_json j;
    hri_json_init(&j);
    if (!first) {
        hri_infer_json(&sheet.infer, &j);
        hri_cli_json_error(w->cli, &j, code);
        w->cli->answered = true;
    }
    const hr_status status = first ? hri_prediction_json_head(&sheet, &j, &w->cli->out)
                                   : hri_prediction_json_tail(&j, &w->cli->out);
    hri_json_deinit(&j);
    return status == HR_OK ? code : hri_cli_failed(w->cli, NULL, "predict", status);
}

static int begin(work *w) {
    hri_prose why = {{0}};
    if (!w->o->out && !w->i.info.class_count && !w->i.info.output_count) {
        hri_say_error(w->cli, "%s does not predict one class per sample%s", w->i.info.model,
                      w->i.info.pixel_classes ? " but masks; add --out DIR to write them"
                                              : ", so there is nothing to predict");
        return HRI_EXIT_USAGE;
    }
    const hr_status status =
        w->o->out ? hri_mask_files_open(w->i.predictor, w->o->out, &w->given, &w->masks, &why)
                  : HR_OK;
    if (status != HR_OK) {
        return said(w, status, &why);
    }
    if (w->o->shared.json) {
        return print_keys(w, true, HRI_EXIT_YES);
    }
    const hri_prediction_sheet sheet = sheet_of(w);
    hri_prediction_csv_head(&sheet, &w->cli->out);
    return HRI_EXIT_YES;
}

static int predict(work *w) {
    hr_error error = {0};
    int code = begin(w);
    if (code != HRI_EXIT_YES) {
        return code;
    }
    const hr_status status = hr_predictor_run(w->i.predictor, show, w, &w->i.result, &error);
    hri_out_flush(&w->cli->out);
    /* what was predicted before a failure stands, in an object that is whole */
    const bool ended = w->code != HRI_EXIT_YES || unread(w);
    code = hri_inference_end(&w->i, ended ? HR_OK : status, &error);
    code = hri_inference_verdict(&w->i, w->code == HRI_EXIT_YES ? code : w->code);
    if (w->o->shared.json) {
        code = print_keys(w, false, code);
    } else if (w->cli->err_term.tty || w->o->shared.budget) {
        const hri_infer_sheet sheet = hri_inference_sheet(&w->i);
        char sum[160];
        hri_say_note("%s", hri_infer_sum(&sheet, sum, sizeof sum));
    }
    return code;
}

static int run(hri_cli *cli, const void *options, int count, const char *const *arguments) {
    const predict_options *o = options;
    work w = {.cli = cli, .o = o, .i = {.quiet = cli->out_term.tty}};
    hri_why why = {0};
    const int trained = !o->shared.model; /* the first argument is one */
    if (count == trained) {
        hri_say_error(cli,
                      "predict: a PATH is required: a folder, images, or - for standard input");
        return HRI_EXIT_USAGE;
    }
    const hr_status status = hri_given_open(count - trained, arguments + trained, &w.given, &why);
    int code = status == HR_OK ? HRI_EXIT_YES : hri_cli_why(cli, &why, status);
    if (code == HRI_EXIT_YES) {
        const hr_infer_options io = {.size = sizeof io,
                                     .checkpoint = trained ? arguments[0] : NULL,
                                     .data = w.given.text,
                                     .no_labels = 1,
                                     .own_bytes = o->out ? HRI_MASK_FILES_BYTES : 0};
        code = hri_inference_open(cli, &o->shared, &io, &w.i);
    }
    if (code == HRI_EXIT_YES) {
        code = predict(&w);
    }
    hri_mask_files_close(&w.masks);
    hri_inference_close(&w.i);
    hri_given_close(&w.given);
    return code;
}

const hri_command hri_command_predict = {
    .name = "predict",
    .summary = "classify images with a trained model",
    .arguments = "[CHECKPOINT] PATH...",
    .choices = "",
    .arguments_min = 1,
    .arguments_max = HRI_ARGUMENTS_MAX,
    .help = hri_help_predict,
    .examples = {{"headroom predict runs/flowers rose.jpg --top 3", "one image, three guesses"},
                 {"headroom predict runs/flowers new-photos/ --budget 100MiB > result.csv",
                  "a folder, within 100 MiB"},
                 {"find . -name '*.png' | headroom predict runs/flowers - --json --skip-bad",
                  "a list of files"}},
    .fields = fields,
    .options_bytes = sizeof(predict_options),
    .run = run,
};
