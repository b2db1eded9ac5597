/* Steps of several executors side by side; see group.h. */
#include "run/group.h"

#include <string.h>

#include "base/alloc.h"
#include "device/device.h"
#include "run/execute_gpu.h"

struct hri_group {
    hri_exec **execs;
    hri_exec_gpu **x;
    uint32_t count;
    hr_event **done; /* by exchange, then rank: it has all that it takes */
    uint32_t net_count;
    struct hri_move_range *to, *from; /* room for the moves of an exchange, by rank */
    hri_gpu_range *ranges;
    hri_gpu_range
        *batch; /* slices of one GPU: of the exchanges that are under way; HRI_GPU_RANGES */
    hri_gpu_graph *graph;
    int tried; /* to capture it */
};

/* ---- making one ---- */

static const hri_bound *bound_of(const hri_group *g, uint32_t rank) {
    return hri_exec_gpu_bound(g->x[rank]);
}

static hri_engine *engine_of(const hri_group *g, uint32_t rank) {
    return hri_exec_gpu_lane(g->x[rank])->engine;
}

static hr_queue *compute_of(const hri_group *g, uint32_t rank) {
    return hri_engine_queue(engine_of(g, rank), HRI_ENGINE_COMPUTE);
}

static hr_queue *net_of(const hri_group *g, uint32_t rank) {
    return hri_engine_net_queue(engine_of(g, rank));
}

/* All of one GPU. */
static int are_slices(const hri_group *g) {
    int all = 1;
    for (uint32_t m = 1; m < g->count && all; m++) {
        all = engine_of(g, m) == engine_of(g, 0);
    }
    return all;
}

/* The same steps in the same order, whatever their sizes. */
static int are_alike(const hri_bound *a, const hri_bound *b) {
    int alike = a->call_count == b->call_count && a->net_count == b->net_count;
    for (uint32_t i = 0; alike && i < a->call_count; i++) {
        const hri_bound_call *x = &a->calls[i], *y = &b->calls[i];
        const int runs = x->kind == HRI_STEP_RUN || x->kind == HRI_STEP_NET;
        alike = x->kind == y->kind && x->copy == y->copy && x->net == y->net &&
                (!runs || a->g->nodes[x->node].sig.op == b->g->nodes[y->node].sig.op);
    }
    return alike;
}

static hr_status fill_in(hri_group *g, hri_exec *const *execs) {
    g->execs = hri_calloc(g->count, sizeof(hri_exec *));
    g->x = hri_calloc(g->count, sizeof(hri_exec_gpu *));
    g->to = hri_calloc(2 * (size_t)g->count, sizeof *g->to);
    g->from = g->to ? g->to + g->count : NULL;
    g->ranges = hri_calloc(g->count, sizeof *g->ranges);
    if (!g->execs || !g->x || !g->to || !g->ranges) {
        return HR_E_NOMEM_HOST;
    }
    for (uint32_t i = 0; i < g->count; i++) {
        uint32_t ignored;
        g->execs[i] = execs[i];
        g->x[i] = hri_exec_of_gpu(execs[i], &ignored);
        if (!g->x[i] || (i && !are_alike(bound_of(g, 0), bound_of(g, i)))) {
            return HR_E_INVALID;
        }
    }
    if (are_slices(g)) {
        g->batch = hri_calloc(HRI_GPU_RANGES, sizeof *g->batch);
        return g->batch ? HR_OK : HR_E_NOMEM_HOST;
    }
    /* An exchange that is waited for at once has a number, too. */
    const uint32_t nets = bound_of(g, 0)->net_count + 1;
    g->done = hri_calloc((size_t)nets * g->count, sizeof(hr_event *));
    hr_status status = g->done ? HR_OK : HR_E_NOMEM_HOST;
    g->net_count = g->done ? nets : 0;
    for (uint32_t i = 0; i < nets * g->count && status == HR_OK; i++) {
        status = hr_event_create(hri_engine_device(engine_of(g, i % g->count)), &g->done[i]);
    }
    return status;
}

hr_status hri_group_create(hri_exec *const *execs, uint32_t count, hri_group **out,
                           hri_prose *why) {
    hri_group *g = hri_calloc(1, sizeof *g);
    hr_status status = HR_E_NOMEM_HOST;
    if (g) {
        g->count = count;
        status = fill_in(g, execs);
    }
    if (status != HR_OK) {
        hri_group_destroy(g);
        return hri_prose_set(why, status, "the ranks of this process together: %s",
                             status == HR_E_INVALID ? "their plans differ"
                                                    : hr_status_text(status));
    }
    *out = g;
    return HR_OK;
}

void hri_group_destroy(hri_group *g) {
    if (!g) {
        return;
    }
    if (g->graph) {
        hri_gpu_graph_destroy(hri_engine_gpu(engine_of(g, 0)), g->graph);
    }
    for (uint32_t i = 0; i < g->net_count * g->count; i++) {
        hr_event_destroy(g->done[i]);
    }
    hri_free(g->done);
    hri_free(g->execs);
    hri_free(g->x);
    hri_free(g->to);
    hri_free(g->ranges);
    hri_free(g->batch);
    hri_free(g);
}

int hri_group_is(const hri_group *g, hri_exec *const *execs, uint32_t count) {
    return g->count == count && !memcmp(g->execs, execs, count * sizeof(hri_exec *));
}

int hri_group_is_captured(const hri_group *g) {
    return g->graph != NULL;
}

/* ---- exchanges ---- */

static hr_addr pointer_of(const hri_group *g, uint32_t rank, uint32_t i, uint32_t operand) {
    const hri_bound *b = bound_of(g, rank);
    return (hr_addr)(uintptr_t)b->pointers[b->calls[i].first + operand];
}

static const hri_sig *sig_of(const hri_group *g, uint32_t rank, uint32_t i) {
    const hri_bound *b = bound_of(g, rank);
    return &b->g->nodes[b->calls[i].node].sig;
}

/* What `rank` takes in call i: g->ranges[k] from rank k.  *whole: all of its output. */
static hr_status find_ranges(const hri_group *g, uint32_t rank, uint32_t i, int *whole) {
    hri_moves m = {.to = g->to, .from = g->from};
    const hri_sig *sig = sig_of(g, rank, i);
    const hr_addr out = pointer_of(g, rank, i, sig->in_count);
    uint64_t sum = 0;
    sig->op->moves(sig, rank, &m);
    if (m.ranks != g->count) {
        return HR_E_UNSUPPORTED;
    }
    for (uint32_t k = 0; k < g->count; k++) {
        g->ranges[k] = (hri_gpu_range){out + g->from[k].at, 0, g->from[k].bytes};
        sum += g->from[k].bytes;
    }
    *whole = sum == hr_meta_bytes(&sig->out[0]);
    for (uint32_t k = 0; k < g->count; k++) {
        const hri_sig *theirs = sig_of(g, k, i);
        theirs->op->moves(theirs, k, &m);
        if (g->to[rank].bytes != g->ranges[k].bytes) {
            return HR_E_INTERNAL; /* plans that are alike have the same slices */
        }
        g->ranges[k].from = pointer_of(g, k, i, m.from_input) + g->to[rank].at;
    }
    return HR_OK;
}

/* Between devices that do not see one another: by way of pinned memory of the one that gives, which others may wait for. */
static hr_status bounce(const hri_group *g, uint32_t to, uint32_t from, const hri_gpu_range *r) {
    hri_lane *lane = hri_exec_gpu_lane(g->x[from]);
    hr_event *taken = hri_exec_gpu_lane(g->x[to])->ready;
    const hr_addr band = (hr_addr)(uintptr_t)lane->bounce;
    hr_queue *out = net_of(g, from), *in = net_of(g, to);
    hr_status status = HR_OK;
    for (uint64_t at = 0; at < r->bytes && status == HR_OK; at += HRI_LANE_BOUNCE) {
        const uint64_t left = r->bytes - at, here = left < HRI_LANE_BOUNCE ? left : HRI_LANE_BOUNCE;
        status = hr_copy(out, band, r->from + at, here);
        status = status == HR_OK ? hr_event_mark(lane->ready, out) : status;
        status = status == HR_OK ? hr_event_wait(lane->ready, in) : status;
        status = status == HR_OK ? hr_copy(in, r->to + at, band, here) : status;
        status = status == HR_OK ? hr_event_mark(taken, in) : status;
        status = status == HR_OK ? hr_event_wait(taken, out) : status;
    }
    return status;
}

/* One rank takes what the others give. */
static hr_status take(const hri_group *g, uint32_t rank, uint32_t i) {
    hri_gpu *gpu = hri_engine_gpu(engine_of(g, rank));
    const hri_sig *sig = sig_of(g, rank, i);
    uint32_t near = 0;
    int whole;
    hr_status status = find_ranges(g, rank, i, &whole);
    if (status == HR_OK && !whole) {
        status = hr_fill(net_of(g, rank), pointer_of(g, rank, i, sig->in_count), 0,
                         hr_meta_bytes(&sig->out[0]));
    }
    for (uint32_t k = 0; k < g->count && status == HR_OK; k++) {
        const hri_gpu_range r = g->ranges[k];
        if (!r.bytes || r.to == r.from) {
            continue;
        }
        if (engine_of(g, k) == engine_of(g, rank) ||
            hri_device_is_read_by(hri_engine_device(engine_of(g, k)),
                                  hri_engine_device(engine_of(g, rank)))) {
            g->ranges[near++] = r;
        } else {
            status = bounce(g, rank, k, &r);
        }
    }
    if (status == HR_OK && near) {
        hri_gpu_use(gpu, net_of(g, rank));
        status = hri_gpu_copy_ranges(gpu, g->ranges, near);
        hri_gpu_use(gpu, compute_of(g, rank));
    }
    return status;
}

/* Behind all that any rank has so far: it makes what is sent, and has read what lay where it arrives. */
static hr_status exchange(const hri_group *g, uint32_t i, uint32_t number) {
    hr_status status = HR_OK;
    for (uint32_t k = 0; k < g->count && status == HR_OK; k++) {
        hr_event *ready = hri_exec_gpu_lane(g->x[k])->ready;
        status = hr_event_mark(ready, compute_of(g, k));
        for (uint32_t m = 0; m < g->count && status == HR_OK; m++) {
            status = hr_event_wait(ready, net_of(g, m));
        }
    }
    for (uint32_t m = 0; m < g->count && status == HR_OK; m++) {
        status = take(g, m, i);
    }
    for (uint32_t m = 0; m < g->count && status == HR_OK; m++) {
        status = hr_event_mark(g->done[number * g->count + m], net_of(g, m));
    }
    return status;
}

/* Nobody goes on before all have what they take: it is read from the others' arenas. */
static hr_status end_exchange(const hri_group *g, uint32_t number) {
    hr_status status = HR_OK;
    for (uint32_t m = 0; m < g->count; m++) {
        for (uint32_t k = 0; k < g->count && status == HR_OK; k++) {
            status = hr_event_wait(g->done[number * g->count + k], compute_of(g, m));
        }
    }
    return status;
}

/* ---- slices of one GPU ---- */

/* One queue has the work of all, and each goes as far as it can before the next does: to where it needs what others give.  So a
 * kernel's output is still in the cache when its reader runs.  What was started until then is exchanged there, in one launch:
 * between start and wait the plan leaves both ends alone. */

static hr_status flush_ranges(const hri_group *g, uint32_t *used) {
    const hr_status status =
        *used ? hri_gpu_copy_ranges(hri_engine_gpu(engine_of(g, 0)), g->batch, *used) : HR_OK;
    *used = 0;
    return status;
}

static hr_status add_ranges(const hri_group *g, uint32_t i, uint32_t *used) {
    hr_status status = HR_OK;
    for (uint32_t m = 0; m < g->count && status == HR_OK; m++) {
        const hri_sig *sig = sig_of(g, m, i);
        int whole;
        status = find_ranges(g, m, i, &whole);
        if (status == HR_OK && !whole) {
            status = hr_fill(compute_of(g, m), pointer_of(g, m, i, sig->in_count), 0,
                             hr_meta_bytes(&sig->out[0]));
        }
        for (uint32_t k = 0; k < g->count && status == HR_OK; k++) {
            if (g->ranges[k].bytes && g->ranges[k].to != g->ranges[k].from) {
                status = *used == HRI_GPU_RANGES ? flush_ranges(g, used) : HR_OK;
                g->batch[(*used)++] = g->ranges[k];
            }
        }
    }
    return status;
}

/* Calls [begin, end) of one rank, none of which needs what is not there. */
static hr_status put_calls(const hri_group *g, uint32_t m, uint32_t begin, uint32_t end,
                           uint32_t *node) {
    const hri_bound *b = bound_of(g, m);
    hr_status status = HR_OK;
    for (uint32_t i = begin, count; i < end && status == HR_OK; i += count) {
        const uint32_t all = hri_exec_gpu_neighbours(g->x[m], i);
        count = all < end - i ? all : end - i;
        if (!hri_exec_gpu_moves(g->x[m], i) &&
            !(b->calls[i].kind == HRI_STEP_WAIT && b->calls[i].net)) {
            status = hri_exec_gpu_put_call(g->x[m], i, count);
        }
        if (status != HR_OK && node) {
            *node = b->calls[i].node;
        }
    }
    return status;
}

/* Calls [begin, end) of all ranks, then what these start to exchange. */
static hr_status meet(const hri_group *g, uint32_t begin, uint32_t end, uint32_t *node) {
    uint32_t used = 0;
    hr_status status = HR_OK;
    for (uint32_t m = 0; m < g->count && status == HR_OK; m++) {
        status = put_calls(g, m, begin, end, node);
    }
    for (uint32_t i = begin; i < end && status == HR_OK; i++) {
        status = hri_exec_gpu_moves(g->x[0], i) ? add_ranges(g, i, &used) : HR_OK;
    }
    return status == HR_OK ? flush_ranges(g, &used) : status;
}

static hr_status put_slices(const hri_group *g, uint32_t *node) {
    const hri_bound *b = bound_of(g, 0);
    uint32_t done = 0;               /* calls that all ranks have */
    uint32_t started = 0, moved = 0; /* exchanges: their numbers go up */
    hr_status status = HR_OK;
    hri_gpu_use(hri_engine_gpu(engine_of(g, 0)), compute_of(g, 0));
    for (uint32_t i = 0; i < b->call_count && status == HR_OK; i++) {
        const hri_bound_call *c = &b->calls[i];
        started += c->kind == HRI_STEP_NET;
        if ((c->kind == HRI_STEP_RUN && hri_exec_gpu_moves(g->x[0], i)) ||
            (c->kind == HRI_STEP_WAIT && c->net && c->copy >= moved)) {
            status = meet(g, done, i + 1, node);
            done = i + 1;
            moved = started;
        }
    }
    return status == HR_OK ? meet(g, done, b->call_count, node) : status;
}

/* ---- steps ---- */

/* Calls from number i on that go together on every rank. */
static uint32_t neighbours(const hri_group *g, uint32_t i) {
    uint32_t count = hri_exec_gpu_neighbours(g->x[0], i);
    for (uint32_t m = 1; m < g->count; m++) {
        const uint32_t its = hri_exec_gpu_neighbours(g->x[m], i);
        count = its < count ? its : count;
    }
    return count;
}

static hr_status put_step(const hri_group *g, uint32_t i, uint32_t count) {
    const hri_bound_call *c = &bound_of(g, 0)->calls[i];
    hr_status status = HR_OK;
    if (hri_exec_gpu_moves(g->x[0], i)) {
        const uint32_t number = c->kind == HRI_STEP_NET ? c->copy : g->net_count - 1;
        status = exchange(g, i, number);
        return status == HR_OK && c->kind == HRI_STEP_RUN ? end_exchange(g, number) : status;
    }
    if (c->kind == HRI_STEP_WAIT && c->net) {
        return end_exchange(g, c->copy);
    }
    for (uint32_t m = 0; m < g->count && status == HR_OK; m++) {
        hri_gpu_use(hri_engine_gpu(engine_of(g, m)), compute_of(g, m));
        status = hri_exec_gpu_put_call(g->x[m], i, count);
    }
    return status;
}

static hr_status put_steps(const hri_group *g, uint32_t *node) {
    const hri_bound *b = bound_of(g, 0);
    hr_status status = g->batch ? put_slices(g, node) : HR_OK;
    for (uint32_t i = 0; i < b->call_count && !g->batch && status == HR_OK;) {
        const uint32_t count = neighbours(g, i);
        status = put_step(g, i, count);
        if (status != HR_OK && node) {
            *node = b->calls[i].node;
        }
        i += count;
    }
    for (uint32_t m = 0; m < g->count && status == HR_OK; m++) {
        status = hri_exec_gpu_put_results(g->x[m]);
    }
    return status;
}

/* The compute queue of the first waits for those of the others, or they for it. */
static hr_status join(const hri_group *g, int fork) {
    hr_status status = HR_OK;
    for (uint32_t m = 1; m < g->count && status == HR_OK; m++) {
        if (engine_of(g, m) == engine_of(g, 0)) {
            continue;
        }
        hr_event *ready = hri_exec_gpu_lane(g->x[fork ? 0 : m])->ready;
        status = hr_event_mark(ready, compute_of(g, fork ? 0 : m));
        status = status == HR_OK ? hr_event_wait(ready, compute_of(g, fork ? m : 0)) : status;
    }
    return status;
}

static int see_one_another(const hri_group *g) {
    int all = 1;
    for (uint32_t m = 0; m < g->count && all; m++) {
        for (uint32_t k = 0; k < g->count && all; k++) {
            all = engine_of(g, k) == engine_of(g, m) ||
                  hri_device_is_read_by(hri_engine_device(engine_of(g, k)),
                                        hri_engine_device(engine_of(g, m)));
        }
    }
    return all;
}

static hr_status capture(hri_group *g, uint32_t *node) {
    hri_gpu *gpu = hri_engine_gpu(engine_of(g, 0));
    hri_gpu_graph *graph = NULL;
    hri_gpu_use(gpu, compute_of(g, 0));
    hr_status status = hri_gpu_capture_begin(gpu);
    if (status != HR_OK) {
        return status == HR_E_UNSUPPORTED ? HR_OK : status; /* call by call, then */
    }
    status = join(g, 1);
    status = status == HR_OK ? put_steps(g, node) : status;
    status = status == HR_OK ? join(g, 0) : status;
    hri_gpu_use(gpu, compute_of(g, 0));
    if (status == HR_OK) {
        status = hri_gpu_capture_end(gpu, &graph);
    } else {
        hri_gpu_capture_drop(gpu);
    }
    g->graph = status == HR_OK ? graph : NULL;
    return status;
}

static hr_status launch(hri_group *g, uint32_t *node) {
    hr_status status = HR_OK;
    if (!g->graph) {
        return put_steps(g, node);
    }
    status = join(g, 0);
    hri_gpu_use(hri_engine_gpu(engine_of(g, 0)), compute_of(g, 0));
    status =
        status == HR_OK ? hri_gpu_graph_launch(hri_engine_gpu(engine_of(g, 0)), g->graph) : status;
    return status == HR_OK ? join(g, 1) : status;
}

hr_status hri_group_run(hri_group *g, uint32_t step, uint32_t *node) {
    hr_status status = HR_OK;
    *node = 0;
    if (!g->tried) {
        status = see_one_another(g) ? capture(g, node) : HR_OK;
        g->tried = status == HR_OK;
    }
    for (uint32_t m = 0; m < g->count && status == HR_OK; m++) {
        uint32_t first_sample;
        hri_exec_gpu *x = hri_exec_of_gpu(g->execs[m], &first_sample);
        status = hri_exec_gpu_feed(x, step, first_sample);
        status =
            status == HR_OK ? hr_event_mark(hri_exec_gpu_lane(x)->begun, compute_of(g, m)) : status;
    }
    status = status == HR_OK ? launch(g, node) : status;
    for (uint32_t m = 0; m < g->count && status == HR_OK; m++) {
        status = hr_event_mark(hri_exec_gpu_lane(g->x[m])->over, compute_of(g, m));
    }
    return status;
}
