/* Gradients that write again what their op made: `beside` of problem.h. */
#include <string.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "plan/bound.h"
#include "plan/order.h"
#include "plan/place.h"
#include "plan/plan.h"
#include "plan/problem.h"
#include "plan/schedule.h"
#include "test.h"

/* Forward: x = M(in), y = F(x), z = N(y).  Backward: dz from z, dy from dz; W reads y and dz, G reads x and dy.  G has F
 * beside it. */
enum { IN, X, Y, Z, DZ, DY, DW, DX, VALUES };
enum { M, F, N, LOSS, DGRAD, W, G, OPS };

static void small(hri_problem *p) {
    static const char *const names[] = {"in", "x", "y", "z", "dz", "dy", "dw", "dx"};
    static const struct {
        uint32_t in[2], in_count, out;
        uint8_t phase;
    } ops[OPS] = {
        {{IN}, 1, X, HRI_PROBLEM_FORWARD},      {{X}, 1, Y, HRI_PROBLEM_FORWARD},
        {{Y}, 1, Z, HRI_PROBLEM_FORWARD},       {{Z}, 1, DZ, HRI_PROBLEM_BACKWARD},
        {{DZ}, 1, DY, HRI_PROBLEM_BACKWARD},    {{Y, DZ}, 2, DW, HRI_PROBLEM_BACKWARD},
        {{X, DY}, 2, DX, HRI_PROBLEM_BACKWARD},
    };
    const hri_problem_variant one = {"", 10, 0};
    uint32_t number;
    hri_problem_init(p, 4);
    for (uint32_t v = 0; v < VALUES; v++) {
        const hri_problem_value value = {.name = names[v],
                                         .bytes = v == DW  ? 80
                                                  : v == Z ? 200
                                                           : 100,
                                         .role = v == IN ? HRI_ROLE_INPUT : HRI_ROLE_MADE,
                                         .result = v == DW || v == DX};
        CHECK_OK(hri_problem_add_value(p, &value, &number));
    }
    for (uint32_t n = 0; n < OPS; n++) {
        const hri_problem_output out = {.value = ops[n].out, .overwrite = n == G ? 2 : 0};
        const hri_problem_op op = {.name = names[ops[n].out],
                                   .phase = ops[n].phase,
                                   .beside = n == G ? F + 1 : 0,
                                   .beside_share = n == G ? 0.5 : 0,
                                   .in_count = ops[n].in_count,
                                   .in = ops[n].in,
                                   .out_count = 1,
                                   .out = &out,
                                   .variant_count = 1,
                                   .variants = &one};
        CHECK_OK(hri_problem_add_op(p, &op, &number));
    }
    CHECK_OK(hri_problem_finish(p, NULL));
}

TEST(beside, is_written_and_read_and_counts_in_the_hash) {
    hri_problem p, q;
    char *text;
    small(&p);
    CHECK(hri_problem_has_beside(&p) && hri_problem_beside(&p, G) == F);
    CHECK_EQ(hri_problem_beside(&p, W), HRI_PROBLEM_NONE);
    CHECK_OK(hri_problem_print(&p, &text));
    CHECK_OK(hri_problem_parse(text, strlen(text), &q, NULL));
    CHECK(q.ops[G].beside == F + 1 && q.ops[G].beside_share == 0.5 && q.hash == p.hash);
    p.ops[G].beside_share = 0.25;
    CHECK_OK(hri_problem_finish(&p, NULL));
    CHECK(p.hash != q.hash);
    p.ops[G].beside = 0;
    CHECK_OK(hri_problem_finish(&p, NULL));
    CHECK(p.hash != q.hash && !hri_problem_has_beside(&p));
    hri_free(text);
    hri_problem_deinit(&p);
    hri_problem_deinit(&q);
}

TEST(beside, must_be_an_op_before_that_may_run_again_and_is_not_read) {
    hri_problem p;
    hri_prose why = {{0}};
    small(&p);
    p.ops[G].beside_share = 1.5;
    CHECK_STATUS(hri_problem_finish(&p, &why), HR_E_RANGE);
    CHECK(strstr(why.text, "beside_share"));
    p.ops[G].beside_share = 1;
    CHECK_OK(hri_problem_finish(&p, NULL));
    p.ops[F].once = 1;
    CHECK_STATUS(hri_problem_finish(&p, NULL), HR_E_INVALID);
    p.ops[F].once = 0;
    p.ops[G].beside = G + 1; /* itself */
    CHECK_STATUS(hri_problem_finish(&p, &why), HR_E_INVALID);
    CHECK(strstr(why.text, "before it"));
    p.ops[G].beside = M + 1; /* it reads x */
    CHECK_STATUS(hri_problem_finish(&p, &why), HR_E_INVALID);
    CHECK(strstr(why.text, "is not read"));
    hri_problem_deinit(&p);
}

TEST(beside, of_a_file_is_the_index_of_an_op_before) {
    static const char text[] =
        "{\"headroom\": \"problem\", \"version\": 1, \"values\": [{\"bytes\": 4}, {\"bytes\": 4}], "
        "\"ops\": [{\"out\": [0]}, {\"out\": [1], \"beside_op\": 1}]}";
    hri_problem p;
    hri_prose why = {{0}};
    CHECK_STATUS(hri_problem_parse(text, sizeof text - 1, &p, &why), HR_E_FORMAT);
    CHECK(strstr(why.text, "op 1: beside_op"));
}

/* y dropped after the forward part; W waits for G. */
static void dropped(hri_schedule *s, const hri_problem *p) {
    static const uint32_t order[OPS] = {M, F, N, LOSS, DGRAD, G, W};
    CHECK_OK(hri_schedule_init(s, p));
    hri_schedule_set_order(s, order);
    s->gaps[hri_gap_of(p, Y, 1)] = 1;
}

TEST(beside, is_made_right_before_the_gradient_where_that_comes_first) {
    hri_problem p;
    hri_schedule s;
    hri_plan *plan = NULL;
    small(&p);
    dropped(&s, &p);
    CHECK_OK(hri_schedule_run(&s));
    CHECK_EQ(s.entry_count, 8);
    CHECK(s.entries[5].op == F && s.entries[5].again && s.entries[6].op == G);
    CHECK(s.time_ns == 75 && s.again_ns == 5 && s.again_count == 1);
    CHECK(hri_schedule_joined_time(&s) == 75);
    const hri_plan_options o = {.budget_bytes = 1000};
    CHECK_OK(hri_place(&s, &o, 10, &plan));
    CHECK_OK(hri_plan_check(&p, plan, 1000, NULL));
    CHECK(plan->steps[5].again == 1 && plan->time_ns == 75 && hri_plan_makespan(&p, plan) == 75);
    hri_plan_destroy(plan);
    /* Kept from the second time on only: made where it is read, and x for it. */
    s.gaps[hri_gap_of(&p, Y, 1)] = 2;
    CHECK_OK(hri_schedule_run(&s));
    CHECK(s.entries[6].op == M && s.entries[7].op == F && s.time_ns == 90);
    /* What it reads is not there: nothing is made for it. */
    s.gaps[hri_gap_of(&p, Y, 1)] = 1;
    s.gaps[hri_gap_of(&p, X, 1)] = 1;
    CHECK_OK(hri_schedule_run(&s));
    CHECK(s.entries[5].op == M && s.entries[6].op == F && s.entries[7].op == G);
    CHECK(s.time_ns == 85);
    hri_schedule_deinit(&s);
    hri_problem_deinit(&p);
}

TEST(beside, is_not_made_where_nobody_reads_it_later) {
    hri_problem p;
    hri_schedule s;
    small(&p);
    CHECK_OK(hri_schedule_init(&s, &p)); /* W before G */
    s.gaps[hri_gap_of(&p, Y, 1)] = 1;
    CHECK_OK(hri_schedule_run(&s));
    CHECK(s.entries[5].op == F && s.entries[6].op == W && s.entries[7].op == G);
    CHECK(s.entry_count == 8 && s.time_ns == 80 && hri_schedule_joined_time(&s) == 80);
    hri_schedule_deinit(&s);
    hri_problem_deinit(&p);
}

TEST(beside, has_an_order_of_its_own) {
    hri_problem p;
    uint32_t order[OPS];
    small(&p);
    CHECK(hri_order_serves(&p, HRI_ORDER_BESIDE) && !hri_order_serves(&p, HRI_ORDER_NET));
    CHECK_OK(hri_order_make(&p, HRI_ORDER_EARLY, order));
    CHECK(order[5] == W && order[6] == G);
    CHECK_OK(hri_order_make(&p, HRI_ORDER_BESIDE, order));
    CHECK(order[4] == DGRAD && order[5] == G && order[6] == W);
    p.ops[G].beside = 0;
    CHECK_OK(hri_problem_finish(&p, NULL));
    CHECK(!hri_order_serves(&p, HRI_ORDER_BESIDE));
    hri_problem_deinit(&p);
}

/* With 500 bytes all is kept; with 400 y goes, and comes back for half its time. */
TEST(beside, is_found_by_the_planner_and_counts_in_the_bound) {
    hri_problem p;
    double bound;
    small(&p);
    for (uint64_t budget = 400; budget <= 500; budget += 100) {
        hri_plan *plan = NULL;
        const hri_plan_options o = {.budget_bytes = budget};
        CHECK_OK(hri_plan_make(&p, &o, &plan, NULL, NULL));
        CHECK(plan->time_ns == (budget == 400 ? 75 : 70));
        CHECK(hri_plan_makespan(&p, plan) == plan->time_ns);
        CHECK(plan->bound_time_ns <= plan->time_ns);
        hri_plan_destroy(plan);
    }
    /* Only x stays for the backward part: z runs again for 10, y for half of that. */
    CHECK_OK(hri_bound_time(&p, 100, 1000, &bound));
    CHECK(bound == 85);
    hri_problem_deinit(&p);
}

TEST(beside, an_order_without_memory_fails_and_leaks_nothing) {
    hri_problem p;
    uint32_t order[OPS];
    uint64_t nth = 1;
    small(&p);
    for (int hit = 1; hit; nth++) {
        hri_fault_set(HRI_FAULT_ALLOC, nth, 0);
        const hr_status status = hri_order_make(&p, HRI_ORDER_BESIDE, order);
        hit = hri_fault_delivered() > 0;
        hri_fault_set(HRI_FAULT_ALLOC, 0, 0);
        CHECK_STATUS(status, hit ? HR_E_NOMEM_HOST : HR_OK);
    }
    CHECK(nth > 5);
    hri_problem_deinit(&p);
}
