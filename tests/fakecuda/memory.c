/* Memory of the fake driver at addresses: reservations, mappings, pinned host memory, and the engine that reads and
 * writes them.
 *
 * A reservation is an unreadable piece of address space with a table of pages; a mapping names those of a handle
 * (handles.h). */
#include "handles.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef struct page_entry {
    uint64_t handle; /* 0: not mapped */
    uint64_t unit;   /* number of the page in the memfd */
    uint32_t first;  /* a mapping starts here, this many pages long; 0: within one */
    uint32_t access;
    uint8_t devices; /* that may use it, a bit each */
    int present;     /* the memfd's page lies at the address, for kernels */
} page_entry;

typedef struct reservation {
    uint64_t at, bytes;
    uint64_t mapped; /* pages */
    page_entry *pages;
} reservation;

typedef struct pinned_entry {
    uint64_t at, bytes;
} pinned_entry;

/* All under fake_lock. */
static reservation *reservations; /* sorted by address */
static size_t reservation_count, reservation_room;
static pinned_entry *pinned;
static size_t pinned_count, pinned_room;

/* ---- reservations ---- */

/* The index of the first reservation that ends after `at`. */
static size_t position(uint64_t at) {
    size_t low = 0, high = reservation_count;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (reservations[middle].at + reservations[middle].bytes <= at) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* The reservation that holds all of [at, at + bytes), or NULL. */
static reservation *find(uint64_t at, uint64_t bytes) {
    const size_t i = position(at);
    if (i == reservation_count || reservations[i].at > at ||
        bytes > reservations[i].bytes - (at - reservations[i].at)) {
        return NULL;
    }
    return &reservations[i];
}

/* Unreadable address space; low: below 4 GiB, where some is left. */
static char *take_addresses(uint64_t bytes, int low) {
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    for (uint64_t hint = 1ull << 28; low && hint + bytes < 1ull << 32; hint += 1ull << 26) {
        char *memory = mmap((void *)(uintptr_t)hint, bytes, PROT_NONE, flags, -1, 0);
        if (memory != MAP_FAILED && (uint64_t)(uintptr_t)memory + bytes <= 1ull << 32) {
            return memory;
        }
        if (memory != MAP_FAILED) {
            munmap(memory, bytes);
        }
    }
    char *memory = low ? MAP_FAILED : mmap(NULL, bytes, PROT_NONE, flags, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

CUresult fake_cuMemAddressReserve(CUdeviceptr *at, size_t bytes, size_t alignment, CUdeviceptr hint,
                                  unsigned long long flags) {
    (void)hint;
    return flags ? CUDA_ERROR_INVALID_VALUE : fake_reserve(at, bytes, alignment, 0);
}

CUresult fake_reserve(CUdeviceptr *at, size_t bytes, size_t alignment, int low) {
    if (!at || bytes == 0 || fake_unaligned(bytes) || (alignment & (alignment - 1)) != 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    alignment = alignment < FAKE_PAGE ? FAKE_PAGE : alignment;
    if (bytes > (1ull << 46) || alignment > (1ull << 40)) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    page_entry *pages = calloc(bytes / FAKE_PAGE, sizeof *pages);
    char *memory = take_addresses(bytes + alignment, low);
    if (!memory || !pages) {
        free(pages);
        if (memory) {
            munmap(memory, bytes + alignment);
        }
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    const uint64_t start =
        ((uint64_t)(uintptr_t)memory + alignment - 1) & ~(uint64_t)(alignment - 1);
    const uint64_t before = start - (uint64_t)(uintptr_t)memory;
    if (before) {
        munmap(memory, before);
    }
    munmap(memory + before + bytes, alignment - before);

    pthread_mutex_lock(&fake_lock);
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
    if (fake_grow((void **)&reservations, reservation_count, &reservation_room,
                  sizeof *reservations)) {
        const size_t i = position(start);
        memmove(&reservations[i + 1], &reservations[i],
                (reservation_count - i) * sizeof *reservations);
        reservations[i] = (reservation){.at = start, .bytes = bytes, .pages = pages};
        reservation_count++;
        fake_live.reservations++;
        *at = start;
        result = CUDA_SUCCESS;
    }
    pthread_mutex_unlock(&fake_lock);
    return result;
}

CUresult fake_cuMemAddressFree(CUdeviceptr at, size_t bytes) {
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&fake_lock);
    const size_t i = position(at);
    if (i < reservation_count && reservations[i].at == at && reservations[i].bytes == bytes &&
        reservations[i].mapped == 0) {
        free(reservations[i].pages);
        munmap((void *)(uintptr_t)at, bytes);
        reservation_count--;
        memmove(&reservations[i], &reservations[i + 1],
                (reservation_count - i) * sizeof *reservations);
        fake_live.reservations--;
        result = CUDA_SUCCESS;
    }
    pthread_mutex_unlock(&fake_lock);
    return result;
}

/* ---- mappings ---- */

CUresult fake_cuMemMap(CUdeviceptr at, size_t bytes, size_t offset,
                       CUmemGenericAllocationHandle handle, unsigned long long flags) {
    if (bytes == 0 || fake_unaligned(at) || fake_unaligned(bytes) || offset != 0 || flags != 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    pthread_mutex_lock(&fake_lock);
    CUresult result = CUDA_SUCCESS;
    fake_handle_entry *h = fake_handle_of(handle);
    reservation *r = find(at, bytes);
    const uint64_t count = bytes / FAKE_PAGE;
    if (!h || !h->references || !r || count > h->count) {
        result = CUDA_ERROR_INVALID_VALUE;
    }
    page_entry *pages = r ? &r->pages[(at - r->at) / FAKE_PAGE] : NULL;
    for (uint64_t i = 0; i < count && result == CUDA_SUCCESS; i++) {
        if (pages[i].handle) {
            result = CUDA_ERROR_INVALID_VALUE;
        }
    }
    if (result == CUDA_SUCCESS) {
        for (uint64_t i = 0; i < count; i++) {
            pages[i] = (page_entry){
                .handle = handle, .unit = h->units[i], .first = i == 0 ? (uint32_t)count : 0};
        }
        h->mappings++;
        r->mapped += count;
        fake_live.mappings++;
    }
    pthread_mutex_unlock(&fake_lock);
    return result;
}

/* ---- for kernels: the pages at their addresses ---- */

static int open_count; /* kernels that run; under the lock */
_Thread_local int fake_at_work = -1;
static int open_for = -1; /* whose kernel runs */

/* Mapped, and for that device. */
static int is_usable(const page_entry *page, int device, uint32_t needs) {
    return page->handle && (page->access & needs) == needs &&
           (device < 0 || (page->devices >> device & 1));
}

static void *place(const reservation *r, uint64_t page) {
    return (void *)(uintptr_t)(r->at + page * FAKE_PAGE);
}

static void absent(reservation *r, uint64_t page) {
    if (r->pages[page].present) {
        mmap(place(r, page), FAKE_PAGE, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
        r->pages[page].present = 0;
    }
}

/* Gives every usable page of a reservation this protection. */
static void protect(reservation *r, int protection) {
    uint64_t seen = 0;
    for (uint64_t i = 0; seen < r->mapped && i < r->bytes / FAKE_PAGE; i++) {
        page_entry *page = &r->pages[i];
        seen += page->handle != 0;
        if (!is_usable(page, open_for, 3)) {
            continue;
        }
        if (page->present) {
            mprotect(place(r, i), FAKE_PAGE, protection);
        } else {
            page->present = mmap(place(r, i), FAKE_PAGE, protection, MAP_SHARED | MAP_FIXED,
                                 fake_memory_fd, (off_t)(page->unit * FAKE_PAGE)) != MAP_FAILED;
        }
    }
}

static void protect_all(int protection) {
    for (size_t i = 0; i < reservation_count; i++) {
        if (reservations[i].mapped) {
            protect(&reservations[i], protection);
        }
    }
}

void fake_memory_open(void) {
    pthread_mutex_lock(&fake_lock);
    if (open_count++ == 0) {
        open_for = fake_at_work;
        protect_all(PROT_READ | PROT_WRITE);
    }
    pthread_mutex_unlock(&fake_lock);
}

void fake_memory_close(void) {
    pthread_mutex_lock(&fake_lock);
    if (--open_count == 0) {
        protect_all(PROT_NONE);
    }
    pthread_mutex_unlock(&fake_lock);
}

/* The entries of [at, at + bytes) when they are whole mappings without a gap, else NULL. */
static page_entry *whole_mappings(uint64_t at, uint64_t bytes, reservation **out) {
    reservation *r =
        bytes && !fake_unaligned(at) && !fake_unaligned(bytes) ? find(at, bytes) : NULL;
    if (!r) {
        return NULL;
    }
    page_entry *pages = &r->pages[(at - r->at) / FAKE_PAGE];
    const uint64_t count = bytes / FAKE_PAGE;
    for (uint64_t i = 0; i < count; i += pages[i].first) {
        if (!pages[i].handle || pages[i].first == 0 || pages[i].first > count - i) {
            return NULL;
        }
    }
    *out = r;
    return pages;
}

CUresult fake_cuMemUnmap(CUdeviceptr at, size_t bytes) {
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&fake_lock);
    reservation *r = NULL;
    page_entry *pages = whole_mappings(at, bytes, &r);
    if (pages) {
        const uint64_t count = bytes / FAKE_PAGE;
        for (uint64_t i = 0; i < count; i++) {
            if (pages[i].first) {
                fake_handle_entry *h = fake_handle_of(pages[i].handle);
                fake_live.mappings--;
                if (--h->mappings == 0 && h->references == 0) {
                    fake_handle_free(h);
                }
            }
            absent(r, (uint64_t)(pages - r->pages) + i);
            pages[i] = (page_entry){0};
        }
        r->mapped -= count;
        result = CUDA_SUCCESS;
    }
    pthread_mutex_unlock(&fake_lock);
    return result;
}

static int have_peers(void) {
    const char *text = getenv("FAKECUDA_PEERS");
    return !text || strcmp(text, "none") != 0;
}

CUresult fake_cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer) {
    if (!can) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (fake_device_of(device) < 0 || fake_device_of(peer) < 0) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    *can = device != peer && have_peers();
    return CUDA_SUCCESS;
}

CUresult fake_cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attribute, CUdevice device,
                                      CUdevice peer) {
    const char *text = getenv("FAKECUDA_PEERS");
    if (!value || attribute != CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (device == peer || fake_device_of(device) < 0 || fake_device_of(peer) < 0) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    *value = have_peers() && !(text && strcmp(text, "pcie") == 0);
    return CUDA_SUCCESS;
}

/* Under the lock. */
static CUresult set_access(page_entry *page, const CUmemAccessDesc *desc, size_t count) {
    const fake_handle_entry *h = fake_handle_of(page->handle);
    for (size_t i = 0; i < count; i++) {
        const int device = fake_device_of(desc[i].location.id);
        if (h->device >= 0 && device != h->device && !have_peers()) {
            return CUDA_ERROR_INVALID_DEVICE;
        }
        page->devices =
            (uint8_t)(desc[i].flags ? page->devices | 1 << device : page->devices & ~(1 << device));
        page->access = (uint32_t)desc[i].flags;
    }
    return CUDA_SUCCESS;
}

CUresult fake_cuMemSetAccess(CUdeviceptr at, size_t bytes, const CUmemAccessDesc *desc,
                             size_t count) {
    if (!desc || count == 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    for (size_t i = 0; i < count; i++) {
        if (desc[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE) {
            return CUDA_ERROR_INVALID_VALUE;
        }
        if (fake_device_of(desc[i].location.id) < 0) {
            return CUDA_ERROR_INVALID_DEVICE;
        }
    }
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&fake_lock);
    reservation *r = NULL;
    page_entry *pages = whole_mappings(at, bytes, &r);
    if (pages) {
        result = CUDA_SUCCESS;
        for (uint64_t i = 0; i < bytes / FAKE_PAGE && result == CUDA_SUCCESS; i++) {
            result = set_access(&pages[i], desc, count);
        }
        if (open_count) {
            protect(r, PROT_READ | PROT_WRITE);
        }
    }
    pthread_mutex_unlock(&fake_lock);
    return result;
}

CUresult fake_cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes) {
    struct CUctx_st *context;
    pthread_mutex_lock(&fake_lock);
    const CUresult result = fake_current(&context);
    pthread_mutex_unlock(&fake_lock);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    if (!free_bytes || !total_bytes) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *total_bytes = fake_state_capacity(context->device);
    *free_bytes = *total_bytes - fake_state_used(context->device);
    return CUDA_SUCCESS;
}

/* ---- pinned host memory: mapped, so that use after free faults ---- */

CUresult fake_cuMemHostAlloc(void **memory, size_t bytes, unsigned int flags) {
    struct CUctx_st *context;
    pthread_mutex_lock(&fake_lock);
    CUresult result = fake_current(&context);
    if (result == CUDA_SUCCESS && (!memory || bytes == 0 || flags > 7)) {
        result = CUDA_ERROR_INVALID_VALUE;
    }
    if (result == CUDA_SUCCESS) {
        void *got = bytes > (1ull << 46) ? MAP_FAILED
                                         : mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                                                MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (got == MAP_FAILED ||
            !fake_grow((void **)&pinned, pinned_count, &pinned_room, sizeof *pinned)) {
            result = CUDA_ERROR_OUT_OF_MEMORY;
        } else {
            pinned[pinned_count++] = (pinned_entry){(uint64_t)(uintptr_t)got, bytes};
            fake_live.pinned++;
            *memory = got;
        }
    }
    pthread_mutex_unlock(&fake_lock);
    return result;
}

CUresult fake_cuMemFreeHost(void *memory) {
    struct CUctx_st *context;
    pthread_mutex_lock(&fake_lock);
    CUresult result = fake_current(&context);
    if (result == CUDA_SUCCESS) {
        result = CUDA_ERROR_INVALID_VALUE;
        for (size_t i = 0; i < pinned_count; i++) {
            if (pinned[i].at == (uint64_t)(uintptr_t)memory) {
                munmap(memory, pinned[i].bytes);
                pinned[i] = pinned[--pinned_count];
                fake_live.pinned--;
                result = CUDA_SUCCESS;
                break;
            }
        }
    }
    pthread_mutex_unlock(&fake_lock);
    return result;
}

/* ---- the engine ---- */

enum side { HOST, DEVICE, FAULT };

/* Where `at` lies; for DEVICE the place in the memfd.  *bytes is cut so that the piece lies in one page. */
static enum side locate(uint64_t at, int writes, uint64_t *bytes, off_t *out) {
    enum side side = HOST;
    pthread_mutex_lock(&fake_lock);
    const reservation *r = find(at, 1);
    if (r) {
        const page_entry *page = &r->pages[(at - r->at) / FAKE_PAGE];
        const uint64_t within = at % FAKE_PAGE;
        const uint32_t needs = writes ? 3 : 1;
        side = is_usable(page, fake_at_work, needs) ? DEVICE : FAULT;
        *out = (off_t)(page->unit * FAKE_PAGE + within);
        if (*bytes > FAKE_PAGE - within) {
            *bytes = FAKE_PAGE - within;
        }
    }
    pthread_mutex_unlock(&fake_lock);
    return side;
}

static int copy_piece(uint64_t to, uint64_t from, uint64_t *bytes) {
    off_t to_offset = 0, from_offset = 0;
    const enum side from_side = locate(from, 0, bytes, &from_offset);
    const enum side to_side = locate(to, 1, bytes, &to_offset);
    void *to_host = (void *)(uintptr_t)to;
    void *from_host = (void *)(uintptr_t)from;
    ssize_t moved = -1;
    if (from_side == FAULT || to_side == FAULT) {
        return -1;
    }
    if (from_side == HOST && to_side == HOST) {
        memmove(to_host, from_host, *bytes);
        moved = (ssize_t)*bytes;
    } else if (from_side == HOST) {
        moved = pwrite(fake_memory_fd, from_host, *bytes, to_offset);
    } else if (to_side == HOST) {
        moved = pread(fake_memory_fd, to_host, *bytes, from_offset);
    } else {
        char bounce[16384];
        *bytes = *bytes < sizeof bounce ? *bytes : sizeof bounce;
        moved = pread(fake_memory_fd, bounce, *bytes, from_offset);
        moved = moved > 0 ? pwrite(fake_memory_fd, bounce, (size_t)moved, to_offset) : -1;
    }
    if (moved <= 0) {
        return -1;
    }
    *bytes = (uint64_t)moved;
    return 0;
}

int fake_memory_copy(uint64_t to, uint64_t from, uint64_t bytes) {
    while (bytes) {
        uint64_t piece = bytes;
        if (copy_piece(to, from, &piece) != 0) {
            return -1;
        }
        to += piece;
        from += piece;
        bytes -= piece;
    }
    return 0;
}

int fake_memory_fill(uint64_t to, unsigned char value, uint64_t bytes) {
    char pattern[16384];
    memset(pattern, value, sizeof pattern);
    while (bytes) {
        uint64_t piece = bytes < sizeof pattern ? bytes : sizeof pattern;
        off_t offset = 0;
        const enum side side = locate(to, 1, &piece, &offset);
        if (side == HOST) {
            memset((void *)(uintptr_t)to, value, piece);
        } else if (side == FAULT ||
                   pwrite(fake_memory_fd, pattern, piece, offset) != (ssize_t)piece) {
            return -1;
        }
        to += piece;
        bytes -= piece;
    }
    return 0;
}

int fake_memory_place(uint64_t at, uint64_t *base, uint64_t *bytes, uint32_t *access) {
    const reservation *r = find(at, 1);
    uint64_t i = r ? (at - r->at) / FAKE_PAGE : 0;
    const fake_handle_entry *h =
        r && r->pages[i].handle ? fake_handle_of(r->pages[i].handle) : NULL;
    if (!h) {
        return -2;
    }
    *access = r->pages[i].access;
    while (!r->pages[i].first) {
        i--;
    }
    *base = r->at + i * FAKE_PAGE;
    *bytes = (uint64_t)r->pages[i].first * FAKE_PAGE;
    return h->device;
}

int fake_memory_fillable(uint64_t at) {
    if (find(at, 1)) {
        return 1;
    }
    for (size_t i = 0; i < pinned_count; i++) {
        if (at - pinned[i].at < pinned[i].bytes) {
            return 1;
        }
    }
    return 0;
}

CUresult fake_cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *out, void *at) {
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&fake_lock);
    const reservation *r = find((uint64_t)(uintptr_t)at, 1);
    const uint64_t handle = r ? r->pages[((uint64_t)(uintptr_t)at - r->at) / FAKE_PAGE].handle : 0;
    fake_handle_entry *h = handle ? fake_handle_of(handle) : NULL;
    if (h && out) {
        h->references++;
        *out = handle;
        result = CUDA_SUCCESS;
    }
    pthread_mutex_unlock(&fake_lock);
    return result;
}
