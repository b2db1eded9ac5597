/* Memory between processes: descriptors of handles and of pools, memory of other programming interfaces, multicast objects.
 *
 * A descriptor is a file that says what was shared.  What is imported is counted where it was made and nowhere else; it has no
 * contents here, and its maker must outlive it. */
#include "fake.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC 0x6572616873616b66u

enum {
    DESCRIPTOR = 1
}; /* CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, and an opaque one of other interfaces */

typedef struct note {
    uint64_t magic, is_pool, bytes;
    int64_t device;
    CUmemAllocationProp prop;
} note;

static CUresult write_note(const note *n, void *out) {
    const int fd = memfd_create("fakecuda-shared", MFD_CLOEXEC);
    if (fd < 0 || pwrite(fd, n, sizeof *n, 0) != (ssize_t)sizeof *n) {
        if (fd >= 0) {
            close(fd);
        }
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    memcpy(out, &fd, sizeof fd);
    return CUDA_SUCCESS;
}

static int read_note(void *from, int type, int is_pool, note *out) {
    const int fd = (int)(intptr_t)from;
    return type == DESCRIPTOR && pread(fd, out, sizeof *out, 0) == (ssize_t)sizeof *out &&
           out->magic == MAGIC && out->is_pool == (uint64_t)is_pool;
}

/* ---- handles ---- */

CUresult fake_cuMemExportToShareableHandle(void *out, CUmemGenericAllocationHandle handle, int type,
                                           unsigned long long flags) {
    fake_handle h;
    if (!out || type != DESCRIPTOR || flags || !fake_handle_look(handle, &h) ||
        !((int)h.prop.requestedHandleTypes & DESCRIPTOR)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    return write_note(&(note){.magic = MAGIC, .bytes = h.bytes, .device = h.device, .prop = h.prop},
                      out);
}

CUresult fake_cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *out, void *from,
                                             int type) {
    note n;
    if (!out || !read_note(from, type, 0, &n)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    const CUresult result = fake_handle_make(out, n.bytes, (int)n.device, &n.prop);
    if (result == CUDA_SUCCESS) {
        fake_handle_mark(*out, 1, 0);
    }
    return result;
}

CUresult fake_cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *out,
                                                     CUmemGenericAllocationHandle handle) {
    fake_handle h;
    if (!out || !fake_handle_look(handle, &h)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *out = h.prop;
    return CUDA_SUCCESS;
}

/* ---- pools ---- */

CUresult fake_cuMemPoolExportToShareableHandle(void *out, CUmemoryPool pool, int type,
                                               unsigned long long flags) {
    const int device = fake_pool_share(pool);
    if (!out || type != DESCRIPTOR || flags || device < 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    return write_note(&(note){.magic = MAGIC, .is_pool = 1, .device = device}, out);
}

CUresult fake_cuMemPoolImportFromShareableHandle(CUmemoryPool *out, void *from, int type,
                                                 unsigned long long flags) {
    note n;
    if (!out || flags || !read_note(from, type, 1, &n)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *out = fake_pool_imported((int)n.device);
    return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* ---- memory of other interfaces ---- */

struct CUextMemory_st {
    uint64_t bytes; /* 0: it was destroyed */
};

/* The descriptor belongs to the driver from now on. */
CUresult fake_cuImportExternalMemory(CUexternalMemory *out,
                                     const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *d) {
    struct stat s;
    if (!out || !d || d->type != DESCRIPTOR || !d->size || fstat(d->handle.fd, &s) != 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    CUexternalMemory made = calloc(1, sizeof *made);
    if (!made) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    made->bytes = d->size;
    close(d->handle.fd);
    *out = made;
    return CUDA_SUCCESS;
}

CUresult fake_cuDestroyExternalMemory(CUexternalMemory memory) {
    if (!memory || !memory->bytes) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    memory->bytes = 0;
    return CUDA_SUCCESS;
}

/* ---- multicast objects: no memory of their own ---- */

CUresult fake_cuMulticastCreate(CUmemGenericAllocationHandle *out,
                                const CUmulticastObjectProp *prop) {
    const CUmemAllocationProp none = {.type = CU_MEM_ALLOCATION_TYPE_PINNED};
    if (!out || !prop || !prop->numDevices || !prop->size || prop->size % FAKE_PAGE ||
        prop->flags) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    const CUresult result = fake_handle_make(out, 0, -1, &none);
    if (result == CUDA_SUCCESS) {
        fake_handle_mark(*out, 1, prop->size);
    }
    return result;
}

CUresult fake_cuMulticastBindMem(CUmemGenericAllocationHandle object, size_t at,
                                 CUmemGenericAllocationHandle handle, size_t from, size_t bytes,
                                 unsigned long long flags) {
    fake_handle group, memory;
    if (!bytes || flags || at % FAKE_PAGE || from % FAKE_PAGE || bytes % FAKE_PAGE ||
        !fake_handle_look(object, &group) || !group.multicast_bytes ||
        !fake_handle_look(handle, &memory) || memory.multicast_bytes || memory.device < 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    return at > group.multicast_bytes || bytes > group.multicast_bytes - at ||
                   from > memory.bytes || bytes > memory.bytes - from
               ? CUDA_ERROR_INVALID_VALUE
               : CUDA_SUCCESS;
}
