/* Scores of each sample as probabilities, in order; see headroom/predictor.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/grow.h"
#include "job/infer.h"

typedef struct guess {
    int32_t number;
    double probability;
} guess;

typedef struct ranks {
    guess *order;
    double *probabilities;
    int32_t *numbers;
    int64_t classes; /* 0: none */
    int flags;       /* each class is its own: probabilities do not add up to 1 */
    float *values;   /* numbers of a table in the units of its columns; NULL: as they are */
    hr_meta meta;    /* of the output of a sample */
} ranks;

static int by_probability(const void *a, const void *b) {
    const guess *x = a, *y = b;
    return x->probability != y->probability ? (x->probability > y->probability ? -1 : 1)
                                            : (x->number > y->number) - (x->number < y->number);
}

/* Scores to probabilities, sorted.  The largest is taken off first, so that no power overflows. */
static void rank(const float *scores, ranks *r) {
    float most = -INFINITY;
    double sum = 0;
    for (int64_t k = 0; k < r->classes;
         k++) { /* no fmax over doubles: gcc 12 breaks off over it on arm64 */
        most = scores[k] > most ? scores[k] : most;
    }
    for (int64_t k = 0; k < r->classes; k++) {
        r->order[k] = (guess){(int32_t)k, exp((double)scores[k] - (double)most)};
        sum += r->order[k].probability;
    }
    for (int64_t k = 0; k < r->classes; k++) {
        r->order[k].probability =
            r->flags ? 1 / (1 + exp(-(double)scores[k])) : r->order[k].probability / sum;
    }
    qsort(r->order, (size_t)r->classes, sizeof *r->order, by_probability);
    for (int64_t k = 0; k < r->classes; k++) {
        r->numbers[k] = r->order[k].number;
        r->probabilities[r->order[k].number] = r->order[k].probability;
    }
}

static hr_status open_ranks(const hr_predictor *p, ranks *r, hri_why *why) {
    if (!hri_predictor_output(p->predictor, &r->meta)) {
        return hri_why_set(why, HR_CAUSE_USAGE, HR_E_UNSUPPORTED,
                           "%s has no result for each sample, so there is nothing to predict",
                           p->of.checkpoint.about.model);
    }
    const hri_tabular *t = p->of.checkpoint.about.table;
    if (p->target == HRI_TARGET_NUMBERS && t &&
        hr_shape_count(&r->meta.shape) == (int64_t)t->target_count) {
        r->values = hri_calloc(t->target_count, sizeof *r->values);
        return r->values ? HR_OK : HR_E_NOMEM_HOST;
    }
    if (!hri_predictor_scores(p->predictor) || p->target == HRI_TARGET_NUMBERS) {
        return HR_OK; /* outputs alone */
    }
    r->flags = p->target == HRI_TARGET_FLAGS;
    r->classes = hri_predictor_classes(p->predictor);
    r->order = hri_calloc((size_t)r->classes, sizeof *r->order);
    r->probabilities = hri_calloc((size_t)r->classes, sizeof *r->probabilities);
    r->numbers = hri_calloc((size_t)r->classes, sizeof *r->numbers);
    return r->order && r->probabilities && r->numbers ? HR_OK : HR_E_NOMEM_HOST;
}

static hr_status give_batch(hr_predictor *p, ranks *r, hr_prediction_fn *fn, void *user) {
    const uint32_t fed = hri_predictor_fed(p->predictor);
    const char *name = p->has_names ? p->names.items : NULL;
    hr_status status = HR_OK;
    for (uint32_t s = 0; s < fed && status == HR_OK; s++) {
        hr_meta meta;
        const float *output =
            hri_predictor_output(p->predictor, &meta) + (int64_t)s * hr_shape_count(&r->meta.shape);
        if (r->classes) {
            rank(output, r);
        }
        for (size_t k = 0; r->values && k < p->of.checkpoint.about.table->target_count; k++) {
            const hri_column *c = &p->of.checkpoint.about.table->targets[k];
            r->values[k] = (float)((double)output[k] * c->std + c->mean);
        }
        output = r->values ? r->values : output;
        const hr_prediction one = {.size = sizeof one,
                                   .index = p->samples - fed + s,
                                   .name = name,
                                   .scores = r->classes ? output : NULL,
                                   .probabilities = r->probabilities,
                                   .order = r->numbers,
                                   .class_count = (uint64_t)r->classes,
                                   .output = output,
                                   .output_meta = r->meta};
        status = fn(user, &one);
        name += name ? strlen(name) + 1 : 0;
    }
    return status;
}

static hr_status predict(hr_predictor *p, ranks *r, hr_prediction_fn *fn, void *user,
                         hr_infer_result *result, hri_why *why) {
    bool over = false;
    hr_status status = hri_infer_begin(p, why);
    if (status == HR_OK) {
        status = open_ranks(p, r, why);
    }
    if (status != HR_OK) {
        return status;
    }
    while (status == HR_OK && !over) {
        status = hri_infer_next(p, &over, why);
        if (status == HR_OK && !over) {
            status = give_batch(p, r, fn, user);
        }
    }
    hri_infer_finish(p, result); /* what was predicted before a failure stands */
    return status;
}

hr_status hr_predictor_run(hr_predictor *p, hr_prediction_fn *fn, void *user,
                           hr_infer_result *result, hr_error *error) {
    hri_why why = {0};
    ranks r = {0};
    hr_infer_result own = {.size = sizeof own, .loss = NAN, .accuracy = NAN, .top5 = NAN};
    const hr_status status = predict(p, &r, fn, user, &own, &why);
    const hr_status given = result ? hri_give(result, &own, sizeof own) : HR_OK;
    hri_free(r.order);
    hri_free(r.probabilities);
    hri_free(r.numbers);
    hri_free(r.values);
    if (status != HR_OK || given != HR_OK) {
        hri_why_give(&why, status != HR_OK ? status : given, error);
    }
    return status != HR_OK ? status : given;
}
