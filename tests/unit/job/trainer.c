/* The doors of headroom/trainer.h and checkpoint.h: a program trains without the command, and everything is written all
 * the same; several inputs by name; a loss that leaves nothing out on a short last batch; listeners that stop it. */
#include <headroom/headroom.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pictures.h"
#include "test.h"

enum { SAMPLES = 44, HELD = 7, BATCH = 4 };

static float left[SAMPLES][3], right[SAMPLES][2], target[SAMPLES];

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

typedef struct rig {
    hr_ctx *ctx;
    hr_model *model;
    hr_job_options o;
    hr_plan *plan;
    int steps, validations, epochs, started, saved, save_failed, bad, ticks;
    char text[600];   /* of the last one that was saved, failed or bad */
    hr_status answer; /* to the event of step `answer_at` */
    uint64_t answer_at;
    double last_loss;
} rig;

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

static const char *in(const char *name) {
    static char paths[4][600];
    static unsigned at;
    char *path = paths[at++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", test_folder(), name);
    return path;
}

static void rig_open(rig *r) {
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

static void rig_plan(rig *r) {
    hr_error why = {.code = HR_OK};
    if (hr_job_plan(r->ctx, &r->o, &r->plan, &why) != HR_OK) {
        test_fail(__FILE__, __LINE__, "%s", why.message);
    }
}

static void rig_close(rig *r) {
    hr_plan_destroy(r->plan);
    hr_pipeline_destroy(r->o.pipeline);
    hr_pipeline_destroy(r->o.val_pipeline);
    hr_model_close(r->model);
    hr_ctx_destroy(r->ctx);
}

/* The validation loss of these weights, in double. */
static double loss_of(const float *w, const float *v) {
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

TEST(job_trainer, inputs_are_fed_by_name_and_a_short_last_batch_counts_what_it_has) {
    rig r;
    hr_trainer *t = NULL;
    hr_numbers n = {.size = sizeof n};
    hr_error why = {.code = HR_OK};
    float w[3], v[2];
    rig_open(&r);
    rig_plan(&r);
    CHECK_OK(hr_trainer_open(r.plan, 0, &t, &why));
    CHECK_EQ(r.started, 1);
    while (hr_trainer_end(t) == HR_END_RUNNING) {
        CHECK_OK(hr_trainer_advance(t, &why));
    }
    CHECK_EQ(hr_trainer_end(t), HR_END_DONE);
    CHECK_EQ(r.steps, 3 * ((SAMPLES - HELD) / BATCH));
    CHECK(r.validations == 3 && r.epochs == 3);
    CHECK_STATUS(hr_trainer_advance(t, &why), HR_E_BUSY);
    CHECK_OK(hr_trainer_get(t, "w", w, sizeof w));
    CHECK_OK(hr_trainer_get(t, "v", v, sizeof v));
    CHECK_STATUS(hr_trainer_get(t, "w", w, 4), HR_E_SHAPE);
    CHECK_STATUS(hr_trainer_get(t, "left", w, sizeof w), HR_E_NOT_FOUND);
    hr_train_result result = {.size = sizeof result};
    CHECK_OK(hr_job_get_result(r.plan, 0, &result));
    CHECK_EQ(result.val_samples, HELD);
    CHECK(fabs(result.val_loss - loss_of(w, v)) < 1e-5 * (1 + result.val_loss));
    w[0] = 9; /* what is put is what is evaluated */
    CHECK_OK(hr_trainer_put(t, "w", w, sizeof w));
    CHECK_OK(hr_trainer_validate(t, &n, &why));
    CHECK(n.samples == HELD && fabs(n.loss - loss_of(w, v)) < 1e-5 * (1 + n.loss));
    hr_trainer_close(t);
    rig_close(&r);
}

static hr_status keep_text(void *user, const char *text, size_t bytes) {
    char *to = user;
    const size_t used = strlen(to);
    CHECK(used + bytes < 8192);
    memcpy(to + used, text, bytes);
    to[used + bytes] = '\0';
    return HR_OK;
}

static hr_status refuse_text(void *user, const char *text, size_t bytes) {
    (void)user, (void)text, (void)bytes;
    return HR_E_IO;
}

/* As the command ends: for people, and for scripts. */
static void check_printed(const hr_plan *plan) {
    static char text[8192];
    text[0] = '\0';
    CHECK_OK(hr_job_print(plan, 0, HR_TRAIN_TEXT, 100, keep_text, text));
    CHECK(strncmp(text, "done: 27 steps, 3 epochs in ", 28) == 0);
    CHECK(strstr(text, "\n  memory   planned ") && strstr(text, "\n  time     "));
    CHECK(strstr(text, "last.safetensors (resume from step 27)"));
    CHECK(!strchr(text, 27) && !strstr(text, "next:"));
    text[0] = '\0';
    CHECK_OK(hr_job_print(plan, 0, HR_TRAIN_TEXT | HR_PRINT_COLOR, 0, keep_text, text));
    CHECK(text[0] == 27);
    text[0] = '\0';
    CHECK_OK(hr_job_print(plan, 0, HR_TRAIN_JSON, 0, keep_text, text));
    CHECK(strstr(text, "\"version\": 1") && strstr(text, "\"steps\": 27"));
    CHECK(strstr(text, "\"left_over_samples\": ") && strstr(text, "\"host_budget_bytes\": null"));
    CHECK_STATUS(hr_job_print(plan, 0, HR_TRAIN_TEXT, 0, refuse_text, NULL), HR_E_IO);
    CHECK_STATUS(hr_job_print(plan, 1, HR_TRAIN_TEXT, 0, keep_text, text), HR_E_NOT_FOUND);
    CHECK_STATUS(hr_job_print(plan, 0, 7, 0, keep_text, text), HR_E_INVALID);
}

TEST(job_trainer, without_a_listener_log_chart_and_checkpoint_are_written_all_the_same) {
    rig r;
    char line[4096], last[4096] = "";
    hr_error why = {.code = HR_OK};
    rig_open(&r);
    r.o.on_event = NULL;
    r.o.log = in("run.jsonl");
    r.o.svg = in("run.svg");
    r.o.folder = in("run");
    rig_plan(&r);
    CHECK_OK(hr_job_train(r.plan, &why));
    CHECK_STATUS(hr_job_train(r.plan, &why), HR_E_BUSY);
    check_printed(r.plan);
    hr_plan_destroy(r.plan);
    r.plan = NULL;
    FILE *f = fopen(in("run.jsonl"), "r");
    CHECK(f != NULL);
    while (fgets(line, sizeof line, f)) {
        snprintf(last, sizeof last, "%s", line);
    }
    fclose(f);
    CHECK(strstr(last, "\"event\": \"end\"") || strstr(last, "\"event\":\"end\""));
    CHECK_EQ(access(in("run.svg"), R_OK), 0);
    /* And the checkpoint says what it is of, and holds the model itself. */
    hr_checkpoint *c = NULL;
    hr_checkpoint_info info = {.size = sizeof info};
    hr_tensor_info tensor = {.size = sizeof tensor};
    hr_model *m = NULL;
    float w[3];
    size_t count = 0;
    CHECK_OK(hr_checkpoint_open(in("run/last.safetensors"), &c, &why));
    CHECK_OK(hr_checkpoint_get_info(c, &info));
    CHECK(info.resumable && info.custom && info.step == 27 && info.batch == BATCH);
    CHECK_OK(hr_checkpoint_model(c, &m, &why));
    CHECK_EQ(hr_model_fingerprint(m), hr_model_fingerprint(r.model));
    hr_model_close(m);
    CHECK_OK(hr_checkpoint_read(c, "w", HR_TYPE_F32, 0, w, 3, &why));
    CHECK_STATUS(hr_checkpoint_read(c, "w", HR_TYPE_F32, 2, w, 2, &why), HR_E_RANGE);
    CHECK_STATUS(hr_checkpoint_read(c, "x", HR_TYPE_F32, 0, w, 1, &why), HR_E_NOT_FOUND);
    while (hr_checkpoint_get_tensor(c, count, &tensor) == HR_OK) {
        count++;
    }
    CHECK_EQ(count, info.tensor_count);
    hr_checkpoint_close(c);
    rig_close(&r);
}

TEST(job_trainer, a_listener_cancels_and_a_resumed_run_has_the_same_history) {
    rig r;
    hr_error why = {.code = HR_OK};
    hr_train_result whole = {.size = sizeof whole}, half = {.size = sizeof half};
    rig_open(&r);
    r.o.folder = in("whole");
    rig_plan(&r);
    CHECK_OK(hr_job_train(r.plan, &why));
    CHECK_OK(hr_job_get_result(r.plan, 0, &whole));
    hr_plan_destroy(r.plan);
    r.o.folder = in("parts");
    r.answer_at = 11;
    r.answer = HR_E_CANCELLED;
    rig_plan(&r);
    CHECK_STATUS(hr_job_train(r.plan, &why), HR_E_CANCELLED);
    CHECK_EQ(why.cause, HR_CAUSE_CANCELLED);
    CHECK_OK(hr_job_get_result(r.plan, 0, &half));
    CHECK(half.end == HR_END_CANCELLED && half.steps == 11 && half.checkpoint_step == 11);
    hr_plan_destroy(r.plan);
    r.answer_at = UINT64_MAX;
    r.plan = NULL;
    CHECK_STATUS(hr_job_plan(r.ctx, &r.o, &r.plan, &why), HR_E_EXISTS);
    r.o.start = HR_START_RESUME;
    rig_plan(&r);
    CHECK_OK(hr_job_train(r.plan, &why));
    CHECK_OK(hr_job_get_result(r.plan, 0, &half));
    CHECK_EQ(half.history, whole.history);
    CHECK_EQ(half.steps, whole.steps);
    rig_close(&r);
}

TEST(job_trainer, a_listener_that_fails_ends_it_without_a_checkpoint) {
    rig r;
    hr_error why = {.code = HR_OK};
    hr_train_result result = {.size = sizeof result};
    rig_open(&r);
    r.o.folder = in("run");
    r.answer_at = 2;
    r.answer = HR_E_IO;
    rig_plan(&r);
    CHECK_STATUS(hr_job_train(r.plan, &why), HR_E_IO);
    CHECK_OK(hr_job_get_result(r.plan, 0, &result));
    CHECK(!result.checkpoint && access(in("run/last.safetensors"), R_OK) != 0);
    rig_close(&r);
}

TEST(job_trainer, what_cannot_be_is_a_sentence_and_a_cause) {
    rig r;
    hr_error why = {.code = HR_OK};
    hr_trainer *t = NULL;
    rig_open(&r);
    r.o.batch = 1000;
    CHECK_STATUS(hr_job_plan(r.ctx, &r.o, &r.plan, &why), HR_E_INVALID);
    CHECK(why.cause == HR_CAUSE_USAGE && strstr(why.message, "1000") != NULL);
    r.o.batch = BATCH;
    hr_pipeline *other = r.o.val_pipeline;
    r.o.val_pipeline = NULL;
    r.o.val_split = 0.5;
    CHECK_STATUS(hr_job_plan(r.ctx, &r.o, &r.plan, &why), HR_E_INVALID);
    r.o.val_split = 0;
    r.o.budget = "1MiB"; /* no more than the pipeline has */
    CHECK_STATUS(hr_job_plan(r.ctx, &r.o, &r.plan, &why), HR_E_NO_PLAN);
    CHECK_STR(why.message, "the input pipeline needs at least 1 MiB of a budget of 1 MiB");
    r.o.budget = "2MiB";
    rig_plan(&r);
    hr_plan_summary s = {.size = sizeof s};
    CHECK_OK(hr_plan_get_summary(r.plan, &s));
    CHECK(!s.fits && s.minimum_bytes > 1 << 20);
    CHECK_STATUS(hr_trainer_open(r.plan, 0, &t, &why), HR_E_NO_PLAN);
    CHECK_EQ(why.cause, HR_CAUSE_NO_FIT);
    CHECK_STATUS(hr_trainer_open(r.plan, 1, &t, &why), HR_E_NOT_FOUND);
    r.o.val_pipeline = other;
    rig_close(&r);
}

/* The first batch by hand, then by the pipeline, which was not asked before: both begin with the same samples. */
TEST(job_trainer, a_batch_of_ones_own_is_a_step_like_any_other) {
    double losses[2] = {0};
    for (int own = 0; own < 2; own++) {
        rig r;
        hr_trainer *t = NULL;
        hr_numbers n = {.size = sizeof n};
        hr_error why = {.code = HR_OK};
        rig_open(&r);
        r.o.micro_batches = 2;
        rig_plan(&r);
        const hr_field fields[] = {
            {"target", {HR_TYPE_F32, hr_shape_1(BATCH)}, BATCH * sizeof target[0], &target[HELD]},
            {"left", {HR_TYPE_F32, hr_shape_2(BATCH, 3)}, BATCH * sizeof left[0], left[HELD]},
            {"right", {HR_TYPE_F32, hr_shape_2(BATCH, 2)}, BATCH * sizeof right[0], right[HELD]}};
        CHECK_OK(hr_trainer_open(r.plan, 0, &t, &why));
        CHECK_STATUS(hr_trainer_step(t, fields, 2, &n, &why), HR_E_NOT_FOUND);
        hr_field half = fields[2];
        half.bytes /= 2;
        CHECK_STATUS(
            hr_trainer_step(t, (const hr_field[]){fields[0], fields[1], half}, 3, &n, &why),
            HR_E_SHAPE);
        if (own) {
            CHECK_OK(hr_trainer_step(t, fields, 3, &n, &why));
            CHECK(n.step == 1 && n.samples == BATCH);
        } else {
            CHECK_OK(hr_trainer_advance(t, &why));
        }
        losses[own] = r.last_loss;
        CHECK_EQ(r.steps, 1);
        CHECK_OK(hr_trainer_advance(t, &why));
        hr_trainer_close(t);
        rig_close(&r);
    }
    CHECK(losses[0] > 0 && losses[0] == losses[1]);
}

static void fields_of(size_t from, size_t count, hr_field to[3]) {
    const int64_t n = (int64_t)count;
    to[0] =
        (hr_field){"right", {HR_TYPE_F32, hr_shape_2(n, 2)}, count * sizeof right[0], right[from]};
    to[1] = (hr_field){
        "target", {HR_TYPE_F32, hr_shape_2(n, 1)}, count * sizeof target[0], &target[from]};
    to[2] = (hr_field){"left", {HR_TYPE_F32, hr_shape_2(n, 3)}, count * sizeof left[0], left[from]};
}

TEST(job_trainer, evaluates_any_number_of_samples_where_the_loss_ignores_none) {
    rig r;
    hr_error why = {.code = HR_OK};
    hr_numbers n = {.size = sizeof n};
    hr_trainer *t = NULL;
    hr_field fields[3];
    float w[3], v[2];
    double metric = 0;
    rig_open(&r);
    rig_plan(&r);
    CHECK_OK(hr_trainer_open(r.plan, 0, &t, &why));
    CHECK_OK(hr_trainer_get_metric(t, "loss", HR_METRIC_STEP, &metric));
    CHECK(isnan(metric));
    for (int i = 0; i < 3; i++) {
        CHECK_OK(hr_trainer_advance(t, &why));
    }
    CHECK_OK(hr_trainer_get_metric(t, "loss", HR_METRIC_STEP, &metric));
    CHECK(fabs(metric - r.last_loss) < 1e-6);
    CHECK_OK(hr_trainer_get(t, "w", w, sizeof w));
    CHECK_OK(hr_trainer_get(t, "v", v, sizeof v));
    fields_of(0, HELD, fields); /* a whole batch and three single ones */
    CHECK_OK(hr_trainer_evaluate(t, fields, 3, &n, &why));
    CHECK(n.samples == HELD && fabs(n.loss - loss_of(w, v)) < 1e-5 * (1 + n.loss));
    CHECK_STATUS(hr_trainer_evaluate(t, fields, 2, &n, &why), HR_E_NOT_FOUND);
    fields[1].bytes -= 4;
    CHECK_STATUS(hr_trainer_evaluate(t, fields, 3, &n, &why), HR_E_SHAPE);
    CHECK_OK(hr_trainer_validate(t, &n, &why));
    CHECK_OK(hr_trainer_get_metric(t, "loss", HR_METRIC_VALIDATION, &metric));
    CHECK(fabs(metric - n.loss) < 1e-9);
    CHECK_STATUS(hr_trainer_get_metric(t, "nonsense", HR_METRIC_EPOCH, &metric), HR_E_NOT_FOUND);
    CHECK_OK(hr_trainer_get_metric(t, "loss", HR_METRIC_EPOCH, &metric));
    CHECK(isfinite(metric));
    hr_trainer_close(t);
    rig_close(&r);
}

TEST(job_trainer, a_learning_rate_of_ones_own_holds_until_it_is_taken_back) {
    rig r;
    hr_error why = {.code = HR_OK};
    hr_trainer *t = NULL;
    hr_field fields[3];
    hr_numbers n = {.size = sizeof n};
    float before[3], after[3];
    rig_open(&r);
    rig_plan(&r);
    CHECK_OK(hr_trainer_open(r.plan, 0, &t, &why));
    CHECK_STATUS(hr_trainer_set_learning_rate(t, -1), HR_E_RANGE);
    CHECK_OK(hr_trainer_set_learning_rate(t, 0));
    CHECK_OK(hr_trainer_get(t, "w", before, sizeof before));
    fields_of(HELD, BATCH, fields);
    CHECK_OK(hr_trainer_step(t, fields, 3, &n, &why));
    CHECK_OK(hr_trainer_get(t, "w", after, sizeof after));
    CHECK(n.learning_rate == 0 && !memcmp(before, after, sizeof after));
    CHECK_OK(hr_trainer_set_learning_rate(t, NAN));
    CHECK_OK(hr_trainer_step(t, fields, 3, &n, &why));
    CHECK(fabs(n.learning_rate - 0.05) < 1e-6);
    hr_trainer_close(t);
    rig_close(&r);
}

TEST(job_trainer, weights_are_listed_saved_and_loaded) {
    rig r;
    hr_error why = {.code = HR_OK};
    hr_trainer *t = NULL;
    hr_value_info info = {.size = sizeof info};
    float w[3], zero[3] = {0}, back[3];
    size_t count = 0, params = 0;
    rig_open(&r);
    r.o.folder = in("listed");
    rig_plan(&r);
    CHECK_OK(hr_trainer_open(r.plan, 0, &t, &why));
    for (; hr_trainer_get_value(t, count, &info) == HR_OK; count++) {
        params += info.kind == HR_VALUE_PARAM;
        CHECK(strcmp(info.name, "w") != 0 || (info.bytes == 12 && info.type == HR_TYPE_F32));
        info.size = sizeof info;
    }
    CHECK(params == 2 && count == 4); /* and their velocities */
    CHECK_OK(hr_trainer_advance(t, &why));
    CHECK_OK(hr_trainer_get(t, "w", w, sizeof w));
    CHECK_OK(hr_trainer_save_weights(t, in("weights.safetensors"), &why));
    CHECK_OK(hr_trainer_put(t, "w", zero, sizeof zero));
    CHECK_OK(hr_trainer_load_weights(t, in("weights.safetensors"), &why));
    CHECK_OK(hr_trainer_get(t, "w", back, sizeof back));
    CHECK(!memcmp(w, back, sizeof w));
    CHECK_STATUS(hr_trainer_load_weights(t, in("none.safetensors"), &why), HR_E_NOT_FOUND);
    CHECK_OK(hr_trainer_finish(t, &why));
    CHECK(r.saved >= 1 && strstr(r.text, "listed/last.safetensors"));
    hr_trainer_close(t);
    rig_close(&r);
}

static hr_status sometimes_bad(void *user, const hr_element *input, hr_emit *emit) {
    const hr_field *f = hr_element_find(input, "target");
    (void)user;
    if (*(const float *)f->data == target[HELD + 2]) {
        hr_emit_explain(emit, "a number nobody likes");
        return HR_E_FORMAT;
    }
    return hr_emit_keep(emit, NULL);
}

TEST(job_trainer, bad_samples_and_failed_checkpoints_are_told) {
    rig r;
    hr_error why = {.code = HR_OK};
    const size_t count = SAMPLES - HELD;
    hr_field arrays[3];
    rig_open(&r);
    const hr_pipeline_options o = {
        .size = sizeof o, .budget_bytes = 1 << 20, .workers = 1, .skip_bad = 1};
    hr_pipeline_destroy(r.o.pipeline);
    CHECK_OK(hr_pipeline_create(&o, &r.o.pipeline));
    fields_of(HELD, count, arrays);
    CHECK_OK(hr_pipeline_arrays(r.o.pipeline, arrays, 3));
    const char *const names[] = {"left", "right", "target"};
    const hr_meta metas[] = {
        {HR_TYPE_F32, hr_shape_1(3)}, {HR_TYPE_F32, hr_shape_1(2)}, {HR_TYPE_F32, hr_shape_1(1)}};
    const hr_map_options mo = {
        .size = sizeof mo, .outputs = metas, .names = names, .output_count = 3};
    CHECK_OK(hr_pipeline_map(r.o.pipeline, sometimes_bad, NULL, &mo));
    CHECK_OK(hr_pipeline_build(r.o.pipeline));
    r.o.epochs = 1;
    r.o.folder = in("bad");
    rig_plan(&r);
    hr_trainer *t = NULL;
    CHECK_OK(hr_trainer_open(r.plan, 0, &t, &why));
    CHECK_OK(hr_trainer_advance(t, &why));
    CHECK(r.bad == 1 && strstr(r.text, "a number nobody likes"));
    CHECK(hr_trainer_save(t, in("no/such/folder/x.safetensors"), &why) != HR_OK);
    CHECK(r.save_failed == 0 && r.saved == 0); /* what was asked for is answered, not told */
    CHECK_OK(hr_trainer_save(t, in("here.safetensors"), &why));
    hr_trainer_close(t);
    rig_close(&r);
}

TEST(job_trainer, a_checkpoint_that_fails_is_told_and_the_last_one_ends_the_run) {
    rig r;
    hr_error why = {.code = HR_OK};
    hr_trainer *t = NULL;
    hr_status status = HR_OK;
    rig_open(&r);
    r.o.folder = in("goes");
    rig_plan(&r);
    CHECK_OK(hr_trainer_open(r.plan, 0, &t, &why));
    CHECK_EQ(rename(in("goes"), in("gone")), 0);
    while (status == HR_OK && hr_trainer_end(t) == HR_END_RUNNING) {
        status = hr_trainer_advance(t, &why);
    }
    CHECK(status != HR_OK && hr_trainer_end(t) == HR_END_FAILED);
    CHECK(r.save_failed >= 2 && strstr(r.text, "could not be written") && r.epochs == 3);
    hr_trainer_close(t);
    rig_close(&r);
}

/* (n, width) f32 as a .npy file. */
static void write_npy(const char *path, const float *data, int n, int width) {
    char header[128];
    FILE *f = fopen(path, "wb");
    CHECK(f != NULL);
    int used = snprintf(header, sizeof header,
                        "{'descr': '<f4', 'fortran_order': False, 'shape': (%d, %d), }", n, width);
    while ((10 + used + 1) % 64) {
        header[used++] = ' ';
    }
    header[used++] = '\n';
    const unsigned char start[] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, (unsigned char)used, 0};
    CHECK(fwrite(start, 1, sizeof start, f) == sizeof start);
    CHECK(fwrite(header, 1, (size_t)used, f) == (size_t)used);
    CHECK(fwrite(data, sizeof *data, (size_t)(n * width), f) == (size_t)(n * width));
    fclose(f);
}

TEST(job_trainer, an_evaluation_has_the_loss_of_the_real_samples_alone) {
    rig r;
    hr_error why = {.code = HR_OK};
    float w[3], v[2];
    char data[2000];
    hr_trainer *t = NULL;
    rig_open(&r);
    r.o.folder = in("short");
    rig_plan(&r);
    CHECK_OK(hr_trainer_open(r.plan, 0, &t, &why));
    CHECK_OK(hr_trainer_advance(t, &why));
    CHECK_OK(hr_trainer_get(t, "w", w, sizeof w));
    CHECK_OK(hr_trainer_get(t, "v", v, sizeof v));
    CHECK_OK(hr_trainer_save_weights(t, in("w.safetensors"), &why));
    hr_trainer_close(t);
    write_npy(in("left.npy"), left[0], HELD, 3);
    write_npy(in("right.npy"), right[0], HELD, 2);
    write_npy(in("target.npy"), target, HELD, 1);
    snprintf(data, sizeof data,
             "zip({npy:%s/left.npy|rename(x,to=left)},{npy:%s/right.npy|rename(x,to=right)},"
             "{npy:%s/target.npy|rename(x,to=target)})",
             test_folder(), test_folder(), test_folder());
    for (int batch = 1; batch <= 8; batch++) { /* 7 samples: whole, short and much too large ones */
        hr_infer_options o = {.size = sizeof o,
                              .checkpoint = in("w.safetensors"),
                              .data = data,
                              .batch = batch,
                              .threads = 1};
        hr_predictor *e = NULL;
        hr_infer_result result = {.size = sizeof result};
        if (hr_predictor_open(r.ctx, &o, &e, &why) != HR_OK ||
            hr_predictor_evaluate(e, &result, &why) != HR_OK) {
            test_fail(__FILE__, __LINE__, "%s", why.message);
        }
        CHECK(result.samples == HELD && result.counted == HELD);
        CHECK(fabs(result.loss - loss_of(w, v)) < 1e-5 * (1 + result.loss));
        hr_predictor_close(e);
    }
    rig_close(&r);
}

/* Steps through backward and apply, in one or two batches of half the share each; returns the parameters. */
static void train_by_hand(rig *r, int halves, float w[3], double *norm) {
    hr_error why = {.code = HR_OK};
    hr_trainer *t = NULL;
    hr_numbers n = {.size = sizeof n};
    hr_field fields[3];
    float g[3];
    CHECK_OK(hr_trainer_open(r->plan, 0, &t, &why));
    CHECK_STATUS(hr_trainer_apply(t, &n, &why), HR_E_BUSY);
    CHECK_STATUS(hr_trainer_get_gradient(t, "w", g, sizeof g), HR_E_BUSY);
    for (size_t step = 0; step < 4; step++) {
        for (int half = 0; half <= halves; half++) {
            fields_of(HELD + step * BATCH, BATCH, fields);
            CHECK_OK(hr_trainer_backward(t, fields, 3, halves ? 0.5 : 1.0, &n, &why));
        }
        CHECK_OK(hr_trainer_get_gradient(t, "w", g, sizeof g));
        CHECK_OK(hr_trainer_put_gradient(t, "w", g, sizeof g));
        CHECK_STATUS(hr_trainer_get_gradient(t, "x", g, sizeof g), HR_E_NOT_FOUND);
        CHECK_OK(hr_trainer_apply(t, &n, &why));
        CHECK_EQ(n.step, step + 1);
        *norm = n.gradient_norm;
    }
    CHECK_OK(hr_trainer_get(t, "w", w, 3 * sizeof *w));
    hr_trainer_close(t);
}

TEST(job_trainer, gradients_of_ones_own_make_the_same_steps) {
    rig r;
    hr_error why = {.code = HR_OK};
    hr_trainer *t = NULL;
    hr_field fields[3];
    float expected[3], w[3];
    double norm = 0;
    rig_open(&r);
    r.o.training = "rate=0.05,clip=5";
    rig_plan(&r);
    CHECK_OK(hr_trainer_open(r.plan, 0, &t, &why));
    CHECK_STATUS(hr_trainer_backward(t, fields, 0, 1.0, NULL, &why), HR_E_UNSUPPORTED);
    for (size_t step = 0; step < 4; step++) {
        fields_of(HELD + step * BATCH, BATCH, fields);
        CHECK_OK(hr_trainer_step(t, fields, 3, NULL, &why));
    }
    CHECK_OK(hr_trainer_get(t, "w", expected, sizeof expected));
    hr_trainer_close(t);
    r.o.keep_gradients = 1;
    for (int parts = 1; parts <= 2; parts++) { /* whole batches, and two micro-batches each */
        for (int halves = 0; halves < 2; halves++) {
            hr_plan_destroy(r.plan);
            r.o.micro_batches = parts;
            rig_plan(&r);
            train_by_hand(&r, halves, w, &norm);
            CHECK(norm > 0);
            for (int i = 0; i < 3; i++) {
                CHECK(fabsf(w[i] - expected[i]) < 1e-5f);
            }
        }
    }
    hr_plan_destroy(r.plan);
    r.o.folder = in("kept"); /* and all that a run does */
    rig_plan(&r);
    CHECK_OK(hr_job_train(r.plan, &why));
    CHECK(r.validations >= 3 && r.saved >= 1);
    hr_plan_destroy(r.plan);
    r.o.start = HR_START_RESUME;
    r.o.epochs = 4;
    rig_plan(&r);
    CHECK_OK(hr_job_train(r.plan, &why));
    rig_close(&r);
}

/* Running statistics and frozen values are no part of an update, and are saved all the same. */
TEST(job_trainer, kept_gradients_change_neither_losses_nor_what_is_saved) {
    const hr_ctx_options co = {.size = sizeof co, .no_cuda = 1};
    hr_ctx *ctx;
    double losses[2];
    uint64_t tensors[2];
    CHECK_OK(hr_ctx_create(&co, &ctx));
    for (int keep = 0; keep < 2; keep++) {
        hr_plan *p = NULL;
        hr_checkpoint *c = NULL;
        hr_error why = {.code = HR_OK};
        hr_train_result result = {.size = sizeof result};
        hr_checkpoint_info info = {.size = sizeof info};
        const hr_job_options o = {.size = sizeof o,
                                  .model = "resnet18:size=32,width=8,classes=3",
                                  .data = "synthetic:count=12",
                                  .training = "optimizer=adamw,rate=0.01",
                                  .batch = 4,
                                  .steps = 3,
                                  .micro_batches = 1,
                                  .threads = 1,
                                  .effort = 1000,
                                  .no_measure = 1,
                                  .cache = "",
                                  .folder = in(keep ? "kept" : "plain"),
                                  .keep_gradients = keep};
        if (hr_job_plan(ctx, &o, &p, &why) != HR_OK || hr_job_train(p, &why) != HR_OK) {
            test_fail(__FILE__, __LINE__, "%s", why.message);
        }
        CHECK_OK(hr_job_get_result(p, 0, &result));
        CHECK_OK(hr_checkpoint_open(result.checkpoint, &c, &why));
        CHECK_OK(hr_checkpoint_get_info(c, &info));
        losses[keep] = result.last_loss;
        tensors[keep] = info.tensor_count;
        hr_checkpoint_close(c);
        hr_plan_destroy(p);
    }
    CHECK(fabs(losses[0] - losses[1]) < 1e-4);
    CHECK_EQ(tensors[0], tensors[1]);
    hr_ctx_destroy(ctx);
}
