/* Allocations fail while passes are read and applied, and while adapters are merged: a status, nothing left behind, no file
 * half written, and a retry works. */
#include <headroom/headroom.h>

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "base/file.h"
#include "pictures.h"
#include "step/objective.h"
#include "test.h"

static const char model[] = "mlp:size=2,channels=1,width=8,layers=3,classes=2";

/* Runs it with the Nth allocation failing, for every N there is. */
static void fail_each(hr_status (*run)(void)) {
    int failed = 0;
    uint64_t delivered = 1;
    CHECK_OK(run());
    for (uint64_t nth = 1; delivered; nth++) {
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

static hr_status build_step(void) {
    hr_train_options o = {.size = sizeof o};
    hr_model *m = NULL;
    hr_graph *g = NULL;
    hri_passes passes = {0};
    hri_prose why = {""};
    hr_status status = hr_train_options_parse("optimizer=adamw", &o, NULL);
    status = status == HR_OK ? hr_model_open(model, &m, NULL) : status;
    status = status == HR_OK
                 ? hri_passes_parse("lora:rank=2,train=layers.1;prune:end=5,layers=layers.1",
                                    &passes, &why)
                 : status;
    if (status == HR_OK) {
        hri_objective objective = {.build = hr_model_build, .user = m, .passes = &passes};
        status = hr_step_build(&o, hri_objective_build, &objective, HR_STEP_WHOLE, 2, &g, NULL);
    }
    hr_graph_destroy(g);
    hri_passes_deinit(&passes);
    hr_model_close(m);
    return status;
}

TEST_TIMEOUT(lora, a_step_with_passes_is_built_or_not, 60) {
    fail_each(build_step);
}

static const char *in(const char *name) {
    static char paths[2][600];
    static unsigned at;
    char *path = paths[at++ % 2];
    snprintf(path, sizeof paths[0], "%s/%s", test_folder(), name);
    return path;
}

static hr_status merge(void) {
    hr_checkpoint *c = NULL;
    hr_error why = {.code = HR_OK};
    hr_status status = hr_checkpoint_open(in("run"), &c, &why);
    status =
        status == HR_OK ? hr_checkpoint_merge(c, in("merged.safetensors"), NULL, &why) : status;
    CHECK(status == HR_OK || why.message[0]);
    hr_checkpoint_close(c);
    return status;
}

TEST_TIMEOUT(lora, merging_gives_a_whole_file_or_none, 60) {
    const hr_ctx_options co = {.size = sizeof co, .no_cuda = 1};
    hr_ctx *ctx;
    hr_plan *plan;
    hr_error why = {.code = HR_OK};
    const hr_job_options o = {.size = sizeof o,
                              .model = model,
                              .passes = "lora:rank=2",
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
    fail_each(merge);
}
