/* How good a model is on data: sums, and what each class was taken for; see headroom/predictor.h. */
#include <math.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/grow.h"
#include "job/infer.h"

enum { MATRIX_MOST = 1000 };

typedef struct sums {
    double loss, right, top5; /* over labels that count; NAN: the model does not say */
    uint64_t counted;         /* those labels */
} sums;

/* The table of labels and predictions, for models that tell few enough classes apart. */
static hr_status open_table(hr_predictor *p) {
    const int64_t n = hri_predictor_classes(p->predictor);
    hri_free(p->taken);
    p->taken = NULL;
    p->classes = 0;
    if (!hri_predictor_scores(p->predictor) || n > MATRIX_MOST ||
        p->target != HRI_TARGET_CLASSES) {
        return HR_OK;
    }
    p->taken = hri_calloc((size_t)(n * n), sizeof *p->taken);
    p->classes = p->taken ? n : 0;
    return p->taken ? HR_OK : HR_E_NOMEM_HOST;
}

static void count_batch(hr_predictor *p, sums *s) {
    const hri_numbers n = hri_predictor_numbers(p->predictor);
    const uint32_t fed = hri_predictor_fed(p->predictor);
    const float *scores = hri_predictor_scores(p->predictor);
    s->loss += (double)n.loss * (double)n.counted;
    s->right += (double)n.accuracy * (double)n.counted;
    s->top5 += (double)n.top5 * (double)n.counted;
    s->counted += n.counted;
    for (uint32_t k = 0; p->taken && k < fed; k++) {
        const float *row = scores + (int64_t)k * p->classes;
        int64_t best = 0;
        for (int64_t c = 1; c < p->classes; c++) {
            best = row[c] > row[best] ? c : best;
        }
        if (p->labels[k] >= 0 && p->labels[k] < p->classes) {
            p->taken[p->labels[k] * p->classes + best]++;
        }
    }
}

static hr_status evaluate(hr_predictor *p, hr_infer_result *r, hri_why *why) {
    bool over = false;
    sums s = {0};
    hr_status status = hri_infer_begin(p, why);
    if (status == HR_OK) {
        status = open_table(p);
    }
    while (status == HR_OK && !over) {
        status = hri_infer_next(p, &over, why);
        if (status == HR_OK && !over) {
            count_batch(p, &s);
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
    return label < n && predicted < n ? p->taken[label * n + predicted] : 0;
}

hr_status hr_predictor_get_class(hr_predictor *p, size_t index, hr_class_result *out) {
    if (index >= (size_t)p->classes) {
        return HR_E_EOF;
    }
    hr_class_result c = {
        .size = sizeof c, .name = hr_predictor_class_name(p, index), .confused_with = -1};
    for (uint64_t k = 0; k < (uint64_t)p->classes; k++) {
        const uint64_t n = hr_predictor_confusion(p, index, k);
        c.samples += n;
        c.correct += k == index ? n : 0;
        if (k != index && n > c.confused_count) {
            c.confused_with = (int64_t)k;
            c.confused_count = n;
        }
    }
    return hri_give(out, &c, sizeof c);
}
