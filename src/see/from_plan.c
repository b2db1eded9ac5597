/* From a plan's problem and steps to the tables of a recording; see from_plan.h. */
#include "see/from_plan.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/prose.h"
#include "base/text.h"
#include "graph/graph.h"
#include "job/plan_object.h"

/* One graph of the plan. */
typedef struct piece {
    hri_recording *r;
    hr_plan *plan;
    size_t number; /* in the plan */
    uint8_t order; /* in the recording */
    const hri_problem *problem;
    const hri_plan *steps;
    const hr_graph *g;     /* NULL: a problem of another system */
    uint32_t first_op;     /* in the recording */
    uint32_t *gradient_of; /* by value: the parameter whose gradient it is, or NONE */
    uint32_t *op_of;       /* by buffer: the op whose workspace it is, or NONE */
    unsigned char *again;  /* by buffer: made by an op that has run before */
    uint32_t *lives;       /* by value: how many buffers it has */
} piece;

static void piece_deinit(piece *p) {
    hri_free(p->gradient_of);
    hri_free(p->op_of);
    hri_free(p->again);
    hri_free(p->lives);
}

static hr_status piece_init(piece *p) {
    const size_t values = p->problem->value_count + (size_t)1,
                 buffers = p->steps->buffer_count + (size_t)1;
    p->gradient_of = hri_malloc(values * sizeof *p->gradient_of);
    p->op_of = hri_malloc(buffers * sizeof *p->op_of);
    p->again = hri_calloc(buffers, 1);
    p->lives = hri_calloc(values, sizeof *p->lives);
    if (!p->gradient_of || !p->op_of || !p->again || !p->lives) {
        return HR_E_NOMEM_HOST;
    }
    memset(p->gradient_of, 0xff, values * sizeof *p->gradient_of);
    memset(p->op_of, 0xff, buffers * sizeof *p->op_of);
    return HR_OK;
}

/* An update op reads the gradient, a value of the backward pass, of the persistent value that it updates. */
static void find_gradients(piece *p) {
    const hri_problem *x = p->problem;
    for (uint32_t i = 0; i < x->op_count; i++) {
        const hri_problem_op *op = &x->ops[i];
        uint32_t updated = HRI_PROBLEM_NONE;
        for (uint32_t k = 0; k < op->out_count && updated == HRI_PROBLEM_NONE; k++) {
            updated = op->out[k].updates ? op->in[op->out[k].updates - 1] : updated;
        }
        if (op->phase != HRI_PROBLEM_UPDATE || updated == HRI_PROBLEM_NONE) {
            continue;
        }
        for (uint32_t k = 0; k < op->in_count; k++) {
            const uint32_t maker = x->values[op->in[k]].producer;
            if (maker != HRI_PROBLEM_NONE && x->ops[maker].phase == HRI_PROBLEM_BACKWARD) {
                p->gradient_of[op->in[k]] = updated;
                break;
            }
        }
    }
}

static void find_owners(piece *p) {
    for (uint32_t i = 0; i < p->steps->step_count; i++) {
        const hri_plan_step *s = &p->steps->steps[i];
        if (!hri_step_runs(s)) {
            continue;
        }
        const hri_problem_op *op = &p->problem->ops[s->op];
        const uint32_t *operand = p->steps->operands + s->first;
        for (uint32_t k = 0; s->again && k < op->out_count; k++) {
            const uint32_t b = operand[op->in_count + k];
            if (p->steps->buffers[b].birth == i) {
                p->again[b] = 1;
            }
        }
        const uint32_t workspace = operand[op->in_count + op->out_count];
        if (workspace != HRI_PROBLEM_NONE) {
            p->op_of[workspace] = s->op;
        }
    }
    for (uint32_t i = 0; i < p->steps->buffer_count; i++) {
        const hri_plan_buffer *b = &p->steps->buffers[i];
        if (b->value != HRI_PROBLEM_NONE && !b->memory) {
            p->lives[b->value]++;
        }
    }
}

/* ---- ops ---- */

static hr_status layer_text(hri_recording *r, const char *name, uint32_t *out) {
    hri_text text = {0};
    const char *dot = strrchr(name, '.');
    hri_text_bytes(&text, name, dot ? (size_t)(dot - name) : strlen(name));
    hr_status status = hri_text_status(&text);
    if (status == HR_OK) {
        status = hri_recording_text(r, hri_text_get(&text), out);
    }
    hri_text_deinit(&text);
    return status;
}

static uint64_t copied_bytes(const piece *p, const hri_plan_step *s) {
    return p->steps->buffers[p->steps->operands[s->first]].bytes;
}

static void count_cost(const piece *p, const hri_plan_step *s, hri_see_op *op) {
    if (hri_step_runs(s) && p->g) {
        const hri_cost cost = hri_op_cost(&p->g->nodes[p->problem->ops[s->op].id].sig);
        op->flops = cost.flops;
        op->bytes = (uint64_t)cost.bytes;
    } else if (s->kind == HRI_STEP_OUT || s->kind == HRI_STEP_IN) {
        op->bytes = copied_bytes(p, s);
    }
}

static hr_status add_op(piece *p, uint32_t i, double from_ns) {
    const hri_plan_step *s = &p->steps->steps[i];
    hr_plan_action a = {.size = sizeof a};
    hri_see_op op = {.graph = p->order, .again = s->again};
    hr_status status = hr_plan_get_action(p->plan, p->number, i, &a);
    if (status == HR_OK) {
        status = hri_recording_text(p->r, a.name, &op.name);
    }
    if (status == HR_OK) {
        status = hri_recording_text(p->r, a.op_kind, &op.kind);
    }
    if (status == HR_OK) {
        status = layer_text(p->r, a.name, &op.layer);
    }
    if (status != HR_OK) {
        return status;
    }
    op.what = hri_step_runs(s)          ? HRI_SEE_RUN
              : s->kind == HRI_STEP_OUT ? HRI_SEE_COPY_OUT
              : s->kind == HRI_STEP_IN  ? HRI_SEE_COPY_IN
                                        : HRI_SEE_WAIT;
    op.phase = hri_step_runs(s) ? p->problem->ops[s->op].phase : 1;
    op.begin_ns = from_ns + a.begin_ns;
    op.end_ns = from_ns + a.end_ns;
    count_cost(p, s, &op);
    return hri_recording_add(p->r, HRI_SEE_OPS, &op);
}

/* ---- buffers ---- */

static uint8_t category_of(const piece *p, const hri_plan_buffer *b) {
    if (b->value == HRI_PROBLEM_NONE) {
        return HRI_SEE_WORKSPACES;
    }
    const hri_problem_value *v = &p->problem->values[b->value];
    switch ((hri_role)v->role) {
    case HRI_ROLE_INPUT:
        return HRI_SEE_INPUTS;
    case HRI_ROLE_CONSTANT:
        return HRI_SEE_OTHER;
    case HRI_ROLE_PERSISTENT:
        return !p->g || p->g->values[v->id].kind == HR_VALUE_PARAM ? HRI_SEE_PARAMETERS
                                                                   : HRI_SEE_OPTIMIZER;
    default:
        return p->problem->ops[v->producer].phase == HRI_PROBLEM_FORWARD ? HRI_SEE_ACTIVATIONS
                                                                         : HRI_SEE_GRADIENTS;
    }
}

static hr_status name_buffer(piece *p, uint32_t i, hri_see_buffer *out) {
    const hri_plan_buffer *b = &p->steps->buffers[i];
    const uint32_t op = p->op_of[i];
    if (b->value == HRI_PROBLEM_NONE) {
        return hri_recording_text(
            p->r, op == HRI_PROBLEM_NONE ? "workspace" : p->problem->ops[op].name, &out->name);
    }
    const hri_problem_value *v = &p->problem->values[b->value];
    const uint32_t of = p->gradient_of[b->value];
    char shape[80 + 21 * HR_RANK_MAX];
    out->asked_bytes = v->bytes;
    out->flags |= of != HRI_PROBLEM_NONE ? HRI_SEE_PARAMETER_GRADIENT : 0;
    hr_status status = hri_recording_text(
        p->r, of != HRI_PROBLEM_NONE ? p->problem->values[of].name : v->name, &out->name);
    if (status == HR_OK && p->g) {
        status = hri_recording_text(
            p->r, hr_meta_print(&p->g->values[v->id].meta, shape, sizeof shape), &out->shape);
    }
    return status;
}

/* Persistent values and constants are there for all graphs; the first that has them shows them. */
static bool shown_before(const piece *p, const hri_plan_buffer *b) {
    const hri_see_buffer *all = hri_recording_buffers(p->r);
    for (size_t i = 0; p->order && i < p->r->tables[HRI_SEE_BUFFERS].count; i++) {
        if (all[i].offset == b->offset && all[i].bytes == b->bytes && all[i].birth == 0 &&
            all[i].death == UINT32_MAX) {
            return true;
        }
    }
    return false;
}

static hr_status add_buffer(piece *p, uint32_t i) {
    const hri_plan_buffer *b = &p->steps->buffers[i];
    const uint8_t category = category_of(p, b);
    const bool stays = category == HRI_SEE_PARAMETERS || category == HRI_SEE_OPTIMIZER ||
                       category == HRI_SEE_OTHER;
    if (b->memory || (stays && shown_before(p, b))) {
        return HR_OK; /* of other memories only copies are shown */
    }
    hri_see_buffer out = {.category = category,
                          .offset = b->offset,
                          .bytes = b->bytes,
                          .asked_bytes = b->bytes,
                          .birth = stays ? 0 : p->first_op + b->birth,
                          .death = stays ? UINT32_MAX : p->first_op + b->death};
    if (b->value != HRI_PROBLEM_NONE && !stays && p->lives[b->value] > 1) {
        out.value = p->first_op + b->value + 1;
    }
    if (p->again[i] && category == HRI_SEE_ACTIVATIONS) {
        out.flags |= HRI_SEE_RECOMPUTED;
    }
    /* A value dies with its last op; a plan may have it end behind the last one. */
    const uint32_t end = p->first_op + p->steps->step_count;
    out.death = !stays && out.death > end ? end : out.death;
    const hr_status status = name_buffer(p, i, &out);
    return status == HR_OK ? hri_recording_add(p->r, HRI_SEE_BUFFERS, &out) : status;
}

static hr_status add_piece(piece *p, double *from_ns) {
    hr_status status = piece_init(p);
    if (status == HR_OK) {
        find_gradients(p);
        find_owners(p);
    }
    for (uint32_t i = 0; i < p->steps->step_count && status == HR_OK; i++) {
        status = add_op(p, i, *from_ns);
    }
    for (uint32_t i = 0; i < p->steps->buffer_count && status == HR_OK; i++) {
        status = add_buffer(p, i);
    }
    *from_ns += p->steps->time_ns;
    piece_deinit(p);
    return status;
}

/* ---- the head ---- */

static void add_graph_name(hri_text *t, const hr_plan_graph *g) {
    static const char *const names[] = {"step", "micro-batch", "last micro-batch", "evaluation"};
    hri_text_add(t, "%s%s of %lld sample%s", t->used ? ";" : "",
                 g->kind >= 0 && g->kind < 4 ? names[g->kind] : "graph", (long long)g->samples,
                 hri_plural((uint64_t)g->samples));
    if (g->runs > 1) {
        hri_text_add(t, ", %llu runs per step", (unsigned long long)g->runs);
    }
}

static hr_status add_graph(hr_plan *plan, size_t i, const hr_plan_graph *g, hri_recording *r,
                           hri_text *graphs, double *from_ns) {
    const size_t ops = r->tables[HRI_SEE_OPS].count;
    piece p = {.r = r, .plan = plan, .number = i, .g = g->graph, .first_op = (uint32_t)ops};
    p.order = ops ? (uint8_t)(hri_recording_ops(r)[ops - 1].graph + 1) : 0;
    p.steps = hri_plan_of(plan, i, &p.problem);
    add_graph_name(graphs, g);
    const hr_status status = hri_text_status(graphs);
    return status == HR_OK ? add_piece(&p, from_ns) : status;
}

/* In the order in which they run: the kinds are numbered so. */
static hr_status add_pieces(hr_plan *plan, hri_recording *r, hri_text *graphs, double *from_ns) {
    hr_plan_graph g = {.size = sizeof g};
    hr_status status = hr_plan_get_graph(plan, 0, &g);
    for (int32_t kind = HR_PLAN_GRAPH_WHOLE; kind <= HR_PLAN_GRAPH_EVALUATE; kind++) {
        for (size_t i = 0; status == HR_OK && i < 16; i++) {
            g.size = sizeof g;
            if (hr_plan_get_graph(plan, i, &g) != HR_OK) {
                break;
            }
            status = g.kind == kind ? add_graph(plan, i, &g, r, graphs, from_ns) : HR_OK;
        }
    }
    return status;
}

static hr_status add_part(hri_recording *r, const char *name, hri_see_category category,
                          uint64_t bytes, const char *note) {
    hri_see_part part = {.category = (uint8_t)category, .planned_bytes = bytes};
    if (!bytes) {
        return HR_OK;
    }
    hr_status status = hri_recording_text(r, name, &part.name);
    if (status == HR_OK) {
        status = hri_recording_text(r, note, &part.note);
    }
    return status == HR_OK ? hri_recording_add(r, HRI_SEE_PARTS, &part) : status;
}

/* What is alive at the peak, and what is reserved beside that. */
static hr_status add_parts(hri_recording *r, const hr_plan_summary *s) {
    uint64_t *live, sum = 0;
    hr_status status = hri_recording_live(r, &live);
    if (status != HR_OK) {
        return status;
    }
    const uint64_t *at = live + r->head.peak_op * HRI_SEE_CATEGORIES;
    status = add_part(r, "runtime", HRI_SEE_RUNTIME, s->runtime_bytes,
                      "the process before any tensor: code, stacks, context, libraries");
    if (status == HR_OK) {
        status = add_part(r, "input pipeline", HRI_SEE_RUNTIME, s->pipeline_bytes,
                          "files being read, decoded samples");
    }
    for (int c = HRI_SEE_PARAMETERS; c < HRI_SEE_CATEGORIES && status == HR_OK; c++) {
        sum += at[c];
        status = add_part(r, c == HRI_SEE_OTHER ? "constants" : hri_see_category_name((uint32_t)c),
                          (hri_see_category)c, at[c], "");
    }
    const uint64_t used = s->runtime_bytes + s->pipeline_bytes + sum;
    if (status == HR_OK && s->peak_bytes > used) {
        status = add_part(r, HRI_SEE_GAP, HRI_SEE_OTHER, s->peak_bytes - used,
                          "gaps between buffers, and whole pages");
    }
    hri_free(live);
    return status;
}

static hr_status add_choices(const hr_plan *plan, hri_recording *r) {
    hr_plan_choice c = {.size = sizeof c};
    hr_status status = HR_OK;
    const bool curve = hr_plan_get_curve(plan, 0, &c) == HR_OK;
    for (size_t i = 0; status == HR_OK; i++) {
        c.size = sizeof c;
        const hr_status got =
            curve ? hr_plan_get_curve(plan, i, &c) : hr_plan_get_choice(plan, i, &c);
        if (got != HR_OK) {
            return got == HR_E_EOF ? HR_OK : got;
        }
        const hri_see_choice row = {.budget_bytes = c.budget_bytes,
                                    .peak_bytes = c.peak_bytes,
                                    .recomputed_ops = c.recomputed_ops,
                                    .offloaded_bytes = c.offloaded_bytes,
                                    .time_ratio = c.time_ratio,
                                    .micro_batches = c.micro_batches};
        status = c.fits ? hri_recording_add(r, HRI_SEE_CHOICES, &row) : HR_OK;
    }
    return status;
}

static uint64_t known(uint64_t bytes) {
    return bytes == HR_UNKNOWN ? 0 : bytes;
}

static hr_status fill_head(const hr_plan *plan, const hr_plan_summary *s, const char *graphs,
                           hri_recording *r) {
    hri_see_head *h = &r->head;
    char created[32] = "";
    const time_t now = time(NULL);
    struct tm utc;
    if (gmtime_r(&now, &utc)) {
        strftime(created, sizeof created, "%Y-%m-%dT%H:%M:%SZ", &utc);
    }
    const struct {
        const char *from, **to;
    } texts[] = {
        {"plan", &h->source},          {s->model[0] ? s->model : plan->job.what, &h->model},
        {s->device, &h->device},       {s->precision, &h->precision},
        {s->optimizer, &h->optimizer}, {"headroom " HEADROOM_VERSION, &h->program},
        {created, &h->created},        {s->minimum_op, &h->minimum_op},
        {graphs, &h->graphs}};
    hr_status status = HR_OK;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0] && status == HR_OK; i++) {
        status = hri_recording_keep(r, texts[i].from, texts[i].to);
    }
    h->fits = s->fits != 0;
    h->batch = s->batch > 0 ? (uint64_t)s->batch : 0;
    h->micro_batches = s->micro_batches;
    h->largest_batch = s->largest_batch > 0 ? (uint64_t)s->largest_batch : 0;
    h->recomputed_ops = s->recomputed_ops;
    h->budget_bytes = known(s->budget_bytes);
    h->peak_bytes = s->peak_bytes;
    h->minimum_bytes = s->minimum_bytes;
    h->unconstrained_bytes = s->unconstrained_bytes;
    h->runtime_bytes = s->runtime_bytes + s->pipeline_bytes;
    h->arena_bytes = s->persistent_bytes + s->arena_bytes;
    h->step_ns = s->step_ns;
    h->time_ratio = s->time_ratio;
    h->flops_per_ns = plan->job.job.machine.flops_per_ns;
    h->bytes_per_ns = plan->job.job.machine.bytes_per_ns;
    return status;
}

hr_status hri_recording_from_plan(hr_plan *plan, hri_recording *out) {
    hri_recording r = {.truncated = false};
    hri_text graphs = {0};
    double from_ns = 0;
    hr_plan_summary s = {.size = sizeof s};
    hr_status status = hr_plan_get_summary(plan, &s);
    if (status == HR_OK) {
        status = s.fits ? add_pieces(plan, &r, &graphs, &from_ns) : HR_E_NOT_FOUND;
    }
    if (status == HR_OK) {
        status = fill_head(plan, &s, hri_text_get(&graphs), &r);
    }
    if (status == HR_OK) {
        status = add_choices(plan, &r);
    }
    if (status == HR_OK) {
        status = hri_recording_finish(&r);
    }
    if (status == HR_OK) {
        status = add_parts(&r, &s);
    }
    hri_text_deinit(&graphs);
    if (status != HR_OK) {
        hri_recording_deinit(&r);
        return status;
    }
    *out = r;
    return HR_OK;
}
