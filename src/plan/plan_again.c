/* Searches for a little less memory where one for the budget itself ended badly.
 *
 * Close to the least that fits, a search may end in a dead end at one limit and not at the limits next to it, and what is left
 * then takes many times as long.  A plan for less memory fits as well: where the first takes more than twice what its bound
 * says, some of these are made, until one does not.  Nothing depends on clocks, and most plans are made once. */
#include "plan/plan_make.h"

enum { TRIES = 3, FIRST_PART = 64 }; /* less by a 64th of the budget, then a 32nd, then a 16th */

static int is_poor(const hri_plan *plan) {
    return plan->time_ns > 2 * plan->bound_time_ns;
}

/* May there be others?  A memo belongs to one search, and with short memory there is none for two plans. */
static int may_try(const hri_plan_options *o) {
    return o && o->budget_bytes && !o->any && !o->memo && !o->short_memory;
}

hr_status hri_plan_make(const hri_problem *p, const hri_plan_options *options, hri_plan **out,
                        int *impossible, hri_prose *why) {
    hri_plan *best = NULL;
    hr_status status = hri_plan_make_once(p, options, &best, impossible, why);
    for (uint32_t i = 0; i < TRIES && status == HR_OK && may_try(options) && is_poor(best); i++) {
        hri_plan_options less = *options;
        hri_plan *plan = NULL;
        hri_prose ignored = {{0}};
        less.budget_bytes -= less.budget_bytes / (FIRST_PART >> i);
        status = hri_plan_make_once(p, &less, &plan, NULL, &ignored);
        if (status == HR_OK && plan->time_ns < best->time_ns) {
            plan->bound_time_ns = best->bound_time_ns; /* of the budget that was asked for */
            hri_plan_destroy(best);
            best = plan;
            plan = NULL;
        }
        hri_plan_destroy(plan);
        status = status == HR_E_NO_PLAN ? HR_OK : status;
    }
    if (status == HR_OK) {
        *out = best;
    } else {
        hri_plan_destroy(best);
    }
    return status;
}
