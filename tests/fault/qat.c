/* Allocations fail while a step with fake quantization is built, while its run is quantized, and while a plan says what quantization saves: a
 * status, nothing left behind, no file half written, and a retry works. */
#include <headroom/headroom.h>

#include "job/plan_object.h"
#include "runs.h"
#include "step/objective.h"
#include "sweep.h"
#include "test.h"

static const char model[] = "resnet18:size=8,width=2,layers=1,classes=2";

static hr_status build(const void *user) {
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
        status = hr_step_build(&o, hri_objective_build, &objective, *(const hr_step_kind *)user, 2,
                               &g, NULL);
    }
    hr_graph_destroy(g);
    hri_passes_deinit(&passes);
    hr_model_close(m);
    return status;
}

TEST_TIMEOUT(qat, a_step_is_built_or_not, 60) {
    test_sweep(build, &(hr_step_kind){HR_STEP_WHOLE});
    test_sweep(build, &(hr_step_kind){HR_STEP_EVALUATE});
}

static hr_ctx *ctx;
static hr_plan *plan;

static void make_run(const char *of, const char *passes) {
    hr_error why = {.code = HR_OK};
    hr_job_options o = test_job(of, "run");
    o.data = "synthetic:count=8";
    o.passes = passes;
    o.batch = 4;
    o.steps = 2;
    ctx = test_context();
    if (hr_job_plan(ctx, &o, &plan, &why) != HR_OK || hr_job_train(plan, &why) != HR_OK) {
        test_fail(__FILE__, __LINE__, "%s", why.message);
    }
}

static hr_status quantize(const void *user) {
    (void)user;
    hr_error why = {.code = HR_OK};
    const hr_infer_options from = {.size = sizeof from, .checkpoint = test_in("run")};
    const hr_quantize_options o = {
        .size = sizeof o, .infer = &from, .out = test_in("q.safetensors")};
    const hr_status status = hr_quantize(ctx, &o, NULL, &why);
    CHECK(status == HR_OK || why.message[0]);
    return status;
}

TEST_TIMEOUT(qat, a_file_by_learned_ranges_is_whole_or_is_not_there, 60) {
    make_run(model, "qat:norms=1,freeze=2");
    test_sweep(quantize, NULL);
    hr_plan_destroy(plan);
    hr_ctx_destroy(ctx);
}

static hr_status look(const void *text) {
    hri_quantized_bytes said = {0};
    hri_prose why = {""};
    const hr_status status = hri_quantized_look(&plan->job, text, &said, &why);
    CHECK(status == HR_OK || !said.layers);
    return status;
}

TEST_TIMEOUT(qat, what_quantization_saves_is_said_or_not, 60) {
    make_run("mlp:size=2,channels=1,width=8,layers=3,classes=2", NULL);
    test_sweep(look, "int8");
    test_sweep(look, "4");
    hr_plan_destroy(plan);
    hr_ctx_destroy(ctx);
}
