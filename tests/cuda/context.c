/* The current context of the caller's thread is as it was after every call, whatever it was; any thread may call. */
#include "rig.h"

#include <pthread.h>
#include "device/cuda/cuda_load.h"

/* Every function of the vtable once. */
static void use_everything(rig *r) {
    run mem;
    run_open(r, 2, &mem);
    hri_dev_queue *queue;
    hri_dev_event *event;
    void *pinned;
    uint64_t ns;
    hr_device_info info = {.size = sizeof info};
    CHECK_OK(cuda.queue_open(r->dev, &queue));
    CHECK_OK(cuda.event_open(r->dev, &event));
    CHECK_OK(cuda.pinned_create(r->dev, 4096, &pinned));
    CHECK_OK(cuda.fill(queue, mem.at, 3, r->page));
    CHECK_OK(cuda.copy(queue, host_addr(pinned), mem.at, 4096));
    CHECK_OK(cuda.event_mark(event, queue));
    CHECK_OK(cuda.event_wait(event, queue));
    CHECK_OK(cuda.queue_sync(queue));
    CHECK_OK(cuda.event_elapsed(event, event, &ns));
    CHECK_OK(cuda.info(r->dev, &info));
    CHECK_EQ(((unsigned char *)pinned)[4095], 3);
    cuda.pinned_destroy(r->dev, pinned);
    cuda.event_close(event);
    cuda.queue_close(queue);
    run_close(r, &mem);
}

/* Failures too: each call refused once. */
static void fail_everything(rig *r) {
    static const hri_fault_kind kinds[] = {HRI_FAULT_RESERVE, HRI_FAULT_CREATE, HRI_FAULT_PINNED,
                                           HRI_FAULT_QUEUE};
    hr_addr at;
    uint64_t page;
    void *pinned;
    hri_dev_queue *queue;
    for (int i = 0; i < 4; i++) {
        hri_fault_set(kinds[i], 1, 1);
        const hr_status status = i == 0   ? r->source->ops->reserve(r->source->self, r->page, &at)
                                 : i == 1 ? r->source->ops->create(r->source->self, &page)
                                 : i == 2 ? cuda.pinned_create(r->dev, 1, &pinned)
                                          : cuda.queue_open(r->dev, &queue);
        CHECK(status != HR_OK);
    }
    hri_fault_set(HRI_FAULT_ANY, 0, 0);
}

TEST(context, a_thread_without_one_has_none_afterwards) {
    hri_cuda_driver cu;
    CUcontext current = NULL;
    rig r;
    rig_open(&r, 0);
    hri_cuda_driver_load(&cu);
    CHECK_EQ(cu.cuCtxGetCurrent(&current), CUDA_SUCCESS);
    CHECK(current == NULL);
    use_everything(&r);
    fail_everything(&r);
    CHECK_EQ(cu.cuCtxGetCurrent(&current), CUDA_SUCCESS);
    CHECK(current == NULL);
    CHECK_EQ(cu.cuCtxPopCurrent_v2(&current), CUDA_ERROR_INVALID_CONTEXT);
    rig_close(&r);
    hri_cuda_driver_unload(&cu);
}

TEST(context, a_callers_own_one_is_found_again) {
    knob("FAKECUDA_DEVICES", "2");
    hri_cuda_driver cu;
    CUcontext mine = NULL, current = NULL;
    rig r;
    rig_open(&r, 0);
    if (r.lib->device_count < 2) {
        test_skip("needs two devices");
    }
    hri_cuda_driver_load(&cu);
    CHECK_EQ(cu.cuDevicePrimaryCtxRetain(&mine, 1), CUDA_SUCCESS);
    CHECK_EQ(cu.cuCtxPushCurrent_v2(mine), CUDA_SUCCESS);
    use_everything(&r);
    fail_everything(&r);
    CHECK_EQ(cu.cuCtxGetCurrent(&current), CUDA_SUCCESS);
    CHECK(current == mine);
    CHECK_EQ(cu.cuCtxPopCurrent_v2(&current), CUDA_SUCCESS);
    CHECK_EQ(cu.cuCtxPopCurrent_v2(&current), CUDA_ERROR_INVALID_CONTEXT);
    CHECK_EQ(cu.cuDevicePrimaryCtxRelease_v2(1), CUDA_SUCCESS);
    rig_close(&r);
    hri_cuda_driver_unload(&cu);
}

TEST(context, nothing_is_pushed_when_it_is_already_current) {
    need_fake();
    hri_cuda_driver cu;
    CUcontext mine = NULL, current = NULL;
    rig r;
    rig_open(&r, 0);
    hri_cuda_driver_load(&cu);
    CHECK_EQ(cu.cuDevicePrimaryCtxRetain(&mine, 0), CUDA_SUCCESS);
    CHECK_EQ(cu.cuCtxPushCurrent_v2(mine), CUDA_SUCCESS);
    fake()->schedule("");
    use_everything(&r);
    CHECK_EQ(fake()->calls("cuCtxPushCurrent"), 0);
    CHECK_EQ(cu.cuCtxPopCurrent_v2(&current), CUDA_SUCCESS);
    CHECK(current == mine);
    CHECK_EQ(cu.cuDevicePrimaryCtxRelease_v2(0), CUDA_SUCCESS);
    rig_close(&r);
    hri_cuda_driver_unload(&cu);
}

static void *use_in_thread(void *argument) {
    for (int i = 0; i < 20; i++) {
        use_everything(argument);
    }
    return NULL;
}

TEST(context, eight_threads_share_a_device) {
    rig r;
    rig_open(&r, 0);
    pthread_t threads[8];
    for (int i = 0; i < 8; i++) {
        CHECK_EQ(pthread_create(&threads[i], NULL, use_in_thread, &r), 0);
    }
    for (int i = 0; i < 8; i++) {
        pthread_join(threads[i], NULL);
    }
    rig_check_idle(&r);
    rig_close(&r);
}

TEST(context, the_cost_is_given_back_by_close) {
    need_fake();
    rig r;
    for (int i = 0; i < 3; i++) {
        rig_open(&r, 0);
        use_everything(&r);
        CHECK_EQ(fake()->used_bytes(0), 66 << 20); /* the context and what it loads lazily */
        rig_close(&r);
        CHECK_EQ(fake()->used_bytes(0), 0);
    }
}
