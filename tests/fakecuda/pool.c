/* Pools of stream-ordered memory, and the memory of graphs.
 *
 * Counted, with addresses, and without contents.  A pool takes chunks of FAKECUDA_POOL_CHUNK (default 32MiB) of the device, or of
 * what is asked where that is more; an allocation lies in the first free range that it fits into, so pools are fragmented as real
 * ones are.  Chunks that are empty go back, down to the threshold, when a stream is synchronised, or when the pool is trimmed.
 * Pools are the device's: they outlive contexts. */
#include "pieces.h"
#include "work.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

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
    int shareable, imported; /* it may be given to other processes; it is another one's */
    uint64_t reserved, used, threshold;
    chunk *chunks;
};

/* Under fake_lock. */
static struct CUmemPoolHandle_st default_pools[FAKE_DEVICES];
static CUmemoryPool current_pools[FAKE_DEVICES];
static uint64_t graph_reserved[FAKE_DEVICES];

void fake_pool_free(const piece *p) {
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
        const uint64_t more = fake_up(bytes, fake_env_bytes("FAKECUDA_POOL_CHUNK", 32 << 20));
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
    CUresult result = fake_current_now(&context);
    if (result != CUDA_SUCCESS || !out || !bytes || bytes > 1ull << 45) {
        return result != CUDA_SUCCESS ? result
               : bytes > 1ull << 45   ? CUDA_ERROR_OUT_OF_MEMORY
                                      : CUDA_ERROR_INVALID_VALUE;
    }
    const uint64_t part = fake_up(bytes, 512);
    piece p = {.bytes = part};
    pthread_mutex_lock(&fake_lock);
    CUgraph capture = stream && fake_known_stream(stream) ? stream->capture : NULL;
    pool = pool ? pool : current_pools[context->device];
    pool = pool ? pool : default_pool(context->device);
    if (capture) {
        capture->memory_bytes += fake_up(bytes, FAKE_PAGE);
    } else {
        result = !pool->live || pool->imported ? CUDA_ERROR_INVALID_VALUE : grow(pool, part, &p);
    }
    pthread_mutex_unlock(&fake_lock);
    if (result == CUDA_SUCCESS) {
        p.at = *out = fake_fresh_address(part);
        p.pool = capture ? NULL : pool;
        p.kind = capture ? NODE : POOLED;
        fake_piece_add(p);
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
    pool->shareable = (int)props->handleTypes & 1;
    *out = pool;
    return CUDA_SUCCESS;
}

int fake_pool_share(CUmemoryPool pool) {
    return pool && pool->live && pool->shareable && !pool->imported ? pool->device : -1;
}

/* Another process's pool: its memory may be used here, none can be taken. */
CUmemoryPool fake_pool_imported(int device) {
    CUmemoryPool pool = calloc(1, sizeof *pool);
    if (pool) {
        *pool = (struct CUmemPoolHandle_st){.device = device, .live = 1, .imported = 1};
    }
    return pool;
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

/* Since 13.0: as cuDeviceSetMemPool, for any place. */
CUresult fake_cuMemSetMemPool(CUmemLocation *location, int type, CUmemoryPool pool) {
    if (!location || !pool || !pool->live || type != CU_MEM_ALLOCATION_TYPE_PINNED) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (location->type != CU_MEM_LOCATION_TYPE_DEVICE) {
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    return fake_cuDeviceSetMemPool(location->id, pool);
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
    graph->memory_bytes += fake_up(parameters->bytesize, FAKE_PAGE);
    pthread_mutex_unlock(&fake_lock);
    parameters->dptr = fake_fresh_address(parameters->bytesize);
    *out = (CUgraphNode)(uintptr_t)parameters->dptr;
    return CUDA_SUCCESS;
}
