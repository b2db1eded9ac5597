/* Types of the driver that Headroom itself does not use, and other people's programs do. */
#ifndef FAKECUDA_FOREIGN_H
#define FAKECUDA_FOREIGN_H

#include <stdint.h>
#include "device/cuda/cuda_min.h"

typedef struct CUmemPoolHandle_st *CUmemoryPool;
typedef struct CUarray_st *CUarray;
typedef struct CUmipmappedArray_st *CUmipmappedArray;
typedef struct CUgraphNode_st *CUgraphNode;

typedef struct CUmemPoolProps {
    CUmemAllocationType allocType;
    CUmemAllocationHandleType handleTypes;
    CUmemLocation location;
    void *win32SecurityAttributes;
    size_t maxSize;
    unsigned short usage;
    unsigned char reserved[54];
} CUmemPoolProps;

typedef struct CUDA_ARRAY_DESCRIPTOR {
    size_t Width, Height;
    int Format;
    unsigned int NumChannels;
} CUDA_ARRAY_DESCRIPTOR;

typedef struct CUDA_ARRAY3D_DESCRIPTOR {
    size_t Width, Height, Depth;
    int Format;
    unsigned int NumChannels, Flags;
} CUDA_ARRAY3D_DESCRIPTOR;

typedef struct CUDA_MEM_ALLOC_NODE_PARAMS {
    CUmemPoolProps poolProps;
    const CUmemAccessDesc *accessDescs;
    size_t accessDescCount;
    size_t bytesize;
    CUdeviceptr dptr;
} CUDA_MEM_ALLOC_NODE_PARAMS;

typedef struct CUgraphNodeParams {
    int type, reserved[3];
    union {
        long long all[29];
        CUDA_MEM_ALLOC_NODE_PARAMS alloc;
    };
    long long reserved2;
} CUgraphNodeParams;

typedef struct CUipcMemHandle {
    char reserved[64];
} CUipcMemHandle;

enum { FAKE_LOCATION_HOST = 2, FAKE_LOCATION_HOST_NUMA = 3, FAKE_ERROR_NOT_PERMITTED = 800 };
enum { FAKE_POOL_THRESHOLD = 4, FAKE_POOL_RESERVED = 5, FAKE_POOL_USED = 7 };

#endif
