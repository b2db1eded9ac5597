/* headroom eval: how good a trained model is on data, inside a budget.
 *
 * The one idea: classes are matched by their names, so a folder with some of them, or in another order, is judged
 * rightly; beside the sums stand the classes that went wrong most, which is what one looks at next. */
#include "cli/common/command.h"
#include "cli/common/inference.h"
#include "cli/common/outputs.h"
#include "job/habits.h"
#include "show/help_texts.h"

typedef struct eval_options {
    const char *data, *confusion, *metric;
    int split;
    hri_inference_flags shared;
} eval_options;

static const hri_field fields[] = {
    {"data", "images:DIR, mnist:DIR, cifar10:DIR, npy:X,Y, text:FILE, tokens:FILE, or a pipeline",
     offsetof(eval_options, data), HRI_FIELD_STRING, NULL, .metavar = "SRC"},
    {"split", "all samples, the training samples, or the held-out ones (--val-split)",
     offsetof(eval_options, split), HRI_FIELD_ENUM, "all", .choices = hri_splits},
    {"confusion", "write the confusion matrix: CSV, a chart (.svg), or - for a table",
     offsetof(eval_options, confusion), HRI_FIELD_STRING, NULL, .metavar = "FILE"},
    {"metric", HRI_METRIC_HELP, offsetof(eval_options, metric), HRI_FIELD_STRING, NULL,
     .metavar = "NAMES"},
    HRI_INFERENCE_FIELDS(eval_options),
    {"json", "print one JSON object, sizes in bytes", offsetof(eval_options, shared.json),
     HRI_FIELD_BOOL, .value = NULL},
    {0},
};

typedef struct work {
    hri_inference i;
    const char *data, *confusion; /* as they were typed */
} work;

/* ---- showing ---- */

static int show_text(const work *w, hri_cli *cli) {
    const hri_infer_sheet sheet = hri_inference_sheet(&w->i);
    const hr_status status = hri_evaluation_show(&sheet, w->confusion, &cli->out, &cli->out_term);
    if (status != HR_OK) {
        return hri_cli_failed(cli, NULL, "eval", status);
    }
    hri_text next = {0};
    hri_evaluation_next(&sheet, w->data, &next);
    if (hri_text_status(&next) == HR_OK) {
        hri_say_next(cli, hri_text_get(&next));
    }
    hri_text_deinit(&next);
    return HRI_EXIT_YES;
}

static int show_json(const work *w, hri_cli *cli, int code) {
    const hri_infer_sheet sheet = hri_inference_sheet(&w->i);
    hri_json j;
    hri_cli_json_start(&j);
    hri_evaluation_json(&sheet, w->confusion, &j);
    return hri_cli_json_end(cli, &j, code);
}

static int evaluate(work *w, hri_cli *cli) {
    hr_error error = {0};
    hr_status status = hr_predictor_evaluate(w->i.predictor, &w->i.result, &error);
    if (status == HR_OK && w->confusion && !hri_confusion_is_shown(w->confusion)) {
        status = hr_predictor_save_confusion(w->i.predictor, w->confusion, &error);
    }
    int code = hri_inference_end(&w->i, status, &error);
    if (code != HRI_EXIT_YES) {
        return code;
    }
    code = hri_inference_verdict(&w->i, HRI_EXIT_YES);
    const int shown = w->i.flags->json ? show_json(w, cli, code) : show_text(w, cli);
    return shown == HRI_EXIT_YES ? code : shown;
}

static int run(hri_cli *cli, const void *options, int count, const char *const *arguments) {
    const eval_options *o = options;
    hri_cli_wrap(cli);
    if (!o->data) {
        hri_say_error(cli, "eval: --data is required, for example --data images:DIR");
        return HRI_EXIT_USAGE;
    }
    work w = {.data = o->data, .confusion = o->confusion};
    const hr_infer_options io = {.size = sizeof io,
                                 .checkpoint = count ? arguments[0] : NULL,
                                 .data = o->data,
                                 .split = o->split,
                                 .metric = o->metric};
    const int shown = o->confusion && hri_confusion_is_shown(o->confusion);
    int code =
        hri_cli_output_check(cli, "--confusion", shown ? NULL : o->confusion, HRI_OUTPUT_FILE);
    code = code == HRI_EXIT_YES ? hri_inference_open(cli, &o->shared, &io, &w.i) : code;
    if (code == HRI_EXIT_YES) {
        code = evaluate(&w, cli);
    }
    hri_inference_close(&w.i);
    return code;
}

const hri_command hri_command_eval = {
    .name = "eval",
    .summary = "evaluate a trained model on a data set",
    .arguments = "[CHECKPOINT]",
    .choices = "",
    .arguments_min = 0,
    .arguments_max = 1,
    .help = hri_help_eval,
    .examples =
        {{"headroom eval runs/flowers --data images:flowers-test", "accuracy on a test set"},
         {"headroom eval runs/flowers --data images:flowers --split val",
          "on the held-out samples"},
         {"headroom eval runs/flowers --data images:flowers-test --budget 100MiB --json",
          "within 100 MiB, for a script"},
         {"headroom eval --model resnet18 --weights resnet18.pth --data images:imagenet/val",
          "parameters of another program"}},
    .fields = fields,
    .options_bytes = sizeof(eval_options),
    .run = run,
};
