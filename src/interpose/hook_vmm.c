/* Virtual memory: cuMemCreate and what keeps its memory alive.
 *
 * Physical memory dies with the last of its handle references (create, retain, import) and mappings, in whatever order they
 * go; NCCL retains, releases, unmaps and releases.  So an entry counts both, and only the last one gives bytes back.  Memory
 * at another place than a device (a host NUMA node) costs the device nothing; imported memory is its creator's.
 *
 * The lock is held over the driver's call: a handle that the driver gives back may come again at once for another thread. */
#include "interpose/govern.h"

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
    CUresult result = hri_take(device, cost, HRI_HOOK_cuMemCreate);
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

/* Removes the entry when nothing holds it any more; returns it as it was, bytes 0 when it lives on.  Under lock. */
static hri_held_entry drop_if_dead(hri_held_entry *e) {
    hri_held_entry was = *e;
    if (e->a == 0 && e->b == 0) {
        hri_held_remove(&hri_self.table, e);
    } else {
        was.bytes = 0;
    }
    return was;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
    if (!hri_enter()) {
        return HRI_CALL(cuMemRelease, handle);
    }
    hri_held_entry was = {0};
    pthread_mutex_lock(&hri_self.lock);
    const CUresult result = HRI_CALL(cuMemRelease, handle);
    hri_held_entry *e = hri_held_find(&hri_self.table, HRI_KIND_HANDLE, handle);
    if (result == CUDA_SUCCESS && e && e->a) {
        e->a--;
        was = drop_if_dead(e);
    }
    pthread_mutex_unlock(&hri_self.lock);
    if (was.bytes) {
        hri_give(was.device, was.bytes, HRI_HOOK_cuMemRelease);
    }
    return hri_leave(result);
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *out, void *at) {
    if (!hri_enter()) {
        return HRI_CALL(cuMemRetainAllocationHandle, out, at);
    }
    pthread_mutex_lock(&hri_self.lock);
    const CUresult result = HRI_CALL(cuMemRetainAllocationHandle, out, at);
    if (result == CUDA_SUCCESS) {
        hri_held_entry *e = hri_held_find(&hri_self.table, HRI_KIND_HANDLE, *out);
        if (e) {
            e->a++;
        }
    }
    pthread_mutex_unlock(&hri_self.lock);
    return hri_leave(result);
}

CUresult cuMemMap(CUdeviceptr at, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long flags) {
    if (!hri_enter()) {
        return HRI_CALL(cuMemMap, at, bytes, offset, handle, flags);
    }
    pthread_mutex_lock(&hri_self.lock);
    CUresult result = hri_held_reserve(&hri_self.table, 1) == 0
                          ? HRI_CALL(cuMemMap, at, bytes, offset, handle, flags)
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
    return hri_leave(result);
}

CUresult cuMemUnmap(CUdeviceptr at, size_t bytes) {
    if (!hri_enter()) {
        return HRI_CALL(cuMemUnmap, at, bytes);
    }
    uint64_t freed[HRI_RUN_DEVICES] = {0};
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
        if (e && e->b) {
            e->b--;
            const hri_held_entry was = drop_if_dead(e);
            freed[was.device] += was.bytes;
        }
    }
    pthread_mutex_unlock(&hri_self.lock);
    for (int i = 0; i < HRI_RUN_DEVICES; i++) {
        if (freed[i]) {
            hri_give(i, freed[i], HRI_HOOK_cuMemUnmap);
        }
    }
    return hri_leave(result);
}

/* A handle that was imported is its creator's memory: it has no entry, and nothing is charged. */
CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *out, void *from, int type) {
    return HRI_CALL(cuMemImportFromShareableHandle, out, from, type);
}
