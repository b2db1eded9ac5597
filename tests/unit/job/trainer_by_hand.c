/* Steps that a program takes itself: batches, learning rates and gradients of its own. */
#include <headroom/headroom.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "test.h"
#include "trainer_rig.h"

/* The first batch by hand, then by the pipeline, which was not asked before: both begin with the same samples. */
TEST(job_trainer, a_batch_of_ones_own_is_a_step_like_any_other) {
    double losses[2] = {0};
    for (int own = 0; own < 2; own++) {
        rig r;
        hr_trainer *t = NULL;
        hr_numbers n = {.size = sizeof n};
        hr_error why = {.code = HR_OK};
        rig_open(&r);
        r.o.micro_batches = 2;
        rig_plan(&r);
        const hr_field fields[] = {
            {"target", {HR_TYPE_F32, hr_shape_1(BATCH)}, BATCH * sizeof target[0], &target[HELD]},
            {"left", {HR_TYPE_F32, hr_shape_2(BATCH, 3)}, BATCH * sizeof left[0], left[HELD]},
            {"right", {HR_TYPE_F32, hr_shape_2(BATCH, 2)}, BATCH * sizeof right[0], right[HELD]}};
        CHECK_OK(hr_trainer_open(r.plan, 0, &t, &why));
        CHECK_STATUS(hr_trainer_step(t, fields, 2, &n, &why), HR_E_NOT_FOUND);
        hr_field half = fields[2];
        half.bytes /= 2;
        CHECK_STATUS(
            hr_trainer_step(t, (const hr_field[]){fields[0], fields[1], half}, 3, &n, &why),
            HR_E_SHAPE);
        if (own) {
            CHECK_OK(hr_trainer_step(t, fields, 3, &n, &why));
            CHECK(n.step == 1 && n.samples == BATCH);
        } else {
            CHECK_OK(hr_trainer_advance(t, &why));
        }
        losses[own] = r.last_loss;
        CHECK_EQ(r.steps, 1);
        CHECK_OK(hr_trainer_advance(t, &why));
        hr_trainer_close(t);
        rig_close(&r);
    }
    CHECK(losses[0] > 0 && losses[0] == losses[1]);
}

TEST(job_trainer, a_learning_rate_of_ones_own_holds_until_it_is_taken_back) {
    rig r;
    hr_error why = {.code = HR_OK};
    hr_trainer *t = NULL;
    hr_field fields[3];
    hr_numbers n = {.size = sizeof n};
    float before[3], after[3];
    rig_open(&r);
    rig_plan(&r);
    CHECK_OK(hr_trainer_open(r.plan, 0, &t, &why));
    CHECK_STATUS(hr_trainer_set_learning_rate(t, -1), HR_E_RANGE);
    CHECK_OK(hr_trainer_set_learning_rate(t, 0));
    CHECK_OK(hr_trainer_get(t, "w", before, sizeof before));
    fields_of(HELD, BATCH, fields);
    CHECK_OK(hr_trainer_step(t, fields, 3, &n, &why));
    CHECK_OK(hr_trainer_get(t, "w", after, sizeof after));
    CHECK(n.learning_rate == 0 && !memcmp(before, after, sizeof after));
    CHECK_OK(hr_trainer_set_learning_rate(t, NAN));
    CHECK_OK(hr_trainer_step(t, fields, 3, &n, &why));
    CHECK(fabs(n.learning_rate - 0.05) < 1e-6);
    hr_trainer_close(t);
    rig_close(&r);
}

/* Steps through backward and apply, in one or two batches of half the share each; returns the parameters. */
static void train_by_hand(rig *r, int halves, float w[3], double *norm) {
    hr_error why = {.code = HR_OK};
    hr_trainer *t = NULL;
    hr_numbers n = {.size = sizeof n};
    hr_field fields[3];
    float g[3];
    CHECK_OK(hr_trainer_open(r->plan, 0, &t, &why));
    CHECK_STATUS(hr_trainer_apply(t, &n, &why), HR_E_BUSY);
    CHECK_STATUS(hr_trainer_get_gradient(t, "w", g, sizeof g), HR_E_BUSY);
    for (size_t step = 0; step < 4; step++) {
        for (int half = 0; half <= halves; half++) {
            fields_of(HELD + step * BATCH, BATCH, fields);
            CHECK_OK(hr_trainer_backward(t, fields, 3, halves ? 0.5 : 1.0, &n, &why));
        }
        CHECK_OK(hr_trainer_get_gradient(t, "w", g, sizeof g));
        CHECK_OK(hr_trainer_put_gradient(t, "w", g, sizeof g));
        CHECK_STATUS(hr_trainer_get_gradient(t, "x", g, sizeof g), HR_E_NOT_FOUND);
        CHECK_OK(hr_trainer_apply(t, &n, &why));
        CHECK_EQ(n.step, step + 1);
        *norm = n.gradient_norm;
    }
    CHECK_OK(hr_trainer_get(t, "w", w, 3 * sizeof *w));
    hr_trainer_close(t);
}

TEST(job_trainer, gradients_of_ones_own_make_the_same_steps) {
    rig r;
    hr_error why = {.code = HR_OK};
    hr_trainer *t = NULL;
    hr_field fields[3];
    float expected[3], w[3];
    double norm = 0;
    rig_open(&r);
    r.o.training = "rate=0.05,clip=5";
    rig_plan(&r);
    CHECK_OK(hr_trainer_open(r.plan, 0, &t, &why));
    CHECK_STATUS(hr_trainer_backward(t, fields, 0, 1.0, NULL, &why), HR_E_UNSUPPORTED);
    for (size_t step = 0; step < 4; step++) {
        fields_of(HELD + step * BATCH, BATCH, fields);
        CHECK_OK(hr_trainer_step(t, fields, 3, NULL, &why));
    }
    CHECK_OK(hr_trainer_get(t, "w", expected, sizeof expected));
    hr_trainer_close(t);
    r.o.keep_gradients = 1;
    for (int parts = 1; parts <= 2; parts++) { /* whole batches, and two micro-batches each */
        for (int halves = 0; halves < 2; halves++) {
            hr_plan_destroy(r.plan);
            r.o.micro_batches = parts;
            rig_plan(&r);
            train_by_hand(&r, halves, w, &norm);
            CHECK(norm > 0);
            for (int i = 0; i < 3; i++) {
                CHECK(fabsf(w[i] - expected[i]) < 1e-5f);
            }
        }
    }
    hr_plan_destroy(r.plan);
    r.o.folder = in("kept"); /* and all that a run does */
    rig_plan(&r);
    CHECK_OK(hr_job_train(r.plan, &why));
    CHECK(r.validations >= 3 && r.saved >= 1);
    hr_plan_destroy(r.plan);
    r.o.start = HR_START_RESUME;
    r.o.epochs = 4;
    rig_plan(&r);
    CHECK_OK(hr_job_train(r.plan, &why));
    rig_close(&r);
}

/* Running statistics and frozen values are no part of an update, and are saved all the same. */
TEST(job_trainer, kept_gradients_change_neither_losses_nor_what_is_saved) {
    const hr_ctx_options co = {.size = sizeof co, .no_cuda = 1};
    hr_ctx *ctx;
    double losses[2];
    uint64_t tensors[2];
    CHECK_OK(hr_ctx_create(&co, &ctx));
    for (int keep = 0; keep < 2; keep++) {
        hr_plan *p = NULL;
        hr_checkpoint *c = NULL;
        hr_error why = {.code = HR_OK};
        hr_train_result result = {.size = sizeof result};
        hr_checkpoint_info info = {.size = sizeof info};
        const hr_job_options o = {.size = sizeof o,
                                  .model = "resnet18:size=32,width=8,classes=3",
                                  .data = "synthetic:count=12",
                                  .training = "optimizer=adamw,rate=0.01",
                                  .batch = 4,
                                  .steps = 3,
                                  .micro_batches = 1,
                                  .threads = 1,
                                  .effort = 1000,
                                  .no_measure = 1,
                                  .cache = "",
                                  .folder = in(keep ? "kept" : "plain"),
                                  .keep_gradients = keep};
        if (hr_job_plan(ctx, &o, &p, &why) != HR_OK || hr_job_train(p, &why) != HR_OK) {
            test_fail(__FILE__, __LINE__, "%s", why.message);
        }
        CHECK_OK(hr_job_get_result(p, 0, &result));
        CHECK_OK(hr_checkpoint_open(result.checkpoint, &c, &why));
        CHECK_OK(hr_checkpoint_get_info(c, &info));
        losses[keep] = result.last_loss;
        tensors[keep] = info.tensor_count;
        hr_checkpoint_close(c);
        hr_plan_destroy(p);
    }
    CHECK(fabs(losses[0] - losses[1]) < 1e-4);
    CHECK_EQ(tensors[0], tensors[1]);
    hr_ctx_destroy(ctx);
}
