/* Everything that setting up a planned training asks of the outside fails once, and once for ever: a status that says
 * so, nothing left behind, and the next one works. */
#include <headroom/headroom.h>

#include <string.h>

#include "base/fault.h"
#include "base/alloc.h"
#include "test.h"
#include "fit/planned.h"

static hr_status set_up_and_run(hr_device *host, const hri_fit_job *job, float *loss,
                                hri_prose *why) {
    hri_fit f = {0};
    hri_fit_plans plans = {0};
    hri_planned *p = NULL;
    hri_threads *threads = NULL; /* replicas need one each */
    hr_status status = job->replicas > 1 ? hri_threads_create(job->replicas, &threads) : HR_OK;
    status = status == HR_OK ? hri_fit_open(job, &f, why) : status;
    if (status == HR_OK) {
        status = hri_fit_search(&f, f.unplanned_bytes * 2, 1, &plans, why);
    }
    if (status == HR_OK) {
        const hri_planned_options o = {.device = host,
                                       .plans = &plans,
                                       .job = job,
                                       .threads = threads,
                                       .seed = 3,
                                       .limit = 10};
        status = hri_planned_open(&o, &p, why);
    }
    if (status == HR_OK) {
        hri_fit_release(&f);
        status = hri_planned_take(p, why);
    }
    if (status == HR_OK) {
        hri_numbers numbers = {0};
        status = hri_planned_step(p, &numbers, why);
        *loss = numbers.loss;
    }
    hri_planned_close(p);
    hri_fit_plans_deinit(&plans);
    hri_fit_close(&f);
    hri_threads_destroy(threads);
    return status;
}

static void sweep(const char *model_text, int64_t parts, uint32_t replicas) {
    hr_model *model;
    hr_ctx *ctx;
    hr_device *host;
    CHECK_OK(hr_model_open(model_text, &model, NULL));
    hri_fit_job job = {.build = hr_model_build,
                       .user = model,
                       .batch = 2,
                       .parts = parts,
                       .replicas = replicas,
                       .arenas = replicas,
                       .evaluate = 1,
                       .effort = 20000};
    job.options.size = sizeof job.options;
    CHECK_OK(hr_train_options_parse("optimizer=sgd", &job.options, NULL));
    const hr_ctx_options o = {.size = sizeof o, .visible_devices = "", .no_cuda = 1};
    CHECK_OK(hr_ctx_create(&o, &ctx));
    CHECK_OK(hr_device_find(ctx, "host", &host));
    float want, is;
    hri_prose why = {{0}};
    CHECK_OK(set_up_and_run(host, &job, &want, &why)); /* the device is open from here on */
    const int64_t live = hri_fault_live_allocs();
    for (int for_ever = 0; for_ever < 2; for_ever++) {
        uint64_t delivered = 1, nth = 0;
        while (delivered) {
            hri_fault_set(HRI_FAULT_ANY, nth += for_ever ? 7 * replicas : replicas * replicas,
                          for_ever);
            const hr_status status = set_up_and_run(host, &job, &is, &why);
            delivered = hri_fault_delivered();
            hri_fault_set(HRI_FAULT_ANY, 0, 0);
            CHECK_EQ(hri_fault_live_allocs(), live);
            if (delivered) {
                CHECK(status != HR_OK || is == want);
                CHECK(status != HR_E_INTERNAL);
            } else {
                CHECK_OK(status);
                CHECK(is == want);
            }
        }
        CHECK(nth > 100);
    }
    hr_ctx_destroy(ctx);
    hr_model_close(model);
}

TEST_TIMEOUT(planned, a_fault_in_setting_up_leaves_nothing_behind, 240) {
    sweep("mlp:size=4,width=8,classes=10", 1, 1);
}

TEST_TIMEOUT(planned, a_fault_in_setting_up_parts_leaves_nothing_behind, 240) {
    sweep("mlp:size=4,width=8,classes=10", 2, 1);
}

TEST_TIMEOUT(planned, a_fault_in_setting_up_replicas_leaves_nothing_behind, 240) {
    sweep("mlp:size=4,width=8,classes=10", 2, 2);
}
