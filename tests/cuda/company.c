/* What a step launches together is timed as such, and a plan's time has it: groups of updates, neighbours, and the operands
 * that they are timed on. */
#include "rig.h"
#include "training.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "plan/bound.h"
#include "run/trial.h"

static const char model[] = "gpt2:layers=2,width=32,heads=2,context=16,vocab=100";
static const char options[] = "optimizer=adamw,rate=3e-4,precision=bf16";

/* Times that are easily told apart: an op alone takes 1,000, two of them together 300 less, of many each 100. */
typedef struct watch {
    hri_timing *timing;
    hri_engine *engine;
    uint32_t crowds, pairs, threes, most, sums;
} watch;

static double time_alone(void *user, const hri_sig *sig, uint32_t variant) {
    watch *c = user;
    (void)!(hri_timing_time(c->timing, sig, variant) < 0); /* it is loaded by that */
    return 1000;
}

/* Launches of the ops as a trial makes them. */
static int64_t launches(hri_engine *engine, const hri_trial_op *ops, uint32_t count) {
    CHECK(hri_trial_together(engine, ops, count, 64 << 20, 1) == 0); /* compiles */
    const int64_t before = fake()->calls("cuLaunchKernel");
    CHECK(hri_trial_together(engine, ops, count, 64 << 20, 1) == 0);
    return fake()->calls("cuLaunchKernel") - before;
}

/* A norm and the sum that it reads, or that it makes a part of, are tried as one launch: the second op reads what the first one
 * writes, wherever that lies. */
static void check_pair(watch *c, const hri_trial_op *ops) {
    const char *first = ops[0].sig->op->name, *second = ops[1].sig->op->name;
    if ((!strcmp(first, "add") && !strcmp(second, "layer_norm")) ||
        (!strcmp(first, "layer_norm_grad") && !strcmp(second, "add"))) {
        CHECK(hri_trial_number(&ops[1], 0) == ops[0].out[0] ||
              hri_trial_number(&ops[1], 1) == ops[0].out[0]);
        CHECK_EQ(launches(c->engine, ops, 2),
                 launches(c->engine, ops, 1) + launches(c->engine, ops + 1, 1) - 1);
        c->sums++;
    }
}

/* A norm's gradient, the sum that it goes into and the sum of that's columns are one launch. */
static double time_three(watch *c, const hri_trial_op *ops) {
    CHECK(!strcmp(ops[0].sig->op->name, "layer_norm_grad") &&
          !strcmp(ops[1].sig->op->name, "add") && !strcmp(ops[2].sig->op->name, "sum_to"));
    CHECK(hri_trial_number(&ops[2], 0) == ops[1].out[0]);
    if (c->engine) {
        CHECK_EQ(launches(c->engine, ops, 3), launches(c->engine, ops, 2) + 1);
    }
    c->threes++;
    return 1900;
}

static double time_pair(void *user, const hri_trial_op *ops, uint32_t count) {
    watch *c = user;
    CHECK(count >= 2 && count <= 3 && ops[0].sig && ops[1].sig);
    if (count == 3) {
        return time_three(c, ops);
    }
    if (c->engine) {
        check_pair(c, ops);
    }
    c->pairs++;
    return 1700;
}

static double time_many(void *user, const hri_trial_op *ops, uint32_t count, uint32_t *used) {
    watch *c = user;
    for (uint32_t i = 0; i < count; i++) {
        CHECK(ops[i].sig->op == ops[0].sig->op);
    }
    c->crowds++;
    c->most = count > c->most ? count : c->most;
    *used = count;
    return count > 1 ? 100.0 * count : -1;
}

static void set_clock(training *t, watch *c) {
    c->timing = t->timing;
    t->job.time_ns = time_alone;
    t->job.together_ns = time_pair;
    t->job.many_ns = time_many;
    t->job.time_user = c;
}

TEST(company, a_plan_has_the_time_of_what_is_launched) {
    training t;
    watch c = {.crowds = 0};
    double updates = 0, saved = 0, alone = 0;
    uint32_t count = 0, sums = 0, thirds = 0;
    training_open(&t, model, options, 4);
    set_clock(&t, &c);
    training_plan(&t, 1);
    CHECK(c.crowds > 0 && c.pairs > 0);
    const hri_problem *p = &t.plans.c->pieces[0].x.problem;
    const hri_plan *plan = t.plans.plans[0];
    for (uint32_t n = 0; n < p->op_count; n++) {
        const hri_problem_op *op = &p->ops[n];
        const double time = op->variants[0].time_ns;
        alone += time + op->alone_ns;
        if (!strcmp(op->kind, "adamw")) {
            updates += time;
            saved += op->alone_ns;
            count++;
            CHECK(op->many > 0);
        }
        /* A norm's gradient and the sum that it goes into are one launch. */
        if (op->after && !strcmp(op->kind, "add") &&
            !strcmp(p->ops[op->after - 1].kind, "layer_norm_grad")) {
            CHECK(time == 700 && op->alone_ns == 300);
            sums++;
        }
        if (op->third) {
            CHECK(time == 200 && op->alone_ns == 800 && op->apart);
            thirds++;
        }
        CHECK(!op->after || op->after == n);
    }
    CHECK(count > 20 && sums >= 2 && thirds >= 2 && c.threes >= 2);
    CHECK(c.most >= count);
    CHECK(updates > 99.9 * count && updates < 100.1 * count);
    CHECK(plan->time_ns == hri_plan_makespan(p, plan));
    CHECK(saved > 500.0 * count && plan->time_ns <= alone - saved);
    CHECK(plan->time_ns < hri_base_time(p) + 1); /* without a bound nothing stands apart */
    training_close(&t);
}

TEST(company, a_sum_is_tried_as_a_part_of_the_norm_beside_it) {
    training t;
    watch c = {.crowds = 0};
    need_fake();
    training_open(&t, model, options, 4);
    set_clock(&t, &c);
    c.engine = t.engine;
    training_plan(&t, 1);
    CHECK(c.sums >= 6);
    training_close(&t);
}

/* The parameters' updates of a graph; returns how many. */
static uint32_t list_updates(const hr_graph *g, hri_trial_op *ops, uint32_t most) {
    uint32_t count = 0;
    for (uint32_t n = 0; n < g->node_count && count < most; n++) {
        const hri_node_record *node = &g->nodes[n];
        if (node->live && !strcmp(node->sig.op->name, "adamw")) {
            uint32_t *out = calloc(HRI_OUT_MAX, sizeof *out);
            CHECK(out != NULL);
            for (uint32_t k = 0; k < node->sig.out_count; k++) {
                out[k] = node->out + k;
            }
            ops[count++] = (hri_trial_op){&node->sig, node->in, out};
        }
    }
    return count;
}

static void free_updates(hri_trial_op *ops, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        free((void *)(uintptr_t)ops[i].out);
    }
}

static hr_graph *build(const training *t) {
    hr_graph *g = NULL;
    hr_error why = {0};
    CHECK_OK(hr_step_build(&t->job.options, hr_model_build, t->model, HR_STEP_WHOLE, 4, &g, &why));
    return g;
}

TEST(company, many_are_tried_in_one_launch) {
    training t;
    hri_trial_op ops[8];
    need_fake();
    training_open(&t, model, options, 4);
    hr_graph *g = build(&t);
    const uint32_t count = list_updates(g, ops, 8);
    CHECK_EQ(count, 8);
    const uint64_t bytes = hri_trial_bytes(t.engine, ops, count);
    CHECK(hri_trial_together(t.engine, ops, count, bytes, 1) == 0); /* compiles */
    int64_t before = fake()->calls("cuLaunchKernel");
    CHECK(hri_trial_together(t.engine, ops, count, bytes, 1) == 0);
    CHECK_EQ(fake()->calls("cuLaunchKernel") - before, 2); /* gradients have two types */
    before = fake()->calls("cuLaunchKernel");
    for (uint32_t i = 0; i < count; i++) {
        CHECK(hri_trial_time(t.engine, ops[i].sig, 0, bytes, 1) == 0);
    }
    CHECK_EQ(fake()->calls("cuLaunchKernel") - before, count);
    CHECK(hri_trial_together(t.engine, ops, count, bytes - 1, 1) < 0);
    int hit = 1; /* without host memory it says that it did not work, and leaks nothing */
    for (uint64_t nth = 1; hit; nth++) {
        hri_fault_set(HRI_FAULT_ALLOC, nth, 0);
        const double time = hri_trial_together(t.engine, ops, count, bytes, 1);
        hit = hri_fault_delivered() > 0;
        hri_fault_set(HRI_FAULT_ALLOC, 0, 0);
        CHECK(hit ? time <= 0 : time == 0);
    }
    free_updates(ops, count);
    hr_graph_destroy(g);
    training_close(&t);
}

static double timed(training *t, const char *folder, const hri_trial_op *ops, uint32_t count,
                    uint64_t most_bytes, uint32_t *used) {
    const hri_timing_options o = {.engine = t->engine,
                                  .device = "test",
                                  .folder = folder,
                                  .flops_per_ns = 1,
                                  .bytes_per_ns = 1,
                                  .most_bytes = most_bytes};
    hri_timing *timing;
    CHECK_OK(hri_timing_open(&o, &timing));
    const double time = hri_timing_many(timing, ops, count, used);
    CHECK(hri_timing_many(timing, ops, count, used) == time);
    hri_timing_close(timing);
    return time;
}

TEST(company, the_time_of_many_is_kept_and_they_are_fewer_where_memory_is_short) {
    training t;
    hri_trial_op ops[8];
    char folder[] = "/tmp/headroom-company-XXXXXX", command[300];
    uint32_t used = 0;
    training_open(&t, model, options, 4);
    CHECK(mkdtemp(folder));
    hr_graph *g = build(&t);
    const uint32_t count = list_updates(g, ops, 8);
    const uint64_t bytes = hri_trial_bytes(t.engine, ops, count);
    const double first = timed(&t, folder, ops, count, 64 << 20, &used);
    CHECK(first > 0);
    CHECK_EQ(used, count);
    CHECK(timed(&t, folder, ops, count, 64 << 20, &used) == first);
    CHECK(timed(&t, folder, ops, count, bytes - 1, &used) > 0);
    CHECK_EQ(used, count / 2);
    CHECK(timed(&t, folder, ops, count, 4096, &used) < 0);
    snprintf(command, sizeof command, "rm -r '%s'", folder);
    CHECK(system(command) == 0);
    free_updates(ops, count);
    hr_graph_destroy(g);
    training_close(&t);
}

/* One row that all ids name would be added up by one block, while the others wait: no step has that. */
TEST(company, ids_are_spread_while_they_are_timed) {
    enum { COUNT = 5000, ROWS = 100, WIDTH = 8 };
    training t;
    hri_attr attr;
    hri_prose why = {0};
    const hr_op *op = hri_op_find("gather_grad");
    const hr_meta in[] = {{HR_TYPE_F32, hr_shape_2(COUNT, WIDTH)},
                          {HR_TYPE_I32, hr_shape_1(COUNT)}},
                  out = {HR_TYPE_F32, hr_shape_2(ROWS, WIDTH)};
    static int32_t ids[COUNT];
    uint32_t seen[ROWS] = {0};
    hr_addr at;
    training_open(&t, model, options, 4);
    CHECK_OK(hri_attr_parse(op, "rows=100", &attr, &why));
    const hri_sig sig = {op, &attr, 2, 1, in, &out};
    CHECK(hri_trial_time(t.engine, &sig, 0, 64 << 20, 0) > 0);
    CHECK_OK(hri_engine_scratch(t.engine, 1, &at));
    hr_queue *queue = hri_engine_queue(t.engine, HRI_ENGINE_COMPUTE);
    const uint64_t head = 256 + HRI_GPU_TRIAL_BYTES, dy = COUNT * WIDTH * sizeof(float);
    CHECK_OK(hr_copy(queue, host_addr(ids), at + head + (dy + 255) / 256 * 256, sizeof ids));
    CHECK_OK(hr_queue_sync(queue));
    for (uint32_t i = 0; i < COUNT; i++) {
        CHECK(ids[i] >= 0 && ids[i] < ROWS);
        seen[ids[i]]++;
    }
    for (uint32_t r = 0; r < ROWS; r++) {
        CHECK(seen[r] > 10 && seen[r] < 150); /* 50 each */
    }
    training_close(&t);
}
