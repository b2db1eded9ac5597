/* A program of somebody else's: caller WAY STEP...  finds the driver in one of the ways of programs (caller.h), and does the
 * steps, each of which prints "STEP RESULT" and, where there is one, a number.
 *
 *   alloc:SIZE free pitch:SIZE managed:SIZE array:SIZE unarray async:SIZE unasync trim sync
 *   vmm:SIZE unvmm nccl (retain, release, unmap, release) numa:SIZE (host memory, no context needed) graph:SIZE graphtrim
 *   info total peak (of the process, as the driver counts) used hold:MS wait:FILE touch:FILE release fork
 *   torch:SIZE (caches what it frees; on refusal frees the cache and asks again)  bfc:SIZE (grows by doubling, then halves)
 *   xla:SIZE (VMM with the properties that XLA sets)  random:N (N steps of all kinds from the seed in CALLER_SEED)
 *   threads:N (N threads that take and give)
 *   write verify (a pattern in everything plain and mapped)  host hostpeak (bytes of the host, as the driver counts)
 *   rest (every hooked function that no other step comes to)  calls (how often each was called, as the driver counts)
 *   fill:SIZE (the driver takes memory by itself)  module:SIZE (code of that size is loaded)  unmodule
 *   node:SIZE (a graph built by hand, with one allocation, launched)
 *   pooled:N (N times taken from a pool or given back in another order, sizes from 512 bytes to 60 MiB: a pool in pieces)
 *   pairs:N (N times taken from a pool and given back: nanoseconds each)
 *   type range ipc (of the newest plain memory)  export (of the newest mapped)  capture endcapture  churn:N (N copies by
 *   another thread, all the time, while this one waits for the GPU)
 * free, unasync and the like take the newest; without one they do nothing. */
#include "caller.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 4096, PAGE = 2 << 20 };

typedef struct vmm {
    CUdeviceptr at;
    uint64_t bytes;
    CUmemGenericAllocationHandle handle;
} vmm;

static caller_driver cu;
static CUcontext context;
static uint64_t plain_bytes[MOST];
static CUdeviceptr plain[MOST], pooled[MOST], cached[MOST];
static CUarray arrays[MOST];
static vmm mapped[MOST];
static int plain_count, pooled_count, array_count, mapped_count, cached_count;
static CUstream captured_stream;
static uint64_t seed = 1;

static uint64_t chance(void) {
    uint64_t z = (seed += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static uint64_t bytes_of(const char *text) {
    char *end;
    const double number = strtod(text, &end);
    return (uint64_t)(number * (*end == 'G'   ? 1 << 30
                                : *end == 'M' ? 1 << 20
                                : *end == 'K' ? 1024
                                              : 1));
}

static uint64_t counted(const char *name) {
    uint64_t (*get)(int) = (uint64_t(*)(int))dlsym(cu.library, name);
    return get ? get(0) : 0;
}

/* ---- steps ---- */

static CUresult alloc(uint64_t bytes) {
    CUdeviceptr at = 0;
    const CUresult result = cu.cuMemAlloc(&at, bytes);
    if (result == CUDA_SUCCESS) {
        plain_bytes[plain_count] = bytes;
        plain[plain_count++] = at;
    }
    return result;
}

static CUresult async(uint64_t bytes) {
    CUdeviceptr at = 0;
    const CUresult result = cu.cuMemAllocAsync(&at, bytes, NULL);
    if (result == CUDA_SUCCESS) {
        pooled[pooled_count++] = at;
    }
    return result;
}

/* As XLA and PyTorch's expandable segments do it; `xla` with the properties of the former. */
static CUresult map(uint64_t bytes, int xla) {
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    vmm v = {.bytes = (bytes + PAGE - 1) / PAGE * PAGE};
    if (xla) {
        prop.requestedHandleTypes = (CUmemAllocationHandleType)1; /* a file descriptor */
        prop.allocFlags.gpuDirectRDMACapable = 1;
    }
    CUresult result = cu.cuMemCreate(&v.handle, v.bytes, &prop, 0);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    const CUmemAccessDesc access = {.location = prop.location,
                                    .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    result = cu.cuMemAddressReserve(&v.at, v.bytes, 0, 0, 0);
    result = result == CUDA_SUCCESS ? cu.cuMemMap(v.at, v.bytes, 0, v.handle, 0) : result;
    result = result == CUDA_SUCCESS ? cu.cuMemSetAccess(v.at, v.bytes, &access, 1) : result;
    mapped[mapped_count++] = v;
    return result;
}

static CUresult unmap(int retained_first) {
    vmm v = mapped[--mapped_count];
    CUmemGenericAllocationHandle again = 0;
    CUresult result = CUDA_SUCCESS;
    if (retained_first) { /* NCCL: retain, release, unmap, release */
        result = cu.cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)v.at);
        result = result == CUDA_SUCCESS ? cu.cuMemRelease(v.handle) : result;
        result = result == CUDA_SUCCESS ? cu.cuMemUnmap(v.at, v.bytes) : result;
        result = result == CUDA_SUCCESS ? cu.cuMemRelease(again) : result;
    } else { /* XLA: release at once, the mapping keeps it */
        result = cu.cuMemRelease(v.handle);
        result = result == CUDA_SUCCESS ? cu.cuMemUnmap(v.at, v.bytes) : result;
    }
    return result == CUDA_SUCCESS ? cu.cuMemAddressFree(v.at, v.bytes) : result;
}

static CUresult numa(uint64_t bytes) {
    const CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .location = {.type = (CUmemLocationType)3}};
    CUmemGenericAllocationHandle handle;
    const CUresult result = cu.cuMemCreate(&handle, bytes, &prop, 0);
    return result == CUDA_SUCCESS ? cu.cuMemRelease(handle) : result;
}

static CUmodule modules[16];
static int module_count;

static CUresult load_module(uint64_t bytes) {
    char *image = calloc(1, bytes + 16);
    memcpy(image, "fakestub", 8); /* FAKE_STUB */
    memcpy(image + 8, &bytes, sizeof bytes);
    const CUresult result = cu.cuModuleLoadData(&modules[module_count], image);
    module_count += result == CUDA_SUCCESS;
    free(image);
    return result;
}

static CUresult graph(uint64_t bytes) {
    CUstream stream;
    CUgraph captured;
    CUgraphExec executable;
    CUdeviceptr at = 0;
    CUresult result = cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
    result = result == CUDA_SUCCESS
                 ? cu.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED)
                 : result;
    result = result == CUDA_SUCCESS ? cu.cuMemAllocAsync(&at, bytes, stream) : result;
    result = result == CUDA_SUCCESS ? cu.cuMemFreeAsync(at, stream) : result;
    result = result == CUDA_SUCCESS ? cu.cuStreamEndCapture(stream, &captured) : result;
    result =
        result == CUDA_SUCCESS ? cu.cuGraphInstantiateWithFlags(&executable, captured, 0) : result;
    return result == CUDA_SUCCESS ? cu.cuGraphLaunch(executable, stream) : result;
}

/* The hooked functions that no other step comes to, once each, by name. */
#define BY_NAME(RESULT, NAME, PARAMETERS, ...)                                                     \
    do {                                                                                           \
        CUresult(*call) PARAMETERS = (CUresult(*) PARAMETERS)dlsym(cu.library, NAME);              \
        const CUresult got = call ? call(__VA_ARGS__) : CUDA_SUCCESS;                              \
        RESULT = RESULT == CUDA_SUCCESS ? got : RESULT;                                            \
    } while (0)

static CUresult rest_of_pools(void) {
    const CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                  .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUmemoryPool pool = NULL;
    CUdeviceptr at = 0, more = 0, third = 0;
    CUresult r = CUDA_SUCCESS;
    BY_NAME(r, "cuMemPoolCreate", (CUmemoryPool *, const CUmemPoolProps *), &pool, &props);
    BY_NAME(r, "cuDeviceSetMemPool", (CUdevice, CUmemoryPool), 0, pool);
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

static CUresult rest_of_graphs(void) {
    CUDA_MEM_ALLOC_NODE_PARAMS p = {
        .poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}},
        .bytesize = 3 << 20};
    CUgraphNodeParams any = {.type = 10, .alloc = p};
    CUgraph made = NULL;
    CUgraphNode node = NULL;
    CUgraphExec executable = NULL;
    CUstream stream = NULL;
    CUresult r = cu.cuGraphCreate(&made, 0);
    BY_NAME(r, "cuGraphAddMemAllocNode",
            (CUgraphNode *, CUgraph, const CUgraphNode *, size_t, CUDA_MEM_ALLOC_NODE_PARAMS *),
            &node, made, NULL, 0, &p);
    BY_NAME(
        r, "cuGraphAddNode_v2",
        (CUgraphNode *, CUgraph, const CUgraphNode *, const void *, size_t, CUgraphNodeParams *),
        &node, made, NULL, NULL, 0, &any);
    r = r == CUDA_SUCCESS ? cu.cuGraphInstantiateWithFlags(&executable, made, 0) : r;
    r = r == CUDA_SUCCESS ? cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) : r;
    BY_NAME(r, "cuGraphUpload", (CUgraphExec, CUstream), executable, stream);
    r = r == CUDA_SUCCESS ? cu.cuStreamSynchronize(stream) : r;
    BY_NAME(r, "cuGraphExecDestroy", (CUgraphExec), executable);
    return r;
}

static CUresult rest(void) {
    const CUDA_ARRAY_DESCRIPTOR flat = {
        .Width = 256, .Height = 256, .Format = 0x20, .NumChannels = 1};
    const CUDA_ARRAY3D_DESCRIPTOR deep = {
        .Width = 256, .Height = 256, .Format = 0x20, .NumChannels = 1};
    const CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUarray array = NULL;
    CUmipmappedArray levels = NULL;
    CUdeviceptr at = 0;
    CUipcMemHandle handle;
    CUfunction function = NULL;
    size_t unit = 0;
    void *found = NULL;
    int fd = -1, kinds[] = {2}, kind = 0, whether = 0;
    void *values[] = {&kind};
    CUresult r = rest_of_pools(), ignored = CUDA_SUCCESS;
    r = r == CUDA_SUCCESS ? rest_of_graphs() : r;
    BY_NAME(r, "cuArrayCreate_v2", (CUarray *, const CUDA_ARRAY_DESCRIPTOR *), &array, &flat);
    BY_NAME(r, "cuArrayDestroy", (CUarray), array);
    BY_NAME(r, "cuMipmappedArrayCreate",
            (CUmipmappedArray *, const CUDA_ARRAY3D_DESCRIPTOR *, unsigned), &levels, &deep, 3);
    BY_NAME(r, "cuMipmappedArrayDestroy", (CUmipmappedArray), levels);
    r = r == CUDA_SUCCESS ? alloc(3 << 20) : r;
    r = r == CUDA_SUCCESS ? cu.cuIpcGetMemHandle(&handle, plain[plain_count - 1]) : r;
    BY_NAME(r, "cuIpcOpenMemHandle_v2", (CUdeviceptr *, CUipcMemHandle, unsigned), &at, handle, 1);
    BY_NAME(r, "cuIpcCloseMemHandle", (CUdeviceptr), at);
    BY_NAME(r, "cuPointerGetAttributes", (unsigned, int *, void **, CUdeviceptr), 1, kinds, values,
            plain[plain_count - 1]);
    BY_NAME(r, "cuMemGetAllocationGranularity", (size_t *, const CUmemAllocationProp *, int), &unit,
            &prop, 0);
    r = r == CUDA_SUCCESS ? map(2 << 20, 1) : r;
    BY_NAME(ignored, "cuMemExportToShareableHandle",
            (void *, CUmemGenericAllocationHandle, int, unsigned long long), &fd,
            mapped[mapped_count - 1].handle, 1, 0);
    r = r == CUDA_SUCCESS ? load_module(1 << 20) : r;
    BY_NAME(ignored, "cuModuleGetFunction", (CUfunction *, CUmodule, const char *), &function,
            modules[module_count - 1], "none");
    BY_NAME(r, "cuGetProcAddress", (const char *, void **, int, unsigned long long), "cuInit",
            &found, 11040, 0);
    BY_NAME(r, "cuGetProcAddress_v2", (const char *, void **, int, unsigned long long, int *),
            "cuInit", &found, 12020, 0, &whether);
    return r;
}

/* How often the driver saw each function that has a hook: "called NAME TIMES"; -1: this driver does not have it. */
static void print_calls(void) {
    int64_t (*calls)(const char *) = (int64_t(*)(const char *))dlsym(cu.library, "fakecuda_calls");
    static const char *const hooks[] = {
#define HRI_HOOK(NAME, PARAMETERS)       #NAME,
#define HRI_SPILL_HOOK(NAME, PARAMETERS) #NAME,
#define HRI_NVML_HOOK(NAME, PARAMETERS)
#include "interpose/hooks.def"
#undef HRI_HOOK
#undef HRI_SPILL_HOOK
#undef HRI_NVML_HOOK
    };
    for (size_t i = 0; calls && i < sizeof hooks / sizeof *hooks; i++) {
        printf("called %s %lld\n", hooks[i], (long long)calls(hooks[i]));
    }
}

/* PyTorch's caching allocator: what the program frees is kept; a refusal empties the cache, and the same is asked again. */
static CUresult torch(uint64_t bytes) {
    CUresult result = alloc(bytes);
    if (result == CUDA_ERROR_OUT_OF_MEMORY) {
        while (cached_count) {
            (void)cu.cuMemFree(cached[--cached_count]);
        }
        result = alloc(bytes);
    }
    if (result == CUDA_SUCCESS) {
        cached[cached_count++] = plain[--plain_count];
    }
    return result;
}

/* TensorFlow's: regions that double until refused, then shrink until one fits or the request does not. */
static CUresult bfc(uint64_t bytes) {
    uint64_t region = bytes;
    CUresult result = CUDA_SUCCESS;
    while (result == CUDA_SUCCESS && plain_count < 64) {
        result = alloc(region);
        region *= 2;
    }
    for (region /= 2; result == CUDA_ERROR_OUT_OF_MEMORY && region > bytes;
         region = region * 9 / 10) {
        result = alloc(region);
    }
    return result;
}

/* ---- contents ---- */

enum { PIECE = 1 << 20 };

static void pattern(uint64_t *words, uint64_t from) {
    for (uint64_t i = 0; i < PIECE / 8; i++) {
        words[i] = (from + i * 8) * 0x9e3779b97f4a7c15u;
    }
}

/* Writes, or compares, the bytes of a range by their own addresses: 1 MiB in every 8, and the last. */
static CUresult contents(CUdeviceptr at, uint64_t bytes, int writes) {
    static uint64_t words[PIECE / 8], got[PIECE / 8];
    CUresult result = CUDA_SUCCESS;
    for (uint64_t from = 0; from < bytes && result == CUDA_SUCCESS; from += 8 * (uint64_t)PIECE) {
        const uint64_t last = bytes - from < 8 * (uint64_t)PIECE && bytes > PIECE;
        const uint64_t place = last ? bytes - PIECE : from;
        const uint64_t size = bytes < PIECE ? bytes : PIECE;
        pattern(words, at + place);
        if (writes) {
            result = cu.cuMemcpyHtoD(at + place, words, size);
        } else {
            result = cu.cuMemcpyDtoH(got, at + place, size);
            result = result == CUDA_SUCCESS && memcmp(got, words, size) ? (CUresult)999 : result;
        }
    }
    return result;
}

static CUresult all_contents(int writes) {
    CUresult result = CUDA_SUCCESS;
    for (int i = 0; i < plain_count && result == CUDA_SUCCESS; i++) {
        result = contents(plain[i], plain_bytes[i], writes);
    }
    for (int i = 0; i < mapped_count && result == CUDA_SUCCESS; i++) {
        result = contents(mapped[i].at, mapped[i].bytes, writes);
    }
    return result;
}

/* Copies within the newest plain memory, from a thread and a stream of its own. */
static volatile int churning;
static void *churn_main(void *unused) {
    CUstream stream;
    const CUdeviceptr at = plain[plain_count - 1];
    CUresult result = cu.cuCtxSetCurrent(context);
    (void)unused;
    result = result == CUDA_SUCCESS ? cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) : result;
    for (unsigned i = 0; churning && result == CUDA_SUCCESS; i++) {
        result = cu.cuMemcpyAsync(at, at, 4096, stream);
        result = result == CUDA_SUCCESS && i % 8 == 7 ? cu.cuStreamSynchronize(stream) : result;
    }
    result = result == CUDA_SUCCESS ? cu.cuStreamSynchronize(stream) : result;
    return (void *)(uintptr_t)result;
}

static CUresult churn(uint64_t rounds) {
    pthread_t thread;
    void *wrong;
    CUresult result = CUDA_SUCCESS;
    churning = 1;
    pthread_create(&thread, NULL, churn_main, NULL);
    while (rounds-- && result == CUDA_SUCCESS) {
        usleep(50000);
        result = cu.cuCtxSynchronize();
    }
    churning = 0;
    pthread_join(thread, &wrong);
    return wrong ? (CUresult)(uintptr_t)wrong : result;
}

static CUresult ask_pointer(const char *what, uint64_t *number) {
    const CUdeviceptr at = plain[plain_count - 1];
    int kind = 0, ordinal = -1;
    if (!strcmp(what, "range")) {
        CUdeviceptr base = 0;
        size_t bytes = 0;
        const CUresult result = cu.cuMemGetAddressRange(&base, &bytes, at + 100);
        *number = base == at ? bytes : 1;
        return result;
    }
    int which[] = {2, 9};
    void *values[] = {&kind, &ordinal};
    CUresult result = cu.cuPointerGetAttribute(&kind, 2, at + 100);
    *number = (uint64_t)kind * 100;
    kind = 0;
    result =
        result == CUDA_SUCCESS ? cu.cuPointerGetAttributes(2, which, values, at + 100) : result;
    *number += (uint64_t)kind * 10 + (uint64_t)ordinal; /* 220: a device, twice, and number 0 */
    return result;
}

/* The model of random steps: what is taken is written to, and must be there when it goes. */
static CUresult mark(CUdeviceptr at) {
    uint64_t words[64];
    for (uint64_t i = 0; i < 64; i++) {
        words[i] = (at + i) * 0x9e3779b97f4a7c15u;
    }
    return cu.cuMemcpyHtoD(at, words, sizeof words);
}

static CUresult marked(CUdeviceptr at) {
    uint64_t words[64] = {0};
    CUresult result = cu.cuMemcpyDtoH(words, at, sizeof words);
    for (uint64_t i = 0; i < 64 && result == CUDA_SUCCESS; i++) {
        result = words[i] == (at + i) * 0x9e3779b97f4a7c15u ? result : (CUresult)999;
    }
    return result;
}

static CUresult alloc_marked(uint64_t bytes) {
    const CUresult result = alloc(bytes);
    return result == CUDA_SUCCESS ? mark(plain[plain_count - 1]) : result;
}

static CUresult free_marked(void) {
    const CUresult result = marked(plain[--plain_count]);
    return result == CUDA_SUCCESS ? cu.cuMemFree(plain[plain_count]) : result;
}

static CUresult map_marked(uint64_t bytes) {
    const CUresult result = map(bytes, (int)(chance() % 2));
    return result == CUDA_SUCCESS ? mark(mapped[mapped_count - 1].at) : result;
}

static CUresult unmap_marked(int retained) {
    const CUresult result = marked(mapped[mapped_count - 1].at);
    return result == CUDA_SUCCESS ? unmap(retained) : result;
}

static CUresult random_step(void) {
    static const uint64_t sizes[] = {512, 100 << 10, 3 << 20, 17 << 20, 64 << 20, 200 << 20};
    const uint64_t bytes = sizes[chance() % 6] + chance() % 1000;
    size_t a, b;
    switch (chance() % 12) {
    case 0:
    case 1:
    case 2:
        return plain_count < MOST ? alloc_marked(bytes) : CUDA_SUCCESS;
    case 3:
    case 4:
        return plain_count ? free_marked() : CUDA_SUCCESS;
    case 5:
        return pooled_count < MOST ? async(bytes) : CUDA_SUCCESS;
    case 6:
        return pooled_count ? cu.cuMemFreeAsync(pooled[--pooled_count], NULL) : CUDA_SUCCESS;
    case 7:
        return mapped_count < MOST ? map_marked(bytes) : CUDA_SUCCESS;
    case 8:
        return mapped_count ? unmap_marked((int)(chance() % 2)) : CUDA_SUCCESS;
    case 9:
        return cu.cuCtxSynchronize();
    case 10:
        return cu.cuMemGetInfo(&a, &b);
    default: {
        const CUDA_ARRAY3D_DESCRIPTOR d = {
            .Width = 256, .Height = 1 + chance() % 4096, .Format = 0x20, .NumChannels = 4};
        if (array_count && chance() % 2) {
            return cu.cuArrayDestroy(arrays[--array_count]);
        }
        CUarray made;
        const CUresult result = array_count < MOST ? cu.cuArray3DCreate(&made, &d) : CUDA_SUCCESS;
        if (result == CUDA_SUCCESS && array_count < MOST) {
            arrays[array_count++] = made;
        }
        return result;
    }
    }
}

static CUresult randoms(uint64_t count) {
    while (count--) {
        const CUresult result = random_step();
        if (result != CUDA_SUCCESS && result != CUDA_ERROR_OUT_OF_MEMORY) {
            return result;
        }
        if (result ==
            CUDA_ERROR_OUT_OF_MEMORY) { /* as an allocator would: half of what there is goes */
            for (int keep = plain_count / 2; plain_count > keep;) {
                if (free_marked() != CUDA_SUCCESS) {
                    return (CUresult)999;
                }
            }
            for (int keep = mapped_count / 2; mapped_count > keep;) {
                if (unmap_marked(0) != CUDA_SUCCESS) {
                    return (CUresult)999;
                }
            }
        }
    }
    return CUDA_SUCCESS;
}

/* A pool that lies in pieces: what is taken goes back in any order.  On refusal half of it goes, as an allocator would do it. */
static CUresult pooled_steps(uint64_t count) {
    static const uint64_t sizes[] = {512, 60000, 1 << 20, 5 << 20, 17 << 20, 60 << 20};
    CUresult result = CUDA_SUCCESS;
    while (count-- && result == CUDA_SUCCESS) {
        if (pooled_count && (chance() % 5 < 2 || pooled_count == MOST)) {
            const int at = (int)(chance() % (uint64_t)pooled_count);
            result = cu.cuMemFreeAsync(pooled[at], NULL);
            pooled[at] = pooled[--pooled_count];
            continue;
        }
        result = async(sizes[chance() % 6] + chance() % 5000);
        if (result == CUDA_ERROR_OUT_OF_MEMORY) {
            result = CUDA_SUCCESS;
            for (int keep = pooled_count / 2; pooled_count > keep && result == CUDA_SUCCESS;) {
                result = cu.cuMemFreeAsync(pooled[--pooled_count], NULL);
            }
        }
        if (chance() % 100 == 0) {
            result = result == CUDA_SUCCESS ? cu.cuCtxSynchronize() : result;
        }
    }
    return result;
}

/* One of several threads: takes and gives in its own order; what it gets must be memory or a refusal. */
static void *thread_main(void *argument) {
    uint64_t mine = (uint64_t)(uintptr_t)argument * 7919;
    CUdeviceptr own[8] = {0};
    CUresult wrong = cu.cuCtxSetCurrent(context);
    for (int i = 0; i < 150 && wrong == CUDA_SUCCESS; i++) {
        mine = mine * 6364136223846793005u + 1442695040888963407u;
        const unsigned at = (unsigned)(mine >> 60) & 7;
        const uint64_t bytes = (1 + (mine >> 40) % 48) << 20;
        CUresult result = CUDA_SUCCESS;
        if (own[at]) {
            result = at & 1 ? cu.cuMemFreeAsync(own[at], NULL) : cu.cuMemFree(own[at]);
            own[at] = 0;
        } else {
            result =
                at & 1 ? cu.cuMemAllocAsync(&own[at], bytes, NULL) : cu.cuMemAlloc(&own[at], bytes);
        }
        wrong = result == CUDA_ERROR_OUT_OF_MEMORY ? CUDA_SUCCESS : result;
    }
    return (void *)(uintptr_t)wrong;
}

static CUresult threads(uint64_t count) {
    pthread_t started[16];
    CUresult result = CUDA_SUCCESS;
    for (uint64_t i = 0; i < count && i < 16; i++) {
        pthread_create(&started[i], NULL, thread_main, (void *)(uintptr_t)(i + seed));
    }
    for (uint64_t i = 0; i < count && i < 16; i++) {
        void *wrong;
        pthread_join(started[i], &wrong);
        result = wrong ? (CUresult)(uintptr_t)wrong : result;
    }
    return result;
}

static CUresult step(const char *name, const char *value, uint64_t *number) {
    const uint64_t bytes = value ? bytes_of(value) : 0;
    size_t a = 0, b = 0;
    CUresult result = CUDA_SUCCESS;
    if (!strcmp(name, "alloc"))
        return alloc(bytes);
    if (!strcmp(name, "free"))
        return plain_count ? cu.cuMemFree(plain[--plain_count]) : CUDA_SUCCESS;
    if (!strcmp(name, "pitch"))
        return plain_bytes[plain_count] = 1,
               cu.cuMemAllocPitch(&plain[plain_count++], &a, 1000, bytes / 1024, 4);
    if (!strcmp(name, "managed"))
        return cu.cuMemAllocManaged(&plain[plain_count++], bytes, 1);
    if (!strcmp(name, "async"))
        return async(bytes);
    if (!strcmp(name, "unasync"))
        return pooled_count ? cu.cuMemFreeAsync(pooled[--pooled_count], NULL) : CUDA_SUCCESS;
    if (!strcmp(name, "sync"))
        return cu.cuCtxSynchronize();
    if (!strcmp(name, "vmm"))
        return map(bytes, 0);
    if (!strcmp(name, "xla"))
        return map(bytes, 1);
    if (!strcmp(name, "unvmm"))
        return mapped_count ? unmap(0) : CUDA_SUCCESS;
    if (!strcmp(name, "nccl"))
        return mapped_count ? unmap(1) : CUDA_SUCCESS;
    if (!strcmp(name, "numa"))
        return numa(bytes);
    if (!strcmp(name, "graph"))
        return graph(bytes);
    if (!strcmp(name, "fill")) {
        int (*take)(int, uint64_t) = (int (*)(int, uint64_t))dlsym(cu.library, "fakecuda_take");
        return take && take(0, bytes) == 0 ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (!strcmp(name, "rest"))
        return rest();
    if (!strcmp(name, "calls")) {
        print_calls();
        return CUDA_SUCCESS;
    }
    if (!strcmp(name, "module"))
        return load_module(bytes);
    if (!strcmp(name, "unmodule"))
        return module_count ? cu.cuModuleUnload(modules[--module_count]) : CUDA_SUCCESS;
    if (!strcmp(name, "graphtrim"))
        return cu.cuDeviceGraphMemTrim(0);
    if (!strcmp(name, "torch"))
        return torch(bytes);
    if (!strcmp(name, "bfc"))
        return bfc(bytes);
    if (!strcmp(name, "write"))
        return all_contents(1);
    if (!strcmp(name, "verify"))
        return all_contents(0);
    if (!strcmp(name, "type") || !strcmp(name, "range"))
        return ask_pointer(name, number);
    if (!strcmp(name, "node")) {
        CUgraph made;
        CUgraphNode added;
        CUgraphExec executable;
        CUstream stream;
        CUgraphNodeParams p = {
            .type = 10,
            .alloc = {.poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                    .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}},
                      .bytesize = bytes}};
        result = cu.cuGraphCreate(&made, 0);
        result = result == CUDA_SUCCESS ? cu.cuGraphAddNode(&added, made, NULL, 0, &p) : result;
        result =
            result == CUDA_SUCCESS ? cu.cuGraphInstantiateWithFlags(&executable, made, 0) : result;
        result =
            result == CUDA_SUCCESS ? cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) : result;
        return result == CUDA_SUCCESS ? cu.cuGraphLaunch(executable, stream) : result;
    }
    if (!strcmp(name, "pairs")) {
        struct timespec from, to;
        clock_gettime(CLOCK_MONOTONIC, &from);
        for (uint64_t i = 0; i < bytes && result == CUDA_SUCCESS; i++) {
            CUdeviceptr at = 0;
            result = cu.cuMemAllocAsync(&at, 100000, NULL);
            result = result == CUDA_SUCCESS ? cu.cuMemFreeAsync(at, NULL) : result;
        }
        clock_gettime(CLOCK_MONOTONIC, &to);
        *number = (uint64_t)((to.tv_sec - from.tv_sec) * 1000000000 + to.tv_nsec - from.tv_nsec) /
                  (bytes ? bytes : 1);
        return result;
    }
    if (!strcmp(name, "pooled"))
        return pooled_steps(bytes);
    if (!strcmp(name, "churn"))
        return churn(bytes);
    if (!strcmp(name, "ipc")) {
        CUipcMemHandle handle;
        return cu.cuIpcGetMemHandle(&handle, plain[plain_count - 1]);
    }
    if (!strcmp(name, "export")) {
        int fd = -1;
        return cu.cuMemExportToShareableHandle(&fd, mapped[mapped_count - 1].handle, 1, 0);
    }
    if (!strcmp(name, "capture")) {
        result = cu.cuStreamCreate(&captured_stream, CU_STREAM_NON_BLOCKING);
        return result == CUDA_SUCCESS
                   ? cu.cuStreamBeginCapture(captured_stream, CU_STREAM_CAPTURE_MODE_RELAXED)
                   : result;
    }
    if (!strcmp(name, "endcapture")) {
        CUgraph made;
        return cu.cuStreamEndCapture(captured_stream, &made);
    }
    if (!strcmp(name, "threads"))
        return threads(bytes);
    if (!strcmp(name, "random"))
        return randoms(bytes);
    if (!strcmp(name, "release"))
        return cu.cuDevicePrimaryCtxRelease(0);
    if (!strcmp(name, "array")) {
        const CUDA_ARRAY3D_DESCRIPTOR d = {
            .Width = 1024, .Height = bytes / 4096, .Format = 0x20, .NumChannels = 1};
        return cu.cuArray3DCreate(&arrays[array_count++], &d);
    }
    if (!strcmp(name, "unarray"))
        return cu.cuArrayDestroy(arrays[--array_count]);
    if (!strcmp(name, "trim")) {
        CUmemoryPool pool;
        result = cu.cuDeviceGetDefaultMemPool(&pool, 0);
        return result == CUDA_SUCCESS ? cu.cuMemPoolTrimTo(pool, 0) : result;
    }
    if (!strcmp(name, "keep")) {
        CUmemoryPool pool;
        uint64_t all = UINT64_MAX;
        result = cu.cuDeviceGetDefaultMemPool(&pool, 0);
        return result == CUDA_SUCCESS ? cu.cuMemPoolSetAttribute(pool, 4, &all) : result;
    }
    if (!strcmp(name, "info") || !strcmp(name, "infototal")) {
        result = cu.cuMemGetInfo(&a, &b);
        *number = name[4] ? b : a;
        return result;
    }
    if (!strcmp(name, "total")) {
        result = cu.cuDeviceTotalMem(&a, 0);
        *number = a;
        return result;
    }
    if (!strcmp(name, "peak"))
        *number = counted("fakecuda_process_peak");
    if (!strcmp(name, "used"))
        *number = counted("fakecuda_used_bytes");
    if (!strcmp(name, "host"))
        *number = counted("fakecuda_host_bytes");
    if (!strcmp(name, "hostpeak"))
        *number = counted("fakecuda_host_peak");
    if (!strcmp(name, "refused"))
        *number = counted("fakecuda_refused");
    if (!strcmp(name, "devicepeak")) {
        uint64_t (*get)(int, int) = (uint64_t(*)(int, int))dlsym(cu.library, "fakecuda_peak_bytes");
        *number = get ? get(0, 0) : 0;
    }
    if (!strcmp(name, "ptsz")) {
        int64_t (*calls)(const char *) =
            (int64_t(*)(const char *))dlsym(cu.library, "fakecuda_calls");
        *number = calls ? (uint64_t)calls("cuMemAllocAsync_ptsz") : 0;
    }
    if (!strcmp(name, "hold"))
        usleep((useconds_t)bytes * 1000);
    if (!strcmp(name, "wait")) {
        for (int i = 0; i < 3000 && access(value, F_OK) != 0; i++) {
            usleep(10000);
        }
    }
    if (!strcmp(name, "touch"))
        close(open(value, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    if (!strcmp(
            name,
            "fork")) { /* CUDA is unusable in the child; asking must neither hang nor speak for the parent */
        const pid_t child = fork();
        if (child == 0) {
            _exit(cu.cuMemAlloc(&plain[0], 1 << 20) == CUDA_ERROR_NOT_INITIALIZED ? 0 : 1);
        }
        int status = 1;
        waitpid(child, &status, 0);
        *number = (uint64_t)status;
    }
    return result;
}

/* ---- what a library must leave as it is ---- */

typedef struct hygiene {
    mode_t umask;
    sigset_t blocked;
    uint64_t handlers;
    int descriptors; /* but for those of the driver itself */
} hygiene;

static hygiene look(void) {
    if (getenv("CALLER_QUICK")) {
        return (hygiene){0};
    }
    hygiene h = {.umask = umask(0)};
    umask(h.umask);
    pthread_sigmask(SIG_BLOCK, NULL, &h.blocked);
    for (int i = 1; i < 64; i++) {
        struct sigaction action;
        if (sigaction(i, NULL, &action) == 0) {
            h.handlers = h.handlers * 31 + (uint64_t)(uintptr_t)action.sa_handler +
                         (uint64_t)(unsigned)action.sa_flags;
        }
    }
    for (int fd = 0; fd < 1024; fd++) {
        char path[32], target[256];
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        const ssize_t length = readlink(path, target, sizeof target - 1);
        target[length > 0 ? length : 0] = '\0';
        h.descriptors += length > 0 && !strstr(target, "fakecuda") && strcmp(target, "/dev/null");
    }
    return h;
}

static void compare(const char *name, const hygiene *a, const hygiene *b) {
    if (a->umask != b->umask || a->handlers != b->handlers || a->descriptors != b->descriptors ||
        memcmp(&a->blocked, &b->blocked, sizeof a->blocked)) {
        printf("changed by %s: umask %o %o, handlers %d, mask %d, descriptors %d %d\n", name,
               (unsigned)a->umask, (unsigned)b->umask, a->handlers != b->handlers,
               memcmp(&a->blocked, &b->blocked, sizeof a->blocked) != 0, a->descriptors,
               b->descriptors);
    }
}

int main(int argc, char **argv) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    const char *start = getenv("CALLER_SEED");
    seed = start ? strtoull(start, NULL, 10) : 1;
    if (argc < 2 || caller_find(argv[1], &cu) != 0) {
        return 3;
    }
    CUresult result = cu.cuInit(0);
    int first = 2;
    while (result == CUDA_SUCCESS && first < argc &&
           !strncmp(argv[first], "numa", 4)) { /* before a context */
        printf("%s %d\n", argv[first], (int)step("numa", strchr(argv[first], ':') + 1, NULL));
        first++;
    }
    result = result == CUDA_SUCCESS ? cu.cuDevicePrimaryCtxRetain(&context, 0) : result;
    result = result == CUDA_SUCCESS ? cu.cuCtxSetCurrent(context) : result;
    printf("start %d\n", (int)result);
    for (int i = first; i < argc && result == CUDA_SUCCESS; i++) {
        char name[32] = "";
        const char *value = strchr(argv[i], ':');
        uint64_t number = UINT64_MAX;
        snprintf(name, sizeof name, "%.*s", (int)(value ? value - argv[i] : 31), argv[i]);
        const hygiene before = look();
        errno = 77;
        const CUresult got = step(name, value ? value + 1 : NULL, &number);
        const int kept = errno;
        const hygiene after = look();
        compare(name, &before, &after);
        printf(number == UINT64_MAX ? "%s %d\n" : "%s %d %llu\n", argv[i], (int)got,
               (unsigned long long)number);
        if (kept != 77 && strcmp(name, "wait") && strcmp(name, "hold") && strcmp(name, "touch") &&
            strcmp(name, "fork")) {
            printf("errno %d\n", kept);
        }
    }
    return result == CUDA_SUCCESS ? 0 : 1;
}
