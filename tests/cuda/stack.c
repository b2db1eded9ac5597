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
    CHECK_EQ(info.runtime_bytes, (66 + 16) << 20);
    CHECK_EQ(fake()->used_bytes(0), (66 + 16) << 20);
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

/* In whole MiB: the module takes some, too. */
static uint64_t used_by_a_launch(const char *local) {
    need_fake();
    knob("FAKECUDA_STACK", "64MiB");
    knob("FAKECUDA_LOCAL", local);
    bench b;
    bench_open(&b);
    bench_gpu(&b);
    const uint64_t before = fake()->used_bytes(0);
    bench_launch(&b, KERNEL "{ if (n < 0) x[0] = 1.0f; }", 1, 32, b.block.addr, 1);
    CHECK_OK(hr_queue_sync(b.queue));
    const uint64_t after = fake()->used_bytes(0);
    bench_close(&b);
    return (after - before) >> 20;
}

TEST(stack, it_grows_for_a_kernel_that_wants_more) {
    CHECK_EQ(used_by_a_launch("500"), 16); /* 512 bytes in place of 256 */
}

TEST(stack, it_stays_for_one_that_does_not) {
    CHECK_EQ(used_by_a_launch("256"), 0);
}
