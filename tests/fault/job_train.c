/* Allocations fail while a job is planned and trained through the public doors, once and for ever: the call says so with a
 * sentence and a cause, nothing is left behind, and the next try has the same history. */
#include <headroom/headroom.h>

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "pictures.h"
#include "test.h"

static hr_status drop(void *user, const char *text, size_t bytes) {
    (void)user, (void)text, (void)bytes;
    return HR_OK;
}

static hr_status run(uint64_t *history) {
    char folder[600];
    hr_error why = {.code = HR_OK};
    hr_ctx *ctx = NULL;
    hr_plan *plan = NULL;
    const hr_ctx_options co = {.size = sizeof co, .no_cuda = 1};
    snprintf(folder, sizeof folder, "%s/run", test_folder());
    hr_job_options o = {.size = sizeof o,
                        .model = "mlp:size=4,width=4,layers=2,classes=3",
                        .data = "synthetic:count=18",
                        .val_split = 0.3,
                        .training = "rate=0.1",
                        .batch = 4,
                        .micro_batches = 1,
                        .steps = 3,
                        .metric = "auc",
                        .best_by = "f1",
                        .mixup = 0.2,
                        .threads = 1,
                        .effort = 1000,
                        .no_measure = 1,
                        .cache = "",
                        .start = HR_START_OVERWRITE,
                        .folder = folder};
    hr_status status = hr_ctx_create(&co, &ctx);
    if (status != HR_OK) {
        return status;
    }
    status = hr_budget_create(ctx, NULL, &o.ledger, &why);
    if (status != HR_OK) {
        hr_ctx_destroy(ctx);
        return status;
    }
    status = hr_job_plan(ctx, &o, &plan, &why);
    if (status == HR_OK) {
        status = hr_job_train(plan, &why);
    }
    if (status == HR_OK) {
        hr_train_result r = {.size = sizeof r};
        CHECK_OK(hr_job_get_result(plan, 0, &r));
        *history = r.history;
        for (int32_t f = HR_TRAIN_TEXT; f <= HR_TRAIN_JSON && status == HR_OK; f++) {
            status = hr_job_print(plan, 0, f, 0, drop, NULL);
        }
    } else {
        CHECK(why.message[0] && why.cause != HR_CAUSE_NONE);
    }
    hr_plan_destroy(plan);
    CHECK_OK(hr_budget_check(o.ledger));
    CHECK_OK(hr_budget_destroy(o.ledger)); /* no lease is left */
    hr_ctx_destroy(ctx);
    return status;
}

TEST_TIMEOUT(job_train, an_allocation_that_fails_leaves_nothing_behind, 240) {
    uint64_t wanted = 0, is = 0;
    int failed = 0, went_on = 0;
    CHECK_OK(run(&wanted));
    for (int for_ever = 0; for_ever < 2; for_ever++) {
        uint64_t delivered = 1;
        for (uint64_t nth = 1; delivered; nth += 1 + nth / 24) {
            const int64_t live = hri_fault_live_allocs();
            is = 0;
            hri_fault_set(HRI_FAULT_ALLOC, nth, for_ever);
            const hr_status status = run(&is);
            delivered = hri_fault_delivered();
            hri_fault_set(HRI_FAULT_ALLOC, 0, 0);
            CHECK_EQ(hri_fault_live_allocs(), live);
            failed += status != HR_OK;
            went_on += status == HR_OK;
            CHECK(status != HR_OK || is == wanted);
        }
    }
    printf("    %d runs failed, %d went on all the same\n", failed, went_on);
    CHECK(failed > 50);
    CHECK_OK(run(&is));
    CHECK_EQ(is, wanted);
}
