/* Plans of random problems pass the checker; plans that were tampered with never do. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "plan/plan.h"
#include "plan/plan_make.h"
#include "random_problem.h"
#include "tamper.h"
#include "test.h"

static hri_plan *plan_of(const hri_problem *p, uint64_t budget, int *impossible) {
    hri_plan *plan = NULL;
    hri_prose why = {{0}};
    const hri_plan_options o = {.budget_bytes = budget, .effort = 20000};
    const hr_status status = hri_plan_make(p, &o, &plan, impossible, &why);
    if (status != HR_OK && status != HR_E_NO_PLAN) {
        test_fail(__FILE__, __LINE__, "%s: %s", hr_status_name(status), why.text);
    }
    return status == HR_OK ? plan : NULL;
}

/* A problem and a plan for it, at a budget somewhere between the floor and all. */
static hri_plan *some_plan(uint64_t *random, hri_problem *p, uint64_t *budget) {
    int impossible = 0;
    random_problem(random, (problem_shape)(test_random(random) % SHAPE_COUNT),
                   2 + (uint32_t)(test_random(random) % 24), p);
    hri_plan *free = plan_of(p, 0, &impossible);
    CHECK(free != NULL);
    const uint64_t high = free->arena_bytes;
    const uint64_t low =
        test_random(random) % 3 ? (free->floor_bytes + high) / 2 : free->floor_bytes;
    hri_plan_destroy(free);
    *budget = low + (high > low ? test_random(random) % (high - low + 1) : 0);
    return plan_of(p, *budget ? *budget : 1, &impossible);
}

TEST_TIMEOUT(plan, of_a_thousand_random_problems_pass_the_checker, 300) {
    uint64_t random = test_seed();
    int found = 0;
    for (int i = 0; i < 1000; i++) {
        hri_problem p;
        uint64_t budget;
        hri_plan *plan = some_plan(&random, &p, &budget);
        if (plan) {
            hri_prose why = {{0}};
            if (hri_plan_check(&p, plan, budget, &why) != HR_OK) {
                test_fail(__FILE__, __LINE__, "%s", why.text);
            }
            CHECK(plan->time_ns >= plan->bound_time_ns * (1 - 1e-9));
            CHECK(plan->arena_bytes >= plan->floor_bytes);
            CHECK(fabs(hri_plan_makespan(&p, plan) - plan->time_ns) <= 1e-6 * plan->time_ns);
            found++;
        }
        hri_plan_destroy(plan);
        hri_problem_deinit(&p);
    }
    CHECK(found > 500);
}

TEST(plan, below_the_floor_is_refused_as_impossible) {
    uint64_t random = test_seed() + 1;
    for (int i = 0; i < 50; i++) {
        hri_problem p;
        uint32_t op;
        int impossible = 0;
        random_problem(&random, SHAPE_ANY, 10, &p);
        const uint64_t floor = hri_problem_floor(&p, &op);
        CHECK(plan_of(&p, floor - 1, &impossible) == NULL);
        CHECK(impossible);
        hri_problem_deinit(&p);
    }
}

/* Without memory, at one allocation after another, the later the fewer of them. */
static void make_without_memory(const hri_problem *p, const hri_plan_options *o) {
    int hit = 1;
    for (uint64_t nth = 1; hit; nth += nth / 4 + 1) {
        hri_plan *plan = NULL;
        hri_fault_set(HRI_FAULT_ALLOC, nth, 0);
        const hr_status status = hri_plan_make(p, o, &plan, NULL, NULL);
        hit = hri_fault_delivered() > 0;
        hri_fault_set(HRI_FAULT_ALLOC, 0, 0);
        CHECK(status == HR_OK ? plan != NULL : status == HR_E_NOMEM_HOST && !plan);
        hri_plan_destroy(plan);
    }
}

/* Searches that end badly go on with a little less memory: never to a slower plan, and not in vain. */
TEST_TIMEOUT(plan, is_never_slower_than_one_search_and_at_times_much_faster, 300) {
    uint64_t random = 7; /* what is found is a matter of the problem */
    int poor = 0, better = 0;
    for (int i = 0; i < 2000; i++) {
        hri_problem p;
        hri_plan *once = NULL, *plan = NULL;
        hri_prose why = {{0}};
        random_problem(&random, (problem_shape)(test_random(&random) % SHAPE_COUNT),
                       8 + (uint32_t)(test_random(&random) % 24), &p);
        uint32_t op;
        const uint64_t floor = hri_problem_floor(&p, &op);
        const hri_plan_options o = {
            .budget_bytes = floor + floor * (test_random(&random) % 30) / 100, .effort = 100};
        if (hri_plan_make_once(&p, &o, &once, NULL, &why) == HR_OK) {
            CHECK_STATUS(hri_plan_make(&p, &o, &plan, NULL, &why), HR_OK);
            CHECK_STATUS(hri_plan_check(&p, plan, o.budget_bytes, &why), HR_OK);
            CHECK(plan->time_ns <= once->time_ns &&
                  plan->time_ns >= plan->bound_time_ns * (1 - 1e-9));
            if (once->time_ns > 2 * once->bound_time_ns && !poor++) {
                make_without_memory(&p, &o);
            }
            better += plan->time_ns < once->time_ns;
        }
        hri_plan_destroy(once);
        hri_plan_destroy(plan);
        hri_problem_deinit(&p);
    }
    CHECK(poor > 0 && better > 0);
}

TEST(plan, is_the_same_for_the_same_problem) {
    uint64_t random = test_seed() + 2;
    for (int i = 0; i < 20; i++) {
        hri_problem p;
        uint64_t budget;
        int impossible;
        char *a = NULL, *b = NULL;
        hri_plan *plan = some_plan(&random, &p, &budget);
        hri_plan *again = plan_of(&p, budget ? budget : 1, &impossible);
        CHECK(!plan == !again);
        if (plan) {
            CHECK_OK(hri_plan_print(plan, &a));
            CHECK_OK(hri_plan_print(again, &b));
            CHECK_STR(a, b);
        }
        hri_free(a);
        hri_free(b);
        hri_plan_destroy(plan);
        hri_plan_destroy(again);
        hri_problem_deinit(&p);
    }
}

TEST(plan, and_problem_read_back_are_what_was_written) {
    uint64_t random = test_seed() + 3;
    for (int i = 0; i < 30; i++) {
        hri_problem p, q;
        uint64_t budget;
        hri_prose why;
        char *text = NULL, *copy = NULL;
        hri_plan *plan = some_plan(&random, &p, &budget), *read = NULL;
        CHECK_OK(hri_problem_print(&p, &text));
        CHECK_OK(hri_problem_parse(text, strlen(text), &q, &why));
        CHECK(p.hash == q.hash);
        CHECK_OK(hri_problem_print(&q, &copy));
        CHECK_STR(text, copy);
        hri_free(text);
        hri_free(copy);
        if (plan) {
            CHECK_OK(hri_plan_print(plan, &text));
            CHECK_OK(hri_plan_parse(text, strlen(text), &q, &read, &why));
            CHECK_OK(hri_plan_print(read, &copy));
            CHECK_STR(text, copy);
            hri_free(text);
            hri_free(copy);
        }
        hri_plan_destroy(plan);
        hri_plan_destroy(read);
        hri_problem_deinit(&p);
        hri_problem_deinit(&q);
    }
}

/* ---- tampering ---- */

static int passes(const hri_problem *p, const hri_plan *plan, uint64_t budget) {
    return hri_plan_check(p, plan, budget, NULL) == HR_OK;
}

/* Puts a buffer over another one that lives at the same time. */
static int move_buffer(hri_plan *plan, uint64_t *random) {
    for (int tries = 0; tries < 200; tries++) {
        hri_plan_buffer *a = &plan->buffers[test_random(random) % plan->buffer_count];
        const hri_plan_buffer *b = &plan->buffers[test_random(random) % plan->buffer_count];
        if (a != b && a->bytes && b->bytes && a->memory == b->memory && a->birth < b->death &&
            b->birth < a->death) {
            a->offset = b->offset;
            return 1;
        }
    }
    return 0;
}

static int is_read_by(const hri_problem *p, const hri_plan_step *maker, const hri_plan_step *next) {
    if (maker->kind != HRI_STEP_RUN || next->kind != HRI_STEP_RUN) {
        return 0;
    }
    for (uint32_t k = 0; k < p->ops[maker->op].out_count; k++) {
        for (uint32_t i = 0; i < p->ops[next->op].in_count; i++) {
            if (p->ops[maker->op].out[k].value == p->ops[next->op].in[i]) {
                return 1;
            }
        }
    }
    return 0;
}

/* Two steps of which the second reads what the first makes change places. */
static int swap_steps(const hri_problem *p, hri_plan *plan, uint64_t *random) {
    for (int tries = 0; tries < 200 && plan->step_count > 1; tries++) {
        hri_plan_step *s = &plan->steps[test_random(random) % (plan->step_count - 1)];
        if (is_read_by(p, &s[0], &s[1]) && !s[0].again) {
            const hri_plan_step first = s[0];
            s[0] = s[1];
            s[1] = first;
            return 1;
        }
    }
    return 0;
}

/* A read looks somewhere else. */
static int turn_read(const hri_problem *p, hri_plan *plan, uint64_t *random) {
    for (int tries = 0; tries < 200; tries++) {
        const hri_plan_step *s = &plan->steps[test_random(random) % plan->step_count];
        if (s->kind == HRI_STEP_RUN && p->ops[s->op].in_count) {
            uint32_t *at = &plan->operands[s->first + test_random(random) % p->ops[s->op].in_count];
            const uint32_t to = (uint32_t)(test_random(random) % plan->buffer_count);
            if (to != *at && plan->buffers[to].value != plan->buffers[*at].value) {
                *at = to;
                return 1;
            }
        }
    }
    return 0;
}

static hri_plan copy_of(const hri_plan *plan) {
    hri_plan c = *plan;
    c.steps = malloc((plan->step_count + 1u) * sizeof *c.steps);
    c.operands = malloc((plan->operand_count + 1u) * sizeof *c.operands);
    c.buffers = malloc((plan->buffer_count + 1u) * sizeof *c.buffers);
    CHECK(c.steps && c.operands && c.buffers);
    memcpy(c.steps, plan->steps, plan->step_count * sizeof *c.steps);
    memcpy(c.operands, plan->operands, plan->operand_count * sizeof *c.operands);
    memcpy(c.buffers, plan->buffers, plan->buffer_count * sizeof *c.buffers);
    return c;
}

TEST_TIMEOUT(plan, that_was_tampered_with_never_passes, 300) {
    uint64_t random = test_seed() + 4;
    int done[4] = {0};
    for (int i = 0; i < 300; i++) {
        hri_problem p;
        uint64_t budget;
        hri_plan *plan = some_plan(&random, &p, &budget);
        for (int kind = 0; plan && kind < 4; kind++) {
            hri_plan c = copy_of(plan);
            const int changed = kind == 0   ? move_buffer(&c, &random)
                                : kind == 1 ? swap_steps(&p, &c, &random)
                                : kind == 2 ? turn_read(&p, &c, &random)
                                            : tamper_lose_wait(&c, &random);
            if (changed && passes(&p, &c, budget)) {
                test_fail(__FILE__, __LINE__, "tampering of kind %d passes", kind);
            }
            done[kind] += changed;
            free(c.steps);
            free(c.operands);
            free(c.buffers);
        }
        hri_plan_destroy(plan);
        hri_problem_deinit(&p);
    }
    CHECK(done[0] > 50 && done[1] > 50 && done[2] > 50 && done[3] > 20);
}
