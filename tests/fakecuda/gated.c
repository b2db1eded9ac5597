/* Calls that give the GPU work and that Headroom does not make itself (gated.def).
 *
 * Copies and fills in one dimension are done, and waited for, which is more than a caller may ask for.  Of the others
 * the arguments are looked at: an empty description is a wrong one, and a real one is more than this device can do. */
#include "fake.h"
#include "work.h"

#include <string.h>

#pragma GCC diagnostic ignored "-Wunused-parameter" /* what nobody waits for needs no stream */

/* A function, and its twin for per-thread streams, which are no others here. */
#define BOTH(NAME, TWIN, PARAMETERS, ARGUMENTS, ...)                                               \
    CUresult fake_##NAME PARAMETERS{__VA_ARGS__} CUresult fake_##NAME##TWIN PARAMETERS {           \
        return fake_##NAME ARGUMENTS;                                                              \
    }

/* Waits for the context's work, then copies. */
static CUresult copy(uint64_t to, uint64_t from, uint64_t bytes) {
    struct CUctx_st *context;
    pthread_mutex_lock(&fake_lock);
    CUresult result = fake_current(&context);
    if (result == CUDA_SUCCESS) {
        fake_streams_drain(context);
    }
    pthread_mutex_unlock(&fake_lock);
    if (result == CUDA_SUCCESS && bytes && (!to || !from)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    fake_at_work = result == CUDA_SUCCESS ? context->device : -1;
    const int bad = result == CUDA_SUCCESS && bytes && fake_memory_copy(to, from, bytes) != 0;
    fake_at_work = -1;
    if (bad) {
        pthread_mutex_lock(&fake_lock);
        context->bad = result = CUDA_ERROR_ILLEGAL_ADDRESS;
        pthread_mutex_unlock(&fake_lock);
    }
    return result;
}

/* Rows of `width` values of `size` bytes. */
static CUresult fill(uint64_t to, uint64_t pitch, uint64_t value, uint64_t size, uint64_t width,
                     uint64_t height) {
    unsigned char row[4096];
    CUresult result = to ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < sizeof row; i += size) {
        memcpy(row + i, &value, size);
    }
    for (uint64_t y = 0; y < height && result == CUDA_SUCCESS; y++) {
        uint64_t left = width * size, at = to + y * pitch;
        while (left && result == CUDA_SUCCESS) {
            const uint64_t part = left < sizeof row ? left : sizeof row;
            result = copy(at, (uint64_t)(uintptr_t)row, part);
            at += part;
            left -= part;
        }
    }
    return result;
}

/* A description that this device cannot follow. */
static CUresult described(const void *what) {
    struct CUctx_st *context;
    pthread_mutex_lock(&fake_lock);
    const CUresult result = fake_current(&context);
    pthread_mutex_unlock(&fake_lock);
    return result != CUDA_SUCCESS ? result
           : what                 ? CUDA_ERROR_NOT_SUPPORTED
                                  : CUDA_ERROR_INVALID_VALUE;
}

/* ---- launches ---- */

typedef struct launch_config { /* CUlaunchConfig */
    unsigned int gx, gy, gz, bx, by, bz, shared;
    CUstream stream;
} launch_config;

CUresult fake_cuLaunchKernel_ptsz(CUfunction function, unsigned int gx, unsigned int gy,
                                  unsigned int gz, unsigned int bx, unsigned int by,
                                  unsigned int bz, unsigned int shared, CUstream stream,
                                  void **arguments, void **extra) {
    return fake_cuLaunchKernel(function, gx, gy, gz, bx, by, bz, shared, stream, arguments, extra);
}

BOTH(cuLaunchKernelEx, _ptsz,
     (const void *config, CUfunction function, void **arguments, void **extra),
     (config, function, arguments, extra), const launch_config *c = config;
     return c ? fake_cuLaunchKernel(function, c->gx, c->gy, c->gz, c->bx, c->by, c->bz, c->shared,
                                    c->stream, arguments, extra)
              : CUDA_ERROR_INVALID_VALUE;)
BOTH(cuLaunchCooperativeKernel, _ptsz,
     (CUfunction function, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx,
      unsigned int by, unsigned int bz, unsigned int shared, CUstream stream, void **arguments),
     (function, gx, gy, gz, bx, by, bz, shared, stream, arguments),
     return fake_cuLaunchKernel(function, gx, gy, gz, bx, by, bz, shared, stream, arguments, NULL);)

CUresult fake_cuLaunch(CUfunction function) {
    return described(function);
}

CUresult fake_cuLaunchGrid(CUfunction function, int width, int height) {
    return width > 0 && height > 0 ? described(function) : CUDA_ERROR_INVALID_VALUE;
}

CUresult fake_cuLaunchGridAsync(CUfunction function, int width, int height, CUstream stream) {
    return fake_cuLaunchGrid(function, width, height);
}

CUresult fake_cuLaunchCooperativeKernelMultiDevice(void *list, unsigned int count,
                                                   unsigned int flags) {
    return count && flags < 4 ? described(list) : CUDA_ERROR_INVALID_VALUE;
}

/* ---- copies in one dimension ---- */

BOTH(cuMemcpy, _ptds, (CUdeviceptr to, CUdeviceptr from, size_t bytes), (to, from, bytes),
     return copy(to, from, bytes);)
BOTH(cuMemcpyHtoD_v2, _ptds, (CUdeviceptr to, const void *from, size_t bytes), (to, from, bytes),
     return copy(to, (uint64_t)(uintptr_t)from, bytes);)
BOTH(cuMemcpyDtoH_v2, _ptds, (void *to, CUdeviceptr from, size_t bytes), (to, from, bytes),
     return copy((uint64_t)(uintptr_t)to, from, bytes);)
BOTH(cuMemcpyDtoD_v2, _ptds, (CUdeviceptr to, CUdeviceptr from, size_t bytes), (to, from, bytes),
     return copy(to, from, bytes);)
BOTH(cuMemcpyPeer, _ptds,
     (CUdeviceptr to, CUcontext there, CUdeviceptr from, CUcontext here, size_t bytes),
     (to, there, from, here, bytes),
     return there && here ? copy(to, from, bytes) : CUDA_ERROR_INVALID_VALUE;)

CUresult fake_cuMemcpyAsync_ptsz(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
    return fake_cuMemcpyAsync(to, from, bytes, stream);
}

BOTH(cuMemcpyHtoDAsync_v2, _ptsz, (CUdeviceptr to, const void *from, size_t bytes, CUstream stream),
     (to, from, bytes, stream),
     return fake_cuMemcpyAsync(to, (CUdeviceptr)(uintptr_t)from, bytes, stream);)
BOTH(cuMemcpyDtoHAsync_v2, _ptsz, (void *to, CUdeviceptr from, size_t bytes, CUstream stream),
     (to, from, bytes, stream),
     return fake_cuMemcpyAsync((CUdeviceptr)(uintptr_t)to, from, bytes, stream);)
BOTH(cuMemcpyDtoDAsync_v2, _ptsz, (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream),
     (to, from, bytes, stream), return fake_cuMemcpyAsync(to, from, bytes, stream);)
BOTH(cuMemcpyPeerAsync, _ptsz,
     (CUdeviceptr to, CUcontext there, CUdeviceptr from, CUcontext here, size_t bytes,
      CUstream stream),
     (to, there, from, here, bytes, stream),
     return there && here ? fake_cuMemcpyAsync(to, from, bytes, stream) : CUDA_ERROR_INVALID_VALUE;)

static CUresult copy_all(const CUdeviceptr *to, const CUdeviceptr *from, const size_t *bytes,
                         size_t count, CUstream stream) {
    CUresult result = to && from && bytes && count ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++) {
        result = fake_cuMemcpyAsync(to[i], from[i], bytes[i], stream);
    }
    return result;
}

BOTH(cuMemcpyBatchAsync, _ptsz,
     (CUdeviceptr * to, CUdeviceptr *from, size_t *bytes, size_t count, void *attributes,
      size_t *indices, size_t attributes_count, size_t *failed, CUstream stream),
     (to, from, bytes, count, attributes, indices, attributes_count, failed, stream),
     return copy_all(to, from, bytes, count, stream);)
BOTH(cuMemcpyBatchAsync_v2, _ptsz,
     (CUdeviceptr * to, CUdeviceptr *from, size_t *bytes, size_t count, void *attributes,
      size_t *indices, size_t attributes_count, CUstream stream),
     (to, from, bytes, count, attributes, indices, attributes_count, stream),
     return copy_all(to, from, bytes, count, stream);)

/* ---- copies in two and three, and of arrays ---- */

BOTH(cuMemcpy2D_v2, _ptds, (const void *what), (what), return described(what);)
BOTH(cuMemcpy2DUnaligned_v2, _ptds, (const void *what), (what), return described(what);)
BOTH(cuMemcpy3D_v2, _ptds, (const void *what), (what), return described(what);)
BOTH(cuMemcpy3DPeer, _ptds, (const void *what), (what), return described(what);)
BOTH(cuMemcpy2DAsync_v2, _ptsz, (const void *what, CUstream stream), (what, stream),
     return described(what);)
BOTH(cuMemcpy3DAsync_v2, _ptsz, (const void *what, CUstream stream), (what, stream),
     return described(what);)
BOTH(cuMemcpy3DPeerAsync, _ptsz, (const void *what, CUstream stream), (what, stream),
     return described(what);)
BOTH(cuMemcpy3DBatchAsync, _ptsz,
     (size_t count, void *list, size_t *failed, unsigned long long flags, CUstream stream),
     (count, list, failed, flags, stream),
     return count && !flags ? described(list) : CUDA_ERROR_INVALID_VALUE;)
BOTH(cuMemcpy3DBatchAsync_v2, _ptsz,
     (size_t count, void *list, unsigned long long flags, CUstream stream),
     (count, list, flags, stream),
     return count && !flags ? described(list) : CUDA_ERROR_INVALID_VALUE;)
BOTH(cuMemBatchDecompressAsync, _ptsz,
     (void *list, size_t count, unsigned int flags, size_t *failed, CUstream stream),
     (list, count, flags, failed, stream),
     return count && !flags ? described(list) : CUDA_ERROR_INVALID_VALUE;)
BOTH(cuMemcpyAtoD_v2, _ptds, (CUdeviceptr to, CUarray from, size_t at, size_t bytes),
     (to, from, at, bytes), return to && bytes ? described(from) : CUDA_ERROR_INVALID_VALUE;)
BOTH(cuMemcpyDtoA_v2, _ptds, (CUarray to, size_t at, CUdeviceptr from, size_t bytes),
     (to, at, from, bytes), return from && bytes ? described(to) : CUDA_ERROR_INVALID_VALUE;)

/* ---- fills ---- */

CUresult fake_cuMemsetD8Async_ptsz(CUdeviceptr to, unsigned char value, size_t count,
                                   CUstream stream) {
    return fake_cuMemsetD8Async(to, value, count, stream);
}

BOTH(cuMemsetD8_v2, _ptds, (CUdeviceptr to, unsigned char value, size_t count), (to, value, count),
     return fill(to, 0, value, 1, count, 1);)

#define FILLS(BITS, TYPE)                                                                          \
    BOTH(cuMemsetD##BITS##_v2, _ptds, (CUdeviceptr to, TYPE value, size_t count),                  \
         (to, value, count), return fill(to, 0, value, sizeof(TYPE), count, 1);)                   \
    BOTH(cuMemsetD##BITS##Async, _ptsz,                                                            \
         (CUdeviceptr to, TYPE value, size_t count, CUstream stream), (to, value, count, stream),  \
                                                                                                   \
         return fill(to, 0, value, sizeof(TYPE), count, 1);)
#define ROWS(BITS, TYPE)                                                                           \
    BOTH(cuMemsetD2D##BITS##_v2, _ptds,                                                            \
         (CUdeviceptr to, size_t pitch, TYPE value, size_t width, size_t height),                  \
         (to, pitch, value, width, height),                                                        \
         return fill(to, pitch, value, sizeof(TYPE), width, height);)                              \
    BOTH(cuMemsetD2D##BITS##Async, _ptsz,                                                          \
         (CUdeviceptr to, size_t pitch, TYPE value, size_t width, size_t height, CUstream stream), \
         (to, pitch, value, width, height, stream),                                                \
         return fill(to, pitch, value, sizeof(TYPE), width, height);)
FILLS(16, unsigned short)
FILLS(32, unsigned int)
ROWS(8, unsigned char)
ROWS(16, unsigned short)
ROWS(32, unsigned int)

/* ---- single values in a stream ---- */

/* A value that is not there yet never comes: the stream's own work is done, and nobody else's is waited for. */
static CUresult value_of(CUdeviceptr at, uint64_t *value, uint64_t size, int writes) {
    const uint64_t wanted = *value;
    if (!at || at % size) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    const CUresult result = writes ? copy(at, (uint64_t)(uintptr_t)value, size)
                                   : copy((uint64_t)(uintptr_t)value, at, size);
    return result == CUDA_SUCCESS && *value < wanted ? CUDA_ERROR_NOT_SUPPORTED : result;
}

#define VALUES(WORD, SUFFIX, BITS, TYPE, WRITES)                                                   \
    BOTH(cuStream##WORD##Value##BITS##SUFFIX, _ptsz,                                               \
         (CUstream stream, CUdeviceptr at, TYPE value, unsigned int flags),                        \
         (stream, at, value, flags), uint64_t wide = value;                                        \
         return value_of(at, &wide, sizeof(TYPE), WRITES);)
VALUES(Write, , 32, unsigned int, 1)
VALUES(Write, , 64, cuuint64_t, 1)
VALUES(Write, _v2, 32, unsigned int, 1)
VALUES(Write, _v2, 64, cuuint64_t, 1)
VALUES(Wait, , 32, unsigned int, 0)
VALUES(Wait, , 64, cuuint64_t, 0)
VALUES(Wait, _v2, 32, unsigned int, 0)
VALUES(Wait, _v2, 64, cuuint64_t, 0)
BOTH(cuStreamBatchMemOp, _ptsz,
     (CUstream stream, unsigned int count, void *operations, unsigned int flags),
     (stream, count, operations, flags),
     return count && !flags ? described(operations) : CUDA_ERROR_INVALID_VALUE;)
BOTH(cuStreamBatchMemOp_v2, _ptsz,
     (CUstream stream, unsigned int count, void *operations, unsigned int flags),
     (stream, count, operations, flags),
     return count && !flags ? described(operations) : CUDA_ERROR_INVALID_VALUE;)
