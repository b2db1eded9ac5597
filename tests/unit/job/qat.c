/* Training with fake quantization, from begin to end: resuming, parts, budgets and replicas; and the integer file that it ends in. */
#include <headroom/headroom.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ops/common/learned_range.h"
#include "runs.h"
#include "test.h"

static hr_job_options options(const char *name) {
    hr_job_options o = test_job("mlp:size=4,width=16,layers=3,classes=3", name);
    o.data = "synthetic:count=32";
    o.training = "optimizer=adamw,rate=0.01,clip=1";
    o.passes = "qat:begin=2,norms=4,freeze=6";
    o.batch = 8;
    o.micro_batches = 1;
    o.steps = 8;
    o.seed = 3;
    return o;
}

static const char range_name[] = "relu.range"; /* of the first layer */

/* Ranges of parts are those of the batch, to the bit; losses of parts are added up, so parts are compared with parts. */
TEST(job_qat, resuming_budgets_and_replicas_change_no_bit_and_parts_no_range) {
    float whole[HRI_LEARNED_RANGE], other[HRI_LEARNED_RANGE];
    hr_error why = {.code = HR_OK};
    hr_job_options o = options("whole");
    const uint64_t history = test_trained(&o);
    test_read_tensor(test_in("whole"), range_name, whole, HRI_LEARNED_RANGE);
    CHECK(whole[1] > 0.0f && whole[3] > 0.0f);
    CHECK_EQ((int)hri_learned_step(whole), 5); /* the last before they stand still */
    o = options("again");
    o.steps = 5;
    (void)test_trained(&o);
    o.steps = 8;
    o.start = HR_START_RESUME;
    o.passes = "qat:begin=2,norms=4,freeze=7";
    uint64_t none;
    CHECK_STATUS(test_train(&o, &none, &why), HR_E_INVALID);
    CHECK(strstr(why.message, "cannot resume: the run used --qat"));
    o.passes = options(NULL).passes;
    CHECK_EQ(test_trained(&o), history);
    test_read_tensor(test_in("again"), range_name, other, HRI_LEARNED_RANGE);
    CHECK(!memcmp(whole, other, sizeof whole));
    o = options("parts");
    o.micro_batches = 4;
    const uint64_t parts = test_trained(&o);
    o = options("replicas");
    o.micro_batches = 4;
    o.replicas = 2;
    CHECK_EQ(test_trained(&o), parts);
    test_read_tensor(test_in("parts"), range_name, whole, HRI_LEARNED_RANGE);
    test_read_tensor(test_in("replicas"), range_name, other, HRI_LEARNED_RANGE);
    CHECK(!memcmp(whole, other, sizeof whole));
    o.folder = test_in("slices");
    o.shard = "states";
    CHECK_EQ(test_trained(&o), parts);
}

/* In the first step the weights are the same, so what is seen has to be. */
TEST(job_qat, the_range_of_a_batch_does_not_depend_on_its_parts) {
    float whole[HRI_LEARNED_RANGE], other[HRI_LEARNED_RANGE];
    hr_job_options o = options("whole");
    o.steps = 1;
    (void)test_trained(&o);
    test_read_tensor(test_in("whole"), range_name, whole, HRI_LEARNED_RANGE);
    for (int64_t k = 2; k <= 8; k *= 2) {
        o.folder = test_in("parts");
        o.start = HR_START_OVERWRITE;
        o.micro_batches = k;
        (void)test_trained(&o);
        test_read_tensor(test_in("parts"), range_name, other, HRI_LEARNED_RANGE);
        CHECK(!memcmp(whole, other, sizeof whole));
    }
}

static hr_plan_summary planned(const hr_job_options *o) {
    hr_ctx *ctx = test_context();
    hr_plan *plan;
    hr_plan_summary s = {.size = sizeof s};
    hr_error why = {.code = HR_OK};
    if (hr_job_plan(ctx, o, &plan, &why) != HR_OK) {
        test_fail(__FILE__, __LINE__, "%s", why.message);
    }
    CHECK_OK(hr_plan_get_summary(plan, &s));
    hr_plan_destroy(plan);
    hr_ctx_destroy(ctx);
    return s;
}

TEST(job_qat, recomputation_changes_no_bit) {
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
    test_skip("the budget would have to hold the sanitizer's own memory");
#endif
    char budget[40];
    hr_job_options o = options("whole");
    o.model =
        "net: input(32x32x3) | conv(8) | relu | conv(8) | relu | conv(8) | relu | conv(8) | relu "
        "| global_pool | dense(3)";
    o.batch = 64;
    o.data = "synthetic:count=64";
    o.effort = 20000;
    o.steps = 4;
    o.passes = "qat:begin=1,norms=2,freeze=3";
    const uint64_t history = test_trained(&o);
    o.folder = test_in("small");
    const uint64_t peak = planned(&o).peak_bytes;
    uint64_t recomputed = 0;
    for (uint64_t less = 1; less < 9 && !recomputed; less++) {
        snprintf(budget, sizeof budget, "%llu", (unsigned long long)(peak - (less << 20)));
        o.budget = budget;
        const hr_plan_summary s = planned(&o);
        recomputed = s.fits ? s.recomputed_ops : 0;
    }
    CHECK(recomputed > 0);
    CHECK_EQ(test_trained(&o), history);
}

static hr_quantize_result quantize(const char *run, const char *out) {
    hr_ctx *ctx = test_context();
    hr_error why = {.code = HR_OK};
    hr_quantize_result r = {.size = sizeof r};
    const hr_infer_options from = {.size = sizeof from, .checkpoint = run};
    const hr_quantize_options o = {.size = sizeof o, .infer = &from, .out = out};
    if (hr_quantize(ctx, &o, &r, &why) != HR_OK) {
        test_fail(__FILE__, __LINE__, "%s", why.message);
    }
    hr_ctx_destroy(ctx);
    return r;
}

/* Batch norms, sums, pools, depthwise layers, relu6 and dropout among them. */
TEST_TIMEOUT(job_qat, the_integer_file_answers_as_the_run_does, 180) {
    static const struct {
        const char *model;
        uint64_t layers;
    } each[] = {{"resnet18:size=32,width=8,classes=10,layers=1x1x1", 10},
                {"lenet:classes=4", 5},
                {"mobilenet_v2:size=32,multiplier=0.25,classes=10", 53}};
    static test_scores fake, whole;
    for (size_t k = 0; k < sizeof each / sizeof each[0]; k++) {
        hr_job_options o = options("run");
        o.start = HR_START_OVERWRITE;
        o.model = each[k].model;
        o.data = "synthetic:count=64";
        o.training = "rate=0.02";
        o.steps = k == 2 ? 6 : 12;
        o.passes = "qat:begin=1,norms=3,freeze=4";
        (void)test_trained(&o);
        const hr_quantize_result r = quantize(test_in("run"), test_in("q.safetensors"));
        CHECK_EQ(r.layers, each[k].layers);
        CHECK_EQ(r.samples, 0);
        CHECK(r.ranges > 0);
        test_predict(test_in("run"), &fake);
        test_predict(test_in("q.safetensors"), &whole);
        double largest = 0, by = 0;
        for (uint64_t i = 0; i < 64; i++) {
            for (uint64_t c = 0; c < fake.classes; c++) {
                largest = fmax(largest, fabs((double)fake.of[i][c]));
                by = fmax(by, fabs((double)fake.of[i][c] - (double)whole.of[i][c]));
            }
        }
        CHECK_LE(by, 0.02 * largest);
    }
}

TEST(job_qat, a_trained_network_is_trained_on_with_rounding) {
    float range[HRI_LEARNED_RANGE];
    hr_job_options o = options("dense");
    o.passes = NULL;
    (void)test_trained(&o);
    o = options("qat");
    o.init = test_in("dense/last.safetensors");
    (void)test_trained(&o);
    test_read_tensor(test_in("qat"), range_name, range, HRI_LEARNED_RANGE);
    CHECK(range[1] > 0.0f);
    o = options("more"); /* ranges of the file are where it begins */
    o.init = test_in("qat/last.safetensors");
    (void)test_trained(&o);
}

static hr_status on_event(void *user, const hr_job_event *e) {
    *(int *)user += e->kind == HR_EVENT_WARNING && strstr(e->text, "stand still");
    return HR_OK;
}

TEST(job_qat, wrong_options_and_runs_that_end_too_early_are_told) {
    hr_error why = {.code = HR_OK};
    uint64_t history;
    int told = 0;
    hr_job_options o = options(NULL);
    o.on_event = on_event;
    o.user = &told;
    o.passes = "qat:freeze=9";
    (void)test_trained(&o);
    CHECK_EQ(told, 1);
    o.passes = "qat:begin=4,freeze=4";
    CHECK_STATUS(test_train(&o, &history, &why), HR_E_INVALID);
    CHECK_STR(why.message, "qat: freeze=4 is not after begin=4");
    o.passes = "qat:begin=4,norms=3";
    CHECK_STATUS(test_train(&o, &history, &why), HR_E_INVALID);
    CHECK_STR(why.message, "qat: norms=3 is before begin=4");
    o.passes = "qat";
    o.training = "precision=bf16";
    CHECK_STATUS(test_train(&o, &history, &why), HR_E_UNSUPPORTED);
    CHECK(strstr(why.message, "f32"));
}

/* While the model still changes nothing is the best. */
TEST(job_qat, the_best_parameters_are_of_steps_after_the_schedule) {
    static const char *const passes[] = {"qat:begin=0,norms=0,freeze=9",
                                         "prune:sparsity=0.5,begin=0,end=8,every=1"};
    for (size_t k = 0; k < 2; k++) {
        hr_job_options o = options("run");
        hr_checkpoint *c;
        o.start = HR_START_OVERWRITE;
        o.passes = passes[k];
        o.val_data = "synthetic:count=16";
        o.steps = 8; /* epochs of 4 */
        (void)test_trained(&o);
        CHECK(hr_checkpoint_open(test_in("run/best.safetensors"), &c, NULL) != HR_OK);
        o.start = HR_START_RESUME;
        o.steps = 12;
        (void)test_trained(&o);
        CHECK_OK(hr_checkpoint_open(test_in("run/best.safetensors"), &c, NULL));
        hr_checkpoint_close(c);
    }
}
