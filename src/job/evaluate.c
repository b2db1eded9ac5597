/* How good a model is on data: sums, and what each class was taken for; see headroom/predictor.h. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/grow.h"
#include "job/infer.h"

typedef struct sums {
    double loss, right, top5; /* over labels that count; NAN: the model does not say */
    uint64_t counted;         /* those labels */
} sums;

/* What is told of these outputs, for models that tell few enough classes apart. */
static hr_status open_metrics(hr_predictor *p) {
    hr_meta meta;
    hri_metrics_close(p->metrics);
    p->metrics = NULL;
    p->classes = 0;
    p->perplexity = NAN;
    const float *output = hri_predictor_output(p->predictor, &meta);
    const int64_t n = meta.shape.rank ? meta.shape.dim[meta.shape.rank - 1] : 0;
    const int64_t rows = n ? hr_shape_count(&meta.shape) / n : 0;
    const int ids = p->target == HRI_TARGET_CLASSES;
    if (!output || n < 1 || n > HRI_METRICS_CLASSES ||
        p->label_each != (uint64_t)(ids ? rows : rows * n)) {
        return HR_OK;
    }
    const hri_metrics_options o = {.target = p->target,
                                   .outputs = n,
                                   .table = p->of.checkpoint.about.table,
                                   .no_auc = rows > 1};
    const hr_status status = hri_metrics_open(&o, &p->metrics);
    p->classes = status == HR_OK && p->target != HRI_TARGET_NUMBERS ? n : 0;
    return status;
}

static hr_status count_batch(hr_predictor *p, sums *s) {
    const hri_numbers n = hri_predictor_numbers(p->predictor);
    const uint32_t fed = hri_predictor_fed(p->predictor);
    hr_meta meta;
    const float *scores = hri_predictor_output(p->predictor, &meta);
    s->loss += (double)n.loss * (double)n.counted;
    s->right += (double)n.accuracy * (double)n.counted;
    s->top5 += (double)n.top5 * (double)n.counted;
    s->counted += n.counted;
    if (!p->metrics) {
        return HR_OK;
    }
    const int64_t outputs = meta.shape.dim[meta.shape.rank - 1];
    const uint64_t rows = fed * (uint64_t)(hr_shape_count(&meta.shape) / outputs);
    return p->targets ? hri_metrics_add_reals(p->metrics, scores, p->targets, rows)
                      : hri_metrics_add_ids(p->metrics, scores, p->labels, rows);
}

static hr_status evaluate(hr_predictor *p, hr_infer_result *r, hri_why *why) {
    bool over = false;
    sums s = {0};
    hr_status status = hri_infer_begin(p, why);
    if (status == HR_OK) {
        status = open_metrics(p);
    }
    while (status == HR_OK && !over) {
        status = hri_infer_next(p, &over, why);
        if (status == HR_OK && !over) {
            status = count_batch(p, &s);
        }
    }
    if (status != HR_OK) {
        return status;
    }
    hri_infer_finish(p, r);
    if (p->samples == 0) {
        return hri_why_set(why, HR_CAUSE_DATA, HR_E_NOT_FOUND, "none of the samples could be read");
    }
    if (s.counted == 0) {
        return hri_why_set(why, HR_CAUSE_DATA, HR_E_NOT_FOUND,
                           "all labels are negative (ignored): there is nothing to evaluate");
    }
    r->counted = s.counted;
    r->loss = s.loss / (double)s.counted;
    r->accuracy = s.right / (double)s.counted;
    r->top5 = s.top5 / (double)s.counted;
    r->class_count = (uint64_t)p->classes;
    p->sums = (hri_wanted_sums){.loss = r->loss, .accuracy = r->accuracy};
    p->perplexity = hri_model_input_is_sequence(&p->of.want) ? exp(r->loss) : (double)NAN;
    return HR_OK;
}

hr_status hr_predictor_evaluate(hr_predictor *p, hr_infer_result *result, hr_error *error) {
    hri_why why = {0};
    hr_infer_result r = {.size = sizeof r, .loss = NAN, .accuracy = NAN, .top5 = NAN};
    hr_status status = evaluate(p, &r, &why);
    if (status == HR_OK) {
        status = hri_give(result, &r, sizeof r);
    }
    if (status != HR_OK) {
        hri_why_give(&why, status, error);
    }
    return status;
}

uint64_t hr_predictor_confusion(const hr_predictor *p, uint64_t label, uint64_t predicted) {
    const uint64_t n = (uint64_t)p->classes;
    return label < n && predicted < n && p->target == HRI_TARGET_CLASSES
               ? hri_metrics_confusion(p->metrics, (int64_t)label, (int64_t)predicted)
               : 0;
}

hr_status hr_predictor_get_class(hr_predictor *p, size_t index, hr_class_result *out) {
    if (index >= (size_t)p->classes) {
        return HR_E_EOF;
    }
    hr_class_result c = {
        .size = sizeof c, .name = hr_predictor_class_name(p, index), .confused_with = -1};
    hri_class_metrics m;
    const hr_status status = hri_metrics_class(p->metrics, (int64_t)index, &m);
    if (status != HR_OK) {
        return status;
    }
    c.samples = m.samples;
    c.correct = m.right;
    c.predicted = m.predicted;
    c.precision = m.precision;
    c.recall = m.recall;
    c.f1 = m.f1;
    c.iou = m.iou;
    c.auc = m.auc;
    for (uint64_t k = 0; k < (uint64_t)p->classes; k++) {
        const uint64_t n = hr_predictor_confusion(p, index, k);
        if (k != index && n > c.confused_count) {
            c.confused_with = (int64_t)k;
            c.confused_count = n;
        }
    }
    return hri_give(out, &c, sizeof c);
}

static int is_told(const hri_metric *made, size_t count, const char *name) {
    for (size_t i = 0; i < count; i++) {
        if (!strcmp(made[i].name, name)) {
            return 1;
        }
    }
    return 0;
}

hr_status hr_predictor_get_metric(hr_predictor *p, size_t index, hr_metric *out) {
    hri_metric made[HRI_METRICS_MAX + 1 + HRI_WANTED_MAX];
    size_t count = 0;
    hr_status status = p->metrics ? hri_metrics_get(p->metrics, made, &count) : HR_OK;
    if (status == HR_OK && !isnan(p->perplexity)) {
        made[count++] = (hri_metric){"perplexity", p->perplexity};
    }
    const size_t told = count;
    for (size_t i = 0; status == HR_OK && i < p->wanted.count; i++) {
        const hri_wanted_metric *w = &p->wanted.of[i];
        if (!is_told(made, told, w->name)) {
            made[count].name = w->name;
            status = hri_wanted_value(w, p->metrics, &p->sums, &made[count].value);
            count++;
        }
    }
    if (status != HR_OK || index >= count) {
        return status != HR_OK ? status : HR_E_EOF;
    }
    const hr_metric m = {.size = sizeof m, .name = made[index].name, .value = made[index].value};
    return hri_give(out, &m, sizeof m);
}
