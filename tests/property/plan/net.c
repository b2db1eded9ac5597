/* What ranks exchange is part of a plan: another order, another op, a gather of something stale never pass the checker. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "plan/plan.h"
#include "random_problem.h"
#include "tamper.h"
#include "test.h"

/* Each kind of change is made to this many plans, each of which passes without it.  Not every plan has what a kind needs. */
enum { CHANGES = 100, KINDS = 12, MOST_PROBLEMS = 1500, TRIES = 12 };

static hri_plan *plan_of(const hri_problem *p, uint64_t budget) {
    hri_plan *plan = NULL;
    hri_prose why = {{0}};
    const hri_plan_options o = {.budget_bytes = budget, .effort = 4000};
    const hr_status status = hri_plan_make(p, &o, &plan, NULL, &why);
    if (status != HR_OK && status != HR_E_NO_PLAN) {
        test_fail(__FILE__, __LINE__, "%s", why.text);
    }
    return status == HR_OK ? plan : NULL;
}

/* About half of the ops move bytes between ranks; what is finished has the same hash as before. */
static void mark(hri_problem *p, uint64_t *random) {
    for (uint32_t i = 0; i < p->op_count; i++) {
        p->ops[i].net = test_random(random) % 2 == 0;
        p->ops[i].wire_bytes = p->ops[i].net ? 1 + test_random(random) % 100000 : 0;
        p->ops[i].beside = p->ops[i].beside_of = 0; /* exchanges have none */
    }
}

/* The number of a step that exchanges, from a random one on; step_count: there is none. */
static uint32_t some_net(const hri_problem *p, const hri_plan *plan, uint64_t *random) {
    const uint32_t from = (uint32_t)(test_random(random) % plan->step_count);
    for (uint32_t k = 0; k < plan->step_count; k++) {
        const uint32_t s = (from + k) % plan->step_count;
        if (hri_step_runs(&plan->steps[s]) && p->ops[plan->steps[s].op].net) {
            return s;
        }
    }
    return plan->step_count;
}

static uint32_t next_net(const hri_problem *p, const hri_plan *plan, uint32_t from) {
    for (uint32_t s = from + 1; s < plan->step_count; s++) {
        if (hri_step_runs(&plan->steps[s]) && p->ops[plan->steps[s].op].net) {
            return s;
        }
    }
    return plan->step_count;
}

/* The step that waits for what step `net` has started; step_count: none. */
static uint32_t wait_of(const hri_plan *plan, uint32_t net) {
    uint32_t s = net + 1;
    while (s < plan->step_count &&
           (plan->steps[s].kind != HRI_STEP_WAIT || plan->steps[s].op != net)) {
        s++;
    }
    return s;
}

/* The wait comes behind the first step that reads what the exchange makes; 0: nobody does. */
static int wait_late(const hri_problem *p, hri_plan *plan, uint32_t a, uint32_t wait) {
    hri_plan_step *s = plan->steps;
    const hri_problem_op *op = &p->ops[s[a].op];
    const uint32_t *made = plan->operands + s[a].first + op->in_count;
    for (uint32_t r = wait + 1; r < plan->step_count; r++) {
        const uint32_t count = hri_step_runs(&s[r]) ? p->ops[s[r].op].in_count : 0;
        for (uint32_t i = 0; i < count * op->out_count; i++) {
            if (plan->operands[s[r].first + i / op->out_count] == made[i % op->out_count]) {
                const hri_plan_step kept = s[wait];
                memmove(s + wait, s + wait + 1, (r - wait) * sizeof *s);
                s[r] = kept;
                return 1;
            }
        }
    }
    return 0;
}

/* Changes what goes on between the start of an exchange and its wait; 0: there is nothing to change. */
static int tamper_beside(int kind, const hri_problem *p, hri_plan *plan, uint32_t a,
                         uint64_t *random) {
    hri_plan_step *s = plan->steps;
    const uint32_t wait = s[a].kind == HRI_STEP_NET ? wait_of(plan, a) : plan->step_count;
    const hri_problem_op *op = &p->ops[s[a].op];
    const uint32_t *list = plan->operands + s[a].first;
    if (wait == plan->step_count) {
        return 0;
    }
    switch (kind) {
    case 6: /* nobody waits */
        return tamper_lose_wait(plan, random);
    case 7: /* its memory ends before the wait */
        for (uint32_t i = 0; i < op->in_count + op->out_count; i++) {
            hri_plan_buffer *b = &plan->buffers[list[i]];
            if (b->birth <= a && b->death > wait) {
                b->death = wait;
                return 1;
            }
        }
        return 0;
    case 8: /* waited for twice, and something else not at all */
        for (uint32_t i = 0; i < plan->step_count; i++) {
            if (i != wait && i > a && s[i].kind == HRI_STEP_WAIT) {
                s[i].op = a;
                return 1;
            }
        }
        return 0;
    case 9: /* waited for after somebody has read what it makes */
        return wait_late(p, plan, a, wait);
    case 10: /* something that exchanges nothing is started like an exchange */
        for (uint32_t i = 0; i < plan->step_count; i++) {
            if (s[i].kind == HRI_STEP_RUN) {
                s[i].kind = HRI_STEP_NET;
                return 1;
            }
        }
        return 0;
    default: /* it is over when it has begun, says the step, and then there is nothing to wait for */
        s[a].kind = HRI_STEP_RUN;
        return 1;
    }
}

/* Changes the plan in one way; 0: it has nothing to change. */
static int tamper(int kind, const hri_problem *p, hri_plan *plan, uint64_t *random) {
    const uint32_t a = some_net(p, plan, random);
    const uint32_t b = a < plan->step_count ? next_net(p, plan, a) : a;
    if (a == plan->step_count) {
        return 0;
    }
    hri_plan_step *s = plan->steps;
    if (kind == 0) { /* the hash says something else */
        plan->net_hash ^= (uint64_t)1 << test_random(random) % 64;
    } else if (kind == 1) { /* there is none */
        plan->net_hash = 0;
    } else if (kind == 2 && b < plan->step_count && s[a].op != s[b].op) { /* another order */
        const hri_plan_step kept = s[a];
        s[a] = s[b];
        s[b] = kept;
    } else if (kind == 3 && b < plan->step_count && s[a].op != s[b].op) { /* one of them twice */
        s[a].op = s[b].op;
    } else if (kind == 4) { /* its result is gone before anybody reads it */
        const hri_problem_op *op = &p->ops[s[a].op];
        const uint32_t x = plan->operands[s[a].first + op->in_count];
        if (!op->out_count || plan->buffers[x].death <= a + 1 || plan->buffers[x].birth > a) {
            return 0;
        }
        plan->buffers[x].death = a + 1;
    } else if (kind == 5) { /* bytes of another value are sent */
        const hri_problem_op *op = &p->ops[s[a].op];
        const uint32_t other = (uint32_t)(test_random(random) % plan->buffer_count);
        if (!op->in_count || plan->buffers[other].value == op->in[0] ||
            plan->operands[s[a].first] == other ||
            plan->buffers[other].value == plan->buffers[plan->operands[s[a].first]].value) {
            return 0;
        }
        plan->operands[s[a].first] = other;
    } else {
        return kind > 5 ? tamper_beside(kind, p, plan, a, random) : 0;
    }
    return 1;
}

/* Changes a copy of the plan in one way and gives it to the checker; 0: it has nothing to change. */
static int refuses(int kind, const hri_problem *p, const hri_plan *plan, uint64_t *random) {
    hri_prose why = {{0}};
    int changed = 0;
    for (int i = 0; i < TRIES && !changed; i++) {
        hri_plan *c = hri_plan_copy(plan);
        CHECK(c != NULL);
        changed = tamper(kind, p, c, random);
        if (changed && hri_plan_check(p, c, c->arena_bytes, &why) == HR_OK) {
            test_fail(__FILE__, __LINE__, "tampering of kind %d passes", kind);
        }
        hri_plan_destroy(c);
    }
    return changed;
}

TEST_TIMEOUT(plan, of_ranks_that_was_tampered_with_never_passes, 60) {
    uint64_t random = test_seed() + 11;
    int done[KINDS] = {0}, all = 0, honest = 0;
    for (int i = 0; i < MOST_PROBLEMS && all < KINDS * CHANGES; i++) {
        hri_problem p;
        hri_prose why = {{0}};
        random_problem(&random, (problem_shape)(i % SHAPE_COUNT), 3 + (uint32_t)i % 12, &p);
        mark(&p, &random);
        hri_plan *plan = plan_of(&p, 0);
        CHECK(plan != NULL && plan->net_hash != 0);
        CHECK(plan->net_hash == hri_plan_net_of(&p, plan).hash);
        CHECK_OK(hri_plan_check(&p, plan, plan->arena_bytes, &why));
        honest++;
        for (int kind = 0; kind < KINDS; kind++) {
            const int changed = done[kind] < CHANGES && refuses(kind, &p, plan, &random);
            done[kind] += changed;
            all += changed;
        }
        hri_plan_destroy(plan);
        hri_problem_deinit(&p);
    }
    for (int kind = 0; kind < KINDS; kind++) {
        CHECK_EQ(done[kind], CHANGES);
    }
    printf("    %d of %d changed plans refused, %d of %d as they were pass\n", all, KINDS * CHANGES,
           honest, honest);
}

/* Files keep it, and a file whose order was changed is refused. */
TEST(plan, of_ranks_is_written_with_what_it_exchanges) {
    uint64_t random = test_seed() + 12;
    hri_problem p, q;
    hri_plan *again = NULL;
    hri_prose why = {{0}};
    char *text = NULL, *plan_text = NULL;
    random_problem(&random, SHAPE_RESIDUAL, 8, &p);
    mark(&p, &random);
    CHECK_OK(hri_problem_print(&p, &text));
    CHECK_OK(hri_problem_parse(text, strlen(text), &q, &why));
    for (uint32_t i = 0; i < p.op_count; i++) {
        CHECK(p.ops[i].net == q.ops[i].net && p.ops[i].wire_bytes == q.ops[i].wire_bytes);
    }
    hri_plan *plan = plan_of(&q, 0);
    CHECK(plan != NULL);
    CHECK_OK(hri_plan_print(plan, &plan_text));
    CHECK_OK(hri_plan_parse(plan_text, strlen(plan_text), &q, &again, &why));
    CHECK(again->net_hash == plan->net_hash);
    char *net = strstr(plan_text, "\"net\"");
    CHECK(net != NULL);
    char *digit = strchr(net + 6, '"') + 1;
    *digit = *digit == '0' ? '1' : '0';
    hri_plan *bad = NULL;
    CHECK_STATUS(hri_plan_parse(plan_text, strlen(plan_text), &q, &bad, &why), HR_E_INVALID);
    CHECK(strstr(why.text, "exchange") != NULL);
    hri_plan_destroy(plan);
    hri_plan_destroy(again);
    hri_free(text);
    hri_free(plan_text);
    hri_problem_deinit(&p);
    hri_problem_deinit(&q);
}
