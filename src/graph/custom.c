/* Ops from outside: a descriptor made at run time.
 *
 * The one idea: the attribute of such a node is a pointer to the op itself, so that every function of the descriptor,
 * which is given attributes or a signature with them, finds the user's functions.  The descriptor lives in the object
 * of the caller and not in a graph, because steps copy models from graph to graph. */
#include <headroom/custom.h>

#include <string.h>

#include "base/alloc.h"
#include "base/grow.h"
#include "graph/custom.h"
#include "graph/graph.h"

enum { NAME_MAX_BYTES = 40 };

struct hr_custom {
    hr_op op;
    hr_custom_options o;
    char name[NAME_MAX_BYTES + 1];
};

static const hr_custom *of(const void *attr) {
    const hr_custom *custom;
    memcpy(&custom, attr, sizeof custom);
    return custom;
}

static hr_status custom_infer(hri_infer *c) {
    const hr_custom *x = of(c->attr);
    const char *why = "the op rejects these inputs";
    const hr_status status = x->o.shape(x->o.user, c->in, c->in_count, c->out, &why);
    return status == HR_OK ? HR_OK : hri_infer_fail(c, "%s", why);
}

static void custom_slope(hri_grad *c) {
    const hr_custom *x = of(c->sig->attr);
    hr_custom_grad call = {.size = sizeof call,
                           .in = c->in,
                           .out = c->out,
                           .dout = c->dout,
                           .need = c->need,
                           .din = c->din};
    x->o.slope(x->o.user, c->g, &call);
}

int hri_op_is_custom(const hr_op *op) {
    return op->infer == custom_infer;
}

const hr_op *hri_custom_op(const hr_custom *custom) {
    return &custom->op;
}

static hri_samples custom_samples(const hri_sig *s, uint32_t batched) {
    (void)batched;
    return of(s->attr)->o.coupled ? HRI_SAMPLES_COUPLED : HRI_SAMPLES_APART;
}

static void custom_cost(const hri_sig *s, hri_cost *cost) {
    const double each = of(s->attr)->o.flops_per_element;
    cost->flops = (each > 0 ? each : 1.0) * (double)hr_shape_count(&s->out[0].shape);
}

static uint64_t custom_workspace(const hri_sig *s, uint32_t threads) {
    const hr_custom_options *o = &of(s->attr)->o;
    double bytes = 0;
    (void)threads;
    for (uint32_t i = 0; i < s->in_count; i++) {
        bytes += (double)hr_meta_bytes(&s->in[i]);
    }
    for (uint32_t i = 0; i < s->out_count; i++) {
        bytes += (double)hr_meta_bytes(&s->out[i]);
    }
    return o->workspace_bytes + (uint64_t)(o->workspace_ratio * bytes);
}

static hr_status custom_host(const hri_call *c) {
    const hr_custom *x = of(c->sig->attr);
    const hr_custom_call call = {.size = sizeof call,
                                 .in = c->in,
                                 .out = c->out,
                                 .in_meta = c->sig->in,
                                 .out_meta = c->sig->out,
                                 .in_count = c->sig->in_count,
                                 .out_count = c->sig->out_count,
                                 .workspace = c->workspace,
                                 .threads = c->threads};
    return x->o.run(x->o.user, &call);
}

typedef struct pieces {
    hr_custom_piece_fn *fn;
    void *arg;
} pieces;

static void run_piece(void *arg, uint64_t begin, uint64_t end, uint32_t worker) {
    const pieces *p = arg;
    (void)worker;
    p->fn(p->arg, begin, end);
}

void hr_custom_parallel(const hr_custom_call *call, uint64_t count, uint64_t piece,
                        hr_custom_piece_fn *fn, void *arg) {
    pieces p = {fn, arg};
    hri_threads_range(call->threads, count, piece, run_piece, &p);
}

static int is_name(const char *name) {
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
    const size_t length = name ? strlen(name) : 0;
    return length > 0 && length <= NAME_MAX_BYTES && strspn(name, allowed) == length;
}

hr_status hr_custom_create(const hr_custom_options *theirs, hr_custom **out) {
    hr_custom_options own;
    const hr_custom_options *options = &own;
    const hr_status status = theirs ? hri_take(&own, sizeof own, theirs) : HR_E_INVALID;
    if (status != HR_OK) {
        return status;
    }
    if (!is_name(options->name) || options->input_count == 0 ||
        options->input_count > HR_CUSTOM_INPUTS || options->output_count == 0 ||
        options->output_count > HR_CUSTOM_OUTPUTS || !options->shape || !options->run ||
        options->overwrite >> options->input_count ||
        !(options->workspace_ratio >= 0 && options->workspace_ratio <= 1e6)) {
        return HR_E_INVALID;
    }
    hr_custom *x = hri_calloc(1, sizeof *x);
    if (!x) {
        return HR_E_NOMEM_HOST;
    }
    x->o = *options;
    memcpy(x->name, options->name, strlen(options->name) + 1);
    x->o.name = x->name;
    x->op = (hr_op){
        .name = x->name,
        .formula = "custom op",
        .in_min = (uint8_t)options->input_count,
        .in_max = (uint8_t)options->input_count,
        .out_count = (uint8_t)options->output_count,
        .attr_bytes = sizeof(const hr_custom *),
        .infer = custom_infer,
        .grad = options->slope ? custom_slope : NULL,
        .overwrite = {(uint16_t)options->overwrite},
        .samples = custom_samples,
        .cost = custom_cost,
        .host = {.run = custom_host,
                 .workspace = options->workspace_bytes || options->workspace_ratio > 0
                                  ? custom_workspace
                                  : NULL},
    };
    const uint16_t inputs = (uint16_t)((1u << options->input_count) - 1);
    const uint16_t outputs = (uint16_t)((1u << options->output_count) - 1);
    for (uint32_t i = 0; i < HRI_IN_MAX; i++) { /* it may read anything */
        x->op.keeps[i] = (hri_keeps){inputs, outputs};
    }
    *out = x;
    return HR_OK;
}

void hr_custom_destroy(hr_custom *op) {
    hri_free(op);
}

hr_value hr_graph_custom(hr_graph *g, const hr_custom *op, const hr_value *inputs, size_t count) {
    if (!op || count != op->o.input_count) {
        hri_graph_fail(g, HR_E_INVALID, "%s.%s: %zu inputs given, %u expected", g->path,
                       op ? op->name : "?", count, op ? op->o.input_count : 0);
        return HR_NONE;
    }
    return hri_graph_add(g, &op->op, inputs, (uint32_t)count, &op);
}
