/* The stack of kernels: small from the first call on, as large as a kernel wants it, and never smaller for somebody else. */
#include "kernel_rig.h"

#include "device/cuda/cuda_load.h"

TEST(stack, a_context_of_our_own_has_a_small_one) {
    need_fake();
    knob("FAKECUDA_STACK", "64MiB");
    rig r;
    hr_device_info info = {.size = sizeof info};
    rig_open(&r, 0);
    CHECK_OK(cuda.info(r.dev, &info));
    CHECK_EQ(info.runtime_bytes, (66 + 2) << 20); /* 16 bytes of 1,024 in a page */
    CHECK_EQ(fake()->used_bytes(0), (66 + 2) << 20);
    rig_close(&r);
}

TEST(stack, that_of_somebody_else_stays_as_it_is) {
    need_fake();
    knob("FAKECUDA_STACK", "64MiB");
    hri_cuda_driver cu;
    CUcontext context;
    hri_cuda_driver_load(&cu);
    CHECK_EQ(cu.cuInit(0), CUDA_SUCCESS);
    CHECK_EQ(cu.cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
    rig r;
    rig_open(&r, 0);
    CHECK_EQ(fake()->used_bytes(0), (66 + 64) << 20);
    CHECK_EQ(cu.cuDevicePrimaryCtxRelease_v2(0), CUDA_SUCCESS);
    rig_close(&r);
    hri_cuda_driver_unload(&cu);
}

/* In whole MiB: the module takes some, too.  *status: of one launch. */
static uint64_t used_by(const char *local, int together, int trial, hr_status *status) {
    need_fake();
    knob("FAKECUDA_STACK", "64MiB");
    knob("FAKECUDA_LOCAL", local);
    bench b;
    bench_open(&b);
    bench_gpu(&b);
    const uint64_t before = fake()->used_bytes(0);
    hr_addr x = b.block.addr;
    int32_t n = 1;
    hri_gpu_trial(b.gpu, trial ? x : 0);
    hri_gpu_set_together(b.gpu, together);
    *status = hri_gpu_launch_text(b.gpu, "test", KERNEL "{ if (n < 0) x[0] = 1.0f; }", 0, "k",
                                  &(hri_gpu_grid){.x = 1, .threads = 32}, HRI_GPU_ARGS(&x, &n));
    hri_gpu_set_together(b.gpu, 0);
    hri_gpu_trial(b.gpu, 0);
    CHECK_OK(hr_queue_sync(b.queue));
    const uint64_t after = fake()->used_bytes(0);
    bench_close(&b);
    return (after - before) >> 20;
}

TEST(stack, it_grows_for_a_kernel_that_wants_more) {
    hr_status status;
    CHECK_EQ(used_by("500", 0, 0, &status), 32 - 2); /* 512 bytes in place of 16 */
    CHECK_OK(status);
}

TEST(stack, it_stays_for_one_that_does_not) {
    hr_status status;
    CHECK_EQ(used_by("16", 1, 0, &status), 0);
    CHECK_OK(status);
}

TEST(stack, calls_that_could_go_apart_do_not_make_it_grow_outside_a_trial) {
    hr_status status;
    CHECK_EQ(used_by("500", 1, 0, &status), 0);
    CHECK_STATUS(status, HR_E_UNSUPPORTED);
    CHECK_EQ(used_by("500", 1, 1, &status), 32 - 2);
    CHECK_OK(status);
}
