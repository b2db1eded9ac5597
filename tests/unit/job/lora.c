/* A training with adapters from begin to end: what is saved, resumed, evaluated and merged; what the plan says. */
#include <headroom/headroom.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/file.h"
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

static hr_job_options options(const char *folder) {
    return (hr_job_options){.size = sizeof(hr_job_options),
                            .model = "gpt2-nano:layers=1",
                            .data = "synthetic:count=24",
                            .val_split = 0.34,
                            .training = "optimizer=adamw,rate=0.01",
                            .passes = "lora:rank=4,alpha=8",
                            .batch = 4,
                            .micro_batches = 2,
                            .steps = 6,
                            .seed = 3,
                            .threads = 1,
                            .effort = 1000,
                            .no_measure = 1,
                            .cache = "",
                            .folder = folder};
}

/* Trains, and gives the digest of its losses. */
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

static void train_well(const hr_job_options *o, uint64_t *history) {
    hr_error why = {.code = HR_OK};
    if (train(o, history, &why) != HR_OK) {
        test_fail(__FILE__, __LINE__, "%s", why.message);
    }
}

static double loss_of(const char *checkpoint) {
    const hr_ctx_options co = {.size = sizeof co, .no_cuda = 1};
    hr_ctx *ctx;
    hr_predictor *p;
    hr_error why = {.code = HR_OK};
    hr_infer_result r = {.size = sizeof r};
    CHECK_OK(hr_ctx_create(&co, &ctx));
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

static void read_tensor(const hr_checkpoint *c, const char *name, float *out, uint64_t count) {
    hr_error why = {.code = HR_OK};
    if (hr_checkpoint_read(c, name, HR_TYPE_F32, 0, out, count, &why) != HR_OK) {
        test_fail(__FILE__, __LINE__, "%s", why.message);
    }
}

TEST(job_lora, the_base_stays_and_merged_weights_give_the_same_loss) {
    enum { IN = 32, OUT = 96, RANK = 4 };
    uint64_t first, whole;
    hr_checkpoint *a, *b, *m;
    hr_merge_result r = {.size = sizeof r};
    static float before[IN * OUT], after[IN * OUT], merged[IN * OUT], low[RANK * IN],
        high[OUT * RANK];
    hr_job_options o = options(in("begun"));
    o.steps = 1;
    train_well(&o, &first);
    o = options(in("run"));
    train_well(&o, &whole);
    CHECK_OK(hr_checkpoint_open(in("begun/last.safetensors"), &a, NULL));
    CHECK_OK(hr_checkpoint_open(in("run"), &b, NULL));
    CHECK_OK(hr_checkpoint_merge(b, in("merged.safetensors"), &r, NULL));
    CHECK_EQ(r.layers, 4);
    CHECK_OK(hr_checkpoint_open(in("merged.safetensors"), &m, NULL));
    read_tensor(a, "h.0.attn.c_attn.weight", before, IN * OUT);
    read_tensor(b, "h.0.attn.c_attn.weight", after, IN * OUT);
    read_tensor(m, "h.0.attn.c_attn.weight", merged, IN * OUT);
    read_tensor(b, "h.0.attn.c_attn.lora_A.weight", low, RANK * IN);
    read_tensor(b, "h.0.attn.c_attn.lora_B.weight", high, OUT * RANK);
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
    CHECK_STATUS(hr_checkpoint_merge(m, in("twice.safetensors"), NULL, NULL), HR_E_INVALID);
    hr_checkpoint_close(a);
    hr_checkpoint_close(b);
    hr_checkpoint_close(m);
    const double apart = loss_of(in("run")), together = loss_of(in("merged.safetensors"));
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
    uint64_t history;
    hri_tensors t;
    hri_prose why = {""};
    const hr_job_options o = options(in("run"));
    train_well(&o, &history);
    CHECK_OK(hri_tensors_open(in("run/adapter_model.safetensors"), &t, &why));
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
    CHECK_OK(hri_checkpoint_open(in("run"), &c, &why));
    CHECK_OK(hri_tensors_read(&t, a, 0, 128, HR_TYPE_F32, here, &why));
    CHECK_OK(hri_tensors_read(&c.file, hri_tensors_find(&c.file, "h.0.attn.c_attn.lora_A.weight"),
                              0, 128, HR_TYPE_F32, there, &why));
    CHECK(!memcmp(here, there, sizeof here));
    hri_checkpoint_close(&c);
    hri_tensors_close(&t);
    check_config(in("run/adapter_config.json"));
}

TEST(job_lora, a_run_is_resumed_to_the_bit_and_with_other_adapters_refused) {
    uint64_t whole, parts;
    hr_error why = {.code = HR_OK};
    hr_job_options o = options(in("whole"));
    train_well(&o, &whole);
    o = options(in("parts"));
    o.steps = 3;
    train_well(&o, &parts);
    o.steps = 6;
    o.start = HR_START_RESUME;
    o.passes = "lora:rank=8";
    CHECK_STATUS(train(&o, &parts, &why), HR_E_INVALID);
    CHECK(strstr(why.message, "cannot resume: the run used --lora rank=4"));
    o.passes = NULL;
    CHECK_STATUS(train(&o, &parts, &why), HR_E_INVALID);
    o.passes = "lora:rank=4,alpha=8,train=head";
    train_well(&o, &parts);
    CHECK_EQ(parts, whole);
}

/* Weights of a model's own file, which has no adapters; and another budget, which changes no bit. */
TEST(job_lora, it_starts_from_a_file_of_the_model_alone) {
    uint64_t plain, adapted, tight;
    hr_job_options o = options(in("base"));
    o.passes = NULL;
    train_well(&o, &plain);
    o = options(in("tuned"));
    o.init = in("base/best.safetensors");
    train_well(&o, &adapted);
    CHECK(plain != adapted);
    o.folder = in("tight");
    o.budget = "12MiB";
    hr_error why = {.code = HR_OK};
    if (train(&o, &tight, &why) == HR_OK) { /* as much as this process leaves of it */
        CHECK_EQ(tight, adapted);
    } else {
        CHECK_EQ(why.cause, HR_CAUSE_NO_FIT);
    }
}

TEST(job_lora, the_plan_has_no_states_of_what_is_frozen_and_says_what_that_saves) {
    const hr_ctx_options co = {.size = sizeof co, .no_cuda = 1};
    hr_ctx *ctx;
    hr_error why = {.code = HR_OK};
    uint64_t bytes[2];
    CHECK_OK(hr_ctx_create(&co, &ctx));
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
