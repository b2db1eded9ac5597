/* Updates that are brought next to one another: as many as the limit bears, none that others wait for. */
#include "base/alloc.h"
#include "base/fault.h"
#include "plan/place.h"
#include "plan/schedule.h"
#include "test.h"

enum { X, W0, W1, W2, G0, G1, G2, N0, N1, N2, LOOK, VALUES };
enum { UPDATE0 = 1, UPDATE1 = 3, UPDATE2 = 5 }; /* numbers of ops */

/* Gradients of three weights, each followed by its update; `looks`: an op between reads the second weight as it is then. */
static void three_weights(hri_problem *p, int looks) {
    static const struct {
        uint32_t in[2], in_count, out, updates;
    } ops[] = {
        {{X}, 1, G0, 0}, {{W0, G0}, 2, N0, 1}, {{X}, 1, G1, 0},       {{W1, G1}, 2, N1, 1},
        {{X}, 1, G2, 0}, {{W2, G2}, 2, N2, 1}, {{X, N1}, 2, LOOK, 0},
    };
    const hri_problem_variant one = {"", 10, 0};
    uint32_t number;
    hri_problem_init(p, 4);
    for (uint32_t v = 0; v < VALUES; v++) {
        const hri_problem_value value = {.name = "v",
                                         .bytes = 100,
                                         .role = v == X               ? HRI_ROLE_INPUT
                                                 : v >= W0 && v <= W2 ? HRI_ROLE_PERSISTENT
                                                                      : HRI_ROLE_MADE,
                                         .result = v == X || v == LOOK};
        CHECK_OK(hri_problem_add_value(p, &value, &number));
    }
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
        const hri_problem_output out = {.value = ops[i].out, .updates = ops[i].updates};
        const hri_problem_op op = {.name = "op",
                                   .phase = 1,
                                   .in_count = ops[i].out == LOOK && !looks ? 1 : ops[i].in_count,
                                   .in = ops[i].in,
                                   .out_count = 1,
                                   .out = &out,
                                   .variant_count = 1,
                                   .variants = &one};
        CHECK_OK(hri_problem_add_op(p, &op, &number));
    }
    CHECK_OK(hri_problem_finish(p, NULL));
}

static uint32_t place_of(const hri_schedule *s, uint32_t op) {
    uint32_t at = 0;
    while (at < s->entry_count && s->entries[at].op != op) {
        at++;
    }
    return at;
}

static uint32_t gathered(hri_problem *p, uint64_t limit, hri_schedule *s) {
    uint32_t moved = 0;
    CHECK_OK(hri_schedule_init(s, p));
    CHECK_OK(hri_schedule_run(s));
    CHECK_EQ(s->peak_bytes, 200);
    s->limit = limit;
    CHECK_OK(hri_schedule_gather(s, &moved));
    CHECK_LE(s->peak_bytes, limit);
    hri_plan *plan = NULL;
    const hri_plan_options o = {.budget_bytes = limit + p->persistent_bytes};
    CHECK_OK(hri_place(s, &o, 10, &plan));
    CHECK_OK(hri_plan_check(p, plan, o.budget_bytes, NULL));
    hri_plan_destroy(plan);
    return moved;
}

TEST(gather, updates_stand_together_where_there_is_room) {
    hri_problem p;
    hri_schedule s;
    three_weights(&p, 0);
    CHECK_EQ(gathered(&p, 600, &s), 3);
    CHECK_EQ(place_of(&s, UPDATE0), 4);
    CHECK_EQ(place_of(&s, UPDATE1), 5);
    CHECK_EQ(place_of(&s, UPDATE2), 6);
    hri_schedule_deinit(&s);
    /* Room for one gradient beside another one. */
    CHECK_EQ(gathered(&p, 300, &s), 2);
    CHECK_EQ(place_of(&s, UPDATE2), 6);
    hri_schedule_deinit(&s);
    CHECK_EQ(gathered(&p, 200, &s), 0);
    CHECK_EQ(place_of(&s, UPDATE0), 1);
    hri_schedule_deinit(&s);
    hri_problem_deinit(&p);
}

TEST(gather, an_update_that_is_read_stays_where_it_is) {
    hri_problem p;
    hri_schedule s;
    three_weights(&p, 1);
    CHECK_EQ(gathered(&p, 600, &s), 2);
    CHECK(place_of(&s, UPDATE1) < place_of(&s, 6));
    hri_schedule_deinit(&s);
    hri_problem_deinit(&p);
}

TEST(gather, without_memory_fails_and_leaks_nothing) {
    hri_problem p;
    uint64_t nth = 1;
    three_weights(&p, 0);
    for (int hit = 1; hit; nth++) {
        hri_schedule s;
        uint32_t moved = 0;
        CHECK_OK(hri_schedule_init(&s, &p));
        CHECK_OK(hri_schedule_run(&s));
        s.limit = 600;
        hri_fault_set(HRI_FAULT_ALLOC, nth, 0);
        const hr_status status = hri_schedule_gather(&s, &moved);
        hit = hri_fault_delivered() > 0;
        hri_fault_set(HRI_FAULT_ALLOC, 0, 0);
        CHECK_STATUS(status, hit ? HR_E_NOMEM_HOST : HR_OK);
        CHECK(hit || moved == 3);
        hri_schedule_deinit(&s);
    }
    CHECK(nth > 2);
    hri_problem_deinit(&p);
}
