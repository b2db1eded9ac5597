/* Looking around; see plan_answer.h. */
#include "job/answer.h"

#include <stdio.h>
#include <string.h>

#include "graph/custom.h"
#include "job/ways.h"
#include "ops/common/adafactor.h"
#include "ops/common/codes.h"
#include "ops/common/sparsity.h"
#include "passes/common/lora.h"
#include "passes/common/prune.h"
#include "weights/adapter.h"

enum { LOOK = HRI_FIT_LOOK };

/* ---- names and parts ---- */

static void name_peak(const hri_problem *p, const hri_plan *plan, hri_plan_answer *out) {
    const hri_plan_step *s =
        plan->peak_step < plan->step_count ? &plan->steps[plan->peak_step] : NULL;
    snprintf(out->peak_op, sizeof out->peak_op, "%s",
             !s                 ? ""
             : hri_step_runs(s) ? p->ops[s->op].name
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

static void take_floor(const hri_fit_fact *fact, hri_plan_answer *out) {
    snprintf(out->floor_op, sizeof out->floor_op, "%s",
             fact->floor_op[0] ? fact->floor_op : "the inputs");
    snprintf(out->floor_kind, sizeof out->floor_kind, "%s", fact->floor_kind);
    out->floor_op_bytes = fact->floor_op_bytes;
}

/* Does a piece before number `end` have this persistent value? */
static int is_counted(const hri_fit_case *c, uint32_t end, const char *name) {
    for (uint32_t i = 0; i < end; i++) {
        const hr_value v = hr_graph_find(c->pieces[i].g, name);
        if (v != HR_NONE && c->pieces[i].x.value_of[v] != HRI_PROBLEM_NONE) {
            return 1;
        }
    }
    return 0;
}

/* What a persistent value would take more if optimizer state were f32, as its owner is. */
static uint64_t moments_saved(const hr_graph *g, const hri_problem *p, const hri_problem_value *v) {
    const hr_tags *tags = hri_graph_tags(g, v->id);
    if (tags->keep != HR_KEEP_OPTIMIZER || tags->owner == HR_NONE ||
        g->values[v->id].meta.type == HR_TYPE_F32 ||
        hri_graph_find_note(g, g->values[v->id].name)) {
        return 0; /* the last: a mask */
    }
    const uint64_t full = 4 * (uint64_t)hr_shape_count(&g->values[tags->owner].meta.shape);
    const uint64_t room = (full + p->align - 1) & ~(p->align - 1);
    return room > v->room_bytes ? room - v->room_bytes : 0;
}

/* The first piece has every persistent value; where replicas share a step, all pieces together do. */
static void sum_persistent(const hri_fit_case *c, uint64_t arenas, hri_plan_answer *out) {
    const uint32_t pieces = c->pieces[0].kind == HR_STEP_GRADIENTS ? c->count : 1;
    out->weights_bytes = out->states_bytes = out->moments_saved_bytes = 0;
    for (uint32_t i = 0; i < pieces; i++) {
        const hri_fit_piece *piece = &c->pieces[i];
        const hri_problem *p = &piece->x.problem;
        for (uint32_t v = 0; v < p->value_count; v++) {
            const hri_value *is = &piece->g->values[p->values[v].id];
            if (p->values[v].role == HRI_ROLE_PERSISTENT && !is_counted(c, i, is->name)) {
                const int weight = is->kind == HR_VALUE_PARAM;
                *(weight ? &out->weights_bytes : &out->states_bytes) +=
                    arenas * p->values[v].room_bytes;
                out->moments_saved_bytes += arenas * moments_saved(piece->g, p, &p->values[v]);
            }
        }
    }
    out->others_bytes = arenas * (c->bottom_bytes - c->own_bytes);
    out->constants_bytes = arenas * c->own_bytes - out->weights_bytes - out->states_bytes;
}

/* Optimizer state of a parameter. */
static uint64_t state_bytes(const hr_train_options *o, const hr_shape *shape) {
    const int64_t elements = hr_shape_count(shape);
    const uint64_t n = (uint64_t)elements;
    if (o->optimizer == HR_OPTIMIZER_ADAFACTOR) {
        int64_t rows, columns;
        hri_adafactor_cut(shape, &rows, &columns);
        return 4 * (uint64_t)(rows + columns);
    }
    const int adam = o->optimizer == HR_OPTIMIZER_ADAM || o->optimizer == HR_OPTIMIZER_ADAMW;
    const uint64_t states = adam                                   ? 2
                            : o->optimizer == HR_OPTIMIZER_LION    ? 1
                            : o->optimizer == HR_OPTIMIZER_RMSPROP ? 1 + (o->momentum > 0)
                                                                   : o->momentum > 0;
    return states * (o->moments == HR_MOMENTS_BF16 ? 2 * n
                     : o->moments == HR_MOMENTS_8BIT && elements >= 4096
                         ? (uint64_t)hri_codes_bytes(elements)
                         : 4 * n);
}

static void sum_lora(const hri_plan_job *j, const hr_graph *g, hri_plan_answer *out) {
    out->lora_layers = out->lora_bytes = out->frozen_bytes = out->frozen_saved_bytes = 0;
    const int lora = hri_passes_find(&j->passes, "lora") != NULL;
    if (!lora && !hri_passes_find(&j->passes, "freeze")) {
        return;
    }
    out->lora_bytes = lora ? hri_adapter_bytes(g) : 0;
    for (hr_value v = 1; v < g->value_count; v++) {
        const hri_value *value = &g->values[v];
        if ((value->kind == HR_VALUE_PARAM || value->kind == HR_VALUE_STATE) &&
            value->node == HRI_NO_NODE) {
            out->lora_layers += hri_lora_find(g, value->name, HRI_LORA_A) != HR_NONE;
        }
        if (value->kind == HR_VALUE_PARAM && value->node == HRI_NO_NODE) {
            const int frozen = hri_graph_tags(g, v)->frozen;
            out->frozen_bytes += frozen ? hr_meta_bytes(&value->meta) : 0;
            out->frozen_saved_bytes +=
                frozen ? state_bytes(&j->job.options, &value->meta.shape) : 0;
        }
    }
}

static void sum_masks(const hri_plan_job *j, const hr_graph *g, hri_plan_answer *out) {
    out->pruned_weights = out->mask_bytes = out->pruned_file_bytes = 0;
    const hri_prune *o = hri_passes_find(&j->passes, "prune");
    for (hr_value v = 1; o && v < g->value_count; v++) {
        const hr_value mask =
            g->values[v].kind == HR_VALUE_PARAM ? hri_prune_mask_of(g, v) : HR_NONE;
        if (mask != HR_NONE) {
            const int64_t n = hr_shape_count(&g->values[v].meta.shape);
            const uint64_t bits = hr_meta_bytes(&g->values[mask].meta);
            const uint64_t zeros = 4 * (uint64_t)hri_sparsity_cut(n, hri_prune_final(o));
            out->pruned_weights += (uint64_t)n;
            out->mask_bytes += bits;
            out->pruned_file_bytes += zeros > bits ? zeros - bits : 0;
        }
    }
}

static void sum_qat(const hr_graph *g, hri_plan_answer *out) {
    out->qat_layers = out->qat_ranges = out->qat_range_bytes = 0;
    out->qat_bit_bytes = out->qat_weight_bytes = 0;
    for (uint32_t n = 0; n < g->node_count; n++) {
        const hri_sig *s = &g->nodes[n].sig;
        if (!strcmp(s->op->name, "range_scale")) {
            out->qat_ranges++;
            out->qat_range_bytes += hr_meta_bytes(&s->in[0]);
        } else if (!strcmp(s->op->name, "fake_quantize")) {
            out->qat_bit_bytes += hr_meta_bytes(&s->out[1]);
        } else if (!strcmp(s->op->name, "fake_quantize_weight")) {
            const uint64_t bytes = hr_meta_bytes(&s->out[0]);
            out->qat_layers++;
            out->qat_weight_bytes = bytes > out->qat_weight_bytes ? bytes : out->qat_weight_bytes;
        }
    }
}

/* What the plan pays for ops that are not ours. */
static void sum_customs(const hri_fit_case *c, hri_plan_answer *out) {
    out->custom_ops = 0;
    out->custom_ns = 0;
    out->custom_workspace_bytes = 0;
    const hri_problem *p = &c->pieces[0].x.problem;
    for (uint32_t i = 0; i < p->op_count; i++) {
        if (hri_op_is_custom(c->pieces[0].g->nodes[p->ops[i].id].sig.op)) {
            const hri_problem_variant *v = &p->ops[i].variants[0];
            out->custom_ops++;
            out->custom_ns += v->time_ns * c->parts;
            out->custom_workspace_bytes = v->workspace_bytes > out->custom_workspace_bytes
                                              ? v->workspace_bytes
                                              : out->custom_workspace_bytes;
        }
    }
}

void hri_plan_answer_describe(const hri_plan_job *j, const hri_fit_plans *plans,
                              const hri_plan *plan, hri_plan_answer *out) {
    if (plans && plans->c) {
        const hri_fit_case *c = plans->c;
        name_peak(&c->pieces[plans->peak_piece].x.problem, plans->plans[plans->peak_piece], out);
        sum_persistent(c, plans->arenas, out);
        sum_lora(j, c->pieces[0].g, out);
        sum_masks(j, c->pieces[0].g, out);
        sum_qat(c->pieces[0].g, out);
        sum_customs(c, out);
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
    const hri_fit_fact *fact;
    const hr_status status = hri_fit_floor(&j->fit, &fact, why);
    if (status == HR_OK) {
        take_floor(fact, out);
        out->may_cut = hri_fit_may_cut(&j->fit);
        out->coupled = j->fit.coupled != 0;
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

/* What the bound on planning leaves no room for is left out. */
static hr_status unless_bounded(hr_status status) {
    return status == HR_E_NOMEM_HOST && hri_alloc_bound_hit() ? HR_E_NO_PLAN : status;
}

static hr_status find_choices(hri_plan_job *j, hri_plan_answer *out, hri_prose *why) {
    static const unsigned percents[] = {100, 75, 50, 33, 25};
    hr_status status = HR_OK;
    for (size_t i = 0; i < sizeof percents / sizeof percents[0] && status == HR_OK; i++) {
        const uint64_t budget =
            j->unplanned_bytes / 100 * percents[i] + j->unplanned_bytes % 100 * percents[i] / 100;
        if (budget >= j->floor_bytes) {
            hri_plan_row *row = &out->choices[out->choice_count];
            status = add_choice(j, budget, LOOK, row, why);
            out->choice_count += status == HR_OK;
        }
    }
    if (status == HR_OK) {
        hri_plan_row least;
        status = hri_plan_job_smallest(j, &least, why);
        if (status == HR_OK && !(j->model && j->fit.least_open)) {
            out->choices[out->choice_count++] = least;
        }
    }
    return status;
}

static hr_status find_points(hri_plan_job *j, hri_plan_answer *out, hri_prose *why) {
    enum { STEPS = 15 };
    hri_plan_row least, most;
    hr_status status = hri_plan_job_smallest(j, &least, why);
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

/* ---- the whole ---- */

/* What is looked for only once. */
static hr_status find_largest(hri_plan_job *j, hri_plan_answer *out, hri_prose *why) {
    const uint64_t budget = j->budget_bytes ? j->budget_bytes : j->device_bytes;
    return j->model && budget && out->largest_batch < 0
               ? hri_fit_largest(&j->job, budget, &out->largest_batch, why)
               : HR_OK;
}

static hr_status find_ways(hri_plan_job *j, hri_plan_answer *out, hri_prose *why) {
    hr_status status = find_largest(j, out, why);
    if (status == HR_OK) {
        status = unless_bounded(hri_plan_job_smallest(j, &out->row, why));
    }
    if (j->model && (status == HR_E_NO_PLAN || j->fit.least_open)) {
        out->at_least_bytes = hri_plan_job_least(j);
        out->row = (hri_plan_row){.peak_bytes = out->at_least_bytes};
        return HR_OK;
    }
    return status == HR_OK && j->road ? hri_plan_ways_find(j, out, why) : status;
}

/* Nothing could be planned, so the bound is all there is. */
static void refuse_too_large(const hri_plan_job *j, hri_plan_answer *out) {
    out->impossible = true;
    out->at_least_bytes = j->floor_bytes;
    out->row = (hri_plan_row){.budget_bytes = j->budget_bytes, .peak_bytes = j->floor_bytes};
    out->coupled = j->fit.coupled != 0;
    out->may_cut = j->fit.fact_count && hri_fit_may_cut(&j->fit);
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
    if (j->model && j->fit.too_large) {
        refuse_too_large(j, out);
        return HR_OK;
    }
    hr_status status = unless_bounded(search_both(j, &out->row, plans, plan, why));
    out->fits = status == HR_OK;
    if (status != HR_OK && status != HR_E_NO_PLAN) {
        return status;
    }
    status = describe_floor(j, out, why);
    if (status == HR_OK && out->fits) {
        hri_plan_answer_describe(j, plans, plan ? *plan : NULL, out);
    }
    out->impossible = j->budget_bytes && j->budget_bytes < j->floor_bytes;
    hri_fit_rest(&j->fit);
    return status == HR_OK && !out->fits ? find_ways(j, out, why) : status;
}

/* The answer has the whole effort, so it may lie below the smallest that short looks found: then it is the smallest. */
static void take_smaller(hri_plan_job *j, hri_plan_answer *out) {
    const uint64_t smallest = hri_plan_job_known_smallest(j);
    if (!out->fits || out->row.peak_bytes >= smallest) {
        return;
    }
    j->smallest = out->row;
    j->smallest.budget_bytes = out->row.peak_bytes;
    if (out->choice_count && out->choices[out->choice_count - 1].peak_bytes == smallest) {
        out->choices[out->choice_count - 1] = j->smallest;
    }
}

hr_status hri_plan_answer_explore(hri_plan_job *j, uint32_t what, hri_plan_answer *out,
                                  hri_fit_plans *plans, hri_prose *why) {
    if (out->at_least_bytes) {
        return HR_OK; /* there is no room to look at more */
    }
    /* While others are looked at, the memory of this case is theirs. */
    const int rests = out->fits && j->model && plans && plans->c;
    if (rests && (what & (HR_EXPLORE_CHOICES | HR_EXPLORE_CURVE))) {
        hri_fit_detach(&j->fit, plans);
    }
    hri_fit_rest(&j->fit);
    hr_status status = what & HR_EXPLORE_BATCH ? find_largest(j, out, why) : HR_OK;
    if (status == HR_OK && (what & HR_EXPLORE_CHOICES) && !out->choice_count) {
        status = find_choices(j, out, why);
        status = unless_bounded(status) == HR_E_NO_PLAN ? HR_OK : status;
    }
    if (status == HR_OK && (what & HR_EXPLORE_CURVE) && !out->point_count) {
        status = find_points(j, out, why);
        status = unless_bounded(status) == HR_E_NO_PLAN ? HR_OK : status;
    }
    if (status == HR_OK) {
        take_smaller(j, out);
    }
    const hr_status back = rests && !plans->c ? hri_fit_attach(&j->fit, plans, why) : HR_OK;
    return status == HR_OK ? back : status;
}
