/* Placing a schedule with what goes together: see place.h.
 *
 * Three things bring ops next to one another in a schedule that is already chosen, in this order: neighbours that are one launch
 * (hri_schedule_join), updates (hri_schedule_gather), and what runs again (hri_schedule_gather_again).  Each holds some values
 * longer, and what is too much for the placement is tried again within a lower limit, or left. */
#include "base/hash.h"
#include "plan/place.h"

enum { JOINS = 2 };   /* tries to bring neighbours together */
enum { GATHERS = 3 }; /* and others */

/* A schedule that is being placed. */
typedef struct together {
    hri_schedule *s;
    const hri_plan_options *o;
    uint64_t limit;  /* that the schedule keeps to */
    uint64_t look;   /* effort of each placement */
    uint64_t joined; /* the limit that neighbours went together within */
} together;

/* The schedule again, with what goes together; `gathered`: the limit of updates, 0: they stay where they are. */
static hr_status bring_back(const together *x, uint64_t gathered) {
    uint32_t moved;
    hr_status status = hri_schedule_run(x->s);
    x->s->limit = x->joined;
    status = status == HR_OK ? hri_schedule_join(x->s, &moved) : status;
    if (status == HR_OK && gathered) {
        x->s->limit = gathered;
        status = hri_schedule_gather(x->s, &moved);
    }
    return status;
}

/* Of the entries in their order: where a lower limit moves the same ones, they would be placed as before. */
static uint64_t hash_of(const hri_schedule *s) {
    hri_hasher h;
    hri_hasher_init(&h, 1);
    for (uint32_t e = 0; e < s->entry_count; e++) {
        hri_hasher_add_u64(&h, (uint64_t)s->entries[e].op << 16 |
                                   (uint64_t)s->entries[e].again << 8 | s->entries[e].kind);
    }
    return hri_hasher_get(&h).lo;
}

typedef hr_status gather_fn(hri_schedule *s, uint32_t *moved);

/* The same plan with ops of one kind next to one another, where that takes hardly more memory.  What is too much for the
 * placement is tried again with less of it.  `gathered`: the limit of updates before (0: they stayed).  *within is the limit of those that are gathered here, 0 when they are not. */
static hr_status gather(const together *x, gather_fn *bring, uint64_t gathered, hri_plan **plan,
                        uint64_t *within) {
    const uint64_t arena = (*plan)->arena_bytes;
    const uint64_t budget = x->o->budget_bytes ? x->o->budget_bytes : UINT64_MAX;
    const uint64_t most = arena + arena / 1024 < budget ? arena + arena / 1024 : budget;
    uint64_t limit = x->s->peak_bytes, over = 0, last = 0;
    hr_status status = HR_OK;
    *within = 0;
    for (int tries = 0; tries < GATHERS && status == HR_OK; tries++) {
        hri_plan *better = NULL;
        uint32_t moved = 0;
        x->s->limit = limit;
        status = bring(x->s, &moved);
        if (status != HR_OK || !moved) {
            return status;
        }
        const uint64_t hash = hash_of(x->s);
        status = hash != last ? hri_place(x->s, x->o, x->look, &better) : HR_OK;
        if (better && better->arena_bytes <= most) {
            hri_plan_destroy(*plan);
            *plan = better;
            *within = limit;
            return HR_OK;
        }
        over = better ? 2 * (better->arena_bytes - most) : over;
        last = hash;
        hri_plan_destroy(better);
        if (status != HR_OK || over >= limit) {
            return status;
        }
        limit -= over;
        status = bring_back(x, gathered);
    }
    return status;
}

/* Updates, and then what runs again. */
static hr_status gather_both(const together *x, hri_plan **plan) {
    uint64_t updates, again;
    const hr_status status = gather(x, hri_schedule_gather, 0, plan, &updates);
    return status == HR_OK && (*plan)->again_count > 1
               ? gather(x, hri_schedule_gather_again, updates, plan, &again)
               : status;
}

/* Neighbours that go together within this limit; 0: none. */
static hr_status join(together *x, uint64_t within, uint32_t *moved) {
    *moved = 0;
    x->joined = within;
    if (x->o->any) {
        return HR_OK;
    }
    x->s->limit = within;
    const hr_status status = hri_schedule_join(x->s, moved);
    x->s->limit = x->limit;
    return status;
}

hr_status hri_place_together(hri_schedule *s, const hri_plan_options *options, uint64_t limit,
                             uint64_t effort, hri_plan **out) {
    together x = {.s = s, .o = options, .limit = limit, .look = effort};
    const uint64_t budget = options->budget_bytes;
    uint64_t less = 0, over = 0, last = 0; /* `last`: of what the try before placed */
    hr_status status = HR_OK;
    for (int try = 0; status == HR_OK; try++) {
        hri_plan *plan = NULL;
        uint32_t moved;
        status = join(&x, try < JOINS && less < limit ? limit - less : 0, &moved);
        const uint64_t hash = moved ? hash_of(s) : 0;
        if (status == HR_OK && (!moved || hash != last)) {
            status = hri_place(s, options, effort, &plan);
            over = status == HR_OK && budget && plan->arena_bytes > budget
                       ? plan->arena_bytes - budget
                       : 0;
        }
        if (status != HR_OK || !over || !moved) {
            *out = plan;
            return status == HR_OK && !over && !options->any ? gather_both(&x, out) : status;
        }
        hri_plan_destroy(plan);
        less += over;
        last = hash;
        status = hri_schedule_run(s);
    }
    return status;
}
