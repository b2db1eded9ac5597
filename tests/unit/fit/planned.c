/* Plans that run: the same losses as the interpreter, to the bit, for every budget; in the memory that was planned and
 * with no allocation after set-up. */
#include <headroom/headroom.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fault.h"
#include "test.h"
#include "fit/planned.h"
#include "loop/run.h"

enum { STEPS = 3 };

typedef struct rig {
    hr_model *model;
    hr_ctx *ctx;
    hr_device *host;
    hri_threads *threads;
    hri_fit_job job;
} rig;

static rig rig_open(const char *model, const char *options, int64_t batch) {
    rig r = {0};
    hr_error why = {0};
    CHECK_OK(hr_model_open(model, &r.model, &why));
    r.job.build = hr_model_build;
    r.job.user = r.model;
    r.job.batch = batch;
    r.job.page_bytes = 1;
    r.job.effort = 2000000;
    r.job.machine.threads = 2;
    r.job.options.size = sizeof r.job.options;
    CHECK_OK(hr_train_options_parse(options, &r.job.options, &why));
    const hr_ctx_options o = {.size = sizeof o, .visible_devices = "", .no_cuda = 1};
    CHECK_OK(hr_ctx_create(&o, &r.ctx));
    CHECK_OK(hr_device_find(r.ctx, "host", &r.host));
    CHECK_OK(hri_threads_create(2, &r.threads));
    return r;
}

static void rig_close(rig *r) {
    hri_threads_destroy(r->threads);
    hr_ctx_destroy(r->ctx);
    hr_model_close(r->model);
}

/* The plain meaning. */
static void interpret(const rig *r, float *losses) {
    const hri_interp_job job = {.options = r->job.options,
                                .build = r->job.build,
                                .user = r->job.user,
                                .batch = r->job.batch,
                                .steps = STEPS,
                                .seed = 7,
                                .limit = (uint32_t)hr_model_classes(r->model),
                                .threads = r->threads};
    hr_error why = {0};
    CHECK_OK(hri_train_run(&job, losses, &why));
}

static hri_threads *pool_of(const rig *r, const hri_fit_plans *plans) {
    return plans->threads == 2 ? r->threads : NULL;
}

static uint64_t run(rig *r, hri_fit *f, hri_fit_plans *plans, float *losses) {
    const hri_planned_options o = {.device = r->host,
                                   .plans = plans,
                                   .job = &r->job,
                                   .threads = pool_of(r, plans),
                                   .seed = 7,
                                   .limit = (uint32_t)hr_model_classes(r->model)};
    hri_planned *p = NULL;
    hri_prose why = {{0}};
    CHECK_OK(hri_planned_open(&o, &p, &why));
    const uint64_t planned = plans->arena_bytes;
    hri_fit_drop_others(f, plans->c);
    hri_fit_plans_deinit(plans);
    hri_fit_release(f);
    CHECK_OK(hri_planned_take(p, &why));
#ifdef HEADROOM_FAULTS
    hri_fault_set(HRI_FAULT_ANY, 1, 1); /* from here on whatever asks for anything is refused */
#endif
    for (int s = 0; s < STEPS; s++) {
        hri_numbers numbers;
        CHECK_OK(hri_planned_step(p, &numbers, &why));
        losses[s] = numbers.loss;
    }
#ifdef HEADROOM_FAULTS
    CHECK_EQ(hri_fault_delivered(), 0);
    hri_fault_set(HRI_FAULT_ANY, 0, 0);
#endif
    hri_measured m;
    hri_planned_measure(p, &m);
    CHECK_EQ(m.arena_bytes, m.planned_bytes);
    CHECK(m.arena_bytes >= planned && m.arena_bytes - planned < (2 << 20));
    hri_planned_close(p);
    return m.arena_bytes;
}

static void at_budgets(const char *model, const char *options, int64_t batch) {
    rig r = rig_open(model, options, batch);
    float want[STEPS], is[STEPS];
    interpret(&r, want);
    CHECK(isfinite(want[STEPS - 1]));
    static const double shares[] = {1.0, 0.5, 0.25, 0.0};
    for (size_t i = 0; i < sizeof shares / sizeof shares[0]; i++) {
        hri_fit f;
        hri_fit_plans plans = {0};
        hri_prose why = {{0}};
        r.job.parts = 1;
        CHECK_OK(hri_fit_open(&r.job, &f, &why));
        uint64_t budget = (uint64_t)((double)f.unplanned_bytes * shares[i]);
        hr_status status = HR_E_NO_PLAN;
        if (budget) {
            status = hri_fit_search(&f, budget, 1, &plans, &why);
        }
        if (status ==
            HR_E_NO_PLAN) { /* under what weights and one op take: the least that there is */
            CHECK_OK(hri_fit_smallest(&f, &budget, NULL, &why));
            CHECK_OK(hri_fit_search(&f, budget, 4, &plans, &why));
        }
        CHECK_LE(plans.peak_bytes, budget);
        const double ratio = plans.time_ns / f.nominal_time_ns;
        const uint64_t again = plans.again_count;
        const uint64_t arena = run(&r, &f, &plans, is);
        printf("    %s: budget %.1f MiB of %.1f, arena %.1f MiB, time %.3f, %llu ops again\n",
               model, (double)budget / 1048576, (double)f.unplanned_bytes / 1048576,
               (double)arena / 1048576, ratio, (unsigned long long)again);
        CHECK(!memcmp(want, is, sizeof is));
        hri_fit_close(&f);
    }
    rig_close(&r);
}

TEST_TIMEOUT(planned, resnet18_loses_nothing_at_any_budget, 240) {
    at_budgets("resnet18:size=64,width=8,classes=10", "optimizer=sgd,rate=0.01", 8);
}

TEST_TIMEOUT(planned, unet_loses_nothing_at_any_budget, 240) {
    at_budgets("unet:size=32,width=4,depth=3", "optimizer=sgd,rate=0.01", 4);
}

TEST_TIMEOUT(planned, vit_with_dropout_loses_nothing_at_any_budget, 240) {
    at_budgets("vit-tiny:size=32,patch=4,width=32,heads=2,layers=6,classes=10,dropout=0.1",
               "optimizer=adamw,clip=1", 8);
}

TEST_TIMEOUT(planned, gpt2_in_bf16_loses_nothing_at_any_budget, 240) {
    at_budgets("gpt2-nano:layers=6,context=64", "optimizer=adamw,precision=bf16,moments=8bit", 4);
}

/* Not slower than what is found for the next smaller budgets of 5 MiB each. */
TEST_TIMEOUT(planned, smaller_round_budgets_are_looked_at_too, 240) {
    rig r = rig_open("gpt2-nano:layers=4,context=256,width=128", "optimizer=adamw", 16);
    const uint64_t step = 5 << 20;
    hri_fit f;
    hri_fit_plans plans, other;
    hri_prose why = {{0}};
    r.job.parts = 1;
    r.job.effort = 800000;
    for (uint32_t threads = 1; threads < 3;
         threads++) { /* two: the machine is not the nominal one */
        r.job.machine.threads = threads;
        CHECK_OK(hri_fit_open(&r.job, &f, &why));
        const uint64_t budget = f.unplanned_bytes / 2;
        CHECK_OK(hri_fit_search(&f, budget, 1, &plans, &why));
        CHECK_LE(plans.peak_bytes, budget);
        CHECK(plans.again_count > 0 && plans.bound_time_ns <= plans.time_ns);
        for (uint64_t below = (budget - 1) / step; below > (budget - 1) / step - 2; below--) {
            CHECK_OK(hri_fit_case_plan(&f, plans.c, below * step, 200000, &other, &why));
            CHECK(plans.time_ns <= other.time_ns);
            hri_fit_plans_deinit(&other);
        }
        hri_fit_plans_deinit(&plans);
        hri_fit_close(&f);
    }
    rig_close(&r);
}

static int has_op(const hri_fit_plans *plans, const char *kind) {
    const hri_problem *p = &plans->c->pieces[0].x.problem;
    int found = 0;
    for (uint32_t n = 0; n < p->op_count; n++) {
        found |= !strcmp(p->ops[n].kind, kind);
    }
    return found;
}

/* The scores of a vocabulary are never whole, whatever the budget, and the bits are the same. */
TEST_TIMEOUT(planned, a_head_of_many_classes_loses_nothing, 240) {
    rig r = rig_open("gpt2-nano:vocab=13000", "optimizer=adamw", 4);
    float want[STEPS], is[STEPS];
    interpret(&r, want);
    for (int small = 0; small < 2; small++) {
        hri_fit f;
        hri_fit_plans plans;
        hri_prose why = {{0}};
        uint64_t budget;
        r.job.parts = 1;
        CHECK_OK(hri_fit_open(&r.job, &f, &why));
        if (small) {
            CHECK_OK(hri_fit_smallest(&f, &budget, NULL, &why));
            CHECK_OK(hri_fit_search(&f, budget, 8, &plans, &why));
        } else {
            CHECK_OK(hri_fit_search(&f, 0, 1, &plans, &why));
            CHECK(plans.time_ns == f.base_time_ns);
        }
        CHECK(has_op(&plans, "linear_cross_entropy_train"));
        CHECK(!has_op(&plans, "linear_cross_entropy"));
        (void)run(&r, &f, &plans, is);
        CHECK(!memcmp(want, is, sizeof is));
        hri_fit_close(&f);
    }
    rig_close(&r);
}

static void check_parts(const char *model, const char *options) {
    rig r = rig_open(model, options, 6);
    float want[STEPS], is[STEPS];
    interpret(&r, want);
    for (int64_t parts = 2; parts <= 6; parts += 2) {
        hri_fit f;
        hri_fit_plans plans;
        hri_prose why = {{0}};
        r.job.parts = parts;
        CHECK_OK(hri_fit_open(&r.job, &f, &why));
        CHECK_OK(hri_fit_search(&f, 0, 1, &plans, &why));
        CHECK(plans.c->parts > 1);
        (void)run(&r, &f, &plans, is);
        for (int s = 0; s < STEPS; s++) {
            CHECK(fabs((double)want[s] - (double)is[s]) <= 1e-5 * fabs((double)want[s]));
        }
        hri_fit_close(&f);
    }
    rig_close(&r);
}

TEST_TIMEOUT(planned, parts_of_a_batch_agree_up_to_rounding, 240) {
    check_parts("gpt2-nano", "optimizer=sgd,rate=0.1");
}

TEST_TIMEOUT(planned, parts_of_a_batch_agree_where_each_sample_is_normalised_by_itself, 240) {
    check_parts("resnet18:size=48,width=16,classes=10,norm=group", "optimizer=sgd,rate=0.0001");
}

TEST_TIMEOUT(planned, values_that_wait_in_the_other_memory_come_back_unchanged, 240) {
    rig r = rig_open("gpt2-nano:layers=4,context=64", "optimizer=adamw", 4);
    float want[STEPS], is[STEPS];
    interpret(&r, want);
    hri_fit f;
    hri_fit_plans plans;
    hri_prose why = {{0}};
    r.job.parts = 1;
    r.job.machine = (hri_machine){.threads = 2,
                                  .flops_per_ns = 1,
                                  .bytes_per_ns = 1,
                                  .out_bytes_per_ns = 1000,
                                  .in_bytes_per_ns = 1000};
    CHECK_OK(hri_fit_open(&r.job, &f, &why));
    CHECK_OK(hri_fit_search(&f, f.unplanned_bytes / 3 * 2, 1, &plans, &why));
    CHECK(plans.copied_bytes > 0 && plans.other_bytes > 0);
    (void)run(&r, &f, &plans, is);
    CHECK(!memcmp(want, is, sizeof is));
    hri_fit_close(&f);
    rig_close(&r);
}

static hri_planned *open_with_seed(rig *r, hri_fit *f, uint64_t seed) {
    hri_fit_plans plans;
    hri_planned *p = NULL;
    hri_prose why = {{0}};
    CHECK_OK(hri_fit_open(&r->job, f, &why));
    CHECK_OK(hri_fit_search(f, 0, 1, &plans, &why));
    const hri_planned_options o = {.device = r->host,
                                   .plans = &plans,
                                   .job = &r->job,
                                   .threads = r->threads,
                                   .seed = seed,
                                   .limit = 10};
    CHECK_OK(hri_planned_open(&o, &p, &why));
    hri_fit_drop_others(f, plans.c);
    hri_fit_plans_deinit(&plans);
    hri_fit_release(f);
    CHECK_OK(hri_planned_take(p, &why));
    return p;
}

TEST(planned, weights_are_saved_from_the_arena_and_loaded_into_it) {
    char path[] = "/tmp/headroom-planned-XXXXXX";
    const int fd = mkstemp(path);
    CHECK(fd >= 0);
    close(fd);
    rig r = rig_open("mlp:size=8,width=16", "optimizer=sgd", 4);
    hri_fit f[2];
    hri_planned *p[2] = {open_with_seed(&r, &f[0], 1), open_with_seed(&r, &f[1], 2)};
    hr_error why = {0};
    for (int i = 0; i < 2; i++) {
        const hr_weights_options o = {
            .size = sizeof o, .get = hri_planned_get, .put = hri_planned_put, .user = p[i]};
        const hr_graph *g = hri_planned_graph(p[i]);
        CHECK_OK(i == 0 ? hr_model_save(r.model, g, path, &o, &why)
                        : hr_model_load(r.model, g, path, &o, &why));
    }
    const hr_graph *g = hri_planned_graph(p[0]);
    uint32_t compared = 0;
    for (hr_value v = 1; v < g->value_count; v++) {
        if (g->values[v].kind == HR_VALUE_PARAM) {
            const hr_value there = hr_graph_find(hri_planned_graph(p[1]), g->values[v].name);
            unsigned char a[4096], b[4096];
            const uint64_t bytes = hr_meta_bytes(&g->values[v].meta);
            for (uint64_t at = 0; at < bytes; at += sizeof a) {
                const uint64_t n = bytes - at < sizeof a ? bytes - at : sizeof a;
                CHECK_OK(hri_planned_get(p[0], v, at, a, n));
                CHECK_OK(hri_planned_get(p[1], there, at, b, n));
                CHECK(!memcmp(a, b, n));
            }
            CHECK_EQ(hri_planned_get(p[0], v, bytes, a, 1), HR_E_RANGE);
            compared++;
        }
    }
    CHECK(compared >= 4);
    for (int i = 0; i < 2; i++) {
        hri_planned_close(p[i]);
        hri_fit_close(&f[i]);
    }
    rig_close(&r);
    unlink(path);
}

TEST(planned, memory_that_grows_comes_with_the_graph_that_needs_it) {
    rig r = rig_open("lenet", "optimizer=sgd", 2);
    hri_fit f;
    hri_fit_plans plans;
    hri_prose why = {{0}};
    hri_numbers numbers;
    hri_measured m;
    r.job.evaluate = 1;
    r.job.evaluate_samples = 512; /* far more than a step needs */
    CHECK_OK(hri_fit_open(&r.job, &f, &why));
    CHECK_OK(hri_fit_search(&f, 0, 1, &plans, &why));
    const hri_planned_options o = {.device = r.host,
                                   .plans = &plans,
                                   .job = &r.job,
                                   .threads = pool_of(&r, &plans),
                                   .grow = 1,
                                   .name = "growing",
                                   .limit_bytes = 64 << 20,
                                   .limit = 10};
    hri_planned *p;
    CHECK_OK(hri_planned_open(&o, &p, &why));
    CHECK_OK(hri_planned_take(p, &why));
    CHECK_OK(hri_planned_step(p, &numbers, &why));
    hri_planned_measure(p, &m);
    const uint64_t before = m.arena_bytes;
    CHECK(before < m.planned_bytes);
    CHECK_OK(hri_planned_evaluate(p, &numbers, &why));
    CHECK(isfinite(numbers.loss));
    hri_planned_measure(p, &m);
    CHECK(m.arena_bytes > before && m.arena_bytes == m.planned_bytes);
    hri_planned_close(p);
    hri_fit_plans_deinit(&plans);
    hri_fit_close(&f);
    rig_close(&r);
}

TEST(planned, a_byte_outside_the_plan_is_never_written) {
    rig r = rig_open("resnet18:size=32,width=8,classes=10", "optimizer=sgd,rate=0.01", 4);
    hri_fit f;
    hri_fit_plans plans;
    hri_prose why = {{0}};
    r.job.parts = 1;
    CHECK_OK(hri_fit_open(&r.job, &f, &why));
    uint64_t least;
    CHECK_OK(hri_fit_smallest(&f, &least, NULL, &why));
    CHECK_OK(hri_fit_search(&f, least, 4, &plans, &why));
    enum { GUARD = 4096 };
    const uint64_t bytes = plans.plans[0]->arena_bytes;
    unsigned char *memory = aligned_alloc(4096, (bytes + 2 * GUARD + 4095) / 4096 * 4096);
    CHECK(memory);
    memset(memory, 0xa5, bytes + 2 * GUARD);
    const hri_exec_options o = {.g = plans.c->pieces[0].g,
                                .problem = &plans.c->pieces[0].x.problem,
                                .plan = plans.plans[0],
                                .arena = memory + GUARD,
                                .threads = pool_of(&r, &plans),
                                .seed = 1};
    hri_exec *e;
    CHECK_OK(hri_exec_create(&o, &e, &why));
    CHECK_OK(hri_exec_begin(e, NULL));
    for (hr_value v = 1; v < o.g->value_count; v++) { /* whatever the inputs hold */
        const uint64_t has = hr_meta_bytes(&o.g->values[v].meta);
        for (uint64_t at = 0; o.g->values[v].kind == HR_VALUE_INPUT && at < has; at += 4) {
            CHECK_OK(hri_exec_put(e, v, at, &(uint32_t){0}, has - at < 4 ? has - at : 4));
        }
    }
    CHECK_OK(hri_exec_run(e, 0, NULL));
    for (uint64_t i = 0; i < GUARD; i++) {
        CHECK(memory[i] == 0xa5 && memory[GUARD + bytes + i] == 0xa5);
    }
    hri_exec_destroy(e);
    free(memory);
    hri_fit_plans_deinit(&plans);
    hri_fit_close(&f);
    rig_close(&r);
}

/* Predicted time of a step in so many parts, on a device to which inputs travel at this speed (0: they do not). */
static double time_of_parts(int64_t parts, double in_bytes_per_ns) {
    rig r = rig_open("mlp:size=8,width=16", "rate=0.1", 8);
    hri_fit f;
    hri_fit_plans plans;
    hri_prose why = {{0}};
    r.job.parts = parts;
    r.job.machine.threads = 0;
    r.job.machine.out_bytes_per_ns = r.job.machine.in_bytes_per_ns = in_bytes_per_ns;
    CHECK_OK(hri_fit_open(&r.job, &f, &why));
    CHECK_OK(hri_fit_search(&f, 0, 1, &plans, &why));
    CHECK_EQ(plans.parts, parts);
    const double time = plans.time_ns;
    hri_fit_plans_deinit(&plans);
    hri_fit_close(&f);
    rig_close(&r);
    return time;
}

TEST(planned, inputs_of_later_parts_have_to_be_waited_for) {
    CHECK(time_of_parts(1, 1) == time_of_parts(1, 0));
    const double two = time_of_parts(2, 1) - time_of_parts(2, 0);
    const double four = time_of_parts(4, 1) - time_of_parts(4, 0);
    CHECK(two > 0 && four > two);
    CHECK(time_of_parts(2, 4) - time_of_parts(2, 0) < two);
}
