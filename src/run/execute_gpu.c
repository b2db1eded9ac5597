/* Putting the calls of a plan into queues, capturing them, and the results around a replay. */
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "run/doze.h"
#include "run/execute_gpu_parts.h"

/* ---- making one ---- */

static void list_results(hri_exec_gpu *x) {
    const hr_graph *g = x->b->g;
    uint64_t at = 0;
    for (uint32_t i = 0; i < g->result_count; i++) {
        const hr_value v = g->results[i].value;
        const uint64_t bytes = hr_meta_bytes(&g->values[v].meta);
        if (bytes <= HRI_LANE_SMALL && x->b->data[v]) {
            x->results[x->result_count++] = (hri_fetched){
                .value = v, .from = hri_exec_gpu_addr(x->b->data[v]), .at = at, .bytes = bytes};
            at += hri_exec_gpu_room(bytes);
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
        x->addrs[i] = hri_exec_gpu_addr(x->b->pointers[i]);
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
                                     .workspace = hri_exec_gpu_addr(hri_bound_workspace(x->b, c)),
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
            status = hri_exec_gpu_list_inputs(x);
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
    hri_exec_gpu_free_inputs(x);
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
    hr_status status = hr_event_mark(x->lane->ready, hri_exec_gpu_queue(x, HRI_ENGINE_COMPUTE));
    status = status == HR_OK ? hr_event_wait(x->lane->ready, queue) : status;
    status = status == HR_OK ? hr_copy(queue, hri_exec_gpu_addr(x->b->pointers[c->first]),
                                       hri_exec_gpu_addr(x->b->pointers[c->first + 1]), c->bytes)
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
    if (count == left || !calls->sig || !calls[count].sig) {
        return count;
    }
    const hri_gpu_call *last = &calls[count - 1], *next = &calls[count];
    if (hri_sum_takes(last, next) && count + 1 < left && next[1].sig &&
        hri_total_takes(last, next, &next[1])) {
        return count + 2;
    }
    return count + (hri_sum_feeds(last, next) || hri_sum_takes(last, next) ||
                    hri_made_feeds(last, next) || hri_total_takes(last, NULL, next));
}

hr_status hri_exec_gpu_exchange(const hri_exec_gpu *x, uint32_t i, int at_once) {
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
            return hri_exec_gpu_exchange(x, i, c->kind == HRI_STEP_RUN);
        }
        return x->calls[i].sig ? hri_op_launch_many(&x->calls[i], count) : HR_OK;
    case HRI_STEP_OUT:
    case HRI_STEP_IN:
        return start_copy(x, c);
    case HRI_STEP_WAIT:
        if (c->net) {
            return wired ? hri_gpu_wire_wait(x->wire, c->copy, x->nets[c->copy].over) : HR_OK;
        }
        return hr_event_wait(x->done[c->copy], hri_exec_gpu_queue(x, HRI_ENGINE_COMPUTE));
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
        const hri_fetched *r = &x->results[i];
        status = hr_copy(hri_exec_gpu_queue(x, HRI_ENGINE_COMPUTE),
                         hri_exec_gpu_addr(x->lane->back + r->at), r->from, r->bytes);
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

/* ---- running ---- */

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
    hri_gpu_use(gpu, hri_exec_gpu_queue(x, HRI_ENGINE_COMPUTE));
    hr_status status = hri_lane_settle(x->lane);
    if (status == HR_OK) {
        hri_exec_gpu_feed_zeros(x);
        status = hri_exec_gpu_feed(x, 0, 0);
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
    hr_queue *compute = hri_exec_gpu_queue(x, HRI_ENGINE_COMPUTE);
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
    if (node) {
        *node = 0; /* a graph does not say which */
    }
    if (x->moves && !x->wire) {
        return HR_E_UNSUPPORTED; /* not alone */
    }
    hr_status status = hri_exec_gpu_feed(x, step, first_sample);
    const uint64_t now = hri_clock_ns();
    status = status == HR_OK ? run_timed(x, node) : status;
    x->launched_ns = status == HR_OK ? now : 0;
    return status;
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

static void doze(const hri_exec_gpu *x) {
    const uint64_t ns =
        x->launched_ns ? hri_doze_ns(x->launched_ns, x->took_ns, hri_clock_ns()) : 0;
    if (ns) {
        const struct timespec t = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
        (void)nanosleep(&t, NULL); /* a signal ends it early */
    }
}

static void run_is_over(hri_exec_gpu *x) {
    if (x->launched_ns) {
        x->took_ns[1] = x->took_ns[0];
        x->took_ns[0] = hri_exec_gpu_busy_ns(x);
        x->launched_ns = 0;
    }
}

hr_status hri_exec_gpu_wait(hri_exec_gpu *x) {
    hr_status status = HR_OK;
    doze(x);
    for (int i = 0; i < HRI_ENGINE_LANES; i++) { /* every queue, whatever the one before said */
        const hr_status synced = hr_queue_sync(hri_exec_gpu_queue(x, (hri_engine_lane)i));
        status = status == HR_OK ? synced : status;
    }
    run_is_over(x);
    return status;
}

hr_status hri_exec_gpu_get(hri_exec_gpu *x, hr_value v, uint64_t at, void *to, uint64_t bytes) {
    for (uint32_t i = 0; i < x->result_count; i++) {
        if (x->results[i].value == v) {
            doze(x);
            const hr_status status = hr_queue_sync(hri_exec_gpu_queue(x, HRI_ENGINE_COMPUTE));
            run_is_over(x);
            if (status == HR_OK) {
                memcpy(to, x->lane->back + x->results[i].at + at, bytes);
            }
            return status;
        }
    }
    return hri_lane_get(x->lane, to, hri_exec_gpu_addr(x->b->data[v]) + at, bytes);
}
