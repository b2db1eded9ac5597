/* One logical device, one range, one executor a graph. */
#include "run/runner.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <headroom/bytes.h>
#include <headroom/memory.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "device/device.h"
#include "memory/resident.h"
#include "net/net.h"

enum { NETS_MOST = 64 }; /* exchanges under way at once */

struct hri_runner {
    hr_device *device;
    hr_logical *logical;
    hr_range *range;
    /* The memories beside the arena: what each takes, and where: in memory, or in a file. */
    uint64_t memory_bytes[HRI_PROBLEM_MEMORIES_MAX];
    void *others[HRI_PROBLEM_MEMORIES_MAX];
    hri_spill *spills[HRI_PROBLEM_MEMORIES_MAX];
    hri_threads *threads;
    hri_net_queue *nets; /* of exchanges through the host's memory; NULL: none */
    hri_gpu_wire *wire;  /* of a GPU, to ranks of other processes; NULL: none */
    hri_engine *engine;  /* NULL: the host */
    hri_lane lane;
    hri_lane_sizes sizes;
    int stage;
    uint64_t arena_bytes, top_bytes, page_bytes, other_bytes, runtime_bytes;
    uint32_t count;
    hri_exec *execs[HRI_RUNNER_PIECES];
    uint64_t needs[HRI_RUNNER_PIECES]; /* of the arena, by graph */
    uint64_t held_bytes;
    int taken, grow;
    uint64_t memory_ns, prepare_ns, begin_ns;
};

static uint64_t whole_pages(uint64_t bytes, uint64_t page) {
    const uint64_t pages = bytes / page + (bytes % page != 0);
    return (pages ? pages : 1) * page;
}

static hr_status open_memory(hri_runner *r, const hri_runner_options *o, hri_prose *why) {
    hr_device_info info = {.size = sizeof info};
    hr_status status = hr_device_get_info(r->device, &info);
    if (status != HR_OK) {
        return hri_prose_set(why, status, "the device does not respond: %s",
                             hr_status_text(status));
    }
    const uint32_t needs = HRI_CAN_COMPUTE | (r->engine ? HRI_CAN_QUEUE : HRI_CAN_POINT);
    if ((hri_device_can(r->device) & needs) != needs) {
        return hri_prose_set(why, HR_E_UNSUPPORTED, "%s cannot run a plan", info.name);
    }
    r->page_bytes = info.page_bytes;
    const uint64_t arena = whole_pages(r->arena_bytes + r->top_bytes, r->page_bytes);
    const hr_logical_options options = {.size = sizeof options,
                                        .name = o->name,
                                        .limit_bytes = o->limit_bytes ? o->limit_bytes : arena};
    char text[32];
    status = hr_logical_create(r->device, &options, &r->logical);
    if (status == HR_OK) {
        status = hr_range_create(r->logical, arena, HR_CATEGORY_OTHER, 0, &r->range);
    }
    for (uint32_t m = 0; m < HRI_PROBLEM_MEMORIES_MAX && status == HR_OK; m++) {
        if (r->memory_bytes[m] && o->spill[m] && !r->engine) {
            const hr_status opened = hri_spill_open(o->spill[m], &r->spills[m], why);
            if (opened != HR_OK) {
                return opened;
            }
        } else if (r->memory_bytes[m]) {
            status = hr_pinned_create(r->device, r->memory_bytes[m], &r->others[m]);
        }
    }
    if (status == HR_OK && r->engine) {
        status = hri_lane_open(&r->lane, r->engine, &r->sizes, r->stage,
                               hr_range_addr(r->range) + r->arena_bytes, why);
        return status;
    }
    return status == HR_OK ? HR_OK
                           : hri_prose_set(why, status, "an arena of %s: %s",
                                           hr_bytes_print(options.limit_bytes, text, sizeof text),
                                           hr_status_text(status));
}

/* A thread for exchanges, where plans have some that go on beside what is computed. */
static hr_status open_nets(hri_runner *r, const hri_runner_options *o, hri_prose *why) {
    uint32_t most = 0;
    const int by_host = o->net && (!o->engine || (o->apart && !hri_net_device_memory(o->net)));
    for (uint32_t i = 0; i < o->count && by_host; i++) {
        const hri_plan *plan = o->pieces[i].plan;
        uint32_t count = 0;
        for (uint32_t s = 0; s < plan->step_count; s++) {
            count += plan->steps[s].kind == HRI_STEP_NET;
        }
        most = count > most ? count : most;
    }
    hr_status status = HR_OK;
    if (most) {
        status = hri_net_queue_open(most < NETS_MOST ? most : NETS_MOST, &r->nets);
    }
    if (status == HR_OK && o->net && o->engine && o->apart) {
        status = hri_gpu_wire_open(&r->lane, o->net, r->nets, &r->wire);
    }
    return status == HR_OK ? HR_OK
                           : hri_prose_set(why, status, "exchanges with other ranks: %s",
                                           hr_status_text(status));
}

static hr_status bind(hri_runner *r, const hri_runner_options *o, hri_prose *why) {
    hr_status status = HR_OK;
    for (; r->count < o->count && status == HR_OK; r->count++) {
        hri_exec_options options = {.g = o->pieces[r->count].g,
                                    .problem = o->pieces[r->count].problem,
                                    .plan = o->pieces[r->count].plan,
                                    .arena = (void *)(uintptr_t)hr_range_addr(r->range),
                                    .spills = r->spills,
                                    .threads = o->threads,
                                    .kernels = hri_device_kernels(r->device),
                                    .lane = r->engine ? &r->lane : NULL,
                                    .seed = o->seed + o->pieces[r->count].seed,
                                    .init_mask = o->init_mask ^ o->pieces[r->count].init_mask,
                                    .net = o->net,
                                    .nets = r->nets,
                                    .wire = r->wire};
        memcpy(options.others, r->others, sizeof options.others);
        status = hri_exec_create(&options, &r->execs[r->count], why);
    }
    return status;
}

hr_status hri_runner_open(const hri_runner_options *options, hri_runner **out, hri_prose *why) {
    if (options->count == 0 || options->count > HRI_RUNNER_PIECES) {
        return hri_prose_set(why, HR_E_INVALID, "%u graphs cannot run together", options->count);
    }
    hri_runner *r = hri_calloc(1, sizeof *r);
    if (!r) {
        return hri_prose_set(why, HR_E_NOMEM_HOST, "out of host memory to run the plan");
    }
    r->device = options->device;
    r->threads = options->threads;
    r->engine = options->engine;
    r->stage = options->stage;
    r->runtime_bytes = options->runtime_bytes;
    r->grow = options->grow && !options->engine;
    for (uint32_t i = 0; i < options->count; i++) {
        const hri_plan *plan = options->pieces[i].plan;
        r->arena_bytes = plan->arena_bytes > r->arena_bytes ? plan->arena_bytes : r->arena_bytes;
        for (uint32_t m = 0; m < HRI_PROBLEM_MEMORIES_MAX; m++) {
            const uint64_t bytes = plan->memory_bytes[m];
            r->memory_bytes[m] = bytes > r->memory_bytes[m] ? bytes : r->memory_bytes[m];
        }
        r->needs[i] = plan->arena_bytes;
        hri_lane_need(options->pieces[i].g, &r->sizes);
    }
    for (uint32_t m = 0; m < HRI_PROBLEM_MEMORIES_MAX; m++) {
        r->other_bytes += r->memory_bytes[m];
    }
    r->sizes.band = options->band_bytes;
    if (r->engine) {
        r->arena_bytes = whole_pages(r->arena_bytes, HRI_LANE_ALIGN);
        r->top_bytes = hri_lane_top_bytes(&r->sizes, r->stage);
    }
    hr_status status = open_memory(r, options, why);
    if (status == HR_OK) {
        status = open_nets(r, options, why);
    }
    if (status == HR_OK) {
        status = bind(r, options, why);
    }
    if (status != HR_OK) {
        hri_runner_close(r);
        return status;
    }
    *out = r;
    return HR_OK;
}

/* Did the graphs and whatever was loaded late fit into what was planned for them? */
static hr_status check_runtime(const hri_runner *r, hri_prose *why) {
    const uint64_t is = r->runtime_bytes ? hri_engine_runtime(r->engine) : 0;
    if (is <= r->runtime_bytes) {
        return HR_OK;
    }
    char took[32], planned[32];
    return hri_prose_set(why, HR_E_LIMIT,
                         "%s is needed outside the arena, but the budget leaves %s for it",
                         hr_bytes_print(is, took, sizeof took),
                         hr_bytes_print(r->runtime_bytes, planned, sizeof planned));
}

/* Kernels are tried on zeros: an id of zero is always one. */
static hr_status prepare(hri_runner *r, uint64_t bytes, hri_prose *why) {
    hr_queue *queue = hri_engine_queue(r->engine, HRI_ENGINE_COMPUTE);
    hr_status status = HR_OK;
    for (uint32_t i = 0; i < r->count && status == HR_OK; i++) {
        status = hr_fill(queue, hr_range_addr(r->range), 0, bytes);
        if (status != HR_OK) {
            return hri_prose_set(why, status, "clearing the arena: %s", hr_status_text(status));
        }
        status = hri_exec_prepare(r->execs[i], why);
    }
    return status == HR_OK ? check_runtime(r, why) : status;
}

/* What every graph has in common lies at the bottom, so the smallest of them covers it. */
static uint64_t first_bytes(const hri_runner *r) {
    uint64_t bytes = r->arena_bytes + r->top_bytes;
    for (uint32_t i = 0; i < r->count && r->grow; i++) {
        bytes = r->needs[i] < bytes ? r->needs[i] : bytes;
    }
    return whole_pages(bytes, r->page_bytes);
}

/* The plan counts what this process takes, so the arena may have all that there is; what is not there is said before
 * anything is taken. */
static hr_status expect_memory(hri_runner *r, uint64_t bytes, hri_prose *why) {
    uint64_t left;
    char wanted[32], text[32];
    uint64_t other = 0;
    for (uint32_t m = 0; m < HRI_PROBLEM_MEMORIES_MAX; m++) {
        other += r->others[m] && !r->engine ? r->memory_bytes[m] : 0;
    }
    struct rlimit files;
    if (!r->engine && getrlimit(RLIMIT_FSIZE, &files) == 0 && files.rlim_cur != RLIM_INFINITY &&
        files.rlim_cur < bytes) { /* its pages lie in a file without a name */
        return hri_prose_set(why, HR_E_NOMEM_DEVICE,
                             "the plan needs %s, more than the file size limit (ulimit -f) of %s "
                             "allows",
                             hr_bytes_print(bytes, wanted, sizeof wanted),
                             hr_bytes_print((uint64_t)files.rlim_cur, text, sizeof text));
    }
    const hr_status status = hri_device_expect(r->device, bytes + other, &left);
    return status == HR_OK
               ? HR_OK
               : hri_prose_set(why, status,
                               "the plan's %s cannot be allocated: the device has %s left",
                               hr_bytes_print(bytes + other, wanted, sizeof wanted),
                               hr_bytes_print(left, text, sizeof text));
}

static hr_status take_memory(hri_runner *r, hri_prose *why) {
    const uint64_t bytes = first_bytes(r);
    if (r->engine) {
        hri_engine_scratch_drop(r->engine);
    }
    hr_status status = expect_memory(r, bytes, why);
    if (status != HR_OK) {
        return status;
    }
    const uint64_t before = hri_clock_ns();
    status = hr_range_resize(r->range, bytes);
    if (status != HR_OK) {
        char text[32];
        return hri_prose_set(why, status, "the arena of %s could not be allocated: %s",
                             hr_bytes_print(bytes, text, sizeof text), hr_status_text(status));
    }
    r->held_bytes = bytes;
    for (uint32_t m = 0; m < HRI_PROBLEM_MEMORIES_MAX && status == HR_OK; m++) {
        if (r->spills[m]) {
            status = hri_spill_take(r->spills[m], r->memory_bytes[m], why);
        } else if (r->others[m]) { /* touched now, so that no step finds the machine without it */
            memset(r->others[m], 0, r->memory_bytes[m]);
        }
    }
    r->memory_ns = hri_clock_ns() - before;
    if (status == HR_OK && r->engine) {
        status = prepare(r, bytes, why);
    }
    r->prepare_ns = hri_clock_ns() - before - r->memory_ns;
    if (status != HR_OK) { /* back with all of it: the device is as it was */
        (void)!hr_range_resize(r->range, 0);
        (void)!hr_logical_trim(r->logical, NULL);
    }
    return status;
}

hr_status hri_runner_take(hri_runner *r, hri_prose *why) {
    hr_status status = r->taken ? HR_OK : take_memory(r, why);
    if (status != HR_OK) {
        return status;
    }
    r->taken = 1;
    const uint64_t before = hri_clock_ns();
    for (uint32_t i = 0; i < r->count && status == HR_OK; i++) {
        status = hri_exec_begin(r->execs[i], i ? r->execs[0] : NULL);
    }
    r->begin_ns = hri_clock_ns() - before;
    return status == HR_OK ? HR_OK
                           : hri_prose_set(why, status, "initializing the parameters: %s",
                                           hr_status_text(status));
}

hr_status hri_runner_need(hri_runner *r, uint32_t piece) {
    const uint64_t bytes = piece < r->count ? whole_pages(r->needs[piece], r->page_bytes) : 0;
    if (!r->grow || bytes <= r->held_bytes) {
        return HR_OK;
    }
    const hr_status status = hr_range_resize(r->range, bytes);
    r->held_bytes = status == HR_OK ? bytes : r->held_bytes;
    return status;
}

void hri_runner_close(hri_runner *r) {
    if (!r) {
        return;
    }
    if (r->lane.engine && r->execs[0]) { /* what runs may still use everything below */
        (void)!hri_exec_wait(r->execs[0]);
    }
    for (uint32_t i = 0; i < HRI_RUNNER_PIECES; i++) {
        hri_exec_destroy(r->execs[i]);
    }
    hri_gpu_wire_close(r->wire);
    hri_net_queue_close(r->nets);
    hri_lane_close(&r->lane);
    for (uint32_t m = 0; m < HRI_PROBLEM_MEMORIES_MAX; m++) {
        if (r->others[m]) {
            hr_pinned_destroy(r->device, r->others[m]);
        }
        hri_spill_close(r->spills[m]);
    }
    /* Nothing shares the range and nothing else lives in the logical device: neither can be busy. */
    if (r->range) {
        (void)!hr_range_destroy(r->range);
    }
    if (r->logical) {
        (void)!hr_logical_destroy(r->logical);
    }
    hri_free(r);
}

hri_exec *hri_runner_exec(hri_runner *r, uint32_t piece) {
    return piece < r->count ? r->execs[piece] : NULL;
}

hri_threads *hri_runner_threads(hri_runner *r) {
    return r->threads;
}

void hri_runner_measure(hri_runner *r, hri_measured *out) {
    hr_stats stats = {.size = sizeof stats};
    hr_logical_get_stats(r->logical, &stats);
    *out =
        (hri_measured){.planned_bytes = whole_pages(r->arena_bytes + r->top_bytes, r->page_bytes),
                       .arena_bytes = stats.held_peak_bytes,
                       .other_bytes = r->other_bytes,
                       .memory_ns = r->memory_ns,
                       .prepare_ns = r->prepare_ns,
                       .begin_ns = r->begin_ns};
    hri_resident_read(&out->resident_bytes, &out->resident_peak_bytes);
    out->peak_bytes = out->resident_peak_bytes;
    if (r->engine) {
        out->process_bytes = hri_engine_process(r->engine);
        out->runtime_bytes = hri_engine_runtime(r->engine);
        out->peak_bytes = out->process_bytes;
    }
}
