/* Plans on a GPU: the losses of the host up to rounding, the same bits for every budget, inside the memory that was
 * planned, with nothing taken after set-up. */
#include "rig.h"
#include "training.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void compare(const float *want, const float *is, double most) {
    double worst = 0;
    for (int s = 0; s < TRAINING_STEPS; s++) {
        CHECK(isfinite(want[s]));
        const double apart = fabs((double)want[s] - (double)is[s]) / fabs((double)want[s]);
        worst = apart > worst ? apart : worst;
        if (!(apart <= most)) {
            test_fail(__FILE__, __LINE__, "step %d: the loss is %.7g, on the host %.7g", s,
                      (double)is[s], (double)want[s]);
        }
    }
    printf("    at most %.1e from the host\n", worst);
}

static void check_memory(training *t) {
    hri_measured m;
    hri_planned_measure(t->planned, &m);
    /* Models so small are planned in bytes, but memory comes in pages. */
    const uint64_t page = UINT64_C(2) << 20;
    CHECK_EQ(m.arena_bytes, m.planned_bytes);
    CHECK_EQ(m.planned_bytes, (t->plans.arena_bytes + page - 1) / page * page);
    CHECK(m.process_bytes > m.arena_bytes);
    CHECK_LE(m.process_bytes, t->plans.peak_bytes - t->plans.arena_bytes + m.planned_bytes);
    CHECK_EQ(m.peak_bytes, m.process_bytes);
}

/* At as much memory as it takes, and close to the floor. */
static void at_budgets(const char *model, const char *options, int64_t batch, double most) {
    static const double shares[] = {1.0, 0.2};
    float want[TRAINING_STEPS], first[TRAINING_STEPS], is[TRAINING_STEPS];
    training t;
    uint64_t again = 0;
    training_open(&t, model, options, batch);
    training_on_the_host(&t, want);
    t.job.page_bytes = 256;
    for (size_t i = 0; i < sizeof shares / sizeof shares[0]; i++) {
        training_plan(&t, shares[i]);
        again += t.plans.again_count;
        training_take(&t);
        training_steps(&t, i ? is : first);
        check_memory(&t);
        printf("    %s: peak %.1f MiB, arena %.1f MiB, %llu ops again\n", model,
               (double)t.plans.peak_bytes / 1048576, (double)t.plans.arena_bytes / 1048576,
               (unsigned long long)t.plans.again_count);
        if (i) {
            CHECK(!memcmp(first, is, sizeof is));
        } else {
            compare(want, first, most);
        }
        training_drop(&t);
    }
    CHECK(again > 0);
    training_close(&t);
}

TEST_TIMEOUT(plans, mlp_is_as_on_the_host_at_any_budget, 300) {
    at_budgets("mlp:size=8,width=64,layers=4", "optimizer=sgd,rate=0.01", 16, 1e-4);
}

TEST_TIMEOUT(plans, gpt2_in_bf16_is_as_on_the_host_at_any_budget, 300) {
    at_budgets("gpt2-nano:layers=2,context=16,width=32,heads=2,vocab=64",
               "optimizer=adamw,precision=bf16,clip=1", 2, 2e-2);
}

TEST_TIMEOUT(plans, resnet_in_f32_is_as_on_the_host_at_any_budget, 300) {
    at_budgets("resnet18:size=32,width=8,classes=10,layers=1x1x1x1", "optimizer=sgd,rate=0.01", 4,
               1e-4);
}

TEST_TIMEOUT(plans, vit_with_dropout_in_f16_is_as_on_the_host_at_any_budget, 300) {
    at_budgets("vit-tiny:size=16,patch=4,width=32,heads=2,layers=2,classes=10,dropout=0.1",
               "optimizer=adamw,precision=f16", 2, 2e-2);
}

TEST_TIMEOUT(plans, lstm_and_gru_are_as_on_the_host_at_any_budget, 300) {
    at_budgets("net: input(3, vocab=9) | embedding(4, 9, positions=0) | lstm(4, both=1) | "
               "gru(4, last=1) | dense(3)",
               "optimizer=adamw", 8, 1e-4);
}

TEST_TIMEOUT(plans, values_that_wait_on_the_host_come_back_unchanged, 300) {
    float want[TRAINING_STEPS], is[TRAINING_STEPS];
    training t;
    if (is_fake()) { /* whatever is not ordered by an event is found out of order */
        knob("FAKECUDA_DELAY_US", "200");
    }
    training_open(&t, "mlp:size=8,width=64,layers=4", "optimizer=adamw", 64);
    training_plan(&t, 1.0);
    CHECK_EQ(t.plans.copied_bytes, 0);
    training_take(&t);
    training_steps(&t, want);
    training_drop(&t);
    t.job.machine.out_bytes_per_ns = t.job.machine.in_bytes_per_ns = 1e6;
    t.job.machine.flops_per_ns = t.job.machine.bytes_per_ns = 0.01;
    t.job.page_bytes = 256; /* pages of 2 MiB would leave nothing to gain in so small a model */
    training_plan(&t, 0.3);
    CHECK(t.plans.copied_bytes > 0 && t.plans.other_bytes > 0);
    training_take(&t);
    training_steps(&t, is);
    CHECK(!memcmp(want, is, sizeof is));
    training_close(&t);
}

/* The first memory is small, so that the second one is used too; its copies have queues of their own. */
TEST_TIMEOUT(plans, values_wait_in_two_memories_behind_four_queues, 300) {
    const hri_problem_memory more = {
        .out_bytes_per_ns = 1e6, .in_bytes_per_ns = 1e6, .out_queue = 2, .in_queue = 3};
    float want[TRAINING_STEPS], is[TRAINING_STEPS];
    training t;
    if (is_fake()) {
        knob("FAKECUDA_DELAY_US", "200");
    }
    training_open(&t, "mlp:size=8,width=64,layers=4", "optimizer=adamw", 64);
    training_plan(&t, 1.0);
    training_take(&t);
    training_steps(&t, want);
    training_drop(&t);
    t.job.machine.out_bytes_per_ns = t.job.machine.in_bytes_per_ns = 1e6;
    t.job.machine.flops_per_ns = t.job.machine.bytes_per_ns = 0.01;
    t.job.machine.other_capacity_bytes = 20000;
    t.job.machine.more = &more;
    t.job.machine.more_count = 1;
    t.job.page_bytes = 256;
    training_plan(&t, 0.3);
    const uint64_t *taken = t.plans.plans[0]->memory_bytes;
    CHECK(taken[0] > 0 && taken[0] <= 20000 && taken[1] > 0);
    training_take(&t);
    training_steps(&t, is);
    CHECK(!memcmp(want, is, sizeof is));
    training_close(&t);
}

TEST_TIMEOUT(plans, parts_of_a_batch_agree_up_to_rounding, 300) {
    float want[TRAINING_STEPS], is[TRAINING_STEPS];
    training t;
    training_open(&t, "mlp:size=8,width=32", "optimizer=sgd,rate=0.1", 7);
    training_on_the_host(&t, want);
    t.job.parts = 3; /* 3, 3 and 1 */
    training_plan(&t, 1.0);
    CHECK_EQ(t.plans.c->parts, 3);
    training_take(&t);
    training_steps(&t, is);
    compare(want, is, 1e-5);
    training_close(&t);
}

static int asked;

static int feed_but_the_last(void *user) {
    (void)user;
    return ++asked < TRAINING_STEPS;
}

TEST_TIMEOUT(plans, a_batch_that_is_fed_while_a_step_runs_changes_nothing, 300) {
    float want[TRAINING_STEPS], is[TRAINING_STEPS];
    training t;
    if (is_fake()) {
        knob("FAKECUDA_DELAY_US", "200");
    }
    training_open(&t, "mlp:size=32,width=8", "optimizer=sgd,rate=0.01", 7);
    for (int64_t parts = 1; parts <= 3; parts += 2) {
        t.job.parts = parts;
        training_plan(&t, 1.0);
        training_take(&t);
        training_steps(&t, want);
        training_drop(&t);
        training_plan(&t, 1.0);
        training_take(&t);
        asked = 0;
        hri_planned_set_ahead(t.planned, feed_but_the_last, NULL);
        training_steps(&t, is);
        CHECK_EQ(asked, TRAINING_STEPS);
        CHECK(!hri_planned_is_fed(t.planned));
        CHECK(!memcmp(want, is, sizeof is));
        training_drop(&t);
    }
    training_close(&t);
}

/* A byte a nanosecond to copy it. */
TEST(plans, a_batch_without_a_place_counts_as_it_is_copied) {
    double time_ns[2];
    uint64_t batch = 0;
    hri_prose why = {{0}};
    training t;
    training_open(&t, "mlp:size=64,width=64", "optimizer=sgd,rate=0.01", 12);
    t.job.machine.in_bytes_per_ns = t.job.machine.out_bytes_per_ns = 1;
    t.job.page_bytes = 256;
    t.job.no_offload = 1;
    for (int stage = 0; stage < 2; stage++) {
        t.job.no_stage = !stage;
        CHECK_OK(hri_fit_open(&t.job, &t.fit, &why));
        CHECK_OK(hri_fit_search(&t.fit, t.fit.unplanned_bytes + 2 * batch, 1, &t.plans, &why));
        batch = t.plans.input_bytes;
        CHECK_EQ(t.plans.stage, stage);
        CHECK_LE(16 * batch, t.plans.arena_bytes);
        time_ns[stage] = t.plans.time_ns;
        training_drop(&t);
    }
    CHECK(time_ns[0] >= time_ns[1] + 0.99 * (double)batch);
    t.job.batch = 24; /* a tenth of the arena */
    training_plan(&t, 1.0);
    CHECK_LE(t.plans.arena_bytes, 16 * t.plans.input_bytes);
    CHECK_EQ(t.plans.stage, 0);
    training_drop(&t);
    training_close(&t);
}

TEST_TIMEOUT(plans, without_a_place_for_the_next_batch_inputs_still_arrive, 300) {
    float want[TRAINING_STEPS], is[TRAINING_STEPS];
    training t;
    training_open(&t, "mlp:size=32,width=8", "optimizer=sgd,rate=0.01", 16);
    training_on_the_host(&t, want);
    for (int stage = 0; stage < 2; stage++) {
        training_plan(&t, 1.0);
        t.plans.stage = stage;
        training_take(&t);
        training_steps(&t, is);
        compare(want, is, 1e-4);
        training_drop(&t);
    }
    training_close(&t);
}

/* Half of the place and of the bytes, and not a bit of the losses. */
TEST_TIMEOUT(plans, images_that_are_rounded_first_wait_rounded, 300) {
    float want[TRAINING_STEPS], is[TRAINING_STEPS];
    training t;
    training_open(&t, "lenet:size=32", "optimizer=sgd,rate=0.01,precision=bf16", 4);
    for (int stage = 0; stage < 2; stage++) {
        training_plan(&t, 1.0);
        const hri_lane_sizes *sizes = &t.plans.c->lane;
        CHECK_EQ(sizes->large, 4 * 32 * 32 * sizeof(float));
        CHECK_EQ(sizes->waiting, sizes->large / 2);
        t.plans.stage = stage;
        training_take(&t);
        training_steps(&t, stage ? is : want);
        training_drop(&t);
    }
    CHECK(!memcmp(want, is, sizeof is));
    training_close(&t);
}

/* Numbers that somebody reads as they are wait as they are. */
TEST(plans, images_that_are_read_as_they_are_wait_so) {
    training t;
    training_open(&t, "lenet:size=32", "optimizer=sgd,rate=0.01", 4);
    training_plan(&t, 1.0);
    CHECK_EQ(t.plans.c->lane.waiting, t.plans.c->lane.large);
    training_close(&t);
}

TEST_TIMEOUT(plans, evaluation_runs_in_the_same_arena_and_changes_nothing, 300) {
    float want[TRAINING_STEPS], is[TRAINING_STEPS];
    training t;
    hri_prose why = {{0}};
    hri_numbers n, again;
    training_open(&t, "lenet:size=16", "optimizer=sgd,rate=0.01", 4);
    training_on_the_host(&t, want);
    t.job.evaluate = 1;
    training_plan(&t, 1.0);
    training_take(&t);
    for (int s = 0; s < TRAINING_STEPS; s++) {
        CHECK_OK(hri_planned_step(t.planned, &n, &why));
        is[s] = n.loss;
        CHECK_OK(hri_planned_evaluate(t.planned, &n, &why));
        CHECK_OK(hri_planned_evaluate(t.planned, &again, &why));
        CHECK(isfinite(n.loss) && n.loss == again.loss);
    }
    compare(want, is, 1e-4);
    training_close(&t);
}

TEST_TIMEOUT(plans, weights_are_saved_from_the_device_and_loaded_into_it, 300) {
    char path[] = "/tmp/headroom-plans-XXXXXX";
    const int fd = mkstemp(path);
    CHECK(fd >= 0);
    close(fd);
    float first[TRAINING_STEPS], is[TRAINING_STEPS];
    training t;
    hr_error why = {0};
    training_open(&t, "mlp:size=8,width=16", "optimizer=sgd,momentum=0", 4);
    training_plan(&t, 1.0);
    training_take(&t);
    const hr_weights_options o = {
        .size = sizeof o, .get = hri_planned_get, .put = hri_planned_put, .user = t.planned};
    CHECK_OK(hr_model_save(t.model, hri_planned_graph(t.planned), path, &o, &why));
    training_steps(&t, first);
    CHECK_OK(hr_model_load(t.model, hri_planned_graph(t.planned), path, &o, &why));
    const hr_step_state begin = {.scale = 1};
    hri_planned_resume(t.planned, &begin);
    training_steps(&t, is);
    CHECK(!memcmp(first, is, sizeof is));
    training_close(&t);
    unlink(path);
}

/* The public door, without training. */
static float loss_of(hr_device *device, const hr_graph *g, uint64_t budget) {
    const hr_run_options o = {.size = sizeof o,
                              .device = device,
                              .graphs = &g,
                              .graph_count = 1,
                              .budget_bytes = budget,
                              .seed = 3,
                              .threads = 1};
    hr_run *door;
    hr_error why = {0};
    hr_run_report report = {.size = sizeof report};
    float images[4][8][8][1], loss = 0;
    int32_t labels[4] = {0, 1, 2, 3};
    for (size_t i = 0; i < sizeof images / sizeof(float); i++) {
        ((float *)images)[i] = (float)(i % 17) / 17.0f;
    }
    if (hr_run_open(&o, &door, &why) != HR_OK) {
        test_fail(__FILE__, __LINE__, "%s", why.message);
    }
    for (int i = 0; i < 2; i++) {
        CHECK_OK(hr_run_put(door, 0, "image", images, sizeof images));
        CHECK_OK(hr_run_put(door, 0, "label", labels, sizeof labels));
        CHECK_OK(hr_run_step(door, 0));
        CHECK_OK(hr_run_get(door, 0, "loss", &loss, sizeof loss));
    }
    CHECK_OK(hr_run_get_report(door, &report));
    CHECK(report.resident_bytes > 0);
    if (budget) {
        CHECK_LE(report.peak_bytes, budget);
        CHECK_LE(report.resident_bytes, budget);
    }
    hr_run_close(door);
    return loss;
}

TEST_TIMEOUT(plans, a_graph_runs_through_the_public_door, 300) {
    training t;
    hr_device *host;
    hr_graph *g;
    hr_error why = {0};
    training_open(&t, "mlp:size=8,width=16", "optimizer=sgd", 4);
    CHECK_OK(hr_device_find(t.ctx, "host", &host));
    CHECK_OK(hr_step_build(&t.job.options, hr_model_build, t.model, HR_STEP_EVALUATE, 4, &g, &why));
    const float want = loss_of(host, g, 0), is = loss_of(t.device, g, 0);
    CHECK(isfinite(want) && fabsf(want - is) <= 1e-5f * fabsf(want));
    CHECK(loss_of(t.device, g, is_fake() ? 160 << 20 : UINT64_C(2) << 30) == is);
    hr_graph_destroy(g);
    training_close(&t);
}

#ifdef HEADROOM_FAULTS
TEST_TIMEOUT(plans, nothing_is_taken_after_set_up, 300) {
    static const hri_fault_kind kinds[] = {HRI_FAULT_ALLOC, HRI_FAULT_RESERVE, HRI_FAULT_CREATE,
                                           HRI_FAULT_MAP,   HRI_FAULT_PINNED,  HRI_FAULT_OPEN};
    float losses[TRAINING_STEPS];
    training t;
    training_open(&t, "mlp:size=8,width=16", "optimizer=sgd", 4);
    training_plan(&t, 1.0);
    training_take(&t);
    hr_device_info before = {.size = sizeof before}, after = {.size = sizeof after};
    CHECK_OK(hr_device_get_info(t.device, &before));
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        hri_fault_set(kinds[i], 1, 1);
        training_steps(&t, losses);
        CHECK_EQ(hri_fault_delivered(), 0);
        hri_fault_set(HRI_FAULT_ANY, 0, 0);
    }
    CHECK_OK(hr_device_get_info(t.device, &after));
    CHECK_EQ(after.process_bytes, before.process_bytes);
    training_close(&t);
}
#endif

TEST_TIMEOUT(plans, more_runtime_than_was_planned_for_is_refused_and_given_back, 300) {
    training t;
    hri_prose why = {{0}};
    hr_device_info info = {.size = sizeof info};
    training_open(&t, "mlp:size=8,width=16", "optimizer=sgd", 4);
    training_plan(&t, 1.0);
    t.plans.budget_bytes = t.plans.arena_bytes + 4096; /* as if a context were next to nothing */
    const hri_planned_options o = {
        .device = t.device, .plans = &t.plans, .job = &t.job, .seed = 1, .limit = 10};
    CHECK_OK(hri_planned_open(&o, &t.planned, &why));
    CHECK_STATUS(hri_planned_take(t.planned, &why), HR_E_LIMIT);
    CHECK(strstr(why.text, "outside the arena"));
    CHECK_OK(hr_device_get_info(t.device, &info));
    CHECK_EQ(info.held_bytes, 0);
    training_close(&t);
}
