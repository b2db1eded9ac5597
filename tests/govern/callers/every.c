/* Every function that has a hook, by name, once at least; see steps.h.  Whatever is taken here is given back, but for what a test
 * wants to see die. */
#include "steps.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Calls NAME where the driver has it; the first failure stays in RESULT. */
#define BY_NAME(RESULT, NAME, PARAMETERS, ...)                                                     \
    do {                                                                                           \
        CUresult(*call) PARAMETERS = (CUresult(*) PARAMETERS)dlsym(me.cu.library, NAME);           \
        errno = 77;                                                                                \
        const CUresult got = call && RESULT == CUDA_SUCCESS ? call(__VA_ARGS__) : CUDA_SUCCESS;    \
        if (errno != 77) {                                                                         \
            printf("errno %d by %s\n", errno, NAME);                                               \
        }                                                                                          \
        if (got != CUDA_SUCCESS) {                                                                 \
            printf("%s gave %d\n", NAME, (int)got);                                                \
            RESULT = got;                                                                          \
        }                                                                                          \
    } while (0)

static int has(const char *name) {
    return dlsym(me.cu.library, name) != NULL;
}

/* ---- lookups ---- */

static CUresult lookups(void) {
    void *found = NULL;
    int whether = 0;
    CUresult r = CUDA_SUCCESS;
    BY_NAME(r, "cuGetProcAddress", (const char *, void **, int, unsigned long long), "cuInit",
            &found, 11040, 0);
    BY_NAME(r, "cuGetProcAddress_ptsz", (const char *, void **, int, unsigned long long), "cuInit",
            &found, 11040, 0);
    BY_NAME(r, "cuGetProcAddress_v2", (const char *, void **, int, unsigned long long, int *),
            "cuInit", &found, 12020, 0, &whether);
    BY_NAME(r, "cuGetProcAddress_v2_ptsz", (const char *, void **, int, unsigned long long, int *),
            "cuInit", &found, 12020, 0, &whether);
    return r;
}

static CUresult nvml(void) {
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    nvmlReturn_t (*init)(void), (*stop)(void);
    nvmlReturn_t (*device_of)(unsigned int, nvmlDevice_t *);
    nvmlReturn_t (*info)(nvmlDevice_t, nvmlMemory_t *), (*info2)(nvmlDevice_t, nvmlMemory_v2_t *);
    if (!library) {
        return CUDA_SUCCESS;
    }
    *(void **)&init = dlsym(library, "nvmlInit_v2");
    *(void **)&stop = dlsym(library, "nvmlShutdown");
    *(void **)&device_of = dlsym(library, "nvmlDeviceGetHandleByIndex_v2");
    *(void **)&info = dlsym(library, "nvmlDeviceGetMemoryInfo");
    *(void **)&info2 = dlsym(library, "nvmlDeviceGetMemoryInfo_v2");
    nvmlDevice_t device;
    nvmlMemory_t memory;
    nvmlMemory_v2_t memory2 = {.version = sizeof memory2 | 2u << 24};
    const int failed = init() || device_of(0, &device) || info(device, &memory) ||
                       info2(device, &memory2) || memory.total != memory2.total || stop();
    return failed ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

/* ---- contexts ---- */

/* In a context of its own: memory and an array, which die with it. */
static CUresult inside(CUresult r) {
    const CUDA_ARRAY_DESCRIPTOR flat = {
        .Width = 256, .Height = 256, .Format = 0x20, .NumChannels = 1};
    CUdeviceptr at = 0;
    CUarray array = NULL;
    r = r == CUDA_SUCCESS ? me.cu.cuMemAlloc(&at, 5 << 20) : r;
    BY_NAME(r, "cuArrayCreate_v2", (CUarray *, const CUDA_ARRAY_DESCRIPTOR *), &array, &flat);
    return r;
}

static CUresult contexts(void) {
    CUcontext made = NULL;
    CUresult r = CUDA_SUCCESS;
    BY_NAME(r, "cuCtxCreate", (CUcontext *, unsigned, CUdevice), &made, 0, 0);
    r = inside(r);
    BY_NAME(r, "cuCtxDestroy", (CUcontext), made);
    BY_NAME(r, "cuCtxCreate_v2", (CUcontext *, unsigned, CUdevice), &made, 0, 0);
    r = inside(r);
    BY_NAME(r, "cuCtxDestroy_v2", (CUcontext), made);
    BY_NAME(r, "cuCtxCreate_v3", (CUcontext *, void *, int, unsigned, CUdevice), &made, NULL, 0, 0,
            0);
    BY_NAME(r, "cuCtxDestroy_v2", (CUcontext), made);
    if (has("cuCtxCreate_v4")) {
        BY_NAME(r, "cuCtxCreate_v4", (CUcontext *, void *, unsigned, CUdevice), &made, NULL, 0, 0);
        BY_NAME(r, "cuCtxDestroy_v2", (CUcontext), made);
    }
    char resource[256] = {0};
    void *description = NULL;
    CUgreenCtx green = NULL;
    BY_NAME(r, "cuDeviceGetDevResource", (CUdevice, void *, int), 0, resource, 1);
    BY_NAME(r, "cuDevResourceGenerateDesc", (void **, void *, unsigned), &description, resource, 1);
    BY_NAME(r, "cuGreenCtxCreate", (CUgreenCtx *, void *, CUdevice, unsigned), &green, description,
            0, 1);
    BY_NAME(r, "cuGreenCtxDestroy", (CUgreenCtx), green);
    BY_NAME(r, "cuCtxSetLimit", (int, size_t), 2, 16 << 20);
    BY_NAME(r, "cuCtxSetLimit", (int, size_t), 2, 8 << 20);
    return r;
}

CUresult caller_resets(void) {
    CUresult r = CUDA_SUCCESS;
    BY_NAME(r, "cuDevicePrimaryCtxReset", (CUdevice), 0);
    me.plain_count = me.array_count = me.cached_count = me.module_count = 0;
    r = r == CUDA_SUCCESS ? me.cu.cuDevicePrimaryCtxRetain(&me.context, 0) : r;
    r = r == CUDA_SUCCESS ? me.cu.cuCtxSetCurrent(me.context) : r;
    BY_NAME(r, "cuDevicePrimaryCtxReset_v2", (CUdevice), 0);
    for (int i = 0; i < 2 && r == CUDA_SUCCESS; i++) {
        r = me.cu.cuDevicePrimaryCtxRetain(&me.context, 0);
    }
    r = r == CUDA_SUCCESS ? me.cu.cuCtxSetCurrent(me.context) : r;
    BY_NAME(r, "cuDevicePrimaryCtxRelease", (CUdevice), 0);
    return r;
}

/* ---- plain memory and arrays ---- */

static CUresult plain_memory(void) {
    const CUDA_ARRAY_DESCRIPTOR flat = {
        .Width = 256, .Height = 256, .Format = 0x20, .NumChannels = 1};
    const CUDA_ARRAY3D_DESCRIPTOR deep = {
        .Width = 256, .Height = 256, .Format = 0x20, .NumChannels = 1};
    CUarray array = NULL;
    CUmipmappedArray levels = NULL;
    CUdeviceptr at = 0;
    CUipcMemHandle handle;
    unsigned int low = 0;
    int kinds[] = {2}, kind = 0;
    void *values[] = {&kind};
    CUresult r = CUDA_SUCCESS;
    BY_NAME(r, "cuMemAlloc", (unsigned *, unsigned), &low, 3 << 20);
    BY_NAME(r, "cuMemFree", (unsigned), low);
    BY_NAME(r, "cuArrayCreate_v2", (CUarray *, const CUDA_ARRAY_DESCRIPTOR *), &array, &flat);
    BY_NAME(r, "cuArrayDestroy", (CUarray), array);
    BY_NAME(r, "cuMipmappedArrayCreate",
            (CUmipmappedArray *, const CUDA_ARRAY3D_DESCRIPTOR *, unsigned), &levels, &deep, 3);
    BY_NAME(r, "cuMipmappedArrayDestroy", (CUmipmappedArray), levels);
    r = r == CUDA_SUCCESS ? caller_alloc(3 << 20) : r;
    r = r == CUDA_SUCCESS ? me.cu.cuIpcGetMemHandle(&handle, me.plain[me.plain_count - 1]) : r;
    BY_NAME(r, "cuIpcOpenMemHandle_v2", (CUdeviceptr *, CUipcMemHandle, unsigned), &at, handle, 1);
    BY_NAME(r, "cuIpcCloseMemHandle", (CUdeviceptr), at);
    BY_NAME(r, "cuPointerGetAttributes", (unsigned, int *, void **, CUdeviceptr), 1, kinds, values,
            me.plain[me.plain_count - 1]);
    return r;
}

/* ---- between processes ---- */

static CUresult shared(void) {
    const CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                  .handleTypes = (CUmemAllocationHandleType)1,
                                  .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    const CUmulticastObjectProp group = {.numDevices = 1, .size = CALLER_PAGE};
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUmemGenericAllocationHandle again = 0, object = 0;
    CUmemoryPool pool = NULL, imported = NULL;
    CUexternalMemory memory = NULL;
    size_t unit = 0;
    int fd = -1, pool_fd = -1;
    CUresult r = CUDA_SUCCESS;
    BY_NAME(r, "cuMemGetAllocationGranularity", (size_t *, const CUmemAllocationProp *, int), &unit,
            &prop, 0);
    r = r == CUDA_SUCCESS ? caller_map(CALLER_PAGE, 1) : r;
    const CUmemGenericAllocationHandle own =
        me.mapped_count ? me.mapped[me.mapped_count - 1].handle : 0;
    BY_NAME(r, "cuMemGetAllocationPropertiesFromHandle",
            (CUmemAllocationProp *, CUmemGenericAllocationHandle), &prop, own);
    BY_NAME(r, "cuMemExportToShareableHandle",
            (void *, CUmemGenericAllocationHandle, int, unsigned long long), &fd, own, 1, 0);
    BY_NAME(r, "cuMemImportFromShareableHandle", (CUmemGenericAllocationHandle *, void *, int),
            &again, (void *)(intptr_t)fd, 1);
    r = r == CUDA_SUCCESS ? me.cu.cuMemRelease(again) : r;
    if (has("cuMulticastCreate")) {
        BY_NAME(r, "cuMulticastCreate",
                (CUmemGenericAllocationHandle *, const CUmulticastObjectProp *), &object, &group);
        BY_NAME(r, "cuMulticastBindMem",
                (CUmemGenericAllocationHandle, size_t, CUmemGenericAllocationHandle, size_t, size_t,
                 unsigned long long),
                object, 0, own, 0, CALLER_PAGE, 0);
        r = r == CUDA_SUCCESS ? me.cu.cuMemRelease(object) : r;
    }
    BY_NAME(r, "cuMemPoolCreate", (CUmemoryPool *, const CUmemPoolProps *), &pool, &props);
    BY_NAME(r, "cuMemPoolExportToShareableHandle", (void *, CUmemoryPool, int, unsigned long long),
            &pool_fd, pool, 1, 0);
    BY_NAME(r, "cuMemPoolImportFromShareableHandle",
            (CUmemoryPool *, void *, int, unsigned long long), &imported, (void *)(intptr_t)pool_fd,
            1, 0);
    BY_NAME(r, "cuMemPoolDestroy", (CUmemoryPool), imported);
    BY_NAME(r, "cuMemPoolDestroy", (CUmemoryPool), pool);
    close(pool_fd);
    CUDA_EXTERNAL_MEMORY_HANDLE_DESC d = {.type = 1, .handle = {.fd = fd}, .size = CALLER_PAGE};
    BY_NAME(r, "cuImportExternalMemory",
            (CUexternalMemory *, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *), &memory, &d);
    BY_NAME(r, "cuDestroyExternalMemory", (CUexternalMemory), memory);
    return r == CUDA_SUCCESS ? caller_unmap(0) : r;
}

/* ---- pools ---- */

static CUresult pools(void) {
    const CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                  .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUmemLocation here = props.location;
    CUmemoryPool pool = NULL;
    CUdeviceptr at = 0, more = 0, third = 0;
    CUresult r = CUDA_SUCCESS;
    BY_NAME(r, "cuMemPoolCreate", (CUmemoryPool *, const CUmemPoolProps *), &pool, &props);
    BY_NAME(r, "cuDeviceSetMemPool", (CUdevice, CUmemoryPool), 0, pool);
    BY_NAME(r, "cuMemSetMemPool", (CUmemLocation *, int, CUmemoryPool), &here, 1, pool);
    BY_NAME(r, "cuMemAllocAsync_ptsz", (CUdeviceptr *, size_t, CUstream), &at, 5 << 20, NULL);
    BY_NAME(r, "cuMemAllocFromPoolAsync", (CUdeviceptr *, size_t, CUmemoryPool, CUstream), &more,
            5 << 20, pool, NULL);
    BY_NAME(r, "cuMemAllocFromPoolAsync_ptsz", (CUdeviceptr *, size_t, CUmemoryPool, CUstream),
            &third, 5 << 20, pool, NULL);
    BY_NAME(r, "cuMemFreeAsync_ptsz", (CUdeviceptr, CUstream), at, NULL);
    BY_NAME(r, "cuMemFreeAsync_ptsz", (CUdeviceptr, CUstream), more, NULL);
    BY_NAME(r, "cuMemFreeAsync", (CUdeviceptr, CUstream), third, NULL);
    BY_NAME(r, "cuMemPoolDestroy", (CUmemoryPool), pool);
    return r;
}

/* ---- graphs ---- */

enum { UPLOAD = 2 };

static CUresult build(CUgraph *out) {
    CUDA_MEM_ALLOC_NODE_PARAMS p = {
        .poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}},
        .bytesize = 3 << 20};
    CUgraphNodeParams any = {.type = 10, .alloc = p};
    CUgraphNode node = NULL;
    CUresult r = me.cu.cuGraphCreate(out, 0);
    BY_NAME(r, "cuGraphAddMemAllocNode",
            (CUgraphNode *, CUgraph, const CUgraphNode *, size_t, CUDA_MEM_ALLOC_NODE_PARAMS *),
            &node, *out, NULL, 0, &p);
    BY_NAME(r, "cuGraphAddNode",
            (CUgraphNode *, CUgraph, const CUgraphNode *, size_t, CUgraphNodeParams *), &node, *out,
            NULL, 0, &any);
    BY_NAME(
        r, "cuGraphAddNode_v2",
        (CUgraphNode *, CUgraph, const CUgraphNode *, const void *, size_t, CUgraphNodeParams *),
        &node, *out, NULL, NULL, 0, &any);
    return r;
}

/* Six ways to begin a capture, two to end one. */
static CUresult captures(CUstream stream, CUgraph into) {
    CUgraph made = NULL;
    CUresult r = CUDA_SUCCESS;
    BY_NAME(r, "cuStreamBeginCapture", (CUstream), stream);
    BY_NAME(r, "cuStreamEndCapture", (CUstream, CUgraph *), stream, &made);
    BY_NAME(r, "cuStreamBeginCapture_ptsz", (CUstream), stream);
    BY_NAME(r, "cuStreamEndCapture_ptsz", (CUstream, CUgraph *), stream, &made);
    BY_NAME(r, "cuStreamBeginCapture_v2", (CUstream, int), stream, 2);
    BY_NAME(r, "cuStreamEndCapture", (CUstream, CUgraph *), stream, &made);
    BY_NAME(r, "cuStreamBeginCapture_v2_ptsz", (CUstream, int), stream, 2);
    BY_NAME(r, "cuStreamEndCapture_ptsz", (CUstream, CUgraph *), stream, &made);
    if (has("cuStreamBeginCaptureToGraph")) {
        BY_NAME(r, "cuStreamBeginCaptureToGraph",
                (CUstream, CUgraph, const CUgraphNode *, const void *, size_t, int), stream, into,
                NULL, NULL, 0, 2);
        BY_NAME(r, "cuStreamEndCapture", (CUstream, CUgraph *), stream, &made);
        BY_NAME(r, "cuStreamBeginCaptureToGraph_ptsz",
                (CUstream, CUgraph, const CUgraphNode *, const void *, size_t, int), stream, into,
                NULL, NULL, 0, 2);
        BY_NAME(r, "cuStreamEndCapture", (CUstream, CUgraph *), stream, &made);
    }
    return r;
}

static CUresult graphs(void) {
    CUgraph made = NULL;
    CUgraphExec e[5] = {NULL};
    CUstream stream = NULL;
    CUevent event = NULL;
    CUresult r = me.cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
    r = r == CUDA_SUCCESS ? build(&made) : r;
    r = r == CUDA_SUCCESS ? captures(stream, made) : r;
    BY_NAME(r, "cuGraphInstantiate", (CUgraphExec *, CUgraph, CUgraphNode *, char *, size_t), &e[0],
            made, NULL, NULL, 0);
    BY_NAME(r, "cuGraphInstantiate_v2", (CUgraphExec *, CUgraph, CUgraphNode *, char *, size_t),
            &e[1], made, NULL, NULL, 0);
    r = r == CUDA_SUCCESS ? me.cu.cuGraphInstantiateWithFlags(&e[2], made, 0) : r;
    CUDA_GRAPH_INSTANTIATE_PARAMS p = {.flags = UPLOAD, .hUploadStream = stream};
    BY_NAME(r, "cuGraphInstantiateWithParams",
            (CUgraphExec *, CUgraph, CUDA_GRAPH_INSTANTIATE_PARAMS *), &e[3], made, &p);
    BY_NAME(r, "cuGraphInstantiateWithParams_ptsz",
            (CUgraphExec *, CUgraph, CUDA_GRAPH_INSTANTIATE_PARAMS *), &e[4], made, &p);
    BY_NAME(r, "cuGraphUpload", (CUgraphExec, CUstream), e[0], stream);
    BY_NAME(r, "cuGraphUpload_ptsz", (CUgraphExec, CUstream), e[1], stream);
    BY_NAME(r, "cuGraphLaunch", (CUgraphExec, CUstream), e[0], stream);
    BY_NAME(r, "cuGraphLaunch_ptsz", (CUgraphExec, CUstream), e[2], stream);
    BY_NAME(r, "cuEventCreate", (CUevent *, unsigned), &event, 0);
    BY_NAME(r, "cuEventRecord", (CUevent, CUstream), event, stream);
    BY_NAME(r, "cuEventSynchronize", (CUevent), event);
    BY_NAME(r, "cuStreamSynchronize", (CUstream), stream);
    BY_NAME(r, "cuStreamSynchronize_ptsz", (CUstream), stream);
    for (int i = 0; i < 5; i++) {
        if (e[i]) {
            BY_NAME(r, "cuGraphExecDestroy", (CUgraphExec), e[i]);
        }
    }
    BY_NAME(r, "cuGraphDestroy", (CUgraph), made);
    return r == CUDA_SUCCESS ? me.cu.cuDeviceGraphMemTrim(0) : r;
}

/* ---- code ---- */

enum { CODE_BYTES = 1 << 20 };

/* An image that the fake driver takes for code: a kernel k and a variable g. */
static char *new_code(void) {
    static const char names[] = ".text.k\0.global.g";
    const uint64_t bytes = CODE_BYTES;
    char *image = calloc(1, bytes + 16);
    memcpy(image, "fakestub", 8);
    memcpy(image + 8, &bytes, sizeof bytes);
    memcpy(image + 16, names, sizeof names);
    return image;
}

static CUresult modules(const char *code, const char *file) {
    CUmodule m[4] = {NULL};
    CUfunction function = NULL;
    CUdeviceptr at = 0;
    size_t bytes = 0;
    CUresult r = me.cu.cuModuleLoadData(&m[0], code);
    BY_NAME(r, "cuModuleLoadDataEx", (CUmodule *, const void *, unsigned, void *, void **), &m[1],
            code, 0, NULL, NULL);
    BY_NAME(r, "cuModuleLoadFatBinary", (CUmodule *, const void *), &m[2], code);
    BY_NAME(r, "cuModuleLoad", (CUmodule *, const char *), &m[3], file);
    BY_NAME(r, "cuModuleGetFunction", (CUfunction *, CUmodule, const char *), &function, m[0], "k");
    BY_NAME(r, "cuModuleGetGlobal_v2", (CUdeviceptr *, size_t *, CUmodule, const char *), &at,
            &bytes, m[0], "g");
    BY_NAME(r, "cuFuncLoad", (CUfunction), function);
    for (int i = 0; i < 4 && r == CUDA_SUCCESS; i++) {
        r = me.cu.cuModuleUnload(m[i]);
    }
    return r;
}

static CUresult libraries(const char *code, const char *file) {
    CUlibrary l[2] = {NULL};
    CUkernel kernel = NULL;
    CUmodule module = NULL;
    CUfunction function = NULL;
    CUdeviceptr at = 0;
    size_t bytes = 0;
    CUresult r = CUDA_SUCCESS;
    if (!has("cuLibraryLoadData")) {
        return r;
    }
    BY_NAME(r, "cuLibraryLoadData",
            (CUlibrary *, const void *, void *, void **, unsigned, void *, void **, unsigned),
            &l[0], code, NULL, NULL, 0, NULL, NULL, 0);
    BY_NAME(r, "cuLibraryLoadFromFile",
            (CUlibrary *, const char *, void *, void **, unsigned, void *, void **, unsigned),
            &l[1], file, NULL, NULL, 0, NULL, NULL, 0);
    BY_NAME(r, "cuLibraryGetKernel", (CUkernel *, CUlibrary, const char *), &kernel, l[0], "k");
    BY_NAME(r, "cuLibraryGetModule", (CUmodule *, CUlibrary), &module, l[1]);
    BY_NAME(r, "cuLibraryGetGlobal", (CUdeviceptr *, size_t *, CUlibrary, const char *), &at,
            &bytes, l[0], "g");
    BY_NAME(r, "cuKernelGetFunction", (CUfunction *, CUkernel), &function, kernel);
    BY_NAME(r, "cuLibraryUnload", (CUlibrary), l[0]);
    BY_NAME(r, "cuLibraryUnload", (CUlibrary), l[1]);
    return r;
}

static CUresult code(void) {
    char *image = new_code();
    char file[] = "/tmp/headroom-code-XXXXXX";
    const int fd = mkstemp(file);
    CUresult r = image && fd >= 0 && write(fd, image, CODE_BYTES + 16) == CODE_BYTES + 16
                     ? CUDA_SUCCESS
                     : CUDA_ERROR_UNKNOWN;
    close(fd);
    r = r == CUDA_SUCCESS ? modules(image, file) : r;
    r = r == CUDA_SUCCESS ? libraries(image, file) : r;
    unlink(file);
    free(image);
    return r;
}

CUresult caller_every(void) {
    static CUresult (*const groups[])(void) = {lookups, nvml,  contexts, plain_memory,
                                               shared,  pools, graphs,   code};
    CUresult r = CUDA_SUCCESS;
    for (size_t i = 0; i < sizeof groups / sizeof *groups && r == CUDA_SUCCESS; i++) {
        r = groups[i]();
    }
    errno = 77; /* of each call it was looked at */
    return r;
}

/* ---- the lists of the interposer itself ---- */

typedef struct hook {
    const char *name;
    int spill; /* only with --spill */
} hook;

static const hook hooks[] = {
#define HRI_HOOK(NAME, PARAMETERS)            {#NAME, 0},
#define HRI_NVML_HOOK(NAME, PARAMETERS)       {#NAME, 0},
#define HRI_SPILL_HOOK(NAME, PARAMETERS)      {#NAME, 1},
#define HRI_GATE(NAME, PARAMETERS, ARGUMENTS) {#NAME, 1},
#include "interpose/hooks.def"
#include "interpose/gates.def"
#undef HRI_HOOK
#undef HRI_NVML_HOOK
#undef HRI_SPILL_HOOK
#undef HRI_GATE
};

/* All of them take integers and pointers: noughts in every place are the same for each. */
typedef CUresult any_fn(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                        uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);

CUresult caller_gates(void) {
    static const char *const gates[] = {
#define HRI_GATE(NAME, PARAMETERS, ARGUMENTS) #NAME,
#include "interpose/gates.def"
#undef HRI_GATE
    };
    for (size_t i = 0; i < sizeof gates / sizeof *gates; i++) {
        any_fn *call = (any_fn *)dlsym(me.cu.library, gates[i]);
        const CUresult got = call ? call(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0) : CUDA_SUCCESS;
        if (got != CUDA_SUCCESS && got != CUDA_ERROR_INVALID_VALUE &&
            got != CUDA_ERROR_INVALID_HANDLE) {
            printf("%s gave %d\n", gates[i], (int)got);
            return got;
        }
    }
    return CUDA_SUCCESS;
}

void caller_print_calls(void) {
    void *smi = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    for (size_t i = 0; i < sizeof hooks / sizeof *hooks; i++) {
        void *library = strncmp(hooks[i].name, "nvml", 4) ? me.cu.library : smi;
        int64_t (*calls)(const char *) = (int64_t(*)(const char *))dlsym(library, "fakecuda_calls");
        void *address = dlsym(library, hooks[i].name);
        Dl_info where = {0};
        const int found = address && dladdr(address, &where) && where.dli_fname;
        printf("called %s %lld %s %s\n", hooks[i].name,
               calls ? (long long)calls(hooks[i].name) : -1, hooks[i].spill ? "spill" : "plain",
               found && strstr(where.dli_fname, "libheadroom-run") ? "hooked"
               : found                                             ? where.dli_fname
                                                                   : "missing");
    }
}
