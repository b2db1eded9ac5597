/* headroom eval: how good a trained model is on data, inside a budget.
 *
 * The one idea: classes are matched by their names, so a folder with some of them, or in another order, is judged
 * rightly; beside the sums stand the classes that went wrong most, which is what one looks at next. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "cli/common/command.h"
#include "cli/common/inference.h"
#include "base/table.h"

typedef struct eval_options {
    const char *data;
    int split;
    hri_inference_flags shared;
} eval_options;

static const char *const splits[] = {"all", "train", "val", NULL};

static const hri_field fields[] = {
    {"data", "images:DIR, mnist:DIR, cifar10:DIR, npy:X,Y, tokens:FILE, or a pipeline",
     offsetof(eval_options, data), HRI_FIELD_STRING, NULL, .metavar = "SRC"},
    {"split", "all samples, or those that the training learnt from or kept apart (--val-split)",
     offsetof(eval_options, split), HRI_FIELD_ENUM, "all", .choices = splits},
    HRI_INFERENCE_FIELDS(eval_options),
    {"json", "print one JSON object, sizes in bytes", offsetof(eval_options, shared.json),
     HRI_FIELD_BOOL, .value = NULL},
    {0},
};

enum { WORST = 5, MATRIX_MOST = 1000 };

typedef struct work {
    hri_inference i;
    const char *data; /* as it was typed */
    const char *split;
    int32_t *labels; /* of this batch */
    uint32_t label_room;
    double loss, right, top5; /* sums over labels that count; NAN: the model does not say */
    uint64_t counted;         /* those labels */
    int64_t classes;          /* 0: no table is kept */
    uint32_t *taken;          /* (classes, classes): label, prediction */
} work;

static int32_t label_of(const hri_inference *i, const hr_element *e) {
    const hr_field *f = hr_element_find(e, i->source.label.name);
    int64_t x = -1;
    if (f && f->bytes == hr_type_bytes(f->meta.type)) {
        x = f->meta.type == HR_TYPE_I32   ? *(const int32_t *)f->data
            : f->meta.type == HR_TYPE_I64 ? *(const int64_t *)f->data
            : f->meta.type == HR_TYPE_U8  ? *(const uint8_t *)f->data
            : f->meta.type == HR_TYPE_F32 ? (int64_t) * (const float *)f->data
                                          : -1;
    }
    return i->label_map && x >= 0 ? i->label_map[x] : (int32_t)x;
}

static void seen(void *user, uint32_t index, const hr_element *e) {
    work *w = user;
    if (index < w->label_room) {
        w->labels[index] = label_of(&w->i, e);
    }
}

/* The table of labels and predictions, for models that tell few enough classes apart. */
static int open_table(work *w) {
    const int64_t n = hri_predictor_classes(w->i.predictor);
    w->label_room = (uint32_t)hri_predictor_batch(w->i.predictor);
    w->labels = hri_calloc(w->label_room, sizeof *w->labels);
    if (!w->labels) {
        return hri_cli_failed(w->i.cli, NULL, "eval", HR_E_NOMEM_HOST);
    }
    if (hri_predictor_scores(w->i.predictor) && n <= MATRIX_MOST) {
        w->classes = n;
        w->taken = hri_calloc((size_t)(n * n), sizeof *w->taken);
    }
    return !w->classes || w->taken ? HRI_EXIT_YES
                                   : hri_cli_failed(w->i.cli, NULL, "eval", HR_E_NOMEM_HOST);
}

static void count_batch(work *w) {
    const hri_numbers n = hri_predictor_numbers(w->i.predictor);
    const uint32_t fed = hri_predictor_fed(w->i.predictor);
    const float *scores = hri_predictor_scores(w->i.predictor);
    w->loss += (double)n.loss * (double)n.counted;
    w->right += (double)n.accuracy * (double)n.counted;
    w->top5 += (double)n.top5 * (double)n.counted;
    w->counted += n.counted;
    for (uint32_t s = 0; w->taken && s < fed; s++) {
        const float *row = scores + (int64_t)s * w->classes;
        int64_t best = 0;
        for (int64_t k = 1; k < w->classes; k++) {
            best = row[k] > row[best] ? k : best;
        }
        if (w->labels[s] >= 0 && w->labels[s] < w->classes) {
            w->taken[w->labels[s] * w->classes + best]++;
        }
    }
}

/* ---- showing ---- */

typedef struct class_sum {
    int64_t number;
    uint64_t samples, right;
    int64_t other; /* what it was taken for most often; -1: nothing else */
    uint64_t other_count;
} class_sum;

static class_sum sum_class(const work *w, int64_t k) {
    class_sum c = {.number = k, .other = -1};
    for (int64_t p = 0; p < w->classes; p++) {
        const uint32_t n = w->taken[k * w->classes + p];
        c.samples += n;
        c.right += p == k ? n : 0;
        if (p != k && n > c.other_count) {
            c.other = p;
            c.other_count = n;
        }
    }
    return c;
}

static int by_errors(const void *a, const void *b) {
    const class_sum *x = a, *y = b;
    const uint64_t wrong_x = x->samples - x->right, wrong_y = y->samples - y->right;
    return wrong_x != wrong_y ? (wrong_x > wrong_y ? -1 : 1) : (x->number > y->number) * 2 - 1;
}

static hr_status show_worst(work *w, hri_cli *cli) {
    static const char *const heads[] = {"CLASS", ">SAMPLES", ">RIGHT", "TAKEN FOR"};
    class_sum *sums = hri_calloc((size_t)w->classes, sizeof *sums);
    if (!sums) {
        return HR_E_NOMEM_HOST;
    }
    for (int64_t k = 0; k < w->classes; k++) {
        sums[k] = sum_class(w, k);
    }
    qsort(sums, (size_t)w->classes, sizeof *sums, by_errors);
    hri_table t;
    hri_table_init(&t, heads, 4);
    for (int64_t k = 0; k < w->classes && k < WORST && sums[k].samples > sums[k].right; k++) {
        char a[32], b[32];
        hri_table_cell(&t, HRI_STYLE_PLAIN, "%s",
                       hri_inference_class(&w->i, sums[k].number, a, sizeof a));
        hri_table_cell(&t, HRI_STYLE_PLAIN, "%llu", (unsigned long long)sums[k].samples);
        hri_table_cell(&t, HRI_STYLE_PLAIN, "%.1f %%",
                       100.0 * (double)sums[k].right / (double)sums[k].samples);
        hri_table_cell(&t, HRI_STYLE_PLAIN, "%s (%llu)",
                       hri_inference_class(&w->i, sums[k].other, b, sizeof b),
                       (unsigned long long)sums[k].other_count);
    }
    const hr_status status = t.used ? hri_table_print(&t, &cli->out, &cli->out_term, 2, 1) : HR_OK;
    hri_table_deinit(&t);
    hri_free(sums);
    return status;
}

static int show_text(work *w, hri_cli *cli) {
    const double n = (double)w->counted;
    char title[256];
    size_t used = 0;
    if (!isnan(w->right)) {
        used += (size_t)snprintf(title, sizeof title, "accuracy %.2f %%", 100 * w->right / n);
    }
    if (!isnan(w->top5)) {
        used += (size_t)snprintf(title + used, sizeof title - used, "%stop-5 %.2f %%",
                                 used ? ", " : "", 100 * w->top5 / n);
    }
    snprintf(title + used, sizeof title - used, "%sloss %.4f", used ? ", " : "", w->loss / n);
    hri_say_title(cli, "%s", title);
    hri_out_printf(&cli->out, "%s, from %s\n", w->i.checkpoint.about.model, w->i.checkpoint.path);
    if (strcmp(w->split, "all") != 0) {
        hri_out_printf(&cli->out, "on the samples that the training %s\n",
                       strcmp(w->split, "val") ? "learnt from" : "kept apart for validation");
    }
    hri_inference_show(&w->i);
    if (w->taken) {
        const hr_status status = show_worst(w, cli);
        if (status != HR_OK) {
            return hri_cli_failed(cli, NULL, "eval", status);
        }
    }
    hri_text next = {0};
    if (hri_predictor_scores(w->i.predictor)) {
        hri_text_add(&next, "headroom predict ");
        hri_text_word(&next, w->i.checkpoint.path);
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
    const double n = (double)w->counted;
    hri_json j;
    hri_cli_json_start(&j);
    hri_json_string(&j, "model", w->i.checkpoint.about.model);
    hri_json_string(&j, "checkpoint", w->i.checkpoint.path);
    hri_json_string(&j, "split", w->split);
    hri_json_double(&j, "loss", w->loss / n);
    hri_json_double(&j, "accuracy", w->right / n);
    hri_json_double(&j, "top5", w->top5 / n);
    hri_inference_json(&w->i, &j);
    hri_json_array(&j, "classes");
    for (int64_t k = 0; w->taken && k < w->classes; k++) {
        const class_sum c = sum_class(w, k);
        char text[32];
        hri_json_object(&j, NULL);
        hri_json_string(&j, "name", hri_inference_class(&w->i, k, text, sizeof text));
        hri_json_u64(&j, "samples", c.samples);
        hri_json_u64(&j, "right", c.right);
        hri_json_end(&j);
    }
    hri_json_end(&j);
    return hri_cli_json_end(cli, &j, code);
}

static int evaluate(work *w, hri_cli *cli) {
    bool over = false;
    int code = open_table(w);
    while (code == HRI_EXIT_YES && !over) {
        code = hri_inference_next(&w->i, &over);
        if (code == HRI_EXIT_YES && !over) {
            count_batch(w);
        }
    }
    if (code != HRI_EXIT_YES) {
        return code;
    }
    hri_inference_end(&w->i);
    if (w->i.samples == 0) {
        hri_say_error(cli, "eval: not one sample could be read");
        return HRI_EXIT_USAGE;
    }
    if (w->counted == 0) {
        hri_say_error(cli, "eval: not one label of the data counts (all are negative): there is "
                           "nothing to measure");
        return HRI_EXIT_USAGE;
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
        hri_say_error(cli, "eval: on which data?  --data images:DIR, for example");
        return HRI_EXIT_USAGE;
    }
    work w = {.data = o->data, .split = splits[o->split]};
    const hri_inference_options io = {.flags = &o->shared,
                                      .checkpoint = arguments[0],
                                      .data = o->data,
                                      .split = o->split,
                                      .seen = seen,
                                      .seen_user = &w};
    int code = hri_inference_open(cli, &io, &w.i);
    if (code == HRI_EXIT_YES) {
        code = evaluate(&w, cli);
    }
    hri_free(w.labels);
    hri_free(w.taken);
    hri_inference_close(&w.i);
    return code;
}

const hri_command hri_command_eval = {
    .name = "eval",
    .summary = "measures a trained model on data, inside a budget",
    .arguments = "CHECKPOINT",
    .choices = "",
    .arguments_min = 1,
    .arguments_max = 1,
    .help =
        "CHECKPOINT is the folder of a training (its best weights are taken, else its last) or a "
        "file of it. The samples go through the same stages as in that training's validation. "
        "Classes are matched by name: the data may have fewer of them than the model, in any "
        "order.\n\n"
        "A training with --val-split keeps samples apart: --split val measures on those, with the "
        "same --data as in the training; its loss and accuracy are what the training said. Without "
        "it every sample counts, those that were learnt from too.\n\n"
        "The evaluation is planned like a training: the budget bounds everything that the outside "
        "sees, and the answer comes before the first sample. With --batch auto the batch is the "
        "largest power of two up to 64 that fits; it changes no result but the speed.\n\n"
        "Loss, accuracy and top-5 are means over the labels that count: those that are not "
        "negative. The table shows the classes with "
        "most errors. The exit code is 1 when it does not fit, 2 when a sample cannot be read and "
        "--skip-bad is not given.",
    .examples = {{"headroom eval runs/flowers --data images:flowers-test", "how good is it?"},
                 {"headroom eval runs/flowers --data images:flowers --split val",
                  "on what the training kept apart"},
                 {"headroom eval runs/flowers --data images:flowers-test --budget 100MiB --json",
                  "inside 100 MiB, for a script"}},
    .fields = fields,
    .options_bytes = sizeof(eval_options),
    .run = run,
};
