/* A run quantized after training: folding, calibration inside its plan, the file, and what it predicts. */
#include <headroom/headroom.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "graph/graph.h"
#include "ops/common/histogram.h"
#include "passes/common/pass.h"
#include "runs.h"
#include "test.h"
#include "weights/quantize.h"

static void train(const char *model) {
    hr_job_options o = test_job(model, "run");
    o.data = "synthetic:count=64";
    o.training = "rate=0.02";
    o.batch = 8;
    o.steps = 20;
    o.seed = 3;
    (void)test_trained(&o);
}

static hr_quantize_result quantize_to(int32_t type, const char *run, const char *out,
                                      int32_t method, uint64_t samples, const char *budget) {
    hr_ctx *ctx = test_context();
    hr_error why = {.code = HR_OK};
    hr_quantize_result r = {.size = sizeof r};
    const hr_infer_options from = {.size = sizeof from,
                                   .checkpoint = run,
                                   .data = "synthetic:count=64",
                                   .budget = budget,
                                   .threads = 2};
    const hr_quantize_options o = {.size = sizeof o,
                                   .infer = &from,
                                   .out = out,
                                   .samples = samples,
                                   .method = method,
                                   .type = type};
    if (hr_quantize(ctx, &o, &r, &why) != HR_OK) {
        test_fail(__FILE__, __LINE__, "%s", why.message);
    }
    hr_ctx_destroy(ctx);
    return r;
}

static hr_quantize_result quantize(const char *run, const char *out, int32_t method,
                                   uint64_t samples, const char *budget) {
    return quantize_to(HR_QUANTIZED_INT8, run, out, method, samples, budget);
}

/* The largest difference over the largest score, and how many classes are the same. */
static double apart(const test_scores *a, const test_scores *b, int *same) {
    double largest = 0, by = 0;
    *same = 0;
    for (uint64_t i = 0; i < a->count; i++) {
        uint64_t x = 0, y = 0;
        for (uint64_t k = 0; k < a->classes; k++) {
            largest = fmax(largest, fabs((double)a->of[i][k]));
            by = fmax(by, fabs((double)a->of[i][k] - (double)b->of[i][k]));
            x = a->of[i][k] > a->of[i][x] ? k : x;
            y = b->of[i][k] > b->of[i][y] ? k : y;
        }
        *same += x == y;
    }
    return by / largest;
}

static const char resnet[] = "resnet18:size=32,width=8,classes=10,layers=1x1x1";

TEST(job_quantize, folding_batch_norms_changes_scores_by_rounding_alone) {
    static test_scores a, b;
    int same;
    hri_checkpoint c;
    hri_quantizing q;
    hri_prose why = {0};
    hri_quantize_report r;
    hr_graph *g, *folded;
    train(resnet);
    CHECK_OK(hri_checkpoint_open(test_in("run"), &c, &why));
    CHECK_OK(hri_quantize_graph(&c, "", &g, &why));
    CHECK_OK(hri_quantizing_init(&q, g, 0));
    CHECK_OK(hri_checkpoint_quantize(&c, &q, HRI_QUANTIZE_FOLD, NULL, test_in("f.safetensors"), &r,
                                     &why));
    CHECK_EQ(r.layers, 10);
    CHECK_OK(hri_quantize_graph(&c, "quantize:to=fold", &folded, &why));
    for (uint32_t i = 0; i < folded->node_count; i++) {
        CHECK(strcmp(folded->nodes[i].sig.op->name, "batch_norm_inference") != 0);
    }
    test_predict(test_in("run"), &a);
    test_predict(test_in("f.safetensors"), &b);
    CHECK_LE(apart(&a, &b, &same), 1e-5);
    CHECK_EQ(same, 64);
    hr_graph_destroy(folded);
    hri_quantizing_deinit(&q);
    hr_graph_destroy(g);
    hri_checkpoint_close(&c);
}

TEST(job_quantize, every_method_gives_a_file_that_predicts_nearly_the_same) {
    static test_scores a, b;
    int same;
    train(resnet);
    test_predict(test_in("run"), &a);
    for (int32_t method = HR_CALIBRATION_MINMAX; method <= HR_CALIBRATION_MSE; method++) {
        const hr_quantize_result r =
            quantize(test_in("run"), test_in("q.safetensors"), method, 64, NULL);
        CHECK_EQ(r.layers, 10);
        CHECK_EQ(r.real_layers, 0);
        CHECK_EQ(r.samples, 64);
        CHECK_LE(r.bytes, r.bytes_before * 3 / 10);
        CHECK_LE(r.measured_peak_bytes, r.planned_peak_bytes);
        test_predict(test_in("q.safetensors"), &b);
        CHECK_LE(apart(&a, &b, &same), 0.15);
    }
}

TEST(job_quantize, linear_layers_and_flattened_images_compute_in_bytes) {
    static test_scores a, b;
    int same;
    train("lenet:classes=4");
    test_predict(test_in("run"), &a);
    const hr_quantize_result r =
        quantize(test_in("run"), test_in("q.safetensors"), HR_CALIBRATION_MINMAX, 64, NULL);
    CHECK_EQ(r.layers, 5);
    test_predict(test_in("q.safetensors"), &b);
    CHECK_LE(apart(&a, &b, &same), 0.1);
    CHECK(same >= 60);
}

TEST(job_quantize, a_run_with_averaged_parameters_is_quantized_without_them) {
    hr_job_options o = test_job("lenet", "run");
    o.data = "synthetic:count=64";
    o.passes = "ema:decay=0.9";
    o.batch = 8;
    o.steps = 2;
    (void)test_trained(&o);
    const hr_quantize_result r =
        quantize(test_in("run"), test_in("q.safetensors"), HR_CALIBRATION_MINMAX, 8, NULL);
    CHECK_EQ(r.layers, 5);
}

TEST_TIMEOUT(job_quantize, depthwise_convolutions_and_relu6_compute_in_bytes, 180) {
    static test_scores a, b;
    int same;
    train("mobilenet_v2:size=32,multiplier=0.25,classes=10");
    test_predict(test_in("run"), &a);
    const hr_quantize_result r =
        quantize(test_in("run"), test_in("q.safetensors"), HR_CALIBRATION_MINMAX, 64, NULL);
    CHECK_EQ(r.real_layers, 0);
    CHECK_EQ(r.layers, 53);
    CHECK_LE(r.bytes, r.bytes_before * 4 / 10);
    test_predict(test_in("q.safetensors"), &b);
    CHECK_LE(apart(&a, &b, &same), 0.3);
}

TEST(job_quantize, convolutions_in_groups_compute_in_bytes) {
    static test_scores a, b;
    int same;
    train("resnext50_32x4d:size=32,width=16,layers=1x1x1x1,groups=4,group_width=8,classes=10");
    test_predict(test_in("run"), &a);
    const hr_quantize_result r =
        quantize(test_in("run"), test_in("q.safetensors"), HR_CALIBRATION_MINMAX, 64, NULL);
    CHECK_EQ(r.real_layers, 0);
    CHECK_EQ(r.layers, 18);
    CHECK_LE(r.bytes, r.bytes_before * 3 / 10);
    test_predict(test_in("q.safetensors"), &b);
    CHECK_LE(apart(&a, &b, &same), 0.1);
}

TEST(job_quantize, layers_of_8_bit_floats_predict_nearly_the_same) {
    static test_scores a, b;
    int same;
    train(resnet);
    test_predict(test_in("run"), &a);
    const hr_quantize_result r =
        quantize_to(HR_QUANTIZED_FP8, test_in("run"), test_in("q.safetensors"),
                    HR_CALIBRATION_MINMAX, 64, NULL);
    CHECK_EQ(r.real_layers, 0);
    CHECK_LE(r.bytes, r.bytes_before * 3 / 10);
    test_predict(test_in("q.safetensors"), &b);
    const double by = apart(&a, &b, &same);
    CHECK(by > 0 && by <= 0.15);
}

TEST(job_quantize, a_type_that_does_not_exist_is_refused) {
    hr_ctx *ctx = test_context();
    hr_error why = {.code = HR_OK};
    const hr_infer_options from = {
        .size = sizeof from, .checkpoint = test_in("run"), .data = "synthetic"};
    hr_quantize_options o = {.size = sizeof o, .infer = &from, .out = test_in("q"), .type = 2};
    CHECK_STATUS(hr_quantize(ctx, &o, NULL, &why), HR_E_INVALID);
    CHECK(strstr(why.message, "type"));
    o.type = HR_QUANTIZED_FP8;
    o.weights = "4";
    CHECK_STATUS(hr_quantize(ctx, &o, NULL, &why), HR_E_INVALID);
    hr_ctx_destroy(ctx);
}

TEST(job_quantize, calibration_needs_the_same_memory_for_more_samples) {
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
    test_skip("the budget would have to hold the sanitizer's own memory");
#endif
    train(resnet);
    const hr_quantize_result few =
        quantize(test_in("run"), test_in("a.safetensors"), 0, 16, "40MiB");
    const hr_quantize_result more =
        quantize(test_in("run"), test_in("b.safetensors"), 0, 64, "40MiB");
    CHECK_LE(more.planned_peak_bytes, few.planned_peak_bytes + (2 << 20)); /* the process grew */
    CHECK_LE(more.measured_peak_bytes, more.planned_peak_bytes);
    CHECK_LE(more.planned_peak_bytes, UINT64_C(40) << 20);
}

TEST(job_quantize, what_is_quantized_is_not_quantized_again_and_not_trained) {
    hr_ctx *ctx = test_context();
    hr_error why = {.code = HR_OK};
    hr_plan *plan = NULL;
    train("mlp:size=4,channels=1,width=8,layers=2,classes=3");
    quantize(test_in("run"), test_in("q.safetensors"), 0, 16, NULL);
    const hr_infer_options from = {
        .size = sizeof from, .checkpoint = test_in("q.safetensors"), .data = "synthetic:count=8"};
    const hr_quantize_options o = {
        .size = sizeof o, .infer = &from, .out = test_in("r.safetensors")};
    CHECK_STATUS(hr_quantize(ctx, &o, NULL, &why), HR_E_UNSUPPORTED);
    CHECK(strstr(why.message, "already"));
    hr_job_options job = test_job("mlp:size=4,channels=1,width=8,layers=2,classes=3", NULL);
    job.data = "synthetic:count=8";
    job.passes = "quantize";
    job.batch = 4;
    CHECK(hr_job_plan(ctx, &job, &plan, &why) != HR_OK);
    CHECK(strstr(why.message, "evaluation"));
    hr_ctx_destroy(ctx);
}
