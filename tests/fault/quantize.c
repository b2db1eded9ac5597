/* Allocations fail while a model is quantized: a status, nothing left behind, no file half written, and a retry works. */
#include <headroom/headroom.h>

#include <stdio.h>
#include <string.h>

#include "base/fault.h"
#include "graph/graph.h"
#include "pictures.h"
#include "test.h"
#include "weights/merge.h"
#include "weights/quantize.h"
#include "weights/weight_codes.h"

static const char *in(const char *name) {
    static char paths[2][600];
    static unsigned at;
    char *path = paths[at++ % 2];
    snprintf(path, sizeof paths[0], "%s/%s", test_folder(), name);
    return path;
}

static hr_status quantize(hri_quantize_to to) {
    static hri_range ranges[4096]; /* more than the model has values */
    hri_checkpoint c = {.file = {.fd = -1}};
    hri_quantizing q = {0};
    hri_quantize_report r;
    hri_prose why = {""};
    hr_graph *g = NULL;
    hr_status status = hri_checkpoint_open(in("run"), &c, &why);
    status = status == HR_OK ? hri_quantize_graph(&c, "", &g, &why) : status;
    status = status == HR_OK ? hri_quantizing_init(&q, g, 0) : status;
    status = status == HR_OK
                 ? hri_checkpoint_quantize(&c, &q, to, ranges, in("q.safetensors"), &r, &why)
                 : status;
    hri_quantizing_deinit(&q);
    hr_graph_destroy(g);
    hri_checkpoint_close(&c);
    return status;
}

TEST_TIMEOUT(quantize, a_file_is_whole_or_is_not_there, 60) {
    const hr_ctx_options co = {.size = sizeof co, .no_cuda = 1};
    hr_ctx *ctx;
    hr_plan *plan;
    hr_error why = {.code = HR_OK};
    const hr_job_options o = {.size = sizeof o,
                              .model = "resnet18:size=8,width=2,layers=1,classes=2",
                              .data = "synthetic:count=8",
                              .batch = 4,
                              .steps = 1,
                              .threads = 1,
                              .effort = 1000,
                              .no_measure = 1,
                              .cache = "",
                              .folder = in("run")};
    CHECK_OK(hr_ctx_create(&co, &ctx));
    if (hr_job_plan(ctx, &o, &plan, &why) != HR_OK || hr_job_train(plan, &why) != HR_OK) {
        test_fail(__FILE__, __LINE__, "%s", why.message);
    }
    hr_plan_destroy(plan);
    hr_ctx_destroy(ctx);
    for (int to = HRI_QUANTIZE_I8; to <= HRI_QUANTIZE_FOLD; to++) {
        int failed = 0;
        uint64_t delivered = 1;
        CHECK_OK(quantize((hri_quantize_to)to));
        for (uint64_t nth = 1; delivered; nth++) {
            const int64_t live = hri_fault_live_allocs();
            hri_fault_set(HRI_FAULT_ALLOC, nth, nth % 2);
            const hr_status status = quantize((hri_quantize_to)to);
            delivered = hri_fault_delivered();
            hri_fault_set(HRI_FAULT_ALLOC, 0, 0);
            CHECK_EQ(hri_fault_live_allocs(), live);
            CHECK(status == HR_OK || status == HR_E_NOMEM_HOST || delivered);
            failed += status != HR_OK;
        }
        CHECK(failed > 10);
        CHECK_OK(quantize((hri_quantize_to)to));
    }
}

static hr_status pack(void) {
    hri_checkpoint c = {.file = {.fd = -1}};
    hri_quantize_report r;
    hri_prose why = {""};
    hr_graph *g = NULL;
    hr_status status = hri_checkpoint_open(in("text"), &c, &why);
    status = status == HR_OK ? hri_quantize_graph(&c, "", &g, &why) : status;
    status = status == HR_OK ? hri_checkpoint_weight_codes(&c, g, "weights:bits=4",
                                                           in("w.safetensors"), &r, &why)
                             : status;
    hr_graph_destroy(g);
    hri_checkpoint_close(&c);
    return status;
}

static hr_status merge(void) {
    hri_checkpoint c = {.file = {.fd = -1}};
    hri_merge_report r;
    hri_prose why = {""};
    hr_status status = hri_checkpoint_open(in("lora"), &c, &why);
    status = status == HR_OK ? hri_checkpoint_merge(&c, in("m.safetensors"), &r, &why) : status;
    hri_checkpoint_close(&c);
    return status;
}

/* Every allocation of it fails once, and all after one. */
static void sweep(hr_status (*run)(void)) {
    int failed = 0;
    CHECK_OK(run());
    for (uint64_t nth = 1, delivered = 1; delivered; nth++) {
        const int64_t live = hri_fault_live_allocs();
        hri_fault_set(HRI_FAULT_ALLOC, nth, nth % 2);
        const hr_status status = run();
        delivered = hri_fault_delivered();
        hri_fault_set(HRI_FAULT_ALLOC, 0, 0);
        CHECK_EQ(hri_fault_live_allocs(), live);
        CHECK(status == HR_OK || status == HR_E_NOMEM_HOST || delivered);
        failed += status != HR_OK;
    }
    CHECK(failed > 10);
    CHECK_OK(run());
}

TEST_TIMEOUT(quantize, a_file_of_small_weights_is_whole_or_is_not_there, 60) {
    const hr_ctx_options co = {.size = sizeof co, .no_cuda = 1};
    hr_ctx *ctx;
    hr_plan *plan;
    hr_error why = {.code = HR_OK};
    const hr_job_options o = {.size = sizeof o,
                              .model = "gpt2-nano:layers=1,context=8,vocab=16,width=8,heads=2",
                              .data = "synthetic:count=8",
                              .batch = 4,
                              .steps = 1,
                              .threads = 1,
                              .effort = 1000,
                              .no_measure = 1,
                              .cache = "",
                              .folder = in("text")};
    CHECK_OK(hr_ctx_create(&co, &ctx));
    if (hr_job_plan(ctx, &o, &plan, &why) != HR_OK || hr_job_train(plan, &why) != HR_OK) {
        test_fail(__FILE__, __LINE__, "%s", why.message);
    }
    hr_plan_destroy(plan);
    sweep(pack);
    hr_job_options over = o;
    over.passes = "lora:rank=2";
    over.init = in("w.safetensors");
    over.folder = in("lora");
    if (hr_job_plan(ctx, &over, &plan, &why) != HR_OK || hr_job_train(plan, &why) != HR_OK) {
        test_fail(__FILE__, __LINE__, "%s", why.message);
    }
    hr_plan_destroy(plan);
    hr_ctx_destroy(ctx);
    sweep(merge);
}
