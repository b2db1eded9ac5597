/* Everything between opening a GPU and replaying a step made to fail, once and for ever: a status that fits, nothing left,
 * and the next attempt works. */
#include "kernel_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/device.h"

#define SMALL "extern \"C\" __global__ void k(float *x, int n) { x[threadIdx.x] += (float)n; }"

/* One life: opens, launches twice (with much shared memory), captures, replays.  The first failure. */
static hr_status live(bench *b) {
    hri_gpu_graph *graph = NULL;
    hri_prose why = {0};
    int32_t n = 1;
    const hri_gpu_grid grid = {.x = 1, .threads = 64, .shared_bytes = 64 << 10};
    hr_status status = bench_try_gpu(b, &why);
    if (status == HR_OK) {
        status = hri_gpu_launch_text(b->gpu, "life", SMALL, 0, "k", &grid,
                                     HRI_GPU_ARGS(&b->block.addr, &n));
    }
    if (status == HR_OK) {
        status = hri_gpu_capture_begin(b->gpu);
    }
    if (status == HR_OK) {
        status = hri_gpu_fill(b->gpu, b->block.addr, 0, 4096);
    }
    if (status == HR_OK) {
        status = hri_gpu_copy(b->gpu, b->block.addr + 4096, b->block.addr, 4096);
    }
    if (status == HR_OK) {
        status = hri_gpu_launch_text(b->gpu, "life", SMALL, 0, "k", &grid,
                                     HRI_GPU_ARGS(&b->block.addr, &n));
    }
    if (status == HR_OK) {
        status = hri_gpu_capture_end(b->gpu, &graph);
    }
    for (int i = 0; i < 2 && status == HR_OK; i++) {
        status = hri_gpu_graph_launch(b->gpu, graph);
    }
    if (b->gpu) {
        hri_gpu_capture_drop(b->gpu); /* does nothing when none is under way */
        hri_gpu_graph_destroy(b->gpu, graph);
    }
    const hr_status synced = hr_queue_sync(b->queue);
    status = status == HR_OK ? synced : status;
    hri_gpu_close(b->gpu);
    b->gpu = NULL;
    return status;
}

/* After a failure the same bench must still work, and nothing may have been kept. */
static void check_after(bench *b, const char *what, int64_t allocs, int64_t things) {
    char left[256] = "";
    if (is_fake()) {
        CHECK_EQ(fake()->report(left, sizeof left), things);
    }
    CHECK_EQ(hri_fault_live_allocs(), allocs);
    if (hr_fill(b->queue, b->block.addr, 0, 64) != HR_OK || hr_queue_sync(b->queue) != HR_OK) {
        hr_error error;
        hr_ctx_error(b->ctx, &error);
        test_fail(__FILE__, __LINE__, "%s: the queue is bad afterwards: %s", what, error.message);
    }
}

static int fits(hri_fault_kind kind, hr_status status) {
    switch (kind) {
    case HRI_FAULT_ALLOC: /* an entry of the cache that is not kept is no failure */
        return status == HR_E_NOMEM_HOST || status == HR_OK;
    case HRI_FAULT_OPEN: /* of the library, or of files of the cache */
        return status == HR_E_UNSUPPORTED || status == HR_E_DEVICE || status == HR_OK;
    case HRI_FAULT_READ:
    case HRI_FAULT_WRITE:
        return status == HR_OK;
    case HRI_FAULT_LAUNCH:
        return status == HR_E_NOMEM_HOST || status == HR_E_NOMEM_DEVICE ||
               status == HR_E_INTERNAL || status == HR_E_DEVICE;
    default:
        return status == HR_E_DEVICE;
    }
}

static void sweep(bench *b, hri_fault_kind kind, int for_ever, int64_t allocs, int64_t things) {
    for (uint64_t n = 1;; n++) {
        CHECK(n < 200);
        hri_fault_set(kind, n, for_ever);
        const hr_status status = live(b);
        const uint64_t delivered = hri_fault_delivered();
        hri_fault_set(HRI_FAULT_ANY, 0, 0);
        check_after(b, hri_fault_name(kind), allocs, things);
        if (!delivered) {
            CHECK_OK(status);
            CHECK(n > 1); /* a life does pass such a point */
            return;
        }
        if (!fits(kind, status)) {
            test_fail(__FILE__, __LINE__, "%s %llu%s gave %s", hri_fault_name(kind),
                      (unsigned long long)n, for_ever ? "+" : "", hr_status_name(status));
        }
    }
}

TEST_TIMEOUT(kernel_fault, every_point_fails_once_and_for_ever, 600) {
    static const hri_fault_kind kinds[] = {HRI_FAULT_LAUNCH, HRI_FAULT_COPY, HRI_FAULT_ALLOC,
                                           HRI_FAULT_READ, HRI_FAULT_OPEN};
    bench b;
    bench_open(&b);
    CHECK_OK(live(&b)); /* the library is opened, the cache is warm */
    char text[256];
    const int64_t allocs = hri_fault_live_allocs();
    const int64_t things = is_fake() ? fake()->report(text, sizeof text) : 0;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        sweep(&b, kinds[i], 0, allocs, things);
        sweep(&b, kinds[i], 1, allocs, things);
        CHECK_OK(live(&b));
    }
    bench_close(&b);
}

/* With an empty cache every time, so that the compiler and the writing of the entry are passed too. */
TEST_TIMEOUT(kernel_fault, so_does_every_point_of_the_first_run, 600) {
    bench b;
    bench_open(&b);
    CHECK_OK(live(&b));
    char text[256], command[160];
    const int64_t allocs = hri_fault_live_allocs();
    const int64_t things = is_fake() ? fake()->report(text, sizeof text) : 0;
    static const hri_fault_kind kinds[] = {HRI_FAULT_LAUNCH, HRI_FAULT_WRITE, HRI_FAULT_ALLOC};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        for (uint64_t n = 1, delivered = 1; delivered; n++) {
            CHECK(n < 200);
            snprintf(command, sizeof command, "rm -rf %s/kernels", b.folder);
            CHECK_EQ(system(command), 0);
            hri_fault_set(kinds[i], n, 0);
            const hr_status status = live(&b);
            delivered = hri_fault_delivered();
            hri_fault_set(HRI_FAULT_ANY, 0, 0);
            check_after(&b, hri_fault_name(kinds[i]), allocs, things);
            if (delivered ? !fits(kinds[i], status) : status != HR_OK) {
                test_fail(__FILE__, __LINE__, "%s %llu gave %s", hri_fault_name(kinds[i]),
                          (unsigned long long)n, hr_status_name(status));
            }
        }
    }
    bench_close(&b);
}

TEST_TIMEOUT(kernel_fault, every_refusal_of_the_driver_is_a_status, 300) {
    static const char *const refusing[] = {"cuModuleLoadData",        "cuModuleGetFunction",
                                           "cuFuncSetAttribute",      "cuLaunchKernel",
                                           "cuStreamBeginCapture_v2", "cuGraphInstantiateWithFlags",
                                           "cuGraphUpload",           "cuGraphLaunch"};
    bench b;
    char text[256];
    need_fake();
    bench_open(&b);
    CHECK_OK(live(&b));
    const int64_t allocs = hri_fault_live_allocs();
    const int64_t things = fake()->report(text, sizeof text);
    for (size_t i = 0; i < sizeof refusing / sizeof refusing[0]; i++) {
        for (int n = 1;; n++) {
            CHECK(n < 20);
            snprintf(text, sizeof text, "%s:%d", refusing[i], n);
            fake()->schedule(text);
            const hr_status status = live(&b);
            const int64_t calls = fake()->calls(refusing[i]);
            fake()->schedule("");
            check_after(&b, text, allocs, things);
            if (calls < n) {
                CHECK_OK(status);
                CHECK(n > 1);
                break;
            }
            if (status == HR_OK) {
                test_fail(__FILE__, __LINE__, "%s was not noticed", text);
            }
        }
    }
    bench_close(&b);
}

/* Other processes leave less and less: the set-up works, or says that memory is missing, and leaves nothing. */
TEST_TIMEOUT(kernel_fault, a_device_too_full_for_the_code_is_a_status, 300) {
    bench b;
    need_fake();
    bench_open(&b);
    CHECK_OK(live(&b));
    char text[256];
    const int64_t allocs = hri_fault_live_allocs(), things = fake()->report(text, sizeof text);
    hr_device_info info = {.size = sizeof info};
    CHECK_OK(hr_device_get_info(b.device, &info));
    const hri_page_source *source = &b.device->dev->source;
    uint64_t pages[4096];
    size_t count = 0;
    while (count < 4096 && source->ops->create(source->self, &pages[count]) == HR_OK) {
        count++;
    }
    CHECK(count > 0 && count < 4096);
    int done = 0;
    while (!done && count > 0) {
        const hr_status status = live(&b);
        CHECK(status == HR_OK || status == HR_E_NOMEM_DEVICE);
        done = status == HR_OK;
        source->ops->destroy(source->self, pages[--count]);
    }
    CHECK(done);
    while (count > 0) {
        source->ops->destroy(source->self, pages[--count]);
    }
    check_after(&b, "a full device", allocs, things);
    bench_close(&b);
}
