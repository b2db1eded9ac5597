/* Where memory lies: what programs ask about a pointer.
 *
 * Memory of the host that a device sees answers as host memory does, so that whoever passes it off as the device's has to
 * say so himself. */
#include "fake.h"

#include <string.h>

enum { TYPE = 2, ORDINAL = 9, RANGE_START = 11, RANGE_BYTES = 12 };

CUresult fake_cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *desc, size_t count) {
    for (size_t i = 0; pool && desc && i < count; i++) {
        if (fake_device_of(desc[i].location.id) < 0) {
            return CUDA_ERROR_INVALID_DEVICE;
        }
    }
    return pool && desc ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult fake_cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location,
                             CUdeviceptr at) {
    uint64_t base, bytes;
    uint32_t access = 0;
    if (!flags || !location || location->type != CU_MEM_LOCATION_TYPE_DEVICE ||
        fake_device_of(location->id) < 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    pthread_mutex_lock(&fake_lock);
    const int device = fake_memory_place(at, &base, &bytes, &access);
    pthread_mutex_unlock(&fake_lock);
    *flags = access;
    return device == -2 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult fake_cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *bytes, CUdeviceptr at) {
    uint64_t from = 0, size = 0;
    uint32_t access;
    pthread_mutex_lock(&fake_lock);
    const int known =
        fake_piece_range(at, &from, &size) || fake_memory_place(at, &from, &size, &access) != -2;
    pthread_mutex_unlock(&fake_lock);
    if (known && base) {
        *base = from;
    }
    if (known && bytes) {
        *bytes = size;
    }
    return known ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

CUresult fake_cuPointerGetAttribute(void *value, int which, CUdeviceptr at) {
    uint64_t base = 0, bytes = 0;
    uint32_t access;
    pthread_mutex_lock(&fake_lock);
    const int device = fake_memory_place(at, &base, &bytes, &access);
    (void)fake_piece_range(at, &base, &bytes);
    pthread_mutex_unlock(&fake_lock);
    const int number = which == TYPE ? (device < 0 ? 1 : 2) : device;
    if (!value || device == -2 || (which == ORDINAL && device < 0)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    switch (which) {
    case TYPE:
    case ORDINAL:
        memcpy(value, &number, sizeof number);
        return CUDA_SUCCESS;
    case RANGE_START:
        memcpy(value, &base, sizeof base);
        return CUDA_SUCCESS;
    case RANGE_BYTES:
        memcpy(value, &bytes, sizeof bytes);
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

/* The plural answers for every pointer: what is not known is zero. */
CUresult fake_cuPointerGetAttributes(unsigned int count, int *which, void **values,
                                     CUdeviceptr at) {
    if (!count || !which || !values) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    for (unsigned int i = 0; i < count; i++) {
        if (fake_cuPointerGetAttribute(values[i], which[i], at) != CUDA_SUCCESS) {
            memset(values[i], 0,
                   which[i] == TYPE || which[i] == ORDINAL ? sizeof(int) : sizeof(void *));
        }
    }
    return CUDA_SUCCESS;
}

CUresult fake_cuMemHostGetDevicePointer_v2(CUdeviceptr *out, void *memory, unsigned int flags) {
    if (!out || !memory || flags) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *out = (CUdeviceptr)(uintptr_t)memory;
    return CUDA_SUCCESS;
}
