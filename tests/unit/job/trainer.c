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
#include "trainer_rig.h"

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
    hr_plan_summary s = {.size = sizeof s};
    r.o.budget = "1MiB"; /* no more than the pipeline has: the minimum is named all the same */
    rig_plan(&r);
    CHECK_OK(hr_plan_get_summary(r.plan, &s));
    CHECK(!s.fits && s.smallest_bytes != HR_UNKNOWN && s.smallest_bytes > 2 << 20);
    hr_plan_destroy(r.plan);
    r.plan = NULL;
    r.o.budget = "2MiB";
    rig_plan(&r);
    CHECK_OK(hr_plan_get_summary(r.plan, &s));
    CHECK(!s.fits && s.minimum_bytes > 1 << 20);
    CHECK_STATUS(hr_trainer_open(r.plan, 0, &t, &why), HR_E_NO_PLAN);
    CHECK_EQ(why.cause, HR_CAUSE_NO_FIT);
    CHECK_STATUS(hr_trainer_open(r.plan, 1, &t, &why), HR_E_NOT_FOUND);
    r.o.val_pipeline = other;
    rig_close(&r);
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
