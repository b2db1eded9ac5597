/* What programs ask about memory that was spilled, and the calls in which it may come back; see spill.h.
 *
 * Spilled memory is device memory for the program: XLA and everybody who takes tensors over from another framework look at
 * the type of a pointer.  What cannot be kept up is refused: old handles for other processes do not exist for it. */
#include <string.h>

#include "interpose/spill.h"

CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *bytes, CUdeviceptr at) {
    hri_spill_place place;
    if (!hri_spill_find(at, &place) || !place.plain) {
        return HRI_CALL(cuMemGetAddressRange_v2, base, bytes, at);
    }
    if (base) {
        *base = place.base;
    }
    if (bytes) {
        *bytes = place.bytes;
    }
    return CUDA_SUCCESS;
}

/* Overrides what the driver says of a spilled address; true when it is known here. */
static bool answer(const hri_spill_place *place, CUdeviceptr at, int which, void *value) {
    const int number = which == CU_POINTER_ATTRIBUTE_MEMORY_TYPE      ? CU_MEMORYTYPE_DEVICE
                       : which == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL ? place->device
                                                                      : 0;
    const CUdeviceptr start = which == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR ? place->base : at;
    const size_t bytes = place->bytes;
    switch (which) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        memcpy(value, &number, sizeof number);
        return true;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        *(unsigned char *)value = 0;
        return true;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        memcpy(value, &start, sizeof start);
        return true;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        if (place->plain) {
            memcpy(value, &start, sizeof start);
        }
        return place->plain;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        if (place->plain) {
            memcpy(value, &bytes, sizeof bytes);
        }
        return place->plain;
    default:
        return false;
    }
}

CUresult cuPointerGetAttribute(void *value, int which, CUdeviceptr at) {
    hri_spill_place place;
    if (value && hri_spill_find(at, &place)) {
        if (which == CU_POINTER_ATTRIBUTE_HOST_POINTER) {
            return CUDA_ERROR_INVALID_VALUE; /* as device memory answers */
        }
        if (answer(&place, at, which, value)) {
            return CUDA_SUCCESS;
        }
    }
    return HRI_CALL(cuPointerGetAttribute, value, which, at);
}

CUresult cuPointerGetAttributes(unsigned int count, int *which, void **values, CUdeviceptr at) {
    hri_spill_place place;
    const CUresult result = HRI_CALL(cuPointerGetAttributes, count, which, values, at);
    if (result == CUDA_SUCCESS && hri_spill_find(at, &place)) {
        for (unsigned int i = 0; i < count; i++) {
            if (values[i] && which[i] == CU_POINTER_ATTRIBUTE_HOST_POINTER) {
                memset(values[i], 0, sizeof(void *));
            } else if (values[i]) {
                (void)answer(&place, at, which[i], values[i]);
            }
        }
    }
    return result;
}

/* The caller rounds with what the device wants; the host may want more. */
CUresult cuMemGetAllocationGranularity(size_t *bytes, const CUmemAllocationProp *prop, int option) {
    const CUresult result = HRI_CALL(cuMemGetAllocationGranularity, bytes, prop, option);
    if (result == CUDA_SUCCESS && hri_spill_on() && prop &&
        prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE) {
        const CUmemAllocationProp host = {.type = 1,
                                          .location = {CU_MEM_LOCATION_TYPE_HOST_NUMA, 0}};
        size_t more = 0;
        if (HRI_CALL(cuMemGetAllocationGranularity, &more, &host, option) == CUDA_SUCCESS &&
            more > *bytes) {
            *bytes = more;
        }
    }
    return result;
}

CUresult cuMemExportToShareableHandle(void *out, CUmemGenericAllocationHandle handle, int type,
                                      unsigned long long flags) {
    if (!hri_spill_is_handle(handle)) {
        return HRI_CALL(cuMemExportToShareableHandle, out, handle, type, flags);
    }
    pthread_mutex_lock(&hri_self.spill);
    const CUmemGenericAllocationHandle real = hri_spill_real(handle);
    const CUresult result = real ? HRI_CALL(cuMemExportToShareableHandle, out, real, type, flags)
                                 : CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS) {
        hri_spill_keep(handle); /* another process has it now */
    }
    pthread_mutex_unlock(&hri_self.spill);
    return result;
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *out,
                                                CUmemGenericAllocationHandle handle) {
    if (!hri_spill_is_handle(handle)) {
        return HRI_CALL(cuMemGetAllocationPropertiesFromHandle, out, handle);
    }
    pthread_mutex_lock(&hri_self.spill);
    const CUmemGenericAllocationHandle real = hri_spill_real(handle);
    const CUresult result = real ? HRI_CALL(cuMemGetAllocationPropertiesFromHandle, out, real)
                                 : CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&hri_self.lock);
    const hri_held_entry *e = hri_held_find(&hri_self.table, HRI_KIND_SPILL, handle);
    if (result == CUDA_SUCCESS && e) {
        out->location = (CUmemLocation){CU_MEM_LOCATION_TYPE_DEVICE, e->device};
    }
    pthread_mutex_unlock(&hri_self.lock);
    pthread_mutex_unlock(&hri_self.spill);
    return result;
}

CUresult cuMulticastBindMem(CUmemGenericAllocationHandle object, size_t at,
                            CUmemGenericAllocationHandle handle, size_t from, size_t bytes,
                            unsigned long long flags) {
    return hri_spill_is_handle(handle)
               ? CUDA_ERROR_NOT_SUPPORTED /* only memory of a device can be written by all */
               : HRI_CALL(cuMulticastBindMem, object, at, handle, from, bytes, flags);
}

/* ---- calls that wait for the GPU ---- */

static CUresult waited(CUresult result) {
    if (hri_spill_any() && hri_enter()) {
        hri_spill_tick();
        (void)hri_leave(result);
    }
    return result;
}

CUresult cuCtxSynchronize(void) {
    return waited(HRI_CALL(cuCtxSynchronize));
}

CUresult cuStreamSynchronize(CUstream stream) {
    return waited(HRI_CALL(cuStreamSynchronize, stream));
}

CUresult cuStreamSynchronize_ptsz(CUstream stream) {
    return waited(HRI_CALL(cuStreamSynchronize_ptsz, stream));
}

CUresult cuEventSynchronize(CUevent event) {
    return waited(HRI_CALL(cuEventSynchronize, event));
}
