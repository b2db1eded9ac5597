/* The driver as a program finds it: one table of functions, filled in one of the ways that programs have. */
#ifndef TEST_GOVERN_CALLER_H
#define TEST_GOVERN_CALLER_H

#include <stddef.h>
#include <stdint.h>
#include "foreign.h"

#define CALLER_FUNCTIONS(X)                                                                        \
    X(cuInit, "cuInit", (unsigned int))                                                            \
    X(cuDeviceGet, "cuDeviceGet", (CUdevice *, int))                                               \
    X(cuDeviceTotalMem, "cuDeviceTotalMem_v2", (size_t *, CUdevice))                               \
    X(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", (CUcontext *, CUdevice))               \
    X(cuDevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2", (CUdevice))                       \
    X(cuCtxSetCurrent, "cuCtxSetCurrent", (CUcontext))                                             \
    X(cuCtxSynchronize, "cuCtxSynchronize", (void))                                                \
    X(cuMemGetInfo, "cuMemGetInfo_v2", (size_t *, size_t *))                                       \
    X(cuMemAlloc, "cuMemAlloc_v2", (CUdeviceptr *, size_t))                                        \
    X(cuMemAllocPitch, "cuMemAllocPitch_v2", (CUdeviceptr *, size_t *, size_t, size_t, unsigned))  \
    X(cuMemAllocManaged, "cuMemAllocManaged", (CUdeviceptr *, size_t, unsigned))                   \
    X(cuMemFree, "cuMemFree_v2", (CUdeviceptr))                                                    \
    X(cuMemAllocAsync, "cuMemAllocAsync", (CUdeviceptr *, size_t, CUstream))                       \
    X(cuMemFreeAsync, "cuMemFreeAsync", (CUdeviceptr, CUstream))                                   \
    X(cuDeviceGetDefaultMemPool, "cuDeviceGetDefaultMemPool", (CUmemoryPool *, CUdevice))          \
    X(cuMemPoolSetAttribute, "cuMemPoolSetAttribute", (CUmemoryPool, int, void *))                 \
    X(cuMemPoolTrimTo, "cuMemPoolTrimTo", (CUmemoryPool, size_t))                                  \
    X(cuArray3DCreate, "cuArray3DCreate_v2", (CUarray *, const CUDA_ARRAY3D_DESCRIPTOR *))         \
    X(cuArrayDestroy, "cuArrayDestroy", (CUarray))                                                 \
    X(cuMemGetAllocationGranularity, "cuMemGetAllocationGranularity",                              \
      (size_t *, const CUmemAllocationProp *, CUmemAllocationGranularity_flags))                   \
    X(cuMemAddressReserve, "cuMemAddressReserve",                                                  \
      (CUdeviceptr *, size_t, size_t, CUdeviceptr, unsigned long long))                            \
    X(cuMemAddressFree, "cuMemAddressFree", (CUdeviceptr, size_t))                                 \
    X(cuMemCreate, "cuMemCreate",                                                                  \
      (CUmemGenericAllocationHandle *, size_t, const CUmemAllocationProp *, unsigned long long))   \
    X(cuMemRelease, "cuMemRelease", (CUmemGenericAllocationHandle))                                \
    X(cuMemMap, "cuMemMap",                                                                        \
      (CUdeviceptr, size_t, size_t, CUmemGenericAllocationHandle, unsigned long long))             \
    X(cuMemUnmap, "cuMemUnmap", (CUdeviceptr, size_t))                                             \
    X(cuMemSetAccess, "cuMemSetAccess", (CUdeviceptr, size_t, const CUmemAccessDesc *, size_t))    \
    X(cuMemRetainAllocationHandle, "cuMemRetainAllocationHandle",                                  \
      (CUmemGenericAllocationHandle *, void *))                                                    \
    X(cuStreamCreate, "cuStreamCreate", (CUstream *, unsigned))                                    \
    X(cuStreamSynchronize, "cuStreamSynchronize", (CUstream))                                      \
    X(cuStreamBeginCapture, "cuStreamBeginCapture_v2", (CUstream, CUstreamCaptureMode))            \
    X(cuStreamEndCapture, "cuStreamEndCapture", (CUstream, CUgraph *))                             \
    X(cuGraphInstantiateWithFlags, "cuGraphInstantiateWithFlags",                                  \
      (CUgraphExec *, CUgraph, unsigned long long))                                                \
    X(cuModuleLoadData, "cuModuleLoadData", (CUmodule *, const void *))                            \
    X(cuModuleUnload, "cuModuleUnload", (CUmodule))                                                \
    X(cuGraphLaunch, "cuGraphLaunch", (CUgraphExec, CUstream))                                     \
    X(cuGraphCreate, "cuGraphCreate", (CUgraph *, unsigned))                                       \
    X(cuGraphAddNode, "cuGraphAddNode",                                                            \
      (CUgraphNode *, CUgraph, const CUgraphNode *, size_t, CUgraphNodeParams *))                  \
    X(cuMemcpyHtoD, "cuMemcpyHtoD_v2", (CUdeviceptr, const void *, size_t))                        \
    X(cuMemcpyDtoH, "cuMemcpyDtoH_v2", (void *, CUdeviceptr, size_t))                              \
    X(cuMemcpyAsync, "cuMemcpyAsync", (CUdeviceptr, CUdeviceptr, size_t, CUstream))                \
    X(cuPointerGetAttribute, "cuPointerGetAttribute", (void *, int, CUdeviceptr))                  \
    X(cuPointerGetAttributes, "cuPointerGetAttributes", (unsigned, int *, void **, CUdeviceptr))   \
    X(cuMemGetAddressRange, "cuMemGetAddressRange_v2", (CUdeviceptr *, size_t *, CUdeviceptr))     \
    X(cuIpcGetMemHandle, "cuIpcGetMemHandle", (CUipcMemHandle *, CUdeviceptr))                     \
    X(cuMemExportToShareableHandle, "cuMemExportToShareableHandle",                                \
      (void *, CUmemGenericAllocationHandle, int, unsigned long long))                             \
    X(cuDeviceGraphMemTrim, "cuDeviceGraphMemTrim", (CUdevice))

typedef struct caller_driver {
#define FIELD(NAME, SYMBOL, PARAMETERS) CUresult(*NAME) PARAMETERS;
    CALLER_FUNCTIONS(FIELD)
#undef FIELD
    void *library; /* for what only the fake driver has */
} caller_driver;

/* ways: linked, dlsym, deepbind, default (dlsym of RTLD_DEFAULT), and those of find.c by resolvers.  0, or -1 with words on
 * stderr. */
int caller_find(const char *way, caller_driver *out);

#endif
