/* Cases, open and remembered, and what the whole batch says of a training.  fit_search.c looks for the fastest of them, fit_least.c
 * has the questions that an answer raises. */
#include "fit/fit.h"

#include <stdio.h>

#include "base/alloc.h"
#include "fit/fit_int.h"
#include "fit/past.h"
#include "plan/bound.h"

uint64_t hri_fit_effort(const hri_fit_job *job, uint32_t share) {
    static const uint64_t whole = 16000000; /* more finds next to nothing: tools/plan-figures */
    const uint64_t effort = (job->effort ? job->effort : whole) / (share ? share : 1);
    return effort ? effort : 1;
}

/* ---- cases, open and remembered ---- */

static void remember(hri_fit *f, const hri_fit_case *c) {
    hri_fit_fact *fact = NULL;
    for (uint32_t i = 0; i < f->fact_count; i++) {
        fact = f->facts[i].part == c->part ? &f->facts[i] : fact;
    }
    if (!fact) {
        fact = &f->facts[f->fact_count++];
    }
    *fact = (hri_fit_fact){.part = c->part,
                           .parts = c->parts,
                           .floor_bytes = c->floor_bytes,
                           .runtime_bytes = c->runtime_bytes,
                           .planning_bytes = c->planning_bytes,
                           .own_bytes = c->own_bytes};
    const hri_problem *p = &c->pieces[c->floor_piece].x.problem;
    if (c->floor_op < p->op_count) {
        const hri_problem_op *op = &p->ops[c->floor_op];
        snprintf(fact->floor_op, sizeof fact->floor_op, "%s", op->name);
        snprintf(fact->floor_kind, sizeof fact->floor_kind, "%s", op->kind);
        fact->floor_op_bytes = hri_problem_op_floor(p, c->floor_op);
    }
}

void hri_fit_remember_unopened(hri_fit *f, int64_t part) {
    const hri_fit_fact *whole = &f->facts[0]; /* parts have all that it has, and one graph more */
    const uint64_t least = whole->runtime_bytes + whole->own_bytes;
    hri_fit_rest(f);
    f->facts[f->fact_count++] =
        (hri_fit_fact){.part = part,
                       .parts = (uint32_t)((f->job.batch - 1) / part + 1),
                       .floor_bytes = least < whole->floor_bytes ? least : whole->floor_bytes,
                       .runtime_bytes = whole->runtime_bytes,
                       .planning_bytes = part < f->job.batch ? whole->planning_bytes : 0,
                       .own_bytes = whole->own_bytes,
                       .unopened = 1};
}

const hri_fit_fact *hri_fit_fact_of(const hri_fit *f, int64_t part) {
    for (uint32_t i = 0; i < f->fact_count; i++) {
        if (f->facts[i].part == part) {
            return &f->facts[i];
        }
    }
    return NULL;
}

void hri_fit_rest(hri_fit *f) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < f->case_count; i++) {
        if (f->cases[i]->users) {
            f->cases[count++] = f->cases[i];
        } else {
            hri_fit_case_close(f->cases[i]);
        }
    }
    if (f->job.count_records && count < f->case_count) {
        hri_trim(); /* a budget counts what is resident, whatever the heap keeps for later */
    }
    f->case_count = count;
}

hr_status hri_fit_case_get(hri_fit *f, int64_t part, hri_fit_case **out, hri_prose *why) {
    for (uint32_t i = 0; i < f->case_count; i++) {
        hri_fit_case *c = f->cases[i];
        if (c->part == part && (c->threads == 0 || !c->users)) {
            const hr_status status = hri_fit_case_set_threads(f, c, 0, why);
            if (status == HR_OK) {
                *out = c;
            }
            return status;
        }
    }
    hri_fit_rest(f);
    if (f->case_count == HRI_FIT_CASES ||
        (f->fact_count == HRI_FIT_CASES && !hri_fit_fact_of(f, part))) {
        return hri_prose_set(why, HR_E_RANGE, "too many ways to split the batch");
    }
    const hr_status status = hri_fit_case_open(&f->job, part, &f->cases[f->case_count], why);
    if (status == HR_OK) {
        *out = f->cases[f->case_count++];
        remember(f, *out);
    }
    return status;
}

void hri_fit_drop_others(hri_fit *f, const hri_fit_case *keep) {
    hri_fit_plans_deinit(&f->least);
    f->least_known = 0;
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
    hri_past_destroy(f->past);
    f->past = NULL;
    for (uint32_t i = 0; i < f->case_count; i++) {
        for (uint32_t k = 0; k < f->cases[i]->count; k++) {
            hri_fit_piece *piece = &f->cases[i]->pieces[k];
            hri_graph_problem_deinit(&piece->x);
            hri_free(piece->offsets);
            piece->offsets = NULL;
        }
    }
}

void hri_fit_detach(hri_fit *f, hri_fit_plans *plans) {
    if (plans->c) {
        plans->c->users--;
        plans->c = NULL;
        hri_fit_rest(f);
    }
}

hr_status hri_fit_attach(hri_fit *f, hri_fit_plans *plans, hri_prose *why) {
    hri_fit_case *c = NULL;
    if (plans->c) {
        return HR_OK;
    }
    hr_status status = hri_fit_case_get(f, plans->part, &c, why);
    if (status == HR_OK && plans->threads) {
        status = hri_fit_case_set_threads(f, c, plans->threads, why);
    }
    if (status == HR_OK) {
        plans->c = c;
        c->users++;
    }
    return status;
}

/* ---- opening ---- */

/* The batch is wanted in parts, and an op is in the way. */
static hr_status refuse_cut(const hri_fit *f, hri_prose *why) {
    return hri_prose_set(why, HR_E_INVALID,
                         "the batch cannot be split: %s depends on the whole batch; "
                         "`split_norm` allows it",
                         f->coupled_by.text);
}

/* Every replica has a part of its own to compute. */
static hr_status check_replicas(const hri_fit *f, hri_prose *why) {
    const int64_t part = hri_fit_part_at(f, 0), batch = f->job.batch;
    const int64_t parts = (batch - 1) / part + 1;
    if (f->job.replicas < 2 || parts >= f->job.replicas) {
        return HR_OK;
    }
    return hri_prose_set(why, HR_E_INVALID,
                         "%u replicas need at least as many micro-batches, but a batch of %lld "
                         "gives %lld of %lld samples",
                         f->job.replicas, (long long)batch, (long long)parts, (long long)part);
}

static hr_status look_at_whole(hri_fit *f, hri_prose *why) {
    hri_fit_case *whole = NULL;
    hri_fit_plans plans;
    hr_status status = hri_fit_case_get(f, f->job.batch, &whole, why);
    if (status != HR_OK) {
        return status;
    }
    f->coupled = whole->coupled_op != HRI_PROBLEM_NONE;
    if (f->coupled) {
        const hri_problem_op *op = &whole->pieces[0].x.problem.ops[whole->coupled_op];
        (void)hri_prose_set(&f->coupled_by, HR_OK, "%s (%s)", op->name, op->kind);
    }
    if (hri_fit_parts(&f->job) > 1 && f->job.batch > 1 && f->coupled && !f->job.allow_coupled) {
        return refuse_cut(f, why);
    }
    status = check_replicas(f, why);
    if (status != HR_OK) {
        return status;
    }
    status = hri_fit_case_plan(f, whole, 0, 0, &plans, why);
    if (status == HR_OK) {
        f->unplanned_bytes =
            hri_fit_peak(&f->job, whole, hri_fit_pages(&f->job, plans.plans[0]->unplanned_bytes));
        f->nominal_time_ns = f->base_time_ns = plans.time_ns;
        hri_fit_plans_deinit(&plans);
    }
    return status;
}

/* The case of the whole batch is open still. */
static void take_pace(const hri_fit *f) {
    for (uint32_t i = 0; f->job.pace && i < f->case_count; i++) {
        if (f->cases[i]->part == f->job.batch) {
            (void)f->job.pace(f->job.time_user, f->cases[i]->pieces[0].g);
        }
    }
}

static hr_status base_time_with(const hri_fit *f, hri_fit_case *whole, uint32_t threads,
                                double *out, hri_prose *why) {
    const hr_status status = hri_fit_case_set_threads(f, whole, threads, why);
    if (status == HR_OK) {
        *out = hri_base_time(&whole->pieces[0].x.problem);
    }
    return status;
}

/* Of the whole batch as the machine is. */
static hr_status find_base_time(hri_fit *f, hri_prose *why) {
    hri_fit_case *whole = NULL;
    double alone = 0;
    f->alone_ratio = 1;
    if (hri_fit_is_nominal(&f->job)) {
        f->base_time_ns = f->nominal_time_ns;
        return HR_OK;
    }
    hr_status status = hri_fit_case_get(f, f->job.batch, &whole, why);
    if (status == HR_OK && hri_fit_threads(f) > 1) {
        status = base_time_with(f, whole, 1, &alone, why);
    }
    if (status == HR_OK) {
        status = base_time_with(f, whole, hri_fit_threads(f), &f->base_time_ns, why);
    }
    if (status == HR_OK && alone > f->base_time_ns) {
        f->alone_ratio = alone / f->base_time_ns;
    }
    return status;
}

hr_status hri_fit_open(const hri_fit_job *job, hri_fit *out, hri_prose *why) {
    hri_fit *f = hri_calloc(1, sizeof *f);
    if (!f) {
        return HR_E_NOMEM_HOST;
    }
    f->job = *job;
    f->past =
        job->count_records ? NULL : hri_past_create(); /* on the host it would be of the budget */
    hr_status status = look_at_whole(f, why);
    if (status == HR_OK) {
        take_pace(f);
        status = find_base_time(f, why);
    }
    if (hri_fit_bounded(status)) {
        status = HR_OK;
        f->too_large = 1;
        hri_fit_rest(f);
    }
    if (status == HR_OK) {
        *out = *f;
    } else {
        hri_fit_close(f);
    }
    hri_free(f);
    return status;
}

hr_status hri_fit_set_times(hri_fit *f, double (*time_ns)(void *, const hri_sig *, uint32_t),
                            void *user, hri_prose *why) {
    hri_fit_rest(f);
    f->job.time_ns = time_ns;
    f->job.time_user = user;
    return find_base_time(f, why);
}

void hri_fit_close(hri_fit *f) {
    hri_fit_drop_others(f, NULL);
    hri_past_destroy(f->past);
    *f = (hri_fit){0};
}

int hri_fit_may_cut(const hri_fit *f) {
    return hri_fit_parts(&f->job) != 1 && f->job.batch > 1 && (f->job.allow_coupled || !f->coupled);
}

int64_t hri_fit_part_at(const hri_fit *f, uint32_t at) {
    const int64_t batch = f->job.batch;
    const int64_t parts = hri_fit_parts(&f->job);
    if (parts > 1 && batch > 1) { /* as asked for */
        const int64_t k = parts < batch ? parts : batch;
        return at == 0 ? (batch + k - 1) / k : 0;
    }
    if (at == 0) {
        return batch;
    }
    const int64_t k = at < 62 ? (int64_t)1 << at : INT64_MAX;
    return hri_fit_may_cut(f) && k / 2 < batch ? (batch - 1) / k + 1 : 0;
}
