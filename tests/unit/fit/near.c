/* Next to the smallest budget: no plan is far slower than the smallest one, which fits as well. */
#include <headroom/headroom.h>

#include "fit/fit.h"
#include "test.h"

/* With little effort. */
static void open_short(hr_model *model, hri_fit *f) {
    hri_fit_job job = {.build = hr_model_build,
                       .user = model,
                       .batch = 8,
                       .parts = 1,
                       .page_bytes = 1,
                       .effort = 3000,
                       .machine = {.threads = 1, .flops_per_ns = 100, .bytes_per_ns = 50}};
    hri_prose why = {{0}};
    hr_error error = {0};
    job.options.size = sizeof job.options;
    CHECK_OK(hr_train_options_parse("optimizer=sgd", &job.options, &error));
    CHECK_OK(hri_fit_open(&job, f, &why));
}

static double time_at(hri_fit *f, uint64_t budget) {
    hri_fit_plans plans;
    hri_prose why = {{0}};
    CHECK_OK(hri_fit_search(f, budget, 1, &plans, &why));
    CHECK_LE(plans.peak_bytes, budget);
    const double time = plans.time_ns > 1.2 * plans.bound_time_ns ? plans.time_ns : 0;
    hri_fit_plans_deinit(&plans);
    return time;
}

TEST(fit_near, nothing_poor_is_slower_than_the_smallest) {
    hr_model *model;
    hr_error error = {0};
    hri_prose why = {{0}};
    hri_fit f;
    hri_fit_plans least;
    uint64_t bytes;
    int poor = 0;
    CHECK_OK(
        hr_model_open("gpt2-nano:layers=6,context=32,width=32,heads=2,vocab=64", &model, &error));
    open_short(model, &f);
    CHECK_OK(hri_fit_smallest(&f, &bytes, &least, &why));
    for (uint64_t budget = bytes; budget <= bytes + bytes / 4; budget += bytes / 32) {
        const double time = time_at(&f, budget);
        CHECK(time <= least.time_ns);
        poor += time > 0;
    }
    CHECK(poor > 0);
    hri_fit_close(&f);
    hr_model_close(model);
}
