/* Graphs of ranks that hold slices, as the planner sees them: gathers are dropped and made again under a budget. */
#include <headroom/headroom.h>

#include <math.h>
#include <string.h>

#include "plan/from_graph.h"
#include "plan/plan.h"
#include "step/shard.h"
#include "test.h"

static hr_graph *graph_of(hr_model *model, hr_step_kind kind, hri_shard_mode mode, uint32_t ranks) {
    hr_train_options o = {.size = sizeof o};
    hr_graph *g = NULL;
    hr_error why = {0};
    const hri_shard shard = {mode, ranks, ranks};
    CHECK_OK(hr_train_options_parse("optimizer=adam", &o, NULL));
    CHECK_OK(hri_step_build(&o, hr_model_build, model, kind, 1, mode ? &shard : NULL, &g, &why));
    return g;
}

static hri_plan *plan_of(const hri_problem *p, uint64_t budget) {
    hri_plan *plan = NULL;
    hri_prose why = {""};
    const hri_plan_options o = {.budget_bytes = budget, .effort = 200000};
    const hr_status status = hri_plan_make(p, &o, &plan, NULL, &why);
    if (status != HR_OK) {
        test_fail(__FILE__, __LINE__, "%s", why.text);
    }
    return plan;
}

static uint32_t gathered_again(const hri_problem *p, const hri_plan *plan) {
    uint32_t count = 0;
    for (uint32_t s = 0; s < plan->step_count; s++) {
        const hri_plan_step *step = &plan->steps[s];
        count +=
            hri_step_runs(step) && step->again && !strcmp(p->ops[step->op].kind, "gather_slices");
    }
    return count;
}

TEST(round, parameters_in_slices_are_gathered_again_under_a_budget) {
    hr_model *model;
    hri_graph_problem x;
    hri_prose why = {""};
    const hri_machine machine = {.net_bytes_per_ns = 10, .net_latency_ns = 5000, .align = 64};
    CHECK_OK(hr_model_open("mlp:size=8,width=512,layers=6,classes=10", &model, NULL));
    hr_graph *g = graph_of(model, HR_STEP_ROUND_LAST, HRI_SHARD_WEIGHTS, 4);
    CHECK_OK(hri_problem_from_graph(g, &machine, &x, &why));
    hri_plan *free = plan_of(&x.problem, 0);
    const hri_plan_net all = hri_plan_net_of(&x.problem, free);
    CHECK_EQ(gathered_again(&x.problem, free), 0);
    CHECK(all.bytes > 0 && all.count > 10 && all.time_ns > 0);
    const uint64_t budget = free->floor_bytes + (free->arena_bytes - free->floor_bytes) / 3;
    hri_plan *tight = plan_of(&x.problem, budget);
    CHECK(tight->arena_bytes <= budget);
    CHECK(gathered_again(&x.problem, tight) > 0);
    const hri_plan_net more = hri_plan_net_of(&x.problem, tight);
    CHECK(more.count > all.count && more.bytes > all.bytes && more.hash != all.hash);
    hri_plan_destroy(free);
    hri_plan_destroy(tight);
    hri_graph_problem_deinit(&x);
    hr_graph_destroy(g);
    hr_model_close(model);
}

static uint64_t persistent_of(hr_graph *g) {
    hri_graph_problem x;
    hri_prose why = {""};
    CHECK_OK(hri_problem_from_graph(g, NULL, &x, &why));
    const uint64_t bytes = x.problem.persistent_bytes;
    hri_graph_problem_deinit(&x);
    hr_graph_destroy(g);
    return bytes;
}

/* Parameters, sum and two moments of Adam are 16 bytes an element; a slice of a parameter beside the whole is 4 more. */
TEST(round, a_rank_holds_its_share) {
    hr_model *model;
    CHECK_OK(hr_model_open("mlp:size=32,width=512,classes=10", &model, NULL));
    const uint64_t one = persistent_of(graph_of(model, HR_STEP_LAST, HRI_SHARD_NONE, 1));
    for (uint32_t ranks = 2; ranks <= 8; ranks *= 2) {
        const uint64_t states =
            persistent_of(graph_of(model, HR_STEP_ROUND_LAST, HRI_SHARD_STATES, ranks));
        const uint64_t weights =
            persistent_of(graph_of(model, HR_STEP_ROUND_LAST, HRI_SHARD_WEIGHTS, ranks));
        const uint64_t pad = 64 << 10; /* small tensors are not cut */
        CHECK(states >= one / 4 + one / ranks && states < one / 4 + one / ranks + pad);
        CHECK(weights >= one / ranks && weights < one / ranks + pad);
    }
    hr_model_close(model);
}

TEST(round, is_refused_without_ranks) {
    hr_model *model;
    hr_graph *g = NULL;
    hr_train_options o = {.size = sizeof o};
    CHECK_OK(hr_train_options_parse("", &o, NULL));
    CHECK_OK(hr_model_open("mlp", &model, NULL));
    CHECK_STATUS(hr_step_build(&o, hr_model_build, model, HR_STEP_ROUND, 1, &g, NULL),
                 HR_E_INVALID);
    hr_model_close(model);
}

/* ---- beside what is computed ---- */

typedef struct beside {
    hr_model *model;
    hr_graph *g;
    hri_graph_problem x;
} beside;

static void open_beside(beside *b, hri_shard_mode mode, double bytes_per_ns) {
    hri_prose why = {""};
    const hri_machine machine = {.flops_per_ns = 15,
                                 .bytes_per_ns = 10,
                                 .net_bytes_per_ns = bytes_per_ns,
                                 .net_latency_ns = 5000,
                                 .align = 64};
    CHECK_OK(hr_model_open("mlp:size=8,width=512,layers=6,classes=10", &b->model, NULL));
    b->g = graph_of(b->model, HR_STEP_ROUND_LAST, mode, 4);
    CHECK_OK(hri_problem_from_graph(b->g, &machine, &b->x, &why));
}

static void close_beside(beside *b) {
    hri_graph_problem_deinit(&b->x);
    hr_graph_destroy(b->g);
    hr_model_close(b->model);
}

static hri_plan *plan_beside(const hri_problem *p, uint64_t budget, uint8_t no_overlap) {
    hri_plan *plan = NULL;
    hri_prose why = {""};
    const hri_plan_options o = {.budget_bytes = budget, .effort = 100000, .no_overlap = no_overlap};
    if (hri_plan_make(p, &o, &plan, NULL, &why) != HR_OK) {
        test_fail(__FILE__, __LINE__, "%s", why.text);
    }
    return plan;
}

static uint32_t count_nets(const hri_plan *plan, uint32_t *apart) {
    uint32_t count = 0;
    *apart = 0;
    for (uint32_t s = 0; s < plan->step_count; s++) {
        count += plan->steps[s].kind == HRI_STEP_NET;
        const hri_plan_step *w = &plan->steps[s];
        *apart +=
            w->kind == HRI_STEP_WAIT && plan->steps[w->op].kind == HRI_STEP_NET && w->op + 1 < s;
    }
    return count;
}

TEST(round, gradients_travel_while_others_are_computed) {
    for (hri_shard_mode mode = HRI_SHARD_STATES; mode <= HRI_SHARD_WEIGHTS; mode++) {
        beside b;
        uint32_t apart;
        open_beside(&b, mode, 10);
        hri_plan *with = plan_beside(&b.x.problem, 0, 0),
                 *without = plan_beside(&b.x.problem, 0, 1);
        const hri_plan_net net = hri_plan_net_of(&b.x.problem, with),
                           alone = hri_plan_net_of(&b.x.problem, without);
        CHECK_EQ(count_nets(without, &apart), 0);
        CHECK(count_nets(with, &apart) == net.count && apart > net.count / 2);
        CHECK(with->time_ns < 0.95 * without->time_ns);
        CHECK(fabs(hri_plan_makespan(&b.x.problem, with) / with->time_ns - 1) < 1e-6);
        CHECK(net.exposed_ns < 0.6 * net.time_ns);
        CHECK(fabs(alone.exposed_ns / alone.time_ns - 1) < 1e-6);
        CHECK(with->bound_time_ns <= with->time_ns * (1 + 1e-9));
        hri_plan_destroy(with);
        hri_plan_destroy(without);
        close_beside(&b);
    }
}

/* Whatever fits when exchanges are waited for at once fits when they are not. */
TEST(round, exchanges_beside_computing_need_no_larger_budget) {
    beside b;
    open_beside(&b, HRI_SHARD_WEIGHTS, 10);
    hri_plan *without = plan_beside(&b.x.problem, 0, 1);
    const uint64_t low = without->floor_bytes, high = without->arena_bytes;
    hri_plan_destroy(without);
    for (uint64_t i = 1; i <= 4; i++) {
        const uint64_t budget = low + (high - low) * i / 4;
        hri_plan *one = plan_beside(&b.x.problem, budget, 1),
                 *both = plan_beside(&b.x.problem, budget, 0);
        CHECK(both->arena_bytes <= budget);
        CHECK(both->time_ns <= one->time_ns * 1.02);
        hri_plan_destroy(one);
        hri_plan_destroy(both);
    }
    close_beside(&b);
}
