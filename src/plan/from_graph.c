/* The adaptor: one pass to find which views are mere names, one to make values, one to make ops. */
#include "plan/from_graph.h"

#include <string.h>

#include "base/alloc.h"
#include "ops/common/label_rows.h"

/* A value has the same numbers for every part of a batch, or samples along dimension 0, or is a sum or a mean over them, or
 * counts what counts (at least 1), as losses with missing targets do: parts of a batch have their weights by that. */
enum { ALIKE, SAMPLES, SUM, MEAN, COUNT };

enum { KINDS = 32 };

typedef struct adaptor {
    const hr_graph *g;
    hri_machine machine;
    hri_prose *why;
    hri_graph_problem x;
    uint32_t *updater;           /* by graph value: the node that overwrites it */
    uint32_t *last;              /* by graph value: the last node that reads it or a view of it */
    hr_value *root;              /* by graph value: what a view looks at, in the end */
    uint8_t *used;               /* by graph value */
    uint8_t *batched;            /* by graph value: how it depends on the samples */
    uint8_t *labelled;           /* by graph value: a mean over the labels that count */
    const hri_sig *kinds[KINDS]; /* one of each kind of ops of which many go together */
    uint32_t kind_count;
} adaptor;

static int is_live(const hr_graph *g, uint32_t n) {
    return g->nodes[n].live;
}

/* Last readers, seen through views: nodes backwards, so that a view's readers are known before its own. */
static void find_views(adaptor *a) {
    const hr_graph *g = a->g;
    for (uint32_t n = g->node_count; n-- > 0;) {
        const hri_node_record *node = &g->nodes[n];
        if (!is_live(g, n)) {
            continue;
        }
        const uint32_t through = node->sig.op->view ? a->last[node->out] : 0;
        for (uint32_t i = 0; i < node->sig.in_count; i++) {
            uint32_t *last = &a->last[node->in[i]];
            const uint32_t at = i == 0 && through > n ? through : n;
            *last = at > *last ? at : *last;
            a->used[node->in[i]] = 1;
        }
        for (uint32_t k = 0; k < node->sig.out_count; k++) {
            if (node->sig.op->updates[k]) {
                a->updater[node->in[node->sig.op->updates[k] - 1]] = n;
            }
        }
    }
    for (hr_value v = 0; v < g->value_count; v++) {
        a->root[v] = v;
    }
    for (uint32_t n = 0; n < g->node_count; n++) {
        const hri_node_record *node = &g->nodes[n];
        if (is_live(g, n) && node->sig.op->view && node->sig.out_count == 1 &&
            hr_meta_bytes(&node->sig.in[0]) == hr_meta_bytes(&node->sig.out[0])) {
            const hr_value root = a->root[node->in[0]];
            const uint32_t updater = a->updater[root];
            if (updater == HRI_NO_NODE || a->last[node->out] < updater) {
                a->root[node->out] = root;
            }
        }
    }
}

static int is_persistent(hr_value_kind kind) {
    return kind == HR_VALUE_PARAM || kind == HR_VALUE_STATE;
}

static hr_status add_values(adaptor *a) {
    const hr_graph *g = a->g;
    for (uint32_t i = 0; i < g->result_count; i++) {
        a->used[a->root[g->results[i].value]] = 1;
    }
    for (hr_value v = 1; v < g->value_count; v++) {
        const hri_value *value = &g->values[v];
        a->x.value_of[v] = HRI_PROBLEM_NONE;
        if (a->root[v] != v || (value->node != HRI_NO_NODE && !is_live(g, value->node)) ||
            (value->node == HRI_NO_NODE && !a->used[v] && !is_persistent(value->kind))) {
            continue;
        }
        const hri_problem_value new = {.name = value->name,
                                       .bytes = hr_meta_bytes(&value->meta),
                                       .role = value->kind == HR_VALUE_INPUT ? HRI_ROLE_INPUT
                                               : value->kind == HR_VALUE_CONSTANT
                                                   ? HRI_ROLE_CONSTANT
                                               : is_persistent(value->kind) ? HRI_ROLE_PERSISTENT
                                                                            : HRI_ROLE_MADE,
                                       .id = v};
        const hr_status status = hri_problem_add_value(&a->x.problem, &new, &a->x.value_of[v]);
        if (status != HR_OK) {
            return status;
        }
    }
    for (hr_value v = 1; v < g->value_count; v++) {
        a->x.value_of[v] = a->x.value_of[a->root[v]];
    }
    for (uint32_t i = 0; i < g->result_count; i++) {
        a->x.problem.values[a->x.value_of[g->results[i].value]].result = 1;
    }
    return HR_OK;
}

static double time_of(const adaptor *a, const hri_sig *sig) {
    const hri_cost cost = hri_op_cost(sig);
    if (sig->op->net) {
        return cost.messages * a->machine.net_latency_ns +
               cost.wire_bytes / a->machine.net_bytes_per_ns;
    }
    const double compute = cost.flops / a->machine.flops_per_ns;
    const double memory = cost.bytes / a->machine.bytes_per_ns;
    return a->machine.launch_ns + (compute > memory ? compute : memory);
}

static int is_total(uint8_t kind) {
    return kind == SUM || kind == MEAN || kind == COUNT;
}

/* What a function of totals alone gives: one that is linear may be taken of each part and then summed.  ALIKE: it may not.
 * `kind` is that of the inputs in `totals`, which is the same unless `mixed`. */
static uint8_t of_totals(const adaptor *a, const hri_node_record *node, uint32_t totals,
                         uint8_t kind, int mixed) {
    static const char *const always[] = {
        "affine",    "reshape", "cast",   "add",    "sub",          "sum",           "mean",
        "transpose", "slice",   "concat", "sum_to", "broadcast_to", "stop_gradient", NULL};
    const char *name = node->sig.op->name;
    if (!strcmp(name, "div") && totals == 3u) {
        return a->batched[node->in[0]] == SUM && a->batched[node->in[1]] == COUNT ? MEAN : ALIKE;
    }
    if (mixed || kind == COUNT) {
        return ALIKE;
    }
    if (!strcmp(name, "maximum") && kind == SUM && totals == 1u) {
        return COUNT;
    }
    int linear = (!strcmp(name, "mul") && totals != 3u) || (!strcmp(name, "div") && totals == 1u);
    for (const char *const *each = always; *each; each++) {
        linear |= !strcmp(name, *each);
    }
    return linear ? kind : ALIKE;
}

/* Is it the loss of the graph? */
static int is_loss(const adaptor *a, hr_value v) {
    for (uint32_t i = 0; i < a->g->result_count; i++) {
        if (a->g->results[i].value == v && a->g->results[i].name &&
            !strcmp(a->g->results[i].name, "loss")) {
            return 1;
        }
    }
    return 0;
}

/* Does the node let samples of a batch touch one another?  Sums and means over samples are known of a part only: what is made
 * of them must be linear and may not meet samples again, and a loss is a mean, because parts of the batch count by their samples. */
static uint8_t follow_samples(adaptor *a, const hri_node_record *node) {
    uint32_t mask = 0, totals = 0;
    uint8_t kind = ALIKE;
    int mixed = 0;
    for (uint32_t i = 0; i < node->sig.in_count; i++) {
        const uint8_t of = a->batched[node->in[i]];
        mask |= (uint32_t)(of == SAMPLES) << i;
        totals |= (uint32_t)is_total(of) << i;
        mixed |= is_total(of) && kind != ALIKE && kind != of;
        kind = is_total(of) ? of : kind;
    }
    const hri_samples samples = mask ? hri_op_samples(&node->sig, mask) : HRI_SAMPLES_SUM;
    uint8_t coupled = samples == HRI_SAMPLES_COUPLED;
    if (node->phase == HRI_FORWARD && totals) {
        kind = mask ? ALIKE : of_totals(a, node, totals, kind, mixed);
        coupled |= kind == ALIKE;
    }
    for (uint32_t k = 0; k < node->sig.out_count; k++) {
        uint8_t *out = &a->batched[node->out + k];
        if (!mask) {
            *out = kind;
        } else if (samples == HRI_SAMPLES_COUPLED) {
            *out = k == 0 ? SAMPLES : ALIKE;
        } else {
            *out = samples == HRI_SAMPLES_APART    ? SAMPLES
                   : samples == HRI_SAMPLES_FOLDED ? ALIKE
                   : samples == HRI_SAMPLES_MEAN   ? MEAN
                                                   : SUM;
        }
        coupled |= *out == SUM && node->phase == HRI_FORWARD && is_loss(a, node->out + k);
    }
    return coupled;
}

/* Parts of a batch are weighed by the labels that count of the one input that is known for them.  Where the labels of a cross entropy
 * are those of another input, or other totals stand next to it, parts have the right weights only if all labels count.  Of labels that
 * the graph computes nobody knows how many do. */
static uint8_t follow_labels(adaptor *a, const hri_node_record *node, uint8_t coupled) {
    const hr_value named = hr_graph_find(a->g, "label");
    uint32_t totals = 0;
    uint8_t labelled = 0;
    hr_value ids;
    hri_label_rows rows;
    if (node->phase != HRI_FORWARD || coupled) {
        return coupled;
    }
    if (hri_labels_meant(node, &ids) && a->batched[node->out] == MEAN) {
        const int given = hri_label_rows_of(a->g, ids, &rows);
        const int known =
            given &&
            (named == HR_NONE || a->g->values[named].kind != HR_VALUE_INPUT || rows.input == named);
        a->labelled[node->out] = 1;
        return !given ? HRI_COUPLED : known ? HRI_APART : HRI_COUPLED_BY_LABELS;
    }
    for (uint32_t i = 0; i < node->sig.in_count; i++) {
        totals += (uint32_t)is_total(a->batched[node->in[i]]);
        labelled |= a->labelled[node->in[i]];
    }
    for (uint32_t k = 0; k < node->sig.out_count; k++) {
        a->labelled[node->out + k] = labelled;
    }
    return labelled && totals > 1 ? HRI_COUPLED_BY_LABELS : HRI_APART;
}

/* The ways to compute a node.  A device with queues chooses among its own by itself, within the work space it names. */
static uint32_t list_variants(const adaptor *a, const hri_sig *sig, const hri_kernel *kernel,
                              hri_problem_variant *variants) {
    const double time = time_of(a, sig);
    const hri_variant *list = kernel->variants;
    uint32_t count = 0;
    if (a->machine.gpu) {
        variants[0] = (hri_problem_variant){
            "", time, hri_kernel_launch_workspace(kernel, sig, a->machine.gpu, 0)};
        return 1;
    }
    do {
        const uint32_t i = count++;
        variants[i] = (hri_problem_variant){
            list ? list[i].name : "", time * (list && list[i].time > 0 ? list[i].time : 1),
            hri_kernel_workspace(kernel, sig, i, a->machine.threads)};
    } while (list && list[count].name && count < 64);
    return count;
}

/* What a kernel that makes the sum that it reads itself (launch_sum) saves of its time.  Of three passes over memory the last is not
 * made, nor one to read it; a sum that stays is written all the same.  As it was measured. */
static double joins(const adaptor *a, const hri_node_record *node, const hri_kernel *kernel) {
    const uint32_t maker = node->sig.in_count ? a->g->values[node->in[0]].node : HRI_NO_NODE;
    if (!a->machine.gpu || !kernel->launch_sum || maker == HRI_NO_NODE) {
        return 0;
    }
    const hri_sig *sum = &a->g->nodes[maker].sig;
    if (strcmp(sum->op->name, "add") || !hr_shape_same(&sum->in[0].shape, &sum->out[0].shape) ||
        !hr_shape_same(&sum->in[1].shape, &sum->out[0].shape)) {
        return 0;
    }
    int goes = 0;
    for (uint32_t k = 0; k < node->sig.out_count; k++) {
        goes |= hri_op_may_overwrite(&node->sig, k, 0) != 0;
    }
    return goes ? 2.0 / 3 : 1.0 / 3;
}

/* The forward op that may run again in one launch with a gradient that reads the same, and what that saves of its time: the reading. */
static void beside(const adaptor *a, const hri_node_record *node, const hri_kernel *kernel,
                   hri_problem_op *op) {
    if (!a->machine.gpu || node->phase != HRI_BACKWARD || node->sig.in_count < 2 ||
        (!kernel->launch_beside && kernel != &hri_kernel_scalar)) {
        return;
    }
    const hr_graph *g = a->g;
    const uint32_t maker = g->values[node->in[1]].node;
    for (uint32_t n = maker == HRI_NO_NODE ? 0 : maker + 1; n < op->id; n++) {
        const hri_node_record *f = &g->nodes[n];
        if (f->phase != HRI_FORWARD) {
            return;
        }
        if (f->sig.in_count == 0 || f->in[0] != node->in[1] || a->x.op_of[n] == HRI_PROBLEM_NONE ||
            f->sig.op->updates[0] ||
            !hri_op_beside(&f->sig, hri_kernel_for(a->machine.kernels, &f->sig), &node->sig,
                           kernel)) {
            continue;
        }
        int reads = 0;
        for (uint32_t i = 0; i < node->sig.in_count; i++) {
            reads |= a->x.value_of[node->in[i]] == a->x.value_of[f->out];
        }
        if (!reads) {
            op->beside = a->x.op_of[n] + 1;
            op->beside_share = 0.5;
            return;
        }
    }
}

/* The kind of ops that many of are launched at once: updates, and what reads nothing but what is there when the step begins.
 * 0: none.  What they save is measured. */
static uint32_t many_of(adaptor *a, const hri_node_record *node, const hri_kernel *kernel,
                        const hri_problem_op *op) {
    const hri_sig *s = &node->sig;
    int good = a->machine.gpu && kernel->launch_many && s->in_count && s->out_count &&
               !hri_kernel_launch_workspace(kernel, s, a->machine.gpu, 0);
    for (uint32_t i = 0; i < s->in_count && good && !s->op->updates[0]; i++) {
        const uint8_t role = a->x.problem.values[op->in[i]].role;
        good = role == HRI_ROLE_PERSISTENT || role == HRI_ROLE_CONSTANT;
    }
    for (uint32_t k = 0; k < a->kind_count && good; k++) {
        const hri_sig *of = a->kinds[k];
        if (of->op == s->op && of->in[0].type == s->in[0].type &&
            of->out[0].type == s->out[0].type) {
            return k + 1;
        }
    }
    if (!good || a->kind_count == KINDS) {
        return 0;
    }
    a->kinds[a->kind_count++] = s;
    return a->kind_count;
}

/* Is it the sum of the columns of what the op before it makes, in one launch with that and the op that that goes with?  `sum` has
 * addresses, 1 for what is read of the op before. */
static int is_third(const adaptor *a, const hri_problem_op *m, const hri_gpu_call *sum,
                    const hri_gpu_call *total) {
    const hri_problem_op *first = m->after && !m->third ? &a->x.problem.ops[m->after - 1] : NULL;
    if (!first || first->out_count < 1) {
        return 0;
    }
    hr_addr in[HRI_IN_MAX], out[HRI_OUT_MAX] = {3};
    const hri_sig *of = &a->g->nodes[first->id].sig;
    for (uint32_t i = 0; i < HRI_IN_MAX; i++) {
        in[i] = i < m->in_count && m->in[i] == first->out[0].value ? 3 : 0;
    }
    const hri_gpu_call maker = {
        .kernel = hri_kernel_for(a->machine.kernels, of), .sig = of, .in = in, .out = out};
    const hri_gpu_call added = {.kernel = sum->kernel, .sig = sum->sig, .in = in, .out = sum->out};
    return hri_total_takes(&maker, &added, total);
}

/* Whether the op is one launch with the one before it (graph/op_many.c), unless that is one with the op before it and three are
 * not; what that saves is measured. */
static void after(const adaptor *a, const hri_node_record *node, const hri_kernel *kernel,
                  hri_problem_op *op) {
    const uint32_t before = a->x.problem.op_count;
    if (!a->machine.gpu || before == 0) {
        return;
    }
    const hri_problem_op *m = &a->x.problem.ops[before - 1];
    const hri_sig *s = &node->sig, *of = &a->g->nodes[m->id].sig;
    const hri_kernel *maker = hri_kernel_for(a->machine.kernels, of);
    if (!of->out_count || !s->in_count || !s->out_count) {
        return;
    }
    /* Where they lie is not known yet: what one reads of the other has an address of its own. */
    hr_addr in[2][HRI_IN_MAX], out[2] = {1, 2};
    for (uint32_t i = 0; i < HRI_IN_MAX; i++) {
        in[0][i] = 0;
        in[1][i] = i < s->in_count && op->in[i] == m->out[0].value ? 1 : 0;
    }
    const hri_gpu_call calls[2] = {{.kernel = maker, .sig = of, .in = in[0], .out = &out[0]},
                                   {.kernel = kernel, .sig = s, .in = in[1], .out = &out[1]}};
    const int chain = hri_chain_may_hold(&calls[0]) && hri_chain_may_hold(&calls[1]) &&
                      of->out[0].type == s->out[0].type &&
                      hr_shape_same(&of->out[0].shape, &s->out[0].shape);
    const int taken = m->after && !(chain && m->chain);
    const int fed = !chain && (hri_made_feeds(&calls[0], &calls[1]) ||
                               hri_total_takes(&calls[0], NULL, &calls[1]));
    const int third = taken && is_third(a, m, &calls[0], &calls[1]);
    if (third || (!taken && (chain || fed || hri_sum_takes(&calls[0], &calls[1])))) {
        op->after = before;
        op->chain = (uint8_t)(chain && !third);
        op->third = (uint8_t)third;
        op->apart = (uint8_t)(fed || third);
    }
}

static hr_status add_op(adaptor *a, uint32_t n) {
    const hri_node_record *node = &a->g->nodes[n];
    const hri_sig *sig = &node->sig;
    const hri_kernel *kernel = hri_kernel_for(a->machine.kernels, sig);
    if (!kernel) {
        return hri_prose_set(a->why, HR_E_UNSUPPORTED, "%s: the device has no kernel for %s",
                             node->name, sig->op->name);
    }
    uint32_t in[HRI_IN_MAX];
    hri_problem_output out[HRI_OUT_MAX];
    hri_problem_variant variants[64];
    hri_problem_op op = {.name = node->name,
                         .kind = sig->op->name,
                         .phase = node->phase == HRI_FORWARD    ? HRI_PROBLEM_FORWARD
                                  : node->phase == HRI_BACKWARD ? HRI_PROBLEM_BACKWARD
                                                                : HRI_PROBLEM_UPDATE,
                         .net = sig->op->net,
                         .joins = joins(a, node, kernel),
                         .wire_bytes = (uint64_t)hri_op_cost(sig).wire_bytes,
                         .id = n,
                         .in_count = sig->in_count,
                         .out_count = sig->out_count,
                         .in = in,
                         .out = out,
                         .variants = variants};
    op.coupled = follow_labels(a, node, follow_samples(a, node));
    for (uint32_t i = 0; i < sig->in_count; i++) {
        in[i] = a->x.value_of[node->in[i]];
    }
    for (uint32_t k = 0; k < sig->out_count; k++) {
        out[k] = (hri_problem_output){
            .value = a->x.value_of[node->out + k],
            .updates = sig->op->updates[k] <= sig->in_count ? sig->op->updates[k] : 0};
        for (uint32_t i = 0; i < sig->in_count && !out[k].updates; i++) {
            out[k].overwrite |= (uint64_t)(hri_op_may_overwrite(sig, k, i) != 0) << i;
        }
    }
    op.variant_count = list_variants(a, sig, kernel, variants);
    beside(a, node, kernel, &op);
    op.many = many_of(a, node, kernel, &op);
    after(a, node, kernel, &op);
    return hri_problem_add_op(&a->x.problem, &op, &a->x.op_of[n]);
}

static hr_status add_ops(adaptor *a) {
    hr_status status = HR_OK;
    for (hr_value v = 1; v < a->g->value_count; v++) {
        const hri_value *value = &a->g->values[v];
        a->batched[v] =
            value->kind == HR_VALUE_INPUT && value->meta.shape.rank > 0 ? SAMPLES : ALIKE;
    }
    for (uint32_t n = 0; n < a->g->node_count && status == HR_OK; n++) {
        const hri_node_record *node = &a->g->nodes[n];
        a->x.op_of[n] = HRI_PROBLEM_NONE;
        if (!is_live(a->g, n)) {
            continue;
        }
        if (a->root[node->out] != node->out) {
            (void)follow_samples(a, node);
            continue;
        }
        status = add_op(a, n);
    }
    return status;
}

static hr_status allocate(adaptor *a) {
    const size_t values = (size_t)a->g->value_count + 1, nodes = (size_t)a->g->node_count + 1;
    a->x.value_of = hri_malloc(values * sizeof *a->x.value_of);
    a->x.op_of = hri_malloc(nodes * sizeof *a->x.op_of);
    a->updater = hri_malloc(values * sizeof *a->updater);
    a->last = hri_calloc(values, sizeof *a->last);
    a->root = hri_calloc(values, sizeof *a->root);
    a->used = hri_calloc(values, 1);
    a->batched = hri_calloc(values, 1);
    a->labelled = hri_calloc(values, 1);
    if (!a->x.value_of || !a->x.op_of || !a->updater || !a->last || !a->root || !a->used ||
        !a->batched || !a->labelled) {
        return HR_E_NOMEM_HOST;
    }
    memset(a->updater, 0xff, values * sizeof *a->updater);
    a->x.value_of[0] = HRI_PROBLEM_NONE;
    return HR_OK;
}

static hri_machine with_defaults(const hri_machine *given) {
    hri_machine m = given ? *given : (hri_machine){0};
    if (m.flops_per_ns <= 0 || m.bytes_per_ns <= 0) {
        m.flops_per_ns = 64; /* two cores: 64 Gflop/s in products, 16 GB/s */
        m.bytes_per_ns = 16;
        m.launch_ns = m.launch_ns > 0 ? m.launch_ns : 1000;
    }
    if (m.net_bytes_per_ns <= 0) {
        m.net_bytes_per_ns = 1.1;
        m.net_latency_ns = 25000;
    }
    m.threads = m.threads ? m.threads : 1;
    if (!m.kernels) {
        m.kernels = m.gpu ? hri_gpu_kernels(m.gpu) : &hri_kernels_host;
    }
    m.align = m.align ? m.align : 256;
    return m;
}

static hr_status set_memories(adaptor *a, hri_prose *why) {
    const hri_machine *m = &a->machine;
    hri_problem *p = &a->x.problem;
    if (m->more_count >= HRI_PROBLEM_MEMORIES_MAX) {
        return hri_prose_set(why, HR_E_RANGE, "there are more than %d memories",
                             HRI_PROBLEM_MEMORIES_MAX);
    }
    p->memories[0] = (hri_problem_memory){.capacity_bytes = m->other_capacity_bytes,
                                          .out_bytes_per_ns = m->out_bytes_per_ns,
                                          .in_bytes_per_ns = m->in_bytes_per_ns,
                                          .latency_ns = m->copy_latency_ns,
                                          .in_queue = 1};
    for (uint32_t i = 0; i < m->more_count; i++) {
        p->memories[1 + i] = m->more[i];
    }
    p->memory_count = 1 + m->more_count;
    return HR_OK;
}

hr_status hri_problem_from_graph(const hr_graph *g, const hri_machine *machine,
                                 hri_graph_problem *out, hri_prose *why) {
    if (!g->frozen) {
        return hri_prose_set(why, HR_E_BUSY, "the graph is not frozen");
    }
    adaptor a = {.g = g, .machine = with_defaults(machine), .why = why};
    hri_problem_init(&a.x.problem, a.machine.align);
    hr_status status = set_memories(&a, why);
    a.x.problem.copies_block = a.machine.copies_block;
    a.x.problem.copy_drag = a.machine.copy_drag;
    a.x.problem.borrows = 1;
    if (status == HR_OK) {
        status = allocate(&a);
    }
    if (status == HR_OK) {
        find_views(&a);
        status = add_values(&a);
    }
    if (status == HR_OK) {
        status = add_ops(&a);
    }
    if (status == HR_OK) {
        status = hri_problem_finish(&a.x.problem, why);
    }
    hri_free(a.updater);
    hri_free(a.last);
    hri_free(a.root);
    hri_free(a.used);
    hri_free(a.batched);
    hri_free(a.labelled);
    if (status == HR_OK) {
        *out = a.x;
    } else {
        hri_graph_problem_deinit(&a.x);
    }
    return status;
}

void hri_graph_problem_deinit(hri_graph_problem *x) {
    hri_problem_deinit(&x->problem);
    hri_free(x->value_of);
    hri_free(x->op_of);
    *x = (hri_graph_problem){0};
}
