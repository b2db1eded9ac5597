/* Questions beside the answer: the floor, the smallest budget, the largest batch.  All of the nominal machine. */
#include "base/alloc.h"
#include "fit/fit_int.h"

enum { LARGEST_BATCH = 1 << 20, LONGER = 8, LAST = 2 };

/* ---- the smallest budget ---- */

hr_status hri_fit_floor(hri_fit *f, const hri_fit_fact **out, hri_prose *why) {
    const hri_fit_fact *best = NULL;
    for (uint32_t at = 0; hri_fit_part_at(f, at); at++) {
        const int64_t part = hri_fit_part_at(f, at);
        const hri_fit_fact *fact = NULL;
        for (uint32_t i = 0; i < f->fact_count; i++) {
            fact = f->facts[i].part == part ? &f->facts[i] : fact;
        }
        if (!fact) {
            hri_fit_case *c = NULL;
            const hr_status status = hri_fit_case_get(f, part, &c, why);
            if (hri_fit_bounded(status) && f->fact_count && f->fact_count < HRI_FIT_CASES) {
                hri_fit_remember_unopened(f, part);
            } else if (status != HR_OK) {
                return status;
            }
            fact = &f->facts[f->fact_count - 1];
        }
        best = !best || hri_fit_least_of(fact) < hri_fit_least_of(best) ? fact : best;
    }
    *out = best;
    return HR_OK;
}

/* The finest step in which a smallest budget is looked for: less than one percent, but one page at least. */
static uint64_t step_of(const hri_fit *f, uint64_t bytes) {
    const uint64_t page = f->job.page_bytes ? f->job.page_bytes : 1;
    return bytes / 128 > page ? bytes / 128 : page;
}

typedef struct descent {
    hri_fit *f;
    hri_fit_case *c;
    hri_fit_memos memos;
    hri_fit_plans *best;
} descent;

/* Nobody asks for less. */
static int is_enough(const descent *d) {
    return d->best->plans[0] && d->best->peak_bytes <= d->f->enough_bytes;
}

/* Plans of the case for a budget take the place of the best, detached, when they take less. */
static hr_status probe(descent *d, uint64_t budget, uint32_t share, int *found, hri_prose *why) {
    hri_fit_plans plans;
    const uint64_t effort = hri_fit_effort(&d->f->job, share);
    const hr_status status =
        hri_fit_case_plan_on(d->f, d->c, budget, effort, &d->memos, &plans, why);
    *found = status == HR_OK && (!d->best->plans[0] || plans.peak_bytes < d->best->peak_bytes);
    if (status != HR_OK) {
        return status == HR_E_NO_PLAN ? HR_OK : status;
    }
    plans.c->users--;
    plans.c = NULL;
    if (*found) {
        hri_fit_plans_deinit(d->best);
        *d->best = plans;
    } else {
        hri_fit_plans_deinit(&plans);
    }
    return HR_OK;
}

/* Down from above by halves of what is left to the floor, each way going on from the last one that was found; then from
 * the best one alone, with more effort, in steps that shrink. */
static hr_status descend(descent *d, uint64_t floor, hri_prose *why) {
    const uint64_t least = step_of(d->f, floor);
    uint64_t low = floor; /* not tried, or tried in vain */
    int found;
    hr_status status = probe(d, low, HRI_FIT_LOOK, &found, why);
    if (status != HR_OK || found) {
        return status;
    }
    while (status == HR_OK && d->best->peak_bytes > low + least && !is_enough(d)) {
        const uint64_t gap = d->best->peak_bytes - low;
        const uint64_t near = low + (gap > low / 4 ? gap / 4 : gap / 2); /* mostly it is */
        const uint64_t most = d->best->peak_bytes - least;
        const uint64_t middle = near < most ? near : most;
        if (middle == low && low > floor) {
            break; /* tried in vain, from the same beginning */
        }
        status = probe(d, middle, HRI_FIT_LOOK, &found, why);
        low = found ? low : middle;
    }
    if (status == HR_OK && d->best->peak_bytes > low + 1 && !is_enough(d)) { /* the last page */
        status = probe(d, d->best->peak_bytes - 1, HRI_FIT_LOOK, &found, why);
    }
    d->memos.only = 1;
    uint64_t step = (d->best->peak_bytes - floor) / 4;
    for (int tries = 0; tries < LONGER && status == HR_OK && step >= least && !is_enough(d);
         tries++) {
        status = probe(d, d->best->peak_bytes - step, HRI_FIT_LOOK / LONGER, &found, why);
        step = found ? step : step / 2;
    }
    d->memos.only = 0; /* far from the floor: nearly as hard as the answer itself is looked for */
    step = (d->best->peak_bytes - floor) / 4;
    for (int tries = 0; tries < LAST && status == HR_OK && step > floor / 8 && !is_enough(d);
         tries++) {
        status = probe(d, d->best->peak_bytes - step, 2, &found, why);
        step = found ? (d->best->peak_bytes - floor) / 4 : step / 2;
    }
    return status;
}

/* The smallest plans are the first that so little memory allowed, however slow: goes on from them, in as much. */
static hr_status quicken(descent *d, hri_prose *why) {
    const hri_fit_plans *best = d->best;
    hri_fit_plans plans;
    hri_fit_memos from = {.only = 1};
    if (!hri_fit_choices(best, d->c->count, &from)) {
        return HR_OK;
    }
    const hr_status status =
        hri_fit_case_plan_on(d->f, d->c, best->peak_bytes,
                             hri_fit_effort(&d->f->job, HRI_FIT_LOOK / 2), &from, &plans, why);
    if (status != HR_OK) { /* nor where memory is too short for another */
        return status == HR_E_NO_PLAN || hri_fit_bounded(status) ? HR_OK : status;
    }
    if (plans.time_ns < best->time_ns && plans.peak_bytes <= best->peak_bytes) {
        plans.c->users--;
        plans.c = NULL;
        hri_fit_plans_deinit(d->best);
        *d->best = plans;
    } else {
        hri_fit_plans_deinit(&plans);
    }
    return HR_OK;
}

void hri_fit_memos_deinit(hri_fit_memos *memos) {
    for (uint32_t i = 0; i < HRI_FIT_PIECES; i++) {
        hri_plan_memo_deinit(&memos->of[i]);
    }
    *memos = (hri_fit_memos){.any = 0};
}

/* Is it one of the ways in which the batch may be cut?  The whole batch is looked at too when parts are asked for. */
static int may_have(const hri_fit *f, const hri_fit_fact *fact) {
    for (uint32_t at = 0; hri_fit_part_at(f, at); at++) {
        if (hri_fit_part_at(f, at) == fact->part) {
            return 1;
        }
    }
    return 0;
}

/* Cases by rising floor: the first gives a bound, and another is looked at only where it could be better by a step. */
static hr_status find_least(hri_fit *f, hri_fit_plans *best, hri_prose *why) {
    uint8_t done[HRI_FIT_CASES] = {0};
    for (;;) {
        uint32_t at = f->fact_count;
        for (uint32_t i = 0; i < f->fact_count; i++) {
            at = may_have(f, &f->facts[i]) && !done[i] &&
                         (at == f->fact_count ||
                          hri_fit_least_of(&f->facts[i]) < hri_fit_least_of(&f->facts[at]))
                     ? i
                     : at;
        }
        if (at == f->fact_count || (best->plans[0] && best->peak_bytes <= f->enough_bytes) ||
            (best->plans[0] &&
             hri_fit_least_of(&f->facts[at]) + step_of(f, best->peak_bytes) > best->peak_bytes)) {
            return HR_OK;
        }
        done[at] = 1;
        const hri_fit_fact fact = f->facts[at];
        if (fact.unopened) {
            f->least_open = 1;
            continue;
        }
        descent d = {.f = f, .best = best, .memos = {.any = 1}};
        const uint64_t before = best->plans[0] ? best->peak_bytes : UINT64_MAX;
        int found = 1;
        hr_status status = hri_fit_case_get(f, fact.part, &d.c, why);
        if (status == HR_OK) { /* first without a bound, or a step under what is known */
            const uint64_t budget =
                best->plans[0] ? best->peak_bytes - step_of(f, best->peak_bytes) : 0;
            status = probe(&d, budget, HRI_FIT_LOOK, &found, why);
        }
        if (status == HR_OK && found) {
            status = descend(&d, hri_fit_least_of(&fact), why);
        }
        if (status == HR_OK && best->plans[0] && best->peak_bytes < before) {
            status = quicken(&d, why);
        }
        hri_fit_memos_deinit(&d.memos);
        if (hri_fit_bounded(status)) { /* what was found before it is kept */
            f->least_open = 1;
            hri_fit_rest(f);
        } else if (status != HR_OK) {
            return status;
        }
    }
}

hr_status hri_fit_smallest(hri_fit *f, uint64_t *out_bytes, hri_fit_plans *out, hri_prose *why) {
    if (!f->least_known) {
        const hri_fit_fact *floor;
        hri_fit_plans best = {0};
        hr_status status = hri_fit_floor(f, &floor, why); /* every case is known then */
        if (status == HR_OK) {
            status = find_least(f, &best, why);
        }
        if (status == HR_OK && !best.plans[0]) {
            status = hri_prose_set(why, HR_E_NO_PLAN,
                                   "finding the smallest budget takes more memory than there is");
        }
        if (status != HR_OK) {
            hri_fit_plans_deinit(&best);
            return status;
        }
        f->least = best;
        f->least_known = 1;
    }
    *out_bytes = f->least.peak_bytes;
    if (out) {
        *out = f->least;
        for (uint32_t i = 0; i < HRI_FIT_PIECES; i++) {
            out->plans[i] = NULL;
        }
    }
    return HR_OK;
}

/* ---- the largest batch ---- */

typedef enum fit_level { UNDER_FLOOR, NOT_FOUND, FITS } fit_level;

/* Does a batch fit whole?  With `plan` 0 the floor alone decides. */
static hr_status fits_whole(const hri_fit_job *job, int64_t batch, uint64_t budget, int plan,
                            fit_level *out, hri_prose *why) {
    hri_fit_case *c = NULL;
    hri_fit_plans plans;
    hri_fit *f = hri_calloc(1, sizeof *f);
    if (!f) {
        return HR_E_NOMEM_HOST;
    }
    f->job = *job;
    f->job.time_ns = NULL; /* nothing is compiled for a mere question */
    f->job.batch = batch;
    f->job.parts = 1;
    hr_status status = hri_fit_case_get(f, batch, &c, why);
    if (hri_fit_bounded(status)) {
        *out = UNDER_FLOOR;
        status = HR_OK;
    } else if (status == HR_OK) {
        *out = c->floor_bytes > budget || c->planning_bytes > budget ? UNDER_FLOOR : FITS;
        if (*out == FITS && plan) {
            status = hri_fit_case_plan(f, c, budget, hri_fit_effort(job, 48), &plans, why);
            if (status == HR_OK) {
                hri_fit_plans_deinit(&plans);
            } else if (status == HR_E_NO_PLAN) {
                *out = NOT_FOUND;
                status = HR_OK;
            }
        }
    }
    hri_fit_close(f);
    hri_free(f);
    return status;
}

hr_status hri_fit_largest(const hri_fit_job *job, uint64_t budget_bytes, int64_t *out,
                          hri_prose *why) {
    int64_t low = 0, high = 1; /* low is above the floor, high under it */
    fit_level level = FITS;
    hr_status status = HR_OK;
    while (status == HR_OK && high < LARGEST_BATCH) {
        status = fits_whole(job, high, budget_bytes, 0, &level, why);
        if (status != HR_OK || level == UNDER_FLOOR) {
            break;
        }
        low = high;
        high *= 2;
    }
    while (status == HR_OK && high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        status = fits_whole(job, middle, budget_bytes, 0, &level, why);
        low = level == UNDER_FLOOR ? low : middle;
        high = level == UNDER_FLOOR ? middle : high;
    }
    /* The floor is what is possible; what is found may be a little less. */
    int64_t good = 0, bad = low + 1;
    int64_t at = low;
    for (int tries = 0; status == HR_OK && tries < 6 && bad - good > 1 + good / 32; tries++) {
        status = fits_whole(job, at, budget_bytes, 1, &level, why);
        good = level == FITS ? at : good;
        bad = level == FITS ? bad : at;
        at = good + (bad - good) / 2;
    }
    if (status == HR_OK) {
        *out = good * (job->replicas > 1 ? job->replicas : 1);
    }
    return status;
}
