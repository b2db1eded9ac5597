/* Stream-ordered memory: pools.
 *
 * What costs memory is what a pool has reserved of the device, not what was asked of it; so a call that may make a pool
 * grow takes the most that it can grow by, and afterwards the pool itself is asked (a cheap call on the host) and the
 * difference is given back.
 *
 * Nothing here synchronises, and nothing waits while a stream captures: either would break the program's capture. */
#include <time.h>

#include "interpose/spill.h"

typedef CUresult attribute_fn(CUmemoryPool, int, void *);
typedef CUresult pool_of_device_fn(CUmemoryPool *, CUdevice);

static uint64_t up(uint64_t bytes, uint64_t unit) {
    return (bytes + unit - 1) / unit * unit;
}

static uint64_t pool_attribute(CUmemoryPool pool, int which) {
    static attribute_fn *get;
    if (!get) {
        get = (attribute_fn *)hri_driver_function("cuMemPoolGetAttribute");
    }
    uint64_t value = 0;
    return get && get(pool, which, &value) == CUDA_SUCCESS ? value : 0;
}

/* ---- pools ---- */

/* Charges the pool with what it has reserved now, of which `taken` bytes are taken already. */
static CUresult settle_pool(int device, CUmemoryPool pool, uint64_t taken, hri_hook call) {
    pthread_mutex_lock(&hri_self.lock);
    const uint64_t reserved = pool_attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
    hri_held_entry *e = hri_held_find(&hri_self.table, HRI_KIND_POOL, (uint64_t)(uintptr_t)pool);
    if (!e) {
        e = hri_held_add(&hri_self.table, (hri_held_entry){.key = (uint64_t)(uintptr_t)pool,
                                                           .kind = HRI_KIND_POOL,
                                                           .device = device});
    }
    const uint64_t before = e ? e->bytes : 0;
    hri_run_device *d = &hri_self.device[device];
    if (e) {
        e->bytes = reserved;
    }
    if (reserved > before && reserved - before > d->pool_chunk && taken < reserved - before) {
        d->pool_chunk = up(reserved - before - taken, HRI_BLOCK) + d->pool_chunk;
    }
    pthread_mutex_unlock(&hri_self.lock);
    const uint64_t own = before + taken;
    if (reserved ==
        before) { /* almost always: the pool had it.  The lease stays: the next one comes soon */
        hri_give_quietly(device, taken);
        return CUDA_SUCCESS;
    }
    if (reserved <= own) {
        hri_give(device, own - reserved, call);
        return CUDA_SUCCESS;
    }
    if (hri_try_take(device, reserved - own, call) == CUDA_SUCCESS) {
        return CUDA_SUCCESS;
    }
    hri_page_refuse(device, HRI_PAGE_REFUSE_LIMIT, reserved - own, call, 0);
    pthread_mutex_lock(&hri_self.lock);
    e = hri_held_find(&hri_self.table, HRI_KIND_POOL, (uint64_t)(uintptr_t)pool);
    if (e) {
        e->bytes = own; /* what is paid for; the caller trims */
    }
    pthread_mutex_unlock(&hri_self.lock);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

/* One pool: what it no longer has is given back. */
static void settle_one(int device, uint64_t pool) {
    pthread_mutex_lock(&hri_self.lock);
    const uint64_t reserved =
        pool_attribute((CUmemoryPool)(uintptr_t)pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
    hri_held_entry *e = hri_held_find(&hri_self.table, HRI_KIND_POOL, pool);
    if (e && reserved < e->bytes &&
        !hri_self.pool_flight) { /* growth is the business of whoever made it grow */
        hri_run_device *d = &hri_self.device[device];
        const uint64_t less = e->bytes - reserved;
        e->bytes = reserved;
        d->tracked_bytes -= less < d->tracked_bytes ? less : d->tracked_bytes;
    }
    pthread_mutex_unlock(&hri_self.lock);
}

void hri_pools_settle(int device, bool trim) {
    for (size_t i = 0;; i++) {
        pthread_mutex_lock(&hri_self.lock);
        while (i < hri_self.table.room && (hri_self.table.entries[i].kind != HRI_KIND_POOL ||
                                           hri_self.table.entries[i].device != device)) {
            i++;
        }
        const int end = i >= hri_self.table.room;
        const uint64_t pool = end ? 0 : hri_self.table.entries[i].key;
        pthread_mutex_unlock(&hri_self.lock);
        if (end) {
            return;
        }
        if (trim) {
            (void)HRI_CALL(cuMemPoolTrimTo, (CUmemoryPool)(uintptr_t)pool, 0);
        }
        settle_one(device, pool);
    }
}

/* Takes what the pool may grow by.  A pool that has enough free memory is let through with nothing when there is nothing to
 * take.  That holds only while nobody else uses up the free memory: pool calls are made one at a time (under `pools`), and
 * what is charged to pools stays charged meanwhile (pool_flight).  Returns with `pools` held.  Who is not patient is refused
 * without a record, and without waiting. */
static CUresult take_for_pool(int device, CUmemoryPool pool, uint64_t bytes, hri_hook call,
                              bool patient, uint64_t *out_taken) {
    const uint64_t most = up(bytes, hri_self.device[device].pool_chunk);
    pthread_mutex_lock(&hri_self.pools);
    *out_taken = 0;
    if (bytes > UINT64_MAX / 4) {
        return CUDA_SUCCESS; /* the driver knows what to say */
    }
    if (hri_take_quietly(device, most)) {
        *out_taken = most;
        return CUDA_SUCCESS;
    }
    pthread_mutex_lock(&hri_self.lock);
    const uint64_t reserved = pool_attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
    const uint64_t used = pool_attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT);
    const hri_held_entry *e =
        hri_held_find(&hri_self.table, HRI_KIND_POOL, (uint64_t)(uintptr_t)pool);
    const bool enough =
        e && reserved <= e->bytes && reserved > used && reserved - used >= up(bytes, 512);
    hri_self.pool_flight += enough;
    pthread_mutex_unlock(&hri_self.lock);
    if (enough) {
        return CUDA_SUCCESS;
    }
    if (hri_try_take(device, most, call) == CUDA_SUCCESS) {
        *out_taken = most;
        return CUDA_SUCCESS;
    }
    if (!patient) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    pthread_mutex_unlock(&hri_self.pools); /* this may wait */
    const CUresult result = hri_take(device, most, call);
    pthread_mutex_lock(&hri_self.pools);
    *out_taken = result == CUDA_SUCCESS ? most : 0;
    return result;
}

static void pool_landed(void) {
    pthread_mutex_lock(&hri_self.lock);
    hri_self.pool_flight = 0; /* pool calls are made one at a time */
    pthread_mutex_unlock(&hri_self.lock);
    pthread_mutex_unlock(&hri_self.pools);
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
    const uint64_t reserved = pool_attribute(d->host_pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
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
    const uint64_t used = pool_attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT);
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

/* The allocation itself.  `plain` is what the program called when it named no pool, else NULL. */
static CUresult alloc(alloc_async_fn *plain, from_pool_fn *from_pool, int device, CUdeviceptr *out,
                      size_t bytes, CUmemoryPool pool, CUstream stream, hri_hook call,
                      free_async_fn *undo) {
    uint64_t taken;
    const bool may_spill = hri_spill_may(HRI_SPILL_LARGE); /* of a pool, small requests too */
    CUresult result = take_for_pool(device, pool, bytes, call, !may_spill, &taken);
    if (result != CUDA_SUCCESS && may_spill) {
        result = alloc_on_host(from_pool, device, out, bytes, stream, call, undo);
        if (result == CUDA_SUCCESS) {
            pool_landed();
            return result;
        }
        pool_landed();
        result = take_for_pool(device, pool, bytes, call, true, &taken);
    }
    if (result != CUDA_SUCCESS) {
        pool_landed();
        return result;
    }
    CUdeviceptr at = 0;
    result = plain       ? plain(&at, bytes, stream)
             : from_pool ? from_pool(&at, bytes, pool, stream)
                         : CUDA_ERROR_NOT_FOUND;
    if (result == CUDA_ERROR_OUT_OF_MEMORY) {
        hri_driver_refused(device, bytes, call);
    }
    const CUresult settled = settle_pool(device, pool, taken, call);
    pool_landed();
    if (result != CUDA_SUCCESS) {
        return result;
    }
    if (settled != CUDA_SUCCESS) { /* it grew by more than anybody granted */
        if (undo) {
            (void)undo(at, stream);
        }
        (void)HRI_CALL(cuMemPoolTrimTo, pool, 0);
        hri_pools_settle(device, false);
        return settled;
    }
    *out = at;
    return CUDA_SUCCESS;
}

static CUmemoryPool current_pool(int device) {
    static pool_of_device_fn *get;
    if (!get) {
        get = (pool_of_device_fn *)hri_driver_function("cuDeviceGetMemPool");
    }
    CUmemoryPool pool = NULL;
    return get && get(&pool, device) == CUDA_SUCCESS ? pool : NULL;
}

/* The device that a pool's memory lies on: known since its creation, else that of the context. */
static int pool_device(CUmemoryPool pool, int otherwise) {
    pthread_mutex_lock(&hri_self.lock);
    const hri_held_entry *e =
        hri_held_find(&hri_self.table, HRI_KIND_POOL, (uint64_t)(uintptr_t)pool);
    const bool elsewhere =
        hri_held_find(&hri_self.table, HRI_KIND_HOST_POOL, (uint64_t)(uintptr_t)pool) != NULL;
    const int device = elsewhere ? -1 : e ? e->device : otherwise;
    pthread_mutex_unlock(&hri_self.lock);
    return device;
}

#define ALLOC_ASYNC(NAME, FROM_POOL, FREE)                                                         \
    CUresult NAME(CUdeviceptr *out, size_t bytes, CUstream stream) {                               \
        const int device = hri_enter() ? hri_current_device() : -2;                                \
        CUmemoryPool pool = device >= 0 ? current_pool(device) : NULL;                             \
        if (device < 0 || !pool || !out || !bytes || hri_capturing(stream)) {                      \
            const CUresult result = HRI_CALL(NAME, out, bytes, stream);                            \
            if (device >= 0 && result == CUDA_SUCCESS && bytes) {                                  \
                hri_graph_note(device, bytes);                                                     \
            }                                                                                      \
            return device == -2 ? result : hri_leave(result);                                      \
        }                                                                                          \
        return hri_leave(alloc(HRI_REAL(NAME), HRI_REAL(FROM_POOL), device, out, bytes, pool,      \
                               stream, HRI_HOOK_##NAME, HRI_REAL(FREE)));                          \
    }                                                                                              \
    CUresult FROM_POOL(CUdeviceptr *out, size_t bytes, CUmemoryPool pool, CUstream stream) {       \
        int device = hri_enter() ? hri_current_device() : -2;                                      \
        device = device >= 0 ? pool_device(pool, device) : device;                                 \
        if (device < 0 || !pool || !out || !bytes || hri_capturing(stream)) {                      \
            const CUresult result = HRI_CALL(FROM_POOL, out, bytes, pool, stream);                 \
            if (device >= 0 && result == CUDA_SUCCESS && bytes) {                                  \
                hri_graph_note(device, bytes);                                                     \
            }                                                                                      \
            return device == -2 ? result : hri_leave(result);                                      \
        }                                                                                          \
        return hri_leave(alloc(NULL, HRI_REAL(FROM_POOL), device, out, bytes, pool, stream,        \
                               HRI_HOOK_##FROM_POOL, HRI_REAL(FREE)));                             \
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
        hri_pools_settle(device, false);
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
        const hri_held_entry was = hri_plain_forget(at); /* plain memory may be freed so, too */   \
        const CUresult result = HRI_CALL(NAME, at, stream);                                        \
        hri_plain_freed(&was, result, HRI_HOOK_##NAME);                                            \
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
        hri_pools_settle(device, false);
        hri_give(device, 0, HRI_HOOK_cuMemPoolTrimTo);
    }
    return hri_leave(result);
}
