/* Searches for a little less memory where one for the budget itself ended badly.
 *
 * Close to the least that fits, a search may end in a dead end at one limit and not at the limits next to it, and what is left
 * then takes longer, at times many times as long.  A plan for less memory fits as well: where the first is far above its bound,
 * plans are made for the next smaller of some round amounts, and the fastest is taken.  Budgets near one another look at the same
 * amounts, so a larger one has no slower plan because of a worse search.  Nothing depends on clocks, and most plans are made
 * once. */
#include "plan/plan_make.h"

enum { TRIES = 3, PARTS = 64 }; /* amounts are so many to a power of two */

static int is_poor(const hri_plan *plan) {
    return plan->time_ns > 1.3 * plan->bound_time_ns;
}

/* The next smaller amount. */
static uint64_t less_than(uint64_t bytes) {
    uint64_t step = 1;
    while (bytes / step >= 2 * PARTS) {
        step *= 2;
    }
    return (bytes - 1) / step * step;
}

/* May there be others?  A memo or a start belongs to one search, and with short memory there is none for two plans. */
static int may_try(const hri_plan_options *o) {
    return o && o->budget_bytes && !o->any && !o->memo && !o->start && !o->short_memory;
}

hr_status hri_plan_make(const hri_problem *p, const hri_plan_options *options, hri_plan **out,
                        int *impossible, hri_prose *why) {
    hri_plan *best = NULL;
    uint64_t amount = options ? options->budget_bytes : 0;
    hr_status status = hri_plan_make_once(p, options, &best, impossible, why);
    for (uint32_t i = 0; i < TRIES && status == HR_OK && may_try(options) && is_poor(best); i++) {
        hri_plan_options less = *options;
        hri_plan *plan = NULL;
        hri_prose ignored = {{0}};
        amount = less_than(amount);
        less.budget_bytes = amount;
        status = hri_plan_make_once(p, &less, &plan, NULL, &ignored);
        if (status == HR_OK && plan->time_ns < best->time_ns) {
            plan->bound_time_ns = best->bound_time_ns; /* of the budget that was asked for */
            hri_plan_destroy(best);
            best = plan;
            plan = NULL;
        }
        hri_plan_destroy(plan);
        if (status == HR_E_NO_PLAN) {
            status = HR_OK;
            break; /* nor for less */
        }
    }
    if (status == HR_OK) {
        *out = best;
    } else {
        hri_plan_destroy(best);
    }
    return status;
}
