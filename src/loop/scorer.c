/* Labels, scores and the sums over them; see scorer.h. */
#include "loop/scorer.h"

#include <math.h>

#include "base/alloc.h"

struct hri_scorer {
    hri_scorer_options o;
    hri_metrics *metrics; /* NULL: nothing that is wanted needs scores */
    int32_t *ids;         /* (samples, label_each), or NULL */
    float *reals;         /* the same of real targets */
    float *scores;        /* (samples, rows, outputs) */
    uint64_t score_room;
};

/* Number k of a field; NAN: it is none. */
static double number_at(const hr_field *f, uint64_t k) {
    return f->meta.type == HR_TYPE_I32   ? (double)((const int32_t *)f->data)[k]
           : f->meta.type == HR_TYPE_I64 ? (double)((const int64_t *)f->data)[k]
           : f->meta.type == HR_TYPE_U8  ? (double)((const uint8_t *)f->data)[k]
           : f->meta.type == HR_TYPE_F32 ? (double)((const float *)f->data)[k]
                                         : (double)NAN;
}

void hri_labels_keep(const hr_element *sample, const char *field, uint64_t each, int32_t *to_ids,
                     float *to_reals) {
    const hr_field *f = hr_element_find(sample, field);
    const int whole = f && f->bytes == each * hr_type_bytes(f->meta.type);
    for (uint64_t k = 0; k < each; k++) {
        const double x = whole ? number_at(f, k) : (double)NAN;
        if (to_reals) {
            to_reals[k] = (float)x;
        } else {
            to_ids[k] = x >= 0 && x < 1e9 ? (int32_t)x : -1;
        }
    }
}

static int needs_scores(const hri_wanted *w) {
    for (size_t i = 0; i < w->count; i++) {
        if (w->of[i].scores) {
            return 1;
        }
    }
    return 0;
}

static uint64_t score_count(const hri_scorer_options *o) {
    const uint64_t each = o->samples * o->label_each;
    return o->metrics.target == HRI_TARGET_CLASSES ? each * (uint64_t)o->metrics.outputs : each;
}

uint64_t hri_scorer_bytes(const hri_scorer_options *o) {
    return !needs_scores(o->wanted)
               ? 0
               : hri_metrics_bytes(&o->metrics) + score_count(o) * sizeof(float) +
                     o->samples * o->label_each * sizeof(float) + 8192;
}

hr_status hri_scorer_open(const hri_scorer_options *o, hri_scorer **out) {
    const uint64_t labels = o->samples * o->label_each;
    hri_scorer *s = hri_calloc(1, sizeof *s);
    hr_status status = s ? HR_OK : HR_E_NOMEM_HOST;
    if (s) {
        s->o = *o;
    }
    if (status == HR_OK && needs_scores(o->wanted)) {
        s->score_room = score_count(o);
        s->scores = hri_calloc(s->score_room ? s->score_room : 1, sizeof *s->scores);
        if (o->metrics.target == HRI_TARGET_CLASSES) {
            s->ids = hri_calloc(labels ? labels : 1, sizeof *s->ids);
        } else {
            s->reals = hri_calloc(labels ? labels : 1, sizeof *s->reals);
        }
        status = s->scores && (s->ids || s->reals) ? hri_metrics_open(&o->metrics, &s->metrics)
                                                   : HR_E_NOMEM_HOST;
    }
    if (status != HR_OK) {
        hri_scorer_close(s);
        return status;
    }
    *out = s;
    return HR_OK;
}

void hri_scorer_close(hri_scorer *s) {
    if (s) {
        hri_metrics_close(s->metrics);
        hri_free(s->ids);
        hri_free(s->reals);
        hri_free(s->scores);
        hri_free(s);
    }
}

void hri_scorer_begin(hri_scorer *s) {
    if (s->metrics) {
        hri_metrics_clear(s->metrics);
    }
}

void hri_scorer_seen(void *scorer, uint32_t index, const hr_element *sample) {
    hri_scorer *s = scorer;
    const uint64_t at = index * s->o.label_each;
    if (s->metrics && index < s->o.samples) {
        hri_labels_keep(sample, s->o.label, s->o.label_each, s->ids ? s->ids + at : NULL,
                        s->reals ? s->reals + at : NULL);
    }
}

hr_status hri_scorer_add(hri_scorer *s, hri_planned *planned, uint32_t samples, hri_prose *why) {
    uint64_t count = 0;
    if (!s->metrics) {
        return HR_OK;
    }
    hr_status status = hri_planned_scores(planned, s->scores, s->score_room, &count);
    if (status != HR_OK) {
        return hri_prose_set(
            why, status,
            status == HR_E_UNSUPPORTED
                ? "metrics need a model with a result named \"logits\", one row of "
                  "scores per label; this one makes its loss without it"
                : "reading the scores of a validation batch failed");
    }
    const uint64_t rows =
        samples * (s->ids ? s->o.label_each : s->o.label_each / (uint64_t)s->o.metrics.outputs);
    if (rows * (uint64_t)s->o.metrics.outputs > count) {
        return hri_prose_set(why, HR_E_SHAPE,
                             "metrics: the scores of %u samples are %llu numbers, their labels "
                             "need %llu",
                             samples, (unsigned long long)count,
                             (unsigned long long)(rows * (uint64_t)s->o.metrics.outputs));
    }
    status = s->ids ? hri_metrics_add_ids(s->metrics, s->scores, s->ids, rows)
                    : hri_metrics_add_reals(s->metrics, s->scores, s->reals, rows);
    return status == HR_OK ? HR_OK : hri_prose_set(why, status, "out of memory for metrics");
}

hr_status hri_scorer_value(hri_scorer *s, size_t i, const hri_wanted_sums *sums, double *out) {
    return hri_wanted_value(&s->o.wanted->of[i], s->metrics, sums, out);
}

const hri_wanted *hri_scorer_wanted(const hri_scorer *s) {
    return s->o.wanted;
}
