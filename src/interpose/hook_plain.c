/* cuMemAlloc and its family, arrays, managed memory and memory of other processes.
 *
 * Plain memory is charged by the 2 MiB blocks that it lies in: the driver puts small allocations together in one block and
 * gives the block back when the last of them has gone.  Before the call nobody knows where the memory will lie, so the
 * most that it can cost is taken first and the rest given back.
 *
 * Managed memory is not charged: which part of it lies on the device is the driver's affair and changes by itself.  It is
 * shown by the page's count of calls.  Memory opened from another process is that process's. */
#include <string.h>

#include "interpose/spill.h"
#include "interpose/record.h"

static uint64_t up(uint64_t bytes) {
    return (bytes + HRI_BLOCK - 1) / HRI_BLOCK * HRI_BLOCK;
}

/* ---- blocks ---- */

/* Counts a user of the block more (or less); returns 1 when it is the first (or was the last).  Under lock. */
static int use_block(int device, uint64_t block) {
    hri_held_entry *e = hri_held_find(&hri_self.table, HRI_KIND_BLOCK, block);
    if (e) {
        e->a++;
        return 0;
    }
    hri_held_add(&hri_self.table,
                 (hri_held_entry){.key = block, .kind = HRI_KIND_BLOCK, .device = device, .a = 1});
    return 1;
}

static int leave_block(uint64_t block) {
    hri_held_entry *e = hri_held_find(&hri_self.table, HRI_KIND_BLOCK, block);
    if (e && --e->a == 0) {
        hri_held_remove(&hri_self.table, e);
        return 1;
    }
    return 0;
}

/* The blocks of [at, at + bytes) that nobody else uses; only the first and the last can be shared.  Under lock. */
static uint64_t use_blocks(int device, uint64_t at, uint64_t bytes, int enter) {
    const uint64_t first = at / HRI_BLOCK, last = (at + bytes - 1) / HRI_BLOCK;
    uint64_t own = last - first > 1 ? last - first - 1 : 0;
    own += (uint64_t)(enter ? use_block(device, first) : leave_block(first));
    if (last != first) {
        own += (uint64_t)(enter ? use_block(device, last) : leave_block(last));
    }
    return own * HRI_BLOCK;
}

/* Takes for `bytes`: with a block to spare where the memory may lie across one more, without it when there is none.  *out_host:
 * the bytes are the host's. */
static CUresult take_blocks(int device, uint64_t bytes, hri_hook call, uint64_t *out_taken,
                            bool *out_host) {
    const uint64_t plain = up(bytes), more = bytes % HRI_BLOCK ? plain + HRI_BLOCK : plain;
    *out_host = false;
    if (bytes > UINT64_MAX / 4) {
        *out_taken = 0;
        return CUDA_SUCCESS; /* the driver knows what to say */
    }
    *out_taken = more;
    if (more != plain && !hri_spill_prefers_host(device, more) &&
        hri_try_take(device, more, call) == CUDA_SUCCESS) {
        return CUDA_SUCCESS;
    }
    *out_taken = plain;
    return hri_spill_take(device, plain, call, out_host);
}

/* After the driver's call: the memory is written down, what was taken too much is given back.  CUDA_ERROR_OUT_OF_MEMORY when
 * it turned out to cost more than was taken; then the caller frees it again. */
static CUresult settle(int device, CUresult result, uint64_t at, uint64_t bytes, uint64_t taken,
                       hri_hook call) {
    if (result != CUDA_SUCCESS) {
        if (result == CUDA_ERROR_OUT_OF_MEMORY && taken) {
            hri_driver_refused(device, bytes, call);
        }
        hri_give(device, taken, call);
        return result;
    }
    const uint64_t context = hri_context_now();
    pthread_mutex_lock(&hri_self.lock);
    uint64_t own = 0;
    if (hri_held_reserve(&hri_self.table, 3) == 0) {
        own = use_blocks(device, at, bytes, 1);
        hri_held_add(&hri_self.table, (hri_held_entry){.key = at,
                                                       .kind = HRI_KIND_MEMORY,
                                                       .device = device,
                                                       .bytes = own,
                                                       .a = bytes,
                                                       .b = context});
    } else {
        own = UINT64_MAX;
    }
    pthread_mutex_unlock(&hri_self.lock);
    if (own == UINT64_MAX) {
        hri_give(device, taken, call);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (own <= taken) {
        hri_give(device, taken - own, call);
        hri_record_alloc(device, at, bytes, call);
        return CUDA_SUCCESS;
    }
    if (hri_take(device, own - taken, call) == CUDA_SUCCESS) {
        hri_record_alloc(device, at, bytes, call);
        return CUDA_SUCCESS;
    }
    pthread_mutex_lock(&hri_self.lock);
    hri_held_entry *e = hri_held_find(&hri_self.table, HRI_KIND_MEMORY, at);
    if (e) {
        hri_held_remove(&hri_self.table, e);
    }
    const uint64_t freed = use_blocks(device, at, bytes, 0);
    pthread_mutex_unlock(&hri_self.lock);
    hri_give(device, freed < taken ? freed : taken, call);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

/* The bytes were taken from the host.  When it has no memory after all, the program is refused. */
static CUresult alloc_on_host(int device, uint64_t asked, uint64_t taken, hri_hook call,
                              CUdeviceptr *out) {
    const CUresult result = hri_spill_alloc(device, asked, taken, out);
    if (result == CUDA_SUCCESS) {
        return result;
    }
    hri_spill_give_host(device, taken);
    hri_page_refuse(device, HRI_PAGE_REFUSE_LIMIT, asked, call, 0);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuMemAlloc_v2(CUdeviceptr *out, size_t bytes) {
    const int device = hri_enter() ? hri_current_device() : -2;
    if (device < 0 || !out || !bytes) {
        const CUresult result = HRI_CALL(cuMemAlloc_v2, out, bytes);
        return device == -2 ? result : hri_leave(result);
    }
    uint64_t taken;
    bool host;
    CUresult result = take_blocks(device, bytes, HRI_HOOK_cuMemAlloc_v2, &taken, &host);
    if (result != CUDA_SUCCESS) {
        return hri_leave(result);
    }
    if (host) {
        return hri_leave(alloc_on_host(device, bytes, taken, HRI_HOOK_cuMemAlloc_v2, out));
    }
    CUdeviceptr at = 0;
    result = HRI_CALL(cuMemAlloc_v2, &at, bytes);
    const CUresult settled = settle(device, result, at, bytes, taken, HRI_HOOK_cuMemAlloc_v2);
    if (result == CUDA_SUCCESS && settled != CUDA_SUCCESS) {
        (void)HRI_CALL(cuMemFree_v2, at);
    } else if (settled == CUDA_SUCCESS) {
        *out = at;
    }
    return hri_leave(settled);
}

CUresult cuMemAllocPitch_v2(CUdeviceptr *out, size_t *pitch, size_t width, size_t height,
                            unsigned int element) {
    const int device = hri_enter() ? hri_current_device() : -2;
    if (device < 0 || !out || !pitch || !width || !height || width > (1ull << 40) ||
        height > (1ull << 40)) {
        const CUresult result = HRI_CALL(cuMemAllocPitch_v2, out, pitch, width, height, element);
        return device == -2 ? result : hri_leave(result);
    }
    /* Rows are padded to at most 512 bytes, as far as drivers go. */
    const uint64_t most = (width + 511) / 512 * 512 * height;
    uint64_t taken;
    bool host;
    CUresult result = take_blocks(device, most, HRI_HOOK_cuMemAllocPitch_v2, &taken, &host);
    if (result != CUDA_SUCCESS) {
        return hri_leave(result);
    }
    if (host) {
        result = alloc_on_host(device, most, taken, HRI_HOOK_cuMemAllocPitch_v2, out);
        *pitch = result == CUDA_SUCCESS ? most / height : *pitch;
        return hri_leave(result);
    }
    CUdeviceptr at = 0;
    size_t row = 0;
    result = HRI_CALL(cuMemAllocPitch_v2, &at, &row, width, height, element);
    const CUresult settled =
        settle(device, result, at, (uint64_t)row * height, taken, HRI_HOOK_cuMemAllocPitch_v2);
    if (result == CUDA_SUCCESS && settled != CUDA_SUCCESS) {
        (void)HRI_CALL(cuMemFree_v2, at);
    } else if (settled == CUDA_SUCCESS) {
        *out = at;
        *pitch = row;
    }
    return hri_leave(settled);
}

/* The first form, with addresses of 32 bits: what it gives is charged as any other. */
CUresult cuMemAlloc(unsigned int *out, unsigned int bytes) {
    const int device = hri_enter() ? hri_current_device() : -2;
    if (device < 0 || !out || !bytes) {
        const CUresult result = HRI_CALL(cuMemAlloc, out, bytes);
        return device == -2 ? result : hri_leave(result);
    }
    const uint64_t taken = up(bytes) + HRI_BLOCK;
    CUresult result = hri_take(device, taken, HRI_HOOK_cuMemAlloc);
    if (result == CUDA_SUCCESS) {
        unsigned int at = 0;
        result = HRI_CALL(cuMemAlloc, &at, bytes);
        const CUresult settled = settle(device, result, at, bytes, taken, HRI_HOOK_cuMemAlloc);
        if (result == CUDA_SUCCESS && settled != CUDA_SUCCESS) {
            (void)HRI_CALL(cuMemFree, at);
        } else if (settled == CUDA_SUCCESS) {
            *out = at;
        }
        result = settled;
    }
    return hri_leave(result);
}

CUresult cuMemFree(unsigned int at) {
    if (!hri_enter()) {
        return HRI_CALL(cuMemFree, at);
    }
    const hri_held_entry was = hri_plain_forget(at);
    const CUresult result = HRI_CALL(cuMemFree, at);
    hri_plain_freed(&was, result, HRI_HOOK_cuMemFree);
    return hri_leave(result);
}

/* Memory of somebody else is his; that it is used here is on the page. */
static CUresult imported(CUresult result, hri_hook call) {
    const int device = result == CUDA_SUCCESS && hri_enter() ? hri_current_device() : -2;
    if (device >= 0) {
        hri_page_event_add(device, HRI_PAGE_TAKE, 0, call);
    }
    return device == -2 ? result : hri_leave(result);
}

CUresult cuImportExternalMemory(void **out, const void *description) {
    return imported(HRI_CALL(cuImportExternalMemory, out, description),
                    HRI_HOOK_cuImportExternalMemory);
}

CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool *out, void *from, int type,
                                            unsigned long long flags) {
    return imported(HRI_CALL(cuMemPoolImportFromShareableHandle, out, from, type, flags),
                    HRI_HOOK_cuMemPoolImportFromShareableHandle);
}

static void note(hri_kind kind, uint64_t key) {
    pthread_mutex_lock(&hri_self.lock);
    hri_held_add(&hri_self.table, (hri_held_entry){.key = key, .kind = kind});
    pthread_mutex_unlock(&hri_self.lock);
}

CUresult cuMemAllocManaged(CUdeviceptr *out, size_t bytes, unsigned int flags) {
    const int device = hri_enter() ? hri_current_device() : -2;
    const CUresult result = HRI_CALL(cuMemAllocManaged, out, bytes, flags);
    if (device == -2) {
        return result;
    }
    if (device >= 0 && result == CUDA_SUCCESS) {
        note(HRI_KIND_MANAGED, *out);
        hri_page_event_add(device, HRI_PAGE_TAKE, 0, HRI_HOOK_cuMemAllocManaged);
    }
    return hri_leave(result);
}

/* The entry goes before the driver's call, so that an address that another thread gets at once finds no old one. */
hri_held_entry hri_plain_forget(CUdeviceptr at) {
    static const hri_kind kinds[] = {HRI_KIND_MEMORY, HRI_KIND_MANAGED};
    hri_held_entry was = {0};
    pthread_mutex_lock(&hri_self.lock);
    for (int i = 0; i < 2 && !was.kind; i++) {
        hri_held_entry *e = hri_held_find(&hri_self.table, kinds[i], at);
        if (e) {
            was = *e;
            hri_held_remove(&hri_self.table, e);
        }
    }
    pthread_mutex_unlock(&hri_self.lock);
    return was;
}

void hri_plain_freed(const hri_held_entry *was, CUresult result, hri_hook call) {
    if (result != CUDA_SUCCESS && was->kind) {
        pthread_mutex_lock(&hri_self.lock);
        hri_held_add(&hri_self.table, *was);
        pthread_mutex_unlock(&hri_self.lock);
    } else if (was->kind == HRI_KIND_MEMORY) {
        pthread_mutex_lock(&hri_self.lock);
        const uint64_t freed = use_blocks(was->device, was->key, was->a, 0);
        pthread_mutex_unlock(&hri_self.lock);
        hri_give(was->device, freed, call);
        hri_record_free(was->device, was->key, call);
    }
}

CUresult cuMemFree_v2(CUdeviceptr at) {
    if (!hri_enter()) {
        return HRI_CALL(cuMemFree_v2, at);
    }
    if (hri_spill_free(at, HRI_HOOK_cuMemFree_v2)) {
        hri_spill_tick();
        return hri_leave(CUDA_SUCCESS);
    }
    const hri_held_entry was = hri_plain_forget(at);
    const CUresult result = HRI_CALL(cuMemFree_v2, at);
    hri_plain_freed(&was, result, HRI_HOOK_cuMemFree_v2);
    hri_spill_tick();
    return hri_leave(result);
}

/* ---- arrays ---- */

static uint64_t element_bytes(int format, unsigned int channels) {
    const uint64_t one = format == 0x20 || format == 0x0a || format == 0x03   ? 4
                         : format == 0x10 || format == 0x09 || format == 0x02 ? 2
                                                                              : 1;
    /* Formats that are not plain numbers (compressed, planar): 4 bytes a channel is the most. */
    return (format > 0x20 ? 4 : one) * (channels ? channels : 1);
}

/* Rows padded to 512 bytes, the whole to blocks: at least what the driver takes for the shapes that frameworks use. */
static uint64_t array_bytes(const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned int levels) {
    const uint64_t row = (d->Width * element_bytes(d->Format, d->NumChannels) + 511) / 512 * 512;
    const uint64_t bytes = row * (d->Height ? d->Height : 1) * (d->Depth ? d->Depth : 1);
    return up(levels > 1 ? bytes + bytes / 2 : bytes);
}

static CUresult array_made(int device, CUresult result, uint64_t key, uint64_t bytes,
                           hri_hook call) {
    if (result == CUDA_SUCCESS) {
        const uint64_t context = hri_context_now();
        pthread_mutex_lock(&hri_self.lock);
        hri_held_add(&hri_self.table, (hri_held_entry){.key = key,
                                                       .kind = HRI_KIND_ARRAY,
                                                       .device = device,
                                                       .bytes = bytes,
                                                       .b = context});
        pthread_mutex_unlock(&hri_self.lock);
        return result;
    }
    if (result == CUDA_ERROR_OUT_OF_MEMORY) {
        hri_driver_refused(device, bytes, call);
    }
    hri_give(device, bytes, call);
    return result;
}

CUresult cuArrayCreate_v2(CUarray *out, const CUDA_ARRAY_DESCRIPTOR *descriptor) {
    const int device = hri_enter() ? hri_current_device() : -2;
    if (device < 0 || !out || !descriptor) {
        const CUresult result = HRI_CALL(cuArrayCreate_v2, out, descriptor);
        return device == -2 ? result : hri_leave(result);
    }
    const CUDA_ARRAY3D_DESCRIPTOR d = {.Width = descriptor->Width,
                                       .Height = descriptor->Height,
                                       .Format = descriptor->Format,
                                       .NumChannels = descriptor->NumChannels};
    const uint64_t bytes = array_bytes(&d, 1);
    CUresult result = hri_take(device, bytes, HRI_HOOK_cuArrayCreate_v2);
    if (result == CUDA_SUCCESS) {
        result = HRI_CALL(cuArrayCreate_v2, out, descriptor);
        result =
            array_made(device, result, (uint64_t)(uintptr_t)*out, bytes, HRI_HOOK_cuArrayCreate_v2);
    }
    return hri_leave(result);
}

CUresult cuArray3DCreate_v2(CUarray *out, const CUDA_ARRAY3D_DESCRIPTOR *descriptor) {
    const int device = hri_enter() ? hri_current_device() : -2;
    if (device < 0 || !out || !descriptor) {
        const CUresult result = HRI_CALL(cuArray3DCreate_v2, out, descriptor);
        return device == -2 ? result : hri_leave(result);
    }
    const uint64_t bytes = array_bytes(descriptor, 1);
    CUresult result = hri_take(device, bytes, HRI_HOOK_cuArray3DCreate_v2);
    if (result == CUDA_SUCCESS) {
        result = HRI_CALL(cuArray3DCreate_v2, out, descriptor);
        result = array_made(device, result, (uint64_t)(uintptr_t)*out, bytes,
                            HRI_HOOK_cuArray3DCreate_v2);
    }
    return hri_leave(result);
}

CUresult cuMipmappedArrayCreate(CUmipmappedArray *out, const CUDA_ARRAY3D_DESCRIPTOR *descriptor,
                                unsigned int levels) {
    const int device = hri_enter() ? hri_current_device() : -2;
    if (device < 0 || !out || !descriptor) {
        const CUresult result = HRI_CALL(cuMipmappedArrayCreate, out, descriptor, levels);
        return device == -2 ? result : hri_leave(result);
    }
    const uint64_t bytes = array_bytes(descriptor, levels);
    CUresult result = hri_take(device, bytes, HRI_HOOK_cuMipmappedArrayCreate);
    if (result == CUDA_SUCCESS) {
        result = HRI_CALL(cuMipmappedArrayCreate, out, descriptor, levels);
        result = array_made(device, result, (uint64_t)(uintptr_t)*out, bytes,
                            HRI_HOOK_cuMipmappedArrayCreate);
    }
    return hri_leave(result);
}

/* Takes an entry out; its kind is HRI_KIND_NONE when there was none. */
static hri_held_entry take_out(hri_kind kind, uint64_t key) {
    hri_held_entry was = {0};
    pthread_mutex_lock(&hri_self.lock);
    hri_held_entry *e = hri_held_find(&hri_self.table, kind, key);
    if (e) {
        was = *e;
        hri_held_remove(&hri_self.table, e);
    }
    pthread_mutex_unlock(&hri_self.lock);
    return was;
}

static CUresult array_gone(const hri_held_entry *was, CUresult result, hri_hook call) {
    if (was->kind && result == CUDA_SUCCESS) {
        hri_give(was->device, was->bytes, call);
    } else if (was->kind) {
        pthread_mutex_lock(&hri_self.lock);
        hri_held_add(&hri_self.table, *was);
        pthread_mutex_unlock(&hri_self.lock);
    }
    return hri_leave(result);
}

CUresult cuArrayDestroy(CUarray array) {
    if (!hri_enter()) {
        return HRI_CALL(cuArrayDestroy, array);
    }
    const hri_held_entry was = take_out(HRI_KIND_ARRAY, (uint64_t)(uintptr_t)array);
    return array_gone(&was, HRI_CALL(cuArrayDestroy, array), HRI_HOOK_cuArrayDestroy);
}

CUresult cuMipmappedArrayDestroy(CUmipmappedArray array) {
    if (!hri_enter()) {
        return HRI_CALL(cuMipmappedArrayDestroy, array);
    }
    const hri_held_entry was = take_out(HRI_KIND_ARRAY, (uint64_t)(uintptr_t)array);
    return array_gone(&was, HRI_CALL(cuMipmappedArrayDestroy, array),
                      HRI_HOOK_cuMipmappedArrayDestroy);
}

/* ---- between processes ---- */

CUresult cuIpcGetMemHandle(CUipcMemHandle *out, CUdeviceptr at) {
    hri_spill_place place;
    if (hri_spill_find(at, &place)) {
        return CUDA_ERROR_NOT_SUPPORTED; /* the driver has none for memory that is mapped */
    }
    return HRI_CALL(cuIpcGetMemHandle, out, at);
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *out, CUipcMemHandle handle, unsigned int flags) {
    const int governed = hri_enter();
    const CUresult result = HRI_CALL(cuIpcOpenMemHandle_v2, out, handle, flags);
    if (!governed) {
        return result;
    }
    if (result == CUDA_SUCCESS) {
        note(HRI_KIND_IPC, *out);
    }
    return hri_leave(result);
}

CUresult cuIpcCloseMemHandle(CUdeviceptr at) {
    if (!hri_enter()) {
        return HRI_CALL(cuIpcCloseMemHandle, at);
    }
    const CUresult result = HRI_CALL(cuIpcCloseMemHandle, at);
    if (result == CUDA_SUCCESS) {
        (void)take_out(HRI_KIND_IPC, at);
    }
    return hri_leave(result);
}
