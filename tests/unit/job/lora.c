/* A training with adapters from begin to end: what is saved, resumed, evaluated and merged; what the plan says. */
#include <headroom/headroom.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/file.h"
#include "runs.h"
#include "test.h"
#include "weights/checkpoint.h"

static hr_job_options options(const char *name) {
    hr_job_options o = test_job("gpt2-nano:layers=1", name);
    o.data = "synthetic:count=24";
    o.val_split = 0.34;
    o.training = "optimizer=adamw,rate=0.01";
    o.passes = "lora:rank=4,alpha=8";
    o.batch = 4;
    o.micro_batches = 2;
    o.steps = 6;
    o.seed = 3;
    return o;
}

static double loss_of(const char *checkpoint) {
    hr_ctx *ctx = test_context();
    hr_predictor *p;
    hr_error why = {.code = HR_OK};
    hr_infer_result r = {.size = sizeof r};
    const hr_infer_options o = {.size = sizeof o,
                                .checkpoint = checkpoint,
                                .data = "synthetic:count=24",
                                .split = HR_SPLIT_VAL,
                                .threads = 1};
    if (hr_predictor_open(ctx, &o, &p, &why) != HR_OK ||
        hr_predictor_evaluate(p, &r, &why) != HR_OK) {
        test_fail(__FILE__, __LINE__, "%s", why.message);
    }
    hr_predictor_close(p);
    hr_ctx_destroy(ctx);
    return r.loss;
}

TEST(job_lora, the_base_stays_and_merged_weights_give_the_same_loss) {
    enum { IN = 32, OUT = 96, RANK = 4 };
    hr_checkpoint *b, *m;
    hr_merge_result r = {.size = sizeof r};
    static float before[IN * OUT], after[IN * OUT], merged[IN * OUT], low[RANK * IN],
        high[OUT * RANK];
    hr_job_options o = options("begun");
    o.steps = 1;
    (void)test_trained(&o);
    o = options("run");
    (void)test_trained(&o);
    CHECK_OK(hr_checkpoint_open(test_in("run"), &b, NULL));
    CHECK_OK(hr_checkpoint_merge(b, test_in("merged.safetensors"), &r, NULL));
    CHECK_EQ(r.layers, 4);
    CHECK_OK(hr_checkpoint_open(test_in("merged.safetensors"), &m, NULL));
    test_read_tensor(test_in("begun/last.safetensors"), "h.0.attn.c_attn.weight", before, IN * OUT);
    test_read_tensor(test_in("run"), "h.0.attn.c_attn.weight", after, IN * OUT);
    test_read_tensor(test_in("merged.safetensors"), "h.0.attn.c_attn.weight", merged, IN * OUT);
    test_read_tensor(test_in("run"), "h.0.attn.c_attn.lora_A.weight", low, RANK * IN);
    test_read_tensor(test_in("run"), "h.0.attn.c_attn.lora_B.weight", high, OUT * RANK);
    CHECK(!memcmp(before, after, sizeof before));
    double largest = 0;
    for (int i = 0; i < IN; i++) { /* GPT-2's weights lie as (in, out) */
        for (int k = 0; k < OUT; k++) {
            double sum = 0;
            for (int q = 0; q < RANK; q++) {
                sum += (double)high[k * RANK + q] * (double)low[q * IN + i];
            }
            largest = fmax(largest, fabs(2 * sum));
            CHECK_LE(fabs((double)after[i * OUT + k] + 2 * sum - (double)merged[i * OUT + k]),
                     1e-7);
        }
    }
    CHECK(largest > 1e-5); /* something was learned */
    CHECK_STATUS(hr_checkpoint_merge(m, test_in("twice.safetensors"), NULL, NULL), HR_E_INVALID);
    hr_checkpoint_close(b);
    hr_checkpoint_close(m);
    const double apart = loss_of(test_in("run")), together = loss_of(test_in("merged.safetensors"));
    CHECK_LE(fabs(apart - together), 1e-5 * fabs(apart));
}

/* The text of a file between two quotes or brackets. */
static void check_config(const char *path) {
    char *text;
    size_t bytes;
    CHECK_OK(hri_file_read(path, 1 << 16, &text, &bytes, NULL));
    CHECK(strstr(text, "\"peft_type\": \"LORA\"") && strstr(text, "\"r\": 4"));
    CHECK(strstr(text, "\"lora_alpha\": 8") && strstr(text, "\"fan_in_fan_out\": true"));
    CHECK(strstr(text, "\"transformer.h.0.attn.c_attn\""));
    CHECK(strstr(text, "\"transformer.h.0.mlp.c_proj\"") && !strstr(text, "wte"));
    hri_free(text);
}

TEST(job_lora, adapters_are_written_as_peft_names_them) {
    hri_tensors t;
    hri_prose why = {""};
    const hr_job_options o = options("run");
    (void)test_trained(&o);
    CHECK_OK(hri_tensors_open(test_in("run/adapter_model.safetensors"), &t, &why));
    CHECK_EQ(t.count, 8);
    const hri_tensor *a =
        hri_tensors_find(&t, "base_model.model.transformer.h.0.attn.c_attn.lora_A.weight");
    const hri_tensor *b =
        hri_tensors_find(&t, "base_model.model.transformer.h.0.attn.c_attn.lora_B.weight");
    CHECK(a && b && a->shape.dim[0] == 4 && a->shape.dim[1] == 32 && b->shape.dim[0] == 96);
    CHECK_STR(hri_tensors_metadata(&t, "format"), "pt");
    /* those of the best weights */
    hri_checkpoint c;
    float here[128], there[128];
    CHECK_OK(hri_checkpoint_open(test_in("run"), &c, &why));
    CHECK_OK(hri_tensors_read(&t, a, 0, 128, HR_TYPE_F32, here, &why));
    CHECK_OK(hri_tensors_read(&c.file, hri_tensors_find(&c.file, "h.0.attn.c_attn.lora_A.weight"),
                              0, 128, HR_TYPE_F32, there, &why));
    CHECK(!memcmp(here, there, sizeof here));
    hri_checkpoint_close(&c);
    hri_tensors_close(&t);
    check_config(test_in("run/adapter_config.json"));
}

TEST(job_lora, a_run_is_resumed_to_the_bit_and_with_other_adapters_refused) {
    uint64_t whole, parts;
    hr_error why = {.code = HR_OK};
    hr_job_options o = options("whole");
    whole = test_trained(&o);
    o = options("parts");
    o.steps = 3;
    parts = test_trained(&o);
    o.steps = 6;
    o.start = HR_START_RESUME;
    o.passes = "lora:rank=8";
    CHECK_STATUS(test_train(&o, &parts, &why), HR_E_INVALID);
    CHECK(strstr(why.message, "cannot resume: the run used --lora rank=4"));
    o.passes = NULL;
    CHECK_STATUS(test_train(&o, &parts, &why), HR_E_INVALID);
    o.passes = "lora:rank=4,alpha=8,train=head";
    parts = test_trained(&o);
    CHECK_EQ(parts, whole);
}

/* Weights of a model's own file, which has no adapters; and another budget, which changes no bit. */
TEST(job_lora, it_starts_from_a_file_of_the_model_alone) {
    uint64_t plain, adapted, tight;
    hr_job_options o = options("base");
    o.passes = NULL;
    plain = test_trained(&o);
    o = options("tuned");
    o.init = test_in("base/best.safetensors");
    adapted = test_trained(&o);
    CHECK(plain != adapted);
    o.folder = test_in("tight");
    o.budget = "12MiB";
    hr_error why = {.code = HR_OK};
    if (test_train(&o, &tight, &why) == HR_OK) { /* as much as this process leaves of it */
        CHECK_EQ(tight, adapted);
    } else {
        CHECK_EQ(why.cause, HR_CAUSE_NO_FIT);
    }
}

TEST(job_lora, the_plan_has_no_states_of_what_is_frozen_and_says_what_that_saves) {
    hr_ctx *ctx = test_context();
    hr_error why = {.code = HR_OK};
    uint64_t bytes[2];
    for (int i = 0; i < 2; i++) {
        hr_plan *plan;
        hr_plan_summary s = {.size = sizeof s};
        hr_job_options o = {.size = sizeof o,
                            .model = "gpt2-nano",
                            .training = "optimizer=adamw",
                            .passes = i ? "lora:rank=4" : NULL,
                            .batch = 2,
                            .device = "null:1GiB",
                            .effort = 1000,
                            .no_measure = 1};
        if (hr_job_plan(ctx, &o, &plan, &why) != HR_OK) {
            test_fail(__FILE__, __LINE__, "%s", why.message);
        }
        CHECK_OK(hr_plan_get_summary(plan, &s));
        bytes[i] = s.persistent_bytes;
        hr_plan_destroy(plan);
    }
    /* adapters and their two moments are there in place of two moments of everything */
    const uint64_t adapters = 2 * 4 * (32 + 96 + 32 + 32 + 32 + 128 + 128 + 32) * 4;
    CHECK(bytes[1] < bytes[0] && bytes[1] >= bytes[0] / 3 + 3 * adapters);
    CHECK_LE(bytes[1], bytes[0] / 3 + 3 * adapters + 64 * 256);
    hr_job_options bad = {
        .size = sizeof bad, .model = "gpt2-nano", .batch = 2, .passes = "lora:rank=0"};
    hr_plan *none;
    CHECK_STATUS(hr_job_plan(ctx, &bad, &none, &why), HR_E_INVALID);
    CHECK_STR(why.message, "lora: rank: 0 is below 1");
    CHECK_EQ(why.option_bytes, 4);
    bad.passes = "lora:layers=nothing";
    CHECK_STATUS(hr_job_plan(ctx, &bad, &none, &why), HR_E_INVALID);
    CHECK(strstr(why.message, "nothing"));
    hr_ctx_destroy(ctx);
}
