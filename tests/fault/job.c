/* Planning through the library while every allocation fails once: a status, a sentence, nothing left behind, and the next
 * call gives the same plan. */
#include <headroom/headroom.h>

#include <string.h>

#include <stdio.h>

#include "base/fault.h"
#include "pictures.h"
#include "test.h"
#include "untrained.h"
#include "weights/checkpoint.h"

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

TEST(job, a_fault_while_the_machine_is_examined_leaves_nothing_behind) {
    hr_ctx *ctx;
    const hr_ctx_options co = {.size = sizeof co, .visible_devices = "", .no_cuda = 1};
    const hr_doctor_options o = {.size = sizeof o, .cache = test_folder()};
    CHECK_OK(hr_ctx_create(&co, &ctx));
    hr_doctor *d = NULL;
    CHECK_OK(hr_doctor_create(ctx, &o, &d, NULL)); /* what the context keeps is there now */
    hr_doctor_destroy(d);
    const int64_t live = hri_fault_live_allocs();
    int faults = 0;
    for (uint64_t nth = 1;; nth++) {
        d = NULL;
        hri_fault_set(HRI_FAULT_ALLOC, nth, 0);
        const hr_status status = hr_doctor_create(ctx, &o, &d, NULL);
        const uint64_t delivered = hri_fault_delivered();
        hri_fault_set(HRI_FAULT_ALLOC, 0, 0);
        CHECK(status == HR_OK || (status == HR_E_NOMEM_HOST && !d));
        hr_doctor_destroy(d);
        CHECK_EQ(hri_fault_live_allocs(), live);
        if (!delivered) {
            break;
        }
        faults++;
    }
    CHECK(faults > 5);
    hr_ctx_destroy(ctx);
}

/* ---- evaluation and prediction ---- */

static char run_path[512];

static void write_checkpoint(void) {
    const hri_about about = {.source = "synthetic", .input = "image"};
    snprintf(run_path, sizeof run_path, "%s",
             test_untrained("mlp:size=4,channels=1,classes=3,layers=1,width=4", &about,
                            "best.safetensors"));
}

static hr_status add_score(void *user, const hr_prediction *p) {
    *(double *)user += p->probabilities[p->order[0]];
    return HR_OK;
}

/* Loss of two passes and the likeliest classes of a third. */
static hr_status infer(hr_ctx *ctx, double *out, hr_error *why) {
    const hr_infer_options o = {.size = sizeof o,
                                .checkpoint = run_path,
                                .data = "synthetic:count=5",
                                .batch = 2,
                                .threads = 1};
    hr_predictor *p = NULL;
    hr_infer_result r = {.size = sizeof r};
    double sum = 0;
    *why = (hr_error){0};
    hr_status status = hr_predictor_open(ctx, &o, &p, why);
    CHECK((status == HR_OK) == (p != NULL));
    for (int pass = 0; pass < 2 && status == HR_OK; pass++) {
        status = hr_predictor_evaluate(p, &r, why);
        sum += r.loss;
    }
    if (status == HR_OK) {
        status = hr_predictor_run(p, add_score, &sum, &r, why);
    }
    hr_predictor_close(p);
    CHECK(status == HR_OK || (why->message[0] && why->cause != HR_CAUSE_NONE));
    *out = sum;
    return status;
}

TEST_TIMEOUT(job, a_fault_in_evaluation_or_prediction_leaves_nothing_behind, 300) {
    static const hri_fault_kind kinds[] = {HRI_FAULT_ALLOC, HRI_FAULT_MAP, HRI_FAULT_OPEN,
                                           HRI_FAULT_READ};
    hr_ctx *ctx;
    hr_error why;
    double first = 0, is = 0;
    const hr_ctx_options co = {.size = sizeof co, .visible_devices = "", .no_cuda = 1};
    write_checkpoint();
    CHECK_OK(hr_ctx_create(&co, &ctx));
    CHECK_OK(infer(ctx, &first, &why));
    const int64_t live = hri_fault_live_allocs();
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        for (uint64_t nth = 1; nth < 100000; nth += 1 + nth / 8) {
            hri_fault_set(kinds[k], nth, 0);
            const hr_status status = infer(ctx, &is, &why);
            const uint64_t delivered = hri_fault_delivered();
            hri_fault_set(kinds[k], 0, 0);
            CHECK_EQ(hri_fault_live_allocs(), live);
            CHECK(status != HR_E_INTERNAL && (status != HR_OK || is == first));
            if (!delivered) {
                CHECK_OK(status);
                break;
            }
        }
    }
    CHECK_OK(infer(ctx, &is, &why));
    CHECK(is == first);
    hr_ctx_destroy(ctx);
}
