/* Putting the calls of a plan into queues, capturing them, and the inputs and results around a replay. */
#include "run/execute_gpu.h"

#include <sched.h>
#include <string.h>

#include "base/alloc.h"
#include "device/device.h"

typedef struct input {
    hr_value value;
    hr_addr to;         /* where the plan wants it */
    uint64_t at, bytes; /* in staging, as it waits there */
    uint64_t low, high; /* bytes that were put since they last travelled; low == high: none */
    uint8_t small;
    uint8_t fed;            /* it has been put at all */
    hri_lane_widen *widens; /* it waits rounded; NULL: as it is */
} input;

typedef struct result {
    hr_value value;
    hr_addr from;
    uint64_t at, bytes; /* in lane->back */
} result;

struct hri_exec_gpu {
    hri_lane *lane;
    const hri_bound *b;
    uint64_t seed;
    uint32_t rank;
    uint8_t moves;  /* some calls move bytes between ranks: over the wire, or group.c runs it with
                      those of the others */
    uint8_t trying; /* nobody exchanges anything yet */
    hri_gpu_wire *wire;
    hri_gpu_wire_call *nets; /* with a wire: by exchange */
    hr_addr *addrs;          /* bound->pointers as addresses */
    hri_gpu_call *calls;     /* by call of the plan; those that run nothing have no signature */
    input *inputs;
    result *results;
    hr_event **done;      /* by copy of the plan: it is over */
    hr_event **marks;     /* of profiles: before the first call, and behind each; NULL: none yet */
    hri_gpu_graph *graph; /* NULL: run call by call */
    uint32_t input_count, result_count;
};

static hr_addr addr(const void *pointer) {
    return (hr_addr)(uintptr_t)pointer;
}

static hr_queue *queue_of(const hri_exec_gpu *x, hri_engine_lane which) {
    return hri_engine_queue(x->lane->engine, which);
}

static hr_addr staging(const hri_exec_gpu *x) {
    return x->lane->control + HRI_LANE_ALIGN;
}

/* ---- making one ---- */

static uint64_t room(uint64_t bytes) {
    return (bytes + HRI_LANE_ALIGN - 1) / HRI_LANE_ALIGN * HRI_LANE_ALIGN;
}

/* Small ones first, so that they travel in one copy behind the control block. */
static hr_status list_inputs(hri_exec_gpu *x) {
    const hr_graph *g = x->b->g;
    uint64_t small = HRI_LANE_ALIGN, large = HRI_LANE_ALIGN + x->lane->sizes.small;
    for (hr_value v = 1; v < g->value_count; v++) {
        const uint64_t whole = hr_meta_bytes(&g->values[v].meta);
        if (g->values[v].kind != HR_VALUE_INPUT || g->values[v].carried) {
            continue;
        }
        const int widens = x->lane->stage && hri_lane_widens(g, v, NULL);
        const uint64_t bytes = widens ? whole / 2 : whole;
        uint64_t *at = whole <= HRI_LANE_SMALL ? &small : &large;
        if (x->b->data[v]) {
            input *in = &x->inputs[x->input_count++];
            *in = (input){.value = v,
                          .to = addr(x->b->data[v]),
                          .at = *at,
                          .bytes = bytes,
                          .small = whole <= HRI_LANE_SMALL};
            in->widens = widens ? hri_calloc(1, sizeof *in->widens) : NULL;
            if (widens && !(in->widens && hri_lane_widens(g, v, in->widens))) {
                return HR_E_NOMEM_HOST;
            }
        }
        *at += room(bytes);
    }
    return HR_OK;
}

static void list_results(hri_exec_gpu *x) {
    const hr_graph *g = x->b->g;
    uint64_t at = 0;
    for (uint32_t i = 0; i < g->result_count; i++) {
        const hr_value v = g->results[i].value;
        const uint64_t bytes = hr_meta_bytes(&g->values[v].meta);
        if (bytes <= HRI_LANE_SMALL && x->b->data[v]) {
            x->results[x->result_count++] =
                (result){.value = v, .from = addr(x->b->data[v]), .at = at, .bytes = bytes};
            at += room(bytes);
        }
    }
}

int hri_exec_gpu_moves(const hri_exec_gpu *x, uint32_t i) {
    const hri_bound_call *c = &x->b->calls[i];
    hri_moves m = {0};
    if (c->kind != HRI_STEP_RUN && c->kind != HRI_STEP_NET) {
        return 0;
    }
    const hri_sig *sig = &x->b->g->nodes[c->node].sig;
    if (sig->op->net && sig->op->moves) {
        sig->op->moves(sig, x->rank, &m);
    }
    return m.ranks > 1;
}

static void list_calls(hri_exec_gpu *x) {
    hri_gpu *gpu = hri_engine_gpu(x->lane->engine);
    for (uint32_t i = 0; i < x->b->pointer_count; i++) {
        x->addrs[i] = addr(x->b->pointers[i]);
    }
    for (uint32_t i = 0; i < x->b->call_count; i++) {
        const hri_bound_call *c = &x->b->calls[i];
        const int runs = c->kind == HRI_STEP_RUN || c->kind == HRI_STEP_NET;
        if (!runs || hri_bound_is_name(x->b, c)) {
            continue;
        }
        if (hri_exec_gpu_moves(x, i)) {
            x->moves = 1;
            continue;
        }
        const hri_sig *sig = &x->b->g->nodes[c->node].sig;
        x->calls[i] = (hri_gpu_call){.gpu = gpu,
                                     .kernel = hri_kernel_for(hri_gpu_kernels(gpu), sig),
                                     .sig = sig,
                                     .in = x->addrs + c->first,
                                     .out = x->addrs + c->first + sig->in_count,
                                     .workspace = addr(hri_bound_workspace(x->b, c)),
                                     .workspace_bytes = c->bytes,
                                     .control = x->lane->control,
                                     .variant = c->variant,
                                     .node = x->b->g->nodes[c->node].counter,
                                     .rank = x->rank};
    }
}

/* An exchange that is waited for at once has a number, too. */
static uint32_t net_slots(const hri_bound *b) {
    return b->net_count + 1;
}

static hr_status make_events(hri_exec_gpu *x) {
    hr_device *device = hri_engine_device(x->lane->engine);
    hr_status status = hri_engine_need_copies(x->lane->engine, x->b->queue_count);
    if (status == HR_OK && x->moves) {
        status = hri_engine_need_net(x->lane->engine);
    }
    for (uint32_t i = 0; i < x->b->copy_count && status == HR_OK; i++) {
        status = hr_event_create(device, &x->done[i]);
    }
    for (uint32_t i = 0; x->nets && i < net_slots(x->b) && status == HR_OK; i++) {
        status = hr_event_create(device, &x->nets[i].ready);
        status = status == HR_OK ? hr_event_create(device, &x->nets[i].over) : status;
    }
    return status;
}

hr_status hri_exec_gpu_create(hri_lane *lane, const hri_bound *bound, uint64_t seed, uint32_t rank,
                              hri_gpu_wire *wire, hri_exec_gpu **out, hri_prose *why) {
    hri_exec_gpu *x = hri_calloc(1, sizeof *x);
    hr_status status = HR_E_NOMEM_HOST;
    if (x) {
        x->lane = lane;
        x->b = bound;
        x->seed = seed;
        x->rank = rank;
        x->wire = wire;
        x->nets = wire ? hri_calloc(net_slots(bound), sizeof *x->nets) : NULL;
        x->inputs = hri_calloc(bound->g->value_count, sizeof *x->inputs);
        x->results = hri_calloc((size_t)bound->g->result_count + 1, sizeof *x->results);
        x->done = hri_calloc((size_t)bound->copy_count + 1, sizeof(hr_event *));
        x->addrs = hri_calloc((size_t)bound->pointer_count + 1, sizeof *x->addrs);
        x->calls = hri_calloc((size_t)bound->call_count + 1, sizeof *x->calls);
        if (x->inputs && x->results && x->done && x->addrs && x->calls && (x->nets || !wire)) {
            list_calls(x);
            list_results(x);
            status = list_inputs(x);
            status = status == HR_OK ? make_events(x) : status;
        }
    }
    if (status != HR_OK) {
        hri_exec_gpu_destroy(x);
        return hri_prose_set(why, status, "bookkeeping of the plan on the device: %s",
                             hr_status_text(status));
    }
    *out = x;
    return HR_OK;
}

void hri_exec_gpu_destroy(hri_exec_gpu *x) {
    if (!x) {
        return;
    }
    for (uint32_t i = 0; x->done && i < x->b->copy_count; i++) {
        hr_event_destroy(x->done[i]);
    }
    for (uint32_t i = 0; x->nets && i < net_slots(x->b); i++) {
        hr_event_destroy(x->nets[i].ready);
        hr_event_destroy(x->nets[i].over);
    }
    for (uint32_t i = 0; x->marks && i < x->b->call_count + 1; i++) {
        hr_event_destroy(x->marks[i]);
    }
    hri_free(x->nets);
    hri_free(x->marks);
    if (x->graph) {
        hri_gpu_graph_destroy(hri_engine_gpu(x->lane->engine), x->graph);
    }
    for (uint32_t i = 0; i < x->input_count; i++) {
        hri_free(x->inputs[i].widens);
    }
    hri_free(x->inputs);
    hri_free(x->results);
    hri_free(x->done);
    hri_free(x->addrs);
    hri_free(x->calls);
    hri_free(x);
}

/* ---- the calls ---- */

/* What the compute queue has so far comes before the copy: it made the source, or used the target for something else. */
static hr_status start_copy(const hri_exec_gpu *x, const hri_bound_call *c) {
    hr_queue *queue = hri_engine_copy_queue(x->lane->engine, c->queue);
    hr_status status = hr_event_mark(x->lane->ready, queue_of(x, HRI_ENGINE_COMPUTE));
    status = status == HR_OK ? hr_event_wait(x->lane->ready, queue) : status;
    status = status == HR_OK ? hr_copy(queue, addr(x->b->pointers[c->first]),
                                       addr(x->b->pointers[c->first + 1]), c->bytes)
                             : status;
    return status == HR_OK ? hr_event_mark(x->done[c->copy], queue) : status;
}

/* Kernels that may go together (hri_op_launch_many): neighbours of one op, element-wise neighbours, and who
 * reads their sum or makes a part of it, or adds up what they make; and a gradient behind the forward op that runs again. */
static uint32_t neighbours(const hri_exec_gpu *x, uint32_t first) {
    const hri_gpu_call *calls = &x->calls[first];
    const uint32_t left = x->b->call_count - first;
    uint32_t count = 1;
    while (calls->sig && count < left && calls[count].sig &&
           (calls[count].sig->op == calls->sig->op ||
            (hri_chain_may_hold(calls) && hri_chain_may_hold(&calls[count])))) {
        count++;
    }
    if (count < left && calls->sig && calls[count].sig &&
        hri_beside(&calls[count - 1], &calls[count])) {
        count++;
    }
    return count < left && calls->sig && calls[count].sig &&
                   (hri_sum_feeds(&calls[count - 1], &calls[count]) ||
                    hri_sum_takes(&calls[count - 1], &calls[count]) ||
                    hri_made_feeds(&calls[count - 1], &calls[count]))
               ? count + 1
               : count;
}

/* Between processes. */
static hr_status exchange(const hri_exec_gpu *x, uint32_t i, int at_once) {
    const hri_bound_call *c = &x->b->calls[i];
    const uint32_t number = c->kind == HRI_STEP_NET ? c->copy : x->b->net_count;
    hri_gpu_wire_call *call = &x->nets[number];
    call->sig = &x->b->g->nodes[c->node].sig;
    call->operands = x->b->pointers + c->first;
    return at_once ? hri_gpu_wire_make(x->wire, call) : hri_gpu_wire_start(x->wire, call);
}

static hr_status put_call(const hri_exec_gpu *x, uint32_t i, uint32_t count) {
    const hri_bound_call *c = &x->b->calls[i];
    const int wired = x->wire && !x->trying;
    switch ((hri_step_kind)c->kind) {
    case HRI_STEP_RUN:
    case HRI_STEP_NET: /* of one rank: a copy, or of others: group.c has done it */
        if (wired && hri_exec_gpu_moves(x, i)) {
            return exchange(x, i, c->kind == HRI_STEP_RUN);
        }
        return x->calls[i].sig ? hri_op_launch_many(&x->calls[i], count) : HR_OK;
    case HRI_STEP_OUT:
    case HRI_STEP_IN:
        return start_copy(x, c);
    case HRI_STEP_WAIT:
        if (c->net) {
            return wired ? hri_gpu_wire_wait(x->wire, c->copy, x->nets[c->copy].over) : HR_OK;
        }
        return hr_event_wait(x->done[c->copy], queue_of(x, HRI_ENGINE_COMPUTE));
    default:
        return HR_E_INTERNAL;
    }
}

/* All calls, then the small results.  The plan waits for each of its copies, so no queue is left behind. */
static hr_status put_calls(const hri_exec_gpu *x, uint32_t *node) {
    hr_status status = HR_OK;
    for (uint32_t i = 0; i < x->b->call_count && status == HR_OK;) {
        const uint32_t count = neighbours(x, i);
        status = put_call(x, i, count);
        if (status != HR_OK && node) {
            *node = x->b->calls[i].node;
        }
        i += count;
    }
    return status == HR_OK ? hri_exec_gpu_put_results(x) : status;
}

hr_status hri_exec_gpu_put_results(const hri_exec_gpu *x) {
    hr_status status = HR_OK;
    for (uint32_t i = 0; i < x->result_count && status == HR_OK; i++) {
        const result *r = &x->results[i];
        status = hr_copy(queue_of(x, HRI_ENGINE_COMPUTE), addr(x->lane->back + r->at), r->from,
                         r->bytes);
    }
    return status;
}

uint32_t hri_exec_gpu_neighbours(const hri_exec_gpu *x, uint32_t i) {
    return neighbours(x, i);
}

hr_status hri_exec_gpu_put_call(const hri_exec_gpu *x, uint32_t i, uint32_t count) {
    return put_call(x, i, count);
}

const hri_bound *hri_exec_gpu_bound(const hri_exec_gpu *x) {
    return x->b;
}

hri_lane *hri_exec_gpu_lane(const hri_exec_gpu *x) {
    return x->lane;
}

/* ---- inputs ---- */

static input *find_input(hri_exec_gpu *x, hr_value v) {
    for (uint32_t i = 0; i < x->input_count; i++) {
        if (x->inputs[i].value == v) {
            return &x->inputs[i];
        }
    }
    return NULL;
}

/* Staging belongs to one executor at a time; what another one put there is gone. */
static void own_staging(hri_exec_gpu *x) {
    if (x->lane->owner != x) {
        for (uint32_t i = 0; i < x->input_count; i++) {
            x->inputs[i].fed = 0;
            x->inputs[i].low = x->inputs[i].high = 0;
        }
        x->lane->owner = x;
    }
}

hr_status hri_exec_gpu_put(hri_exec_gpu *x, hr_value v, uint64_t at, const void *from,
                           uint64_t bytes) {
    input *in = find_input(x, v);
    if (!in) {
        return hri_lane_put(x->lane, addr(x->b->data[v]) + at, from, bytes);
    }
    hr_status status = hri_lane_settle(x->lane);
    if (status != HR_OK) {
        return status;
    }
    own_staging(x);
    if (in->widens) {
        const uint64_t count = bytes / sizeof(float);
        if (at % sizeof(float) || bytes % sizeof(float)) {
            return HR_E_INVALID; /* a part of a number cannot be rounded */
        }
        at /= 2;
        bytes /= 2;
        status = hri_lane_round(in->widens, from, count, x->lane->pinned + in->at + at);
        if (status != HR_OK) {
            return status;
        }
    } else {
        memcpy(x->lane->pinned + in->at + at, from, bytes);
    }
    const int first = in->low == in->high;
    in->low = first || at < in->low ? at : in->low;
    in->high = first || at + bytes > in->high ? at + bytes : in->high;
    in->fed = 1;
    return HR_OK;
}

hr_status hri_exec_gpu_make(hri_exec_gpu *x, hr_value v, uint64_t bytes, hri_lane_make_fn *make,
                            void *user) {
    return hri_lane_make(x->lane, addr(x->b->data[v]), bytes, make, user);
}

hr_status hri_exec_gpu_clear(hri_exec_gpu *x, hr_value v, uint64_t bytes) {
    return hr_fill(queue_of(x, HRI_ENGINE_COMPUTE), addr(x->b->data[v]), 0, bytes);
}

hr_status hri_exec_gpu_flush(hri_exec_gpu *x) {
    hr_queue *feed = queue_of(x, HRI_ENGINE_FEED);
    hr_status status = HR_OK;
    int first = 1;
    for (uint32_t i = 0; x->lane->stage && i < x->input_count && status == HR_OK; i++) {
        input *in = &x->inputs[i];
        if (in->small || in->low == in->high) {
            continue;
        }
        status = first ? hr_event_wait(x->lane->taken, feed) : HR_OK;
        first = 0;
        x->lane->feeding = 1;
        if (status == HR_OK) {
            status = hr_copy(feed, staging(x) + in->at + in->low,
                             addr(x->lane->pinned + in->at + in->low), in->high - in->low);
        }
        if (status == HR_OK) {
            in->low = in->high = 0;
        }
    }
    return status;
}

/* The control block and small inputs in one copy, and whatever large ones are not on their way yet. */
static hr_status send_inputs(hri_exec_gpu *x, uint32_t step, uint32_t first_sample) {
    hr_queue *feed = queue_of(x, HRI_ENGINE_FEED), *compute = queue_of(x, HRI_ENGINE_COMPUTE);
    const hri_gpu_control control = {.seed = x->seed, .step = step, .first_sample = first_sample};
    hr_status status = hri_lane_settle(x->lane);
    if (status != HR_OK) {
        return status;
    }
    own_staging(x);
    memcpy(x->lane->pinned, &control, sizeof control);
    status = hri_exec_gpu_flush(x);
    status = status == HR_OK ? hr_event_wait(x->lane->taken, feed) : status;
    x->lane->feeding = 1;
    status = status == HR_OK ? hr_copy(feed, staging(x), addr(x->lane->pinned),
                                       HRI_LANE_ALIGN + x->lane->sizes.small)
                             : status;
    status = status == HR_OK ? hr_event_mark(x->lane->staged, feed) : status;
    return status == HR_OK ? hr_event_wait(x->lane->staged, compute) : status;
}

static hr_status widen(const hri_exec_gpu *x, const input *in, hr_addr from) {
    hri_gpu *gpu = hri_engine_gpu(x->lane->engine);
    const hri_gpu_call call = {.gpu = gpu,
                               .kernel = hri_kernel_for(hri_gpu_kernels(gpu), &in->widens->sig),
                               .sig = &in->widens->sig,
                               .in = &from,
                               .out = &in->to,
                               .control = x->lane->control};
    return hri_op_launch(&call);
}

/* From staging to where the plan wants them.  Large inputs without a place come from the host here. */
static hr_status take_inputs(hri_exec_gpu *x) {
    hr_queue *compute = queue_of(x, HRI_ENGINE_COMPUTE);
    hr_status status = hr_copy(compute, x->lane->control, staging(x), sizeof(hri_gpu_control));
    for (uint32_t i = 0; i < x->input_count && status == HR_OK; i++) {
        input *in = &x->inputs[i];
        const int staged = in->small || x->lane->stage;
        const hr_addr from = staged ? staging(x) + in->at : addr(x->lane->pinned + in->at);
        status = in->widens ? widen(x, in, from) : hr_copy(compute, in->to, from, in->bytes);
        x->lane->direct |= !staged;
        in->low = in->high = 0;
    }
    status = status == HR_OK ? hr_event_mark(x->lane->taken, compute) : status;
    if (status != HR_OK) {
        (void)!hr_queue_sync(compute); /* without the mark nobody could wait for the copies */
        x->lane->direct = 0;
    }
    return status;
}

static hr_status feed_run(hri_exec_gpu *x, uint32_t step, uint32_t first_sample) {
    hr_status status = send_inputs(x, step, first_sample);
    for (uint32_t i = 0; i < x->input_count && status == HR_OK; i++) {
        status = x->inputs[i].fed ? HR_OK : HR_E_INVALID; /* nobody put it */
    }
    return status == HR_OK ? take_inputs(x) : status;
}

hr_status hri_exec_gpu_feed(hri_exec_gpu *x, uint32_t step, uint32_t first_sample) {
    hri_gpu_use(hri_engine_gpu(x->lane->engine), queue_of(x, HRI_ENGINE_COMPUTE));
    return feed_run(x, step, first_sample);
}

/* ---- running ---- */

static void feed_zeros(hri_exec_gpu *x) {
    own_staging(x);
    memset(x->lane->pinned, 0, HRI_LANE_ALIGN + x->lane->sizes.small + hri_lane_large(x->lane));
    for (uint32_t i = 0; i < x->input_count; i++) {
        x->inputs[i].low = 0;
        x->inputs[i].high = x->inputs[i].bytes;
        x->inputs[i].fed = 1;
    }
}

static hr_status capture(hri_exec_gpu *x, uint32_t *node) {
    hri_gpu *gpu = hri_engine_gpu(x->lane->engine);
    hri_gpu_graph *graph = NULL;
    hr_status status = hri_gpu_capture_begin(gpu);
    if (status == HR_E_UNSUPPORTED) {
        return HR_OK; /* call by call, then */
    }
    if (status != HR_OK) {
        return status;
    }
    status = put_calls(x, node);
    if (status == HR_OK) {
        status = hri_gpu_capture_end(gpu, &graph);
    } else {
        hri_gpu_capture_drop(gpu);
    }
    if (status == HR_OK) {
        x->graph = graph;
    }
    return status;
}

/* What only looks at the weights leaves no trace in them. */
static int trains(const hr_graph *g) {
    int yes = 0;
    for (uint32_t n = 0; n < g->node_count && !yes; n++) {
        yes = g->nodes[n].live && g->nodes[n].phase != HRI_FORWARD;
    }
    return yes;
}

hr_status hri_exec_gpu_prepare(hri_exec_gpu *x, hri_prose *why) {
    hri_gpu *gpu = hri_engine_gpu(x->lane->engine);
    uint32_t node = HRI_NO_NODE;
    const char *what = "running the plan for the first time";
    hri_gpu_use(gpu, queue_of(x, HRI_ENGINE_COMPUTE));
    hr_status status = hri_lane_settle(x->lane);
    if (status == HR_OK) {
        feed_zeros(x);
        status = feed_run(x, 0, 0);
    }
    hri_gpu_note(gpu, trains(x->b->g));
    x->trying = 1;
    status = status == HR_OK ? put_calls(x, &node) : status;
    x->trying = 0;
    hri_gpu_note(gpu, 0);
    status = status == HR_OK ? hri_exec_gpu_wait(x) : status;
    if (status == HR_OK && !x->graph && !x->moves) {
        what = "capturing the plan";
        status = capture(x, &node);
    }
    x->lane->owner = NULL; /* zeros are nobody's inputs */
    if (status == HR_OK) {
        return HR_OK;
    }
    (void)!hri_exec_gpu_wait(x); /* nothing may run on when the memory goes */
    const char *detail = hri_gpu_detail(gpu);
    return hri_prose_set(
        why, status, "%s: %s%s%s", what, node != HRI_NO_NODE ? x->b->g->nodes[node].name : "",
        node != HRI_NO_NODE ? ": " : "", detail[0] ? detail : hr_status_text(status));
}

/* The run between two marks, so that how long the device worked can be asked for afterwards. */
static hr_status run_timed(hri_exec_gpu *x, uint32_t *node) {
    hri_gpu *gpu = hri_engine_gpu(x->lane->engine);
    hr_queue *compute = queue_of(x, HRI_ENGINE_COMPUTE);
    hr_status status = hr_event_mark(x->lane->begun, compute);
    if (x->wire) {
        hri_gpu_wire_begin(x->wire);
    }
    if (status == HR_OK) {
        status = x->graph ? hri_gpu_graph_launch(gpu, x->graph) : put_calls(x, node);
    }
    if (x->wire) {
        status = hri_gpu_wire_end(x->wire, status);
    }
    return status == HR_OK ? hr_event_mark(x->lane->over, compute) : status;
}

hr_status hri_exec_gpu_run(hri_exec_gpu *x, uint32_t step, uint32_t first_sample, uint32_t *node) {
    hri_gpu *gpu = hri_engine_gpu(x->lane->engine);
    if (node) {
        *node = 0; /* a graph does not say which */
    }
    if (x->moves && !x->wire) {
        return HR_E_UNSUPPORTED; /* not alone */
    }
    hri_gpu_use(gpu, queue_of(x, HRI_ENGINE_COMPUTE));
    const hr_status status = feed_run(x, step, first_sample);
    if (status != HR_OK) {
        return status;
    }
    return run_timed(x, node);
}

void hri_exec_gpu_drop(hri_exec_gpu *x) {
    if (x->wire) {
        hri_gpu_wire_drop(x->wire);
    }
}

uint64_t hri_exec_gpu_busy_ns(hri_exec_gpu *x) {
    uint64_t ns = 0;
    return hr_event_elapsed(x->lane->begun, x->lane->over, &ns) == HR_OK ? ns : 0;
}

hr_status hri_exec_gpu_wait(hri_exec_gpu *x) {
    hr_status status = HR_OK;
    for (int i = 0; i < HRI_ENGINE_LANES; i++) { /* every queue, whatever the one before said */
        const hr_status synced = hr_queue_sync(queue_of(x, (hri_engine_lane)i));
        status = status == HR_OK ? synced : status;
    }
    return status;
}

hr_status hri_exec_gpu_get(hri_exec_gpu *x, hr_value v, uint64_t at, void *to, uint64_t bytes) {
    for (uint32_t i = 0; i < x->result_count; i++) {
        if (x->results[i].value == v) {
            const hr_status status = hr_queue_sync(queue_of(x, HRI_ENGINE_COMPUTE));
            if (status == HR_OK) {
                memcpy(to, x->lane->back + x->results[i].at + at, bytes);
            }
            return status;
        }
    }
    return hri_lane_get(x->lane, to, addr(x->b->data[v]) + at, bytes);
}

/* ---- where the time goes ---- */

/* Events between calls: made for the first profile and kept, since making them takes longer than many a kernel. */
static hr_status need_marks(hri_exec_gpu *x) {
    hr_device *device = hri_engine_device(x->lane->engine);
    const uint32_t count = x->b->call_count + 1;
    if (!x->marks) {
        x->marks = hri_calloc(count, sizeof(hr_event *));
    }
    hr_status status = x->marks ? HR_OK : HR_E_NOMEM_HOST;
    for (uint32_t i = 0; i < count && status == HR_OK; i++) {
        status = x->marks[i] ? HR_OK : hr_event_create(device, &x->marks[i]);
    }
    return status;
}

/* Calls that go together in a step go together here too: what is timed is the step as it runs. */
static hr_status time_calls(hri_exec_gpu *x, uint32_t i, uint32_t count) {
    const hri_bound_call *c = &x->b->calls[i];
    hr_queue *compute = queue_of(x, HRI_ENGINE_COMPUTE);
    const int net = c->kind == HRI_STEP_NET && x->wire && hri_exec_gpu_moves(x, i);
    hr_status status = net                                  ? exchange(x, i, 1)
                       : c->kind == HRI_STEP_WAIT && c->net ? HR_OK
                                                            : put_call(x, i, count);
    if (status == HR_OK && (c->kind == HRI_STEP_OUT || c->kind == HRI_STEP_IN)) {
        status = hr_event_wait(x->done[c->copy], compute); /* a copy alone, as long as it takes */
    }
    return status == HR_OK ? hr_event_mark(x->marks[i + count], compute) : status;
}

/* By how much a call is to be charged among those that ran with it. */
static double touched_bytes(const hri_sig *sig) {
    uint64_t bytes = 1;
    for (uint32_t i = 0; sig && i < sig->in_count; i++) {
        bytes += hr_meta_bytes(&sig->in[i]);
    }
    for (uint32_t i = 0; sig && i < sig->out_count; i++) {
        bytes += hr_meta_bytes(&sig->out[i]);
    }
    return (double)bytes;
}

/* Their time together, divided by the bytes that each touches. */
static void share_time(const hri_exec_gpu *x, uint32_t first, uint32_t count, double ns,
                       hri_exec_time_fn *each, void *user) {
    double all = 0;
    for (uint32_t i = first; i < first + count; i++) {
        all += touched_bytes(x->calls[i].sig);
    }
    for (uint32_t i = first; i < first + count; i++) {
        const hri_bound_call *c = &x->b->calls[i];
        if (c->kind != HRI_STEP_WAIT) {
            const int runs = c->kind == HRI_STEP_RUN || c->kind == HRI_STEP_NET;
            each(user, runs ? c->node : HRI_NO_NODE, c->bytes,
                 ns * touched_bytes(x->calls[i].sig) / all, i == first ? count : 0);
        }
    }
}

/* Asked while later calls still run, so that asking costs the step nothing. */
static hr_status elapsed(const hri_exec_gpu *x, uint32_t from, uint32_t to, uint64_t *out_ns) {
    hr_status status = HR_E_AGAIN;
    while (status == HR_E_AGAIN) {
        status = hr_event_elapsed(x->marks[from], x->marks[to], out_ns);
        if (status == HR_E_AGAIN) {
            sched_yield();
        }
    }
    return status;
}

hr_status hri_exec_gpu_profile(hri_exec_gpu *x, uint32_t step, uint32_t first_sample,
                               hri_exec_time_fn *each, void *user) {
    const uint32_t count = x->b->call_count;
    hr_status status = x->moves && !x->wire ? HR_E_UNSUPPORTED : need_marks(x);
    if (status == HR_OK) {
        hri_gpu_use(hri_engine_gpu(x->lane->engine), queue_of(x, HRI_ENGINE_COMPUTE));
        status = feed_run(x, step, first_sample);
    }
    if (status == HR_OK) {
        status = hr_event_mark(x->marks[0], queue_of(x, HRI_ENGINE_COMPUTE));
    }
    if (x->wire) {
        hri_gpu_wire_begin(x->wire);
    }
    for (uint32_t i = 0, some; i < count && status == HR_OK; i += some) {
        some = neighbours(x, i);
        status = time_calls(x, i, some);
    }
    if (x->wire) {
        status = hri_gpu_wire_end(x->wire, status);
    }
    for (uint32_t i = 0, some; i < count && status == HR_OK; i += some) {
        uint64_t ns = 0;
        some = neighbours(x, i);
        status = elapsed(x, i, i + some, &ns);
        if (status == HR_OK) {
            share_time(x, i, some, (double)ns, each, user);
        }
    }
    const hr_status synced = hri_exec_gpu_wait(x);
    return status == HR_OK ? synced : status;
}
