/* Looking around; see plan_answer.h. */
#include "cli/common/plan_answer.h"

#include <stdio.h>
#include <string.h>

enum { LOOK = 32 }; /* what is beside the question gets a small share of the effort */

/* ---- names and parts ---- */

static void name_peak(const hri_problem *p, const hri_plan *plan, hri_plan_answer *out) {
    const hri_plan_step *s =
        plan->peak_step < plan->step_count ? &plan->steps[plan->peak_step] : NULL;
    snprintf(out->peak_op, sizeof out->peak_op, "%s",
             !s                        ? ""
             : s->kind == HRI_STEP_RUN ? p->ops[s->op].name
                                       : hri_step_name(s->kind));
}

static void name_floor(const hri_problem *p, uint32_t op, hri_plan_answer *out) {
    if (op < p->op_count) {
        snprintf(out->floor_op, sizeof out->floor_op, "%s", p->ops[op].name);
        snprintf(out->floor_kind, sizeof out->floor_kind, "%s", p->ops[op].kind);
        out->floor_op_bytes = hri_problem_op_floor(p, op);
    } else {
        snprintf(out->floor_op, sizeof out->floor_op, "the inputs");
    }
}

static void sum_persistent(const hri_fit_case *c, hri_plan_answer *out) {
    const hri_fit_piece *piece = &c->pieces[0]; /* it has every persistent value */
    const hri_problem *p = &piece->x.problem;
    out->weights_bytes = out->states_bytes = 0;
    for (uint32_t v = 0; v < p->value_count; v++) {
        if (p->values[v].role == HRI_ROLE_PERSISTENT) {
            const int weight = piece->g->values[p->values[v].id].kind == HR_VALUE_PARAM;
            *(weight ? &out->weights_bytes : &out->states_bytes) += p->values[v].room_bytes;
        }
    }
    out->others_bytes = c->bottom_bytes - c->own_bytes;
    out->constants_bytes = c->own_bytes - out->weights_bytes - out->states_bytes;
}

void hri_plan_answer_describe(const hri_plan_job *j, const hri_fit_plans *plans,
                              const hri_plan *plan, hri_plan_answer *out) {
    if (plans && plans->c) {
        const hri_fit_case *c = plans->c;
        name_peak(&c->pieces[plans->peak_piece].x.problem, plans->plans[plans->peak_piece], out);
        sum_persistent(c, out);
    } else if (plan) {
        name_peak(&j->problem, plan, out);
        out->weights_bytes = plan->persistent_bytes;
    }
}

static hr_status describe_floor(hri_plan_job *j, hri_plan_answer *out, hri_prose *why) {
    if (!j->model) {
        name_floor(&j->problem, j->reference->floor_op, out);
        return HR_OK;
    }
    const hri_fit_case *c;
    const hr_status status = hri_fit_floor(&j->fit, &c, why);
    if (status == HR_OK) {
        name_floor(&c->pieces[c->floor_piece].x.problem, c->floor_op, out);
        out->may_cut = hri_fit_may_cut(&j->fit);
        out->coupled = j->fit.cases[0]->coupled;
    }
    return status;
}

/* ---- other budgets ---- */

static hr_status add_choice(hri_plan_job *j, uint64_t budget, uint32_t share, hri_plan_row *row,
                            hri_prose *why) {
    const hr_status status = hri_plan_job_search(j, budget, share, row, NULL, NULL, why);
    row->budget_bytes = budget;
    return status == HR_E_NO_PLAN ? HR_OK : status;
}

static hr_status find_choices(hri_plan_job *j, hri_plan_answer *out, hri_prose *why) {
    static const unsigned percents[] = {100, 75, 50, 33, 25};
    hr_status status = HR_OK;
    for (size_t i = 0; i < sizeof percents / sizeof percents[0] && status == HR_OK; i++) {
        const uint64_t budget =
            j->unplanned_bytes / 100 * percents[i] + j->unplanned_bytes % 100 * percents[i] / 100;
        if (budget >= j->floor_bytes) {
            status = add_choice(j, budget, LOOK, &out->choices[out->choice_count++], why);
        }
    }
    if (status == HR_OK) {
        hri_plan_row least;
        status = hri_plan_job_smallest(j, LOOK, &least, why);
        if (status == HR_OK) {
            out->choices[out->choice_count++] = least;
        }
    }
    return status;
}

static hr_status find_points(hri_plan_job *j, hri_plan_answer *out, hri_prose *why) {
    enum { STEPS = 15 };
    hri_plan_row least, most;
    hr_status status = hri_plan_job_smallest(j, LOOK, &least, why);
    if (status == HR_OK) {
        status = hri_plan_job_search(j, 0, 1, &most, NULL, NULL, why);
    }
    if (status != HR_OK) {
        return status;
    }
    out->points[out->point_count++] = least;
    for (int i = 1; i < STEPS && status == HR_OK && most.peak_bytes > least.peak_bytes; i++) {
        /* closer together near the floor, where the curve is steep */
        const double at = (double)(i * i) / (STEPS * STEPS);
        const uint64_t budget =
            least.peak_bytes + (uint64_t)(at * (double)(most.peak_bytes - least.peak_bytes));
        hri_plan_row row;
        status = add_choice(j, budget, LOOK, &row, why);
        if (status == HR_OK && row.fits) {
            const hri_plan_row *last = &out->points[out->point_count - 1];
            if (row.time_ns > last->time_ns) { /* what fits less fits here: a curve never rises */
                row = *last;
                row.budget_bytes = budget;
            }
            out->points[out->point_count++] = row;
        }
    }
    if (status == HR_OK && most.peak_bytes > least.peak_bytes) {
        most.budget_bytes = most.peak_bytes;
        out->points[out->point_count++] = most;
    }
    return status;
}

/* ---- ways out ---- */

static hri_plan_way *next_way(hri_plan_answer *out) {
    return out->way_count < HRI_PLAN_WAYS ? &out->ways[out->way_count] : NULL;
}

/* The same training with other options: kept when it fits. */
static hr_status try_way(const hri_plan_job *j, const hri_fit_job *job, const char *flags,
                         const char *text, hri_plan_answer *out, hri_prose *why) {
    hri_plan_job other = {
        .flags = j->flags, .threads = j->threads, .base_time_ns = j->base_time_ns};
    hri_plan_way *way = next_way(out);
    hri_fit_plans plans;
    if (!way) {
        return HR_OK;
    }
    hr_status status = hri_fit_open(job, &other.fit, why);
    if (status == HR_OK) {
        status = hri_fit_search(&other.fit, j->budget_bytes, LOOK, &plans, why);
        if (status == HR_OK) {
            *way = (hri_plan_way){.text = text, .batch = job->batch};
            snprintf(way->flags, sizeof way->flags, "%s", flags);
            way->row.budget_bytes = j->budget_bytes;
            hri_plan_row_of(&other, &plans, &way->row);
            hri_fit_plans_deinit(&plans);
            out->way_count++;
        }
    }
    hri_fit_close(&other.fit);
    return status == HR_E_NO_PLAN ? HR_OK : status;
}

/* The options that the program would read with another optimizer; 0 when they do not go together. */
static int with_sgd(const hri_plan_job *j, hr_train_options *out) {
    hri_plan_flags flags = *j->flags;
    flags.optimizer = HR_OPTIMIZER_SGD;
    return hri_plan_train_options(&flags, out, NULL) == HR_OK;
}

/* "--options clip=1,momentum=0": what was given stays. */
static const char *without_momentum(const hri_plan_job *j, hr_train_options *options, char *buf,
                                    size_t size) {
    const char *given = j->flags->options && *j->flags->options ? j->flags->options : NULL;
    options->momentum = 0;
    options->nesterov = false;
    snprintf(buf, size, "--options %s%smomentum=0", given ? given : "", given ? "," : "");
    return buf;
}

static hr_status try_other_options(hri_plan_job *j, hri_plan_answer *out, hri_prose *why) {
    hr_status status = HR_OK;
    hri_fit_job job = j->job;
    if (out->coupled && !job.allow_coupled && job.batch > 1) {
        job.allow_coupled = 1;
        job.parts = 0;
        status =
            try_way(j, &job, "--ghost-norm --micro-batches auto",
                    "the batch in parts; batch norm then sees parts: another function", out, why);
    } else if (job.parts == 1 && job.batch > 1) {
        job.parts = 0;
        status = try_way(j, &job, "--micro-batches auto", "the batch in parts", out, why);
    }
    if (status == HR_OK && j->job.options.precision == HR_PRECISION_F32) {
        job = j->job;
        job.options.precision = HR_PRECISION_BF16;
        status = try_way(j, &job, "--precision bf16", "products in half the bytes", out, why);
    }
    job = j->job;
    if (status == HR_OK && job.options.optimizer != HR_OPTIMIZER_SGD) {
        if (with_sgd(j, &job.options)) {
            status = try_way(j, &job, "--optimizer sgd", "one state a weight", out, why);
        }
    } else if (status == HR_OK && job.options.momentum > 0) {
        char flags[96];
        status = try_way(j, &job, without_momentum(j, &job.options, flags, sizeof flags),
                         "no state of the optimizer", out, why);
    }
    return status;
}

static uint64_t whole_mib(uint64_t bytes) {
    return (bytes + (1 << 20) - 1) >> 20;
}

/* A way whose row is known, with a budget to go with it. */
static void add_with_budget(hri_plan_answer *out, const char *flags, const char *text,
                            const hri_plan_row *row, int64_t batch) {
    hri_plan_way *way = next_way(out);
    if (way) {
        *way = (hri_plan_way){.text = text, .row = *row, .batch = batch};
        const uint64_t mib = whole_mib(row->peak_bytes);
        if (row->peak_bytes >= 1 << 20) {
            way->row.budget_bytes = mib << 20;
            snprintf(way->flags, sizeof way->flags, "%s--budget %lluMiB", flags,
                     (unsigned long long)mib);
        } else {
            way->row.budget_bytes = row->peak_bytes;
            snprintf(way->flags, sizeof way->flags, "%s--budget %llu", flags,
                     (unsigned long long)row->peak_bytes);
        }
        out->way_count++;
    }
}

/* Less is asked for, and the budget rises to what that needs: for budgets that nothing fits. */
static hr_status try_smaller(const hri_plan_job *j, const hri_fit_job *job, const char *flags,
                             const char *text, hri_plan_answer *out, hri_prose *why) {
    hri_plan_job other = {
        .flags = j->flags, .threads = j->threads, .base_time_ns = j->base_time_ns};
    hri_fit_plans plans;
    uint64_t bytes;
    hr_status status = hri_fit_open(job, &other.fit, why);
    if (status == HR_OK) {
        status = hri_fit_smallest(&other.fit, LOOK, &bytes, &plans, why);
    }
    if (status == HR_OK) {
        hri_plan_row row = {0};
        hri_plan_row_of(&other, &plans, &row);
        if (whole_mib(row.peak_bytes) < whole_mib(out->row.peak_bytes)) {
            add_with_budget(out, flags, text, &row, job->batch);
        }
        hri_fit_plans_deinit(&plans);
    }
    hri_fit_close(&other.fit);
    return status;
}

static hr_status try_everything_smaller(hri_plan_job *j, hri_plan_answer *out, hri_prose *why) {
    hr_status status = HR_OK;
    hri_fit_job job = j->job;
    if (job.batch > 1) {
        job.batch = 1;
        job.parts = 1;
        status =
            try_smaller(j, &job, "--batch 1 ", "a single sample, and a larger budget", out, why);
    }
    job = j->job;
    if (status == HR_OK && job.options.optimizer != HR_OPTIMIZER_SGD) {
        if (with_sgd(j, &job.options)) {
            status = try_smaller(j, &job, "--optimizer sgd ",
                                 "one state a weight, and a larger budget", out, why);
        }
    } else if (status == HR_OK && job.options.momentum > 0) {
        char flags[96];
        without_momentum(j, &job.options, flags, sizeof flags - 1);
        strcat(flags, " ");
        status =
            try_smaller(j, &job, flags, "no state of the optimizer, and a larger budget", out, why);
    }
    return status;
}

static hr_status find_ways(hri_plan_job *j, hri_plan_answer *out, hri_prose *why) {
    hr_status status = HR_OK;
    /* The smallest budget first: it is always there. */
    add_with_budget(out, "", "the smallest budget found", &out->row, j->job.batch);
    if (j->model && out->largest_batch > 0 && out->largest_batch < j->job.batch) {
        char flags[48];
        hri_fit_job job = j->job;
        job.batch = out->largest_batch;
        job.parts = 1;
        snprintf(flags, sizeof flags, "--batch %lld", (long long)out->largest_batch);
        status = try_way(j, &job, flags, "the largest batch that fits whole", out, why);
    }
    if (status == HR_OK && j->model) {
        status = try_other_options(j, out, why);
    }
    if (status == HR_OK && j->model && out->way_count < 2) {
        status = try_everything_smaller(j, out, why);
    }
    if (status == HR_OK && out->way_count < 2) {
        hri_plan_row row;
        status = hri_plan_job_search(j, 0, LOOK, &row, NULL, NULL, why);
        if (status == HR_OK) {
            add_with_budget(out, "", "nothing is computed again", &row, j->job.batch);
        }
    }
    return status;
}

/* ---- the whole ---- */

static hr_status look_around(hri_plan_job *j, hri_plan_answer *out, hri_prose *why) {
    hr_status status = HR_OK;
    if (j->flags->choices || !out->fits) {
        const uint64_t budget = j->budget_bytes ? j->budget_bytes : j->device_bytes;
        if (j->model && budget) {
            status = hri_fit_largest(&j->job, budget, &out->largest_batch, why);
        }
        if (status == HR_OK && !out->fits) {
            status = hri_plan_job_smallest(j, LOOK, &out->row, why);
            status = status == HR_OK ? find_ways(j, out, why) : status;
        }
    }
    if (status == HR_OK && j->flags->choices) {
        status = find_choices(j, out, why);
    }
    if (status == HR_OK && (j->flags->curve || j->flags->svg)) {
        status = find_points(j, out, why);
    }
    return status;
}

/* With room for comfort beside the plan, or without.  Whether there is a plan at all does not depend on it. */
static hr_status search_both(hri_plan_job *j, hri_plan_row *row, hri_fit_plans *plans,
                             hri_plan **plan, hri_prose *why) {
    hr_status status = HR_E_NO_PLAN;
    if (j->comfort_bytes && j->budget_bytes > j->comfort_bytes + j->floor_bytes) {
        status =
            hri_plan_job_search(j, j->budget_bytes - j->comfort_bytes, 1, row, plans, plan, why);
        row->budget_bytes = j->budget_bytes;
    }
    return status == HR_E_NO_PLAN
               ? hri_plan_job_search(j, j->budget_bytes, 1, row, plans, plan, why)
               : status;
}

hr_status hri_plan_answer_make(hri_plan_job *j, hri_plan_answer *out, hri_fit_plans *plans,
                               hri_plan **plan, hri_prose *why) {
    *out = (hri_plan_answer){.largest_batch = -1};
    hr_status status = search_both(j, &out->row, plans, plan, why);
    out->fits = status == HR_OK;
    if (status != HR_OK && status != HR_E_NO_PLAN) {
        return status;
    }
    status = describe_floor(j, out, why);
    if (status == HR_OK && out->fits) {
        hri_plan_answer_describe(j, plans, plan ? *plan : NULL, out);
    }
    out->impossible = j->budget_bytes && j->budget_bytes < j->floor_bytes;
    return status == HR_OK ? look_around(j, out, why) : status;
}
