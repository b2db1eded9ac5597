/* Training with fake quantization, from begin to end: resuming, parts, budgets and replicas; and the integer file that it ends in. */
#include <headroom/headroom.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ops/common/learned_range.h"
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
                            .passes = "qat:begin=2,norms=4,freeze=6",
                            .batch = 8,
                            .micro_batches = 1,
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

static void read_tensor(const char *folder, const char *name, float *to, size_t n) {
    hr_checkpoint *c;
    CHECK_OK(hr_checkpoint_open(folder, &c, NULL));
    CHECK_OK(hr_checkpoint_read(c, name, HR_TYPE_F32, 0, to, n, NULL));
    hr_checkpoint_close(c);
}

static const char range_name[] = "relu.range"; /* of the first layer */

/* Ranges of parts are those of the batch, to the bit; losses of parts are added up, so parts are compared with parts. */
TEST(job_qat, resuming_budgets_and_replicas_change_no_bit_and_parts_no_range) {
    float whole[HRI_LEARNED_RANGE], other[HRI_LEARNED_RANGE];
    hr_error why = {.code = HR_OK};
    hr_job_options o = options(in("whole"));
    const uint64_t history = trained(&o);
    read_tensor(in("whole"), range_name, whole, HRI_LEARNED_RANGE);
    CHECK(whole[1] > 0.0f && whole[3] > 0.0f);
    CHECK_EQ((int)hri_learned_step(whole), 5); /* the last before they stand still */
    o = options(in("again"));
    o.steps = 5;
    (void)trained(&o);
    o.steps = 8;
    o.start = HR_START_RESUME;
    o.passes = "qat:begin=2,norms=4,freeze=7";
    uint64_t none;
    CHECK_STATUS(train(&o, &none, &why), HR_E_INVALID);
    CHECK(strstr(why.message, "cannot resume: the run used --qat"));
    o.passes = options(NULL).passes;
    CHECK_EQ(trained(&o), history);
    read_tensor(in("again"), range_name, other, HRI_LEARNED_RANGE);
    CHECK(!memcmp(whole, other, sizeof whole));
    o = options(in("parts"));
    o.micro_batches = 4;
    const uint64_t parts = trained(&o);
    o = options(in("replicas"));
    o.micro_batches = 4;
    o.replicas = 2;
    CHECK_EQ(trained(&o), parts);
    read_tensor(in("parts"), range_name, whole, HRI_LEARNED_RANGE);
    read_tensor(in("replicas"), range_name, other, HRI_LEARNED_RANGE);
    CHECK(!memcmp(whole, other, sizeof whole));
    o.folder = in("slices");
    o.shard = "states";
    CHECK_EQ(trained(&o), parts);
}

/* In the first step the weights are the same, so what is seen has to be. */
TEST(job_qat, the_range_of_a_batch_does_not_depend_on_its_parts) {
    float whole[HRI_LEARNED_RANGE], other[HRI_LEARNED_RANGE];
    hr_job_options o = options(in("whole"));
    o.steps = 1;
    (void)trained(&o);
    read_tensor(in("whole"), range_name, whole, HRI_LEARNED_RANGE);
    for (int64_t k = 2; k <= 8; k *= 2) {
        o.folder = in("parts");
        o.start = HR_START_OVERWRITE;
        o.micro_batches = k;
        (void)trained(&o);
        read_tensor(in("parts"), range_name, other, HRI_LEARNED_RANGE);
        CHECK(!memcmp(whole, other, sizeof whole));
    }
}

static hr_plan_summary planned(const hr_job_options *o) {
    const hr_ctx_options co = {.size = sizeof co, .no_cuda = 1};
    hr_ctx *ctx;
    hr_plan *plan;
    hr_plan_summary s = {.size = sizeof s};
    hr_error why = {.code = HR_OK};
    CHECK_OK(hr_ctx_create(&co, &ctx));
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
    hr_job_options o = options(in("whole"));
    o.model =
        "net: input(32x32x3) | conv(8) | relu | conv(8) | relu | conv(8) | relu | conv(8) | relu "
        "| global_pool | dense(3)";
    o.batch = 64;
    o.data = "synthetic:count=64";
    o.effort = 20000;
    o.steps = 4;
    o.passes = "qat:begin=1,norms=2,freeze=3";
    const uint64_t history = trained(&o);
    o.folder = in("small");
    const uint64_t peak = planned(&o).peak_bytes;
    uint64_t recomputed = 0;
    for (uint64_t less = 1; less < 9 && !recomputed; less++) {
        snprintf(budget, sizeof budget, "%llu", (unsigned long long)(peak - (less << 20)));
        o.budget = budget;
        const hr_plan_summary s = planned(&o);
        recomputed = s.fits ? s.recomputed_ops : 0;
    }
    CHECK(recomputed > 0);
    CHECK_EQ(trained(&o), history);
}

typedef struct scores {
    float of[64][16];
    uint64_t count, classes;
} scores;

static hr_status keep(void *user, const hr_prediction *p) {
    scores *s = user;
    CHECK(p->index < 64 && p->class_count <= 16);
    memcpy(s->of[p->index], p->scores, p->class_count * sizeof(float));
    s->count++;
    s->classes = p->class_count;
    return HR_OK;
}

static void predict(const char *checkpoint, scores *out) {
    const hr_ctx_options co = {.size = sizeof co, .no_cuda = 1};
    hr_ctx *ctx;
    hr_predictor *p = NULL;
    hr_error why = {.code = HR_OK};
    const hr_infer_options o = {.size = sizeof o,
                                .checkpoint = checkpoint,
                                .data = "synthetic:count=64",
                                .no_labels = 1,
                                .threads = 2};
    memset(out, 0, sizeof *out);
    CHECK_OK(hr_ctx_create(&co, &ctx));
    if (hr_predictor_open(ctx, &o, &p, &why) != HR_OK ||
        hr_predictor_run(p, keep, out, NULL, &why) != HR_OK) {
        test_fail(__FILE__, __LINE__, "%s", why.message);
    }
    CHECK_EQ(out->count, 64);
    hr_predictor_close(p);
    hr_ctx_destroy(ctx);
}

static hr_quantize_result quantize(const char *run, const char *out) {
    const hr_ctx_options co = {.size = sizeof co, .no_cuda = 1};
    hr_ctx *ctx;
    hr_error why = {.code = HR_OK};
    hr_quantize_result r = {.size = sizeof r};
    const hr_infer_options from = {.size = sizeof from, .checkpoint = run};
    const hr_quantize_options o = {.size = sizeof o, .infer = &from, .out = out};
    CHECK_OK(hr_ctx_create(&co, &ctx));
    if (hr_quantize(ctx, &o, &r, &why) != HR_OK) {
        test_fail(__FILE__, __LINE__, "%s", why.message);
    }
    hr_ctx_destroy(ctx);
    return r;
}

/* Batch norms, sums, pools, depthwise layers, relu6 and dropout among them. */
TEST(job_qat, the_integer_file_answers_as_the_run_does) {
    static const struct {
        const char *model;
        uint64_t layers;
    } each[] = {{"resnet18:size=32,width=8,classes=10,layers=1x1x1", 10},
                {"lenet:classes=4", 5},
                {"mobilenet_v2:size=32,multiplier=0.25,classes=10", 53}};
    static scores fake, whole;
    for (size_t k = 0; k < sizeof each / sizeof each[0]; k++) {
        hr_job_options o = options(in("run"));
        o.start = HR_START_OVERWRITE;
        o.model = each[k].model;
        o.data = "synthetic:count=64";
        o.training = "rate=0.02";
        o.steps = k == 2 ? 6 : 12;
        o.passes = "qat:begin=1,norms=3,freeze=4";
        (void)trained(&o);
        const hr_quantize_result r = quantize(in("run"), in("q.safetensors"));
        CHECK_EQ(r.layers, each[k].layers);
        CHECK_EQ(r.samples, 0);
        CHECK(r.ranges > 0);
        predict(in("run"), &fake);
        predict(in("q.safetensors"), &whole);
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
    hr_job_options o = options(in("dense"));
    o.passes = NULL;
    (void)trained(&o);
    o = options(in("qat"));
    o.init = in("dense/last.safetensors");
    (void)trained(&o);
    read_tensor(in("qat"), range_name, range, HRI_LEARNED_RANGE);
    CHECK(range[1] > 0.0f);
    o = options(in("more")); /* ranges of the file are where it begins */
    o.init = in("qat/last.safetensors");
    (void)trained(&o);
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
    (void)trained(&o);
    CHECK_EQ(told, 1);
    o.passes = "qat:begin=4,freeze=4";
    CHECK_STATUS(train(&o, &history, &why), HR_E_INVALID);
    CHECK_STR(why.message, "qat: freeze=4 is not after begin=4");
    o.passes = "qat:begin=4,norms=3";
    CHECK_STATUS(train(&o, &history, &why), HR_E_INVALID);
    CHECK_STR(why.message, "qat: norms=3 is before begin=4");
    o.passes = "qat";
    o.training = "precision=bf16";
    CHECK_STATUS(train(&o, &history, &why), HR_E_UNSUPPORTED);
    CHECK(strstr(why.message, "f32"));
}

/* While the model still changes nothing is the best. */
TEST(job_qat, the_best_parameters_are_of_steps_after_the_schedule) {
    static const char *const passes[] = {"qat:begin=0,norms=0,freeze=9",
                                         "prune:sparsity=0.5,begin=0,end=8,every=1"};
    for (size_t k = 0; k < 2; k++) {
        hr_job_options o = options(in("run"));
        hr_checkpoint *c;
        o.start = HR_START_OVERWRITE;
        o.passes = passes[k];
        o.val_data = "synthetic:count=16";
        o.steps = 8; /* epochs of 4 */
        (void)trained(&o);
        CHECK(hr_checkpoint_open(in("run/best.safetensors"), &c, NULL) != HR_OK);
        o.start = HR_START_RESUME;
        o.steps = 12;
        (void)trained(&o);
        CHECK_OK(hr_checkpoint_open(in("run/best.safetensors"), &c, NULL));
        hr_checkpoint_close(c);
    }
}
