/* Ops that a device launches together: a plan's time is that of what is launched, and more where they stand apart. */
#include <string.h>

#include "base/alloc.h"
#include "plan/bound.h"
#include "plan/place.h"
#include "plan/schedule.h"
#include "test.h"

enum { X, W0, W1, W2, G0, G1, G2, N0, N1, N2, END, VALUES };
enum { UPDATE0 = 1, UPDATE1 = 3, UPDATE2 = 5 }; /* numbers of ops */

static void add_values(hri_problem *p, uint32_t count, uint32_t persistent) {
    uint32_t number;
    hri_problem_init(p, 4);
    for (uint32_t v = 0; v < count; v++) {
        const hri_problem_value value = {.name = "v",
                                         .bytes = 100,
                                         .role = v == 0            ? HRI_ROLE_INPUT
                                                 : v <= persistent ? HRI_ROLE_PERSISTENT
                                                                   : HRI_ROLE_MADE,
                                         .result = v == 0 || v + 1 == count};
        CHECK_OK(hri_problem_add_value(p, &value, &number));
    }
}

static void add_op(hri_problem *p, const uint32_t *in, uint32_t in_count, hri_problem_output out,
                   hri_problem_op op) {
    const hri_problem_variant one = {"", 10, 0};
    uint32_t number;
    op.name = "op";
    op.in = in;
    op.in_count = in_count;
    op.out = &out;
    op.out_count = 1;
    op.variants = &one;
    op.variant_count = 1;
    CHECK_OK(hri_problem_add_op(p, &op, &number));
}

/* Gradients of three weights, each followed by its update, of 10 ns among others and 4 more alone. */
static void three_updates(hri_problem *p) {
    static const uint32_t x[] = {X}, in[3][2] = {{W0, G0}, {W1, G1}, {W2, G2}};
    const hri_problem_op update = {.phase = HRI_PROBLEM_UPDATE, .many = 1, .alone_ns = 4};
    add_values(p, VALUES, W2);
    for (uint32_t i = 0; i < 3; i++) {
        add_op(p, x, 1, (hri_problem_output){.value = G0 + i}, (hri_problem_op){.phase = 1});
        add_op(p, in[i], 2, (hri_problem_output){.value = N0 + i, .updates = 1}, update);
    }
    add_op(p, x, 1, (hri_problem_output){.value = END}, (hri_problem_op){.phase = 1});
    CHECK_OK(hri_problem_finish(p, NULL));
}

typedef hr_status bring_fn(hri_schedule *s, uint32_t *moved);

/* Of the plan after `bring` has moved what it moves.  `dropped`: so many values from this one on are made again for their second
 * readers. */
static double time_dropping(bring_fn *bring, const hri_problem *p, uint64_t limit, uint32_t first,
                            uint32_t dropped) {
    hri_schedule s;
    uint32_t moved;
    hri_plan *plan = NULL;
    CHECK_OK(hri_schedule_init(&s, p));
    for (uint32_t v = first; v < first + dropped; v++) {
        s.gaps[hri_gap_of(p, v, 1)] = 1;
    }
    CHECK_OK(hri_schedule_run(&s));
    s.limit = limit;
    CHECK_OK(bring(&s, &moved));
    CHECK_LE(s.peak_bytes, limit);
    const hri_plan_options o = {.budget_bytes = limit + p->persistent_bytes};
    CHECK_OK(hri_place(&s, &o, 10, &plan));
    CHECK_OK(hri_plan_check(p, plan, o.budget_bytes, NULL));
    const double time = plan->time_ns;
    CHECK(hri_plan_makespan(p, plan) == time);
    hri_plan_destroy(plan);
    hri_schedule_deinit(&s);
    return time;
}

static double time_after(bring_fn *bring, const hri_problem *p, uint64_t limit) {
    return time_dropping(bring, p, limit, 0, 0);
}

static double planned_ns(const hri_problem *p, uint64_t limit) {
    return time_after(hri_schedule_gather, p, limit);
}

static double joined_ns(const hri_problem *p, uint64_t limit) {
    return time_after(hri_schedule_join, p, limit);
}

TEST(company, updates_that_stand_together_take_the_time_of_their_launch) {
    hri_problem p;
    three_updates(&p);
    CHECK(hri_base_time(&p) == 70);
    CHECK(planned_ns(&p, 600) == 70); /* all three of them */
    CHECK(planned_ns(&p, 300) ==
          70 + 4); /* room for one gradient beside another one: two of them */
    CHECK(planned_ns(&p, 200) == 70 + 12);
    p.ops[UPDATE1].many = 2; /* another kind: it goes with nobody, and keeps nobody apart */
    CHECK_OK(hri_problem_finish(&p, NULL));
    CHECK(planned_ns(&p, 600) == 70 + 4);
    hri_problem_deinit(&p);
}

/* Six updates of 10 ns among others and 4 more alone.  Each reads its gradient, and the first of every pair what the last of
 * the pair before has written as well, so that pairs stay apart. */
TEST(company, every_further_launch_of_many_costs_more) {
    enum { PAIRS = 3, W = 1, G = W + 2 * PAIRS, N = G + 2 * PAIRS, D = N + 2 * PAIRS };
    const hri_problem_op update = {.phase = HRI_PROBLEM_UPDATE, .many = 1, .alone_ns = 4};
    static const uint32_t x[] = {X};
    hri_problem p;
    add_values(&p, D + PAIRS, W + 2 * PAIRS - 1);
    for (uint32_t i = 0; i < 2 * PAIRS; i++) {
        const uint32_t last[] = {D + i / 2 - 1};
        add_op(&p, i < 2 ? x : last, 1, (hri_problem_output){.value = G + i},
               (hri_problem_op){.phase = 1});
        if (i % 2) {
            const uint32_t a[] = {W + i - 1, G + i - 1}, b[] = {W + i, G + i}, c[] = {N + i};
            add_op(&p, a, 2, (hri_problem_output){.value = N + i - 1, .updates = 1}, update);
            add_op(&p, b, 2, (hri_problem_output){.value = N + i, .updates = 1}, update);
            add_op(&p, c, 1, (hri_problem_output){.value = D + i / 2},
                   (hri_problem_op){.phase = 1});
        }
    }
    CHECK_OK(hri_problem_finish(&p, NULL));
    CHECK(hri_base_time(&p) == 150);
    CHECK(planned_ns(&p, 4000) == 150 + 2 * 4);
    hri_problem_deinit(&p);
}

/* Copies of two weights, each right before who reads it. */
static void two_casts(hri_problem *p) {
    enum { C0 = 3, Y0, C1, Y1 };
    static const uint32_t w0[] = {W0}, w1[] = {W1}, r0[] = {X, C0}, r1[] = {Y0, C1};
    const hri_problem_op cast = {.many = 1, .alone_ns = 4};
    add_values(p, Y1 + 1, W1);
    add_op(p, w0, 1, (hri_problem_output){.value = C0}, cast);
    add_op(p, r0, 2, (hri_problem_output){.value = Y0}, (hri_problem_op){.phase = 0});
    add_op(p, w1, 1, (hri_problem_output){.value = C1}, cast);
    add_op(p, r1, 2, (hri_problem_output){.value = Y1}, (hri_problem_op){.phase = 0});
    CHECK_OK(hri_problem_finish(p, NULL));
}

TEST(company, one_of_many_that_runs_again_is_alone) {
    hri_problem p;
    hri_schedule s;
    two_casts(&p);
    CHECK_OK(hri_schedule_init(&s, &p));
    CHECK(hri_schedule_run_time(&s, 0, 0) == 10);
    CHECK(hri_schedule_run_time(&s, 0, HRI_AGAIN) == 14);
    CHECK(hri_schedule_run_time(&s, 1, HRI_AGAIN) == 10); /* who goes with nobody */
    hri_schedule_deinit(&s);
    hri_problem_deinit(&p);
}

/* Two casts that are read at once, and again one after the other. */
TEST(company, those_that_run_again_come_up_to_the_first_where_memory_allows) {
    enum { C0 = 3, C1, Y0, Y1, Y2, Y3 };
    static const uint32_t w[2][1] = {{W0}, {W1}}, r0[] = {X, C0, C1}, r1[] = {Y0}, r2[] = {Y1, C0},
                          r3[] = {Y2, C1};
    const hri_problem_op cast = {.many = 1, .alone_ns = 4}, op = {.phase = 0};
    hri_problem p;
    add_values(&p, Y3 + 1, W1);
    add_op(&p, w[0], 1, (hri_problem_output){.value = C0}, cast);
    add_op(&p, w[1], 1, (hri_problem_output){.value = C1}, cast);
    add_op(&p, r0, 3, (hri_problem_output){.value = Y0}, op);
    add_op(&p, r1, 1, (hri_problem_output){.value = Y1}, op);
    add_op(&p, r2, 2, (hri_problem_output){.value = Y2}, op);
    add_op(&p, r3, 2, (hri_problem_output){.value = Y3}, op);
    CHECK_OK(hri_problem_finish(&p, NULL));
    CHECK(hri_base_time(&p) == 60);
    CHECK(time_dropping(hri_schedule_gather_again, &p, 500, C0, 2) == 60 + 14 + 10);
    CHECK(time_dropping(hri_schedule_gather_again, &p, 400, C0, 2) == 60 + 14 + 14);
    CHECK(time_dropping(hri_schedule_gather, &p, 400, C0, 2) == 60 + 14 + 14);
    hri_problem_deinit(&p);
}

TEST(company, copies_go_together_where_their_places_are_free) {
    hri_problem p;
    hri_schedule s;
    hri_plan *plan = NULL;
    two_casts(&p);
    CHECK_OK(hri_schedule_init(&s, &p));
    CHECK_OK(hri_schedule_run(&s));
    CHECK_OK(hri_place(&s, &(hri_plan_options){.budget_bytes = 0}, 10, &plan));
    uint32_t *list = plan->operands;
    hri_plan_buffer *first = &plan->buffers[list[plan->steps[0].first + 1]],
                    *second = &plan->buffers[list[plan->steps[2].first + 1]];
    CHECK(first != second);
    second->offset = first->offset; /* the first one's reader needs it until then */
    CHECK(hri_plan_makespan(&p, plan) == 40 + 8);
    second->offset = plan->arena_bytes;
    CHECK(hri_plan_makespan(&p, plan) == 40);
    hri_plan_destroy(plan);
    hri_schedule_deinit(&s);
    hri_problem_deinit(&p);
}

/* a -> b -> c -> d in a row, each 10 ns in one launch with the one before it and 4 more alone. */
static void row_of_four(hri_problem *p, uint8_t chain_of_c) {
    static const uint32_t in[4][1] = {{0}, {1}, {2}, {3}};
    add_values(p, 5, 0);
    for (uint32_t i = 0; i < 4; i++) {
        const hri_problem_op op = {
            .after = i, .alone_ns = i ? 4 : 0, .chain = i == 2 ? chain_of_c : 1};
        add_op(p, in[i], 1, (hri_problem_output){.value = i + 1}, op);
    }
    CHECK_OK(hri_problem_finish(p, NULL));
}

TEST(company, neighbours_go_with_one_another_once) {
    hri_problem p;
    row_of_four(&p, 1);
    CHECK(planned_ns(&p, 600) == 40); /* a chain of all four */
    hri_problem_deinit(&p);
    row_of_four(
        &p, 0); /* a and b are one; so c, which would go with b alone, is by itself, and d with c */
    CHECK(planned_ns(&p, 600) == 40 + 4);
    hri_problem_deinit(&p);
}

/* a, then b that reads it, then c that reads it too and would be one launch with it; then what reads both. */
static void apart_by_one(hri_problem *p, uint32_t reads_of_c) {
    enum { A = 1, B, C, D };
    static const uint32_t x[] = {X}, a[] = {A}, both[] = {A, B}, ends[] = {B, C};
    add_values(p, D + 1, 0);
    add_op(p, x, 1, (hri_problem_output){.value = A}, (hri_problem_op){.phase = 0});
    add_op(p, a, 1, (hri_problem_output){.value = B}, (hri_problem_op){.phase = 0});
    add_op(p, both, reads_of_c, (hri_problem_output){.value = C},
           (hri_problem_op){.after = 1, .alone_ns = 4});
    add_op(p, ends, 2, (hri_problem_output){.value = D}, (hri_problem_op){.phase = 0});
    CHECK_OK(hri_problem_finish(p, NULL));
}

TEST(company, who_goes_with_the_op_it_reads_comes_up_behind_it) {
    hri_problem p;
    apart_by_one(&p, 1);
    CHECK(joined_ns(&p, 600) == 40);
    CHECK(joined_ns(&p, 400) == 40 + 4); /* no room for it so early */
    hri_problem_deinit(&p);
    apart_by_one(&p, 2); /* it needs what stands between */
    CHECK(joined_ns(&p, 600) == 40 + 4);
    hri_problem_deinit(&p);
}

/* a; b of x beside it; c of a goes with a, and d of c with both, where c goes with a; what reads b, c and d comes last. */
static void three_apart(hri_problem *p) {
    enum { A = 1, B, C, D, E };
    static const uint32_t x[] = {X}, a[] = {A}, c[] = {C}, ends[] = {B, C, D};
    add_values(p, E + 1, 0);
    add_op(p, x, 1, (hri_problem_output){.value = A}, (hri_problem_op){.phase = 0});
    add_op(p, x, 1, (hri_problem_output){.value = B}, (hri_problem_op){.phase = 0});
    add_op(p, a, 1, (hri_problem_output){.value = C}, (hri_problem_op){.after = 1, .alone_ns = 4});
    add_op(p, c, 1, (hri_problem_output){.value = D},
           (hri_problem_op){.after = 3, .third = 1, .alone_ns = 2});
    add_op(p, ends, 3, (hri_problem_output){.value = E}, (hri_problem_op){.phase = 0});
    CHECK_OK(hri_problem_finish(p, NULL));
}

TEST(company, a_third_comes_along_and_goes_with_nobody_where_the_second_is_alone) {
    hri_problem p;
    three_apart(&p);
    CHECK(joined_ns(&p, 700) == 50);          /* a c d in one launch, then b */
    CHECK(planned_ns(&p, 700) == 50 + 4 + 2); /* as they stand: b between a and c */
    hri_problem_deinit(&p);
    row_of_four(&p, 1);
    p.ops[2].third = 1; /* b goes with a, c with both; d, of a chain, with nobody */
    p.ops[1].chain = p.ops[2].chain = 0;
    CHECK_OK(hri_problem_finish(&p, NULL));
    CHECK(planned_ns(&p, 600) == 40 + 4);
    p.ops[1].after = 0; /* b is alone, so c is */
    CHECK_OK(hri_problem_finish(&p, NULL));
    CHECK(planned_ns(&p, 600) == 40 + 3 * 4 - 4);
    hri_problem_deinit(&p);
}

/* Three values and one of them all, which op 4 reads last; op 5 would be one launch with that, if it writes nothing over it. */
static void sum_behind(hri_problem *p) {
    enum { A = 4, B, C, D };
    static const uint32_t x[] = {X}, three[] = {1, 2, 3}, a[] = {A}, b[] = {B}, ends[] = {B, C};
    add_values(p, D + 1, 0);
    for (uint32_t i = 1; i < A; i++) {
        add_op(p, x, 1, (hri_problem_output){.value = i}, (hri_problem_op){.phase = 0});
    }
    add_op(p, three, 3, (hri_problem_output){.value = A}, (hri_problem_op){.phase = 0});
    add_op(p, a, 1, (hri_problem_output){.value = B}, (hri_problem_op){.phase = 1});
    add_op(p, b, 1, (hri_problem_output){.value = C},
           (hri_problem_op){.phase = 1, .after = 5, .apart = 1, .alone_ns = 4});
    add_op(p, ends, 2, (hri_problem_output){.value = D}, (hri_problem_op){.phase = 1});
    CHECK_OK(hri_problem_finish(p, NULL));
}

TEST(company, what_is_written_beside_reading_lies_apart) {
    hri_problem p;
    hri_schedule s;
    hri_plan *plan = NULL;
    sum_behind(&p);
    CHECK_OK(hri_schedule_init(&s, &p));
    CHECK_OK(hri_schedule_run(&s));
    CHECK_OK(hri_place(&s, &(hri_plan_options){.budget_bytes = 0}, 10, &plan));
    const uint64_t arena = plan->arena_bytes;
    const hri_plan_buffer *read = &plan->buffers[plan->operands[plan->steps[4].first]];
    hri_plan_buffer *sum = &plan->buffers[plan->operands[plan->steps[5].first + 1]];
    const uint64_t good = sum->offset;
    CHECK(plan->time_ns == 70 && hri_plan_makespan(&p, plan) == 70);
    CHECK_OK(hri_plan_check(&p, plan, arena, NULL));
    sum->offset = read->offset; /* which died: that is right, and two launches */
    CHECK_OK(hri_plan_check(&p, plan, arena, NULL));
    CHECK(hri_plan_makespan(&p, plan) == 70 + 4);
    hri_place_apart(&p, plan);
    CHECK_EQ(sum->offset, good);
    CHECK_EQ(plan->arena_bytes, arena);
    sum->offset = read->offset;
    plan->arena_bytes = 100; /* no room */
    hri_place_apart(&p, plan);
    CHECK_EQ(sum->offset, read->offset);
    p.ops[5].apart = 0;
    CHECK(hri_plan_makespan(&p, plan) == 70);
    /* As the third behind op 3, whose operands it may not lie over either. */
    p.ops[4].after = 4;
    p.ops[4].alone_ns = 1;
    p.ops[5].apart = p.ops[5].third = 1;
    const hri_plan_buffer *first = &plan->buffers[plan->operands[plan->steps[3].first + 1]];
    CHECK_EQ(plan->steps[3].op, 3);
    plan->arena_bytes = arena + 100;
    sum->offset = first->offset;
    CHECK(hri_plan_makespan(&p, plan) == 70 + 4);
    hri_place_apart(&p, plan);
    CHECK(hri_plan_makespan(&p, plan) == 70);
    hri_plan_destroy(plan);
    hri_schedule_deinit(&s);
    hri_problem_deinit(&p);
}

TEST(company, is_written_and_read) {
    hri_problem p, q;
    char *text;
    three_updates(&p);
    p.ops[2].after = 1;
    p.ops[2].alone_ns = 3;
    p.ops[2].chain = p.ops[2].apart = p.ops[2].third = 1;
    CHECK_OK(hri_problem_finish(&p, NULL));
    CHECK_OK(hri_problem_print(&p, &text));
    CHECK_OK(hri_problem_parse(text, strlen(text), &q, NULL));
    CHECK_EQ(q.hash, p.hash);
    CHECK_EQ(q.ops[UPDATE0].many, 1);
    CHECK(q.ops[UPDATE0].alone_ns == 4 && q.ops[2].alone_ns == 3);
    CHECK(q.ops[2].after == 1 && q.ops[2].chain == 1 && q.ops[2].apart == 1 && !q.ops[0].after);
    CHECK(q.ops[2].third == 1 && !q.ops[0].third);
    p.ops[UPDATE0].alone_ns = 0; /* then nothing of it counts */
    p.ops[UPDATE1].alone_ns = p.ops[UPDATE2].alone_ns = p.ops[2].alone_ns = 0;
    CHECK_OK(hri_problem_finish(&p, NULL));
    CHECK(p.hash != q.hash);
    const uint64_t without = p.hash;
    p.ops[UPDATE0].many = p.ops[2].after = 0;
    CHECK_OK(hri_problem_finish(&p, NULL));
    CHECK_EQ(p.hash, without);
    p.ops[2].after = 7;
    CHECK_STATUS(hri_problem_finish(&p, NULL), HR_E_INVALID);
    p.ops[2].after = 0;
    p.ops[2].alone_ns = -1;
    CHECK_STATUS(hri_problem_finish(&p, NULL), HR_E_RANGE);
    hri_free(text);
    hri_problem_deinit(&p);
    hri_problem_deinit(&q);
}
