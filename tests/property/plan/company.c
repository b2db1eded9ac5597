/* Ops that go together in random problems: what is predicted is what running the steps would launch, found here by moving the
 * steps themselves as the run does. */
#include <math.h>
#include <stdlib.h>

#include "plan/plan.h"
#include "random_problem.h"
#include "test.h"

/* Every third op goes with the one before it, some with the two before them, every second update with others. */
static void give_company(hri_problem *p) {
    for (uint32_t n = 0; n < p->op_count; n++) {
        hri_problem_op *op = &p->ops[n];
        const int early = n > 0 && n % 3 == 0;
        op->beside = op->beside_of = 0;
        op->many = op->phase == HRI_PROBLEM_UPDATE ? 1 + n % 2 : n % 5 == 1 ? 3 : 0;
        const int third = n % 3 == 1 && n % 4 && p->ops[n > 0 ? n - 1 : 0].after;
        op->after = (early || third) && !op->many ? n : 0;
        op->third = third && !op->many;
        op->chain = n % 2;
        op->alone_ns = op->many || op->after ? 1 + n % 7 : 0;
    }
    CHECK_OK(hri_problem_finish(p, NULL));
}

static int overlap(const hri_plan *plan, uint32_t a, uint32_t b) {
    if (a == HRI_PROBLEM_NONE || b == HRI_PROBLEM_NONE) {
        return 0;
    }
    const hri_plan_buffer *x = &plan->buffers[a], *y = &plan->buffers[b];
    return x->memory == y->memory && x->offset < y->offset + y->bytes &&
           y->offset < x->offset + x->bytes;
}

/* May steps s and t change places? */
static int may_swap(const hri_problem *p, const hri_plan *plan, uint32_t s, uint32_t t) {
    const hri_plan_step *x = &plan->steps[s], *y = &plan->steps[t];
    const uint32_t *a = plan->operands + x->first, *b = plan->operands + y->first;
    const uint32_t a_in = p->ops[x->op].in_count, a_all = a_in + p->ops[x->op].out_count;
    const uint32_t b_in = p->ops[y->op].in_count, b_all = b_in + p->ops[y->op].out_count + 1;
    for (uint32_t i = 0; i < a_all; i++) {
        for (uint32_t k = 0; k < b_all; k++) {
            if ((i >= a_in || k >= b_in) && overlap(plan, a[i], b[k])) {
                return 0;
            }
        }
    }
    return 1;
}

static uint32_t kind_at(const hri_problem *p, const hri_plan *plan, uint32_t s) {
    return plan->steps[s].kind == HRI_STEP_RUN ? p->ops[plan->steps[s].op].many : 0;
}

/* The steps in the order in which they run: of many, each goes back behind the earliest of its kind that it reaches. */
static void move(const hri_problem *p, const hri_plan *plan, uint32_t *order) {
    for (uint32_t t = 0; t < plan->step_count; t++) {
        const uint32_t kind = kind_at(p, plan, t);
        uint32_t to = t;
        for (uint32_t i = t; kind && i-- > 0;) {
            to = kind_at(p, plan, order[i]) == kind ? i + 1 : to;
            if (plan->steps[order[i]].kind != HRI_STEP_RUN || !may_swap(p, plan, t, order[i])) {
                break;
            }
        }
        while (to < t && kind_at(p, plan, order[to]) == kind) {
            to++;
        }
        for (uint32_t i = t; i > to; i--) {
            order[i] = order[i - 1];
        }
        order[to] = t;
    }
}

/* What those who are alone take more. */
static double alone_ns(const hri_problem *p, const hri_plan *plan) {
    uint32_t *order = calloc(plan->step_count + 1, sizeof *order);
    double sum = 0;
    int taken = 0, launched[4] = {0}; /* of many, by kind: once, which is in their times */
    CHECK(order != NULL);
    move(p, plan, order);
    for (uint32_t i = 0; i < plan->step_count; i++) {
        const hri_plan_step *s = &plan->steps[order[i]],
                            *before = i ? &plan->steps[order[i - 1]] : NULL;
        if (s->kind != HRI_STEP_RUN) {
            taken = 0;
            continue;
        }
        const hri_problem_op *op = &p->ops[s->op];
        const int place = op->third ? taken == 1 : !taken || (taken == 2 && op->chain);
        const int with = op->after && before && before->kind == HRI_STEP_RUN &&
                         before->op == op->after - 1 && place;
        const int goes_on = op->many && before && kind_at(p, plan, order[i - 1]) == op->many;
        const int begins = op->many && !goes_on && i + 1 < plan->step_count &&
                           kind_at(p, plan, order[i + 1]) == op->many;
        sum += with || goes_on || (begins && !launched[op->many]) ? 0 : op->alone_ns;
        launched[op->many] |= begins;
        taken = !with ? 0 : op->third ? 3 : 1 + op->chain;
    }
    free(order);
    return sum;
}

static void forget(void *user, uint32_t op, hri_problem_company *company) {
    (void)user;
    (void)op;
    company->alone_ns = 0;
}

TEST_TIMEOUT(company, costs_what_the_steps_that_stay_alone_take_more, 300) {
    uint64_t random = test_seed();
    int found = 0, alone = 0;
    for (int i = 0; i < 300; i++) {
        hri_problem p;
        hri_plan *free = NULL, *plan = NULL;
        random_problem(&random, (problem_shape)(test_random(&random) % SHAPE_COUNT),
                       2 + (uint32_t)(test_random(&random) % 24), &p);
        /* No copies: every step waits for the one before it. */
        p.memories[0] = (hri_problem_memory){.in_queue = 1};
        give_company(&p);
        CHECK_OK(hri_plan_make(&p, &(hri_plan_options){.effort = 20000}, &free, NULL, NULL));
        const uint64_t low = free->floor_bytes, high = free->arena_bytes;
        const uint64_t budget = low + (high > low ? test_random(&random) % (high - low + 1) : 0);
        const hri_plan_options o = {.budget_bytes = budget ? budget : 1, .effort = 20000};
        if (hri_plan_make(&p, &o, &plan, NULL, NULL) == HR_OK) {
            CHECK_OK(hri_plan_check(&p, plan, o.budget_bytes, NULL));
            CHECK(fabs(hri_plan_makespan(&p, plan) - plan->time_ns) <= 1e-6 * plan->time_ns);
            CHECK(plan->time_ns >= plan->bound_time_ns * (1 - 1e-9));
            const double expected = alone_ns(&p, plan);
            hri_problem_recompany(&p, forget, NULL);
            const double more = plan->time_ns - hri_plan_makespan(&p, plan);
            CHECK(fabs(more - expected) < 1e-3);
            alone += expected > 0;
            found++;
        }
        hri_plan_destroy(plan);
        hri_plan_destroy(free);
        hri_problem_deinit(&p);
    }
    CHECK(found > 100 && alone > 50);
}

/* Pairs and updates whose launches are dear. */
static void give_dear_company(hri_problem *p) {
    for (uint32_t n = 0; n < p->op_count; n++) {
        hri_problem_op *op = &p->ops[n];
        op->beside = op->beside_of = 0;
        op->many = op->phase == HRI_PROBLEM_UPDATE ? 1 + n % 2 : 0;
        op->after = n > 0 && n % 3 == 0 && !op->many ? n : 0;
        op->third = 0;
        op->chain = n % 2;
        op->alone_ns = op->many || op->after ? 200 + 100 * (n % 7) : 0;
    }
    CHECK_OK(hri_problem_finish(p, NULL));
}

/* The fastest schedule cannot be placed, and what can be placed at once has launches apart: it took 12,431 ns. */
TEST(company, goes_together_within_a_little_less_memory) {
    uint64_t random = 15608897398950564758u;
    hri_problem p;
    hri_plan *free = NULL, *plan = NULL;
    random_problem(&random, SHAPE_RESIDUAL, 12 + (uint32_t)(test_random(&random) % 20), &p);
    p.memories[0] = (hri_problem_memory){.in_queue = 1};
    give_dear_company(&p);
    CHECK_OK(hri_plan_make(&p, &(hri_plan_options){.effort = 2000000}, &free, NULL, NULL));
    const hri_plan_options o = {.budget_bytes = (free->floor_bytes + free->arena_bytes) / 2,
                                .effort = 2000000};
    CHECK_OK(hri_plan_make(&p, &o, &plan, NULL, NULL));
    CHECK_EQ(p.op_count, 90);
    CHECK(plan->time_ns < 12000);
    hri_plan_destroy(plan);
    hri_plan_destroy(free);
    hri_problem_deinit(&p);
}
