/* Stream-ordered memory: the calls that take it of pools and give it back (pools.h), and a pool at the host for what is spilled.
 *
 * Nothing here synchronises, and nothing waits while a stream captures: either would break the program's capture. */
#include <time.h>

#include "interpose/pools.h"
#include "interpose/record.h"
#include "interpose/spill.h"

static uint64_t up(uint64_t bytes, uint64_t unit) {
    return (bytes + unit - 1) / unit * unit;
}

typedef CUresult alloc_async_fn(CUdeviceptr *, size_t, CUstream);
typedef CUresult from_pool_fn(CUdeviceptr *, size_t, CUmemoryPool, CUstream);
typedef CUresult free_async_fn(CUdeviceptr, CUstream);

/* ---- a pool at the host, for what is spilled ---- */

/* The pool of a device at the host; NULL: the driver has none.  Under pools. */
static CUmemoryPool host_pool(int device) {
    typedef CUresult set_access_fn(CUmemoryPool, const CUmemAccessDesc *, size_t);
    typedef CUresult set_fn(CUmemoryPool, int, void *);
    hri_run_device *d = &hri_self.device[device];
    if (d->host_pool) {
        return d->host_pool;
    }
    set_access_fn *set_access = (set_access_fn *)hri_driver_function("cuMemPoolSetAccess");
    set_fn *set = (set_fn *)hri_driver_function("cuMemPoolSetAttribute");
    const CUmemPoolProps props = {.allocType = 1, .location = {CU_MEM_LOCATION_TYPE_HOST_NUMA, 0}};
    const CUmemAccessDesc access = {.location = {CU_MEM_LOCATION_TYPE_DEVICE, device},
                                    .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    uint64_t keep = UINT64_MAX; /* pages of the host are slow to make */
    CUmemoryPool pool = NULL;
    if (!set_access || !set || HRI_CALL(cuMemPoolCreate, &pool, &props) != CUDA_SUCCESS) {
        return NULL;
    }
    if (set_access(pool, &access, 1) != CUDA_SUCCESS) {
        (void)HRI_CALL(cuMemPoolDestroy, pool);
        return NULL;
    }
    (void)set(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep);
    d->host_pool = pool;
    return pool;
}

/* What the pool at the host has reserved is what is spilled: takes or gives the difference; false when there is no more.
 * Under pools. */
static bool settle_host_pool(int device, uint64_t taken, hri_hook call) {
    hri_run_device *d = &hri_self.device[device];
    const uint64_t reserved =
        hri_pool_attribute(d->host_pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
    const uint64_t own = d->host_pool_bytes + taken;
    if (reserved > own && !hri_spill_take_host(device, reserved - own, call)) {
        d->host_pool_bytes = own;
        return false;
    }
    d->host_pool_bytes = reserved;
    if (reserved < own) {
        hri_spill_give_host(device, own - reserved);
    }
    return true;
}

void hri_host_pool_trim(int device) {
    pthread_mutex_lock(&hri_self.pools);
    if (hri_self.device[device].host_pool) {
        (void)HRI_CALL(cuMemPoolTrimTo, hri_self.device[device].host_pool, 0);
        (void)settle_host_pool(device, 0, HRI_HOOK_cuMemPoolTrimTo);
    }
    pthread_mutex_unlock(&hri_self.pools);
}

/* Stream-ordered memory of the host.  Under pools. */
static CUresult alloc_on_host(from_pool_fn *from_pool, int device, CUdeviceptr *out, size_t bytes,
                              CUstream stream, hri_hook call, free_async_fn *undo) {
    const hri_run_device *d = &hri_self.device[device];
    CUmemoryPool pool = from_pool && undo ? host_pool(device) : NULL;
    if (!pool || bytes > hri_self.spill_limit_bytes) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    const uint64_t used = hri_pool_attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT);
    const bool enough = d->host_pool_bytes > used && d->host_pool_bytes - used >= up(bytes, 512);
    const uint64_t most = enough ? 0 : up(bytes, d->pool_chunk);
    if (most && !hri_spill_take_host(device, most, call)) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    CUdeviceptr at = 0;
    CUresult result = from_pool(&at, bytes, pool, stream);
    if (!settle_host_pool(device, most, call) && result == CUDA_SUCCESS) {
        (void)undo(at, stream);
        result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (result == CUDA_SUCCESS) {
        *out = at;
    }
    return result;
}

/* The pool that the driver takes memory of when none is named; NULL: it has no pools. */
static CUmemoryPool current_pool(int device) {
    typedef CUresult pool_of_device_fn(CUmemoryPool *, CUdevice);
    static pool_of_device_fn *get;
    if (!get) {
        get = (pool_of_device_fn *)hri_driver_function("cuDeviceGetMemPool");
    }
    CUmemoryPool pool = NULL;
    return get && get(&pool, device) == CUDA_SUCCESS ? pool : NULL;
}

/* One allocation: `plain` when the program named no pool, else `from_pool`. */
typedef struct request {
    alloc_async_fn *plain;
    from_pool_fn *from_pool;
    free_async_fn *undo;
    size_t bytes;
    CUmemoryPool pool;
    CUstream stream;
    hri_hook call;
} request;

static CUresult call_driver(const request *r, CUdeviceptr *out) {
    return r->plain       ? r->plain(out, r->bytes, r->stream)
           : r->from_pool ? r->from_pool(out, r->bytes, r->pool, r->stream)
                          : CUDA_ERROR_NOT_FOUND;
}

/* Takes a turn, on the host when the device has no room and the program may spill: *out is set then, and *out_pool is NULL. */
static CUresult take_turn(const request *r, int device, CUdeviceptr *out, hri_pool_turn *turn,
                          CUmemoryPool *out_pool) {
    const bool may_spill = hri_spill_may(HRI_SPILL_LARGE); /* of a pool, small requests too */
    CUmemoryPool pool = r->plain ? current_pool(device) : r->pool;
    *out_pool = NULL;
    if (!pool) {
        return call_driver(r, out);
    }
    CUresult result =
        hri_pool_take(device, pool, r->plain != NULL, r->bytes, r->call, !may_spill, turn);
    if (result != CUDA_SUCCESS && may_spill) {
        result = alloc_on_host(r->from_pool, device, out, r->bytes, r->stream, r->call, r->undo);
        hri_pool_refused();
        if (result == CUDA_SUCCESS) {
            return result;
        }
        result = hri_pool_take(device, pool, r->plain != NULL, r->bytes, r->call, true, turn);
    }
    if (result != CUDA_SUCCESS) {
        hri_pool_refused();
        return result;
    }
    *out_pool = pool;
    return CUDA_SUCCESS;
}

static CUresult alloc(const request *r, int device, CUdeviceptr *out) {
    hri_pool_turn turn;
    CUmemoryPool pool = r->pool;
    if (!hri_pool_pass(device, r->plain != NULL, r->bytes, &turn)) {
        CUdeviceptr at = 0;
        const CUresult result = take_turn(r, device, &at, &turn, &pool);
        if (result != CUDA_SUCCESS || !pool) {
            *out = result == CUDA_SUCCESS ? at : *out;
            return result;
        }
    }
    CUdeviceptr at = 0;
    const CUresult result = call_driver(r, &at);
    if (result == CUDA_ERROR_OUT_OF_MEMORY) {
        hri_driver_refused(device, r->bytes, r->call);
    }
    const CUresult settled = hri_pool_settle(device, pool, &turn, r->call);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    if (settled != CUDA_SUCCESS) { /* it grew by more than anybody granted */
        if (r->undo) {
            (void)r->undo(at, r->stream);
        }
        (void)HRI_CALL(cuMemPoolTrimTo, pool, 0);
        hri_pools_settle(device, false, true);
        return settled;
    }
    *out = at;
    hri_record_alloc(device, at, r->bytes, r->call);
    return CUDA_SUCCESS;
}

/* The device that a pool's memory lies on: known since its creation, else that of the context. */
static int pool_device(CUmemoryPool pool, int otherwise) {
    const int known = hri_pool_known(pool);
    if (known >= 0) {
        return known;
    }
    pthread_mutex_lock(&hri_self.lock);
    const hri_held_entry *e =
        hri_held_find(&hri_self.table, HRI_KIND_POOL, (uint64_t)(uintptr_t)pool);
    const bool elsewhere =
        hri_held_find(&hri_self.table, HRI_KIND_HOST_POOL, (uint64_t)(uintptr_t)pool) != NULL;
    const int device = elsewhere ? -1 : e ? e->device : otherwise;
    pthread_mutex_unlock(&hri_self.lock);
    return device;
}

/* An allocation while a stream captures becomes a node; where nothing is governed it is the driver's. */
static CUresult passed_by(const request *r, int device, CUdeviceptr *out) {
    const CUresult result = call_driver(r, out);
    if (device >= 0 && result == CUDA_SUCCESS && r->bytes) {
        hri_graph_note(device, r->bytes);
    }
    return device == -2 ? result : hri_leave(result);
}

#define ALLOC_ASYNC(NAME, FROM_POOL, FREE)                                                         \
    CUresult NAME(CUdeviceptr *out, size_t bytes, CUstream stream) {                               \
        const int device = hri_enter() ? hri_current_device() : -2;                                \
        const request r = {HRI_REAL(NAME), HRI_REAL(FROM_POOL), HRI_REAL(FREE), bytes, NULL,       \
                           stream,         HRI_HOOK_##NAME};                                       \
        return device < 0 || !r.plain || !out || !bytes || hri_capturing(stream)                   \
                   ? passed_by(&r, device, out)                                                    \
                   : hri_leave(alloc(&r, device, out));                                            \
    }                                                                                              \
    CUresult FROM_POOL(CUdeviceptr *out, size_t bytes, CUmemoryPool pool, CUstream stream) {       \
        int device = hri_enter() ? hri_current_device() : -2;                                      \
        device = device >= 0 ? pool_device(pool, device) : device;                                 \
        const request r = {NULL,   HRI_REAL(FROM_POOL), HRI_REAL(FREE), bytes, pool,               \
                           stream, HRI_HOOK_##FROM_POOL};                                          \
        return device < 0 || !pool || !out || !bytes || hri_capturing(stream)                      \
                   ? passed_by(&r, device, out)                                                    \
                   : hri_leave(alloc(&r, device, out));                                            \
    }

ALLOC_ASYNC(cuMemAllocAsync, cuMemAllocFromPoolAsync, cuMemFreeAsync)
ALLOC_ASYNC(cuMemAllocAsync_ptsz, cuMemAllocFromPoolAsync_ptsz, cuMemFreeAsync_ptsz)

/* What pools have given back is seen at the next exchange with the broker.  A program that only frees has none: so it is looked
 * at now and then. */
static void settle_now_and_then(void) {
    enum { SETTLE_NS = 20000000 };
    static uint64_t settled_ns; /* atomic */
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
    const uint64_t now = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
    if (now - __atomic_load_n(&settled_ns, __ATOMIC_RELAXED) < SETTLE_NS) {
        return;
    }
    __atomic_store_n(&settled_ns, now, __ATOMIC_RELAXED);
    const int device = hri_current_device();
    if (device >= 0) {
        const uint64_t before = hri_self.device[device].tracked_bytes;
        hri_pools_settle(device, false, false);
        if (hri_self.device[device].tracked_bytes < before) {
            hri_give(device, 0, HRI_HOOK_cuMemFreeAsync);
        }
    }
}

#define FREE_ASYNC(NAME)                                                                           \
    CUresult NAME(CUdeviceptr at, CUstream stream) {                                               \
        if (!hri_enter()) {                                                                        \
            return HRI_CALL(NAME, at, stream);                                                     \
        }                                                                                          \
        if (hri_spill_free(at, HRI_HOOK_##NAME)) {                                                 \
            return hri_leave(CUDA_SUCCESS);                                                        \
        }                                                                                          \
        hri_held_entry was = {0};                                                                  \
        if (hri_held_may_be_plain(&hri_self.table, at)) { /* plain memory may be freed so, too */  \
            was = hri_plain_forget(at);                                                            \
        }                                                                                          \
        const CUresult result = HRI_CALL(NAME, at, stream);                                        \
        hri_plain_freed(&was, result, HRI_HOOK_##NAME);                                            \
        if (result == CUDA_SUCCESS && !was.kind) {                                                 \
            hri_record_free(-1, at, HRI_HOOK_##NAME);                                              \
        }                                                                                          \
        settle_now_and_then();                                                                     \
        return hri_leave(result);                                                                  \
    }

FREE_ASYNC(cuMemFreeAsync)
FREE_ASYNC(cuMemFreeAsync_ptsz)

CUresult cuMemPoolCreate(CUmemoryPool *out, const CUmemPoolProps *props) {
    if (!hri_enter()) {
        return HRI_CALL(cuMemPoolCreate, out, props);
    }
    const CUresult result = HRI_CALL(cuMemPoolCreate, out, props);
    const bool on_device = props && props->location.type == CU_MEM_LOCATION_TYPE_DEVICE;
    if (result == CUDA_SUCCESS && (!on_device || hri_device_open(props->location.id) == 0)) {
        pthread_mutex_lock(&hri_self.lock);
        hri_held_add(&hri_self.table,
                     (hri_held_entry){.key = (uint64_t)(uintptr_t)*out,
                                      .kind = on_device ? HRI_KIND_POOL : HRI_KIND_HOST_POOL,
                                      .device = on_device ? props->location.id : -1});
        pthread_mutex_unlock(&hri_self.lock);
    }
    return hri_leave(result);
}

CUresult cuMemPoolDestroy(CUmemoryPool pool) {
    if (!hri_enter()) {
        return HRI_CALL(cuMemPoolDestroy, pool);
    }
    hri_held_entry was = {0};
    pthread_mutex_lock(&hri_self.lock);
    hri_held_entry *e = hri_held_find(&hri_self.table, HRI_KIND_POOL, (uint64_t)(uintptr_t)pool);
    e = e ? e : hri_held_find(&hri_self.table, HRI_KIND_HOST_POOL, (uint64_t)(uintptr_t)pool);
    if (e) {
        was = *e;
        if (e->kind == HRI_KIND_POOL) {
            hri_pool_forget(e->device, pool);
        }
    }
    const CUresult result = HRI_CALL(cuMemPoolDestroy, pool);
    if (e && result == CUDA_SUCCESS) {
        hri_held_remove(&hri_self.table, e);
    }
    pthread_mutex_unlock(&hri_self.lock);
    if (was.bytes && result == CUDA_SUCCESS) {
        hri_give(was.device, was.bytes, HRI_HOOK_cuMemPoolDestroy);
    }
    return hri_leave(result);
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t keep) {
    if (!hri_enter()) {
        return HRI_CALL(cuMemPoolTrimTo, pool, keep);
    }
    const CUresult result = HRI_CALL(cuMemPoolTrimTo, pool, keep);
    const int device = pool_device(pool, -1);
    if (device >= 0) {
        hri_pools_settle(device, false, false);
        hri_give(device, 0, HRI_HOOK_cuMemPoolTrimTo);
    }
    return hri_leave(result);
}

/* Another pool than the one that is known may be grown from now on. */
CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool) {
    const CUresult result = HRI_CALL(cuDeviceSetMemPool, device, pool);
    if (result == CUDA_SUCCESS && device >= 0 && device < HRI_RUN_DEVICES && hri_enter()) {
        hri_pool_changed(device);
        return hri_leave(result);
    }
    return result;
}

CUresult cuMemSetMemPool(CUmemLocation *location, int type, CUmemoryPool pool) {
    const CUresult result = HRI_CALL(cuMemSetMemPool, location, type, pool);
    const bool there = location && location->type == CU_MEM_LOCATION_TYPE_DEVICE &&
                       location->id >= 0 && location->id < HRI_RUN_DEVICES;
    if (result == CUDA_SUCCESS && there && hri_enter()) {
        hri_pool_changed(location->id);
        return hri_leave(result);
    }
    return result;
}
