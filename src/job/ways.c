/* Trying one change after the other; see plan_ways.h. */
#include "job/ways.h"

#include <stdio.h>
#include <string.h>

enum { LOOK = HRI_FIT_LOOK, TRIES = 6 };

typedef struct search {
    hri_plan_job *j;
    const hri_plan_road *road;
    hri_plan_answer *out;
    hri_prose *why;
} search;

static hri_way_change change(const char *key, const char *value) {
    hri_way_change c = {.key = key};
    snprintf(c.value, sizeof c.value, "%s", value);
    return c;
}

/* ---- one way ---- */

static int is_any(const char *key, const char *const *keys) {
    for (; *keys; keys++) {
        if (!strcmp(key, *keys)) {
            return 1;
        }
    }
    return 0;
}

static void add(search *s, const hri_way_change *changes, size_t count, const char *text,
                const hri_plan_row *row, int64_t batch) {
    static const char *const others[] = {"batch",     "split_norm", "precision", "moments",
                                         "optimizer", "momentum",   "nesterov",  NULL};
    if (s->out->way_count == HRI_PLAN_WAYS) {
        return;
    }
    hri_plan_way *way = &s->out->ways[s->out->way_count++];
    *way =
        (hri_plan_way){.text = text, .row = *row, .batch = batch, .change_count = (uint32_t)count};
    for (size_t i = 0; i < count; i++) {
        way->changes[i] = changes[i];
        way->needs_more |= !strcmp(changes[i].key, "budget");
        way->changes_result |= is_any(changes[i].key, others);
    }
}

/* What has no plan is no way, and neither is what there is no room to plan. */
static hr_status without_bound(hr_status status) {
    return status == HR_E_NO_PLAN || (status == HR_E_NOMEM_HOST && hri_alloc_bound_hit()) ? HR_OK
                                                                                          : status;
}

/* Options that do not go together are no way, and no failure. */
static hr_status open_job(search *s, const hri_way_change *changes, size_t count, hri_fit_job *job,
                          hri_plan_job *other, bool *good) {
    hri_prose inner = {""};
    hr_status status = s->road->job(s->road->user, changes, count, job, &inner);
    *other =
        (hri_plan_job){.o = s->j->o, .threads = s->j->threads, .base_time_ns = s->j->base_time_ns};
    if (status == HR_OK) {
        status = hri_fit_open(job, &other->fit, &inner);
    }
    const bool bounded = status == HR_E_NOMEM_HOST && hri_alloc_bound_hit();
    *good = status == HR_OK && !other->fit.too_large;
    if (bounded || other->fit.too_large) { /* no room to plan it in */
        hri_fit_close(&other->fit);
        return HR_OK;
    }
    return status == HR_E_NOMEM_HOST ? hri_prose_set(s->why, status, "%s", inner.text) : HR_OK;
}

/* The same job with these changes, kept when it fits the budget; *fits (may be NULL) says so. */
static hr_status try_changes(search *s, const hri_way_change *changes, size_t count,
                             const char *text, bool *fits) {
    hri_plan_job other;
    hri_fit_job job;
    hri_fit_plans plans;
    bool good = false;
    if (fits) {
        *fits = false;
    }
    hr_status status = open_job(s, changes, count, &job, &other, &good);
    if (status != HR_OK || !good) {
        return status;
    }
    other.fit.enough_bytes = s->j->budget_bytes;
    status = hri_fit_search(&other.fit, s->j->budget_bytes, LOOK, &plans, s->why);
    if (status == HR_OK) {
        hri_plan_row row = {.budget_bytes = s->j->budget_bytes};
        hri_plan_row_of(&other, &plans, &row);
        hri_fit_plans_deinit(&plans);
        if (fits) {
            *fits = true;
        }
        if (text) {
            add(s, changes, count, text, &row, job.batch);
        }
    }
    hri_fit_close(&other.fit);
    return without_bound(status);
}

static void print_budget(uint64_t bytes, char *buf, size_t size, uint64_t *shown) {
    const uint64_t mib = (bytes + (1 << 20) - 1) >> 20;
    if (bytes >= 1 << 20) {
        *shown = mib << 20;
        snprintf(buf, size, "%lluMiB", (unsigned long long)mib);
    } else {
        *shown = bytes;
        snprintf(buf, size, "%llu", (unsigned long long)bytes);
    }
}

/* Adds a way whose row is known, with the budget that goes with it. */
static void add_with_budget(search *s, const hri_way_change *changes, size_t count,
                            const char *text, const hri_plan_row *row, int64_t batch) {
    char budget[32];
    hri_way_change all[HRI_WAY_CHANGES];
    hri_plan_row with = *row;
    for (size_t i = 0; i < count; i++) {
        all[i] = changes[i];
    }
    print_budget(row->peak_bytes, budget, sizeof budget, &with.budget_bytes);
    all[count] = change("budget", budget);
    add(s, all, count + 1, text, &with, batch);
}

/* Less is asked for, and the budget rises to what that needs: for budgets that nothing fits. */
static hr_status try_with_budget(search *s, const hri_way_change *changes, size_t count,
                                 const char *text) {
    hri_plan_job other;
    hri_fit_job job;
    bool good = false;
    hr_status status = open_job(s, changes, count, &job, &other, &good);
    if (status != HR_OK || !good) {
        return status;
    }
    hri_plan_row row = {0};
    other.model = s->j->model;
    status = hri_plan_job_smallest(&other, &row, s->why);
    if (status == HR_OK && !other.fit.least_open &&
        row.peak_bytes >> 20 < s->out->row.peak_bytes >> 20) {
        add_with_budget(s, changes, count, text, &row, job.batch);
    }
    hri_fit_close(&other.fit);
    return without_bound(status);
}

/* ---- which there are ---- */

/* The largest number of an option that fits, from `first` down by halves; `most` tries. */
static hr_status try_numbers(search *s, const char *key, int64_t first, const char *text) {
    hr_status status = HR_OK;
    bool fits = false;
    int64_t n = first;
    for (int i = 0; i < TRIES && n >= 1 && status == HR_OK && !fits; i++) {
        char number[24];
        snprintf(number, sizeof number, "%lld", (long long)n);
        const hri_way_change one = change(key, number);
        status = try_changes(s, &one, 1, text, &fits);
        n = i == TRIES - 2 || n == 1 ? (n == 1 ? 0 : 1) : n / 2;
    }
    return status;
}

static hr_status try_batches(search *s) {
    const hri_plan_job *j = s->j;
    hr_status status = HR_OK;
    if (j->job.batch > 1) { /* where the batch may be split, single samples were tried */
        const int64_t most = s->out->largest_batch > 0 ? s->out->largest_batch : 1;
        status =
            try_numbers(s, "batch", most < j->o.batch ? most : j->o.batch - 1, "smaller batch");
    }
    if (status == HR_OK && s->road->has_input && j->job.evaluate) {
        const int64_t now = j->job.evaluate_samples ? j->job.evaluate_samples : j->job.batch;
        const hri_way_change one = change("val_batch", "1");
        bool fits = false;
        status = now > 1 ? try_changes(s, &one, 1, NULL, &fits) : HR_OK;
        if (status == HR_OK && fits) {
            status = try_numbers(s, "val_batch", now / 2, "smaller validation batch");
        }
    }
    return status;
}

static hr_status try_splits(search *s) {
    const hri_plan_job *j = s->j;
    if (s->out->coupled && !j->job.allow_coupled && j->job.batch > 1) {
        const hri_way_change changes[] = {change("split_norm", "1"), change("micro_batches", "0")};
        return try_changes(s, changes, 2,
                           "micro-batches; batch norm sees one at a time, which changes the "
                           "function",
                           NULL);
    }
    const hri_way_change any = change("micro_batches", "0");
    return j->job.parts && j->job.batch > 1 ? try_changes(s, &any, 1, "micro-batches", NULL)
                                            : HR_OK;
}

/* The changes that leave the optimizer less to keep; how many there are. */
static size_t lighter_optimizer(const search *s, hri_way_change *out, const char **text) {
    const hr_train_options *o = &s->j->job.options;
    size_t count = 0;
    if (o->optimizer == HR_OPTIMIZER_ADAFACTOR) {
        return 0; /* it has next to none */
    }
    if (o->optimizer != HR_OPTIMIZER_SGD) {
        out[count++] = change("optimizer", "sgd");
        *text = "one state per parameter";
    } else if (o->momentum > 0) {
        out[count++] = change("momentum", "0");
        *text = "no optimizer state";
        if (o->nesterov && s->road->has_nesterov) {
            out[count++] = change("nesterov", "false");
        }
    }
    return count;
}

static hr_status try_options(search *s) {
    const hri_plan_job *j = s->j;
    hri_way_change changes[HRI_WAY_CHANGES];
    const char *text = NULL;
    hr_status status = HR_OK;
    if (j->job.options.precision == HR_PRECISION_F32) {
        const hri_way_change half = change("precision", "bf16");
        status = try_changes(s, &half, 1, "matmuls in half the bytes", NULL);
    }
    const size_t count = lighter_optimizer(s, changes, &text);
    if (status == HR_OK && count && j->job.options.moments != HR_MOMENTS_8BIT) {
        const hri_way_change small = change("moments", "8bit");
        status = try_changes(s, &small, 1, "optimizer state in 8 bits", NULL);
    }
    return status == HR_OK && count ? try_changes(s, changes, count, text, NULL) : status;
}

/* Other memory than the device's. */
static hr_status try_elsewhere(search *s) {
    const hri_plan_job *j = s->j;
    hr_status status = HR_OK;
    if (j->threads && !j->job.spill) {
        const hri_way_change file = change("spill", ".");
        status = try_changes(s, &file, 1, "values offloaded to a file in this directory", NULL);
    } else if (j->job.no_offload && !j->threads) {
        const hri_way_change host = change("no_offload", "0");
        status = try_changes(s, &host, 1, "values offloaded to host memory", NULL);
    }
    if (status == HR_OK && s->road->has_input && j->data_least_bytes &&
        j->data_least_bytes < j->data_bytes) {
        char size[32];
        snprintf(size, sizeof size, "%lluKiB", (unsigned long long)(j->data_least_bytes >> 10));
        const hri_way_change less = change("data_budget_bytes", size);
        status = try_changes(s, &less, 1, "less memory for the input pipeline", NULL);
    }
    return status;
}

static hr_status try_larger_budgets(search *s) {
    hri_way_change changes[HRI_WAY_CHANGES];
    const char *text = NULL;
    hr_status status = HR_OK;
    if (s->j->job.batch > 1) {
        const hri_way_change single = change("batch", "1");
        status = try_with_budget(s, &single, 1, "one sample per batch and a larger budget");
    }
    const size_t count = lighter_optimizer(s, changes, &text);
    return status == HR_OK && count
               ? try_with_budget(s, changes, count, "less optimizer state and a larger budget")
               : status;
}

hr_status hri_plan_ways_find(hri_plan_job *j, hri_plan_answer *out, hri_prose *why) {
    search s = {.j = j, .road = j->road, .out = out, .why = why};
    /* The smallest budget first: it is always there. */
    hr_status status = HR_OK;
    add_with_budget(&s, NULL, 0, "smallest budget found", &out->row, j->job.batch);
    if (!j->model || j->road->budget_only) {
        return HR_OK;
    }
    hr_status (*const tries[])(search *) = {try_batches, try_splits, try_options, try_elsewhere};
    for (size_t i = 0; i < sizeof tries / sizeof tries[0] && status == HR_OK; i++) {
        status = tries[i](&s);
    }
    return status == HR_OK && out->way_count < 2 ? try_larger_budgets(&s) : status;
}
