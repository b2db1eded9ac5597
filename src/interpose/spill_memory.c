/* Memory on the host that stands in for the device's: making it, finding it, ending it; see spill.h. */
#include "interpose/spill.h"

typedef CUresult reserve_fn(CUdeviceptr *, size_t, size_t, CUdeviceptr, unsigned long long);
typedef CUresult release_range_fn(CUdeviceptr, size_t);
typedef CUresult access_fn(CUdeviceptr, size_t, const CUmemAccessDesc *, size_t);
typedef CUresult host_alloc_fn(void **, size_t, unsigned int);
typedef CUresult host_free_fn(void *);
typedef CUresult host_pointer_fn(CUdeviceptr *, void *, unsigned int);
typedef CUresult attribute_fn(int *, int, CUdevice);

static int things;           /* entries of kind SPILL and SPILLED; atomic */
static uint64_t next_number; /* under spill */

bool hri_spill_any(void) {
    return __atomic_load_n(&things, __ATOMIC_ACQUIRE) != 0;
}

static void count(int more) {
    __atomic_fetch_add(&things, more, __ATOMIC_ACQ_REL);
}

bool hri_spill_is_handle(CUmemGenericAllocationHandle handle) {
    return (handle & 0xffffff0000000000u) == HRI_SPILL_HANDLE;
}

/* A copy of the entry; its kind is HRI_KIND_NONE when there is none. */
static hri_held_entry look_up(hri_kind kind, uint64_t key) {
    pthread_mutex_lock(&hri_self.lock);
    const hri_held_entry *e = hri_held_find(&hri_self.table, kind, key);
    const hri_held_entry found = e ? *e : (hri_held_entry){0};
    pthread_mutex_unlock(&hri_self.lock);
    return found;
}

static void remove_entry(hri_kind kind, uint64_t key) {
    pthread_mutex_lock(&hri_self.lock);
    hri_held_entry *e = hri_held_find(&hri_self.table, kind, key);
    if (e) {
        hri_held_remove(&hri_self.table, e);
    }
    pthread_mutex_unlock(&hri_self.lock);
}

CUmemGenericAllocationHandle hri_spill_real(CUmemGenericAllocationHandle handle) {
    return look_up(HRI_KIND_SPILL, handle).a;
}

CUmemGenericAllocationHandle hri_spill_number(CUmemGenericAllocationHandle real) {
    CUmemGenericAllocationHandle number = 0;
    pthread_mutex_lock(&hri_self.lock);
    for (size_t i = 0; i < hri_self.table.room && !number; i++) {
        const hri_held_entry *e = &hri_self.table.entries[i];
        number = e->kind == HRI_KIND_SPILL && e->a == real ? e->key : 0;
    }
    pthread_mutex_unlock(&hri_self.lock);
    return number;
}

/* ---- making ---- */

/* The node of the host that is nearest to the device. */
static int node_of(int device) {
    attribute_fn *get = (attribute_fn *)hri_driver_function("cuDeviceGetAttribute");
    int node = 0;
    if (!get || get(&node, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, device) != CUDA_SUCCESS || node < 0) {
        node = 0;
    }
    return node;
}

/* Physical memory of the host.  What ties memory to the device (direct access for network cards, fabric handles) is left
 * out; a file descriptor to share it by stays.  Where nodes cannot be named (containers), any memory of the host will do. */
static CUresult create_host(int device, uint64_t bytes, int handle_types,
                            CUmemGenericAllocationHandle *out) {
    CUmemAllocationProp prop = {
        .type = 1,
        .requestedHandleTypes = handle_types & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
        .location = {.type = CU_MEM_LOCATION_TYPE_HOST_NUMA, .id = node_of(device)}};
    CUresult result = HRI_CALL(cuMemCreate, out, bytes, &prop, 0);
    if (result != CUDA_SUCCESS && !prop.requestedHandleTypes) {
        prop.location = (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_HOST};
        result = HRI_CALL(cuMemCreate, out, bytes, &prop, 0);
    }
    return result;
}

/* A number of ours for new memory on the host.  Under spill. */
static CUresult create(int device, uint64_t bytes, const CUmemAllocationProp *prop,
                       uint64_t references, CUmemGenericAllocationHandle *out) {
    const int types = prop ? prop->requestedHandleTypes : 0;
    CUmemGenericAllocationHandle real;
    CUresult result = create_host(device, bytes, types, &real);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    const uint64_t number = HRI_SPILL_HANDLE | ++next_number;
    pthread_mutex_lock(&hri_self.lock);
    const bool room = hri_held_reserve(&hri_self.table, 2) == 0;
    if (room) {
        hri_held_add(&hri_self.table, (hri_held_entry){.key = number,
                                                       .kind = HRI_KIND_HANDLE,
                                                       .device = device,
                                                       .a = references});
        hri_held_add(
            &hri_self.table,
            (hri_held_entry){.key = number,
                             .kind = HRI_KIND_SPILL,
                             .device = device,
                             .a = real,
                             .b = bytes,
                             .c = HRI_SPILL_HOST | (uint64_t)(types & 0xff) << 8 |
                                  (uint64_t)(prop && prop->allocFlags.gpuDirectRDMACapable) << 16});
    }
    pthread_mutex_unlock(&hri_self.lock);
    if (!room) {
        (void)HRI_CALL(cuMemRelease, real);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    count(1);
    *out = number;
    return CUDA_SUCCESS;
}

CUresult hri_spill_create(int device, uint64_t bytes, const CUmemAllocationProp *prop,
                          CUmemGenericAllocationHandle *out) {
    pthread_mutex_lock(&hri_self.spill);
    const CUresult result = create(device, bytes, prop, 1, out);
    pthread_mutex_unlock(&hri_self.spill);
    return result;
}

/* Takes the entries of a number away and releases what is behind it; the bytes stay taken.  Under spill. */
static void release_number(uint64_t number) {
    const hri_held_entry e = look_up(HRI_KIND_SPILL, number);
    if (e.kind) {
        (void)HRI_CALL(cuMemRelease, e.a);
        remove_entry(HRI_KIND_SPILL, number);
        remove_entry(HRI_KIND_HANDLE, number);
        count(-1);
    }
}

void hri_spill_drop(CUmemGenericAllocationHandle handle, hri_hook call) {
    const hri_held_entry e = look_up(HRI_KIND_SPILL, handle);
    (void)call;
    release_number(handle);
    if (e.kind && (e.c & HRI_SPILL_HOST)) {
        hri_spill_give_host(e.device, e.b);
    }
}

void hri_spill_keep(CUmemGenericAllocationHandle handle) {
    pthread_mutex_lock(&hri_self.lock);
    hri_held_entry *e = hri_held_find(&hri_self.table, HRI_KIND_SPILL, handle);
    if (e) {
        e->c |= HRI_SPILL_STAYS;
    }
    pthread_mutex_unlock(&hri_self.lock);
}

/* A range of addresses with the memory of a number in it.  Under spill. */
static CUresult map_range(int device, uint64_t bytes, uint64_t number, CUdeviceptr *out) {
    reserve_fn *reserve = (reserve_fn *)hri_driver_function("cuMemAddressReserve");
    release_range_fn *give = (release_range_fn *)hri_driver_function("cuMemAddressFree");
    access_fn *access = (access_fn *)hri_driver_function("cuMemSetAccess");
    const CUmemAccessDesc desc = {.location = {CU_MEM_LOCATION_TYPE_DEVICE, device},
                                  .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUdeviceptr at = 0;
    if (!reserve || !give || !access) {
        return CUDA_ERROR_NOT_FOUND;
    }
    CUresult result = reserve(&at, bytes, 0, 0, 0);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    result = HRI_CALL(cuMemMap, at, bytes, 0, hri_spill_real(number), 0);
    if (result == CUDA_SUCCESS) {
        result = access(at, bytes, &desc, 1);
        if (result != CUDA_SUCCESS) {
            (void)HRI_CALL(cuMemUnmap, at, bytes);
        }
    }
    if (result != CUDA_SUCCESS) {
        (void)give(at, bytes);
        return result;
    }
    *out = at;
    return CUDA_SUCCESS;
}

/* The last resort: pinned memory, which cannot come back.  Under spill. */
static CUresult alloc_pinned(uint64_t bytes, CUdeviceptr *out) {
    host_alloc_fn *get = (host_alloc_fn *)hri_driver_function("cuMemHostAlloc");
    host_free_fn *give = (host_free_fn *)hri_driver_function("cuMemFreeHost");
    host_pointer_fn *pointer =
        (host_pointer_fn *)hri_driver_function("cuMemHostGetDevicePointer_v2");
    void *memory = NULL;
    if (!get || !give || !pointer ||
        get(&memory, bytes, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP) != CUDA_SUCCESS) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    CUdeviceptr at = 0;
    if (pointer(&at, memory, 0) != CUDA_SUCCESS || at != (CUdeviceptr)(uintptr_t)memory) {
        (void)give(memory);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *out = at;
    return CUDA_SUCCESS;
}

CUresult hri_spill_alloc(int device, uint64_t asked, uint64_t bytes, CUdeviceptr *out) {
    CUmemGenericAllocationHandle number = 0;
    CUdeviceptr at = 0;
    pthread_mutex_lock(&hri_self.spill);
    CUresult result = create(device, bytes, NULL, 0, &number);
    if (result == CUDA_SUCCESS) {
        result = map_range(device, bytes, number, &at);
        if (result != CUDA_SUCCESS) {
            release_number(number);
            number = 0;
        }
    }
    if (result != CUDA_SUCCESS) {
        result = alloc_pinned(bytes, &at);
    }
    if (result == CUDA_SUCCESS) {
        pthread_mutex_lock(&hri_self.lock);
        hri_held_entry *handle =
            number ? hri_held_find(&hri_self.table, HRI_KIND_HANDLE, number) : NULL;
        if (handle) {
            handle->b = 1;
        }
        /* Two entries more: the table has room for them, or the host has no memory for a table either. */
        hri_held_add(&hri_self.table, (hri_held_entry){.key = at,
                                                       .kind = HRI_KIND_SPILLED,
                                                       .device = device,
                                                       .a = asked,
                                                       .b = bytes,
                                                       .c = number});
        if (number) {
            hri_held_add(&hri_self.table, (hri_held_entry){.key = at,
                                                           .kind = HRI_KIND_MAPPING,
                                                           .device = device,
                                                           .a = number,
                                                           .b = bytes});
        }
        pthread_mutex_unlock(&hri_self.lock);
        count(1);
        *out = at;
    }
    pthread_mutex_unlock(&hri_self.spill);
    return result;
}

/* ---- ending ---- */

/* Ends one of cuMemAlloc; the GPU has done with it.  Under spill. */
static void end(const hri_held_entry *e, hri_hook call) {
    if (!e->c) {
        host_free_fn *give = (host_free_fn *)hri_driver_function("cuMemFreeHost");
        (void)(give && give((void *)(uintptr_t)e->key) == CUDA_SUCCESS);
        hri_spill_give_host(e->device, e->b);
        return;
    }
    release_range_fn *give = (release_range_fn *)hri_driver_function("cuMemAddressFree");
    const uint64_t charged = look_up(HRI_KIND_HANDLE, e->c).bytes;
    (void)HRI_CALL(cuMemUnmap, e->key, e->b);
    remove_entry(HRI_KIND_MAPPING, e->key);
    hri_spill_drop(e->c, call);
    if (give) {
        (void)give(e->key, e->b);
    }
    if (charged) {
        hri_give(e->device, charged, call);
    }
}

/* Those that were freed while a stream captured.  Under spill. */
static void sweep(hri_hook call) {
    for (;;) {
        hri_held_entry found = {0};
        pthread_mutex_lock(&hri_self.lock);
        for (size_t i = 0; i < hri_self.table.room && !found.kind; i++) {
            hri_held_entry *e = &hri_self.table.entries[i];
            if (e->kind == HRI_KIND_FREED) {
                found = *e;
                hri_held_remove(&hri_self.table, e);
            }
        }
        pthread_mutex_unlock(&hri_self.lock);
        if (!found.kind) {
            return;
        }
        end(&found, call);
        count(-1);
    }
}

bool hri_spill_free(CUdeviceptr at, hri_hook call) {
    if (!hri_spill_any()) {
        return false;
    }
    pthread_mutex_lock(&hri_self.spill);
    hri_held_entry e = look_up(HRI_KIND_SPILLED, at);
    if (e.kind) {
        remove_entry(HRI_KIND_SPILLED, at);
        const bool now = !__atomic_load_n(&hri_self.captures, __ATOMIC_ACQUIRE) &&
                         HRI_CALL(cuCtxSynchronize) == CUDA_SUCCESS;
        if (now) {
            end(&e, call);
            count(-1);
            sweep(call);
        } else {
            e.kind = HRI_KIND_FREED;
            pthread_mutex_lock(&hri_self.lock);
            hri_held_add(&hri_self.table, e);
            pthread_mutex_unlock(&hri_self.lock);
        }
    }
    pthread_mutex_unlock(&hri_self.spill);
    return e.kind != HRI_KIND_NONE;
}

void hri_spill_context_ended(int device) {
    pthread_mutex_lock(&hri_self.spill);
    for (bool more = hri_spill_any(); more;) {
        hri_held_entry found = {0};
        pthread_mutex_lock(&hri_self.lock);
        for (size_t i = 0; i < hri_self.table.room && !found.kind; i++) {
            const hri_held_entry *e = &hri_self.table.entries[i];
            found = e->kind == HRI_KIND_SPILLED && e->device == device ? *e : found;
        }
        pthread_mutex_unlock(&hri_self.lock);
        more = found.kind != HRI_KIND_NONE;
        if (more) {
            remove_entry(HRI_KIND_SPILLED, found.key);
            end(&found, HRI_HOOK_cuDevicePrimaryCtxReset_v2);
            count(-1);
        }
    }
    pthread_mutex_unlock(&hri_self.spill);
}

/* ---- finding ---- */

bool hri_spill_find(CUdeviceptr at, hri_spill_place *out) {
    bool found = false;
    if (!hri_spill_any()) {
        return false;
    }
    pthread_mutex_lock(&hri_self.lock);
    for (size_t i = 0; i < hri_self.table.room; i++) {
        const hri_held_entry *e = &hri_self.table.entries[i];
        if ((e->kind != HRI_KIND_SPILLED && e->kind != HRI_KIND_MAPPING) || at < e->key ||
            at - e->key >= e->b) {
            continue;
        }
        const bool plain = e->kind == HRI_KIND_SPILLED;
        const uint64_t number = plain ? e->c : e->a;
        const hri_held_entry *s = hri_held_find(&hri_self.table, HRI_KIND_SPILL, number);
        if (!s && !(plain && !number)) {
            continue; /* a mapping of memory that was never spilled */
        }
        if (!found || plain) { /* what cuMemAlloc gave says more than its mapping */
            *out = (hri_spill_place){.device = e->device,
                                     .host = !s || (s->c & HRI_SPILL_HOST),
                                     .plain = plain,
                                     .base = e->key,
                                     .bytes = plain ? e->a : e->b};
        }
        found = true;
    }
    pthread_mutex_unlock(&hri_self.lock);
    return found;
}
