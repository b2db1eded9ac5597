/* Plans over several memories beside the arena: they pass the checker, and what was tampered with never does. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "plan/plan.h"
#include "random_problem.h"
#include "tamper.h"
#include "test.h"

static uint64_t pick(uint64_t *random, uint64_t count) {
    return test_random(random) % count;
}

/* Two or three memories behind a training step: small and fast ones first, the last as large as it takes; queues of their
 * own, or shared. */
static void some_memories(uint64_t *random, uint64_t bytes, hri_problem *p) {
    const int own = pick(random, 2) == 0;
    p->memory_count = 2 + (uint32_t)pick(random, 2);
    for (uint32_t m = 0; m < p->memory_count; m++) {
        const double speed = 400.0 / (1 << m);
        p->memories[m] = (hri_problem_memory){.name = m ? "file" : "host",
                                              .out_bytes_per_ns = speed,
                                              .in_bytes_per_ns = speed,
                                              .latency_ns = 1 + m,
                                              .out_queue = (uint8_t)(own ? 2 * m : 0),
                                              .in_queue = (uint8_t)(own ? 2 * m + 1 : 1)};
        if (m + 1 < p->memory_count) {
            p->memories[m].capacity_bytes = hri_problem_room(p, 1 + pick(random, bytes / 16 + 1));
        }
    }
    CHECK_OK(hri_problem_finish(p, NULL));
}

static double dear(void *user, const hri_problem_op *op, uint32_t variant) {
    (void)user;
    return 50 * op->variants[variant].time_ns;
}

/* A plan of a problem whose ops are dear, so that values rather wait elsewhere; NULL when there is none at that budget. */
static hri_plan *some_plan(uint64_t *random, hri_problem *p, uint64_t *budget) {
    hri_plan *plan = NULL;
    hri_prose why = {{0}};
    hri_plan_options o = {.effort = 20000};
    random_problem(random, (problem_shape)pick(random, SHAPE_COUNT), 4 + (uint32_t)pick(random, 20),
                   p);
    CHECK_OK(hri_plan_make(p, &o, &plan, NULL, &why));
    const uint64_t high = plan->arena_bytes, low = (plan->floor_bytes + high) / 2;
    hri_plan_destroy(plan);
    plan = NULL;
    some_memories(random, high, p);
    hri_problem_retime(p, dear, NULL);
    o.budget_bytes = *budget = low + pick(random, (high - low) / 2 + 1);
    const hr_status status = hri_plan_make(p, &o, &plan, NULL, &why);
    if (status != HR_OK && status != HR_E_NO_PLAN) {
        test_fail(__FILE__, __LINE__, "%s: %s", hr_status_name(status), why.text);
    }
    return status == HR_OK ? plan : NULL;
}

static uint32_t memories_used(const hri_plan *plan) {
    uint32_t used = 0;
    for (uint32_t m = 0; m < HRI_PROBLEM_MEMORIES_MAX; m++) {
        used += plan->memory_bytes[m] > 0;
    }
    return used;
}

static void check_plan(const hri_problem *p, const hri_plan *plan, uint64_t budget) {
    hri_prose why = {{0}};
    uint64_t sum = 0;
    if (hri_plan_check(p, plan, budget, &why) != HR_OK) {
        test_fail(__FILE__, __LINE__, "%s", why.text);
    }
    for (uint32_t m = 0; m < p->memory_count; m++) {
        const uint64_t capacity = p->memories[m].capacity_bytes;
        CHECK(!capacity || plan->memory_bytes[m] <= capacity);
        sum += plan->memory_bytes[m];
    }
    CHECK_EQ(sum, plan->other_bytes);
    CHECK(fabs(hri_plan_makespan(p, plan) - plan->time_ns) <= 1e-6 * plan->time_ns);
    CHECK(plan->time_ns >= plan->bound_time_ns * (1 - 1e-9));
}

static void check_read_back(const hri_problem *p, const hri_plan *plan) {
    char *text = NULL, *copy = NULL;
    hri_problem q;
    hri_plan *read = NULL;
    hri_prose why = {{0}};
    CHECK_OK(hri_problem_print(p, &text));
    CHECK_OK(hri_problem_parse(text, strlen(text), &q, &why));
    CHECK(p->hash == q.hash);
    CHECK_OK(hri_problem_print(&q, &copy));
    CHECK_STR(text, copy);
    hri_free(text);
    hri_free(copy);
    CHECK_OK(hri_plan_print(plan, &text));
    CHECK_OK(hri_plan_parse(text, strlen(text), &q, &read, &why));
    CHECK_OK(hri_plan_print(read, &copy));
    CHECK_STR(text, copy);
    hri_free(text);
    hri_free(copy);
    hri_plan_destroy(read);
    hri_problem_deinit(&q);
}

TEST_TIMEOUT(memories, plans_over_several_pass_the_checker_and_are_read_back, 300) {
    uint64_t random = test_seed() + 11;
    int several = 0;
    for (int i = 0; i < 300; i++) {
        hri_problem p;
        uint64_t budget;
        hri_plan *plan = some_plan(&random, &p, &budget);
        if (plan) {
            check_plan(&p, plan, budget);
            check_read_back(&p, plan);
            several += memories_used(plan) > 1;
        }
        hri_plan_destroy(plan);
        hri_problem_deinit(&p);
    }
    printf("    %d plans use two memories or more\n", several);
    CHECK(several > 20);
}

/* ---- tampering ---- */

/* A buffer away from the arena. */
static hri_plan_buffer *some_away(hri_plan *plan, uint64_t *random) {
    for (int tries = 0; tries < 200; tries++) {
        hri_plan_buffer *b = &plan->buffers[pick(random, plan->buffer_count)];
        if (b->memory && b->bytes) {
            return b;
        }
    }
    return NULL;
}

/* It lies in a memory that is not there. */
static int beyond(hri_problem *p, hri_plan *plan, uint64_t *random) {
    hri_plan_buffer *b = some_away(plan, random);
    if (b) {
        b->memory = (uint8_t)(p->memory_count + 1);
    }
    return b != NULL;
}

/* It lies over another one, in the memory of that one. */
static int over(hri_problem *p, hri_plan *plan, uint64_t *random) {
    hri_plan_buffer *a = some_away(plan, random);
    (void)p;
    for (int tries = 0; a && tries < 200; tries++) {
        const hri_plan_buffer *b = some_away(plan, random);
        if (b && a != b && a->birth < b->death && b->birth < a->death) {
            a->memory = b->memory;
            a->offset = b->offset;
            return 1;
        }
    }
    return 0;
}

/* It lies in the arena, where copies away do not go. */
static int home(hri_problem *p, hri_plan *plan, uint64_t *random) {
    hri_plan_buffer *b = some_away(plan, random);
    (void)p;
    if (b) {
        b->memory = 0;
    }
    return b != NULL;
}

/* The memory has a byte less than the plan takes of it. */
static int smaller(hri_problem *p, hri_plan *plan, uint64_t *random) {
    const uint64_t first = pick(random, p->memory_count);
    for (uint32_t i = 0; i < p->memory_count; i++) {
        const uint64_t m = (first + i) % p->memory_count;
        if (plan->memory_bytes[m] > 1) {
            p->memories[m].capacity_bytes = plan->memory_bytes[m] - 1;
            return 1;
        }
    }
    return 0;
}

/* The plan says less of a memory than lies there, or more of all than of each. */
static int sums(hri_problem *p, hri_plan *plan, uint64_t *random) {
    const uint64_t m = pick(random, p->memory_count);
    if (plan->memory_bytes[m] == 0 || pick(random, 2)) {
        plan->other_bytes += p->align;
    } else {
        plan->memory_bytes[m] -= p->align;
        plan->other_bytes -= p->align;
    }
    return 1;
}

/* What comes back is read somewhere else. */
static int astray(hri_problem *p, hri_plan *plan, uint64_t *random) {
    (void)p;
    for (int tries = 0; tries < 400; tries++) {
        const hri_plan_step *s = &plan->steps[pick(random, plan->step_count)];
        const hri_plan_buffer *b = some_away(plan, random);
        if (s->kind == HRI_STEP_IN && b &&
            plan->buffers[plan->operands[s->first]].value != b->value) {
            plan->operands[s->first] = (uint32_t)(b - plan->buffers);
            return 1;
        }
    }
    return 0;
}

/* A copy begins before the copy that it waited for was waited for: the wait and what follows it change places. */
static int early(hri_problem *p, hri_plan *plan, uint64_t *random) {
    (void)p;
    for (int tries = 0; tries < 400 && plan->step_count > 1; tries++) {
        hri_plan_step *s = &plan->steps[pick(random, plan->step_count - 1)];
        const uint32_t at = (uint32_t)(s - plan->steps);
        if (s[0].kind == HRI_STEP_IN && s[1].kind == HRI_STEP_WAIT && s[1].op == at) {
            const hri_plan_step copy = s[0];
            s[0] = s[1];
            s[1] = copy;
            return 1;
        }
    }
    return 0;
}

static int lost(hri_problem *p, hri_plan *plan, uint64_t *random) {
    (void)p;
    return tamper_lose_wait(plan, random);
}

TEST_TIMEOUT(memories, tampering_never_passes, 300) {
    int (*const ways[])(hri_problem *, hri_plan *, uint64_t *) = {beyond, over,   home,  smaller,
                                                                  sums,   astray, early, lost};
    enum { WAYS = sizeof ways / sizeof *ways };
    uint64_t random = test_seed() + 12;
    int done[WAYS] = {0}, least = 0;
    for (int i = 0; i < 200 || (least < 15 && i < 1000);
         i++) { /* how often each applies differs by processor */
        hri_problem p;
        uint64_t budget;
        hri_plan *plan = some_plan(&random, &p, &budget);
        for (int k = 0; plan && memories_used(plan) && k < WAYS; k++) {
            hri_problem changed = p; /* shares its lists */
            hri_plan *copy = hri_plan_copy(plan);
            CHECK(copy != NULL);
            const int did = ways[k](&changed, copy, &random);
            if (did && hri_plan_check(&changed, copy, budget, NULL) == HR_OK) {
                test_fail(__FILE__, __LINE__, "tampering of kind %d passes", k);
            }
            done[k] += did;
            hri_plan_destroy(copy);
        }
        hri_plan_destroy(plan);
        hri_problem_deinit(&p);
        least = done[0];
        for (int k = 1; k < WAYS; k++) {
            least = done[k] < least ? done[k] : least;
        }
    }
    CHECK_LE(15, least);
}
