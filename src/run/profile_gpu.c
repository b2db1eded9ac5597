/* Where the time of an executor of a GPU goes: a step run call by call, with a mark behind each launch. */
#include <sched.h>

#include "base/alloc.h"
#include "run/execute_gpu_parts.h"

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
    hr_queue *compute = hri_exec_gpu_queue(x, HRI_ENGINE_COMPUTE);
    const int net = c->kind == HRI_STEP_NET && x->wire && hri_exec_gpu_moves(x, i);
    hr_status status = net                                  ? hri_exec_gpu_exchange(x, i, 1)
                       : c->kind == HRI_STEP_WAIT && c->net ? HR_OK
                                                            : hri_exec_gpu_put_call(x, i, count);
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
        status = hri_exec_gpu_feed(x, step, first_sample);
    }
    if (status == HR_OK) {
        status = hr_event_mark(x->marks[0], hri_exec_gpu_queue(x, HRI_ENGINE_COMPUTE));
    }
    if (x->wire) {
        hri_gpu_wire_begin(x->wire);
    }
    for (uint32_t i = 0, some; i < count && status == HR_OK; i += some) {
        some = hri_exec_gpu_neighbours(x, i);
        status = time_calls(x, i, some);
    }
    if (x->wire) {
        status = hri_gpu_wire_end(x->wire, status);
    }
    for (uint32_t i = 0, some; i < count && status == HR_OK; i += some) {
        uint64_t ns = 0;
        some = hri_exec_gpu_neighbours(x, i);
        status = elapsed(x, i, i + some, &ns);
        if (status == HR_OK) {
            share_time(x, i, some, (double)ns, each, user);
        }
    }
    const hr_status synced = hri_exec_gpu_wait(x);
    return status == HR_OK ? synced : status;
}
