/* Planning through the library while every allocation fails once: a status, a sentence, nothing left behind, and the next
 * call gives the same plan. */
#include <headroom/headroom.h>

#include <string.h>

#include "base/fault.h"
#include "test.h"

static hr_status drop(void *user, const char *text, size_t bytes) {
    *(uint64_t *)user += bytes;
    (void)text;
    return HR_OK;
}

static hr_status run(hr_ctx *ctx, const char *budget, uint64_t *out, hr_error *why) {
    const hr_job_options o = {.size = sizeof o,
                              .model = "mlp:size=4,width=8",
                              .batch = 4,
                              .budget = budget,
                              .device = "null:1GiB",
                              .device_spec = "page=4KiB",
                              .effort = 1000,
                              .no_measure = 1};
    hr_plan *p = NULL;
    hr_plan_summary s = {.size = sizeof s};
    hr_plan_action a = {.size = sizeof a};
    uint64_t bytes = 0;
    *why = (hr_error){0};
    hr_status status = hr_job_plan(ctx, &o, &p, why);
    if (status != HR_OK) {
        CHECK(p == NULL && why->message[0] && why->cause != HR_CAUSE_NONE);
        return status;
    }
    status = hr_job_explore(p, HR_EXPLORE_BATCH, why);
    for (int32_t f = HR_PLAN_TEXT; f <= HR_PLAN_JSON && status == HR_OK; f++) {
        status = hr_plan_print(p, f, 0, drop, &bytes);
    }
    if (status == HR_OK) {
        status = hr_plan_get_summary(p, &s);
        *out = s.fingerprint ^ s.way_count;
    }
    if (status == HR_OK && s.fits) {
        status = hr_plan_get_action(p, 0, 0, &a);
    }
    hr_plan_destroy(p);
    return status;
}

static void sweep(const char *budget) {
    hr_ctx *ctx;
    hr_error why;
    uint64_t first = 0, is = 0;
    const hr_ctx_options co = {.size = sizeof co, .visible_devices = "", .no_cuda = 1};
    CHECK_OK(hr_ctx_create(&co, &ctx));
    CHECK_OK(run(ctx, budget, &first, &why));
    const int64_t live = hri_fault_live_allocs();
    int faults = 0;
    /* Each of the first ones, then ever fewer: there are thousands. */
    for (uint64_t nth = 1; nth < 1000000; nth += 1 + nth / 16) {
        hri_fault_set(HRI_FAULT_ALLOC, nth, 0);
        const hr_status status = run(ctx, budget, &is, &why);
        const uint64_t delivered = hri_fault_delivered();
        hri_fault_set(HRI_FAULT_ALLOC, 0, 0);
        CHECK_EQ(hri_fault_live_allocs(), live);
        if (!delivered) {
            CHECK_OK(status);
            break;
        }
        faults++;
        CHECK(status == HR_OK || status == HR_E_NOMEM_HOST);
    }
    CHECK(faults > 20);
    CHECK_OK(run(ctx, budget, &is, &why));
    CHECK_EQ(is, first);
    hr_ctx_destroy(ctx);
}

TEST_TIMEOUT(job, a_fault_while_planning_leaves_nothing_behind, 300) {
    sweep("1MiB");
}

TEST_TIMEOUT(job, a_fault_while_looking_for_ways_out_leaves_nothing_behind, 300) {
    sweep("8KiB");
}
