/* Allocations fail while passes are read and applied, and while adapters are merged: a status, nothing left behind, no file
 * half written, and a retry works. */
#include <headroom/headroom.h>

#include "runs.h"
#include "step/objective.h"
#include "sweep.h"
#include "test.h"

static const char model[] = "mlp:size=2,channels=1,width=8,layers=3,classes=2";

static hr_status build_step(const void *user) {
    (void)user;
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
    test_sweep(build_step, NULL);
}

static hr_status merge(const void *user) {
    (void)user;
    hr_checkpoint *c = NULL;
    hr_error why = {.code = HR_OK};
    hr_status status = hr_checkpoint_open(test_in("run"), &c, &why);
    status = status == HR_OK ? hr_checkpoint_merge(c, test_in("merged.safetensors"), NULL, &why)
                             : status;
    CHECK(status == HR_OK || why.message[0]);
    hr_checkpoint_close(c);
    return status;
}

TEST_TIMEOUT(lora, merging_gives_a_whole_file_or_none, 60) {
    hr_job_options o = test_job(model, "run");
    o.passes = "lora:rank=2";
    o.data = "synthetic:count=8";
    o.batch = 4;
    o.steps = 1;
    (void)test_trained(&o);
    test_sweep(merge, NULL);
}
