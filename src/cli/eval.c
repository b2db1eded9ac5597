/* headroom eval: how good a trained model is on data, inside a budget.
 *
 * The one idea: classes are matched by their names, so a folder with some of them, or in another order, is judged
 * rightly; beside the sums stand the classes that went wrong most, which is what one looks at next. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/table.h"
#include "cli/common/command.h"
#include "cli/common/inference.h"

typedef struct eval_options {
    const char *data;
    int split;
    hri_inference_flags shared;
} eval_options;

static const char *const splits[] = {"all", "train", "val", NULL};

static const hri_field fields[] = {
    {"data", "images:DIR, mnist:DIR, cifar10:DIR, npy:X,Y, tokens:FILE, or a pipeline",
     offsetof(eval_options, data), HRI_FIELD_STRING, NULL, .metavar = "SRC"},
    {"split", "all samples, the training samples, or the held-out ones (--val-split)",
     offsetof(eval_options, split), HRI_FIELD_ENUM, "all", .choices = splits},
    HRI_INFERENCE_FIELDS(eval_options),
    {"json", "print one JSON object, sizes in bytes", offsetof(eval_options, shared.json),
     HRI_FIELD_BOOL, .value = NULL},
    {0},
};

enum { WORST = 5 };

typedef struct work {
    hri_inference i;
    const char *data; /* as it was typed */
    const char *split;
} work;

/* ---- showing ---- */

typedef struct class_sum {
    int64_t number;
    hr_class_result r;
} class_sum;

static int by_errors(const void *a, const void *b) {
    const class_sum *x = a, *y = b;
    const uint64_t wrong_x = x->r.samples - x->r.correct, wrong_y = y->r.samples - y->r.correct;
    return wrong_x != wrong_y ? (wrong_x > wrong_y ? -1 : 1) : (x->number > y->number) * 2 - 1;
}

/* Class k of the last evaluation. */
static class_sum sum_class(const work *w, uint64_t k) {
    class_sum c = {.number = (int64_t)k, .r = {.size = sizeof c.r}};
    (void)!hr_predictor_get_class(w->i.predictor, (size_t)k, &c.r); /* there are so many */
    return c;
}

static hr_status show_worst(work *w, hri_cli *cli) {
    static const char *const heads[] = {"CLASS", ">SAMPLES", ">RIGHT", "MISTAKEN FOR"};
    const uint64_t classes = w->i.result.class_count;
    class_sum *sums = hri_calloc((size_t)classes, sizeof *sums);
    if (!sums) {
        return HR_E_NOMEM_HOST;
    }
    for (uint64_t k = 0; k < classes; k++) {
        sums[k] = sum_class(w, k);
    }
    qsort(sums, (size_t)classes, sizeof *sums, by_errors);
    hri_table t;
    hri_table_init(&t, heads, 4);
    for (uint64_t k = 0; k < classes && k < WORST && sums[k].r.samples > sums[k].r.correct; k++) {
        char a[32], b[32];
        const hr_class_result *r = &sums[k].r;
        hri_table_cell(&t, HRI_STYLE_PLAIN, "%s",
                       hri_inference_class(&w->i, sums[k].number, a, sizeof a));
        hri_table_cell(&t, HRI_STYLE_PLAIN, "%llu", (unsigned long long)r->samples);
        hri_table_cell(&t, HRI_STYLE_PLAIN, "%.1f %%",
                       100.0 * (double)r->correct / (double)r->samples);
        hri_table_cell(&t, HRI_STYLE_PLAIN, "%s (%llu)",
                       hri_inference_class(&w->i, r->confused_with, b, sizeof b),
                       (unsigned long long)r->confused_count);
    }
    const hr_status status = t.used ? hri_table_print(&t, &cli->out, &cli->out_term, 2, 1) : HR_OK;
    hri_table_deinit(&t);
    hri_free(sums);
    return status;
}

static int show_text(work *w, hri_cli *cli) {
    const hr_infer_result *r = &w->i.result;
    char title[256];
    size_t used = 0;
    if (!isnan(r->accuracy)) {
        used += (size_t)snprintf(title, sizeof title, "accuracy %.2f %%", 100 * r->accuracy);
    }
    if (!isnan(r->top5)) {
        used += (size_t)snprintf(title + used, sizeof title - used, "%stop-5 %.2f %%",
                                 used ? ", " : "", 100 * r->top5);
    }
    snprintf(title + used, sizeof title - used, "%sloss %.4f", used ? ", " : "", r->loss);
    hri_say_title(cli, "%s", title);
    hri_out_printf(&cli->out, "%s, from %s\n", w->i.info.model, w->i.info.checkpoint);
    if (strcmp(w->split, "all") != 0) {
        hri_out_printf(&cli->out, "on the samples that were %s\n",
                       strcmp(w->split, "val") ? "used for training" : "held out for validation");
    }
    hri_inference_show(&w->i);
    if (r->class_count) {
        const hr_status status = show_worst(w, cli);
        if (status != HR_OK) {
            return hri_cli_failed(cli, NULL, "eval", status);
        }
    }
    hri_text next = {0};
    if (w->i.info.class_count) {
        hri_text_add(&next, "headroom predict ");
        hri_text_word(&next, w->i.info.checkpoint);
        hri_text_add(&next, " ");
        hri_text_word(&next, w->data);
    } else {
        hri_text_add(&next, "headroom help train"); /* it names no classes */
    }
    if (hri_text_status(&next) == HR_OK) {
        hri_say_next(cli, hri_text_get(&next));
    }
    hri_text_deinit(&next);
    return HRI_EXIT_YES;
}

static int show_json(const work *w, hri_cli *cli, int code) {
    const hr_infer_result *r = &w->i.result;
    hri_json j;
    hri_cli_json_start(&j);
    hri_json_string(&j, "model", w->i.info.model);
    hri_json_string(&j, "checkpoint", w->i.info.checkpoint);
    hri_json_string(&j, "split", w->split);
    hri_json_double(&j, "loss", r->loss);
    hri_json_double(&j, "accuracy", r->accuracy);
    hri_json_double(&j, "top5", r->top5);
    hri_inference_json(&w->i, &j);
    hri_json_array(&j, "classes");
    for (uint64_t k = 0; k < r->class_count; k++) {
        const class_sum c = sum_class(w, k);
        char text[32];
        hri_json_object(&j, NULL);
        hri_json_string(&j, "name", hri_inference_class(&w->i, c.number, text, sizeof text));
        hri_json_u64(&j, "samples", c.r.samples);
        hri_json_u64(&j, "right", c.r.correct);
        hri_json_end(&j);
    }
    hri_json_end(&j);
    return hri_cli_json_end(cli, &j, code);
}

static int evaluate(work *w, hri_cli *cli) {
    hr_error error = {0};
    const hr_status status = hr_predictor_evaluate(w->i.predictor, &w->i.result, &error);
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
    (void)count;
    if (!o->data) {
        hri_say_error(cli, "eval: --data is required, for example --data images:DIR");
        return HRI_EXIT_USAGE;
    }
    work w = {.data = o->data, .split = splits[o->split]};
    const hr_infer_options io = {
        .size = sizeof io, .checkpoint = arguments[0], .data = o->data, .split = o->split};
    int code = hri_inference_open(cli, &o->shared, &io, &w.i);
    if (code == HRI_EXIT_YES) {
        code = evaluate(&w, cli);
    }
    hri_inference_close(&w.i);
    return code;
}

const hri_command hri_command_eval = {
    .name = "eval",
    .summary = "evaluate a trained model on a data set",
    .arguments = "CHECKPOINT",
    .choices = "",
    .arguments_min = 1,
    .arguments_max = 1,
    .help =
        "CHECKPOINT is the directory of a run (its best parameters are used, or else its last) "
        "or a file in it. The samples go through the same stages as in that run's validation. "
        "Classes are matched by name: the data may have fewer classes than the model, in any "
        "order.\n\nIf the run held out samples with --val-split, --split val evaluates on those, "
        "given the same --data; loss and accuracy are then those of the run. Without it all "
        "samples are used, including those the model was trained on.\n\nThe evaluation is "
        "planned like a training run: the budget covers everything that the system reports for "
        "the process, and it is checked before the first sample. With --batch auto the batch is "
        "the largest power of two up to 64 that fits; it affects speed only.\n\nLoss, accuracy "
        "and top-5 are means over all labels that are not negative. The table shows the classes "
        "with the most errors. The exit code is 1 if it does not fit, 2 if a sample cannot be "
        "read and --skip-bad is not given.",
    .examples = {{"headroom eval runs/flowers --data images:flowers-test",
                  "accuracy on a test set"},
                 {"headroom eval runs/flowers --data images:flowers --split val",
                  "on the held-out samples"},
                 {"headroom eval runs/flowers --data images:flowers-test --budget 100MiB --json",
                  "within 100 MiB, for a script"}},
    .fields = fields,
    .options_bytes = sizeof(eval_options),
    .run = run,
};
