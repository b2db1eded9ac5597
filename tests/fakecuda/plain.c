/* Plain memory, arrays and memory of other processes, as other people's programs ask for it.
 *
 * Plain memory lies in 2 MiB pages as the real driver's does: what is at most 1 MiB shares pages of its context, and a page goes
 * back when the last of it has gone.  Arrays and managed memory are counted and have addresses, but no contents: nobody here
 * computes with them.  All of it dies with its context. */
#include "pieces.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { SMALL = 1 << 20 };

static piece *pieces; /* under fake_lock */

piece *fake_piece_add(piece p) {
    piece *made = malloc(sizeof *made);
    if (made) {
        *made = p;
        pthread_mutex_lock(&fake_lock);
        made->next = pieces;
        pieces = made;
        pthread_mutex_unlock(&fake_lock);
    }
    return made;
}

piece fake_piece_take(uint64_t at, uint64_t kinds) {
    piece found = {.kind = -1};
    pthread_mutex_lock(&fake_lock);
    for (piece **p = &pieces; *p; p = &(*p)->next) {
        if ((*p)->at == at && (kinds >> (*p)->kind & 1)) {
            piece *gone = *p;
            found = *gone;
            *p = gone->next;
            free(gone);
            break;
        }
    }
    pthread_mutex_unlock(&fake_lock);
    return found;
}

CUresult fake_current_now(struct CUctx_st **out) {
    pthread_mutex_lock(&fake_lock);
    const CUresult result = fake_current(out);
    pthread_mutex_unlock(&fake_lock);
    return result;
}

uint64_t fake_fresh_address(uint64_t bytes) {
    void *at = mmap(NULL, bytes ? bytes : 1, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                    -1, 0);
    return at == MAP_FAILED ? 0 : (uint64_t)(uintptr_t)at;
}

/* ---- plain memory ---- */

static CUresult take_range(struct CUctx_st *context, uint64_t bytes, int low, piece *out) {
    const CUmemAllocationProp prop = {
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = fake_ordinal_of(context->device)}};
    const CUmemAccessDesc access = {.location = prop.location,
                                    .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUdeviceptr at;
    CUmemGenericAllocationHandle handle;
    CUresult result = fake_cuMemCreate(&handle, bytes, &prop, 0);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    result = fake_reserve(&at, bytes, 0, low);
    if (result == CUDA_SUCCESS) {
        result = fake_cuMemMap(at, bytes, 0, handle, 0);
    }
    if (result == CUDA_SUCCESS) {
        result = fake_cuMemSetAccess(at, bytes, &access, 1);
    }
    *out = (piece){.at = at, .bytes = bytes, .handle = handle, .context = context};
    return result;
}

static void give_range(const piece *p) {
    (void)fake_cuMemUnmap(p->at, p->bytes);
    (void)fake_cuMemRelease(p->handle);
    (void)fake_cuMemAddressFree(p->at, p->bytes);
}

/* A part of a page that has room, or NULL.  Under the lock. */
static piece *page_with(const struct CUctx_st *context, uint64_t bytes, int low) {
    for (piece *p = pieces; p; p = p->next) {
        if (p->kind == PAGE && p->context == context && FAKE_PAGE - p->used >= bytes &&
            (!low || p->at < 1ull << 32)) {
            return p;
        }
    }
    return NULL;
}

/* `low`: at an address of 32 bits. */
static CUresult alloc_plain(CUdeviceptr *out, size_t bytes, int low) {
    struct CUctx_st *context;
    CUresult result = fake_current_now(&context);
    if (result != CUDA_SUCCESS || !out || !bytes) {
        return result != CUDA_SUCCESS ? result : CUDA_ERROR_INVALID_VALUE;
    }
    piece p = {0};
    if (bytes > SMALL) {
        result = bytes > 1ull << 45 ? CUDA_ERROR_OUT_OF_MEMORY
                                    : take_range(context, fake_up(bytes, FAKE_PAGE), low, &p);
        if (result == CUDA_SUCCESS) {
            fake_piece_add(p);
            *out = p.at;
        }
        return result;
    }
    const uint64_t part = fake_up(bytes, 512);
    pthread_mutex_lock(&fake_lock);
    piece *page = page_with(context, part, low);
    pthread_mutex_unlock(&fake_lock);
    if (!page) {
        result = take_range(context, FAKE_PAGE, low, &p);
        if (result != CUDA_SUCCESS) {
            return result;
        }
        p.kind = PAGE;
        page = fake_piece_add(p);
    }
    pthread_mutex_lock(&fake_lock);
    const uint64_t at = page->at + page->used;
    page->used += part;
    page->users++;
    pthread_mutex_unlock(&fake_lock);
    fake_piece_add((piece){.at = at, .page = page, .kind = PART});
    *out = at;
    return CUDA_SUCCESS;
}

CUresult fake_cuMemAlloc_v2(CUdeviceptr *out, size_t bytes) {
    return alloc_plain(out, bytes, 0);
}

/* The first form of all: sizes and addresses of 32 bits. */
CUresult fake_cuMemAlloc(unsigned int *out, unsigned int bytes) {
    CUdeviceptr at = 0;
    const CUresult result = out ? alloc_plain(&at, bytes, 1) : CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS) {
        *out = (unsigned int)at;
    }
    return result;
}

CUresult fake_cuMemFree(unsigned int at) {
    return fake_cuMemFree_v2(at);
}

int fake_piece_range(uint64_t at, uint64_t *base, uint64_t *bytes) {
    for (const piece *p = pieces; p; p = p->next) {
        const uint64_t size = p->kind == PART ? FAKE_PAGE : p->bytes;
        if (p->kind != PAGE && p->kind != ARRAY && at >= p->at && at - p->at < size) {
            *base = p->at;
            *bytes = size;
            return 1;
        }
    }
    return 0;
}

CUresult fake_cuMemAllocPitch_v2(CUdeviceptr *out, size_t *pitch, size_t width, size_t height,
                                 unsigned int element) {
    (void)element;
    if (!pitch || !width || !height) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    const size_t row = fake_up(width, 512);
    const CUresult result = fake_cuMemAlloc_v2(out, row * height);
    *pitch = result == CUDA_SUCCESS ? row : *pitch;
    return result;
}

CUresult fake_cuMemAllocManaged(CUdeviceptr *out, size_t bytes, unsigned int flags) {
    struct CUctx_st *context;
    const CUresult result = fake_current_now(&context);
    if (result != CUDA_SUCCESS || !out || !bytes || (flags != 1 && flags != 2)) {
        return result != CUDA_SUCCESS ? result : CUDA_ERROR_INVALID_VALUE;
    }
    *out = fake_fresh_address(bytes);
    fake_piece_add((piece){.at = *out, .bytes = bytes, .context = context, .kind = MANAGED});
    return CUDA_SUCCESS;
}

static void leave_page(piece *page) {
    pthread_mutex_lock(&fake_lock);
    const int last = --page->users == 0;
    pthread_mutex_unlock(&fake_lock);
    if (last) {
        const piece gone = fake_piece_take(page->at, 1u << PAGE);
        give_range(&gone);
    }
}

CUresult fake_cuMemFree_v2(CUdeviceptr at) {
    struct CUctx_st *context;
    const CUresult result = fake_current_now(&context);
    if (result != CUDA_SUCCESS || !at) {
        return result;
    }
    const piece p =
        fake_piece_take(at, 1u << PLAIN | 1u << PART | 1u << POOLED | 1u << MANAGED | 1u << NODE);
    if (p.kind == PLAIN) {
        give_range(&p);
    } else if (p.kind == PART) {
        leave_page(p.page);
    } else if (p.kind >= 0) {
        fake_pool_free(&p);
    }
    return p.kind < 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

/* ---- arrays ---- */

static CUresult make_array(uint64_t bytes, uint64_t *out) {
    struct CUctx_st *context;
    const CUresult result = fake_current_now(&context);
    bytes = fake_up(bytes, FAKE_PAGE);
    if (result != CUDA_SUCCESS || !bytes) {
        return result != CUDA_SUCCESS ? result : CUDA_ERROR_INVALID_VALUE;
    }
    if (fake_state_take(context->device, bytes) != 0) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *out = fake_fresh_address(FAKE_PAGE);
    fake_piece_add((piece){.at = *out, .bytes = bytes, .context = context, .kind = ARRAY});
    return CUDA_SUCCESS;
}

static CUresult end_array(uint64_t at) {
    const piece p = fake_piece_take(at, 1u << ARRAY);
    if (p.kind < 0) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    fake_state_give(p.context->device, p.bytes);
    munmap((void *)(uintptr_t)at, FAKE_PAGE);
    return CUDA_SUCCESS;
}

static uint64_t volume(const CUDA_ARRAY3D_DESCRIPTOR *d) {
    const uint64_t element = (d->Format == 0x20   ? 4u
                              : d->Format == 0x10 ? 2u
                                                  : 1u) *
                             d->NumChannels;
    return fake_up(d->Width * element, 512) * (d->Height ? d->Height : 1) *
           (d->Depth ? d->Depth : 1);
}

CUresult fake_cuArray3DCreate_v2(CUarray *out, const CUDA_ARRAY3D_DESCRIPTOR *d) {
    uint64_t at = 0;
    const CUresult result = out && d ? make_array(volume(d), &at) : CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS) {
        *out = (CUarray)(uintptr_t)at;
    }
    return result;
}

CUresult fake_cuArrayCreate_v2(CUarray *out, const CUDA_ARRAY_DESCRIPTOR *d) {
    return d ? fake_cuArray3DCreate_v2(out,
                                       &(CUDA_ARRAY3D_DESCRIPTOR){.Width = d->Width,
                                                                  .Height = d->Height,
                                                                  .Format = d->Format,
                                                                  .NumChannels = d->NumChannels})
             : CUDA_ERROR_INVALID_VALUE;
}

CUresult fake_cuArrayDestroy(CUarray array) {
    return end_array((uint64_t)(uintptr_t)array);
}

CUresult fake_cuMipmappedArrayCreate(CUmipmappedArray *out, const CUDA_ARRAY3D_DESCRIPTOR *d,
                                     unsigned int levels) {
    uint64_t at = 0;
    const CUresult result = out && d && levels
                                ? make_array(volume(d) + (levels > 1 ? volume(d) / 3 : 0), &at)
                                : CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS) {
        *out = (CUmipmappedArray)(uintptr_t)at;
    }
    return result;
}

CUresult fake_cuMipmappedArrayDestroy(CUmipmappedArray array) {
    return end_array((uint64_t)(uintptr_t)array);
}

/* ---- between processes: addresses only ---- */

CUresult fake_cuIpcGetMemHandle(CUipcMemHandle *out, CUdeviceptr at) {
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&fake_lock);
    for (const piece *p = pieces; p && out; p = p->next) {
        if (p->at == at && (p->kind == PLAIN || p->kind == PART)) {
            memset(out, 0, sizeof *out);
            memcpy(out->reserved, &at, sizeof at);
            result = CUDA_SUCCESS;
        }
    }
    pthread_mutex_unlock(&fake_lock);
    return result;
}

CUresult fake_cuIpcOpenMemHandle_v2(CUdeviceptr *out, CUipcMemHandle handle, unsigned int flags) {
    (void)handle;
    if (!out || flags != 1) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *out = fake_fresh_address(FAKE_PAGE);
    fake_piece_add((piece){.at = *out, .bytes = FAKE_PAGE, .kind = IPC});
    return CUDA_SUCCESS;
}

CUresult fake_cuIpcCloseMemHandle(CUdeviceptr at) {
    const piece p = fake_piece_take(at, 1u << IPC);
    if (p.kind >= 0) {
        munmap((void *)(uintptr_t)at, p.bytes);
    }
    return p.kind < 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

/* ---- a context goes ---- */

/* The next piece of the context, taken out; kind -1: there is none. */
static piece take_one_of(const struct CUctx_st *context) {
    piece found = {.kind = -1};
    pthread_mutex_lock(&fake_lock);
    for (piece **p = &pieces; *p; p = &(*p)->next) {
        const struct CUctx_st *whose = (*p)->kind == PART ? (*p)->page->context : (*p)->context;
        if (whose == context && (*p)->kind != PAGE) {
            piece *gone = *p;
            found = *gone;
            *p = gone->next;
            free(gone);
            break;
        }
    }
    pthread_mutex_unlock(&fake_lock);
    return found;
}

void fake_pieces_end(const struct CUctx_st *context) {
    for (piece p = take_one_of(context); p.kind >= 0; p = take_one_of(context)) {
        if (p.kind == PLAIN) {
            give_range(&p);
        } else if (p.kind == PART) {
            leave_page(p.page);
        } else if (p.kind == ARRAY) {
            fake_state_give(p.context->device, p.bytes);
        } else {
            fake_pool_free(&p);
        }
    }
}
