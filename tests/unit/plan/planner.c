/* The planner on small problems whose answers are known, on real graphs, and without memory. */
#include <math.h>
#include <string.h>
#include <headroom/graph.h>
#include <headroom/ops.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "base/hash.h"
#include "plan/bound.h"
#include "plan/descend.h"
#include "plan/from_graph.h"
#include "plan/place.h"
#include "plan/plan.h"
#include "plan/schedule.h"
#include "test.h"

/* A chain of `n` layers of 100 bytes and its backward part, which reads every layer's output.  The gradient may lie over
 * the one before it. */
static void chain(uint32_t n, hri_problem *p) {
    const hri_problem_variant one = {"", 10, 0};
    uint32_t at, y[64], number;
    hri_problem_init(p, 4);
    const hri_problem_value input = {.name = "x", .bytes = 100, .role = HRI_ROLE_INPUT};
    const hri_problem_value made = {.name = "v", .bytes = 100};
    CHECK_OK(hri_problem_add_value(p, &input, &at));
    for (uint32_t i = 0; i < n; i++) {
        CHECK_OK(hri_problem_add_value(p, &made, &y[i]));
        const hri_problem_output out = {.value = y[i]};
        const hri_problem_op op = {.name = "f",
                                   .in_count = 1,
                                   .in = i ? &y[i - 1] : &at,
                                   .out_count = 1,
                                   .out = &out,
                                   .variant_count = 1,
                                   .variants = &one};
        CHECK_OK(hri_problem_add_op(p, &op, &number));
    }
    uint32_t grad = y[n - 1];
    for (uint32_t i = n; i-- > 0;) {
        uint32_t next;
        CHECK_OK(hri_problem_add_value(p, &made, &next));
        const uint32_t in[2] = {grad, i ? y[i - 1] : at};
        const hri_problem_output out = {.value = next, .overwrite = 1};
        const hri_problem_op op = {.name = "b",
                                   .phase = HRI_PROBLEM_BACKWARD,
                                   .in_count = 2,
                                   .in = in,
                                   .out_count = 1,
                                   .out = &out,
                                   .variant_count = 1,
                                   .variants = &one};
        CHECK_OK(hri_problem_add_op(p, &op, &number));
        grad = next;
    }
    p->values[grad].result = 1;
    CHECK_OK(hri_problem_finish(p, NULL));
}

TEST(planner, keeps_everything_when_it_may) {
    hri_problem p;
    hri_plan *plan = NULL;
    chain(10, &p);
    CHECK_OK(hri_plan_make(&p, NULL, &plan, NULL, NULL));
    CHECK_EQ(plan->again_count, 0);
    CHECK_EQ(plan->arena_bytes, 1100); /* the input and ten outputs; gradients lie over the last */
    CHECK_EQ((long long)plan->time_ns, 200);
    hri_plan_destroy(plan);
    hri_problem_deinit(&p);
}

TEST(planner, finds_the_checkpoints_of_a_chain) {
    hri_problem p;
    hri_plan *plan = NULL;
    const hri_plan_options o = {.budget_bytes = 700};
    chain(16, &p);
    CHECK_OK(hri_plan_make(&p, &o, &plan, NULL, NULL));
    CHECK_LE(plan->arena_bytes, 700);
    /* Six kept values cut the chain; at most one more forward pass is needed. */
    CHECK_LE(plan->again_count, 16);
    CHECK(plan->time_ns >= plan->bound_time_ns);
    hri_plan_destroy(plan);
    hri_problem_deinit(&p);
}

TEST(planner, nests_checkpoints_where_memory_is_very_small) {
    hri_problem p;
    hri_plan *plan = NULL;
    const hri_plan_options o = {.budget_bytes = 500};
    chain(32, &p);
    CHECK_OK(hri_plan_make(&p, &o, &plan, NULL, NULL));
    CHECK_LE(plan->arena_bytes, 500);
    CHECK(plan->again_count > 32);
    hri_plan_destroy(plan);
    hri_problem_deinit(&p);
}

/* What was found for less memory, any plan, is where the search for more begins. */
TEST(planner, goes_on_from_the_choices_of_a_smaller_plan) {
    hri_problem p, other;
    hri_plan_memo memo = {0};
    hri_plan *small = NULL, *plan = NULL;
    chain(32, &p);
    chain(16, &other);
    const hri_plan_options any = {.budget_bytes = 500, .memo = &memo, .any = 1};
    CHECK_OK(hri_plan_make(&p, &any, &small, NULL, NULL));
    CHECK(memo.order && memo.op_count == p.op_count);
    const uint64_t print = hri_hash_bytes(memo.gaps, memo.gap_count, 0);
    const hri_plan_options on = {.budget_bytes = 1000, .start = &memo, .memo_only = 1};
    CHECK_OK(hri_plan_make(&p, &on, &plan, NULL, NULL));
    CHECK_LE(plan->arena_bytes, 1000);
    CHECK(plan->time_ns < small->time_ns);
    CHECK_EQ(hri_hash_bytes(memo.gaps, memo.gap_count, 0), print); /* it is read alone */
    hri_plan_destroy(plan);
    hri_plan_destroy(small);
    CHECK_OK(hri_plan_make(&other, &on, &plan, NULL, NULL)); /* not of this problem */
    CHECK_LE(plan->arena_bytes, 1000);
    hri_plan_destroy(plan);
    hri_plan_memo_deinit(&memo);
    hri_problem_deinit(&p);
    hri_problem_deinit(&other);
}

/* A plan has the choices behind it, and so has its copy; another search may begin with them.  One that was read has none. */
TEST(planner, plans_have_the_choices_behind_them) {
    hri_problem p;
    hri_plan *plan = NULL, *copy, *again = NULL, *read = NULL;
    char *text = NULL;
    chain(32, &p);
    const hri_plan_options within = {.budget_bytes = 1000};
    CHECK_OK(hri_plan_make(&p, &within, &plan, NULL, NULL));
    CHECK(plan->choices.order && plan->choices.op_count == p.op_count);
    CHECK(copy = hri_plan_copy(plan));
    const hri_plan_memo *a = &plan->choices, *b = &copy->choices;
    CHECK(b->order && b->order != a->order && b->gap_count == a->gap_count);
    CHECK_EQ(hri_hash_bytes(b->gaps, b->gap_count, 0), hri_hash_bytes(a->gaps, a->gap_count, 0));
    CHECK_OK(hri_plan_print(plan, &text));
    const double time = plan->time_ns;
    hri_plan_destroy(plan);
    const hri_plan_options on = {.budget_bytes = 1000, .start = b, .memo_only = 1};
    CHECK_OK(hri_plan_make(&p, &on, &again, NULL, NULL));
    CHECK(again->time_ns <= time);
    CHECK_OK(hri_plan_parse(text, strlen(text), &p, &read, NULL));
    CHECK(!read->choices.order);
    hri_plan_destroy(again);
    hri_plan_destroy(copy);
    CHECK(copy = hri_plan_copy(read));
    CHECK(!copy->choices.order);
    hri_plan_destroy(copy);
    hri_plan_destroy(read);
    hri_free(text);
    hri_problem_deinit(&p);
}

static double uneven(void *user, const hri_problem_op *op, uint32_t variant) {
    (void)variant;
    return 5 + (double)(hri_hash_u64((uint64_t)(op - ((const hri_problem *)user)->ops)) % 50);
}

/* On chains of layers that take from 5 to 54 each. */
TEST(planner, has_no_slower_plan_for_a_larger_budget) {
    for (uint32_t n = 12; n <= 24; n += 6) {
        hri_problem p;
        double before = INFINITY;
        chain(n, &p);
        hri_problem_retime(&p, uneven, &p);
        for (uint64_t budget = 500; budget <= 100 * n + 100; budget += 100) {
            const hri_plan_options o = {.budget_bytes = budget};
            hri_plan *plan = NULL;
            CHECK_OK(hri_plan_make(&p, &o, &plan, NULL, NULL));
            CHECK_LE(plan->arena_bytes, budget);
            CHECK(plan->time_ns <= before);
            before = plan->time_ns;
            hri_plan_destroy(plan);
        }
        hri_problem_deinit(&p);
    }
}

TEST(planner, says_impossible_only_below_the_floor_and_names_the_op) {
    hri_problem p;
    hri_plan *plan = NULL;
    int impossible = 0;
    hri_prose why = {{0}};
    hri_plan_options o = {.budget_bytes = 199};
    chain(16, &p);
    CHECK_STATUS(hri_plan_make(&p, &o, &plan, &impossible, &why), HR_E_NO_PLAN);
    CHECK(impossible && strstr(why.text, "impossible: f needs 200 bytes"));
    o.budget_bytes = 200; /* no plan exists, but nothing proves it */
    CHECK_STATUS(hri_plan_make(&p, &o, &plan, &impossible, &why), HR_E_NO_PLAN);
    CHECK(!impossible && !strncmp(why.text, "not found", 9));
    hri_problem_deinit(&p);
}

TEST(planner, copies_away_what_it_may_not_compute_again) {
    hri_problem p;
    hri_plan *plan = NULL;
    const hri_plan_options o = {.budget_bytes = 1000, .no_recompute = 1};
    chain(16, &p);
    CHECK_STATUS(hri_plan_make(&p, &o, &plan, NULL, NULL), HR_E_NO_PLAN);
    p.memories[0].out_bytes_per_ns = p.memories[0].in_bytes_per_ns = 50;
    CHECK_OK(hri_problem_finish(&p, NULL));
    CHECK_OK(hri_plan_make(&p, &o, &plan, NULL, NULL));
    CHECK(plan->copied_bytes >= 700 && plan->other_bytes >= 700);
    CHECK_EQ(plan->again_count, 0);
    CHECK(plan->time_ns < 1.3 * plan->base_time_ns);
    hri_plan_destroy(plan);
    hri_problem_deinit(&p);
}

/* A copy takes 20 ns each way, making the value again 10. */
TEST(planner, does_not_copy_what_costs_more_beside_kernels_than_computing_it_again) {
    hri_problem p;
    hri_plan *plan = NULL;
    const hri_plan_options o = {.budget_bytes = 1000};
    chain(16, &p);
    CHECK_OK(hri_plan_make(&p, &o, &plan, NULL, NULL));
    const double without = plan->time_ns;
    hri_plan_destroy(plan);
    p.memories[0].out_bytes_per_ns = p.memories[0].in_bytes_per_ns = 5;
    for (int drag = 0; drag < 2; drag++) {
        p.copy_drag = drag;
        CHECK_OK(hri_problem_finish(&p, NULL));
        CHECK_OK(hri_plan_make(&p, &o, &plan, NULL, NULL));
        CHECK_EQ(plan->copied_bytes > 0, !drag);
        CHECK(drag ? plan->time_ns <= without : plan->time_ns < without);
        CHECK(fabs(hri_plan_makespan(&p, plan) - plan->time_ns) <= 1e-6 * plan->time_ns);
        hri_plan_destroy(plan);
    }
    p.copy_drag = 1.5;
    CHECK_STATUS(hri_problem_finish(&p, NULL), HR_E_RANGE);
    hri_problem_deinit(&p);
}

TEST(planner, without_memory_of_its_own_fails_and_leaks_nothing) {
    hri_problem p;
    hri_plan *plan = NULL;
    chain(8, &p);
    p.memories[0].out_bytes_per_ns = p.memories[0].in_bytes_per_ns = 50;
    CHECK_OK(hri_problem_finish(&p, NULL));
    const hri_plan_options o = {.budget_bytes = 600, .effort = 20000};
    uint64_t nth = 1;
    for (;; nth++) {
        hri_fault_set(HRI_FAULT_ALLOC, nth, 0);
        const hr_status status = hri_plan_make(&p, &o, &plan, NULL, NULL);
        const int hit = hri_fault_delivered() > 0;
        hri_fault_set(HRI_FAULT_ALLOC, 0, 0);
        if (!hit) {
            CHECK_OK(status);
            break;
        }
        if (status == HR_OK) { /* a packer that does without its lists */
            hri_plan_destroy(plan);
            plan = NULL;
            continue;
        }
        CHECK(plan == NULL);
        CHECK_STATUS(status, HR_E_NOMEM_HOST);
    }
    CHECK(nth > 50);
    hri_plan_destroy(plan);
    hri_problem_deinit(&p);
}

/* ---- down in steps ---- */

TEST(descend, reaches_the_limit_in_steps_and_ends_where_there_is_no_way) {
    hri_problem p;
    hri_schedule s;
    chain(48, &p);
    CHECK_OK(hri_schedule_init(&s, &p));
    CHECK_OK(hri_descend(&s, 1000, 200000));
    CHECK_LE(s.peak_bytes, 1000);
    CHECK_EQ(s.limit, 1000);
    CHECK(s.over == 0 && s.again_count > 0 && s.again_count < 3 * 48);
    CHECK_STATUS(hri_descend(&s, 199, 20000), HR_E_NO_PLAN);
    hri_schedule_deinit(&s);
    hri_problem_deinit(&p);
}

TEST(descend, without_memory_of_its_own_fails_and_leaks_nothing) {
    hri_problem p;
    uint64_t nth = 1;
    chain(8, &p);
    for (int hit = 1; hit; nth++) {
        hri_schedule s;
        CHECK_OK(hri_schedule_init(&s, &p));
        hri_fault_set(HRI_FAULT_ALLOC, nth, 0);
        const hr_status status = hri_descend(&s, 600, 4000);
        hit = hri_fault_delivered() > 0;
        hri_fault_set(HRI_FAULT_ALLOC, 0, 0);
        CHECK_STATUS(status, hit ? HR_E_NOMEM_HOST : HR_OK);
        hri_schedule_deinit(&s);
    }
    CHECK(nth > 10);
    hri_problem_deinit(&p);
}

/* ---- graphs ---- */

TEST(from_graph, a_view_is_the_value_it_looks_at) {
    hr_graph *g;
    hri_graph_problem x;
    CHECK_OK(hr_graph_create(&g));
    const hr_value a = hr_graph_input(g, "a", HR_TYPE_F32, hr_shape_2(4, 6));
    const hr_value r = hr_relu(g, a);
    const hr_value v = hr_graph_node(g, "reshape", &r, 1, "to=24");
    const hr_value s = hr_graph_node(g, "sum", &v, 1, NULL);
    hr_graph_result(g, s, "loss");
    CHECK_OK(hr_graph_freeze(g));
    CHECK_OK(hri_problem_from_graph(g, NULL, &x, NULL));
    CHECK_EQ(x.value_of[v], x.value_of[r]);
    CHECK_EQ(x.problem.op_count, 2);
    CHECK_EQ(x.problem.values[x.value_of[s]].result, 1);
    hri_graph_problem_deinit(&x);
    hr_graph_destroy(g);
}

/* f -> x; then a backward part in which a sum of two is read by an op that joins it, and needs x, which is made again. */
static void sum_and_reader(hri_problem *p) {
    static const char *const names[] = {"x", "y", "u", "v", "w", "sum", "end"};
    static const struct {
        uint32_t in[3], in_count, out, phase;
        double joins;
    } ops[] = {
        {{0}, 1, 1, 0, 0},      {{1}, 1, 2, 0, 0},    {{2}, 1, 3, 1, 0},
        {{3}, 1, 4, 1, 0},      {{3, 4}, 2, 5, 1, 0}, /* the sum */
        {{5, 1}, 2, 6, 1, 0.5},                       /* its reader */
    };
    const hri_problem_variant one = {"", 10, 0};
    uint32_t number;
    hri_problem_init(p, 4);
    for (uint32_t v = 0; v < 7; v++) {
        const hri_problem_value value = {.name = names[v],
                                         .bytes = 100,
                                         .role = v ? HRI_ROLE_MADE : HRI_ROLE_INPUT,
                                         .result = v == 6 || v == 0};
        CHECK_OK(hri_problem_add_value(p, &value, &number));
    }
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
        const hri_problem_output out = {.value = ops[i].out, .overwrite = i >= 4};
        const hri_problem_op op = {.name = names[ops[i].out],
                                   .phase = (uint8_t)ops[i].phase,
                                   .joins = ops[i].joins,
                                   .in_count = ops[i].in_count,
                                   .in = ops[i].in,
                                   .out_count = 1,
                                   .out = &out,
                                   .variant_count = 1,
                                   .variants = &one};
        CHECK_OK(hri_problem_add_op(p, &op, &number));
    }
    CHECK_OK(hri_problem_finish(p, NULL));
}

/* The steps that run the sum and its reader. */
static void find_pair(const hri_plan *plan, uint32_t *sum, uint32_t *reader) {
    for (uint32_t i = 0; i < plan->step_count; i++) {
        *sum = plan->steps[i].op == 4 ? i : *sum;
        *reader = plan->steps[i].op == 5 ? i : *reader;
    }
}

TEST(planner, brings_a_sum_next_to_the_op_that_joins_it_where_there_is_room) {
    hri_problem p;
    uint32_t sum = 0, reader = 0;
    sum_and_reader(&p);
    /* Three values at a time; with the two that are summed, y and x it is four. */
    for (uint64_t budget = 300; budget <= 400; budget += 100) {
        hri_schedule s;
        uint32_t moved = 0;
        CHECK_OK(hri_schedule_init(&s, &p));
        s.gaps[hri_gap_of(&p, 1, 1)] = 1; /* y is dropped between its uses */
        s.limit = budget;
        CHECK_OK(hri_schedule_run(&s));
        CHECK_EQ(s.peak_bytes, 300);
        CHECK_EQ(s.entry_count, 7);
        CHECK_EQ(s.entries[4].op, 4);
        CHECK_EQ(s.entries[5].op, 0); /* y, again */
        CHECK_OK(hri_schedule_join(&s, &moved));
        CHECK_EQ(moved, budget == 400);
        CHECK_EQ(s.entries[4].op, budget == 400 ? 0 : 4);
        CHECK_EQ(s.entries[5].op, budget == 400 ? 4 : 0);
        CHECK_EQ(s.peak_bytes, budget);
        CHECK_OK(hri_schedule_run(&s)); /* as before */
        CHECK_EQ(s.entries[4].op, 4);
        CHECK_OK(hri_schedule_join(&s, &moved));
        hri_plan *plan = NULL;
        const hri_plan_options o = {.budget_bytes = budget};
        CHECK_OK(hri_place(&s, &o, 10, &plan));
        CHECK_OK(hri_plan_check(&p, plan, budget, NULL));
        find_pair(plan, &sum, &reader);
        CHECK_EQ(reader - sum, budget == 400 ? 1 : 2);
        CHECK_EQ((long long)plan->time_ns, budget == 400 ? 65 : 70); /* seven, less half of one */
        CHECK(hri_plan_makespan(&p, plan) == plan->time_ns && hri_base_time(&p) == 55);
        hri_plan_destroy(plan);
        hri_schedule_deinit(&s);
    }
    hri_problem_deinit(&p);
}

TEST(planner, what_joins_is_written_and_read) {
    hri_problem p, q;
    char *text;
    sum_and_reader(&p);
    CHECK_OK(hri_problem_print(&p, &text));
    CHECK_OK(hri_problem_parse(text, strlen(text), &q, NULL));
    CHECK(q.ops[5].joins == 0.5 && q.ops[4].joins == 0 && q.hash == p.hash);
    p.ops[5].joins = 0;
    CHECK_OK(hri_problem_finish(&p, NULL));
    CHECK(p.hash != q.hash);
    p.ops[5].joins = 2;
    CHECK_STATUS(hri_problem_finish(&p, NULL), HR_E_RANGE);
    hri_free(text);
    hri_problem_deinit(&p);
    hri_problem_deinit(&q);
}

TEST(planner, bringing_ops_together_without_memory_fails_and_leaks_nothing) {
    hri_problem p;
    uint64_t nth = 1;
    sum_and_reader(&p);
    for (int hit = 1; hit; nth++) {
        hri_schedule s;
        uint32_t moved = 0;
        CHECK_OK(hri_schedule_init(&s, &p));
        s.gaps[hri_gap_of(&p, 1, 1)] = 1;
        CHECK_OK(hri_schedule_run(&s));
        hri_fault_set(HRI_FAULT_ALLOC, nth, 0);
        const hr_status status = hri_schedule_join(&s, &moved);
        hit = hri_fault_delivered() > 0;
        hri_fault_set(HRI_FAULT_ALLOC, 0, 0);
        CHECK_STATUS(status, hit ? HR_E_NOMEM_HOST : HR_OK);
        CHECK(hit || moved == 1);
        hri_schedule_deinit(&s);
    }
    CHECK(nth > 2);
    hri_problem_deinit(&p);
}
