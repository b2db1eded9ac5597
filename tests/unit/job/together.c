/* Several jobs in one arena: each has the losses of its solo run.  (tests/regress has the budget that a
 * refusal names.) */
#include <headroom/headroom.h>

#include <stdio.h>
#include <string.h>

#include "test.h"

enum { JOBS = 3 };

static const char *const models[JOBS] = {"mlp:size=8,width=64,layers=3,classes=3",
                                         "mlp:size=8,width=128,layers=2,classes=5",
                                         "lenet:size=28,classes=3"};

static hr_job_options job(int i, const char *budget) {
    return (hr_job_options){.size = sizeof(hr_job_options),
                            .model = models[i],
                            .data = "synthetic:count=32",
                            .batch = 8,
                            .steps = 3,
                            .seed = (uint64_t)i + 1,
                            .micro_batches = 1,
                            .threads = 1,
                            .effort = 1000,
                            .no_measure = 1,
                            .cache = "",
                            .budget = budget};
}

static uint64_t history_of(hr_plan *p, size_t i) {
    hr_train_result r = {.size = sizeof r};
    CHECK_OK(hr_job_get_result(p, i, &r));
    CHECK(r.end == HR_END_DONE && !r.over_budget);
    return r.history;
}

TEST_TIMEOUT(together, three_jobs_have_the_losses_of_their_solo_runs, 120) {
    const hr_ctx_options co = {.size = sizeof co, .no_cuda = 1};
    hr_job_options o[JOBS];
    const hr_job_options *all[JOBS];
    hr_ctx *ctx;
    hr_plan *p = NULL;
    hr_error why = {0};
    CHECK_OK(hr_ctx_create(&co, &ctx));
    for (int i = 0; i < JOBS; i++) {
        o[i] = job(i, NULL);
        all[i] = &o[i];
    }
    if (hr_job_plan_together(ctx, all, JOBS, &p, &why) != HR_OK || hr_job_train(p, &why) != HR_OK) {
        test_fail(__FILE__, __LINE__, "%s", why.message);
    }
    for (int i = 0; i < JOBS; i++) {
        hr_plan *alone = NULL;
        CHECK_OK(hr_job_plan(ctx, &o[i], &alone, &why));
        CHECK_OK(hr_job_train(alone, &why));
        CHECK_EQ(history_of(p, (size_t)i), history_of(alone, 0));
        hr_plan_destroy(alone);
    }
    hr_plan_destroy(p);
    p = NULL;
    CHECK_STATUS(hr_job_plan_together(ctx, all, 9, &p, &why), HR_E_UNSUPPORTED);
    hr_ctx_destroy(ctx);
}
