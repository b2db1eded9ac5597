/* Reading a plan: the numbers, ways out, graphs, values, buffers and actions of headroom/plan.h; see plan_object.h. */
#include <headroom/plan.h>

#include <string.h>

#include "base/alloc.h"
#include "base/grow.h"
#include "base/hash.h"
#include "job/plan_object.h"

/* ---- the numbers ---- */

const hri_plan *hri_plan_of(const hr_plan *p, size_t graph, const hri_problem **problem) {
    if (p->job.is_problem) {
        *problem = &p->job.problem;
        return graph == 0 ? p->plan : NULL;
    }
    if (!p->plans.c || graph >= p->plans.c->count || p->used) {
        return NULL;
    }
    *problem = &p->plans.c->pieces[graph].x.problem;
    return p->plans.plans[graph];
}

static uint32_t graph_count(const hr_plan *p) {
    uint32_t count = 0;
    const hri_problem *problem;
    while (hri_plan_of(p, count, &problem)) {
        count++;
    }
    return count;
}

static uint64_t fingerprint_of(const hr_plan *p) {
    hri_hasher hash;
    const hri_problem *problem;
    const hri_plan *plan;
    hri_hasher_init(&hash, 0);
    for (size_t g = 0; (plan = hri_plan_of(p, g, &problem)) != NULL; g++) {
        hri_plan_hash(plan, &hash);
    }
    return hri_hasher_get(&hash).lo;
}

static void put_bytes(const hr_plan *p, hr_plan_summary *s) {
    const hri_plan_job *j = &p->job;
    const hri_plan_answer *a = &p->answer;
    const hri_plan_row *r = &a->row;
    s->budget_bytes = j->budget_bytes ? j->budget_bytes : HR_UNKNOWN;
    s->peak_bytes = r->peak_bytes;
    s->pipeline_bytes = j->data_bytes;
    s->runtime_bytes = r->runtime_bytes - j->data_bytes;
    s->persistent_bytes = r->persistent_bytes;
    s->arena_bytes = r->arena_bytes;
    s->parameter_bytes = a->weights_bytes;
    s->state_bytes = a->states_bytes;
    s->constant_bytes = a->constants_bytes;
    s->other_jobs_bytes = a->others_bytes;
    s->live_bytes = r->live_peak_bytes;
    s->input_bytes = r->input_bytes;
    s->host_bytes = r->host_peak_bytes;
    s->host_budget_bytes = j->host_budget_bytes;
    s->offloaded_bytes = r->offloaded_bytes;
    s->spilled_bytes = r->spill_bytes;
    s->minimum_bytes = j->floor_bytes;
    s->unconstrained_bytes = j->unplanned_bytes;
    const uint64_t smallest = hri_plan_job_known_smallest(j);
    s->smallest_bytes = smallest ? smallest : HR_UNKNOWN;
    s->planning_bytes = r->planning_bytes;
}

hr_status hr_plan_get_summary(const hr_plan *p, hr_plan_summary *out) {
    const hri_plan_job *j = &p->job;
    const hri_plan_answer *a = &p->answer;
    const hri_plan_row *r = &a->row;
    const int model = j->model != NULL;
    hr_plan_summary s = {
        .size = sizeof s,
        .fits = a->fits,
        .proven = a->impossible,
        .model = model ? hr_model_text(j->model) : "",
        .device = j->device_name,
        .precision = model ? hri_plan_precisions[j->job.options.precision] : "",
        .optimizer = model ? hri_plan_optimizers[j->job.options.optimizer] : "",
        .batch = model ? j->job.batch : 0,
        .micro_batch = r->part,
        .micro_batches = r->micro_batches,
        .measured = j->job.time_ns != NULL && !j->o.no_measure,
        .recomputed_ops = r->recomputed_ops,
        .step_ns = r->time_ns,
        .time_ratio = r->time_ratio,
        .time_bound_ratio = r->bound_ratio,
        .largest_batch = a->largest_batch,
        .peak_op = a->fits ? a->peak_op : a->floor_op,
        .minimum_op = a->floor_op,
        .minimum_kind = a->floor_kind,
        .minimum_op_bytes = a->floor_op_bytes,
        .unsplit_op = model && j->fit.coupled ? j->fit.coupled_by.text : "",
        .graph_count = graph_count(p),
        .way_count = a->way_count,
        .choice_count = a->choice_count,
        .curve_count = a->point_count,
        .threads = r->threads,
        .fingerprint = fingerprint_of(p),
        .custom_ops = a->custom_ops,
        .custom_ns = a->custom_ns,
        .custom_workspace_bytes = a->custom_workspace_bytes,
    };
    put_bytes(p, &s);
    hr_plan_memory memory = {.size = sizeof memory};
    while (hr_plan_get_memory(p, s.memory_count, &memory) == HR_OK) {
        s.memory_count++;
    }
    return hri_give(out, &s, sizeof s);
}

static hr_status give_row(const hri_plan_row *rows, uint32_t count, size_t index,
                          hr_plan_choice *out) {
    if (index >= count) {
        return HR_E_EOF;
    }
    const hri_plan_row *r = &rows[index];
    const hr_plan_choice c = {.size = sizeof c,
                              .budget_bytes = r->budget_bytes,
                              .peak_bytes = r->peak_bytes,
                              .recomputed_ops = r->recomputed_ops,
                              .offloaded_bytes = r->offloaded_bytes,
                              .time_ratio = r->time_ratio,
                              .fits = r->fits,
                              .micro_batches = r->micro_batches};
    return hri_give(out, &c, sizeof c);
}

hr_status hr_plan_get_choice(const hr_plan *p, size_t index, hr_plan_choice *out) {
    return give_row(p->answer.choices, p->answer.choice_count, index, out);
}

hr_status hr_plan_get_curve(const hr_plan *p, size_t index, hr_plan_choice *out) {
    return give_row(p->answer.points, p->answer.point_count, index, out);
}

hr_status hr_plan_get_way(const hr_plan *p, size_t index, hr_plan_way *out) {
    if (index >= p->answer.way_count) {
        return HR_E_EOF;
    }
    const hri_plan_way *w = &p->answer.ways[index];
    const hr_plan_way way = {.size = sizeof way,
                             .effect = w->text,
                             .budget_bytes = w->row.budget_bytes,
                             .peak_bytes = w->row.peak_bytes,
                             .time_ratio = w->row.time_ratio,
                             .needs_more = w->needs_more,
                             .changes_result = w->changes_result,
                             .change_count = w->change_count,
                             .micro_batches = w->row.micro_batches};
    return hri_give(out, &way, sizeof way);
}

hr_status hr_plan_get_way_change(const hr_plan *p, size_t way, size_t index, const char **key,
                                 const char **value) {
    if (way >= p->answer.way_count || index >= p->answer.ways[way].change_count) {
        return HR_E_EOF;
    }
    *key = p->answer.ways[way].changes[index].key;
    *value = p->answer.ways[way].changes[index].value;
    return HR_OK;
}

/* ---- the details ---- */

hr_status hr_plan_get_graph(const hr_plan *p, size_t index, hr_plan_graph *out) {
    const hri_problem *problem;
    const hri_plan *plan = hri_plan_of(p, index, &problem);
    if (!plan) {
        return index < 1 || p->used ? HR_E_NOT_FOUND : HR_E_EOF;
    }
    const hri_fit_piece *piece = p->job.is_problem ? NULL : &p->plans.c->pieces[index];
    const hr_plan_graph g = {.size = sizeof g,
                             .graph = piece ? piece->g : NULL,
                             .kind = piece ? (int32_t)piece->kind : HR_PLAN_GRAPH_WHOLE,
                             .samples = piece ? piece->samples : 0,
                             .runs = piece ? piece->runs : 1,
                             .arena_bytes = plan->arena_bytes,
                             .time_ns = plan->time_ns,
                             .base_time_ns = plan->base_time_ns,
                             .value_count = problem->value_count,
                             .buffer_count = plan->buffer_count,
                             .action_count = plan->step_count,
                             .peak_action = plan->peak_step};
    return hri_give(out, &g, sizeof g);
}

hr_status hr_plan_get_memory(const hr_plan *p, size_t index, hr_plan_memory *out) {
    const hri_plan_row *r = &p->answer.row;
    const hri_problem *problem;
    const hri_plan *plan = hri_plan_of(p, 0, &problem);
    if (!plan) {
        return HR_E_NOT_FOUND;
    }
    if (index > problem->memory_count) {
        return HR_E_EOF;
    }
    hr_plan_memory m = {.size = sizeof m,
                        .name = p->job.device_name,
                        .bytes = r->persistent_bytes + r->arena_bytes};
    if (index > 0) {
        const hri_problem_memory *x = &problem->memories[index - 1];
        m.name = x->name && x->name[0] ? x->name : p->job.job.spill ? "file" : "host";
        m.bytes = 0;
        for (size_t g = 0; (plan = hri_plan_of(p, g, &problem)) != NULL; g++) {
            const uint64_t bytes = plan->memory_bytes[index - 1];
            m.bytes = bytes > m.bytes ? bytes : m.bytes; /* graphs run one after another */
        }
        m.out_bytes_per_ns = x->out_bytes_per_ns;
        m.in_bytes_per_ns = x->in_bytes_per_ns;
    }
    return hri_give(out, &m, sizeof m);
}

/* HR_OK for index below count. */
static hr_status within(const hri_plan *plan, size_t index, uint32_t count) {
    return !plan ? HR_E_NOT_FOUND : index < count ? HR_OK : HR_E_EOF;
}

hr_status hr_plan_get_value(const hr_plan *p, size_t graph, size_t index, hr_plan_value *out) {
    const hri_problem *problem = NULL;
    const hri_plan *plan = hri_plan_of(p, graph, &problem);
    const hr_status status = within(plan, index, plan ? problem->value_count : 0);
    if (status != HR_OK) {
        return status;
    }
    const hri_problem_value *v = &problem->values[index];
    uint32_t made = 0;
    for (uint32_t i = 0; i < plan->step_count && v->producer != HRI_PROBLEM_NONE; i++) {
        made += hri_step_runs(&plan->steps[i]) && plan->steps[i].op == v->producer;
    }
    const hr_plan_value value = {.size = sizeof value,
                                 .name = v->name,
                                 .bytes = v->bytes,
                                 .role = v->role,
                                 .producer = v->producer,
                                 .value = p->job.is_problem ? HR_NONE : (hr_value)v->id,
                                 .made = made};
    return hri_give(out, &value, sizeof value);
}

hr_status hr_plan_get_buffer(const hr_plan *p, size_t graph, size_t index, hr_plan_buffer *out) {
    const hri_problem *problem = NULL;
    const hri_plan *plan = hri_plan_of(p, graph, &problem);
    const hr_status status = within(plan, index, plan ? plan->buffer_count : 0);
    if (status != HR_OK) {
        return status;
    }
    const hri_plan_buffer *b = &plan->buffers[index];
    const hr_plan_buffer buffer = {.size = sizeof buffer,
                                   .offset = b->offset,
                                   .bytes = b->bytes,
                                   .memory = b->memory,
                                   .value = b->value,
                                   .first = b->birth,
                                   .last = b->death ? b->death - 1 : 0};
    return hri_give(out, &buffer, sizeof buffer);
}

/* ---- actions, with times ---- */

void hri_plan_forget_times(hr_plan *p) {
    hri_free(p->begin_ns);
    hri_free(p->end_ns);
    hri_free(p->live_bytes);
    p->begin_ns = p->end_ns = NULL;
    p->live_bytes = NULL;
    p->timed_graph = SIZE_MAX;
}

/* What is alive at each step: buffers come and go, what persists is there for all. */
static void count_live(const hri_plan *plan, uint64_t *live) {
    for (uint32_t i = 0; i < plan->buffer_count; i++) {
        const hri_plan_buffer *b = &plan->buffers[i];
        const uint32_t end = b->death < plan->step_count ? b->death : plan->step_count;
        if (!b->memory && b->offset >= plan->persistent_bytes && b->birth < end) {
            live[b->birth] += b->bytes;
            live[end] -= b->bytes; /* as differences: sums wrap back */
        }
    }
    uint64_t sum = plan->persistent_bytes;
    for (uint32_t i = 0; i < plan->step_count; i++) {
        sum += live[i];
        live[i] = sum;
    }
}

static hr_status find_times(hr_plan *p, size_t graph, const hri_problem *problem,
                            const hri_plan *plan) {
    if (p->timed_graph == graph) {
        return HR_OK;
    }
    hri_plan_forget_times(p);
    const size_t count = (size_t)plan->step_count + 1;
    p->begin_ns = hri_calloc(count, sizeof *p->begin_ns);
    p->end_ns = hri_calloc(count, sizeof *p->end_ns);
    p->live_bytes = hri_calloc(count, sizeof *p->live_bytes);
    if (!p->begin_ns || !p->end_ns || !p->live_bytes) {
        hri_plan_forget_times(p);
        return HR_E_NOMEM_HOST;
    }
    hri_plan_times(problem, plan, p->begin_ns, p->end_ns);
    count_live(plan, p->live_bytes);
    p->timed_graph = graph;
    return HR_OK;
}

static uint64_t operands_of(const hri_problem *p, const hri_plan_step *s) {
    return s->kind == HRI_STEP_WAIT ? 0
           : hri_step_runs(s)       ? (uint64_t)p->ops[s->op].in_count + p->ops[s->op].out_count + 1
                                    : 2;
}

hr_status hr_plan_get_action(hr_plan *p, size_t graph, size_t index, hr_plan_action *out) {
    const hri_problem *problem = NULL;
    const hri_plan *plan = hri_plan_of(p, graph, &problem);
    hr_status status = within(plan, index, plan ? plan->step_count : 0);
    if (status == HR_OK) {
        status = find_times(p, graph, problem, plan);
    }
    if (status != HR_OK) {
        return status;
    }
    const hri_plan_step *s = &plan->steps[index];
    const hri_problem_op *op = hri_step_runs(s) ? &problem->ops[s->op] : NULL;
    const char *variant = op ? op->variants[s->variant].name : "";
    const hr_plan_action a = {.size = sizeof a,
                              .kind = op                         ? HR_PLAN_RUN
                                      : s->kind == HRI_STEP_WAIT ? HR_PLAN_WAIT
                                                                 : HR_PLAN_COPY,
                              .queue = s->kind == HRI_STEP_OUT   ? 1u
                                       : s->kind == HRI_STEP_IN  ? 2u
                                       : s->kind == HRI_STEP_NET ? 3u
                                                                 : 0u,
                              .name = op ? op->name : hri_step_name(s->kind),
                              .op_kind = op ? op->kind : hri_step_name(s->kind),
                              .variant = variant && op && op->variant_count > 1 ? variant : "",
                              .op = s->op,
                              .recomputed = s->again,
                              .begin_ns = p->begin_ns[index],
                              .end_ns = p->end_ns[index],
                              .live_bytes = p->live_bytes[index],
                              .operands = plan->operands + s->first,
                              .operand_count = operands_of(problem, s)};
    return hri_give(out, &a, sizeof a);
}

hr_status hr_plan_check(const hr_plan *p, hr_error *error) {
    hri_prose prose = {0};
    hri_why why = {0};
    const hri_problem *problem;
    const hri_plan *plan;
    const uint64_t arena = p->answer.row.persistent_bytes + p->answer.row.arena_bytes;
    hr_status status = hri_plan_of(p, 0, &problem) ? HR_OK : HR_E_NOT_FOUND;
    for (size_t g = 0; status == HR_OK && (plan = hri_plan_of(p, g, &problem)) != NULL; g++) {
        status = hri_plan_check(problem, plan, arena, &prose);
        if (status == HR_OK && p->job.job.other_budget_bytes) {
            status = hri_plan_check_other(plan, p->job.job.other_budget_bytes, &prose);
        }
    }
    if (status != HR_OK) {
        (void)hri_why_prose(&why, status == HR_E_INVALID ? HR_CAUSE_BUG : hri_cause_of(status),
                            status, p->job.what, &prose);
        hri_why_give(&why, status, error);
    }
    return status;
}
