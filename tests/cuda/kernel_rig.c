/* See kernel_rig.h. */
#include "kernel_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/half.h"

void bench_open(bench *b) {
    rig_isolate();
    memset(b, 0, sizeof *b);
    CHECK_OK(hr_ctx_create(NULL, &b->ctx));
    if (hr_device_find(b->ctx, "cuda:0", &b->device) != HR_OK) {
        test_skip("no device cuda:0");
    }
    CHECK_OK(hr_logical_create(
        b->device,
        &(hr_logical_options){.size = sizeof(hr_logical_options), .limit_bytes = 64 << 20},
        &b->logical));
    CHECK_OK(hr_block_alloc(b->logical, ROOM, HR_CATEGORY_WEIGHTS, 0, &b->block));
    CHECK_OK(hr_queue_create(b->device, &b->queue));
    snprintf(b->folder, sizeof b->folder, "/tmp/headroom-cubins-XXXXXX");
    CHECK(mkdtemp(b->folder) != NULL);
}

hr_status bench_try_gpu(bench *b, hri_prose *why) {
    /* Real libraries fall over the fake driver. */
    const hri_gpu_options options = {
        .cache = b->folder, .no_cublaslt = is_fake(), .no_cudnn = is_fake()};
    const hr_status status = hri_gpu_open(b->device, &options, &b->gpu, why);
    if (status == HR_OK) {
        hri_gpu_use(b->gpu, b->queue);
    }
    return status;
}

void bench_gpu(bench *b) {
    hri_prose why = {0};
    const hr_status status = bench_try_gpu(b, &why);
    if (status == HR_E_UNSUPPORTED) {
        test_skip("%s", why.text);
    }
    CHECK_OK(status);
}

static void remove_cache(const bench *b) {
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", b->folder);
    CHECK_EQ(system(command), 0);
}

void bench_close(bench *b) {
    hri_gpu_close(b->gpu);
    hr_queue_destroy(b->queue);
    hr_ctx_destroy(b->ctx);
    remove_cache(b);
    if (is_fake()) {
        char text[256] = "";
        fake()->report(text, sizeof text);
        CHECK_STR(text, "");
    }
}

void bench_launch(bench *b, const char *text, uint32_t blocks, uint32_t threads, hr_addr x,
                  int32_t n) {
    const hr_status status =
        hri_gpu_launch_text(b->gpu, "test", text, 0, "k",
                            &(hri_gpu_grid){.x = blocks, .threads = threads}, HRI_GPU_ARGS(&x, &n));
    if (status != HR_OK) {
        test_fail(__FILE__, __LINE__, "%s: %s", hr_status_name(status), hri_gpu_detail(b->gpu));
    }
}

void bench_put(bench *b, const void *from, size_t bytes) {
    CHECK_OK(hr_copy(b->queue, b->block.addr, host_addr(from), bytes));
    CHECK_OK(hr_queue_sync(b->queue));
}

void bench_get(bench *b, void *to, size_t bytes) {
    CHECK_OK(hr_copy(b->queue, host_addr(to), b->block.addr, bytes));
    CHECK_OK(hr_queue_sync(b->queue));
}

void put_numbers(unsigned char *to, hr_type type, int64_t count, uint64_t *state) {
    for (int64_t i = 0; i < count; i++) {
        const float v = (float)(int)(test_random(state) % 3) - 1.0f;
        if (type == HR_TYPE_F32) {
            ((float *)(void *)to)[i] = v;
        } else if (type == HR_TYPE_BF16) {
            ((hri_bf16 *)(void *)to)[i] = hri_to_bf16(v);
        } else {
            ((hri_f16 *)(void *)to)[i] = hri_to_f16(v);
        }
    }
}
