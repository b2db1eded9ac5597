/* A training that prunes, from begin to end: resuming between two changes of the masks, parts, budgets and replicas. */
#include <headroom/headroom.h>

#include <stdio.h>
#include <string.h>

#include "runs.h"
#include "test.h"

static hr_job_options options(const char *name) {
    hr_job_options o = test_job("mlp:size=4,width=16,layers=3,classes=3", name);
    o.data = "synthetic:count=32";
    o.training = "optimizer=adamw,rate=0.01,clip=1";
    o.passes = "prune:sparsity=0.2:0.75,begin=1,end=6,every=2";
    o.batch = 8;
    o.micro_batches = 4;
    o.steps = 8;
    o.seed = 3;
    return o;
}

static void read_weight(const char *folder, float *w, size_t n) {
    test_read_tensor(folder, "layers.1.weight", w, n);
}

TEST(job_prune, resuming_parts_and_replicas_change_no_bit) {
    enum { N = 16 * 16 };
    float whole[N], other[N];
    hr_error why = {.code = HR_OK};
    hr_job_options o = options("whole");
    const uint64_t history = test_trained(&o);
    read_weight(test_in("whole"), whole, N);
    size_t zeros = 0;
    for (int i = 0; i < N; i++) {
        zeros += whole[i] == 0.0f;
    }
    CHECK_EQ(zeros, N * 3 / 4);
    o = options("parts");
    o.steps = 4; /* between the changes of steps 3 and 5 */
    (void)test_trained(&o);
    o.steps = 8;
    o.start = HR_START_RESUME;
    o.passes = "prune:sparsity=0.2:0.8,begin=1,end=6,every=2";
    uint64_t none;
    CHECK_STATUS(test_train(&o, &none, &why), HR_E_INVALID);
    CHECK(strstr(why.message, "cannot resume: the run used --prune sparsity=0.2:0.75"));
    o.passes = options(NULL).passes;
    CHECK_EQ(test_trained(&o), history);
    read_weight(test_in("parts"), other, N);
    CHECK(!memcmp(whole, other, sizeof whole));
    o = options("replicas");
    o.replicas = 2;
    CHECK_EQ(test_trained(&o), history);
    read_weight(test_in("replicas"), other, N);
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
        hr_job_options o = options(names[0]);
        o.model = "mlp:size=8,width=64,layers=3,classes=3";
        o.training = training[k];
        o.passes = passes[k == 2];
        o.steps = 8;
        const uint64_t history = test_trained(&o);
        read_weight(test_in(names[0]), whole, N);
        size_t zeros = 0;
        for (int i = 0; i < N; i++) {
            zeros += whole[i] == 0.0f;
        }
        CHECK_EQ(zeros, k == 2 ? N / 2 : N * 3 / 4);
        o.folder = test_in(names[1]);
        o.replicas = 2;
        o.shard = k == 1 ? "weights" : "states";
        o.steps = 4;
        (void)test_trained(&o);
        o.start = HR_START_RESUME;
        o.shard = k == 1 ? "states" : "weights";
        o.steps = 8;
        CHECK_EQ(test_trained(&o), history);
        read_weight(test_in(names[1]), other, N);
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
    (void)test_trained(&o);
    CHECK_EQ(told, 1);
    o.steps = 2; /* three quarters of it */
    (void)test_trained(&o);
    CHECK_EQ(told, 1);
    o.passes = "prune:sparsity=3";
    CHECK_STATUS(test_train(&o, &history, &why), HR_E_INVALID);
    CHECK(!strncmp(why.message, "prune: sparsity", 15));
}

/* Another storage of the optimizer's state is another training. */
TEST(job_prune, other_moments_are_refused_when_resuming) {
    hr_error why = {.code = HR_OK};
    uint64_t history;
    hr_job_options o = options("run");
    o.passes = NULL;
    o.steps = 1;
    o.training = "optimizer=adamw,moments=8bit";
    (void)test_trained(&o);
    o.start = HR_START_RESUME;
    o.steps = 2;
    o.training = "optimizer=adamw,moments=bf16";
    CHECK_STATUS(test_train(&o, &history, &why), HR_E_INVALID);
    CHECK_STR(why.message, "cannot resume: the run used --moments 8bit, this command has bf16");
    o.training = "optimizer=adamw";
    CHECK_STATUS(test_train(&o, &history, &why), HR_E_INVALID);
    CHECK(strstr(why.message, "--moments 8bit"));
    o.training = "optimizer=adamw,moments=8bit";
    (void)test_trained(&o);
}
