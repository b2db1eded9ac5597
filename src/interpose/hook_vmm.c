/* Virtual memory: cuMemCreate and what keeps its memory alive.
 *
 * Physical memory dies with the last of its handle references (create, retain, import) and mappings, in whatever order they
 * go; NCCL retains, releases, unmaps and releases.  So an entry counts both, and only the last one gives bytes back.  Memory
 * at another place than a device (a host NUMA node) costs the device nothing; imported memory is its creator's.
 *
 * The lock is held over the driver's call: a handle that the driver gives back may come again at once for another thread.
 *
 * Memory that was spilled has a number of ours for a handle (spill.h), with one reference of the driver's behind it for as long as
 * the program has any: its references and mappings are counted here alone. */
#include "interpose/spill.h"
#include "interpose/record.h"

/* Compressed memory, tile pools and what else only a device has is never spilled. */
static bool can_spill(const CUmemAllocationProp *prop, uint64_t bytes) {
    return !prop->allocFlags.compressionType && !prop->allocFlags.usage && prop->type == 1 &&
           bytes % HRI_BLOCK == 0;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *out, size_t bytes,
                     const CUmemAllocationProp *prop, unsigned long long flags) {
    if (!hri_enter()) {
        return HRI_CALL(cuMemCreate, out, bytes, prop, flags);
    }
    const int device = out && prop && prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
                               hri_device_open(prop->location.id) == 0
                           ? prop->location.id
                           : -1;
    const uint64_t cost = (bytes + HRI_BLOCK - 1) / HRI_BLOCK * HRI_BLOCK;
    if (device < 0) {
        return hri_leave(HRI_CALL(cuMemCreate, out, bytes, prop, flags));
    }
    bool host = false;
    CUresult result = can_spill(prop, bytes)
                          ? hri_spill_take(device, cost, HRI_HOOK_cuMemCreate, &host)
                          : hri_take(device, cost, HRI_HOOK_cuMemCreate);
    if (result == CUDA_SUCCESS && host) {
        result = hri_spill_create(device, bytes, prop, out);
        if (result == CUDA_SUCCESS) {
            return hri_leave(result);
        }
        hri_spill_give_host(device,
                            cost); /* the driver has no such memory: the device or nothing */
        result = hri_take(device, cost, HRI_HOOK_cuMemCreate);
    }
    if (result != CUDA_SUCCESS) {
        return hri_leave(result);
    }
    pthread_mutex_lock(&hri_self.lock);
    result = hri_held_reserve(&hri_self.table, 1) == 0
                 ? HRI_CALL(cuMemCreate, out, bytes, prop, flags)
                 : CUDA_ERROR_OUT_OF_MEMORY;
    if (result == CUDA_SUCCESS) {
        hri_held_add(
            &hri_self.table,
            (hri_held_entry){
                .key = *out, .kind = HRI_KIND_HANDLE, .device = device, .bytes = cost, .a = 1});
    }
    pthread_mutex_unlock(&hri_self.lock);
    if (result != CUDA_SUCCESS) {
        if (result == CUDA_ERROR_OUT_OF_MEMORY) {
            hri_driver_refused(device, cost, HRI_HOOK_cuMemCreate);
        }
        hri_give(device, cost, HRI_HOOK_cuMemCreate);
    }
    return hri_leave(result);
}

/* Removes the entry when nothing holds it any more; *out is the entry as it was.  Under lock. */
static bool dead(hri_held_entry *e, hri_held_entry *out) {
    *out = *e;
    if (e->a || e->b) {
        return false;
    }
    if (!hri_spill_is_handle(e->key)) { /* of ours there is more to end */
        hri_held_remove(&hri_self.table, e);
    }
    return true;
}

/* After the last reference: what is behind a number of ours goes, and the bytes of the device. */
static void bury(const hri_held_entry *was, hri_hook call) {
    if (hri_spill_is_handle(was->key)) {
        hri_spill_drop(was->key, call);
    }
    if (was->bytes) {
        hri_give(was->device, was->bytes, call);
    }
}

/* A number of ours: the driver's own reference goes with the last of the program's. */
static CUresult release_spilled(CUmemGenericAllocationHandle handle) {
    hri_held_entry was = {0};
    bool gone = false;
    pthread_mutex_lock(&hri_self.spill);
    pthread_mutex_lock(&hri_self.lock);
    hri_held_entry *e = hri_held_find(&hri_self.table, HRI_KIND_HANDLE, handle);
    const CUresult result = e && e->a ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS) {
        e->a--;
        gone = dead(e, &was);
    }
    pthread_mutex_unlock(&hri_self.lock);
    if (gone) {
        bury(&was, HRI_HOOK_cuMemRelease);
    }
    pthread_mutex_unlock(&hri_self.spill);
    return result;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
    if (!hri_enter()) {
        return HRI_CALL(cuMemRelease, handle);
    }
    if (hri_spill_is_handle(handle)) {
        return hri_leave(release_spilled(handle));
    }
    hri_held_entry was = {0};
    bool gone = false;
    pthread_mutex_lock(&hri_self.lock);
    const CUresult result = HRI_CALL(cuMemRelease, handle);
    hri_held_entry *e = hri_held_find(&hri_self.table, HRI_KIND_HANDLE, handle);
    if (result == CUDA_SUCCESS && e && e->a) {
        e->a--;
        gone = dead(e, &was);
    }
    pthread_mutex_unlock(&hri_self.lock);
    if (gone) {
        bury(&was, HRI_HOOK_cuMemRelease);
        hri_spill_tick();
    }
    return hri_leave(result);
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *out, void *at) {
    if (!hri_enter()) {
        return HRI_CALL(cuMemRetainAllocationHandle, out, at);
    }
    pthread_mutex_lock(&hri_self.spill);
    pthread_mutex_lock(&hri_self.lock);
    CUmemGenericAllocationHandle handle = 0;
    const CUresult result = HRI_CALL(cuMemRetainAllocationHandle, &handle, at);
    pthread_mutex_unlock(&hri_self.lock);
    if (result == CUDA_SUCCESS && hri_spill_any()) {
        const CUmemGenericAllocationHandle number = hri_spill_number(handle);
        if (number) {
            (void)HRI_CALL(cuMemRelease, handle);
            handle = number;
        }
    }
    pthread_mutex_lock(&hri_self.lock);
    hri_held_entry *e =
        result == CUDA_SUCCESS ? hri_held_find(&hri_self.table, HRI_KIND_HANDLE, handle) : NULL;
    if (e) {
        e->a++;
    }
    pthread_mutex_unlock(&hri_self.lock);
    pthread_mutex_unlock(&hri_self.spill);
    if (result == CUDA_SUCCESS && out) {
        *out = handle;
    }
    return hri_leave(result);
}

CUresult cuMemMap(CUdeviceptr at, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long flags) {
    if (!hri_enter()) {
        return HRI_CALL(cuMemMap, at, bytes, offset, handle, flags);
    }
    const bool ours = hri_spill_is_handle(handle);
    CUmemGenericAllocationHandle real = handle;
    if (ours) {
        pthread_mutex_lock(&hri_self.spill);
        real = hri_spill_real(handle);
    }
    pthread_mutex_lock(&hri_self.lock);
    CUresult result = hri_held_reserve(&hri_self.table, 1) == 0
                          ? HRI_CALL(cuMemMap, at, bytes, offset, real, flags)
                          : CUDA_ERROR_OUT_OF_MEMORY;
    hri_held_entry *e = hri_held_find(&hri_self.table, HRI_KIND_HANDLE, handle);
    if (result == CUDA_SUCCESS && e) {
        e->b++;
        /* The size of a mapping is no charge: it lies in b. */
        hri_held_add(
            &hri_self.table,
            (hri_held_entry){
                .key = at, .kind = HRI_KIND_MAPPING, .device = e->device, .a = handle, .b = bytes});
    }
    pthread_mutex_unlock(&hri_self.lock);
    if (ours) {
        if (offset) {
            hri_spill_keep(
                handle); /* no driver does this yet; when one does, it stays where it is */
        }
        pthread_mutex_unlock(&hri_self.spill);
    }
    if (result == CUDA_SUCCESS && !ours) {
        hri_record_alloc(-1, at, bytes, HRI_HOOK_cuMemMap);
    }
    return hri_leave(result);
}

CUresult cuMemUnmap(CUdeviceptr at, size_t bytes) {
    if (!hri_enter()) {
        return HRI_CALL(cuMemUnmap, at, bytes);
    }
    const bool careful = hri_spill_any();
    if (careful) {
        pthread_mutex_lock(&hri_self.spill);
    }
    pthread_mutex_lock(&hri_self.lock);
    const CUresult result = HRI_CALL(cuMemUnmap, at, bytes);
    for (uint64_t next = at; result == CUDA_SUCCESS && next < at + bytes;) {
        hri_held_entry *m = hri_held_find(&hri_self.table, HRI_KIND_MAPPING, next);
        if (!m) {
            next += HRI_BLOCK; /* a mapping of memory that is not ours to count */
            continue;
        }
        const uint64_t handle = m->a;
        next += m->b ? m->b : HRI_BLOCK;
        hri_held_remove(&hri_self.table, m);
        hri_held_entry *e = hri_held_find(&hri_self.table, HRI_KIND_HANDLE, handle);
        hri_held_entry was;
        if (e && e->b) {
            e->b--;
            if (dead(e, &was)) {
                pthread_mutex_unlock(&hri_self.lock);
                bury(&was, HRI_HOOK_cuMemUnmap);
                pthread_mutex_lock(&hri_self.lock);
            }
        }
    }
    pthread_mutex_unlock(&hri_self.lock);
    if (careful) {
        pthread_mutex_unlock(&hri_self.spill);
    }
    if (result == CUDA_SUCCESS) {
        hri_record_free(-1, at, HRI_HOOK_cuMemUnmap);
    }
    hri_spill_tick();
    return hri_leave(result);
}

/* A handle that was imported is its creator's memory: it has no entry, and nothing is charged. */
CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *out, void *from, int type) {
    return HRI_CALL(cuMemImportFromShareableHandle, out, from, type);
}
