/* Searches that were made before: the same plan, for the same problem and options alone. */
#include "fit/past.h"

#include <string.h>

#include "base/fault.h"
#include "base/hash.h"
#include "test.h"

/* Five layers of 100 bytes and a backward part that reads every layer's output. */
static void chain(hri_problem *p, double time_ns) {
    enum { LAYERS = 5 };
    const hri_problem_variant one = {"", time_ns, 0};
    const hri_problem_value input = {.name = "x", .bytes = 100, .role = HRI_ROLE_INPUT};
    const hri_problem_value made = {.name = "v", .bytes = 100};
    uint32_t y[LAYERS + 1], number;
    hri_problem_init(p, 4);
    CHECK_OK(hri_problem_add_value(p, &input, &y[0]));
    hri_problem_op op = {.name = "f", .out_count = 1, .variant_count = 1, .variants = &one};
    for (uint32_t i = 0; i < LAYERS; i++) {
        CHECK_OK(hri_problem_add_value(p, &made, &y[i + 1]));
        const hri_problem_output out = {.value = y[i + 1]};
        op.in_count = 1;
        op.in = &y[i];
        op.out = &out;
        CHECK_OK(hri_problem_add_op(p, &op, &number));
    }
    uint32_t grad = y[LAYERS];
    for (uint32_t i = LAYERS; i-- > 0;) {
        const uint32_t in[2] = {grad, y[i]};
        CHECK_OK(hri_problem_add_value(p, &made, &grad));
        const hri_problem_output out = {.value = grad, .overwrite = 1};
        op.phase = HRI_PROBLEM_BACKWARD;
        op.in_count = 2;
        op.in = in;
        op.out = &out;
        CHECK_OK(hri_problem_add_op(p, &op, &number));
    }
    p->values[grad].result = 1;
    CHECK_OK(hri_problem_finish(p, NULL));
}

static uint64_t hash_of(const hri_plan *plan) {
    hri_hasher h;
    hri_hasher_init(&h, 1);
    hri_plan_hash(plan, &h);
    return hri_hasher_get(&h).lo;
}

/* What is kept, and what a search gives; how often memory was asked for says whether it searched. */
static hri_plan *ask(hri_past *past, const hri_problem *p, uint64_t budget, int *searched) {
    const hri_plan_options o = {.budget_bytes = budget, .effort = 20000};
    hri_plan *plan = NULL;
    hri_fault_set(HRI_FAULT_ALLOC, 8, 0); /* a copy takes four */
    const hr_status status = hri_past_plan(past, p, &o, &plan, NULL);
    *searched = hri_fault_delivered() > 0;
    hri_fault_set(HRI_FAULT_ALLOC, 0, 0);
    if (*searched) {
        hri_plan_destroy(status == HR_OK ? plan : NULL);
        CHECK_OK(hri_past_plan(past, p, &o, &plan, NULL));
    }
    return plan;
}

TEST(past, a_search_made_before_gives_the_same_plan) {
    hri_problem p, slower;
    hri_past *past = hri_past_create();
    int searched;
    chain(&p, 10);
    chain(&slower, 20);
    hri_plan *first = ask(past, &p, 500, &searched);
    CHECK(searched && first->again_count > 0);
    hri_plan *second = ask(past, &p, 500, &searched);
    CHECK(!searched && hash_of(second) == hash_of(first) && second->time_ns == first->time_ns);
    hri_plan *more = ask(past, &p, 700, &searched);
    CHECK(searched && more->time_ns < first->time_ns);
    hri_plan *other = ask(past, &slower, 500, &searched);
    CHECK(searched && other->time_ns == 2 * first->time_ns);
    hri_plan_destroy(first);
    hri_plan_destroy(second);
    hri_plan_destroy(more);
    hri_plan_destroy(other);
    hri_past_destroy(past);
    hri_problem_deinit(&p);
    hri_problem_deinit(&slower);
}

TEST(past, what_was_not_found_is_known_with_its_reason) {
    hri_problem p;
    hri_past *past = hri_past_create();
    hri_plan *plan = NULL;
    hri_prose why[2] = {{{0}}, {{0}}};
    const hri_plan_options o = {.budget_bytes = 200, .effort = 20000};
    chain(&p, 10);
    for (int i = 0; i < 2; i++) {
        CHECK_STATUS(hri_past_plan(past, &p, &o, &plan, &why[i]), HR_E_NO_PLAN);
    }
    CHECK(plan == NULL && why[0].text[0] && !strcmp(why[0].text, why[1].text));
    hri_past_destroy(past);
    hri_problem_deinit(&p);
}

TEST(past, the_oldest_makes_room) {
    hri_problem p;
    hri_past *past = hri_past_create();
    int searched;
    chain(&p, 10);
    for (uint64_t budget = 500; budget < 540; budget++) {
        hri_plan_destroy(ask(past, &p, budget, &searched));
        CHECK(searched);
    }
    hri_plan_destroy(ask(past, &p, 539, &searched));
    CHECK(!searched);
    hri_plan_destroy(ask(past, &p, 500, &searched));
    CHECK(searched);
    hri_past_destroy(past);
    hri_problem_deinit(&p);
}

TEST(past, without_memory_it_fails_or_keeps_nothing_and_leaks_nothing) {
    const hri_plan_options o = {.budget_bytes = 500, .effort = 20000};
    hri_problem p;
    chain(&p, 10);
    for (uint64_t nth = 1, hit = 1; hit; nth++) {
        hri_fault_set(HRI_FAULT_ALLOC, nth, 0);
        hri_past *past = hri_past_create();
        for (int i = 0; i < 2; i++) {
            hri_plan *plan = NULL;
            const hr_status status = hri_past_plan(past, &p, &o, &plan, NULL);
            CHECK(status == HR_OK ? plan != NULL : status == HR_E_NOMEM_HOST && !plan);
            hri_plan_destroy(plan);
        }
        hit = hri_fault_delivered() > 0;
        hri_fault_set(HRI_FAULT_ALLOC, 0, 0);
        hri_past_destroy(past);
    }
    hri_problem_deinit(&p);
}
