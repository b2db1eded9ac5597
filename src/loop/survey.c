/* One pass over the training samples; see survey.h. */
#include "loop/survey.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "data/pipeline.h"

/* Of one column: sums around its first number, so that squares of large numbers lose nothing. */
typedef struct moments {
    double origin, sum, squares;
    uint64_t count;
} moments;

static void add(moments *m, float x) {
    if (isnan(x)) {
        return;
    }
    if (!m->count++) {
        m->origin = (double)x;
    }
    const double d = (double)x - m->origin;
    m->sum += d;
    m->squares += d * d;
}

static hr_status add_sample(const hr_element *e, const hri_tabular *t, moments *m) {
    const hr_field *x = hr_element_find(e, "x"), *y = hr_element_find(e, "y");
    if (!x || x->bytes != t->width * sizeof(float)) {
        return HR_E_SHAPE;
    }
    for (size_t i = 0; i < t->input_count; i++) {
        if (t->inputs[i].kind == HRI_COLUMN_NUMBER) {
            add(&m[i], ((const float *)x->data)[t->inputs[i].first]);
        }
    }
    for (size_t i = 0; y && i < t->target_count; i++) {
        if (t->targets[i].kind == HRI_COLUMN_NUMBER) {
            add(&m[t->input_count + i], ((const float *)y->data)[i]);
        }
    }
    return HR_OK;
}

static hr_status add_all(hr_pipeline *p, const hri_tabular *t, moments *m, hri_prose *why) {
    hr_status status = HR_OK;
    while (status == HR_OK) {
        hr_element *e = NULL;
        status = hr_pipeline_next(p, &e);
        if (status == HR_OK) {
            status = add_sample(e, t, m);
            hr_element_unref(e);
        } else if (status != HR_E_EOF) {
            hr_error error = {0};
            hr_pipeline_error(p, &error);
            return hri_prose_set(why, status, "%s", error.message);
        }
    }
    return status == HR_E_EOF ? HR_OK : status;
}

/* A column that never changes says nothing: it becomes 0 everywhere. */
static void settle(hri_column *c, const moments *m) {
    const double mean = m->sum / (double)m->count;
    const double var = m->squares / (double)m->count - mean * mean;
    c->mean = m->origin + mean;
    c->std = var > 1e-12 * (1 + c->mean * c->mean) ? sqrt(var) : 1;
}

static hr_status check(const hri_source *s, const moments *m, hri_prose *why) {
    const hri_tabular *t = s->table;
    for (size_t i = 0; i < t->input_count + t->target_count; i++) {
        const hri_column *c = i < t->input_count ? &t->inputs[i] : &t->targets[i - t->input_count];
        if (c->kind == HRI_COLUMN_NUMBER && !m[i].count) {
            return hri_prose_set(why, HR_E_INVALID,
                                 "%s: column \"%s\" has no number in any training sample", s->text,
                                 c->name);
        }
    }
    return HR_OK;
}

hr_status hri_survey_table(const char *text, hri_source *s, int scale_targets, hri_prose *why) {
    hri_tabular *t = s->table;
    hr_pipeline *p = NULL;
    hr_error error = {0};
    const hr_pipeline_options o = {
        .size = sizeof o, .budget_bytes = UINT64_C(1) << 40, .workers = 1, .skip_bad = 1};
    moments *m = hri_calloc(t->input_count + t->target_count, sizeof *m);
    if (!m) {
        return hri_prose_set(why, HR_E_NOMEM_HOST, "out of memory for the columns");
    }
    hr_status status = hri_pipeline_open_with(&o, text, t, &error, &p);
    if (status != HR_OK) {
        (void)hri_prose_set(why, status, "%s", error.message);
    }
    status = status == HR_OK ? add_all(p, t, m, why) : status;
    status = status == HR_OK ? check(s, m, why) : status;
    hr_pipeline_destroy(p);
    for (size_t i = 0; i < t->input_count && status == HR_OK; i++) {
        if (t->inputs[i].kind == HRI_COLUMN_NUMBER) {
            settle(&t->inputs[i], &m[i]);
        }
    }
    for (size_t i = 0; scale_targets && i < t->target_count && status == HR_OK; i++) {
        if (t->targets[i].kind == HRI_COLUMN_NUMBER) {
            settle(&t->targets[i], &m[t->input_count + i]);
        }
    }
    t->fitted = t->fitted || status == HR_OK;
    hri_free(m);
    return status;
}
