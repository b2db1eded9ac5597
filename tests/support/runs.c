#include "runs.h"

#include <stdio.h>
#include <string.h>

#include "pictures.h"
#include "test.h"

const char *test_in(const char *name) {
    static char paths[4][600];
    static unsigned at;
    char *path = paths[at++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", test_folder(), name);
    return path;
}

hr_ctx *test_context(void) {
    const hr_ctx_options o = {.size = sizeof o, .no_cuda = 1};
    hr_ctx *ctx = NULL;
    CHECK_OK(hr_ctx_create(&o, &ctx));
    return ctx;
}

hr_job_options test_job(const char *model, const char *name) {
    return (hr_job_options){.size = sizeof(hr_job_options),
                            .model = model,
                            .threads = 1,
                            .effort = 1000,
                            .no_measure = 1,
                            .cache = "",
                            .folder = name ? test_in(name) : NULL};
}

hr_status test_train(const hr_job_options *o, uint64_t *history, hr_error *why) {
    hr_ctx *ctx = test_context();
    hr_plan *plan = NULL;
    hr_train_result r = {.size = sizeof r};
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

uint64_t test_trained(const hr_job_options *o) {
    hr_error why = {.code = HR_OK};
    uint64_t history = 0;
    if (test_train(o, &history, &why) != HR_OK) {
        test_fail(__FILE__, __LINE__, "%s", why.message);
    }
    return history;
}

void test_read_tensor(const char *checkpoint, const char *tensor, float *to, uint64_t count) {
    hr_error why = {.code = HR_OK};
    hr_checkpoint *c = NULL;
    if (hr_checkpoint_open(checkpoint, &c, &why) != HR_OK ||
        hr_checkpoint_read(c, tensor, HR_TYPE_F32, 0, to, count, &why) != HR_OK) {
        test_fail(__FILE__, __LINE__, "%s", why.message);
    }
    hr_checkpoint_close(c);
}

static hr_status keep(void *user, const hr_prediction *p) {
    test_scores *s = user;
    CHECK(p->index < 64 && p->class_count <= 16);
    memcpy(s->of[p->index], p->scores, p->class_count * sizeof(float));
    s->count++;
    s->classes = p->class_count;
    return HR_OK;
}

void test_predict(const char *checkpoint, test_scores *out) {
    hr_ctx *ctx = test_context();
    hr_predictor *p = NULL;
    hr_error why = {.code = HR_OK};
    const hr_infer_options o = {.size = sizeof o,
                                .checkpoint = checkpoint,
                                .data = "synthetic:count=64",
                                .no_labels = 1,
                                .threads = 2};
    memset(out, 0, sizeof *out);
    if (hr_predictor_open(ctx, &o, &p, &why) != HR_OK ||
        hr_predictor_run(p, keep, out, NULL, &why) != HR_OK) {
        test_fail(__FILE__, __LINE__, "%s", why.message);
    }
    CHECK_EQ(out->count, 64);
    hr_predictor_close(p);
    hr_ctx_destroy(ctx);
}
