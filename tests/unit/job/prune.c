/* A training that prunes, from begin to end: resuming between two changes of the masks, parts, budgets and replicas. */
#include <headroom/headroom.h>

#include <stdio.h>
#include <string.h>

#include "pictures.h"
#include "test.h"

static const char *in(const char *name) {
    static char paths[4][600];
    static unsigned at;
    char *path = paths[at++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", test_folder(), name);
    return path;
}

static hr_job_options options(const char *folder) {
    return (hr_job_options){.size = sizeof(hr_job_options),
                            .model = "mlp:size=4,width=16,layers=3,classes=3",
                            .data = "synthetic:count=32",
                            .training = "optimizer=adamw,rate=0.01,clip=1",
                            .passes = "prune:sparsity=0.2:0.75,begin=1,end=6,every=2",
                            .batch = 8,
                            .micro_batches = 4,
                            .steps = 8,
                            .seed = 3,
                            .threads = 1,
                            .effort = 1000,
                            .no_measure = 1,
                            .cache = "",
                            .folder = folder};
}

static hr_status train(const hr_job_options *o, uint64_t *history, hr_error *why) {
    const hr_ctx_options co = {.size = sizeof co, .no_cuda = 1};
    hr_ctx *ctx;
    hr_plan *plan = NULL;
    hr_train_result r = {.size = sizeof r};
    CHECK_OK(hr_ctx_create(&co, &ctx));
    hr_status status = hr_job_plan(ctx, o, &plan, why);
    status = status == HR_OK ? hr_job_train(plan, why) : status;
    if (status == HR_OK) {
        CHECK_OK(hr_job_get_result(plan, 0, &r));
        *history = r.history;
    }
    hr_plan_destroy(plan);
    hr_ctx_destroy(ctx);
    return status;
}

static uint64_t trained(const hr_job_options *o) {
    hr_error why = {.code = HR_OK};
    uint64_t history = 0;
    if (train(o, &history, &why) != HR_OK) {
        test_fail(__FILE__, __LINE__, "%s", why.message);
    }
    return history;
}

static void read_weight(const char *folder, float *w, size_t n) {
    hr_checkpoint *c;
    CHECK_OK(hr_checkpoint_open(folder, &c, NULL));
    CHECK_OK(hr_checkpoint_read(c, "layers.1.weight", HR_TYPE_F32, 0, w, n, NULL));
    hr_checkpoint_close(c);
}

TEST(job_prune, resuming_parts_and_replicas_change_no_bit) {
    enum { N = 16 * 16 };
    float whole[N], other[N];
    hr_error why = {.code = HR_OK};
    hr_job_options o = options(in("whole"));
    const uint64_t history = trained(&o);
    read_weight(in("whole"), whole, N);
    size_t zeros = 0;
    for (int i = 0; i < N; i++) {
        zeros += whole[i] == 0.0f;
    }
    CHECK_EQ(zeros, N * 3 / 4);
    o = options(in("parts"));
    o.steps = 4; /* between the changes of steps 3 and 5 */
    (void)trained(&o);
    o.steps = 8;
    o.start = HR_START_RESUME;
    o.passes = "prune:sparsity=0.2:0.8,begin=1,end=6,every=2";
    uint64_t none;
    CHECK_STATUS(train(&o, &none, &why), HR_E_INVALID);
    CHECK(strstr(why.message, "cannot resume: the run used --prune sparsity=0.2:0.75"));
    o.passes = options(NULL).passes;
    CHECK_EQ(trained(&o), history);
    read_weight(in("parts"), other, N);
    CHECK(!memcmp(whole, other, sizeof whole));
    o = options(in("replicas"));
    o.replicas = 2;
    CHECK_EQ(trained(&o), history);
    read_weight(in("replicas"), other, N);
    CHECK(!memcmp(whole, other, sizeof whole));
}

/* Layers of 4,096 weights: each rank has a slice of some, and the mask is chosen among all of them. */
TEST(job_prune, slices_on_ranks_and_resuming_in_them_change_no_bit) {
    static const char *const training[] = {"optimizer=adamw,rate=0.01,clip=1", "optimizer=sgd",
                                           "optimizer=adamw,moments=8bit"};
    static const char *const passes[] = {"prune:sparsity=0.2:0.75,begin=1,end=6,every=2",
                                         "prune:sparsity=2:4,begin=1,end=6,every=2"};
    enum { N = 64 * 64 };
    static float whole[N], other[N];
    for (size_t k = 0; k < 3; k++) {
        char names[2][16];
        snprintf(names[0], sizeof names[0], "w%zu", k);
        snprintf(names[1], sizeof names[1], "s%zu", k);
        hr_job_options o = options(in(names[0]));
        o.model = "mlp:size=8,width=64,layers=3,classes=3";
        o.training = training[k];
        o.passes = passes[k == 2];
        o.steps = 8;
        const uint64_t history = trained(&o);
        read_weight(in(names[0]), whole, N);
        size_t zeros = 0;
        for (int i = 0; i < N; i++) {
            zeros += whole[i] == 0.0f;
        }
        CHECK_EQ(zeros, k == 2 ? N / 2 : N * 3 / 4);
        o.folder = in(names[1]);
        o.replicas = 2;
        o.shard = k == 1 ? "weights" : "states";
        o.steps = 4;
        (void)trained(&o);
        o.start = HR_START_RESUME;
        o.shard = k == 1 ? "states" : "weights";
        o.steps = 8;
        CHECK_EQ(trained(&o), history);
        read_weight(in(names[1]), other, N);
        CHECK(!memcmp(whole, other, sizeof whole));
    }
}

static hr_status on_event(void *user, const hr_job_event *e) {
    *(int *)user += e->kind == HR_EVENT_WARNING && strstr(e->text, "ends before step 1000");
    return HR_OK;
}

TEST(job_prune, a_run_that_ends_before_its_masks_is_told) {
    hr_error why = {.code = HR_OK};
    uint64_t history;
    int told = 0;
    hr_job_options o = options(NULL);
    o.passes = "prune:sparsity=0.8";
    o.steps = 0;
    o.epochs = 1;
    o.on_event = on_event;
    o.user = &told;
    (void)trained(&o);
    CHECK_EQ(told, 1);
    o.steps = 2; /* three quarters of it */
    (void)trained(&o);
    CHECK_EQ(told, 1);
    o.passes = "prune:sparsity=3";
    CHECK_STATUS(train(&o, &history, &why), HR_E_INVALID);
    CHECK(!strncmp(why.message, "prune: sparsity", 15));
}

/* Another storage of the optimizer's state is another training. */
TEST(job_prune, other_moments_are_refused_when_resuming) {
    hr_error why = {.code = HR_OK};
    uint64_t history;
    hr_job_options o = options(in("run"));
    o.passes = NULL;
    o.steps = 1;
    o.training = "optimizer=adamw,moments=8bit";
    (void)trained(&o);
    o.start = HR_START_RESUME;
    o.steps = 2;
    o.training = "optimizer=adamw,moments=bf16";
    CHECK_STATUS(train(&o, &history, &why), HR_E_INVALID);
    CHECK_STR(why.message, "cannot resume: the run used --moments 8bit, this command has bf16");
    o.training = "optimizer=adamw";
    CHECK_STATUS(train(&o, &history, &why), HR_E_INVALID);
    CHECK(strstr(why.message, "--moments 8bit"));
    o.training = "optimizer=adamw,moments=8bit";
    (void)trained(&o);
}
