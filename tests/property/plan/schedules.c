/* A schedule that is run from where it may differ from the last run has the same steps, bytes and times, to the last bit, as one
 * that is run from the start. */
#include <math.h>
#include <string.h>

#include "plan/schedule.h"
#include "random_problem.h"
#include "test.h"

enum { PROBLEMS = 150, CHANGES = 60 };

/* Some number that the gap may have. */
static uint8_t some_choice(uint64_t *random, const hri_schedule *s, uint32_t gap) {
    const uint32_t v = s->gap_value[gap], first = hri_gap_of(s->p, v, 0);
    const hri_problem_value *value = &s->p->values[v];
    const int waits = s->p->memory_count && !s->fixed[v] && gap < first + value->use_count &&
                      (value->role == HRI_ROLE_MADE || gap > first);
    const uint64_t dice = test_random(random) % 8;
    if (dice < 2) {
        return waits ? HRI_GAP_AWAY : 0;
    }
    return (uint8_t)(dice < 5 || !hri_schedule_can_drop(s, v) ? 0 : dice - 4);
}

/* Changes one gap or one op's variant in both. */
static void change(uint64_t *random, hri_schedule *a, hri_schedule *b) {
    const uint32_t n = (uint32_t)(test_random(random) % a->p->op_count);
    if (test_random(random) % 8 == 0) {
        a->variant[n] = b->variant[n] = (uint8_t)(test_random(random) % a->p->ops[n].variant_count);
        return;
    }
    const uint32_t gap = (uint32_t)(test_random(random) % a->gap_count);
    a->gaps[gap] = b->gaps[gap] = some_choice(random, a, gap);
}

static void check_same(const hri_schedule *a, const hri_schedule *b) {
    CHECK_EQ(a->entry_count, b->entry_count);
    CHECK_EQ(a->instance_count, b->instance_count);
    CHECK_EQ(a->touch_count, b->touch_count);
    CHECK_EQ(a->peak_bytes, b->peak_bytes);
    CHECK_EQ(a->peak_entry, b->peak_entry);
    CHECK_EQ(a->over, b->over);
    CHECK_EQ(a->again_count, b->again_count);
    CHECK_EQ(a->copied_bytes, b->copied_bytes);
    CHECK(a->time_ns == b->time_ns && a->again_ns == b->again_ns && a->apart_ns == b->apart_ns);
    CHECK(a->copy_ns[0] == b->copy_ns[0] && a->copy_ns[1] == b->copy_ns[1]);
    CHECK(!memcmp(a->live, b->live, a->entry_count * sizeof *a->live));
    CHECK(!memcmp(a->instances, b->instances, a->instance_count * sizeof *a->instances));
    for (uint32_t e = 0; e < a->entry_count; e++) {
        const hri_entry *x = &a->entries[e], *y = &b->entries[e];
        CHECK(x->kind == y->kind && x->again == y->again && x->memory == y->memory);
        CHECK(x->op == y->op && x->pair == y->pair && x->first == y->first);
    }
    for (uint32_t t = 0; t < a->touch_count; t++) {
        const hri_touch *x = &a->touches[t], *y = &b->touches[t];
        CHECK(x->instance == y->instance && x->gap == y->gap && x->count == y->count);
    }
}

/* One run of both, with a time at which it may give up. */
static void run_both(uint64_t *random, hri_schedule *a, hri_schedule *b) {
    const uint64_t dice = test_random(random) % 8;
    uint32_t moved = 0, moved_too = 0;
    a->stop_ns = b->stop_ns = dice == 0 ? a->time_ns : INFINITY;
    a->limit = b->limit = dice == 1 ? UINT64_MAX : dice == 2 ? b->peak_bytes / 2 : b->limit;
    const hr_status status = hri_schedule_run(a);
    CHECK_STATUS(hri_schedule_run(b), status);
    CHECK(status == HR_OK || status == HR_E_NO_PLAN);
    CHECK_EQ(a->work, b->work);
    if (status != HR_OK) {
        return;
    }
    check_same(a, b);
    if (dice == 3) {
        CHECK_OK(hri_schedule_join(a, &moved));
        CHECK_OK(hri_schedule_join(b, &moved_too));
    } else if (dice == 4) {
        CHECK_OK(hri_schedule_gather(a, &moved));
        CHECK_OK(hri_schedule_gather(b, &moved_too));
    } else if (dice == 5) {
        CHECK_OK(hri_schedule_gather_again(a, &moved));
        CHECK_OK(hri_schedule_gather_again(b, &moved_too));
    }
    CHECK_EQ(moved, moved_too);
    check_same(a, b);
}

TEST_TIMEOUT(schedule, from_the_middle_is_that_from_the_start, 300) {
    uint64_t random = test_seed();
    uint32_t good = 0;
    for (int i = 0; i < PROBLEMS; i++) {
        hri_problem p;
        hri_schedule a, b;
        random_problem(&random, (problem_shape)(test_random(&random) % SHAPE_COUNT),
                       4 + (uint32_t)(test_random(&random) % 30), &p);
        CHECK_OK(hri_schedule_init(&a, &p));
        CHECK_OK(hri_schedule_init(&b, &p));
        b.frugal = 1;
        a.overlap = b.overlap = (uint8_t)hri_problem_has_net(&p);
        for (int k = 0; k < CHANGES; k++) {
            for (uint64_t m = test_random(&random) % 4; m > 0; m--) {
                change(&random, &a, &b);
            }
            run_both(&random, &a, &b);
            good += a.entry_count > 0;
            if (test_random(&random) % 16 == 0) {
                hri_schedule_set_order(&a, a.order);
                hri_schedule_set_order(&b, b.order);
            }
        }
        hri_schedule_deinit(&a);
        hri_schedule_deinit(&b);
        hri_problem_deinit(&p);
    }
    CHECK(good > PROBLEMS * CHANGES / 2);
}
