/* Binding a plan to addresses: steps in their order, with a table of where each value lies at that moment. */
#include "run/bind.h"

#include "base/alloc.h"

/* What binding needs and running does not. */
typedef struct binder {
    const hri_bind_options *o;
    hri_bound *e;
    uint32_t *copy;  /* by step of the plan: the number of the copy it starts */
    uint32_t *place; /* by value of the problem: the buffer that holds it now, or NONE */
    hri_prose *why;
} binder;

uint64_t hri_bound_record_bytes(uint64_t steps, uint64_t operands, uint64_t values) {
    return steps * sizeof(hri_bound_call) + (operands + values) * sizeof(void *);
}

static void *address(const binder *b, uint32_t buffer) {
    const hri_plan_buffer *x = &b->o->plan->buffers[buffer];
    return (void *)((uintptr_t)(x->memory ? b->o->others[x->memory - 1] : b->o->arena) + x->offset);
}

static void *operand(const binder *b, const hri_plan_step *s, uint32_t i) {
    return address(b, b->o->plan->operands[s->first + i]);
}

/* ---- before step 0 ---- */

/* Inputs are fed, persistent values and constants are there: their buffers live from the start. */
static void place_sources(binder *b) {
    const hri_plan *plan = b->o->plan;
    for (uint32_t v = 0; v < b->o->problem->value_count; v++) {
        b->place[v] = HRI_PROBLEM_NONE;
    }
    for (uint32_t i = 0; i < plan->buffer_count; i++) {
        const hri_plan_buffer *x = &plan->buffers[i];
        if (x->value != HRI_PROBLEM_NONE && x->birth == 0 && !x->memory &&
            b->o->problem->values[x->value].role != HRI_ROLE_MADE) {
            b->place[x->value] = i;
            const uint32_t id = b->o->problem->values[x->value].id;
            if (b->o->problem->values[x->value].bytes && id < b->o->g->value_count) {
                b->e->data[id] = address(b, i);
            }
        }
    }
}

/* ---- steps ---- */

static hr_status bind_run(binder *b, const hri_plan_step *s, hri_bound_call *out) {
    const hri_problem_op *op = &b->o->problem->ops[s->op];
    const hr_graph *g = b->o->g;
    if (op->id >= g->node_count || g->nodes[op->id].sig.in_count != op->in_count ||
        g->nodes[op->id].sig.out_count != op->out_count) {
        return hri_prose_set(b->why, HR_E_INVALID, "%s is not an op of this graph", op->name);
    }
    const uint32_t count = op->in_count + op->out_count;
    *out = (hri_bound_call){.kind = s->kind,
                            .node = op->id,
                            .first = b->e->pointer_count,
                            .variant = s->variant,
                            .copy = s->kind == HRI_STEP_NET ? b->e->net_count++ : 0};
    for (uint32_t i = 0; i < count; i++) {
        b->e->pointers[b->e->pointer_count++] = operand(b, s, i);
    }
    void **workspace = &b->e->pointers[b->e->pointer_count++];
    if (b->o->plan->operands[s->first + count] != HRI_PROBLEM_NONE) {
        *workspace = operand(b, s, count);
        out->bytes = b->o->plan->buffers[b->o->plan->operands[s->first + count]].bytes;
    }
    for (uint32_t k = 0; k < op->out_count; k++) {
        b->place[op->out[k].value] = b->o->plan->operands[s->first + op->in_count + k];
    }
    return HR_OK;
}

static void bind_copy(binder *b, const hri_plan_step *s, hri_bound_call *out) {
    const uint32_t *list = b->o->plan->operands + s->first;
    const uint64_t from = b->o->plan->buffers[list[0]].bytes;
    const uint64_t to = b->o->plan->buffers[list[1]].bytes;
    const int in = s->kind == HRI_STEP_IN;
    const uint8_t memory = b->o->plan->buffers[list[!in]].memory;
    const uint32_t queue = hri_problem_queue(b->o->problem, memory, in);
    b->e->queue_count = queue + 1 > b->e->queue_count ? queue + 1 : b->e->queue_count;
    *out = (hri_bound_call){.kind = s->kind,
                            .memory = memory,
                            .queue = (uint8_t)queue,
                            .first = b->e->pointer_count,
                            .copy = b->e->copy_count++,
                            .bytes = from < to ? from : to};
    b->e->pointers[b->e->pointer_count++] = operand(b, s, 1);
    b->e->pointers[b->e->pointer_count++] = operand(b, s, 0);
    const uint32_t value = b->o->plan->buffers[list[1]].value;
    if (in && value < b->o->problem->value_count) {
        b->place[value] = list[1]; /* what came back lies elsewhere now */
    }
}

static hr_status bind_steps(binder *b) {
    const hri_plan *plan = b->o->plan;
    hr_status status = HR_OK;
    for (uint32_t i = 0; i < plan->step_count && status == HR_OK; i++) {
        const hri_plan_step *s = &plan->steps[i];
        hri_bound_call *out = &b->e->calls[b->e->call_count++];
        b->copy[i] = s->kind == HRI_STEP_NET ? b->e->net_count : b->e->copy_count;
        if (hri_step_runs(s)) {
            status = bind_run(b, s, out);
        } else if (s->kind == HRI_STEP_WAIT) {
            *out = (hri_bound_call){.kind = s->kind,
                                    .net = plan->steps[s->op].kind == HRI_STEP_NET,
                                    .copy = b->copy[s->op]};
        } else {
            bind_copy(b, s, out);
        }
    }
    return status;
}

/* ---- after the last step ---- */

static void place_results(binder *b) {
    const hri_problem *p = b->o->problem;
    for (uint32_t v = 0; v < p->value_count; v++) {
        if (p->values[v].result && p->values[v].bytes && b->place[v] != HRI_PROBLEM_NONE &&
            p->values[v].id < b->o->g->value_count) {
            b->e->data[p->values[v].id] = address(b, b->place[v]);
        }
    }
}

/* Versions of persistent values, and views, are their roots under other names.  Values come in an order in which a
 * root stands before what is made of it. */
static void place_names(binder *b) {
    const hr_graph *g = b->o->g;
    void **data = b->e->data;
    for (hr_value v = 1; v < g->value_count; v++) {
        const hri_value *value = &g->values[v];
        if (data[v]) {
            continue;
        }
        if (value->origin != HR_NONE) {
            data[v] = data[value->origin];
        } else if (value->node != HRI_NO_NODE && g->nodes[value->node].sig.op->view &&
                   g->nodes[value->node].out == v) {
            data[v] = data[g->nodes[value->node].in[0]];
        }
    }
}

/* A result that is a view: its root is what the problem knows. */
static void mark_only_visible(binder *b) {
    const hr_graph *g = b->o->g;
    place_names(b);
    for (hr_value v = 1; v < g->value_count; v++) {
        const hri_value *value = &g->values[v];
        int seen = value->node == HRI_NO_NODE || value->origin != HR_NONE;
        for (uint32_t i = 0; i < g->result_count && !seen; i++) {
            seen = g->results[i].value == v;
        }
        b->e->data[v] = seen ? b->e->data[v] : NULL;
    }
}

static hr_status bind_all(binder *b) {
    place_sources(b);
    const hr_status status = bind_steps(b);
    if (status == HR_OK) {
        place_results(b);
        mark_only_visible(b);
    }
    return status;
}

hr_status hri_bind(const hri_bind_options *options, hri_bound *out, hri_prose *why) {
    const hri_plan *plan = options->plan;
    if (!options->g->frozen || plan->problem_hash != options->problem->hash) {
        return hri_prose_set(why, HR_E_INVALID, "the plan was made for another problem");
    }
    hri_bound e = {.g = options->g, .arena = options->arena};
    binder b = {.o = options, .e = &e, .why = why};
    hr_status status = HR_E_NOMEM_HOST;
    b.place = hri_malloc(((size_t)options->problem->value_count + 1) * sizeof *b.place);
    b.copy = hri_malloc(((size_t)plan->step_count + 1) * sizeof *b.copy);
    e.calls = hri_calloc((size_t)plan->step_count + 1, sizeof *e.calls);
    e.pointers = hri_calloc((size_t)plan->operand_count + 1, sizeof *e.pointers);
    e.data = hri_calloc(options->g->value_count, sizeof *e.data);
    if (b.place && b.copy && e.calls && e.pointers && e.data) {
        status = bind_all(&b);
    }
    hri_free(b.place);
    hri_free(b.copy);
    if (status != HR_OK) {
        hri_bound_deinit(&e);
        return status == HR_E_NOMEM_HOST
                   ? hri_prose_set(why, status, "out of host memory to bind the plan")
                   : status;
    }
    *out = e;
    return HR_OK;
}

void hri_bound_deinit(hri_bound *b) {
    hri_free(b->calls);
    hri_free(b->pointers);
    hri_free(b->data);
    *b = (hri_bound){0};
}

void *hri_bound_workspace(const hri_bound *b, const hri_bound_call *c) {
    const hri_sig *sig = &b->g->nodes[c->node].sig;
    return b->pointers[c->first + sig->in_count + sig->out_count];
}

int hri_bound_is_name(const hri_bound *b, const hri_bound_call *c) {
    const hri_sig *sig = &b->g->nodes[c->node].sig;
    return sig->op->view && b->pointers[c->first] == b->pointers[c->first + sig->in_count];
}

hr_status hri_bound_find(const hri_bound *b, hr_value v, uint64_t at, uint64_t bytes, void **out) {
    if (v >= b->g->value_count || !b->data[v]) {
        return HR_E_NOT_FOUND;
    }
    const uint64_t has = hr_meta_bytes(&b->g->values[v].meta);
    if (at > has || bytes > has - at) {
        return HR_E_RANGE;
    }
    *out = (char *)b->data[v] + at;
    return HR_OK;
}
