/* Queues, the meter and scratch memory of a GPU; see engine.h. */
#include "run/engine.h"

#include <string.h>
#include <headroom/memory.h>

#include "base/alloc.h"

struct hri_engine {
    hr_device *device;
    hri_gpu *gpu;
    hr_queue *queues[HRI_ENGINE_LANES];
    hr_queue *copies[HRI_ENGINE_COPIES_MAX];
    uint32_t copy_count;
    hr_queue *net;       /* NULL: nobody needs it */
    hr_logical *logical; /* of scratch */
    hr_range *scratch;
    uint64_t scratch_bytes;
    uint64_t node_bytes; /* of a captured graph */
    uint8_t node_known;
    uint64_t first_runtime, first_used; /* when the device was opened by us */
};

static uint64_t used_outside(const hr_device_info *info) {
    const uint64_t used = info->total_bytes - info->free_bytes;
    return used > info->held_bytes ? used - info->held_bytes : 0;
}

static hr_status open_all(hri_engine *e, const hri_gpu_options *options, hri_prose *why) {
    hr_device_info info = {.size = sizeof info};
    hr_status status = hr_device_get_info(e->device, &info);
    if (status != HR_OK) {
        return hri_prose_set(why, status, "the device does not respond: %s",
                             hr_status_text(status));
    }
    e->first_runtime = info.runtime_bytes;
    e->first_used = used_outside(&info);
    status = hri_gpu_open(e->device, options, &e->gpu, why);
    if (status != HR_OK) {
        return status;
    }
    for (int i = 0; i < HRI_ENGINE_LANES && status == HR_OK; i++) {
        status = hr_queue_create(e->device, &e->queues[i]);
    }
    status = status == HR_OK ? hri_engine_need_copies(e, HRI_ENGINE_COPIES) : status;
    if (status != HR_OK) {
        (void)!hri_prose_set(why, status, "a queue of %s: %s", info.name, hr_status_text(status));
    }
    return status;
}

hr_status hri_engine_open(hr_device *device, const hri_gpu_options *options, hri_engine **out,
                          hri_prose *why) {
    hri_engine *e = hri_calloc(1, sizeof *e);
    if (!e) {
        return hri_prose_set(why, HR_E_NOMEM_HOST, "out of host memory for GPU bookkeeping");
    }
    e->device = device;
    const hr_status status = open_all(e, options, why);
    if (status != HR_OK) {
        hri_engine_close(e);
        return status;
    }
    hri_gpu_use(e->gpu, e->queues[HRI_ENGINE_COMPUTE]);
    *out = e;
    return HR_OK;
}

void hri_engine_close(hri_engine *e) {
    if (!e) {
        return;
    }
    hri_engine_scratch_drop(e);
    hri_gpu_close(e->gpu);
    for (int i = 0; i < HRI_ENGINE_LANES; i++) {
        hr_queue_destroy(e->queues[i]);
    }
    for (uint32_t i = 0; i < e->copy_count; i++) {
        hr_queue_destroy(e->copies[i]);
    }
    hr_queue_destroy(e->net);
    hri_free(e);
}

hri_gpu *hri_engine_gpu(hri_engine *e) {
    return e->gpu;
}

hr_device *hri_engine_device(hri_engine *e) {
    return e->device;
}

hr_queue *hri_engine_queue(hri_engine *e, hri_engine_lane lane) {
    return e->queues[lane];
}

hr_status hri_engine_need_copies(hri_engine *e, uint32_t count) {
    hr_status status = count <= HRI_ENGINE_COPIES_MAX ? HR_OK : HR_E_RANGE;
    while (status == HR_OK && e->copy_count < count) {
        status = hr_queue_create(e->device, &e->copies[e->copy_count]);
        e->copy_count += status == HR_OK;
    }
    return status;
}

hr_queue *hri_engine_copy_queue(hri_engine *e, uint32_t number) {
    return e->copies[number];
}

hr_status hri_engine_need_net(hri_engine *e) {
    return e->net ? HR_OK : hr_queue_create(e->device, &e->net);
}

hr_queue *hri_engine_net_queue(hri_engine *e) {
    return e->net;
}

void hri_engine_settle(hri_engine *e) {
    for (int i = 0; i < HRI_ENGINE_LANES; i++) {
        (void)!hr_queue_sync(e->queues[i]);
    }
    for (uint32_t i = 0; i < e->copy_count; i++) {
        (void)!hr_queue_sync(e->copies[i]);
    }
    if (e->net) {
        (void)!hr_queue_sync(e->net);
    }
}

/* ---- what it takes ---- */

uint64_t hri_engine_runtime(hri_engine *e) {
    hr_device_info info = {.size = sizeof info};
    if (hr_device_get_info(e->device, &info) != HR_OK) {
        return e->first_runtime;
    }
    if (info.process_bytes) {
        return info.process_bytes > info.held_bytes ? info.process_bytes - info.held_bytes : 0;
    }
    const uint64_t used = used_outside(&info);
    return e->first_runtime + (used > e->first_used ? used - e->first_used : 0);
}

uint64_t hri_engine_process(hri_engine *e) {
    hr_device_info info = {.size = sizeof info};
    if (hr_device_get_info(e->device, &info) != HR_OK) {
        return 0;
    }
    return info.process_bytes ? info.process_bytes : hri_engine_runtime(e) + info.held_bytes;
}

/* On an H200 the graphs of ResNet-50 and GPT-2, of some 600 ops, took 2 to 7 MiB. */
uint64_t hri_engine_graph_reserve(const hri_engine *e, uint64_t graphs, uint64_t ops) {
    static const uint64_t generous = UINT64_C(16) << 20, generous_each = UINT64_C(48) << 10;
    static const uint64_t least_each = UINT64_C(8) << 10, page = UINT64_C(2) << 20;
    const uint64_t each = 3 * e->node_bytes > least_each ? 3 * e->node_bytes : least_each;
    const uint64_t more = graphs > 1 ? (graphs - 1) * page : 0;
    const uint64_t bytes =
        e->node_known ? HRI_ENGINE_GRAPH_LEAST + more + ops * each : generous + ops * generous_each;
    return (bytes + page - 1) / page * page;
}

void hri_engine_set_node_bytes(hri_engine *e, uint64_t bytes) {
    e->node_bytes = bytes;
    e->node_known = 1;
}

/* ---- speeds ---- */

/* Dense products in bf16 and copies within the device, as measured on one of each; the newest that is not newer. */
static const struct {
    uint32_t major, minor;
    double flops_per_ns, bytes_per_ns;
} speeds[] = {
    {10, 0, 1500e3, 7000}, {9, 0, 700e3, 3600}, {8, 9, 160e3, 800},
    {8, 6, 70e3, 700},     {8, 0, 250e3, 1600}, {7, 0, 90e3, 800},
};

/* Bytes a nanosecond from one place to the other, the best of a few: the first ones are slower, and what is measured here is kept
 * for all later runs.  0: it could not be measured. */
static double copy_speed(hri_engine *e, hr_event *const *events, hr_addr to, hr_addr from,
                         uint64_t bytes) {
    hr_queue *queue = e->copies[0];
    uint64_t ns = 0, least = UINT64_MAX;
    hr_status status = HR_OK;
    for (int i = 0; i < 4 && status == HR_OK; i++) {
        status = hr_event_mark(events[0], queue);
        status = status == HR_OK ? hr_copy(queue, to, from, bytes) : status;
        status = status == HR_OK ? hr_event_mark(events[1], queue) : status;
        const hr_status synced = hr_queue_sync(queue);
        status = status == HR_OK ? synced : status;
        status = status == HR_OK ? hr_event_elapsed(events[0], events[1], &ns) : status;
        least = status == HR_OK && ns && ns < least ? ns : least;
    }
    return status == HR_OK && least < UINT64_MAX ? (double)bytes / (double)least : 0;
}

static void measure_copies(hri_engine *e, hri_engine_speed *out) {
    static const uint64_t bytes = UINT64_C(16) << 20;
    hr_event *events[2] = {NULL, NULL};
    void *host = NULL;
    hr_addr at;
    hr_status status = hri_engine_scratch(e, bytes, &at);
    status = status == HR_OK ? hr_pinned_create(e->device, bytes, &host) : status;
    for (int i = 0; i < 2 && status == HR_OK; i++) {
        status = hr_event_create(e->device, &events[i]);
    }
    if (status == HR_OK) {
        memset(host, 1, bytes);
        out->out_bytes_per_ns = copy_speed(e, events, (hr_addr)(uintptr_t)host, at, bytes);
        out->in_bytes_per_ns = copy_speed(e, events, at, (hr_addr)(uintptr_t)host, bytes);
    }
    hr_event_destroy(events[0]);
    hr_event_destroy(events[1]);
    hr_pinned_destroy(e->device, host);
    hri_engine_scratch_drop(e);
}

void hri_engine_measure_speed(hri_engine *e, hri_engine_speed *out) {
    hr_device_info info = {.size = sizeof info};
    const hr_status known = hr_device_get_info(e->device, &info);
    *out = (hri_engine_speed){.flops_per_ns = 20e3, .bytes_per_ns = 400, .launch_ns = 3000};
    for (size_t i = 0; known == HR_OK && i < sizeof speeds / sizeof speeds[0]; i++) {
        if (info.compute_major * 100 + info.compute_minor >=
            speeds[i].major * 100 + speeds[i].minor) {
            out->flops_per_ns = speeds[i].flops_per_ns;
            out->bytes_per_ns = speeds[i].bytes_per_ns;
            break;
        }
    }
    measure_copies(e, out);
    if (out->out_bytes_per_ns <= 0 || out->in_bytes_per_ns <= 0) {
        out->out_bytes_per_ns = out->in_bytes_per_ns = 12;
    }
    out->copy_latency_ns = 10e3;
    out->copy_drag = HRI_ENGINE_COPY_DRAG;
}

/* ---- scratch ---- */

hr_status hri_engine_scratch(hri_engine *e, uint64_t bytes, hr_addr *out) {
    hr_device_info info = {.size = sizeof info};
    hr_status status = hr_device_get_info(e->device, &info);
    if (status != HR_OK) {
        return status;
    }
    if (bytes > e->scratch_bytes || !e->scratch) {
        const uint64_t page = info.page_bytes ? info.page_bytes : 1;
        const uint64_t pages = (bytes / page + (bytes % page != 0)) * page;
        const hr_logical_options o = {.size = sizeof o, .limit_bytes = pages ? pages : page};
        hri_engine_scratch_drop(e);
        status = hr_logical_create(e->device, &o, &e->logical);
        if (status == HR_OK) {
            status =
                hr_range_create(e->logical, o.limit_bytes, HR_CATEGORY_WORKSPACE, 0, &e->scratch);
        }
        if (status == HR_OK) {
            status = hr_range_resize(e->scratch, o.limit_bytes);
        }
        if (status != HR_OK) {
            hri_engine_scratch_drop(e);
            return status;
        }
        e->scratch_bytes = o.limit_bytes;
    }
    *out = hr_range_addr(e->scratch);
    return HR_OK;
}

void hri_engine_scratch_drop(hri_engine *e) {
    if (e->queues[HRI_ENGINE_COMPUTE]) { /* what still runs there must end first */
        (void)!hr_queue_sync(e->queues[HRI_ENGINE_COMPUTE]);
    }
    if (e->scratch) {
        (void)!hr_range_destroy(e->scratch);
    }
    if (e->logical) {
        (void)!hr_logical_destroy(e->logical);
    }
    e->scratch = NULL;
    e->logical = NULL;
    e->scratch_bytes = 0;
}
