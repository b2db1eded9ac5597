/* Inputs of an executor of a GPU: put into pinned memory, on their way to staging while the step before runs, and from there to where the
 * plan wants them (lane.h). */
#include <string.h>

#include "base/alloc.h"
#include "run/execute_gpu_parts.h"

static hr_addr staging(const hri_exec_gpu *x) {
    return x->lane->control + HRI_LANE_ALIGN;
}

/* Small ones first, so that they travel in one copy behind the control block. */
hr_status hri_exec_gpu_list_inputs(hri_exec_gpu *x) {
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
            hri_fed *in = &x->inputs[x->input_count++];
            *in = (hri_fed){.value = v,
                            .to = hri_exec_gpu_addr(x->b->data[v]),
                            .at = *at,
                            .bytes = bytes,
                            .small = whole <= HRI_LANE_SMALL};
            in->widens = widens ? hri_calloc(1, sizeof *in->widens) : NULL;
            if (widens && !(in->widens && hri_lane_widens(g, v, in->widens))) {
                return HR_E_NOMEM_HOST;
            }
        }
        *at += hri_exec_gpu_room(bytes);
    }
    return HR_OK;
}

void hri_exec_gpu_free_inputs(hri_exec_gpu *x) {
    for (uint32_t i = 0; i < x->input_count; i++) {
        hri_free(x->inputs[i].widens);
    }
    hri_free(x->inputs);
}

static hri_fed *find_input(hri_exec_gpu *x, hr_value v) {
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
    hri_fed *in = find_input(x, v);
    if (!in) {
        return hri_lane_put(x->lane, hri_exec_gpu_addr(x->b->data[v]) + at, from, bytes);
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
    return hri_lane_make(x->lane, hri_exec_gpu_addr(x->b->data[v]), bytes, make, user);
}

hr_status hri_exec_gpu_clear(hri_exec_gpu *x, hr_value v, uint64_t bytes) {
    return hr_fill(hri_exec_gpu_queue(x, HRI_ENGINE_COMPUTE), hri_exec_gpu_addr(x->b->data[v]), 0,
                   bytes);
}

hr_status hri_exec_gpu_flush(hri_exec_gpu *x) {
    hr_queue *feed = hri_exec_gpu_queue(x, HRI_ENGINE_FEED);
    hr_status status = HR_OK;
    int first = 1;
    for (uint32_t i = 0; x->lane->stage && i < x->input_count && status == HR_OK; i++) {
        hri_fed *in = &x->inputs[i];
        if (in->small || in->low == in->high) {
            continue;
        }
        status = first ? hr_event_wait(x->lane->taken, feed) : HR_OK;
        first = 0;
        x->lane->feeding = 1;
        if (status == HR_OK) {
            status =
                hr_copy(feed, staging(x) + in->at + in->low,
                        hri_exec_gpu_addr(x->lane->pinned + in->at + in->low), in->high - in->low);
        }
        if (status == HR_OK) {
            in->low = in->high = 0;
        }
    }
    return status;
}

/* The control block and small inputs in one copy, and whatever large ones are not on their way yet. */
static hr_status send_inputs(hri_exec_gpu *x, uint32_t step, uint32_t first_sample) {
    hr_queue *feed = hri_exec_gpu_queue(x, HRI_ENGINE_FEED),
             *compute = hri_exec_gpu_queue(x, HRI_ENGINE_COMPUTE);
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
    status = status == HR_OK ? hr_copy(feed, staging(x), hri_exec_gpu_addr(x->lane->pinned),
                                       HRI_LANE_ALIGN + x->lane->sizes.small)
                             : status;
    status = status == HR_OK ? hr_event_mark(x->lane->staged, feed) : status;
    return status == HR_OK ? hr_event_wait(x->lane->staged, compute) : status;
}

static hr_status widen(const hri_exec_gpu *x, const hri_fed *in, hr_addr from) {
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
    hr_queue *compute = hri_exec_gpu_queue(x, HRI_ENGINE_COMPUTE);
    hr_status status = hr_copy(compute, x->lane->control, staging(x), sizeof(hri_gpu_control));
    for (uint32_t i = 0; i < x->input_count && status == HR_OK; i++) {
        hri_fed *in = &x->inputs[i];
        const int staged = in->small || x->lane->stage;
        const hr_addr from =
            staged ? staging(x) + in->at : hri_exec_gpu_addr(x->lane->pinned + in->at);
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

hr_status hri_exec_gpu_feed(hri_exec_gpu *x, uint32_t step, uint32_t first_sample) {
    hri_gpu_use(hri_engine_gpu(x->lane->engine), hri_exec_gpu_queue(x, HRI_ENGINE_COMPUTE));
    hr_status status = send_inputs(x, step, first_sample);
    for (uint32_t i = 0; i < x->input_count && status == HR_OK; i++) {
        status = x->inputs[i].fed ? HR_OK : HR_E_INVALID; /* nobody put it */
    }
    return status == HR_OK ? take_inputs(x) : status;
}

void hri_exec_gpu_feed_zeros(hri_exec_gpu *x) {
    own_staging(x);
    memset(x->lane->pinned, 0, HRI_LANE_ALIGN + x->lane->sizes.small + hri_lane_large(x->lane));
    for (uint32_t i = 0; i < x->input_count; i++) {
        x->inputs[i].low = 0;
        x->inputs[i].high = x->inputs[i].bytes;
        x->inputs[i].fed = 1;
    }
}
