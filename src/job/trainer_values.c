/* What a program's own loop looks at and changes: values by name, files of weights, metrics, evaluation; see
 * headroom/trainer.h.  trainer.c has the steps. */
#include <headroom/trainer.h>

#include <math.h>
#include <string.h>

#include "base/grow.h"
#include "job/together.h"
#include "models/common/model.h"

static hr_status give(hri_why *why, hr_status status, const hri_prose *prose, hr_error *error) {
    if (status != HR_OK) {
        (void)hri_why_prose(why, hri_cause_of(status), status, NULL, prose);
        hri_why_give(why, status, error);
    }
    return status;
}

/* ---- values ---- */

const hr_graph *hr_trainer_graph(const hr_trainer *t) {
    return hri_planned_graph(hri_trainer_job(t)->planned);
}

static int is_persistent(const hr_graph *g, hr_value v) {
    const hr_value_kind kind = hr_graph_kind(g, v);
    return kind == HR_VALUE_PARAM || kind == HR_VALUE_STATE;
}

/* A persistent value of that size. */
static hr_status find(const hr_trainer *t, const char *name, uint64_t bytes, hr_value *out) {
    const hr_graph *g = hr_trainer_graph(t);
    const hr_value v = hr_graph_find(g, name);
    if (v == HR_NONE || !is_persistent(g, v)) {
        return HR_E_NOT_FOUND;
    }
    const hr_meta meta = hr_graph_meta(g, v);
    *out = v;
    return hr_meta_bytes(&meta) == bytes ? HR_OK : HR_E_SHAPE;
}

hr_status hr_trainer_get(hr_trainer *t, const char *name, void *to, uint64_t bytes) {
    hr_value v = HR_NONE;
    const hr_status status = find(t, name, bytes, &v);
    return status == HR_OK ? hri_planned_get(hri_trainer_job(t)->planned, v, 0, to, bytes) : status;
}

hr_status hr_trainer_put(hr_trainer *t, const char *name, const void *from, uint64_t bytes) {
    hr_value v = HR_NONE;
    const hr_status status = find(t, name, bytes, &v);
    return status == HR_OK ? hri_planned_put(hri_trainer_job(t)->planned, v, 0, from, bytes)
                           : status;
}

hr_status hr_trainer_get_value(const hr_trainer *t, size_t index, hr_value_info *out) {
    const hr_graph *g = hr_trainer_graph(t);
    for (hr_value v = 1; v <= hr_graph_value_count(g); v++) {
        if (!is_persistent(g, v) || index--) {
            continue;
        }
        const hr_meta meta = hr_graph_meta(g, v);
        const hr_value_info info = {.size = sizeof info,
                                    .name = hr_graph_name(g, v),
                                    .shape = meta.shape,
                                    .bytes = hr_meta_bytes(&meta),
                                    .type = meta.type,
                                    .kind = (int32_t)hr_graph_kind(g, v)};
        return hri_give(out, &info, sizeof info);
    }
    return HR_E_EOF;
}

/* ---- files ---- */

hr_status hr_trainer_load_weights(hr_trainer *t, const char *path, hr_error *error) {
    hri_train_job *j = hri_trainer_job(t);
    hri_why why = {0};
    hri_prose prose = {""};
    hri_init_report report = {0};
    const hri_values to = {.put = hri_planned_put,
                           .user = j->planned,
                           .buffer_bytes = hri_planned_band_bytes(j->planned)};
    const hr_status status =
        hri_init_load(path, hri_planned_graph(j->planned), &to, j->want.classes,
                      j->plan->model ? j->plan->model->heads : NULL, &report, &prose);
    return give(&why, status, &prose, error);
}

hr_status hr_trainer_save_weights(hr_trainer *t, const char *path, hr_error *error) {
    hri_why why = {0};
    hri_prose prose = {""};
    const hr_status status = hri_trainer_save_weights(hri_trainer_job(t)->trainer, path, &prose);
    return give(&why, status, &prose, error);
}

/* ---- numbers ---- */

hr_status hr_trainer_set_learning_rate(hr_trainer *t, double rate) {
    if (rate < 0 || isinf(rate)) {
        return HR_E_RANGE;
    }
    hri_planned_set_rate(hri_trainer_job(t)->planned, rate);
    return HR_OK;
}

hr_status hr_trainer_get_metric(const hr_trainer *t, const char *name, int32_t of, double *out) {
    static const hri_trainer_span spans[] = {HRI_TRAINER_STEP, HRI_TRAINER_EPOCH,
                                             HRI_TRAINER_VALIDATION};
    return of < HR_METRIC_STEP || of > HR_METRIC_VALIDATION
               ? HR_E_INVALID
               : hri_trainer_metric(hri_trainer_job(t)->trainer, name, spans[of], out);
}

/* ---- evaluation ---- */

/* Samples in these fields, by the first of the model's inputs. */
static uint64_t samples_of(const hri_train_job *j, const hr_field *fields, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (!strcmp(fields[i].name, j->want.name)) {
            const uint64_t each = hr_meta_bytes(&j->want.sample);
            return each ? fields[i].bytes / each : 0;
        }
    }
    return 0;
}

/* Whole batches, then one sample after the other. */
static hr_status evaluate(hri_train_job *j, uint64_t samples, hri_numbers *sum, hri_prose *why) {
    double loss = 0, right = 0, top = 0;
    hr_status status = HR_OK;
    *sum = (hri_numbers){.counted = 0};
    while (status == HR_OK && j->feeds.field_first < samples) {
        hri_numbers n;
        status = hri_trainer_evaluate(j->trainer, &n, why);
        if (status == HR_OK) {
            loss += (double)n.loss * (double)n.counted;
            right += (double)n.accuracy * (double)n.counted;
            top += (double)n.top5 * (double)n.counted;
            sum->counted += n.counted;
            j->feeds.field_first += j->feeds.fed;
        }
    }
    const double all = (double)sum->counted;
    sum->loss = (float)(loss / all);
    sum->accuracy = (float)(right / all);
    sum->top5 = (float)(top / all);
    return status;
}

hr_status hr_trainer_evaluate(hr_trainer *t, const hr_field *fields, size_t count, hr_numbers *out,
                              hr_error *error) {
    hri_train_job *j = hri_trainer_job(t);
    hri_why why = {0};
    hri_prose prose = {""};
    hri_numbers n;
    const uint64_t planned = (uint64_t)hri_planned_evaluate_samples(j->planned);
    uint64_t samples = samples_of(j, fields, count);
    if (!planned) {
        return give(&why,
                    hri_prose_set(&prose, HR_E_UNSUPPORTED,
                                  "evaluation was not planned: the job has neither validation data "
                                  "nor val_batch"),
                    &prose, error);
    }
    samples = samples && hri_planned_has_single(j->planned) ? samples : planned;
    hr_status status = hri_fields_check(fields, count, &j->want, samples, &prose);
    if (status != HR_OK) {
        return give(&why, status, &prose, error);
    }
    j->feeds.fields = fields;
    j->feeds.field_count = count;
    j->feeds.want = &j->want;
    j->feeds.field_first = 0;
    j->feeds.field_samples = (uint32_t)samples;
    status = evaluate(j, samples, &n, &prose);
    j->feeds.fields = NULL;
    if (status != HR_OK || !out) {
        return give(&why, status, &prose, error);
    }
    const hr_numbers numbers = {.size = sizeof numbers,
                                .step = hri_trainer_progress(j->trainer)->state.step,
                                .epoch = hri_trainer_progress(j->trainer)->epoch + 1,
                                .samples = samples,
                                .loss = (double)n.loss,
                                .accuracy = (double)n.accuracy,
                                .top5 = (double)n.top5,
                                .learning_rate = NAN,
                                .gradient_norm = NAN,
                                .seconds = NAN,
                                .wait_seconds = NAN,
                                .samples_per_second = NAN,
                                .memory_bytes = HR_UNKNOWN,
                                .peak_bytes = HR_UNKNOWN};
    return hri_give(out, &numbers, sizeof numbers);
}
