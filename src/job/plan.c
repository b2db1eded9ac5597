/* The doors of headroom/job.h and the front of headroom/plan.h: options in, a plan out; see plan_object.h. */
#include <headroom/job.h>
#include <headroom/trainer.h>

#include <string.h>

#include "base/alloc.h"
#include "base/grow.h"
#include "job/change.h"
#include "job/plan_file.h"
#include "job/plan_object.h"
#include "job/together.h"

/* ---- texts of the caller become ours ---- */

static const size_t text_members[] = {
#define AT(MEMBER) offsetof(hr_job_options, MEMBER)
    AT(name),          AT(model),     AT(training),    AT(passes),      AT(init),   AT(data),
    AT(val_data),      AT(augment),   AT(device),      AT(device_spec), AT(budget), AT(host_budget),
    AT(spill),         AT(plan_file), AT(gpu_choices), AT(cache),       AT(folder), AT(log),
    AT(tensorboard),   AT(svg),       AT(net),         AT(shard),       AT(link),   AT(loss),
    AT(class_weights), AT(metric),    AT(best_by),     AT(seeds),
#undef AT
};

static hr_status own_texts(hri_arena *texts, hr_job_options *o) {
    for (size_t i = 0; i < sizeof text_members / sizeof text_members[0]; i++) {
        const char *text;
        memcpy(&text, (char *)o + text_members[i], sizeof text);
        if (text) {
            text = hri_arena_strdup(texts, text);
            if (!text) {
                return HR_E_NOMEM_HOST;
            }
            memcpy((char *)o + text_members[i], &text, sizeof text);
        }
    }
    return HR_OK;
}

static hr_status create(const hr_job_options *options, hr_job_options *own, hr_plan **out,
                        hri_why *why) {
    hr_status status = hri_take(own, sizeof *own, options);
    if (status != HR_OK) {
        return hri_why_set(why, HR_CAUSE_USAGE, status,
                           status == HR_E_INVALID
                               ? "the size of the options is not set"
                               : "an option is set that this version does not know");
    }
    hr_plan *p = hri_calloc(1, sizeof *p);
    if (!p) {
        return HR_E_NOMEM_HOST;
    }
    p->timed_graph = SIZE_MAX;
    status = own_texts(&p->texts, own);
    if (status != HR_OK) {
        hr_plan_destroy(p);
        return status;
    }
    *out = p;
    return HR_OK;
}

void hr_plan_destroy(hr_plan *p) {
    if (!p) {
        return;
    }
    hri_together_close(p->together);
    hri_fit_plans_deinit(&p->plans);
    hri_plan_destroy(p->plan);
    hri_plan_job_close(&p->job);
    hri_free(p->begin_ns);
    hri_free(p->end_ns);
    hri_free(p->live_bytes);
    hri_arena_deinit(&p->texts);
    hri_free(p);
}

/* ---- planning ---- */

/* The job again with the changes of a way. */
static hr_status changed_job(void *user, const hri_way_change *changes, size_t count,
                             hri_fit_job *out, hri_prose *why) {
    const hri_plan_job *j = user;
    hr_job_options o;
    hri_text training = {0};
    hr_error error = {0};
    hr_status status = hri_job_change(&j->o, changes, count, &training, &o);
    if (status == HR_OK) {
        *out = j->job;
        out->batch = o.batch;
        out->parts = o.micro_batches;
        out->allow_coupled = o.split_norm;
        out->evaluate_samples = o.val_batch;
        out->no_offload = o.no_offload != 0;
        hri_plan_job_spill(j, o.spill, out);
        out->options.size = sizeof out->options;
        status = hr_train_options_parse(o.training, &out->options, &error);
    }
    hri_text_deinit(&training);
    return status == HR_OK ? HR_OK : hri_prose_set(why, status, "%s", error.message);
}

/* A saved plan stands in the place of one that was searched for. */
static hr_status answer_from_file(hr_plan *p) {
    hri_prose prose = {0};
    hri_plan_job *j = &p->job;
    const hr_status status = hri_plan_file_load(j, j->o.plan_file, &p->plans, &p->plan, &prose);
    if (status != HR_OK) {
        return hri_why_option(&j->why, status, "plan_file", ": %s",
                              prose.text[0] ? prose.text : hr_status_text(status));
    }
    p->answer = (hri_plan_answer){.fits = true, .largest_batch = -1};
    hri_plan_row_of_either(j, &p->plans, p->plan, &p->answer.row);
    hri_plan_answer_describe(j, &p->plans, p->plan, &p->answer);
    if (j->budget_bytes && p->answer.row.peak_bytes > j->budget_bytes) {
        hri_why_option(&j->why, HR_E_LIMIT, "plan_file",
                       ": the plan in %s needs %llu bytes more than the budget", j->o.plan_file,
                       (unsigned long long)(p->answer.row.peak_bytes - j->budget_bytes));
        j->why.cause = HR_CAUSE_NO_FIT;
        return HR_E_LIMIT;
    }
    return HR_OK;
}

static hr_status answer(hr_plan *p) {
    hri_prose prose = {0};
    hri_plan_job *j = &p->job;
    if (j->o.plan_file && !j->fit.too_large) {
        return answer_from_file(p);
    }
    p->road = (hri_plan_road){.user = j, .job = changed_job, .has_nesterov = true};
    j->road = &p->road;
    const hr_status status = hri_plan_answer_make(j, &p->answer, &p->plans, &p->plan, &prose);
    return status == HR_OK ? HR_OK
                           : hri_why_prose(&j->why, hri_cause_of(status), status, j->what, &prose);
}

static hr_status finish(hr_status status, hr_plan *p, hri_why *why, hr_plan **out,
                        hr_error *error) {
    if (status == HR_OK) {
        *out = p;
        return HR_OK;
    }
    hri_why_give(p && p->job.why.cause ? &p->job.why : why, status, error);
    hr_plan_destroy(p);
    return status;
}

/* base_bytes: what the process takes without a plan; 0: it is measured. */
static hr_status plan_job(hr_ctx *ctx, const hr_job_options *options, uint64_t base_bytes,
                          hr_plan **out, hr_error *error) {
    hr_plan *p = NULL;
    hr_job_options own;
    hri_why why = {0};
    hr_status status = create(options, &own, &p, &why);
    if (status == HR_OK) {
        p->job.known_base_bytes = base_bytes;
    }
    if (status == HR_OK && (own.data || own.pipeline)) { /* a training */
        status = hri_together_plan(p, ctx, &own, 1, NULL, &why);
        return finish(status, p, &why, out, error);
    }
    if (status == HR_OK && own.batch == 0) {
        status = hri_why_option(&why, HR_E_INVALID, "batch", " is missing");
    }
    if (status == HR_OK) {
        status = hri_plan_job_begin(ctx, &own, &p->job);
    }
    if (status == HR_OK) {
        hri_alloc_bound bound;
        hri_plan_job_bound(&p->job, true, &bound);
        status = hri_plan_job_fit(&p->job);
        status = status == HR_OK ? answer(p) : status;
        hri_alloc_bound_close(&bound);
    }
    if (status == HR_OK && !p->answer.fits) {
        hri_plan_job_name_holders(&p->job);
    }
    return finish(status, p, &why, out, error);
}

static bool fits(const hr_plan *p) {
    return p->together ? hri_together_fits(p->together) : p->answer.fits;
}

/* "auto" is the first way of sharding that fits; the last one's refusal, if none does. */
hr_status hr_job_plan(hr_ctx *ctx, const hr_job_options *options, hr_plan **out, hr_error *error) {
    hr_job_options o;
    hr_plan *p = NULL;
    if (hri_take(&o, sizeof o, options) != HR_OK || !hri_plan_job_shard_at(&o, 0)) {
        return plan_job(ctx, options, 0, out, error);
    }
    for (uint32_t i = 0; (o.shard = hri_plan_job_shard_at(options, i)) != NULL; i++) {
        hr_plan_destroy(p);
        p = NULL;
        const hr_status status = plan_job(ctx, &o, 0, &p, error);
        if (status == HR_E_UNSUPPORTED && i) { /* this device cannot: what it can was refused */
            o.shard = hri_plan_job_shard_at(options, 0);
            return plan_job(ctx, &o, 0, out, error);
        }
        if (status != HR_OK) {
            return status;
        }
        if (fits(p)) {
            break;
        }
    }
    *out = p;
    return HR_OK;
}

/* Copies the options of each job; those of the first are the plan's. */
static hr_status plan_jobs(hr_ctx *ctx, const hr_job_options *const *jobs, size_t count,
                           const uint64_t *slices, hr_plan **out, hr_error *error) {
    hr_plan *p = NULL;
    hri_why why = {0};
    hr_job_options own[HRI_TOGETHER_MAX];
    hr_status status = count < 1 || count > HRI_TOGETHER_MAX
                           ? hri_why_set(&why, HR_CAUSE_USAGE, HR_E_UNSUPPORTED,
                                         "1 to %d jobs share an arena", HRI_TOGETHER_MAX)
                           : create(jobs[0], &own[0], &p, &why);
    for (size_t i = 0; i < count && status == HR_OK; i++) {
        if (i) {
            status = hri_take(&own[i], sizeof own[i], jobs[i]);
            own[i].ledger = own[0].ledger;
            status = status == HR_OK ? own_texts(&p->texts, &own[i]) : status;
        }
        if (status == HR_OK && !own[i].data && !own[i].pipeline) {
            status = hri_why_option(&why, HR_E_INVALID, "data", " is missing");
        }
    }
    if (status == HR_OK) {
        status = hri_together_plan(p, ctx, own, count, slices, &why);
    }
    return finish(status, p, &why, out, error);
}

hr_status hri_job_plan_jobs(hr_ctx *ctx, const hr_job_options *const *jobs, size_t count,
                            const uint64_t *slices, hr_plan **out, hr_error *error) {
    hr_job_options first;
    if (count == 1 && !slices && hri_take(&first, sizeof first, jobs[0]) == HR_OK &&
        hri_plan_job_shard_at(&first, 0)) {
        return hr_job_plan(ctx, jobs[0], out, error);
    }
    return plan_jobs(ctx, jobs, count, slices, out, error);
}

hr_status hr_job_plan_together(hr_ctx *ctx, const hr_job_options *const *jobs, size_t count,
                               hr_plan **out, hr_error *error) {
    return hri_job_plan_jobs(ctx, jobs, count, NULL, out, error);
}

hr_status hr_plan_problem(const hr_problem_options *options, hr_plan **out, hr_error *error) {
    hr_plan *p = NULL;
    hr_problem_options o;
    hr_job_options own;
    hri_why why = {0};
    hr_status status = hri_take(&o, sizeof o, options);
    if (status == HR_OK && !o.text) {
        status = hri_why_option(&why, HR_E_INVALID, "text", " is missing");
    }
    if (status == HR_OK) {
        const hr_job_options job = {.size = sizeof job,
                                    .name = o.name,
                                    .budget = o.budget,
                                    .host_budget = o.host_budget,
                                    .plan_file = o.plan_file,
                                    .effort = o.effort,
                                    .no_offload = o.no_offload,
                                    .on_event = o.on_event,
                                    .user = o.user};
        status = create(&job, &own, &p, &why);
    }
    if (status == HR_OK) {
        status = hri_plan_job_problem(&own, own.name ? own.name : "problem", o.text,
                                      (size_t)o.text_bytes, &p->job);
    }
    if (status == HR_OK) {
        status = answer(p);
    }
    return finish(status, p, &why, out, error);
}

static hr_status failed(hr_status status, const hri_prose *prose, const char *what,
                        hr_error *error) {
    hri_why why = {0};
    (void)hri_why_prose(&why, hri_cause_of(status), status, what, prose);
    hri_why_give(&why, status, error);
    return status;
}

hr_status hr_job_explore(hr_plan *p, uint32_t what, hr_error *error) {
    hri_prose prose = {0};
    hr_status status = p->used ? HR_E_BUSY : HR_OK;
    if (status == HR_OK) {
        hri_alloc_bound bound;
        hri_plan_forget_times(p);
        hri_plan_job_bound(&p->job, false, &bound);
        status = hri_plan_answer_explore(&p->job, what, &p->answer, &p->plans, &prose);
        hri_alloc_bound_close(&bound);
    }
    return status == HR_OK ? HR_OK : failed(status, &prose, p->job.what, error);
}

hr_status hr_job_plan_way(const hr_plan *refused, size_t way, hr_plan **out, hr_error *error) {
    hr_job_options o;
    hri_text training = {0};
    const hri_prose none = {0};
    if (way >= refused->answer.way_count) {
        return failed(HR_E_NOT_FOUND, &none, "way out", error);
    }
    const hri_plan_way *w = &refused->answer.ways[way];
    hr_status status = refused->job.is_problem ? HR_E_UNSUPPORTED
                                               : hri_job_change(&refused->job.o, w->changes,
                                                                w->change_count, &training, &o);
    /* The refused plan is in memory now, and will not be when this one runs: what was measured before it counts. */
    status = status == HR_OK ? plan_job(refused->job.ctx, &o, refused->job.base_bytes, out, error)
                             : failed(status, &none, "way out", error);
    hri_text_deinit(&training);
    return status;
}

hr_status hr_plan_save(const hr_plan *p, const char *path, hr_error *error) {
    hri_prose prose = {0};
    hri_why why = {0};
    const hri_problem *problem;
    const hr_status status = hri_plan_of(p, 0, &problem)
                                 ? hri_plan_file_save(&p->job, &p->plans, p->plan, path, &prose)
                                 : hri_prose_set(&prose, HR_E_NOT_FOUND, "no plan to save");
    if (status != HR_OK) {
        (void)hri_why_prose(&why, hri_cause_of(status), status, NULL, &prose);
        hri_why_give(&why, status, error);
    }
    return status;
}
