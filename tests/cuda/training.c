/* See training.h. */
#include "rig.h"
#include "training.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "device/device.h"
#include "loop/run.h"

/* Kernels are compiled once for all cases and runs of them. */
static const char *cache(void) {
    const char *folder = getenv("HEADROOM_TEST_KERNELS");
    return folder && *folder ? folder : FAKECUDA_ROOT "/test-kernels";
}

hr_status training_try(training *t, const char *model, const char *options, int64_t batch,
                       hri_prose *why) {
    hr_error error = {0};
    hr_device_info info = {.size = sizeof info};
    rig_isolate();
    hr_status s = hr_ctx_create(NULL, &t->ctx);
    s = s == HR_OK ? hr_device_find(t->ctx, "cuda:0", &t->device) : s;
    const hri_gpu_options o = {.cache = cache(), .exact_f32 = 1};
    s = s == HR_OK ? hri_engine_open(t->device, &o, &t->engine, why) : s;
    s = s == HR_OK ? hr_model_open(model, &t->model, &error) : s;
    t->job.options.size = sizeof t->job.options;
    s = s == HR_OK ? hr_train_options_parse(options, &t->job.options, &error) : s;
    s = s == HR_OK ? hr_device_get_info(t->device, &info) : s;
    if (s != HR_OK) {
        return s;
    }
    t->seed = TRAINING_SEED;
    t->job.machine = (hri_machine){.flops_per_ns = 1000,
                                   .bytes_per_ns = 10,
                                   .launch_ns = 1000,
                                   .gpu = hri_engine_gpu(t->engine)};
    t->job.engine = t->engine;
    t->job.build = hr_model_build;
    t->job.user = t->model;
    t->job.batch = batch;
    t->job.parts = 1;
    t->job.page_bytes = info.page_bytes;
    t->job.effort = 1000000;
    const hri_timing_options timing = {.engine = t->engine,
                                       .try_only = 1,
                                       .device = "test",
                                       .flops_per_ns = 1,
                                       .bytes_per_ns = 1,
                                       .most_bytes = UINT64_C(512) << 20};
    s = hri_timing_open(&timing, &t->timing);
    t->job.time_ns = hri_timing_time;
    t->job.together_ns = hri_timing_together;
    t->job.many_ns = hri_timing_many;
    t->job.time_user = t->timing;
    return s;
}

void training_open(training *t, const char *model, const char *options, int64_t batch) {
    hri_prose why = {{0}};
    *t = (training){0};
    const hr_status s = training_try(t, model, options, batch, &why);
    if (s == HR_E_NOT_FOUND || s == HR_E_UNSUPPORTED) {
        test_skip("no GPU that runs kernels: %s", why.text[0] ? why.text : "no device cuda:0");
    }
    CHECK_OK(s);
}

static void check(hr_status status, const hri_prose *why) {
    if (status != HR_OK) {
        test_fail(__FILE__, __LINE__, "%s: %s", hr_status_name(status), why->text);
    }
    CHECK(status == HR_OK);
}

void training_add_devices(training *t, uint32_t count, int peers) {
    const hri_gpu_options o = {.cache = cache(), .exact_f32 = 1};
    hri_prose why = {{0}};
    t->engines[0] = t->engine;
    for (t->engine_count = 1; t->engine_count < count; t->engine_count++) {
        char name[32];
        hr_device *device;
        snprintf(name, sizeof name, "cuda:%u", t->engine_count);
        CHECK_OK(hr_device_find(t->ctx, name, &device));
        check(hri_engine_open(device, &o, &t->engines[t->engine_count], &why), &why);
    }
    for (uint32_t i = 0; i < count * count; i++) {
        CHECK_STATUS(hri_device_let_read(hri_engine_device(t->engines[i / count]),
                                         hri_engine_device(t->engines[i % count])),
                     peers || i / count == i % count ? HR_OK : HR_E_UNSUPPORTED);
    }
}

void training_plan(training *t, double share) {
    hri_prose why = {{0}};
    const hri_fit_fact *floor;
    check(hri_fit_open(&t->job, &t->fit, &why), &why);
    check(hri_fit_floor(&t->fit, &floor, &why), &why);
    const uint64_t low = floor->floor_bytes, high = t->fit.unplanned_bytes;
    hr_status status = HR_E_NO_PLAN;
    uint64_t budget = 0;
    for (; status == HR_E_NO_PLAN && share < 1.2; share += 0.05) {
        budget = low + (uint64_t)((double)(high > low ? high - low : 0) * share);
        status = hri_fit_search(&t->fit, budget, 1, &t->plans, &why);
    }
    check(status, &why);
    CHECK_LE(t->plans.peak_bytes, budget);
}

void training_take(training *t) {
    const hri_planned_options o = {.device = t->device,
                                   .plans = &t->plans,
                                   .job = &t->job,
                                   .engines = t->engines,
                                   .engine_count = t->engine_count,
                                   .seed = t->seed,
                                   .cycle = t->cycle,
                                   .feed = t->feed,
                                   .feed_user = t->feed_user,
                                   .limit = (uint32_t)hr_model_classes(t->model)};
    hri_prose why = {{0}};
    check(hri_planned_open(&o, &t->planned, &why), &why);
    const hri_fit_plans sums = t->plans;
    hri_fit_drop_others(&t->fit, t->plans.c);
    hri_fit_plans_deinit(&t->plans);
    hri_fit_release(&t->fit);
    t->plans = sums;
    memset(t->plans.plans, 0, sizeof t->plans.plans);
    check(hri_planned_take(t->planned, &why), &why);
}

void training_steps(training *t, float *losses) {
    hri_prose why = {{0}};
    for (int s = 0; s < TRAINING_STEPS; s++) {
        hri_numbers n;
        check(hri_planned_step(t->planned, &n, &why), &why);
        losses[s] = n.loss;
    }
}

hr_status training_print(hri_planned *p, uint64_t *out) {
    const hr_graph *g = hri_planned_graph(p);
    uint64_t print = 0;
    hr_status status = HR_OK;
    for (hr_value v = 1; v < g->value_count && status == HR_OK; v++) {
        const hr_value_kind kind = g->values[v].kind;
        const uint64_t size = hr_meta_bytes(&g->values[v].meta);
        if ((kind != HR_VALUE_PARAM && kind != HR_VALUE_STATE) ||
            (g->values[v].tags && g->values[v].tags->keep == HR_KEEP_NOT)) {
            continue;
        }
        char *bytes = malloc(size);
        CHECK(bytes != NULL);
        status = hri_planned_get(p, v, 0, bytes, size);
        print ^= hri_hash_bytes(bytes, size, 1) * hri_hash_string(g->values[v].name);
        free(bytes);
    }
    *out = print;
    return status;
}

void training_drop(training *t) {
    hri_planned_close(t->planned);
    hri_fit_plans_deinit(&t->plans);
    hri_fit_close(&t->fit);
    t->planned = NULL;
}

void training_close(training *t) {
    training_drop(t);
    hri_timing_close(t->timing);
    for (uint32_t i = 1; i < t->engine_count; i++) {
        hri_engine_close(t->engines[i]);
    }
    hri_engine_close(t->engine);
    hr_model_close(t->model);
    hr_ctx_destroy(t->ctx);
    if (is_fake()) {
        char text[256] = "";
        fake()->report(text, sizeof text);
        CHECK_STR(text, "");
    }
    *t = (training){0};
}

void training_on_the_host(const training *t, float *losses) {
    const hri_interp_job job = {.options = t->job.options,
                                .build = t->job.build,
                                .user = t->job.user,
                                .batch = t->job.batch,
                                .steps = TRAINING_STEPS,
                                .seed = TRAINING_SEED,
                                .limit = (uint32_t)hr_model_classes(t->model)};
    hr_error why = {0};
    CHECK_OK(hri_train_run(&job, losses, &why));
}
