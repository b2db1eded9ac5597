/* The search over cases: the batch whole, halved, halved again, each in its forms; and the questions that an answer
 * raises. */
#include "train/fit.h"

#include "base/alloc.h"
#include "train/fit_int.h"

enum { LARGEST_BATCH = 1 << 20 };
/* Cutting a batch pays only where computing again would cost more than this. */
static const double good_enough = 1.02;

static uint64_t effort_of(const hri_fit *f, uint32_t share) {
    static const uint64_t whole = 16000000; /* more finds next to nothing: tools/plan-figures */
    const uint64_t effort = (f->job.effort ? f->job.effort : whole) / (share ? share : 1);
    return effort ? effort : 1;
}

hr_status hri_fit_open(const hri_fit_job *job, hri_fit *out, hri_prose *why) {
    hri_fit f = {.job = *job};
    const hri_fit_case *whole;
    hr_status status = hri_fit_case_get(&f, job->batch, 0, &whole, why);
    if (status == HR_OK) {
        status = hri_fit_case_plan(&f, whole, 0, 0, &f.reference, why);
    }
    if (status != HR_OK) {
        hri_fit_close(&f);
        return status;
    }
    f.unplanned_bytes =
        hri_fit_peak(job, whole, hri_fit_pages(job, f.reference.plans[0]->unplanned_bytes));
    *out = f;
    return HR_OK;
}

void hri_fit_close(hri_fit *f) {
    hri_fit_drop_others(f, NULL);
    *f = (hri_fit){0};
}

void hri_fit_drop_others(hri_fit *f, const hri_fit_case *keep) {
    hri_fit_plans_deinit(&f->reference);
    uint32_t count = 0;
    for (uint32_t i = 0; i < f->case_count; i++) {
        if (f->cases[i] == keep) {
            f->cases[count++] = f->cases[i];
        } else {
            hri_fit_case_close(f->cases[i]);
        }
    }
    f->case_count = count;
}

void hri_fit_release(hri_fit *f) {
    for (uint32_t i = 0; i < f->case_count; i++) {
        for (uint32_t k = 0; k < f->cases[i]->count; k++) {
            hri_fit_piece *piece = &f->cases[i]->pieces[k];
            hri_graph_problem_deinit(&piece->x);
            hri_free(piece->offsets);
            piece->offsets = NULL;
        }
    }
}

int hri_fit_may_cut(const hri_fit *f) {
    return f->job.parts != 1 && f->job.batch > 1 && (f->job.allow_coupled || !f->cases[0]->coupled);
}

hr_status hri_fit_case_get(hri_fit *f, int64_t part, int slices, const hri_fit_case **out,
                           hri_prose *why) {
    for (uint32_t i = 0; i < f->case_count; i++) {
        if (f->cases[i]->part == part && f->cases[i]->slices == slices) {
            *out = f->cases[i];
            return HR_OK;
        }
    }
    if (f->case_count == HRI_FIT_CASES) {
        return hri_prose_set(why, HR_E_RANGE, "too many ways to cut the batch");
    }
    const hr_status status =
        hri_fit_case_open(&f->job, part, slices, &f->cases[f->case_count], why);
    if (status == HR_OK) {
        *out = f->cases[f->case_count++];
    }
    return status;
}

/* Sizes of parts to try, the largest first: number `at`, or 0 when there are no more. */
static int64_t part_at(const hri_fit *f, uint32_t at) {
    const int64_t batch = f->job.batch;
    if (f->job.parts > 1) { /* as asked for */
        const int64_t k = f->job.parts < batch ? f->job.parts : batch;
        return at == 0 ? (batch + k - 1) / k : 0;
    }
    if (at == 0) {
        return batch;
    }
    const int64_t k = at < 62 ? (int64_t)1 << at : INT64_MAX;
    return hri_fit_may_cut(f) && k / 2 < batch ? (batch - 1) / k + 1 : 0;
}

/* Tries one case; a faster one than *best takes its place.  *result: what came of it. */
typedef enum result { WITHOUT_PLAN, SLOWER, BETTER } result;

static hr_status try_case(hri_fit *f, int64_t part, int slices, uint64_t budget, uint64_t effort,
                          hri_fit_plans *best, result *out, hri_prose *why) {
    const hri_fit_case *c = NULL;
    hri_fit_plans plans;
    *out = WITHOUT_PLAN;
    hr_status status = hri_fit_case_get(f, part, slices, &c, why);
    if (status == HR_OK) {
        status = hri_fit_case_plan(f, c, budget, effort, &plans, why);
    }
    if (status != HR_OK) {
        return status == HR_E_NO_PLAN ? HR_OK : status;
    }
    if (!best->c || plans.time_ns < best->time_ns) {
        hri_fit_plans_deinit(best);
        *best = plans;
        *out = BETTER;
    } else {
        *out = SLOWER;
        hri_fit_plans_deinit(&plans);
    }
    return HR_OK;
}

static int is_good(const hri_fit *f, const hri_fit_plans *best) {
    return best->c && best->time_ns <= good_enough * f->reference.time_ns;
}

/* The case in each of its forms.  *out: the best that came of it. */
static hr_status try_forms(hri_fit *f, int64_t part, uint64_t budget, uint64_t effort,
                           hri_fit_plans *best, result *out, hri_prose *why) {
    const int forms = f->cases[0]->has_scores ? 2 : 1;
    hr_status status = HR_OK;
    *out = WITHOUT_PLAN;
    for (int slices = 0; slices < forms && status == HR_OK && !is_good(f, best); slices++) {
        result one;
        status = try_case(f, part, slices, budget, effort, best, &one, why);
        *out = one > *out ? one : *out;
    }
    return status;
}

/* A short look at every case, from the whole batch on, until cutting further only makes it slower. */
static hr_status look_at_all(hri_fit *f, uint64_t budget, uint64_t effort, hri_fit_plans *best,
                             hri_prose *why) {
    hr_status status = HR_OK;
    result last = WITHOUT_PLAN;
    for (uint32_t at = 0; part_at(f, at) && status == HR_OK && last != SLOWER; at++) {
        if (is_good(f, best)) {
            break;
        }
        status = try_forms(f, part_at(f, at), budget, effort, best, &last, why);
    }
    return status;
}

/* On a GPU trying a case loads kernels, so what was measured for an earlier one is no longer all. */
static void measure_again(hri_fit *f) {
    for (uint32_t i = 0; f->job.engine && i < f->case_count; i++) {
        hri_fit_case_measure(&f->job, f->cases[i]);
    }
}

static int outgrown(const hri_fit *f, const hri_fit_plans *plans, uint64_t budget_bytes) {
    return f->job.engine && budget_bytes &&
           plans->c->runtime_bytes + plans->arena_bytes > budget_bytes;
}

hr_status hri_fit_search(hri_fit *f, uint64_t budget_bytes, uint32_t share, hri_fit_plans *out,
                         hri_prose *why) {
    /* A short look at every case, then the whole effort for the one that is taken.  Both are kept in play: a search is
     * not always better for being longer. */
    const uint64_t effort = effort_of(f, share), look = share > 1 ? effort : effort / 4 + 1;
    hri_fit_plans best = {0};
    measure_again(f);
    if (f->job.parts > 1 && !hri_fit_may_cut(f)) {
        return hri_prose_set(why, HR_E_NO_PLAN, "an op couples the samples of a batch");
    }
    hr_status status = look_at_all(f, budget_bytes, look, &best, why);
    if (status == HR_OK && !best.c && look < effort) {
        status = look_at_all(f, budget_bytes, effort, &best, why);
    }
    if (status == HR_OK && !best.c) {
        return hri_prose_set(why, HR_E_NO_PLAN, "no plan was found within the budget");
    }
    if (status == HR_OK && look < effort && best.again_count) {
        result ignored;
        status =
            try_case(f, best.c->part, best.c->slices, budget_bytes, effort, &best, &ignored, why);
    }
    measure_again(f);
    if (status == HR_OK && outgrown(f, &best, budget_bytes)) {
        const hri_fit_case *c = best.c;
        hri_fit_plans_deinit(&best);
        status = hri_fit_case_plan(f, c, budget_bytes, effort, &best, why);
    }
    if (status != HR_OK) {
        hri_fit_plans_deinit(&best);
        return status;
    }
    best.peak_bytes = hri_fit_peak(&f->job, best.c, best.arena_bytes);
    best.budget_bytes = budget_bytes;
    *out = best;
    return HR_OK;
}

hr_status hri_fit_floor(hri_fit *f, const hri_fit_case **out, hri_prose *why) {
    const hri_fit_case *best = NULL;
    for (uint32_t at = 0; part_at(f, at); at++) {
        const hri_fit_case *c = NULL; /* a head in slices never needs more than one that is kept */
        const hr_status status =
            hri_fit_case_get(f, part_at(f, at), f->cases[0]->has_scores, &c, why);
        if (status != HR_OK) {
            return status;
        }
        if (!best || c->floor_bytes < best->floor_bytes) {
            best = c;
        }
    }
    *out = best;
    return HR_OK;
}

/* Upwards from the floor in growing steps, then back down by halves. */
hr_status hri_fit_smallest(hri_fit *f, uint32_t share, uint64_t *out_bytes, hri_fit_plans *out,
                           hri_prose *why) {
    const hri_fit_case *c;
    hri_fit_plans best = {0};
    hr_status status = hri_fit_floor(f, &c, why);
    if (status != HR_OK) {
        return status;
    }
    uint64_t low = c->floor_bytes, high = 0, step = c->floor_bytes / 32 + 1;
    for (uint64_t budget = low; !high && status == HR_OK; budget += step, step *= 2) {
        status = hri_fit_search(f, budget, share, &best, why);
        high = status == HR_OK ? budget : 0;
        low = status == HR_OK ? low : budget;
        status = status == HR_E_NO_PLAN ? HR_OK : status;
    }
    while (status == HR_OK && high - low > c->floor_bytes / 32 + f->job.page_bytes) {
        hri_fit_plans plans;
        const uint64_t middle = low + (high - low) / 2;
        status = hri_fit_search(f, middle, share, &plans, why);
        if (status == HR_OK) {
            hri_fit_plans_deinit(&best);
            best = plans;
            high = middle;
        } else if (status == HR_E_NO_PLAN) {
            low = middle;
            status = HR_OK;
        }
    }
    if (status == HR_OK) {
        *out_bytes = best.peak_bytes;
    }
    if (status == HR_OK && out) {
        *out = best;
    } else {
        hri_fit_plans_deinit(&best);
    }
    return status;
}

/* ---- the largest batch ---- */

typedef enum fit_level { UNDER_FLOOR, NOT_FOUND, FITS } fit_level;

/* Does a batch fit whole?  With `plan` 0 the floor alone decides. */
static hr_status fits_whole(const hri_fit_job *job, int64_t batch, uint64_t budget, int plan,
                            fit_level *out, hri_prose *why) {
    hri_fit f = {.job = *job};
    const hri_fit_case *c = NULL;
    hri_fit_plans plans;
    f.job.time_ns = job->engine ? NULL : job->time_ns; /* no GPU compiles for a mere question */
    f.job.batch = batch;
    f.job.parts = 1;
    hr_status status = hri_fit_case_get(&f, batch, 1, &c, why);
    if (status == HR_OK) {
        *out = c->floor_bytes > budget ? UNDER_FLOOR : FITS;
        if (*out == FITS && plan) {
            status = hri_fit_case_plan(&f, c, budget, effort_of(&f, 48), &plans, why);
            if (status == HR_OK) {
                hri_fit_plans_deinit(&plans);
            } else if (status == HR_E_NO_PLAN) {
                *out = NOT_FOUND;
                status = HR_OK;
            }
        }
    }
    hri_fit_close(&f);
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
        *out = good;
    }
    return status;
}
