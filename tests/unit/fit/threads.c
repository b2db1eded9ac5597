/* How many threads a plan is for: as many as is fastest within the budget. */
#include <headroom/headroom.h>

#include "fit/fit.h"
#include "test.h"

static double always(void *user, const hri_sig *sig, uint32_t variant) {
    (void)user, (void)sig, (void)variant;
    return 1000;
}

static void plan(hr_model *model, hri_machine machine, uint64_t budget, hri_fit *f,
                 hri_fit_plans *out) {
    hri_fit_job job = {.build = hr_model_build,
                       .user = model,
                       .batch = 32,
                       .parts = 1,
                       .page_bytes = 1,
                       .effort = 200000,
                       .time_ns = always,
                       .machine = machine};
    hri_prose why = {{0}};
    hr_error error = {0};
    job.options.size = sizeof job.options;
    CHECK_OK(hr_train_options_parse("optimizer=sgd", &job.options, &error));
    CHECK_OK(hri_fit_open(&job, f, &why));
    CHECK_OK(hri_fit_search(f, budget, 1, out, &why));
}

/* The work spaces of eight threads do not go with all that is kept; bytes come as fast with one. */
TEST(fit_threads, fewer_are_taken_where_more_would_be_slower) {
    const hri_machine one = {.threads = 1, .flops_per_ns = 1e9, .bytes_per_ns = 1};
    hri_machine many = one;
    hr_model *model;
    hr_error error = {0};
    hri_fit f;
    hri_fit_plans plans;
    CHECK_OK(hr_model_open("lenet", &model, &error));
    plan(model, one, 0, &f, &plans);
    const uint64_t budget = plans.peak_bytes;
    const double time = plans.time_ns;
    hri_fit_plans_deinit(&plans);
    hri_fit_close(&f);
    many.threads = 8;
    plan(model, many, budget, &f, &plans);
    CHECK(plans.threads < 8 && plans.c->threads == plans.threads);
    CHECK(plans.time_ns <= time && plans.peak_bytes <= budget);
    hri_fit_plans_deinit(&plans);
    hri_fit_close(&f);
    hr_model_close(model);
}

/* Times are measured with all threads. */
TEST(fit_threads, fewer_are_predicted_to_compute_slower) {
    const hri_machine machine = {.threads = 4, .flops_per_ns = 1, .bytes_per_ns = 1e9};
    hr_model *model;
    hr_error error = {0};
    hri_fit f;
    hri_fit_plans plans, fewer;
    hri_prose why = {{0}};
    CHECK_OK(hr_model_open("lenet", &model, &error));
    plan(model, machine, 0, &f, &plans);
    CHECK_EQ(plans.threads, 4);
    const double time = plans.time_ns;
    hri_fit_case *c = plans.c;
    hri_fit_plans_deinit(&plans);
    CHECK_OK(hri_fit_case_set_threads(&f, c, 1, &why));
    CHECK_OK(hri_fit_case_plan(&f, c, 0, 200000, &fewer, &why));
    CHECK(fewer.time_ns > 3 * time && fewer.time_ns <= 4 * time);
    hri_fit_plans_deinit(&fewer);
    hri_fit_close(&f);
    hr_model_close(model);
}
