/* Kernels from text: compiled, launched, captured.  On the fake driver they run on the host (tests/fakecuda). */
#include "kernel_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TEST(kernels, every_thread_runs_once) {
    bench b;
    float x[1000];
    bench_open(&b);
    bench_gpu(&b);
    for (int i = 0; i < 1000; i++) {
        x[i] = (float)i;
    }
    bench_put(&b, x, sizeof x);
    bench_launch(
        &b, KERNEL "{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) x[i] += 1.0f; }", 8,
        128, b.block.addr, 1000);
    bench_get(&b, x, sizeof x);
    for (int i = 0; i < 1000; i++) {
        CHECK(x[i] == (float)(i + 1));
    }
    bench_close(&b);
}

TEST(kernels, threads_of_a_block_meet_at_barriers_and_in_warps) {
    bench b;
    float x[256];
    bench_open(&b);
    bench_gpu(&b);
    for (int i = 0; i < 256; i++) {
        x[i] = (float)i;
    }
    bench_put(&b, x, sizeof x);
    bench_launch(
        &b,
        KERNEL
        "{ __shared__ float room[8]; float s = x[threadIdx.x];"
        "for (int i = 16; i > 0; i /= 2) s += __shfl_xor_sync(0xffffffffu, s, i);"
        "if (threadIdx.x % 32 == 0) room[threadIdx.x / 32] = s; __syncthreads();"
        "s = 0.0f; for (int i = 0; i < 8; i++) s += room[i]; x[threadIdx.x] = s + threadIdx.x; }",
        1, 256, b.block.addr, 256);
    bench_get(&b, x, sizeof x);
    for (int i = 0; i < 256; i++) {
        CHECK(x[i] == (float)(255 * 128 + i));
    }
    bench_close(&b);
}

/* Two warps read a number that the first changes behind that.  Returns whether both orders of the fake driver give the same. */
static int is_ordered(const char *first, const char *before) {
    char text[512];
    float x[2][64];
    bench b;
    snprintf(text, sizeof text,
             KERNEL "{ __shared__ unsigned long long bar; __shared__ float room;"
                    "if (threadIdx.x == 0) { room = 1.0f; %s } __syncthreads();"
                    "const float v = __shfl_sync(0xffffffffu, room, 0); %s"
                    "if (threadIdx.x == 0) room = 2.0f; x[threadIdx.x] = v; }",
             first, before);
    bench_open(&b);
    bench_gpu(&b);
    for (int i = 0; i < 2; i++) {
        setenv("FAKECUDA_ORDER", i ? "reverse" : "", 1);
        bench_launch(&b, text, 1, 64, b.block.addr, 64);
        bench_get(&b, x[i], sizeof x[i]);
    }
    bench_close(&b);
    return memcmp(x[0], x[1], sizeof x[0]) == 0;
}

TEST(kernels, a_warp_is_as_far_ahead_of_others_as_barriers_allow) {
    need_fake();
    CHECK(!is_ordered("", ""));
    CHECK(is_ordered("", "__syncthreads();"));
    CHECK(is_ordered("fake_now->phase_init(&bar, 2);",
                     "if (threadIdx.x % 32 == 0) fake_now->phase_arrive(&bar);"
                     "if (threadIdx.x < 32) fake_now->phase_wait(&bar, 0);"));
}

static void check_lost(const char *text) {
    bench b;
    need_fake();
    bench_open(&b);
    bench_gpu(&b);
    bench_launch(&b, text, 1, 64, b.block.addr, 64);
    CHECK_STATUS(hr_queue_sync(b.queue), HR_E_LOST);
    bench_close(&b);
}

TEST(kernels, a_barrier_that_some_never_reach_is_a_lost_device) {
    check_lost(KERNEL
               "{ if (threadIdx.x == 32) __shfl_sync(0xffffffffu, 1, 0); __syncthreads(); }");
}

TEST(kernels, a_phase_that_is_never_over_is_a_lost_device) {
    check_lost(KERNEL "{ __shared__ unsigned long long bar; if (threadIdx.x == 0) "
                      "fake_now->phase_init(&bar, 65); __syncthreads(); "
                      "fake_now->phase_arrive(&bar); fake_now->phase_wait(&bar, 0); }");
}

TEST(kernels, an_address_without_memory_is_a_lost_device) {
    check_lost(KERNEL "{ x[1ll << 32] = 1.0f; }");
}

TEST(kernels, a_misaligned_access_is_a_lost_device) {
    check_lost("struct __align__(16) wide { float at[4]; };" KERNEL
               "{ wide *w = (wide *)(x + 1); w->at[0] = 2.0f * w->at[1]; }");
}

TEST(kernels, an_index_outside_shared_memory_is_a_lost_device) {
    check_lost(KERNEL "{ __shared__ float room[32]; room[threadIdx.x] = 1.0f; __syncthreads();"
                      " x[threadIdx.x] = room[n - 1 - threadIdx.x]; }");
}

static hr_status launch_with_shared(uint32_t bytes) {
    bench b;
    int32_t n = 1;
    bench_open(&b);
    bench_gpu(&b);
    const hr_status status =
        hri_gpu_launch_text(b.gpu, "test", KERNEL "{ x[threadIdx.x] = (float)n; }", 0, "k",
                            &(hri_gpu_grid){.x = 1, .threads = 32, .shared_bytes = bytes},
                            HRI_GPU_ARGS(&b.block.addr, &n));
    CHECK_OK(hr_queue_sync(b.queue));
    bench_close(&b);
    return status;
}

TEST(kernels, shared_memory_that_a_text_declares_counts_beside_what_a_launch_asks_for) {
    need_fake();
    knob("FAKECUDA_SHARED", "8KiB");
    CHECK_OK(launch_with_shared(40 << 10));
    CHECK_OK(launch_with_shared(44 << 10)); /* 52 KiB together: asked for */
    CHECK_OK(launch_with_shared(219 << 10));
    CHECK_EQ(launch_with_shared(220 << 10), HR_E_UNSUPPORTED); /* 228 of 227 KiB */
}

TEST(kernels, a_text_that_does_not_compile_is_told_with_its_line) {
    bench b;
    bench_open(&b);
    bench_gpu(&b);
    CHECK_STATUS(hri_gpu_launch_text(b.gpu, "broken", "\nint a = nothing;\n", 0, "k",
                                     &(hri_gpu_grid){.x = 1, .threads = 1}, NULL),
                 HR_E_INTERNAL);
    CHECK(strstr(hri_gpu_detail(b.gpu), "broken") != NULL);
    CHECK(strstr(hri_gpu_detail(b.gpu), "nothing") != NULL);
    bench_close(&b);
}

TEST(kernels, a_step_is_captured_and_replayed) {
    bench b;
    hri_gpu_graph *graph;
    float x[64] = {0};
    bench_open(&b);
    bench_gpu(&b);
    bench_put(&b, x, sizeof x);
    CHECK_OK(hri_gpu_capture_begin(b.gpu));
    CHECK_OK(hri_gpu_fill(b.gpu, b.block.addr + 1024, 0, 64));
    bench_launch(&b, KERNEL "{ x[threadIdx.x] += n; }", 1, 64, b.block.addr, 3);
    bench_launch(&b, KERNEL "{ x[threadIdx.x] *= n; }", 1, 64, b.block.addr, 2);
    CHECK_OK(hri_gpu_capture_end(b.gpu, &graph));
    bench_get(&b, x, sizeof x);
    CHECK(x[5] == 0.0f); /* nothing has run */
    for (int i = 0; i < 3; i++) {
        CHECK_OK(hri_gpu_graph_launch(b.gpu, graph));
    }
    bench_get(&b, x, sizeof x);
    if (x[0] != 42.0f || x[63] != 42.0f) {
        test_fail(__FILE__, __LINE__, "x is %g and %g, not 42", (double)x[0], (double)x[63]);
    }
    hri_gpu_graph_destroy(b.gpu, graph);
    bench_close(&b);
}
