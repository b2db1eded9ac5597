/* Allocations fail while a step with fake quantization is built, while its run is quantized, and while a plan says what quantization saves: a
 * status, nothing left behind, no file half written, and a retry works. */
#include <headroom/headroom.h>

#include <stdio.h>

#include "base/fault.h"
#include "job/plan_object.h"
#include "pictures.h"
#include "step/objective.h"
#include "test.h"

static const char model[] = "resnet18:size=8,width=2,layers=1,classes=2";

static const char *in(const char *name) {
    static char paths[2][600];
    static unsigned at;
    char *path = paths[at++ % 2];
    snprintf(path, sizeof paths[0], "%s/%s", test_folder(), name);
    return path;
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

static hr_status build(hr_step_kind kind) {
    hr_train_options o = {.size = sizeof o};
    hr_model *m = NULL;
    hr_graph *g = NULL;
    hri_passes passes = {0};
    hri_prose why = {""};
    hr_status status = hr_train_options_parse("optimizer=sgd", &o, NULL);
    status = status == HR_OK ? hr_model_open(model, &m, NULL) : status;
    status = status == HR_OK ? hri_passes_parse("qat:norms=2,freeze=3", &passes, &why) : status;
    if (status == HR_OK) {
        hri_objective objective = {.build = hr_model_build, .user = m, .passes = &passes};
        status = hr_step_build(&o, hri_objective_build, &objective, kind, 2, &g, NULL);
    }
    hr_graph_destroy(g);
    hri_passes_deinit(&passes);
    hr_model_close(m);
    return status;
}

static hr_status build_step(void) {
    return build(HR_STEP_WHOLE);
}

static hr_status build_evaluation(void) {
    return build(HR_STEP_EVALUATE);
}

TEST_TIMEOUT(qat, a_step_is_built_or_not, 60) {
    sweep(build_step);
    sweep(build_evaluation);
}

static hr_ctx *ctx;
static hr_plan *plan;

static void make_run(const char *of, const char *passes) {
    const hr_ctx_options co = {.size = sizeof co, .no_cuda = 1};
    hr_error why = {.code = HR_OK};
    const hr_job_options o = {.size = sizeof o,
                              .model = of,
                              .data = "synthetic:count=8",
                              .passes = passes,
                              .batch = 4,
                              .steps = 2,
                              .threads = 1,
                              .effort = 1000,
                              .no_measure = 1,
                              .cache = "",
                              .folder = in("run")};
    CHECK_OK(hr_ctx_create(&co, &ctx));
    if (hr_job_plan(ctx, &o, &plan, &why) != HR_OK || hr_job_train(plan, &why) != HR_OK) {
        test_fail(__FILE__, __LINE__, "%s", why.message);
    }
}

static hr_status quantize(void) {
    hr_error why = {.code = HR_OK};
    const hr_infer_options from = {.size = sizeof from, .checkpoint = in("run")};
    const hr_quantize_options o = {.size = sizeof o, .infer = &from, .out = in("q.safetensors")};
    const hr_status status = hr_quantize(ctx, &o, NULL, &why);
    CHECK(status == HR_OK || why.message[0]);
    return status;
}

TEST_TIMEOUT(qat, a_file_by_learned_ranges_is_whole_or_is_not_there, 60) {
    make_run(model, "qat:norms=1,freeze=2");
    sweep(quantize);
    hr_plan_destroy(plan);
    hr_ctx_destroy(ctx);
}

static hr_status look(const char *text) {
    hri_quantized_bytes said = {0};
    hri_prose why = {""};
    const hr_status status = hri_quantized_look(&plan->job, text, &said, &why);
    CHECK(status == HR_OK || !said.layers);
    return status;
}

static hr_status look_int8(void) {
    return look("int8");
}

static hr_status look_codes(void) {
    return look("4");
}

TEST_TIMEOUT(qat, what_quantization_saves_is_said_or_not, 60) {
    make_run("mlp:size=2,channels=1,width=8,layers=3,classes=2", NULL);
    sweep(look_int8);
    sweep(look_codes);
    hr_plan_destroy(plan);
    hr_ctx_destroy(ctx);
}
