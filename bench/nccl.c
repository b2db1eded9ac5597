/* NCCL with one rank: nccl [DEVICE].
 *
 * Opens the library as `--net nccl` does, sends bytes from one half of a buffer to the other by way of NCCL, compares them, and
 * closes it.  Prints what the communicator takes by NVML beside what a plan counts for it, and the time of each part.  Exit code 1:
 * other bytes came, or it takes more than plans count; 77: there is no NCCL or no such device. */
#include <headroom/headroom.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "device/device.h"
#include "net/nccl_min.h"
#include "net/wire.h"
#include "run/engine.h"

enum { RUNS = 20, NONE = 77 };
static const uint64_t half = 64 << 20;

static void must(hr_status status, const char *what, const char *why) {
    if (status != HR_OK) {
        fprintf(stderr, "nccl: %s: %s%s%s\n", what, hr_status_text(status), *why ? ": " : "", why);
        exit(status == HR_E_UNSUPPORTED || status == HR_E_NOT_FOUND ? NONE : 2);
    }
}

static hr_addr take(hr_device *device, hr_queue *queue) {
    const hr_logical_options o = {.size = sizeof o, .limit_bytes = 2 * half};
    hr_logical *slice;
    hr_range *range;
    must(hr_logical_create(device, &o, &slice), "a slice", "");
    must(hr_range_create(slice, 2 * half, HR_CATEGORY_OTHER, 0, &range), "a buffer", "");
    must(hr_range_resize(range, 2 * half), "a buffer", "");
    must(hr_fill(queue, hr_range_addr(range), 0x5a, half), "filling", "");
    must(hr_fill(queue, hr_range_addr(range) + half, 0, half), "filling", "");
    must(hr_queue_sync(queue), "filling", "");
    return hr_range_addr(range);
}

/* Sends `bytes` to itself; ns. */
static uint64_t to_itself(const hri_net_wire_end *end, hr_addr at, uint64_t bytes,
                          uint64_t ticket) {
    const hri_net_range from = {(void *)(uintptr_t)at, bytes},
                        to = {(void *)(uintptr_t)(at + half), bytes};
    const uint64_t begun = hri_clock_ns();
    hri_net_end why = {.text = ""};
    hr_status status = end->ops->exchange(end->state, &from, &to, ticket);
    status = status == HR_OK ? end->ops->wait(end->state, ticket, UINT64_C(20000000000)) : status;
    (void)end->ops->cause(end->state, &why);
    must(status, "sending", why.text);
    return hri_clock_ns() - begun;
}

static int arrived(hr_device *device, hr_queue *queue, hr_addr at) {
    unsigned char *host;
    int good = 1;
    void *pinned;
    must(hr_pinned_create(device, half, &pinned), "host memory", "");
    host = pinned;
    must(hr_copy(queue, (hr_addr)(uintptr_t)host, at + half, half), "copying", "");
    must(hr_queue_sync(queue), "copying", "");
    for (uint64_t i = 0; i < half; i++) {
        good = good && host[i] == 0x5a;
    }
    hr_pinned_destroy(device, pinned);
    return good;
}

int main(int argc, char **argv) {
    const char *name = argc > 1 ? argv[1] : "cuda:0";
    hr_ctx *ctx;
    hr_device *device;
    hri_engine *engine;
    hri_net_wire_end end;
    hri_nccl library;
    hri_prose why = {""};
    char version[32];
    must(hri_nccl_load(&library, &why), "NCCL", why.text);
    hri_nccl_version_text(library.version, version, sizeof version);
    printf("NCCL %s, %s\n", version, library.path);
    must(hr_ctx_create(NULL, &ctx), "opening", "");
    must(hr_device_find(ctx, name, &device), name, "");
    must(hri_engine_open(device, NULL, &engine, &why), name, why.text);
    hr_queue *queue = hri_engine_queue(engine, HRI_ENGINE_COMPUTE);
    const hr_addr at = take(device, queue);
    const hri_net_options o = {
        .wire = "nccl", .who = {.size = 1}, .gpu = hri_engine_gpu(engine), .queue = queue};
    const hri_net_options counted = {.wire = "nccl", .who = {.size = 2}};
    hri_net_cost_bytes cost;
    must(hri_net_cost(&counted, &cost, &why), "its cost", why.text);
    const uint64_t before = hri_engine_process(engine), begun = hri_clock_ns();
    must(hri_net_nccl_open(&o, &end, &why), "opening", why.text);
    const uint64_t open_ns = hri_clock_ns() - begun, opened = hri_engine_process(engine);
    const uint64_t first_ns = to_itself(&end, at, half, 1);
    uint64_t best_ns = UINT64_MAX;
    for (uint64_t i = 0; i < RUNS; i++) {
        const uint64_t ns = to_itself(&end, at, half, 2 + i);
        best_ns = ns < best_ns ? ns : best_ns;
    }
    const uint64_t sent = hri_engine_process(engine), closing = hri_clock_ns();
    const int good = arrived(device, queue, at);
    end.ops->close(end.state);
    const double mib = 1 << 20, ms = 1e6;
    printf("one rank on %s: opened in %.0f ms, first exchange %.1f ms, %.0f MiB to itself at %.0f "
           "GB/s, "
           "closed in %.0f ms; bytes %s\n",
           name, (double)open_ns / ms, (double)first_ns / ms, (double)half / mib,
           2 * (double)half / (double)best_ns, (double)(hri_clock_ns() - closing) / ms,
           good ? "as sent" : "DIFFER");
    printf(
        "NVML: +%.0f MiB by opening, +%.0f by exchanging; a plan counts %.0f MiB for two ranks\n",
        (double)(opened - before) / mib, (double)(sent - opened) / mib,
        (double)cost.device_bytes / mib);
    hri_engine_close(engine);
    hr_ctx_destroy(ctx);
    hri_nccl_unload(&library);
    return good && sent - before <= cost.device_bytes ? 0 : 1;
}
