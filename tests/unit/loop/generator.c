/* The next token with and without a cache of keys and values: the same scores, in chunks, one by one, and when the context is
 * full. */
#include <headroom/headroom.h>

#include <math.h>
#include <string.h>

#include "loop/generator.h"
#include "models/common/model.h"
#include "test.h"
#include "untrained.h"

#define MODEL "gpt2-nano:context=48,vocab=64,positions=50"

typedef struct rig {
    hr_ctx *ctx;
    hr_device *host;
    hri_checkpoint checkpoint;
    hr_model *model;
    hri_model_input want;
} rig;

static void set_up(rig *r) {
    const hri_about about = {.source = "text:x", .input = "tokens"};
    const hr_ctx_options co = {.size = sizeof co, .no_cuda = 1};
    hri_prose why = {""};
    const char *path = test_untrained(MODEL, &about, "best.safetensors");
    CHECK_OK(hr_ctx_create(&co, &r->ctx));
    CHECK_OK(hr_device_find(r->ctx, "host", &r->host));
    CHECK_OK(hri_checkpoint_open(path, &r->checkpoint, &why));
    CHECK_OK(hri_checkpoint_model(&r->checkpoint, &r->model, &why));
    CHECK_OK(hri_model_input_of(r->model, &r->want, &why));
}

static void tear_down(rig *r) {
    hr_model_close(r->model);
    hri_checkpoint_close(&r->checkpoint);
    hr_ctx_destroy(r->ctx);
}

static hr_status step(void *model, hr_graph *g, int64_t tokens) {
    return hri_model_build_decode(model, g, tokens);
}

static hr_status whole(void *model, hr_graph *g, int64_t tokens) {
    CHECK_EQ(tokens, 48);
    return hr_model_build(model, g, 1, 0);
}

static hr_status open_one(const rig *r, int cached, uint64_t budget, hri_generator **out,
                          hri_prose *why) {
    const hri_generator_options o = {.device = r->host,
                                     .build = cached ? step : whole,
                                     .user = r->model,
                                     .cached = cached,
                                     .context = 48,
                                     .vocab = 64,
                                     .want = &r->want,
                                     .checkpoint = &r->checkpoint,
                                     .budget_bytes = budget,
                                     .threads = 1,
                                     .name = "test"};
    return hri_generator_open(&o, out, why);
}

static void same(const float *a, const float *b) {
    float most = 0;
    for (int i = 0; i < 64; i++) {
        CHECK(isfinite(a[i]));
        most = fmaxf(most, fabsf(a[i] - b[i]));
    }
    CHECK(most < 1e-5f);
}

TEST_TIMEOUT(generator, a_cache_changes_no_score, 60) {
    rig r = {.checkpoint = {.file = {.fd = -1}}};
    hri_generator *with, *without;
    hri_prose why = {""};
    int32_t tokens[80];
    const float *a, *b;
    set_up(&r);
    for (int i = 0; i < 80; i++) {
        tokens[i] = (i * 29 + i * i) % 64;
    }
    CHECK_OK(open_one(&r, 1, 0, &with, &why));
    CHECK_OK(open_one(&r, 0, 0, &without, &why));
    CHECK_EQ(hri_generator_cache_bytes(with), 2 * 2 * 48 * 32 * sizeof(float));
    CHECK_EQ(hri_generator_cache_bytes(without), 0);
    static const int pieces[] = {1, 2, 35, 1, 1, 8, 1, 31}; /* 48 is full on the way */
    for (int at = 0, i = 0; i < 8; at += pieces[i++]) {
        CHECK_OK(hri_generator_add(with, tokens + at, (size_t)pieces[i], &a, &why));
        CHECK_OK(hri_generator_add(without, tokens + at, (size_t)pieces[i], &b, &why));
        same(a, b);
    }
    float first[64];
    hri_generator_clear(with);
    CHECK_OK(hri_generator_add(with, tokens, 40, &a, &why));
    memcpy(first, a, sizeof first);
    hri_generator_clear(with); /* nothing of the text before is seen */
    for (int i = 0; i < 40; i++) {
        CHECK_OK(hri_generator_add(with, tokens + i, 1, &a, &why));
    }
    same(a, first);
    const int32_t bad = 64;
    CHECK_STATUS(hri_generator_add(with, &bad, 1, &a, &why), HR_E_RANGE);
    CHECK(strstr(why.text, "the model has 64 tokens"));
    hri_generator_close(with);
    hri_generator_close(without);
    tear_down(&r);
}

TEST_TIMEOUT(generator, what_does_not_fit_is_refused_with_the_minimum, 30) {
    rig r = {.checkpoint = {.file = {.fd = -1}}};
    hri_generator *g;
    hri_prose why = {""};
    set_up(&r);
    CHECK_STATUS(open_one(&r, 1, 1 << 20, &g, &why), HR_E_NO_PLAN);
    CHECK(why.text[0]);
    tear_down(&r);
}
