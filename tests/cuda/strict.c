/* Misuse of the driver, asked of the driver directly: the fake one must refuse what a real one refuses, with the same
 * error.  The cases run on both, so a machine with a GPU shows where the fake one is wrong: REFUSED wants the exact
 * error of the fake one, and of a real one any refusal, with a line where it is another.  What NVIDIA calls undefined
 * is asked of the fake one only. */
#include "rig.h"

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
#include "device/cuda/cuda_load.h"

static hri_cuda_driver cu;
static CUcontext context;
static const CUmemAllocationProp prop = {
    .type = CU_MEM_ALLOCATION_TYPE_PINNED,
    .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
};
static const CUmemAccessDesc desc = {
    .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
    .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
};
enum { PAGE = 2 << 20 };

static void refused(const char *file, int line, const char *call, CUresult is, CUresult wanted) {
    test_count_check();
    if (is == CUDA_SUCCESS || (is_fake() && is != wanted)) {
        test_fail(file, line, "%s gave %d, wanted %d", call, (int)is, (int)wanted);
    }
    if (is != wanted) {
        fprintf(stderr, "    %s:%d: the real driver gives %d for %s, the fake one %d\n", file, line,
                (int)is, call, (int)wanted);
    }
}
#define REFUSED(CALL, WANTED) refused(__FILE__, __LINE__, #CALL, (CALL), (WANTED))

static void load(void) {
    rig_isolate();
    hri_cuda_driver_load(&cu);
    if (!cu.usable) {
        test_skip("no driver: %s", cu.why_not);
    }
}

static void begin(void) {
    int count = 0;
    load();
    if (cu.cuInit(0) != CUDA_SUCCESS || cu.cuDeviceGetCount(&count) != CUDA_SUCCESS || !count) {
        test_skip("the driver has no device");
    }
    CHECK_EQ(cu.cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
    CHECK_EQ(cu.cuCtxPushCurrent_v2(context), CUDA_SUCCESS);
}

static void end(void) {
    CUcontext popped;
    CHECK_EQ(cu.cuCtxPopCurrent_v2(&popped), CUDA_SUCCESS);
    CHECK(popped == context);
    CHECK_EQ(cu.cuDevicePrimaryCtxRelease_v2(0), CUDA_SUCCESS);
    if (is_fake()) {
        char text[256] = "";
        fake()->report(text, sizeof text);
        CHECK_STR(text, "");
    }
}

TEST(strict, nothing_works_before_cuInit) {
    load();
    int count;
    CUdevice device;
    CUmemGenericAllocationHandle handle;
    REFUSED(cu.cuDeviceGetCount(&count), CUDA_ERROR_NOT_INITIALIZED);
    REFUSED(cu.cuDeviceGet(&device, 0), CUDA_ERROR_NOT_INITIALIZED);
    REFUSED(cu.cuMemCreate(&handle, PAGE, &prop, 0), CUDA_ERROR_NOT_INITIALIZED);
    REFUSED(cu.cuInit(1), CUDA_ERROR_INVALID_VALUE);
}

TEST(strict, nothing_works_in_a_child_forked_after_cuInit) {
    begin();
    need_fake();
    const pid_t child = fork();
    if (child == 0) {
        int count;
        _exit(cu.cuDeviceGetCount(&count) == CUDA_ERROR_NOT_INITIALIZED &&
                      cu.cuInit(0) == CUDA_ERROR_NOT_INITIALIZED
                  ? 0
                  : 1);
    }
    int status = 1;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
    end();
}

TEST(strict, work_needs_a_current_context) {
    begin();
    size_t a, b;
    CUstream stream;
    CUevent event;
    CUcontext popped;
    CHECK_EQ(cu.cuCtxPopCurrent_v2(&popped), CUDA_SUCCESS);
    REFUSED(cu.cuCtxPopCurrent_v2(&popped), CUDA_ERROR_INVALID_CONTEXT);
    REFUSED(cu.cuMemGetInfo_v2(&a, &b), CUDA_ERROR_INVALID_CONTEXT);
    REFUSED(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_ERROR_INVALID_CONTEXT);
    REFUSED(cu.cuEventCreate(&event, 0), CUDA_ERROR_INVALID_CONTEXT);
    CHECK_EQ(cu.cuCtxPushCurrent_v2(context), CUDA_SUCCESS);
    end();
}

TEST(strict, there_is_no_such_device) {
    begin();
    CUdevice device;
    CUcontext other;
    int value;
    REFUSED(cu.cuDeviceGet(&device, 1000), CUDA_ERROR_INVALID_DEVICE);
    REFUSED(cu.cuDeviceGet(&device, -1), CUDA_ERROR_INVALID_DEVICE);
    REFUSED(cu.cuDevicePrimaryCtxRetain(&other, 1000), CUDA_ERROR_INVALID_DEVICE);
    CHECK_EQ(cu.cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1000),
             CUDA_ERROR_INVALID_DEVICE);
    end();
}

TEST(strict, sizes_are_whole_pages) {
    begin();
    CUdeviceptr at;
    CUmemGenericAllocationHandle handle;
    size_t granularity = 0;
    CHECK_EQ(
        cu.cuMemGetAllocationGranularity(&granularity, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
        CUDA_SUCCESS);
    CHECK_EQ(granularity, PAGE);
    REFUSED(cu.cuMemAddressReserve(&at, 0, 0, 0, 0), CUDA_ERROR_INVALID_VALUE);
    REFUSED(cu.cuMemAddressReserve(&at, PAGE, 3, 0, 0), CUDA_ERROR_INVALID_VALUE);
    REFUSED(cu.cuMemCreate(&handle, PAGE / 2, &prop, 0), CUDA_ERROR_INVALID_VALUE);
    REFUSED(cu.cuMemCreate(&handle, 0, &prop, 0), CUDA_ERROR_INVALID_VALUE);
    REFUSED(cu.cuMemCreate(&handle, PAGE, &prop, 1), CUDA_ERROR_INVALID_VALUE);
    end();
}

TEST(strict, maps_are_checked) {
    begin();
    CUdeviceptr at;
    CUmemGenericAllocationHandle a, b;
    CHECK_EQ(cu.cuMemAddressReserve(&at, 4 * PAGE, PAGE, 0, 0), CUDA_SUCCESS);
    CHECK_EQ(cu.cuMemCreate(&a, PAGE, &prop, 0), CUDA_SUCCESS);
    CHECK_EQ(cu.cuMemCreate(&b, 2 * PAGE, &prop, 0), CUDA_SUCCESS);
    REFUSED(cu.cuMemMap(at, PAGE / 2, 0, a, 0), CUDA_ERROR_INVALID_VALUE);
    REFUSED(cu.cuMemMap(at + 4096, PAGE, 0, a, 0), CUDA_ERROR_INVALID_VALUE);
    REFUSED(cu.cuMemMap(at, 2 * PAGE, 0, a, 0), CUDA_ERROR_INVALID_VALUE); /* larger than it is */
    CHECK_EQ(cu.cuMemMap(at + 4 * PAGE, PAGE, 0, a, 0),
             CUDA_ERROR_INVALID_VALUE); /* not reserved */
    CHECK_EQ(cu.cuMemMap(at, PAGE, 0, a, 0), CUDA_SUCCESS);
    REFUSED(cu.cuMemMap(at, PAGE, 0, a, 0), CUDA_ERROR_INVALID_VALUE); /* over a mapping */
    CHECK_EQ(cu.cuMemMap(at + PAGE, 2 * PAGE, 0, b, 0), CUDA_SUCCESS);
    REFUSED(cu.cuMemSetAccess(at, 4 * PAGE, &desc, 1), CUDA_ERROR_INVALID_VALUE); /* a gap */
    CHECK_EQ(cu.cuMemSetAccess(at, 3 * PAGE, &desc, 1), CUDA_SUCCESS);
    REFUSED(cu.cuMemUnmap(at + PAGE, PAGE), CUDA_ERROR_INVALID_VALUE); /* half a mapping */
    if (is_fake()) { /* a gap: a real driver is not known to refuse it */
        REFUSED(cu.cuMemUnmap(at, 4 * PAGE), CUDA_ERROR_INVALID_VALUE);
    }
    CHECK_EQ(cu.cuMemUnmap(at, 3 * PAGE), CUDA_SUCCESS);
    if (is_fake()) { /* twice: driver 580 accepts it, which is no reason for us to do it */
        REFUSED(cu.cuMemUnmap(at, 3 * PAGE), CUDA_ERROR_INVALID_VALUE);
    }
    CHECK_EQ(cu.cuMemRelease(a), CUDA_SUCCESS);
    CHECK_EQ(cu.cuMemRelease(b), CUDA_SUCCESS);
    CHECK_EQ(cu.cuMemAddressFree(at, 2 * PAGE),
             CUDA_ERROR_INVALID_VALUE); /* not what was reserved */
    CHECK_EQ(cu.cuMemAddressFree(at, 4 * PAGE), CUDA_SUCCESS);
    REFUSED(cu.cuMemAddressFree(at, 4 * PAGE), CUDA_ERROR_INVALID_VALUE);
    end();
}

TEST(strict, a_released_page_lives_while_it_is_mapped) {
    begin();
    CUdeviceptr at;
    CUmemGenericAllocationHandle handle;
    size_t before, during, total;
    CHECK_EQ(cu.cuMemAddressReserve(&at, 32 * PAGE, PAGE, 0, 0), CUDA_SUCCESS);
    CHECK_EQ(cu.cuMemGetInfo_v2(&before, &total), CUDA_SUCCESS);
    CHECK_EQ(cu.cuMemCreate(&handle, 32 * PAGE, &prop, 0), CUDA_SUCCESS);
    CHECK_EQ(cu.cuMemMap(at, 32 * PAGE, 0, handle, 0), CUDA_SUCCESS);
    CHECK_EQ(cu.cuMemRelease(handle), CUDA_SUCCESS);
    CHECK_EQ(cu.cuMemGetInfo_v2(&during, &total), CUDA_SUCCESS);
    CHECK_LE(during, before - 32 * PAGE);
    CHECK_EQ(cu.cuMemUnmap(at, 32 * PAGE), CUDA_SUCCESS);
    CHECK_EQ(cu.cuMemGetInfo_v2(&during, &total), CUDA_SUCCESS);
    CHECK_LE(before - PAGE, during);
    CHECK_EQ(cu.cuMemAddressFree(at, 32 * PAGE), CUDA_SUCCESS);
    end();
}

TEST(strict, undefined_things_are_refused) {
    begin();
    need_fake();
    CUdeviceptr at;
    CUmemGenericAllocationHandle handle;
    char host;
    CHECK_EQ(cu.cuMemAddressReserve(&at, PAGE, 0, 0, 0), CUDA_SUCCESS);
    CHECK_EQ(cu.cuMemCreate(&handle, PAGE, &prop, 0), CUDA_SUCCESS);
    CHECK_EQ(cu.cuMemMap(at, PAGE, 0, handle, 0), CUDA_SUCCESS);
    REFUSED(cu.cuMemAddressFree(at, PAGE), CUDA_ERROR_INVALID_VALUE); /* still mapped */
    CHECK_EQ(cu.cuMemRelease(handle), CUDA_SUCCESS);
    REFUSED(cu.cuMemRelease(handle), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cu.cuMemUnmap(at, PAGE), CUDA_SUCCESS);
    REFUSED(cu.cuMemRelease(handle), CUDA_ERROR_INVALID_VALUE);
    REFUSED(cu.cuMemMap(at, PAGE, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
    REFUSED(cu.cuMemRelease(12345), CUDA_ERROR_INVALID_VALUE);
    REFUSED(cu.cuMemFreeHost(&host), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cu.cuMemAddressFree(at, PAGE), CUDA_SUCCESS);
    CUstream stream;
    CUevent event;
    CHECK_EQ(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    CHECK_EQ(cu.cuStreamDestroy_v2(stream), CUDA_SUCCESS);
    REFUSED(cu.cuStreamSynchronize(stream), CUDA_ERROR_INVALID_HANDLE);
    CHECK_EQ(cu.cuEventCreate(&event, 0), CUDA_SUCCESS);
    CHECK_EQ(cu.cuEventDestroy_v2(event), CUDA_SUCCESS);
    REFUSED(cu.cuEventDestroy_v2(event), CUDA_ERROR_INVALID_HANDLE);
    end();
}

/* Mapped but without access: the copy itself is taken, the device faults. */
TEST(strict, a_page_without_access_faults) {
    begin();
    need_fake();
    CUdeviceptr at;
    CUmemGenericAllocationHandle handle;
    CUstream stream;
    char host = 0;
    CHECK_EQ(cu.cuMemAddressReserve(&at, PAGE, 0, 0, 0), CUDA_SUCCESS);
    CHECK_EQ(cu.cuMemCreate(&handle, PAGE, &prop, 0), CUDA_SUCCESS);
    CHECK_EQ(cu.cuMemMap(at, PAGE, 0, handle, 0), CUDA_SUCCESS);
    CHECK_EQ(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    CHECK_EQ(cu.cuMemcpyAsync(at, (CUdeviceptr)(uintptr_t)&host, 1, stream), CUDA_SUCCESS);
    CHECK_EQ(cu.cuStreamSynchronize(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
    CHECK_EQ(cu.cuStreamSynchronize(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
    (void)cu.cuStreamDestroy_v2(stream);
    CHECK_EQ(cu.cuMemUnmap(at, PAGE), CUDA_SUCCESS);
    CHECK_EQ(cu.cuMemRelease(handle), CUDA_SUCCESS);
    CHECK_EQ(cu.cuMemAddressFree(at, PAGE), CUDA_SUCCESS);
    end();
}

/* The host cannot read device addresses, so a program that does so shows it here and not first on a GPU. */
TEST(strict, the_host_cannot_read_a_device_address) {
    rig r;
    rig_open(&r, 0);
    run mem;
    run_open(&r, 1, &mem);
    int ends[2];
    CHECK_EQ(pipe(ends), 0);
    /* The kernel reads on our behalf: a refusal instead of a crash. */
    CHECK_EQ(write(ends[1], (const void *)(uintptr_t)mem.at, 1), -1);
    run_close(&r, &mem);
    rig_close(&r);
}
