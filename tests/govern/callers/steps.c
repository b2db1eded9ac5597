/* The steps of a caller, and their list; see steps.h.  Where several are there, the newest is meant. */
#include "steps.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

caller_state me;

static uint64_t bytes_of(const char *text) {
    char *end;
    const double number = strtod(text, &end);
    return (uint64_t)(number * (*end == 'G'   ? 1 << 30
                                : *end == 'M' ? 1 << 20
                                : *end == 'K' ? 1024
                                              : 1));
}

CUresult caller_alloc(uint64_t bytes) {
    CUdeviceptr at = 0;
    const CUresult result = me.cu.cuMemAlloc(&at, bytes);
    if (result == CUDA_SUCCESS) {
        me.plain_bytes[me.plain_count] = bytes;
        me.plain[me.plain_count++] = at;
    }
    return result;
}

CUresult caller_async(uint64_t bytes) {
    CUdeviceptr at = 0;
    const CUresult result = me.cu.cuMemAllocAsync(&at, bytes, NULL);
    if (result == CUDA_SUCCESS) {
        me.pooled[me.pooled_count++] = at;
    }
    return result;
}

CUresult caller_map(uint64_t bytes, int xla) {
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    caller_vmm v = {.bytes = (bytes + CALLER_PAGE - 1) / CALLER_PAGE * CALLER_PAGE};
    if (xla) {
        prop.requestedHandleTypes = (CUmemAllocationHandleType)1; /* a file descriptor */
        prop.allocFlags.gpuDirectRDMACapable = 1;
    }
    CUresult result = me.cu.cuMemCreate(&v.handle, v.bytes, &prop, 0);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    const CUmemAccessDesc access = {.location = prop.location,
                                    .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    result = me.cu.cuMemAddressReserve(&v.at, v.bytes, 0, 0, 0);
    result = result == CUDA_SUCCESS ? me.cu.cuMemMap(v.at, v.bytes, 0, v.handle, 0) : result;
    result = result == CUDA_SUCCESS ? me.cu.cuMemSetAccess(v.at, v.bytes, &access, 1) : result;
    me.mapped[me.mapped_count++] = v;
    return result;
}

CUresult caller_unmap(int retained_first) {
    caller_vmm v = me.mapped[--me.mapped_count];
    CUmemGenericAllocationHandle again = 0;
    CUresult result = CUDA_SUCCESS;
    if (retained_first) { /* NCCL: retain, release, unmap, release */
        result = me.cu.cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)v.at);
        result = result == CUDA_SUCCESS ? me.cu.cuMemRelease(v.handle) : result;
        result = result == CUDA_SUCCESS ? me.cu.cuMemUnmap(v.at, v.bytes) : result;
        result = result == CUDA_SUCCESS ? me.cu.cuMemRelease(again) : result;
    } else { /* XLA: release at once, the mapping keeps it */
        result = me.cu.cuMemRelease(v.handle);
        result = result == CUDA_SUCCESS ? me.cu.cuMemUnmap(v.at, v.bytes) : result;
    }
    return result == CUDA_SUCCESS ? me.cu.cuMemAddressFree(v.at, v.bytes) : result;
}

static CUresult numa(uint64_t bytes) {
    const CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .location = {.type = (CUmemLocationType)3}};
    CUmemGenericAllocationHandle handle;
    const CUresult result = me.cu.cuMemCreate(&handle, bytes, &prop, 0);
    return result == CUDA_SUCCESS ? me.cu.cuMemRelease(handle) : result;
}

CUresult caller_load_module(uint64_t bytes) {
    char *image = calloc(1, bytes + 16);
    memcpy(image, "fakestub", 8); /* FAKE_STUB */
    memcpy(image + 8, &bytes, sizeof bytes);
    const CUresult result = me.cu.cuModuleLoadData(&me.modules[me.module_count], image);
    me.module_count += result == CUDA_SUCCESS;
    free(image);
    return result;
}

static CUresult graph(uint64_t bytes) {
    CUstream stream;
    CUgraph captured;
    CUgraphExec executable;
    CUdeviceptr at = 0;
    CUresult result = me.cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
    result = result == CUDA_SUCCESS
                 ? me.cu.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED)
                 : result;
    result = result == CUDA_SUCCESS ? me.cu.cuMemAllocAsync(&at, bytes, stream) : result;
    result = result == CUDA_SUCCESS ? me.cu.cuMemFreeAsync(at, stream) : result;
    result = result == CUDA_SUCCESS ? me.cu.cuStreamEndCapture(stream, &captured) : result;
    result = result == CUDA_SUCCESS ? me.cu.cuGraphInstantiateWithFlags(&executable, captured, 0)
                                    : result;
    return result == CUDA_SUCCESS ? me.cu.cuGraphLaunch(executable, stream) : result;
}

/* ---- one function a step ---- */

/* `text` stands behind the colon ("" when there is none), `bytes` is it as a size or a count. */
#define STEP(NAME)                                                                                 \
    static CUresult step_##NAME(uint64_t bytes __attribute__((unused)),                            \
                                const char *text __attribute__((unused)),                          \
                                uint64_t *number __attribute__((unused)))

STEP(alloc) {
    return caller_alloc(bytes);
}
STEP(free) {
    return me.plain_count ? me.cu.cuMemFree(me.plain[--me.plain_count]) : CUDA_SUCCESS;
}
STEP(pitch) {
    size_t pitch;
    me.plain_bytes[me.plain_count] = 1;
    return me.cu.cuMemAllocPitch(&me.plain[me.plain_count++], &pitch, 1000, bytes / 1024, 4);
}
STEP(managed) {
    return me.cu.cuMemAllocManaged(&me.plain[me.plain_count++], bytes, 1);
}
STEP(async) {
    return caller_async(bytes);
}
STEP(unasync) {
    return me.pooled_count ? me.cu.cuMemFreeAsync(me.pooled[--me.pooled_count], NULL)
                           : CUDA_SUCCESS;
}
STEP(sync) {
    return me.cu.cuCtxSynchronize();
}
STEP(vmm) {
    return caller_map(bytes, 0);
}
STEP(xla) {
    return caller_map(bytes, 1);
}
STEP(unvmm) {
    return me.mapped_count ? caller_unmap(0) : CUDA_SUCCESS;
}
STEP(nccl) {
    return me.mapped_count ? caller_unmap(1) : CUDA_SUCCESS;
}
STEP(numa) {
    return numa(bytes);
}
STEP(graph) {
    return graph(bytes);
}
STEP(graphtrim) {
    return me.cu.cuDeviceGraphMemTrim(0);
}
STEP(fill) {
    int (*take)(int, uint64_t) = (int (*)(int, uint64_t))dlsym(me.cu.library, "fakecuda_take");
    return take && take(0, bytes) == 0 ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
STEP(module) {
    return caller_load_module(bytes);
}
STEP(unmodule) {
    return me.module_count ? me.cu.cuModuleUnload(me.modules[--me.module_count]) : CUDA_SUCCESS;
}
STEP(node) {
    CUgraph made;
    CUgraphNode added;
    CUgraphExec executable;
    CUstream stream;
    CUgraphNodeParams p = {
        .type = 10,
        .alloc = {.poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}},
                  .bytesize = bytes}};
    CUresult result = me.cu.cuGraphAddNode ? me.cu.cuGraphCreate(&made, 0) : CUDA_ERROR_NOT_FOUND;
    result = result == CUDA_SUCCESS ? me.cu.cuGraphAddNode(&added, made, NULL, 0, &p) : result;
    result =
        result == CUDA_SUCCESS ? me.cu.cuGraphInstantiateWithFlags(&executable, made, 0) : result;
    result =
        result == CUDA_SUCCESS ? me.cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) : result;
    return result == CUDA_SUCCESS ? me.cu.cuGraphLaunch(executable, stream) : result;
}
/* A graph with that much memory, which its instantiation takes. */
STEP(upload) {
    CUresult (*with)(CUgraphExec *, CUgraph, CUDA_GRAPH_INSTANTIATE_PARAMS *);
    CUgraph made;
    CUgraphNode added;
    CUgraphExec executable;
    CUDA_GRAPH_INSTANTIATE_PARAMS how = {.flags = 2};
    CUgraphNodeParams p = {
        .type = 10,
        .alloc = {.poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}},
                  .bytesize = bytes}};
    *(void **)&with = dlsym(me.cu.library, "cuGraphInstantiateWithParams");
    CUresult result = me.cu.cuGraphCreate(&made, 0);
    result = result == CUDA_SUCCESS ? me.cu.cuGraphAddNode(&added, made, NULL, 0, &p) : result;
    result = result == CUDA_SUCCESS
                 ? me.cu.cuStreamCreate(&how.hUploadStream, CU_STREAM_NON_BLOCKING)
                 : result;
    return result == CUDA_SUCCESS ? with(&executable, made, &how) : result;
}
/* A context beside the primary one, with memory in it; it becomes the current one. */
STEP(context) {
    CUresult (*create)(CUcontext *, unsigned, CUdevice);
    CUdeviceptr at;
    *(void **)&create = dlsym(me.cu.library, "cuCtxCreate_v2");
    CUresult result = create(&me.contexts[me.context_count], 0, 0);
    me.context_count += result == CUDA_SUCCESS;
    return result == CUDA_SUCCESS && bytes ? me.cu.cuMemAlloc(&at, bytes) : result;
}
STEP(uncontext) {
    CUresult (*destroy)(CUcontext);
    *(void **)&destroy = dlsym(me.cu.library, "cuCtxDestroy_v2");
    return me.context_count ? destroy(me.contexts[--me.context_count]) : CUDA_SUCCESS;
}
/* The heap of kernels. */
STEP(heap) {
    CUresult (*set)(int, size_t);
    *(void **)&set = dlsym(me.cu.library, "cuCtxSetLimit");
    return set(2, bytes);
}
/* Memory at an address of 32 bits; it is not kept. */
STEP(low) {
    CUresult (*take)(unsigned *, unsigned);
    unsigned at;
    *(void **)&take = dlsym(me.cu.library, "cuMemAlloc");
    return take(&at, (unsigned)bytes);
}
STEP(every) {
    return caller_every();
}
STEP(gates) {
    return caller_gates();
}
STEP(resets) {
    return caller_resets();
}
STEP(calls) {
    caller_print_calls();
    return CUDA_SUCCESS;
}
STEP(torch) {
    return caller_torch(bytes);
}
STEP(bfc) {
    return caller_bfc(bytes);
}
STEP(random) {
    return caller_random(bytes);
}
STEP(pooled) {
    return caller_pooled(bytes);
}
STEP(threads) {
    return caller_threads(bytes);
}
STEP(churn) {
    return caller_churn(bytes);
}
STEP(write) {
    return caller_contents(1);
}
STEP(verify) {
    return caller_contents(0);
}
STEP(range) {
    const CUdeviceptr at = me.plain[me.plain_count - 1];
    CUdeviceptr base = 0;
    size_t size = 0;
    const CUresult result = me.cu.cuMemGetAddressRange(&base, &size, at + 100);
    *number = base == at ? size : 1;
    return result;
}
STEP(type) {
    const CUdeviceptr at = me.plain[me.plain_count - 1];
    int kind = 0, ordinal = -1;
    int which[] = {2, 9};
    void *values[] = {&kind, &ordinal};
    CUresult result = me.cu.cuPointerGetAttribute(&kind, 2, at + 100);
    *number = (uint64_t)kind * 100;
    kind = 0;
    result =
        result == CUDA_SUCCESS ? me.cu.cuPointerGetAttributes(2, which, values, at + 100) : result;
    *number += (uint64_t)kind * 10 + (uint64_t)ordinal; /* 220: a device, twice, and number 0 */
    return result;
}
STEP(pairs) {
    struct timespec from, to;
    CUresult result = CUDA_SUCCESS;
    clock_gettime(CLOCK_MONOTONIC, &from);
    for (uint64_t i = 0; i < bytes && result == CUDA_SUCCESS; i++) {
        CUdeviceptr at = 0;
        result = me.cu.cuMemAllocAsync(&at, 100000, NULL);
        result = result == CUDA_SUCCESS ? me.cu.cuMemFreeAsync(at, NULL) : result;
    }
    clock_gettime(CLOCK_MONOTONIC, &to);
    *number = (uint64_t)((to.tv_sec - from.tv_sec) * 1000000000 + to.tv_nsec - from.tv_nsec) /
              (bytes ? bytes : 1);
    return result;
}
STEP(ipc) {
    CUipcMemHandle handle;
    return me.cu.cuIpcGetMemHandle(&handle, me.plain[me.plain_count - 1]);
}
STEP(export) {
    int fd = -1;
    const CUresult result =
        me.cu.cuMemExportToShareableHandle(&fd, me.mapped[me.mapped_count - 1].handle, 1, 0);
    if (fd >= 0) {
        close(fd);
    }
    return result;
}
STEP(capture) {
    const CUresult result = me.cu.cuStreamCreate(&me.captured_stream, CU_STREAM_NON_BLOCKING);
    return result == CUDA_SUCCESS
               ? me.cu.cuStreamBeginCapture(me.captured_stream, CU_STREAM_CAPTURE_MODE_RELAXED)
               : result;
}
STEP(endcapture) {
    CUgraph made;
    return me.cu.cuStreamEndCapture(me.captured_stream, &made);
}
STEP(release) {
    return me.cu.cuDevicePrimaryCtxRelease(0);
}
STEP(retain) {
    const CUresult result = me.cu.cuDevicePrimaryCtxRetain(&me.context, 0);
    return result == CUDA_SUCCESS ? me.cu.cuCtxSetCurrent(me.context) : result;
}
STEP(array) {
    const CUDA_ARRAY3D_DESCRIPTOR d = {
        .Width = 1024, .Height = bytes / 4096, .Format = 0x20, .NumChannels = 1};
    return me.cu.cuArray3DCreate(&me.arrays[me.array_count++], &d);
}
STEP(unarray) {
    return me.cu.cuArrayDestroy(me.arrays[--me.array_count]);
}
STEP(trim) {
    CUmemoryPool pool;
    const CUresult result = me.cu.cuDeviceGetDefaultMemPool(&pool, 0);
    return result == CUDA_SUCCESS ? me.cu.cuMemPoolTrimTo(pool, 0) : result;
}
STEP(keep) {
    CUmemoryPool pool;
    uint64_t all = UINT64_MAX;
    const CUresult result = me.cu.cuDeviceGetDefaultMemPool(&pool, 0);
    return result == CUDA_SUCCESS ? me.cu.cuMemPoolSetAttribute(pool, 4, &all) : result;
}

/* ---- what is seen ---- */

STEP(info) {
    size_t left = 0, total = 0;
    const CUresult result = me.cu.cuMemGetInfo(&left, &total);
    *number = left;
    return result;
}
STEP(infototal) {
    size_t left = 0, total = 0;
    const CUresult result = me.cu.cuMemGetInfo(&left, &total);
    *number = total;
    return result;
}
STEP(total) {
    size_t total = 0;
    const CUresult result = me.cu.cuDeviceTotalMem(&total, 0);
    *number = total;
    return result;
}

static CUresult counted(const char *name, uint64_t *number) {
    uint64_t (*get)(int, int) = (uint64_t(*)(int, int))dlsym(me.cu.library, name);
    *number = get ? get(0, 0) : 0;
    return CUDA_SUCCESS;
}

STEP(peak) {
    return counted("fakecuda_process_peak", number);
}
STEP(used) {
    return counted("fakecuda_used_bytes", number);
}
STEP(host) {
    return counted("fakecuda_host_bytes", number);
}
STEP(hostpeak) {
    return counted("fakecuda_host_peak", number);
}
STEP(refused) {
    return counted("fakecuda_refused", number);
}
STEP(devicepeak) {
    return counted("fakecuda_peak_bytes", number);
}
STEP(ptsz) {
    int64_t (*calls)(const char *) =
        (int64_t(*)(const char *))dlsym(me.cu.library, "fakecuda_calls");
    *number = calls ? (uint64_t)calls("cuMemAllocAsync_ptsz") : 0;
    return CUDA_SUCCESS;
}

/* ---- time and other processes ---- */

STEP(hold) {
    usleep((useconds_t)bytes * 1000);
    return CUDA_SUCCESS;
}
STEP(wait) {
    for (int i = 0; i < 3000 && access(text, F_OK) != 0; i++) {
        usleep(10000);
    }
    return CUDA_SUCCESS;
}
STEP(touch) {
    close(open(text, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    return CUDA_SUCCESS;
}
/* CUDA is unusable in the child; asking must neither hang nor speak for the parent. */
STEP(fork) {
    const pid_t child = fork();
    if (child == 0) {
        _exit(me.cu.cuMemAlloc(&me.plain[0], 1 << 20) == CUDA_ERROR_NOT_INITIALIZED ? 0 : 1);
    }
    int status = 1;
    waitpid(child, &status, 0);
    *number = (uint64_t)status;
    return CUDA_SUCCESS;
}

/* ---- the list ---- */

static const struct {
    const char *name;
    CUresult (*run)(uint64_t, const char *, uint64_t *);
} steps[] = {
#define ROW(NAME)                                                                                  \
    { #NAME, step_##NAME }
    ROW(alloc),    ROW(free),      ROW(pitch),      ROW(managed), ROW(async),    ROW(unasync),
    ROW(sync),     ROW(vmm),       ROW(xla),        ROW(unvmm),   ROW(nccl),     ROW(numa),
    ROW(graph),    ROW(graphtrim), ROW(fill),       ROW(module),  ROW(unmodule), ROW(node),
    ROW(upload),   ROW(context),   ROW(uncontext),  ROW(heap),    ROW(low),      ROW(every),
    ROW(gates),    ROW(resets),    ROW(calls),      ROW(torch),   ROW(bfc),      ROW(random),
    ROW(pooled),   ROW(threads),   ROW(churn),      ROW(write),   ROW(verify),   ROW(range),
    ROW(type),     ROW(pairs),     ROW(ipc),        ROW(export),  ROW(capture),  ROW(endcapture),
    ROW(release),  ROW(retain),    ROW(array),      ROW(unarray), ROW(trim),     ROW(keep),
    ROW(info),     ROW(infototal), ROW(total),      ROW(peak),    ROW(used),     ROW(host),
    ROW(hostpeak), ROW(refused),   ROW(devicepeak), ROW(ptsz),    ROW(hold),     ROW(wait),
    ROW(touch),    ROW(fork),
#undef ROW
};

CUresult caller_step(const char *name, const char *value, uint64_t *number) {
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        if (!strcmp(name, steps[i].name)) {
            return steps[i].run(value ? bytes_of(value) : 0, value ? value : "", number);
        }
    }
    return CUDA_ERROR_NOT_FOUND;
}
