/* See trainer_rig.h. */
#include "trainer_rig.h"

#include <stdio.h>
#include <string.h>

#include "pictures.h"
#include "test.h"

float left[SAMPLES][3], right[SAMPLES][2], target[SAMPLES];

/* y = left . w + right . v, learned by its mean squared error: three inputs, none of them called label. */
static hr_status build(void *user, hr_graph *g, int64_t batch, int training) {
    (void)user, (void)training;
    const hr_init start = hr_init_constant(0.1);
    const hr_value a = hr_graph_input(g, "left", HR_TYPE_F32, hr_shape_2(batch, 3));
    const hr_value b = hr_graph_input(g, "right", HR_TYPE_F32, hr_shape_2(batch, 2));
    const hr_value y = hr_graph_input(g, "target", HR_TYPE_F32, hr_shape_2(batch, 1));
    const hr_value w = hr_graph_param(g, "w", HR_TYPE_F32, hr_shape_2(1, 3), start);
    const hr_value v = hr_graph_param(g, "v", HR_TYPE_F32, hr_shape_2(1, 2), start);
    const hr_value sum = hr_add(g, hr_linear(g, a, w, HR_NONE), hr_linear(g, b, v, HR_NONE));
    hr_graph_result(g, hr_mean_squared_error(g, sum, y), "loss");
    return HR_OK;
}

static hr_pipeline *samples(size_t from, size_t count) {
    const int64_t n = (int64_t)count;
    const hr_field arrays[] = {
        {"right", {HR_TYPE_F32, hr_shape_2(n, 2)}, count * sizeof right[0], right[from]},
        {"target", {HR_TYPE_F32, hr_shape_1(n)}, count * sizeof target[0], &target[from]},
        {"left", {HR_TYPE_F32, hr_shape_2(n, 3)}, count * sizeof left[0], left[from]}};
    const hr_pipeline_options o = {.size = sizeof o, .budget_bytes = 1 << 20, .workers = 1};
    hr_pipeline *p = NULL;
    CHECK_OK(hr_pipeline_create(&o, &p));
    CHECK_OK(hr_pipeline_arrays(p, arrays, 3));
    CHECK_OK(hr_pipeline_build(p));
    return p;
}

static hr_status on_event(void *user, const hr_job_event *e) {
    rig *r = user;
    r->started += e->kind == HR_EVENT_STARTED;
    r->steps += e->kind == HR_EVENT_STEP;
    r->validations += e->kind == HR_EVENT_VALIDATED;
    r->epochs += e->kind == HR_EVENT_EPOCH;
    r->saved += e->kind == HR_EVENT_SAVED;
    r->save_failed += e->kind == HR_EVENT_SAVE_FAILED;
    r->bad += e->kind == HR_EVENT_BAD_SAMPLE;
    r->ticks += e->kind == HR_EVENT_TICK && e->trainer;
    if (e->kind >= HR_EVENT_SAVED && e->kind <= HR_EVENT_BAD_SAMPLE) {
        snprintf(r->text, sizeof r->text, "%s", e->text);
    }
    if (e->kind == HR_EVENT_STEP) {
        CHECK(e->trainer != NULL && e->numbers->samples == BATCH);
        r->last_loss = e->numbers->loss;
    }
    return e->kind == HR_EVENT_STEP && e->numbers->step == r->answer_at ? r->answer : HR_OK;
}

const char *in(const char *name) {
    static char paths[4][600];
    static unsigned at;
    char *path = paths[at++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", test_folder(), name);
    return path;
}

void rig_open(rig *r) {
    const hr_ctx_options co = {.size = sizeof co, .no_cuda = 1};
    const hr_model_options mo = {.size = sizeof mo, .name = "sum of two", .build = build};
    hr_error why = {.code = HR_OK};
    uint64_t state = 5;
    for (int i = 0; i < SAMPLES; i++) {
        float *numbers[] = {left[i], right[i]};
        target[i] = 0;
        for (int k = 0; k < 5; k++) {
            float *x = &numbers[k / 3][k % 3];
            *x = (float)(test_random(&state) % 1000) / 500.0f - 1.0f;
            target[i] += *x * (float)(k + 1);
        }
    }
    *r = (rig){.answer_at = UINT64_MAX};
    CHECK_OK(hr_ctx_create(&co, &r->ctx));
    if (hr_model_define(&mo, &r->model, &why) != HR_OK) {
        test_fail(__FILE__, __LINE__, "%s", why.message);
    }
    r->o = (hr_job_options){.size = sizeof r->o,
                            .custom_model = r->model,
                            .training = "rate=0.05",
                            .batch = BATCH,
                            .epochs = 3,
                            .micro_batches = 1,
                            .no_measure = 1,
                            .threads = 1,
                            .on_event = on_event,
                            .user = r,
                            .pipeline = samples(HELD, SAMPLES - HELD),
                            .val_pipeline = samples(0, HELD)};
}

void rig_plan(rig *r) {
    hr_error why = {.code = HR_OK};
    if (hr_job_plan(r->ctx, &r->o, &r->plan, &why) != HR_OK) {
        test_fail(__FILE__, __LINE__, "%s", why.message);
    }
}

void rig_close(rig *r) {
    hr_plan_destroy(r->plan);
    hr_pipeline_destroy(r->o.pipeline);
    hr_pipeline_destroy(r->o.val_pipeline);
    hr_model_close(r->model);
    hr_ctx_destroy(r->ctx);
}

double loss_of(const float *w, const float *v) {
    double sum = 0;
    for (int i = 0; i < HELD; i++) {
        double y = 0;
        for (int k = 0; k < 3; k++) {
            y += (double)left[i][k] * (double)w[k];
        }
        for (int k = 0; k < 2; k++) {
            y += (double)right[i][k] * (double)v[k];
        }
        sum += (y - (double)target[i]) * (y - (double)target[i]);
    }
    return sum / HELD;
}

void fields_of(size_t from, size_t count, hr_field to[3]) {
    const int64_t n = (int64_t)count;
    to[0] =
        (hr_field){"right", {HR_TYPE_F32, hr_shape_2(n, 2)}, count * sizeof right[0], right[from]};
    to[1] = (hr_field){
        "target", {HR_TYPE_F32, hr_shape_2(n, 1)}, count * sizeof target[0], &target[from]};
    to[2] = (hr_field){"left", {HR_TYPE_F32, hr_shape_2(n, 3)}, count * sizeof left[0], left[from]};
}
