/* Memory as other people's programs ask for it: cuMemAlloc, arrays, pools, memory of graphs.
 *
 * Plain memory lies in 2 MiB pages as the real driver's does: what is at most 1 MiB shares pages, and a page goes back when
 * the last of it has gone.  Pools and arrays are counted and have addresses, but no contents: nobody here computes with
 * them.  A pool takes chunks of FAKECUDA_POOL_CHUNK (default 32MiB) of the device, or of what is asked where that is more; an
 * allocation lies in the first free range that it fits into, so pools are fragmented as real ones are.  Chunks that are empty go
 * back, down to the threshold, when a stream is synchronised, or when the pool is trimmed. */
#include "fake.h"
#include "work.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SMALL = 1 << 20 };

typedef struct piece {
    struct piece *next;
    uint64_t at, bytes; /* bytes: physical, 0 for a part of a page */
    CUmemGenericAllocationHandle handle;
    struct piece *page; /* of small memory */
    uint64_t used, users;
    CUmemoryPool pool;   /* an address of a pool: bytes are what it uses there */
    struct chunk *chunk; /* in which it lies, from `used` on */
    int kind;
} piece;

enum { PLAIN, PAGE, PART, ARRAY, POOLED, MANAGED, IPC, NODE };

/* A piece of the device in a pool, with the ranges that are in use, by offset. */
typedef struct range {
    struct range *next;
    uint64_t from, bytes;
} range;
typedef struct chunk {
    struct chunk *next;
    uint64_t bytes;
    range *ranges;
} chunk;

struct CUmemPoolHandle_st {
    int device, live;
    uint64_t reserved, used, threshold;
    chunk *chunks;
};

/* Under fake_lock. */
static piece *pieces;
static struct CUmemPoolHandle_st default_pools[FAKE_DEVICES];
static CUmemoryPool current_pools[FAKE_DEVICES];
static uint64_t graph_reserved[FAKE_DEVICES];

static uint64_t up(uint64_t bytes, uint64_t unit) {
    return (bytes + unit - 1) / unit * unit;
}

static piece *add_piece(piece p) {
    piece *made = malloc(sizeof *made);
    if (made) {
        *made = p;
        pthread_mutex_lock(&fake_lock);
        made->next = pieces;
        pieces = made;
        pthread_mutex_unlock(&fake_lock);
    }
    return made;
}

/* Takes the piece out; a copy, kind -1 when there is none. */
static piece take_piece(uint64_t at, uint64_t kinds) {
    piece found = {.kind = -1};
    pthread_mutex_lock(&fake_lock);
    for (piece **p = &pieces; *p; p = &(*p)->next) {
        if ((*p)->at == at && (kinds >> (*p)->kind & 1)) {
            piece *gone = *p;
            found = *gone;
            *p = gone->next;
            free(gone);
            break;
        }
    }
    pthread_mutex_unlock(&fake_lock);
    return found;
}

static CUresult current(struct CUctx_st **out) {
    pthread_mutex_lock(&fake_lock);
    const CUresult result = fake_current(out);
    pthread_mutex_unlock(&fake_lock);
    return result;
}

static int ordinal_of(int device) {
    for (int i = 0; i < FAKE_DEVICES; i++) {
        if (fake_device_of(i) == device) {
            return i;
        }
    }
    return -1;
}

/* ---- plain memory ---- */

static CUresult take_range(int device, uint64_t bytes, piece *out) {
    const CUmemAllocationProp prop = {
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = ordinal_of(device)}};
    const CUmemAccessDesc access = {.location = prop.location,
                                    .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUdeviceptr at;
    CUmemGenericAllocationHandle handle;
    CUresult result = fake_cuMemCreate(&handle, bytes, &prop, 0);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    result = fake_cuMemAddressReserve(&at, bytes, 0, 0, 0);
    if (result == CUDA_SUCCESS) {
        result = fake_cuMemMap(at, bytes, 0, handle, 0);
    }
    if (result == CUDA_SUCCESS) {
        result = fake_cuMemSetAccess(at, bytes, &access, 1);
    }
    *out = (piece){.at = at, .bytes = bytes, .handle = handle};
    return result;
}

static void give_range(const piece *p) {
    (void)fake_cuMemUnmap(p->at, p->bytes);
    (void)fake_cuMemRelease(p->handle);
    (void)fake_cuMemAddressFree(p->at, p->bytes);
}

/* A part of a page that has room, or NULL.  Under the lock. */
static piece *page_with(uint64_t bytes) {
    for (piece *p = pieces; p; p = p->next) {
        if (p->kind == PAGE && FAKE_PAGE - p->used >= bytes) {
            return p;
        }
    }
    return NULL;
}

CUresult fake_cuMemAlloc_v2(CUdeviceptr *out, size_t bytes) {
    struct CUctx_st *context;
    CUresult result = current(&context);
    if (result != CUDA_SUCCESS || !out || !bytes) {
        return result != CUDA_SUCCESS ? result : CUDA_ERROR_INVALID_VALUE;
    }
    piece p = {0};
    if (bytes > SMALL) {
        result = bytes > 1ull << 45 ? CUDA_ERROR_OUT_OF_MEMORY
                                    : take_range(context->device, up(bytes, FAKE_PAGE), &p);
        if (result == CUDA_SUCCESS) {
            add_piece(p);
            *out = p.at;
        }
        return result;
    }
    const uint64_t part = up(bytes, 512);
    pthread_mutex_lock(&fake_lock);
    piece *page = page_with(part);
    pthread_mutex_unlock(&fake_lock);
    if (!page) {
        result = take_range(context->device, FAKE_PAGE, &p);
        if (result != CUDA_SUCCESS) {
            return result;
        }
        p.kind = PAGE;
        page = add_piece(p);
    }
    pthread_mutex_lock(&fake_lock);
    const uint64_t at = page->at + page->used;
    page->used += part;
    page->users++;
    pthread_mutex_unlock(&fake_lock);
    add_piece((piece){.at = at, .page = page, .kind = PART});
    *out = at;
    return CUDA_SUCCESS;
}

int fake_piece_range(uint64_t at, uint64_t *base, uint64_t *bytes) {
    for (const piece *p = pieces; p; p = p->next) {
        const uint64_t size = p->kind == PART ? FAKE_PAGE : p->bytes;
        if (p->kind != PAGE && p->kind != ARRAY && at >= p->at && at - p->at < size) {
            *base = p->at;
            *bytes = size;
            return 1;
        }
    }
    return 0;
}

CUresult fake_cuMemAllocPitch_v2(CUdeviceptr *out, size_t *pitch, size_t width, size_t height,
                                 unsigned int element) {
    (void)element;
    if (!pitch || !width || !height) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    const size_t row = up(width, 512);
    const CUresult result = fake_cuMemAlloc_v2(out, row * height);
    *pitch = result == CUDA_SUCCESS ? row : *pitch;
    return result;
}

/* An address that means nothing but itself. */
static uint64_t fresh_address(uint64_t bytes) {
    void *at = mmap(NULL, bytes ? bytes : 1, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                    -1, 0);
    return at == MAP_FAILED ? 0 : (uint64_t)(uintptr_t)at;
}

CUresult fake_cuMemAllocManaged(CUdeviceptr *out, size_t bytes, unsigned int flags) {
    struct CUctx_st *context;
    const CUresult result = current(&context);
    if (result != CUDA_SUCCESS || !out || !bytes || (flags != 1 && flags != 2)) {
        return result != CUDA_SUCCESS ? result : CUDA_ERROR_INVALID_VALUE;
    }
    *out = fresh_address(bytes);
    add_piece((piece){.at = *out, .bytes = bytes, .kind = MANAGED});
    return CUDA_SUCCESS;
}

static void leave_page(piece *page) {
    pthread_mutex_lock(&fake_lock);
    const int last = --page->users == 0;
    pthread_mutex_unlock(&fake_lock);
    if (last) {
        const piece gone = take_piece(page->at, 1u << PAGE);
        give_range(&gone);
    }
}

static void free_pooled(const piece *p) {
    pthread_mutex_lock(&fake_lock);
    if (p->pool) {
        p->pool->used -= p->bytes;
        for (range **r = &p->chunk->ranges; *r; r = &(*r)->next) {
            if ((*r)->from == p->used) {
                range *gone = *r;
                *r = gone->next;
                free(gone);
                break;
            }
        }
    }
    pthread_mutex_unlock(&fake_lock);
    munmap((void *)(uintptr_t)p->at, p->bytes ? p->bytes : 1);
}

CUresult fake_cuMemFree_v2(CUdeviceptr at) {
    struct CUctx_st *context;
    const CUresult result = current(&context);
    if (result != CUDA_SUCCESS || !at) {
        return result;
    }
    const piece p =
        take_piece(at, 1u << PLAIN | 1u << PART | 1u << POOLED | 1u << MANAGED | 1u << NODE);
    if (p.kind == PLAIN) {
        give_range(&p);
    } else if (p.kind == PART) {
        leave_page(p.page);
    } else if (p.kind >= 0) {
        free_pooled(&p);
    }
    return p.kind < 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

/* ---- arrays ---- */

static CUresult make_array(uint64_t bytes, uint64_t *out) {
    struct CUctx_st *context;
    const CUresult result = current(&context);
    bytes = up(bytes, FAKE_PAGE);
    if (result != CUDA_SUCCESS || !bytes) {
        return result != CUDA_SUCCESS ? result : CUDA_ERROR_INVALID_VALUE;
    }
    if (fake_state_take(context->device, bytes) != 0) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *out = fresh_address(FAKE_PAGE);
    add_piece(
        (piece){.at = *out, .bytes = bytes, .used = (uint64_t)context->device, .kind = ARRAY});
    return CUDA_SUCCESS;
}

static CUresult end_array(uint64_t at) {
    const piece p = take_piece(at, 1u << ARRAY);
    if (p.kind < 0) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    fake_state_give((int)p.used, p.bytes);
    munmap((void *)(uintptr_t)at, FAKE_PAGE);
    return CUDA_SUCCESS;
}

static uint64_t volume(const CUDA_ARRAY3D_DESCRIPTOR *d) {
    const uint64_t element = (d->Format == 0x20   ? 4u
                              : d->Format == 0x10 ? 2u
                                                  : 1u) *
                             d->NumChannels;
    return up(d->Width * element, 512) * (d->Height ? d->Height : 1) * (d->Depth ? d->Depth : 1);
}

CUresult fake_cuArray3DCreate_v2(CUarray *out, const CUDA_ARRAY3D_DESCRIPTOR *d) {
    uint64_t at = 0;
    const CUresult result = out && d ? make_array(volume(d), &at) : CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS) {
        *out = (CUarray)(uintptr_t)at;
    }
    return result;
}

CUresult fake_cuArrayCreate_v2(CUarray *out, const CUDA_ARRAY_DESCRIPTOR *d) {
    return d ? fake_cuArray3DCreate_v2(out,
                                       &(CUDA_ARRAY3D_DESCRIPTOR){.Width = d->Width,
                                                                  .Height = d->Height,
                                                                  .Format = d->Format,
                                                                  .NumChannels = d->NumChannels})
             : CUDA_ERROR_INVALID_VALUE;
}

CUresult fake_cuArrayDestroy(CUarray array) {
    return end_array((uint64_t)(uintptr_t)array);
}

CUresult fake_cuMipmappedArrayCreate(CUmipmappedArray *out, const CUDA_ARRAY3D_DESCRIPTOR *d,
                                     unsigned int levels) {
    uint64_t at = 0;
    const CUresult result = out && d && levels
                                ? make_array(volume(d) + (levels > 1 ? volume(d) / 3 : 0), &at)
                                : CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS) {
        *out = (CUmipmappedArray)(uintptr_t)at;
    }
    return result;
}

CUresult fake_cuMipmappedArrayDestroy(CUmipmappedArray array) {
    return end_array((uint64_t)(uintptr_t)array);
}

/* ---- between processes: addresses only ---- */

CUresult fake_cuIpcGetMemHandle(CUipcMemHandle *out, CUdeviceptr at) {
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&fake_lock);
    for (const piece *p = pieces; p && out; p = p->next) {
        if (p->at == at && (p->kind == PLAIN || p->kind == PART)) {
            memset(out, 0, sizeof *out);
            memcpy(out->reserved, &at, sizeof at);
            result = CUDA_SUCCESS;
        }
    }
    pthread_mutex_unlock(&fake_lock);
    return result;
}

CUresult fake_cuIpcOpenMemHandle_v2(CUdeviceptr *out, CUipcMemHandle handle, unsigned int flags) {
    (void)handle;
    if (!out || flags != 1) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *out = fresh_address(FAKE_PAGE);
    add_piece((piece){.at = *out, .bytes = FAKE_PAGE, .kind = IPC});
    return CUDA_SUCCESS;
}

CUresult fake_cuIpcCloseMemHandle(CUdeviceptr at) {
    const piece p = take_piece(at, 1u << IPC);
    if (p.kind >= 0) {
        munmap((void *)(uintptr_t)at, p.bytes);
    }
    return p.kind < 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

/* ---- pools ---- */

static CUmemoryPool default_pool(int device) {
    default_pools[device].device = device;
    default_pools[device].live = 1;
    return &default_pools[device];
}

static void give(CUmemoryPool pool, uint64_t bytes) {
    if (pool->device < 0) {
        fake_state_host(-(int64_t)bytes);
    } else {
        fake_state_give(pool->device, bytes);
    }
}

/* Gives empty chunks back while more than `keep` is reserved.  Under the lock. */
static void shrink(CUmemoryPool pool, uint64_t keep) {
    for (chunk **c = &pool->chunks; *c;) {
        chunk *one = *c;
        if (one->ranges || pool->reserved <= keep) {
            c = &one->next;
            continue;
        }
        give(pool, one->bytes);
        pool->reserved -= one->bytes;
        *c = one->next;
        free(one);
    }
}

void fake_pools_synced(void) {
    for (int i = 0; i < FAKE_DEVICES; i++) {
        if (default_pools[i].live) {
            shrink(&default_pools[i], default_pools[i].threshold);
        }
        if (current_pools[i] && current_pools[i]->live) {
            shrink(current_pools[i], current_pools[i]->threshold);
        }
    }
}

/* The first free range of the chunk that has room; 0: there is none.  Under the lock. */
static int place_in(chunk *c, uint64_t bytes, uint64_t *out_from) {
    uint64_t from = 0;
    range **r = &c->ranges;
    while (*r && (*r)->from - from < bytes) {
        from = (*r)->from + (*r)->bytes;
        r = &(*r)->next;
    }
    range *made = !*r && c->bytes - from < bytes ? NULL : malloc(sizeof *made);
    if (made) {
        *made = (range){.next = *r, .from = from, .bytes = bytes};
        *r = made;
        *out_from = from;
    }
    return made != NULL;
}

/* Finds room for the bytes; the pool grows when it has none.  Under the lock. */
static CUresult grow(CUmemoryPool pool, uint64_t bytes, piece *out) {
    chunk *c = pool->chunks;
    while (c && !place_in(c, bytes, &out->used)) {
        c = c->next;
    }
    if (!c) {
        const uint64_t more = up(bytes, fake_env_bytes("FAKECUDA_POOL_CHUNK", 32 << 20));
        if (pool->device < 0) {
            fake_state_host((int64_t)more);
        } else if (fake_state_take(pool->device, more) != 0) {
            return CUDA_ERROR_OUT_OF_MEMORY;
        }
        c = calloc(1, sizeof *c);
        if (!c) {
            give(pool, more);
            return CUDA_ERROR_OUT_OF_MEMORY;
        }
        *c = (chunk){.next = pool->chunks, .bytes = more};
        pool->chunks = c;
        pool->reserved += more;
        (void)place_in(c, bytes, &out->used);
    }
    pool->used += bytes;
    out->chunk = c;
    return CUDA_SUCCESS;
}

static CUresult alloc_pooled(CUdeviceptr *out, size_t bytes, CUmemoryPool pool, CUstream stream) {
    struct CUctx_st *context;
    CUresult result = current(&context);
    if (result != CUDA_SUCCESS || !out || !bytes || bytes > 1ull << 45) {
        return result != CUDA_SUCCESS ? result
               : bytes > 1ull << 45   ? CUDA_ERROR_OUT_OF_MEMORY
                                      : CUDA_ERROR_INVALID_VALUE;
    }
    const uint64_t part = up(bytes, 512);
    piece p = {.bytes = part};
    pthread_mutex_lock(&fake_lock);
    CUgraph capture = stream && fake_known_stream(stream) ? stream->capture : NULL;
    pool = pool ? pool : current_pools[context->device];
    pool = pool ? pool : default_pool(context->device);
    if (capture) {
        capture->memory_bytes += up(bytes, FAKE_PAGE);
    } else {
        result = pool->live ? grow(pool, part, &p) : CUDA_ERROR_INVALID_VALUE;
    }
    pthread_mutex_unlock(&fake_lock);
    if (result == CUDA_SUCCESS) {
        p.at = *out = fresh_address(part);
        p.pool = capture ? NULL : pool;
        p.kind = capture ? NODE : POOLED;
        add_piece(p);
    }
    return result;
}

CUresult fake_cuMemAllocAsync(CUdeviceptr *out, size_t bytes, CUstream stream) {
    return alloc_pooled(out, bytes, NULL, stream);
}

CUresult fake_cuMemAllocAsync_ptsz(CUdeviceptr *out, size_t bytes, CUstream stream) {
    return alloc_pooled(out, bytes, NULL, stream);
}

CUresult fake_cuMemAllocFromPoolAsync(CUdeviceptr *out, size_t bytes, CUmemoryPool pool,
                                      CUstream stream) {
    return pool ? alloc_pooled(out, bytes, pool, stream) : CUDA_ERROR_INVALID_VALUE;
}

CUresult fake_cuMemAllocFromPoolAsync_ptsz(CUdeviceptr *out, size_t bytes, CUmemoryPool pool,
                                           CUstream stream) {
    return pool ? alloc_pooled(out, bytes, pool, stream) : CUDA_ERROR_INVALID_VALUE;
}

CUresult fake_cuMemFreeAsync(CUdeviceptr at, CUstream stream) {
    (void)stream;
    return fake_cuMemFree_v2(at);
}

CUresult fake_cuMemFreeAsync_ptsz(CUdeviceptr at, CUstream stream) {
    (void)stream;
    return fake_cuMemFree_v2(at);
}

CUresult fake_cuMemPoolCreate(CUmemoryPool *out, const CUmemPoolProps *props) {
    const int on_host =
        props && (int)props->location.type == FAKE_LOCATION_HOST_NUMA && fake_version() >= 12020;
    const int device = props && props->location.type == CU_MEM_LOCATION_TYPE_DEVICE
                           ? fake_device_of(props->location.id)
                           : -1;
    if (!out || (device < 0 && !on_host)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    CUmemoryPool pool = calloc(1, sizeof *pool);
    if (!pool) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    pool->device = device;
    pool->live = 1;
    *out = pool;
    return CUDA_SUCCESS;
}

CUresult fake_cuMemPoolDestroy(CUmemoryPool pool) {
    if (!pool || !pool->live) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    pthread_mutex_lock(&fake_lock);
    for (int i = 0; i < FAKE_DEVICES; i++) {
        current_pools[i] = current_pools[i] == pool ? NULL : current_pools[i];
    }
    give(pool, pool->reserved);
    pool->live = 0; /* kept: a stale handle is recognised */
    pool->reserved = 0;
    pthread_mutex_unlock(&fake_lock);
    return CUDA_SUCCESS;
}

CUresult fake_cuMemPoolTrimTo(CUmemoryPool pool, size_t keep) {
    if (!pool || !pool->live) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    pthread_mutex_lock(&fake_lock);
    shrink(pool, keep);
    pthread_mutex_unlock(&fake_lock);
    return CUDA_SUCCESS;
}

CUresult fake_cuMemPoolGetAttribute(CUmemoryPool pool, int which, void *value) {
    if (!pool || !value || !pool->live) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    pthread_mutex_lock(&fake_lock);
    const uint64_t number = which == FAKE_POOL_RESERVED    ? pool->reserved
                            : which == FAKE_POOL_USED      ? pool->used
                            : which == FAKE_POOL_THRESHOLD ? pool->threshold
                                                           : 0;
    memcpy(value, &number, sizeof number);
    pthread_mutex_unlock(&fake_lock);
    return CUDA_SUCCESS;
}

CUresult fake_cuMemPoolSetAttribute(CUmemoryPool pool, int which, void *value) {
    if (!pool || !value || !pool->live) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (which == FAKE_POOL_THRESHOLD) {
        memcpy(&pool->threshold, value, sizeof pool->threshold);
    }
    return CUDA_SUCCESS;
}

CUresult fake_cuDeviceGetDefaultMemPool(CUmemoryPool *out, CUdevice ordinal) {
    const int device = fake_device_of(ordinal);
    if (device < 0 || !out) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    *out = default_pool(device);
    return CUDA_SUCCESS;
}

CUresult fake_cuDeviceGetMemPool(CUmemoryPool *out, CUdevice ordinal) {
    const int device = fake_device_of(ordinal);
    if (device < 0 || !out) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    *out = current_pools[device] ? current_pools[device] : default_pool(device);
    return CUDA_SUCCESS;
}

CUresult fake_cuDeviceSetMemPool(CUdevice ordinal, CUmemoryPool pool) {
    const int device = fake_device_of(ordinal);
    if (device < 0 || !pool || !pool->live) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    current_pools[device] = pool;
    return CUDA_SUCCESS;
}

/* ---- graphs ---- */

int fake_graph_memory(int device, uint64_t bytes) {
    if (bytes > graph_reserved[device]) {
        if (fake_state_take(device, bytes - graph_reserved[device]) != 0) {
            return -1;
        }
        graph_reserved[device] = bytes;
    }
    return 0;
}

CUresult fake_cuDeviceGetGraphMemAttribute(CUdevice ordinal, int which, void *value) {
    const int device = fake_device_of(ordinal);
    if (device < 0 || !value) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    const uint64_t number = which == 2 ? graph_reserved[device] : 0;
    memcpy(value, &number, sizeof number);
    return CUDA_SUCCESS;
}

CUresult fake_cuDeviceGraphMemTrim(CUdevice ordinal) {
    const int device = fake_device_of(ordinal);
    if (device < 0) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    pthread_mutex_lock(&fake_lock);
    fake_state_give(device, graph_reserved[device]);
    graph_reserved[device] = 0;
    pthread_mutex_unlock(&fake_lock);
    return CUDA_SUCCESS;
}

CUresult fake_cuGraphAddMemAllocNode(CUgraphNode *out, CUgraph graph,
                                     const CUgraphNode *dependencies, size_t count,
                                     CUDA_MEM_ALLOC_NODE_PARAMS *parameters) {
    (void)dependencies;
    (void)count;
    if (!out || !graph || !parameters || !parameters->bytesize) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    pthread_mutex_lock(&fake_lock);
    graph->memory_bytes += up(parameters->bytesize, FAKE_PAGE);
    pthread_mutex_unlock(&fake_lock);
    parameters->dptr = fresh_address(parameters->bytesize);
    *out = (CUgraphNode)(uintptr_t)parameters->dptr;
    return CUDA_SUCCESS;
}

/* ---- contexts and streams ---- */

CUresult fake_cuCtxGetDevice(CUdevice *device) {
    struct CUctx_st *context;
    const CUresult result = current(&context);
    if (result != CUDA_SUCCESS || !device) {
        return result != CUDA_SUCCESS ? result : CUDA_ERROR_INVALID_VALUE;
    }
    *device = ordinal_of(context->device);
    return CUDA_SUCCESS;
}

CUresult fake_cuCtxSetCurrent(CUcontext context) {
    CUcontext old;
    if (fake_cuCtxGetCurrent(&old) == CUDA_SUCCESS && old) {
        (void)fake_cuCtxPopCurrent_v2(&old);
    }
    return context ? fake_cuCtxPushCurrent_v2(context) : CUDA_SUCCESS;
}

CUresult fake_cuCtxSynchronize(void) {
    struct CUctx_st *context;
    const CUresult result = current(&context);
    if (result == CUDA_SUCCESS) {
        pthread_mutex_lock(&fake_lock);
        fake_streams_drain(context);
        fake_pools_synced();
        pthread_mutex_unlock(&fake_lock);
    }
    return result;
}

CUresult fake_cuDevicePrimaryCtxGetState(CUdevice ordinal, unsigned int *flags, int *active) {
    const int device = fake_device_of(ordinal);
    if (device < 0 || !flags || !active) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    *flags = 0;
    *active = fake_contexts[device].retains > 0;
    return CUDA_SUCCESS;
}

CUresult fake_cuStreamIsCapturing(CUstream stream, int *status) {
    if (!status) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    pthread_mutex_lock(&fake_lock);
    *status = stream && fake_known_stream(stream) && stream->capture != NULL;
    pthread_mutex_unlock(&fake_lock);
    return CUDA_SUCCESS;
}
