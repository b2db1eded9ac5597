/* See infer.h. */
#include "show/infer.h"

#include <headroom/bytes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/prose.h"
#include "base/table.h"
#include "base/text.h"

enum { WORST = 5, PIXEL_ROWS = 40, MATRIX_MOST = 15 };

const char *const hri_splits[] = {"all", "train", "val", NULL};

const char *hri_infer_class(const hri_infer_sheet *s, int64_t number, char *buf, size_t size) {
    const char *name = number >= 0 ? hr_predictor_class_name(s->predictor, (uint64_t)number) : NULL;
    snprintf(buf, size, "%lld", (long long)number);
    return name ? name : buf;
}

static void show_memory(const hri_infer_sheet *s, hri_out *out) {
    const hr_infer_info *n = s->info;
    const hr_infer_result *r = s->result;
    char planned[32], measured[32], budget[32], headroom[32];
    hri_out_printf(out, "%llu sample%s in %.2f s, %.1f samples/s, batch %lld on %s\n",
                   (unsigned long long)r->samples, hri_plural(r->samples), r->seconds,
                   r->samples_per_second, (long long)n->batch, n->device);
    hri_out_printf(out, "  process  planned %s, peak resident %s",
                   hr_bytes_print(n->peak_bytes, planned, sizeof planned),
                   hr_bytes_print(r->measured_peak_bytes, measured, sizeof measured));
    if (n->budget_bytes) {
        const uint64_t left = n->budget_bytes > n->peak_bytes ? n->budget_bytes - n->peak_bytes : 0;
        hri_out_printf(out, ", budget %s, %s of headroom",
                       hr_bytes_print(n->budget_bytes, budget, sizeof budget),
                       hr_bytes_print(left, headroom, sizeof headroom));
    }
    hri_out_text(out, "\n");
}

void hri_infer_json(const hri_infer_sheet *s, hri_json *json) {
    const hr_infer_info *n = s->info;
    const hr_infer_result *r = s->result;
    hri_json_bool(json, "fits", true);
    hri_json_u64(json, "samples", r->samples);
    hri_json_u64(json, "bad", r->bad_samples);
    hri_json_u64(json, "batch", (uint64_t)n->batch);
    hri_json_string(json, "device", n->device);
    hri_json_u64(json, "budget_bytes", n->budget_bytes);
    hri_json_u64(json, "planned_peak_bytes", n->peak_bytes);
    hri_json_u64(json, "measured_peak_bytes", r->measured_peak_bytes);
    hri_json_u64(json, "floor_bytes", n->minimum_bytes);
    hri_json_u64(json, "runtime_bytes", n->runtime_bytes);
    hri_json_u64(json, "persistent_bytes", n->persistent_bytes);
    hri_json_u64(json, "arena_bytes", n->arena_bytes);
    hri_json_double(json, "samples_per_second", r->samples_per_second);
    hri_json_double(json, "seconds", r->seconds);
}

const char *hri_infer_sum(const hri_infer_sheet *s, char *buf, size_t size) {
    char planned[32], measured[32], budget[64] = "", text[32];
    const hr_infer_info *n = s->info;
    if (n->budget_bytes) {
        snprintf(budget, sizeof budget, ", budget %s",
                 hr_bytes_print(n->budget_bytes, text, sizeof text));
    }
    snprintf(buf, size, "%llu predicted; planned %s, peak resident %s%s",
             (unsigned long long)s->result->samples,
             hr_bytes_print(n->peak_bytes, planned, sizeof planned),
             hr_bytes_print(s->result->measured_peak_bytes, measured, sizeof measured), budget);
    return buf;
}

void hri_infer_refusal_json(const char *model, const char *checkpoint, uint64_t budget_bytes,
                            const char *reason, uint64_t smallest_bytes, hri_json *json) {
    hri_json_bool(json, "fits", false);
    hri_json_string(json, "model", model);
    hri_json_string(json, "checkpoint", checkpoint);
    hri_json_u64(json, "budget_bytes", budget_bytes);
    if (smallest_bytes) {
        hri_json_u64(json, "smallest_bytes", smallest_bytes);
    }
    hri_json_string(json, "reason", reason);
}

/* ---- evaluation ---- */

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
static class_sum sum_class(const hri_infer_sheet *s, uint64_t k) {
    class_sum c = {.number = (int64_t)k, .r = {.size = sizeof c.r}};
    (void)!hr_predictor_get_class(s->predictor, (size_t)k, &c.r); /* there are so many */
    return c;
}

/* How well the pixels of each class were found; the classes in their own order. */
static hr_status show_pixels(const hri_infer_sheet *s, hri_out *out, const hri_term *term) {
    static const char *const heads[] = {"CLASS", ">PIXELS", ">IOU", ">DICE", "MISTAKEN FOR"};
    hri_table t;
    hri_table_init(&t, heads, 5);
    for (uint64_t k = 0; k < s->result->class_count && k < PIXEL_ROWS; k++) {
        char a[32], b[32];
        const class_sum c = sum_class(s, k);
        hri_table_cell(&t, HRI_STYLE_PLAIN, "%s", hri_infer_class(s, c.number, a, sizeof a));
        hri_table_cell(&t, HRI_STYLE_PLAIN, "%llu", (unsigned long long)c.r.samples);
        hri_table_cell(&t, HRI_STYLE_PLAIN, "%.4f", c.r.iou);
        hri_table_cell(&t, HRI_STYLE_PLAIN, "%.4f", c.r.f1);
        hri_table_cell(&t, HRI_STYLE_PLAIN, "%s",
                       c.r.confused_count ? hri_infer_class(s, c.r.confused_with, b, sizeof b)
                                          : "");
    }
    const hr_status status = hri_table_print(&t, out, term, 2, 1);
    hri_table_deinit(&t);
    return status;
}

/* How well each label was told, where a sample may have several. */
static hr_status show_labels(const hri_infer_sheet *s, hri_out *out, const hri_term *term) {
    static const char *const heads[] = {"LABEL",   ">SAMPLES", ">FOUND", ">PRECISION",
                                        ">RECALL", ">F1",      ">AUC"};
    hri_table t;
    hri_table_init(&t, heads, 7);
    for (uint64_t k = 0; k < s->result->class_count && k < PIXEL_ROWS; k++) {
        char a[32];
        const class_sum c = sum_class(s, k);
        const double values[] = {c.r.precision, c.r.recall, c.r.f1, c.r.auc};
        hri_table_cell(&t, HRI_STYLE_PLAIN, "%s", hri_infer_class(s, c.number, a, sizeof a));
        hri_table_cell(&t, HRI_STYLE_PLAIN, "%llu", (unsigned long long)c.r.samples);
        hri_table_cell(&t, HRI_STYLE_PLAIN, "%llu", (unsigned long long)c.r.correct);
        for (int i = 0; i < 4; i++) {
            hri_table_cell(&t, HRI_STYLE_PLAIN, isnan(values[i]) ? "" : "%.4f", values[i]);
        }
    }
    const hr_status status = hri_table_print(&t, out, term, 2, 1);
    hri_table_deinit(&t);
    return status;
}

static hr_status show_worst(const hri_infer_sheet *s, hri_out *out, const hri_term *term) {
    static const char *const heads[] = {"CLASS", ">SAMPLES", ">RIGHT", "MISTAKEN FOR"};
    const uint64_t classes = s->result->class_count;
    class_sum *sums = hri_calloc((size_t)classes, sizeof *sums);
    if (!sums) {
        return HR_E_NOMEM_HOST;
    }
    for (uint64_t k = 0; k < classes; k++) {
        sums[k] = sum_class(s, k);
    }
    qsort(sums, (size_t)classes, sizeof *sums, by_errors);
    hri_table t;
    hri_table_init(&t, heads, 4);
    for (uint64_t k = 0; k < classes && k < WORST && sums[k].r.samples > sums[k].r.correct; k++) {
        char a[32], b[32];
        const hr_class_result *r = &sums[k].r;
        hri_table_cell(&t, HRI_STYLE_PLAIN, "%s", hri_infer_class(s, sums[k].number, a, sizeof a));
        hri_table_cell(&t, HRI_STYLE_PLAIN, "%llu", (unsigned long long)r->samples);
        hri_table_cell(&t, HRI_STYLE_PLAIN, "%.1f %%",
                       100.0 * (double)r->correct / (double)r->samples);
        hri_table_cell(&t, HRI_STYLE_PLAIN, "%s (%llu)",
                       hri_infer_class(s, r->confused_with, b, sizeof b),
                       (unsigned long long)r->confused_count);
    }
    const hr_status status = t.used ? hri_table_print(&t, out, term, 2, 1) : HR_OK;
    hri_table_deinit(&t);
    hri_free(sums);
    return status;
}

static void add_share(hri_text *text, const char *name, double share) {
    if (!isnan(share)) {
        hri_text_add(text, "%s %.2f %%, ", name, 100 * share);
    }
}

/* What the title does not have: "precision 0.9431, recall 0.9388, f1 0.9407". */
static void show_metrics(const hri_infer_sheet *s, hri_out *out) {
    hr_metric m = {.size = sizeof m};
    int first = 1;
    for (size_t i = 0; hr_predictor_get_metric(s->predictor, i, &m) == HR_OK; i++) {
        if (!isnan(m.value) && (strcmp(m.name, "accuracy") != 0 || isnan(s->result->accuracy))) {
            hri_out_printf(out, "%s%s %.*g", first ? "" : ", ", m.name, m.value < 1 ? 4 : 6,
                           m.value);
            first = 0;
        }
    }
    hri_out_text(out, first ? "" : "\n");
}

bool hri_confusion_is_shown(const char *path) {
    return path && !strcmp(path, "-");
}

/* A row per label, a column per prediction. */
static hr_status show_matrix(const hri_infer_sheet *s, hri_out *out, const hri_term *term) {
    const char *heads[MATRIX_MOST + 1] = {"LABEL"};
    char names[MATRIX_MOST][32], name[32];
    const uint64_t n = s->result->class_count;
    hri_table t;
    uint64_t all = 0;
    for (uint64_t k = 0; k < n * n; k++) {
        all += hr_predictor_confusion(s->predictor, k / n, k % n);
    }
    if (!all || n > MATRIX_MOST) {
        hri_out_printf(out,
                       "  the confusion matrix is shown of 1 to %d classes; write it to a file "
                       "with --confusion FILE.csv\n",
                       MATRIX_MOST);
        return HR_OK;
    }
    for (uint64_t k = 0; k < n; k++) {
        snprintf(names[k], sizeof names[k], ">%s",
                 hri_infer_class(s, (int64_t)k, name, sizeof name));
        heads[k + 1] = names[k];
    }
    hri_table_init(&t, heads, (size_t)n + 1);
    for (uint64_t r = 0; r < n; r++) {
        hri_table_cell(&t, HRI_STYLE_PLAIN, "%s",
                       hri_infer_class(s, (int64_t)r, name, sizeof name));
        for (uint64_t c = 0; c < n; c++) {
            hri_table_cell(&t, HRI_STYLE_PLAIN, "%llu",
                           (unsigned long long)hr_predictor_confusion(s->predictor, r, c));
        }
    }
    const hr_status status = hri_table_print(&t, out, term, 2, 1);
    hri_table_deinit(&t);
    return status;
}

hr_status hri_evaluation_show(const hri_infer_sheet *s, const char *confusion, hri_out *out,
                              const hri_term *term) {
    const hr_infer_result *r = s->result;
    hri_text title = {0};
    add_share(&title, "accuracy", r->accuracy);
    add_share(&title, "top-5", r->top5);
    hri_text_add(&title, "loss %.4f", r->loss);
    hri_show_title(out, term, "%s", hri_text_get(&title));
    hri_text_deinit(&title);
    show_metrics(s, out);
    hri_out_printf(out, "%s, from %s\n", s->info->model, s->info->checkpoint);
    if (s->split != HR_SPLIT_ALL) {
        hri_out_printf(out, "on the samples that were %s\n",
                       s->split == HR_SPLIT_VAL ? "held out for validation" : "used for training");
    }
    show_memory(s, out);
    const hr_status status = !r->class_count          ? HR_OK
                             : s->info->pixel_classes ? show_pixels(s, out, term)
                             : s->info->multi_label   ? show_labels(s, out, term)
                                                      : show_worst(s, out, term);
    return status == HR_OK && hri_confusion_is_shown(confusion) ? show_matrix(s, out, term)
                                                                : status;
}

void hri_evaluation_next(const hri_infer_sheet *s, const char *data, hri_text *out) {
    if (!s->info->class_count && !s->info->pixel_classes) {
        hri_text_add(out, "headroom help train"); /* it names no classes */
        return;
    }
    hri_text_add(out, "headroom predict ");
    hri_text_word(out, s->info->checkpoint);
    hri_text_add(out, " ");
    if (s->info->pixel_classes) {
        hri_text_add(out, "DIR --out masks");
    } else {
        hri_text_word(out, data);
    }
}

void hri_evaluation_json(const hri_infer_sheet *s, const char *confusion, hri_json *json) {
    const hr_infer_result *r = s->result;
    hri_json_string(json, "model", s->info->model);
    hri_json_string(json, "checkpoint", s->info->checkpoint);
    hri_json_string(json, "split", hri_splits[s->split]);
    hri_json_double(json, "loss", r->loss);
    hri_json_double(json, "accuracy", r->accuracy);
    hri_json_double(json, "top5", r->top5);
    hri_infer_json(s, json);
    hri_json_object(json, "metrics");
    hr_metric m = {.size = sizeof m};
    for (size_t i = 0; hr_predictor_get_metric(s->predictor, i, &m) == HR_OK; i++) {
        hri_json_double(json, m.name, m.value);
    }
    hri_json_end(json);
    hri_json_array(json, "classes");
    for (uint64_t k = 0; k < r->class_count; k++) {
        const class_sum c = sum_class(s, k);
        char text[32];
        hri_json_object(json, NULL);
        hri_json_string(json, "name", hri_infer_class(s, c.number, text, sizeof text));
        hri_json_u64(json, "samples", c.r.samples);
        hri_json_u64(json, "right", c.r.correct);
        hri_json_double(json, "precision", c.r.precision);
        hri_json_double(json, "recall", c.r.recall);
        hri_json_double(json, "f1", c.r.f1);
        hri_json_double(json, "iou", c.r.iou);
        hri_json_double(json, "auc", c.r.auc);
        hri_json_end(json);
    }
    hri_json_end(json);
    if (!hri_confusion_is_shown(confusion)) {
        return;
    }
    hri_json_array(json, "confusion");
    for (uint64_t k = 0; k < r->class_count; k++) {
        hri_json_array(json, NULL);
        for (uint64_t c = 0; c < r->class_count; c++) {
            hri_json_u64(json, NULL, hr_predictor_confusion(s->predictor, k, c));
        }
        hri_json_end(json);
    }
    hri_json_end(json);
}
