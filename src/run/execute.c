/* Binding a plan to addresses, and the loop over what came of it. */
#include "run/execute.h"

#include <string.h>

#include "base/alloc.h"

enum { CALL_COPY = 0xffffffffu, CALL_WRITE = 0xfffffffeu, CALL_READ = 0xfffffffdu };

/* One step.  A kernel's pointers are its inputs and outputs; a copy's are where to and where from.  In a file that is a
 * distance from NULL. */
typedef struct call {
    uint32_t node;  /* CALL_...: a copy */
    uint32_t first; /* pointers[first ..) */
    union {
        void *workspace;
        uint64_t bytes; /* of a copy */
    } with;
    uint8_t variant;
} call;

struct hri_exec {
    const hr_graph *g;
    hri_threads *threads;
    hri_spill *spill;
    uint64_t seed;
    uint32_t first_sample;
    call *calls;
    void **pointers;
    void **data; /* by value of the graph: what the outside may see */
    uint32_t call_count;
};

/* What binding needs and running does not. */
typedef struct binder {
    const hri_exec_options *o;
    hri_exec *e;
    uint32_t *place; /* by value of the problem: the buffer that holds it now, or NONE */
    uint32_t pointer_count;
    hri_prose *why;
} binder;

uint64_t hri_exec_record_bytes(uint64_t steps, uint64_t operands, uint64_t values) {
    return sizeof(hri_exec) + steps * sizeof(call) + (operands + values) * sizeof(void *);
}

static void *address(const binder *b, uint32_t buffer) {
    const hri_plan_buffer *x = &b->o->plan->buffers[buffer];
    if (x->other && b->o->spill) {
        return (void *)(uintptr_t)x->offset;
    }
    return (char *)(x->other ? b->o->other : b->o->arena) + x->offset;
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
        if (x->value != HRI_PROBLEM_NONE && x->birth == 0 && !x->other &&
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

static hr_status bind_run(binder *b, const hri_plan_step *s, call *out) {
    const hri_problem_op *op = &b->o->problem->ops[s->op];
    const hr_graph *g = b->o->g;
    if (op->id >= g->node_count || g->nodes[op->id].sig.in_count != op->in_count ||
        g->nodes[op->id].sig.out_count != op->out_count) {
        return hri_prose_set(b->why, HR_E_INVALID, "%s is not an op of this graph", op->name);
    }
    const uint32_t count = op->in_count + op->out_count;
    *out = (call){.node = op->id, .first = b->pointer_count, .variant = s->variant};
    for (uint32_t i = 0; i < count; i++) {
        b->e->pointers[b->pointer_count++] = operand(b, s, i);
    }
    if (b->o->plan->operands[s->first + count] != HRI_PROBLEM_NONE) {
        out->with.workspace = operand(b, s, count);
    }
    for (uint32_t k = 0; k < op->out_count; k++) {
        b->place[op->out[k].value] = b->o->plan->operands[s->first + op->in_count + k];
    }
    return HR_OK;
}

static void bind_copy(binder *b, const hri_plan_step *s, call *out) {
    const uint32_t *list = b->o->plan->operands + s->first;
    const uint64_t from = b->o->plan->buffers[list[0]].bytes;
    const uint64_t to = b->o->plan->buffers[list[1]].bytes;
    *out = (call){.node = !b->o->spill              ? CALL_COPY
                          : s->kind == HRI_STEP_OUT ? CALL_WRITE
                                                    : CALL_READ,
                  .first = b->pointer_count};
    out->with.bytes = from < to ? from : to;
    b->e->pointers[b->pointer_count++] = operand(b, s, 1);
    b->e->pointers[b->pointer_count++] = operand(b, s, 0);
    const uint32_t value = b->o->plan->buffers[list[1]].value;
    if (s->kind == HRI_STEP_IN && value < b->o->problem->value_count) {
        b->place[value] = list[1]; /* what came back lies elsewhere now */
    }
}

static hr_status bind_steps(binder *b) {
    const hri_plan *plan = b->o->plan;
    hr_status status = HR_OK;
    for (uint32_t i = 0; i < plan->step_count && status == HR_OK; i++) {
        const hri_plan_step *s = &plan->steps[i];
        call *out = &b->e->calls[b->e->call_count];
        if (s->kind == HRI_STEP_RUN) {
            status = bind_run(b, s, out);
            b->e->call_count++;
        } else if (s->kind != HRI_STEP_WAIT) {
            bind_copy(b, s, out);
            b->e->call_count++;
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

static hr_status bind(binder *b) {
    place_sources(b);
    const hr_status status = bind_steps(b);
    if (status == HR_OK) {
        place_results(b);
        mark_only_visible(b);
    }
    return status;
}

hr_status hri_exec_create(const hri_exec_options *options, hri_exec **out, hri_prose *why) {
    const hri_plan *plan = options->plan;
    if (!options->g->frozen || plan->problem_hash != options->problem->hash) {
        return hri_prose_set(why, HR_E_INVALID, "the plan was made for another problem");
    }
    hri_exec *e = hri_calloc(1, sizeof *e);
    binder b = {.o = options, .e = e, .why = why};
    hr_status status = HR_E_NOMEM_HOST;
    b.place = hri_malloc(((size_t)options->problem->value_count + 1) * sizeof *b.place);
    if (e) {
        e->g = options->g;
        e->threads = options->threads;
        e->spill = options->spill;
        e->seed = options->seed;
        e->calls = hri_calloc((size_t)plan->step_count + 1, sizeof *e->calls);
        e->pointers = hri_calloc((size_t)plan->operand_count + 1, sizeof *e->pointers);
        e->data = hri_calloc(options->g->value_count, sizeof *e->data);
        if (b.place && e->calls && e->pointers && e->data) {
            status = bind(&b);
        }
    }
    hri_free(b.place);
    if (status != HR_OK) {
        hri_exec_destroy(e);
        return status == HR_E_NOMEM_HOST
                   ? hri_prose_set(why, status, "no host memory to bind the plan")
                   : status;
    }
    *out = e;
    return HR_OK;
}

void hri_exec_destroy(hri_exec *e) {
    if (e) {
        hri_free(e->calls);
        hri_free(e->pointers);
        hri_free(e->data);
        hri_free(e);
    }
}

void hri_exec_begin(hri_exec *e) {
    for (hr_value v = 1; v < e->g->value_count; v++) {
        const hr_value_kind kind = e->g->values[v].kind;
        if (e->data[v] &&
            (kind == HR_VALUE_PARAM || kind == HR_VALUE_STATE || kind == HR_VALUE_CONSTANT)) {
            hri_graph_initial(e->g, v, e->seed, e->data[v]);
        }
    }
}

int hri_exec_holds(const hri_exec *e, hr_value v) {
    return v < e->g->value_count && e->data[v] != NULL;
}

/* The first of the bytes meant, or why there are none. */
static hr_status find_bytes(const hri_exec *e, hr_value v, uint64_t at, uint64_t bytes,
                            char **out) {
    if (!hri_exec_holds(e, v)) {
        return HR_E_NOT_FOUND;
    }
    const uint64_t has = hr_meta_bytes(&e->g->values[v].meta);
    if (at > has || bytes > has - at) {
        return HR_E_RANGE;
    }
    *out = (char *)e->data[v] + at;
    return HR_OK;
}

hr_status hri_exec_put(hri_exec *e, hr_value v, uint64_t at, const void *from, uint64_t bytes) {
    char *to;
    const hr_status status = find_bytes(e, v, at, bytes, &to);
    if (status == HR_OK && bytes) {
        memcpy(to, from, bytes);
    }
    return status;
}

hr_status hri_exec_get(const hri_exec *e, hr_value v, uint64_t at, void *to, uint64_t bytes) {
    char *from;
    const hr_status status = find_bytes(e, v, at, bytes, &from);
    if (status == HR_OK && bytes) {
        memcpy(to, from, bytes);
    }
    return status;
}

const hr_graph *hri_exec_graph(const hri_exec *e) {
    return e->g;
}

void hri_exec_sample(hri_exec *e, uint32_t first_sample) {
    e->first_sample = first_sample;
}

static hr_status run_kernel(const hri_exec *e, const call *c, uint32_t step) {
    const hri_sig *sig = &e->g->nodes[c->node].sig;
    void **pointers = e->pointers + c->first;
    if (sig->op->view && pointers[0] == pointers[sig->in_count]) {
        return HR_OK;
    }
    const hri_call kernel = {.sig = sig,
                             .in = (const void *const *)pointers,
                             .out = pointers + sig->in_count,
                             .workspace = c->with.workspace,
                             .threads = e->threads,
                             .variant = c->variant,
                             .node = c->node,
                             .step = step,
                             .first_sample = e->first_sample,
                             .seed = e->seed};
    return hri_op_run(&kernel);
}

static hr_status run_call(const hri_exec *e, const call *c, uint32_t step) {
    void *const *pointers = e->pointers + c->first;
    switch (c->node) {
    case CALL_COPY:
        memcpy(pointers[0], pointers[1], c->with.bytes);
        return HR_OK;
    case CALL_WRITE:
        return hri_spill_write(e->spill, (uintptr_t)pointers[0], pointers[1], c->with.bytes);
    case CALL_READ:
        return hri_spill_read(e->spill, (uintptr_t)pointers[1], pointers[0], c->with.bytes);
    default:
        return run_kernel(e, c, step);
    }
}

hr_status hri_exec_run(hri_exec *e, uint32_t step, uint32_t *node) {
    uint32_t last = 0; /* a copy has no node: the one before it stands for it */
    for (uint32_t i = 0; i < e->call_count; i++) {
        const call *c = &e->calls[i];
        last = c->node < e->g->node_count ? c->node : last;
        const hr_status status = run_call(e, c, step);
        if (status != HR_OK) {
            if (node) {
                *node = last;
            }
            return status;
        }
    }
    return HR_OK;
}
