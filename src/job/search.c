/* Looking for plans: of a model through fit/fit.h, of a problem here; see plan_job.h. */
#include "job/plan_job.h"

enum {
    LONGER = 8, /* looks that get more effort */
    LAST = 2    /* and those that get half of it */
};

void hri_plan_row_of(const hri_plan_job *j, const hri_fit_plans *plans, hri_plan_row *row) {
    const uint64_t arenas = plans->arenas ? plans->arenas : 1;
    *row = (hri_plan_row){.fits = true,
                          .budget_bytes = row->budget_bytes,
                          .peak_bytes = plans->peak_bytes,
                          .runtime_bytes = plans->runtime_bytes,
                          .persistent_bytes = arenas * plans->bottom_bytes,
                          .arena_bytes = arenas * (plans->arena_bytes - plans->bottom_bytes),
                          .live_peak_bytes = arenas * plans->live_bytes,
                          .input_bytes = arenas * plans->input_bytes,
                          .host_peak_bytes = j->host_runtime_bytes + plans->other_bytes,
                          .planning_bytes = plans->planning_bytes,
                          .threads = j->threads ? plans->threads : 0,
                          .net_bytes = plans->net_bytes,
                          .net_count = plans->net_count,
                          .net_ns = plans->net_ns,
                          .net_exposed_ns = plans->net_exposed_ns,
                          .replica_bytes = arenas > 1 ? plans->arena_bytes : 0,
                          .micro_batches = plans->parts,
                          .part = plans->part,
                          .recomputed_ops = plans->again_count,
                          .offloaded_bytes = plans->copied_bytes,
                          .spill_bytes = j->job.spill ? arenas * plans->other_bytes : 0,
                          .time_ns = plans->time_ns,
                          .time_ratio = plans->time_ns / j->base_time_ns,
                          .bound_ratio = plans->bound_time_ns / j->base_time_ns};
    if (plans->threads == 0 && j->fit.nominal_time_ns > 0) { /* times of the nominal machine */
        const double alone = j->threads && j->fit.alone_ratio > 1 ? j->fit.alone_ratio : 1;
        row->time_ratio = alone * plans->time_ns / j->fit.nominal_time_ns;
        row->bound_ratio = alone * plans->bound_time_ns / j->fit.nominal_time_ns;
        row->time_ns = row->time_ratio * j->base_time_ns;
    }
    if (j->threads) { /* on the host the peak of the process is the peak of the device */
        row->host_peak_bytes = plans->peak_bytes;
    }
}

void hri_plan_job_set_threads(hri_plan_job *j, const hri_fit_plans *plans) {
    if (j->threads && plans->plans[0]) {
        const uint32_t each = plans->threads ? plans->threads : 1;
        hri_threads_shrink(j->threads, plans->arenas > 1 ? plans->arenas : each);
    }
}

static void row_of_plan(const hri_plan_job *j, const hri_plan *plan, uint64_t budget,
                        hri_plan_row *row) {
    *row = (hri_plan_row){.fits = true,
                          .budget_bytes = budget,
                          .peak_bytes = plan->arena_bytes,
                          .persistent_bytes = plan->persistent_bytes,
                          .arena_bytes = plan->arena_bytes - plan->persistent_bytes,
                          .live_peak_bytes = plan->live_bytes,
                          .host_peak_bytes = plan->other_bytes,
                          .micro_batches = 1,
                          .recomputed_ops = plan->again_count,
                          .offloaded_bytes = plan->copied_bytes,
                          .time_ns = plan->time_ns,
                          .time_ratio = plan->time_ns / j->base_time_ns,
                          .bound_ratio = plan->bound_time_ns / j->base_time_ns};
}

void hri_plan_row_of_either(const hri_plan_job *j, const hri_fit_plans *plans, const hri_plan *plan,
                            hri_plan_row *row) {
    if (j->model) {
        hri_plan_row_of(j, plans, row);
    } else {
        row_of_plan(j, plan, 0, row);
    }
}

static hr_status make_plan(const hri_plan_job *j, uint64_t budget, uint32_t share,
                           hri_plan_memo *memo, int memo_only, hri_plan **out, hri_prose *why) {
    const uint64_t effort = j->o.effort ? j->o.effort : HRI_PLAN_EFFORT;
    const hri_plan_options o = {.budget_bytes = budget,
                                .memo = memo,
                                .any = memo != NULL,
                                .memo_only = (uint8_t)memo_only,
                                .no_offload = j->o.no_offload != 0,
                                .other_budget_bytes = j->host_budget_bytes,
                                .effort = effort / share + 1};
    return hri_plan_make(&j->problem, &o, out, NULL, why);
}

/* A plan that takes less becomes j->least. */
static hr_status probe(hri_plan_job *j, uint64_t budget, uint32_t share, hri_plan_memo *memo,
                       int memo_only, int *found, hri_prose *why) {
    hri_plan *plan = NULL;
    const hr_status asked = hri_plan_job_tick(j);
    if (asked != HR_OK) {
        return asked;
    }
    const hr_status status = make_plan(j, budget, share, memo, memo_only, &plan, why);
    *found = status == HR_OK && (!j->least || plan->arena_bytes < j->least->arena_bytes);
    if (*found) {
        hri_plan_destroy(j->least);
        j->least = plan;
    } else {
        hri_plan_destroy(plan);
    }
    return status == HR_E_NO_PLAN ? HR_OK : status;
}

/* A problem without a model: as fit/fit_least.c goes down for one with. */
static hr_status find_smallest_problem(hri_plan_job *j, hri_plan_row *row, hri_prose *why) {
    const uint64_t floor = j->floor_bytes, step = floor / 128 + 1;
    uint64_t low = floor;
    hri_plan_memo memo = {0};
    int found = 0;
    hr_status status = probe(j, 0, HRI_FIT_LOOK, &memo, 0, &found, why);
    if (status == HR_OK) {
        status = probe(j, low, HRI_FIT_LOOK, &memo, 0, &found, why);
    }
    while (status == HR_OK && j->least->arena_bytes > low + step) {
        const uint64_t middle = low + (j->least->arena_bytes - low) / 2;
        status = probe(j, middle, HRI_FIT_LOOK, &memo, 0, &found, why);
        low = found ? low : middle;
    }
    uint64_t down = status == HR_OK ? (j->least->arena_bytes - floor) / 4 : 0;
    for (int tries = 0; tries < LONGER && status == HR_OK && down >= step; tries++) {
        status =
            probe(j, j->least->arena_bytes - down, HRI_FIT_LOOK / LONGER, &memo, 1, &found, why);
        down = found ? down : down / 2;
    }
    down = status == HR_OK ? (j->least->arena_bytes - floor) / 4 : 0;
    for (int tries = 0; tries < LAST && status == HR_OK && down > floor / 8; tries++) {
        status = probe(j, j->least->arena_bytes - down, 2, &memo, 0, &found, why);
        down = found ? (j->least->arena_bytes - floor) / 4 : down / 2;
    }
    hri_plan_memo_deinit(&memo);
    if (status == HR_OK) {
        row_of_plan(j, j->least, j->least->arena_bytes, row);
    }
    return status;
}

static hr_status find_smallest(hri_plan_job *j, hri_plan_row *row, hri_prose *why) {
    uint64_t bytes;
    hri_fit_plans plans;
    if (!j->model) {
        return find_smallest_problem(j, row, why);
    }
    const hr_status status = hri_fit_smallest(&j->fit, &bytes, &plans, why);
    if (status == HR_OK) {
        *row = (hri_plan_row){.budget_bytes = bytes};
        hri_plan_row_of(j, &plans, row);
    }
    return status;
}

hr_status hri_plan_job_smallest(hri_plan_job *j, hri_plan_row *row, hri_prose *why) {
    j->finds_smallest = true;
    const hr_status status = j->smallest.fits ? HR_OK : find_smallest(j, &j->smallest, why);
    j->finds_smallest = false;
    if (status == HR_OK) {
        *row = j->smallest;
    }
    return status;
}

uint64_t hri_plan_job_known_smallest(const hri_plan_job *j) {
    return j->smallest.fits && !j->fit.least_open ? j->smallest.peak_bytes : 0;
}

/* Looks of two lengths, and where none finds a plan the smallest there is: as for a model (fit/fit.h), so that
 * nothing at or above the smallest budget is refused. */
static hr_status search_problem(hri_plan_job *j, uint64_t budget, uint32_t share, hri_plan_row *row,
                                hri_plan **out, hri_prose *why) {
    hri_plan *plan = NULL;
    hri_plan_row least;
    hr_status status = make_plan(j, budget, share, NULL, 0, &plan, why);
    if (status == HR_E_NO_PLAN && share < HRI_FIT_LOOK) {
        status = make_plan(j, budget, HRI_FIT_LOOK, NULL, 0, &plan, why);
    }
    if (status == HR_E_NO_PLAN && budget >= j->floor_bytes) {
        status = hri_plan_job_smallest(j, &least, why);
        if (status == HR_OK && least.peak_bytes <= budget) {
            plan = hri_plan_copy(j->least);
            status = plan ? HR_OK : HR_E_NOMEM_HOST;
        } else if (status == HR_OK) {
            status = hri_prose_set(why, HR_E_NO_PLAN, "no plan was found within the budget");
        }
    }
    if (status != HR_OK) {
        return status;
    }
    row_of_plan(j, plan, budget, row);
    if (out) {
        *out = plan;
    } else {
        hri_plan_destroy(plan);
    }
    return HR_OK;
}

hr_status hri_plan_job_search(hri_plan_job *j, uint64_t budget_bytes, uint32_t share,
                              hri_plan_row *row, hri_fit_plans *plans, hri_plan **plan,
                              hri_prose *why) {
    hri_plan_row found = {.budget_bytes = budget_bytes};
    hri_fit_plans got = {0};
    hr_status status;
    if (!j->model) {
        status = search_problem(j, budget_bytes, share, &found, plan, why);
    } else {
        status = hri_fit_search(&j->fit, budget_bytes, share, &got, why);
        if (status == HR_OK) {
            hri_plan_row_of(j, &got, &found);
        }
    }
    if (status == HR_OK || status == HR_E_NO_PLAN) {
        *row = found;
    }
    if (status == HR_OK && plans && j->model) {
        *plans = got;
    } else {
        hri_fit_plans_deinit(&got);
    }
    return status;
}
