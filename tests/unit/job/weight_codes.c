/* Weights of a language model in 8 and 4 bits: the file, what it has, and what it evaluates to. */
#include <headroom/headroom.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "job/plan_object.h"
#include "pictures.h"
#include "test.h"
#include "weights/checkpoint.h"

static const char *in(const char *name) {
    static char paths[4][600];
    static unsigned at;
    char *path = paths[at++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", test_folder(), name);
    return path;
}

static hr_ctx *open_context(void) {
    const hr_ctx_options co = {.size = sizeof co, .no_cuda = 1};
    hr_ctx *ctx;
    CHECK_OK(hr_ctx_create(&co, &ctx));
    return ctx;
}

static void train(const char *model, const char *folder) {
    hr_ctx *ctx = open_context();
    hr_plan *plan = NULL;
    hr_error why = {.code = HR_OK};
    const hr_job_options o = {.size = sizeof o,
                              .model = model,
                              .data = "synthetic:count=32",
                              .training = "rate=0.05",
                              .batch = 8,
                              .steps = 12,
                              .seed = 3,
                              .threads = 1,
                              .effort = 1000,
                              .no_measure = 1,
                              .cache = "",
                              .folder = folder};
    if (hr_job_plan(ctx, &o, &plan, &why) != HR_OK || hr_job_train(plan, &why) != HR_OK) {
        test_fail(__FILE__, __LINE__, "%s", why.message);
    }
    hr_plan_destroy(plan);
    hr_ctx_destroy(ctx);
}

static double loss_of(const char *checkpoint, uint64_t threads) {
    hr_ctx *ctx = open_context();
    hr_predictor *p = NULL;
    hr_error why = {.code = HR_OK};
    hr_infer_result r = {.size = sizeof r};
    const hr_infer_options o = {.size = sizeof o,
                                .checkpoint = checkpoint,
                                .data = "synthetic:count=32",
                                .threads = threads};
    if (hr_predictor_open(ctx, &o, &p, &why) != HR_OK ||
        hr_predictor_evaluate(p, &r, &why) != HR_OK) {
        test_fail(__FILE__, __LINE__, "%s", why.message);
    }
    hr_predictor_close(p);
    hr_ctx_destroy(ctx);
    return r.loss;
}

static hr_status pack(const char *run, const char *weights, const char *out, hr_quantize_result *r,
                      hr_error *why) {
    hr_ctx *ctx = open_context();
    const hr_infer_options from = {.size = sizeof from, .checkpoint = run};
    const hr_quantize_options o = {
        .size = sizeof o, .infer = &from, .out = out, .weights = weights};
    const hr_status status = hr_quantize(ctx, &o, r, why);
    hr_ctx_destroy(ctx);
    return status;
}

static const char *const families[] = {"gpt2-nano:layers=1,context=16,vocab=32",
                                       "llama-nano:layers=1,context=16,vocab=32"};

TEST(job_weight_codes, small_weights_change_the_loss_a_little_and_the_file_a_lot) {
    static const struct {
        const char *text;
        double loss;
    } ways[] = {{"8", 0.01}, {"4", 0.1}, {"4,group=16", 0.1}, {"8,group=8", 0.01}};
    for (size_t f = 0; f < 2; f++) {
        char run[16];
        snprintf(run, sizeof run, "run%zu", f);
        train(families[f], in(run));
        const double before = loss_of(in(run), 1);
        for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
            hr_quantize_result r = {.size = sizeof r};
            hr_error why = {.code = HR_OK};
            if (pack(in(run), ways[i].text, in("w.safetensors"), &r, &why) != HR_OK) {
                test_fail(__FILE__, __LINE__, "%s", why.message);
            }
            CHECK(r.layers == (f ? 7 : 4) && !r.samples && !r.real_layers);
            CHECK(r.bytes < r.bytes_before);
            const double after = loss_of(in("w.safetensors"), 1);
            CHECK_LE(fabs(after - before), ways[i].loss);
            CHECK(after != before && loss_of(in("w.safetensors"), 2) == after);
        }
    }
}

TEST(job_weight_codes, what_cannot_be_is_refused_with_a_sentence) {
    hr_quantize_result r = {.size = sizeof r};
    hr_error why = {.code = HR_OK};
    train(families[0], in("run"));
    CHECK_STATUS(pack(in("run"), "5", in("w.safetensors"), &r, &why), HR_E_INVALID);
    CHECK(strstr(why.message, "8 or 4 bits"));
    CHECK_STATUS(pack(in("run"), "4,groups=3", in("w.safetensors"), &r, &why), HR_E_INVALID);
    CHECK_OK(pack(in("run"), "4", in("w.safetensors"), &r, &why));
    CHECK_STATUS(pack(in("w.safetensors"), "8", in("x.safetensors"), &r, &why), HR_E_UNSUPPORTED);
    CHECK(strstr(why.message, "already"));
    train("resnet18:size=8,width=2,layers=1,classes=2", in("conv"));
    CHECK(pack(in("conv"), "8", in("x.safetensors"), &r, &why) != HR_OK);
    CHECK(strstr(why.message, "no linear layer"));
    CHECK_EQ(why.cause, HR_CAUSE_DATA); /* the command exits with 2: no machine is at fault */
}

TEST(job_weight_codes, a_plan_says_the_bytes_that_the_file_has) {
    static const char *const whats[] = {"4,group=16", "8", "int8"};
    hr_ctx *ctx = open_context();
    hr_plan *plan = NULL;
    hr_error why = {.code = HR_OK};
    train("mlp:size=8,channels=1,width=64,layers=3,classes=3", in("run"));
    const hr_job_options job = {.size = sizeof job,
                                .model = "mlp:size=8,channels=1,width=64,layers=3,classes=3",
                                .batch = 4,
                                .effort = 1000,
                                .no_measure = 1,
                                .cache = ""};
    CHECK_OK(hr_job_plan(ctx, &job, &plan, &why));
    for (size_t i = 0; i < 3; i++) {
        hri_quantized_bytes said = {0};
        hri_prose prose = {0};
        hr_quantize_result r = {.size = sizeof r};
        const hr_infer_options from = {
            .size = sizeof from, .checkpoint = in("run"), .data = "synthetic:count=8"};
        const hr_quantize_options o = {.size = sizeof o,
                                       .infer = &from,
                                       .out = in("q.safetensors"),
                                       .weights = i < 2 ? whats[i] : NULL};
        CHECK_OK(hri_quantized_look(&plan->job, whats[i], &said, &prose));
        if (hr_quantize(ctx, &o, &r, &why) != HR_OK) {
            test_fail(__FILE__, __LINE__, "%s", why.message);
        }
        CHECK_EQ(said.file, r.bytes);
        CHECK_EQ(said.file_before, r.bytes_before);
        CHECK_EQ(said.layers, r.layers);
        CHECK(said.file < said.file_before && said.weights < said.weights_before);
        CHECK(said.infer < said.infer_before && said.weights <= said.infer);
    }
    hri_quantized_bytes said = {0};
    hri_prose prose = {0};
    CHECK_STATUS(hri_quantized_look(&plan->job, "7", &said, &prose), HR_E_INVALID);
    CHECK(strstr(prose.text, "8 or 4 bits") && !said.layers);
    hr_plan_destroy(plan);
    hr_ctx_destroy(ctx);
}

/* Adapters over the file `base`, for so many steps in all. */
static hr_job_options adapters(const char *base, const char *folder, uint64_t steps, int32_t start,
                               uint64_t threads) {
    return (hr_job_options){.size = sizeof(hr_job_options),
                            .model = families[0],
                            .passes = "lora:rank=2,alpha=4",
                            .init = base,
                            .data = "synthetic:count=32",
                            .training = "optimizer=adamw,rate=0.01",
                            .batch = 8,
                            .steps = steps,
                            .seed = 3,
                            .threads = threads,
                            .effort = 1000,
                            .no_measure = 1,
                            .cache = "",
                            .start = start,
                            .folder = folder};
}

/* The digest of its losses. */
static uint64_t adapted(const hr_job_options *o) {
    hr_ctx *ctx = open_context();
    hr_plan *plan = NULL;
    hr_error why = {.code = HR_OK};
    hr_train_result r = {.size = sizeof r};
    if (hr_job_plan(ctx, o, &plan, &why) != HR_OK || hr_job_train(plan, &why) != HR_OK) {
        test_fail(__FILE__, __LINE__, "%s", why.message);
    }
    CHECK_OK(hr_job_get_result(plan, 0, &r));
    hr_plan_destroy(plan);
    hr_ctx_destroy(ctx);
    return r.history;
}

static void adapt(const char *base, const char *folder, uint64_t steps, int32_t start,
                  uint64_t threads) {
    const hr_job_options o = adapters(base, folder, steps, start, threads);
    (void)adapted(&o);
}

/* Do two files have the same codes and scales? */
static int same_base(const char *a, const char *b) {
    hri_checkpoint x, y;
    hri_prose why = {0};
    int count = 0, same = 1;
    CHECK_OK(hri_checkpoint_open(a, &x, &why));
    CHECK_OK(hri_checkpoint_open(b, &y, &why));
    for (size_t i = 0; i < x.file.count; i++) {
        const hri_tensor *t = &x.file.items[i];
        const hri_tensor *u = hri_tensors_find(&y.file, t->name);
        static uint8_t p[1 << 16], q[1 << 16];
        if (!strstr(t->name, ".weight_packed")) {
            continue;
        }
        const uint64_t n = (uint64_t)hr_shape_count(&t->shape);
        CHECK(u && n <= sizeof p);
        CHECK_OK(hri_tensors_read(&x.file, t, 0, n, HR_TYPE_U8, p, &why));
        CHECK_OK(hri_tensors_read(&y.file, u, 0, n, HR_TYPE_U8, q, &why));
        same &= !memcmp(p, q, n);
        count++;
    }
    hri_checkpoint_close(&x);
    hri_checkpoint_close(&y);
    return same && count == 4;
}

TEST(job_weight_codes, adapters_are_trained_over_codes_that_stay_as_they_are) {
    hr_quantize_result r = {.size = sizeof r};
    hr_error why = {.code = HR_OK};
    hr_merge_result merged = {.size = sizeof merged};
    train(families[0], in("run"));
    CHECK_OK(pack(in("run"), "4,group=16", in("w.safetensors"), &r, &why));
    const double before = loss_of(in("w.safetensors"), 1);
    adapt(in("w.safetensors"), in("a"), 8, HR_START_NEW, 1);
    const double after = loss_of(in("a"), 1);
    CHECK(after < before && same_base(in("w.safetensors"), in("a")));
    adapt(in("w.safetensors"), in("b"), 3, HR_START_NEW, 2);
    adapt(in("w.safetensors"), in("b"), 8, HR_START_RESUME, 2);
    CHECK(loss_of(in("b"), 1) == after); /* resuming and threads change no bit */
    hr_checkpoint *c = NULL;
    CHECK_OK(hr_checkpoint_open(in("a"), &c, NULL));
    CHECK_OK(hr_checkpoint_merge(c, in("m.safetensors"), &merged, &why));
    hr_checkpoint_close(c);
    CHECK_EQ(merged.layers, 4);
    CHECK_LE(fabs(loss_of(in("m.safetensors"), 1) - after), 1e-5);
}

TEST(job_weight_codes, a_run_over_codes_is_resumed_without_the_file_it_began_with) {
    hr_quantize_result r = {.size = sizeof r};
    hr_error why = {.code = HR_OK};
    char numbered[700];
    train(families[0], in("run"));
    CHECK_OK(pack(in("run"), "4,group=16", in("w.safetensors"), &r, &why));
    hr_job_options o = adapters(in("w.safetensors"), in("a"), 8, HR_START_NEW, 1);
    const uint64_t history = adapted(&o);
    snprintf(numbered, sizeof numbered, "%s/n-#", test_folder());
    o.folder = numbered;
    o.steps = 3;
    (void)adapted(&o);
    CHECK_EQ(remove(in("w.safetensors")), 0);
    o.init = NULL;
    o.start = HR_START_RESUME;
    o.steps = 5;
    (void)adapted(&o); /* the last of them */
    o.folder = in("n-1");
    o.steps = 8;
    CHECK_EQ(adapted(&o), history);
    CHECK(same_base(in("a"), in("n-1")));
    o.passes = NULL;
    hr_ctx *ctx = open_context();
    hr_plan *plan = NULL;
    CHECK_STATUS(hr_job_plan(ctx, &o, &plan, &why), HR_E_UNSUPPORTED);
    CHECK(strstr(why.message, "train adapters with"));
    hr_ctx_destroy(ctx);
}

TEST(job_weight_codes, replicas_change_no_bit_over_codes) {
    hr_quantize_result r = {.size = sizeof r};
    hr_error why = {.code = HR_OK};
    train(families[0], in("run"));
    CHECK_OK(pack(in("run"), "4,group=16", in("w.safetensors"), &r, &why));
    hr_job_options o = adapters(in("w.safetensors"), in("a"), 6, HR_START_NEW, 1);
    o.micro_batches = 4;
    const uint64_t history = adapted(&o);
    o.folder = in("b");
    o.replicas = 2;
    CHECK_EQ(adapted(&o), history);
    o.folder = in("c");
    o.shard = "states";
    CHECK_EQ(adapted(&o), history);
}

TEST(job_weight_codes, budgets_change_no_bit_over_codes) {
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
    test_skip("the budget would have to hold the sanitizer's own memory");
#endif
    hr_quantize_result r = {.size = sizeof r};
    hr_error why = {.code = HR_OK};
    hr_plan *plan = NULL;
    hr_plan_summary s = {.size = sizeof s};
    char budget[40];
    train(families[0], in("run"));
    CHECK_OK(pack(in("run"), "4,group=16", in("w.safetensors"), &r, &why));
    hr_job_options o = adapters(in("w.safetensors"), in("a"), 6, HR_START_NEW, 2);
    o.micro_batches = 4;
    const uint64_t history = adapted(&o);
    o.folder = in("b");
    hr_ctx *ctx = open_context();
    CHECK_OK(hr_job_plan(ctx, &o, &plan, &why));
    CHECK_OK(hr_plan_get_summary(plan, &s));
    hr_plan_destroy(plan);
    hr_ctx_destroy(ctx);
    snprintf(budget, sizeof budget, "%llu",
             (unsigned long long)(s.minimum_bytes + (s.peak_bytes - s.minimum_bytes) / 3 +
                                  (3 << 20))); /* the process grew */
    o.budget = budget;
    CHECK_EQ(adapted(&o), history);
    CHECK(same_base(in("w.safetensors"), in("b")));
}

TEST(job_weight_codes, codes_are_not_trained_without_adapters) {
    hr_ctx *ctx = open_context();
    hr_plan *plan = NULL;
    hr_quantize_result r = {.size = sizeof r};
    hr_error why = {.code = HR_OK};
    train(families[0], in("run"));
    CHECK_OK(pack(in("run"), "8", in("w.safetensors"), &r, &why));
    const hr_job_options o = {.size = sizeof o,
                              .model = families[0],
                              .init = in("w.safetensors"),
                              .batch = 4,
                              .effort = 1000,
                              .no_measure = 1,
                              .cache = ""};
    CHECK_STATUS(hr_job_plan(ctx, &o, &plan, &why), HR_E_UNSUPPORTED);
    CHECK(strstr(why.message, "lora"));
    hr_ctx_destroy(ctx);
}
