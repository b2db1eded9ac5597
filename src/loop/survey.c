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

hr_status hri_survey_each(const char *text, const hri_tabular *table, hr_element_fn *fn, void *user,
                          hri_prose *why) {
    const hr_pipeline_options o = {
        .size = sizeof o, .budget_bytes = UINT64_C(1) << 40, .workers = 1, .skip_bad = 1};
    const hr_pipeline_run_options once = {.size = sizeof once, .epochs = 1};
    hr_pipeline_run_result result = {.size = sizeof result};
    hr_pipeline *p = NULL;
    hr_error error = {0};
    hr_status status = hri_pipeline_open_with(&o, text, table, &error, &p);
    if (status == HR_OK) {
        status = hr_pipeline_run(p, &once, fn, user, &result);
        hr_pipeline_error(p, &error);
    }
    hr_pipeline_destroy(p);
    if (status != HR_OK && !why->text[0]) {
        (void)hri_prose_set(why, status, "%s",
                            error.message[0] ? error.message : hr_status_text(status));
    }
    return status;
}

/* ---- the columns of a table ---- */

typedef struct survey {
    const hri_tabular *table;
    moments *of; /* inputs, then targets */
} survey;

static hr_status add_sample(void *user, hr_element *e) {
    const survey *s = user;
    const hri_tabular *t = s->table;
    moments *m = s->of;
    const hr_field *x = hr_element_find(e, "x"), *y = hr_element_find(e, "y");
    if (hri_tabular_has_numbers(t) && (!x || x->bytes != t->width * sizeof(float))) {
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

/* A column that never changes says nothing: it becomes 0 everywhere.  Its number was rounded to f32 here and is not where a cell is
 * read, so that a large one leaves a rest, which is nothing next to the number itself. */
static void settle(hri_column *c, const moments *m) {
    const double mean = m->sum / (double)m->count;
    const double var = m->squares / (double)m->count - mean * mean;
    c->mean = m->origin + mean;
    const double constant = fabs(c->mean) > 0x1p24 ? fabs(c->mean) : 1;
    c->std = var > 1e-12 * (1 + c->mean * c->mean) ? sqrt(var) : constant;
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
    survey work = {t, hri_calloc(t->input_count + t->target_count, sizeof *work.of)};
    moments *m = work.of;
    if (!m) {
        return hri_prose_set(why, HR_E_NOMEM_HOST, "out of memory for the columns");
    }
    hr_status status = hri_survey_each(text, t, add_sample, &work, why);
    status = status == HR_OK ? check(s, m, why) : status;
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
