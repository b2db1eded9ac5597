/* Coming back to the device, and the gate that keeps the GPU idle meanwhile; see spill.h. */
#include <time.h>

#include "interpose/pools.h"
#include "interpose/spill.h"

typedef CUresult reserve_fn(CUdeviceptr *, size_t, size_t, CUdeviceptr, unsigned long long);
typedef CUresult release_range_fn(CUdeviceptr, size_t);
typedef CUresult set_access_fn(CUdeviceptr, size_t, const CUmemAccessDesc *, size_t);
typedef CUresult get_access_fn(unsigned long long *, const CUmemLocation *, CUdeviceptr);
typedef CUresult copy_fn(CUdeviceptr, CUdeviceptr, size_t);
typedef CUresult count_fn(int *);

enum { LOOK_MS = 500, CLOSE_MS = 100 };

static uint64_t now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000u + (uint64_t)t.tv_nsec / 1000000u;
}

/* ---- the gate ---- */

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER; /* held while it is closed */
static int closed, passing;                              /* atomic */

bool hri_gate_enter(void) {
    if (!hri_spill_any()) {
        return false;
    }
    for (;;) {
        __atomic_fetch_add(&passing, 1, __ATOMIC_SEQ_CST);
        if (!__atomic_load_n(&closed, __ATOMIC_SEQ_CST)) {
            return true;
        }
        __atomic_fetch_sub(&passing, 1, __ATOMIC_SEQ_CST);
        pthread_mutex_lock(&gate);
        pthread_mutex_unlock(&gate);
    }
}

void hri_gate_leave(void) {
    __atomic_fetch_sub(&passing, 1, __ATOMIC_SEQ_CST);
}

void hri_gate_forget_in_child(void) {
    pthread_mutex_init(&gate, NULL);
    closed = passing = 0;
}

static void open_gate(void) {
    __atomic_store_n(&closed, 0, __ATOMIC_SEQ_CST);
    pthread_mutex_unlock(&gate);
}

/* Closes it and waits until nobody is inside; false: somebody stays too long, and it is open again.  A thread that found
 * nothing spilled passes without being counted: the work that it brings is older than anything spilled. */
static bool close_gate(void) {
    const uint64_t until = now_ms() + CLOSE_MS;
    pthread_mutex_lock(&gate);
    __atomic_store_n(&closed, 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&passing, __ATOMIC_SEQ_CST)) {
        const struct timespec moment = {.tv_nsec = 20000};
        if (now_ms() > until) {
            open_gate();
            return false;
        }
        nanosleep(&moment, NULL);
    }
    return true;
}

/* ---- one piece ---- */

typedef struct driver {
    reserve_fn *reserve;
    release_range_fn *give_range;
    set_access_fn *set_access;
    get_access_fn *get_access;
    copy_fn *copy;
    int devices;
} driver;

static bool find_driver(driver *d) {
    count_fn *count = (count_fn *)hri_driver_function("cuDeviceGetCount");
    *d = (driver){.reserve = (reserve_fn *)hri_driver_function("cuMemAddressReserve"),
                  .give_range = (release_range_fn *)hri_driver_function("cuMemAddressFree"),
                  .set_access = (set_access_fn *)hri_driver_function("cuMemSetAccess"),
                  .get_access = (get_access_fn *)hri_driver_function("cuMemGetAccess"),
                  .copy = (copy_fn *)hri_driver_function("cuMemcpyDtoD_v2")};
    return count && count(&d->devices) == CUDA_SUCCESS && d->reserve && d->give_range &&
           d->set_access && d->get_access && d->copy;
}

/* Copies one handle's memory to another's, in a range of our own. */
static bool copy_over(const driver *d, int device, uint64_t from, uint64_t to, uint64_t bytes) {
    const CUmemAccessDesc desc = {.location = {CU_MEM_LOCATION_TYPE_DEVICE, device},
                                  .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUdeviceptr at;
    if (d->reserve(&at, 2 * bytes, 0, 0, 0) != CUDA_SUCCESS) {
        return false;
    }
    const bool first = HRI_CALL(cuMemMap, at, bytes, 0, from, 0) == CUDA_SUCCESS;
    const bool second = first && HRI_CALL(cuMemMap, at + bytes, bytes, 0, to, 0) == CUDA_SUCCESS;
    const bool copied = second && d->set_access(at, bytes, &desc, 1) == CUDA_SUCCESS &&
                        d->set_access(at + bytes, bytes, &desc, 1) == CUDA_SUCCESS &&
                        d->copy(at + bytes, at, bytes) == CUDA_SUCCESS &&
                        HRI_CALL(cuCtxSynchronize) == CUDA_SUCCESS;
    if (second) {
        (void)HRI_CALL(cuMemUnmap, at + bytes, bytes);
    }
    if (first) {
        (void)HRI_CALL(cuMemUnmap, at, bytes);
    }
    (void)d->give_range(at, 2 * bytes);
    return copied;
}

/* Puts other memory behind an address, with the access that the program had there. */
static bool remap(const driver *d, uint64_t at, uint64_t bytes, uint64_t from, uint64_t to) {
    CUmemAccessDesc descs[HRI_RUN_DEVICES];
    size_t count = 0;
    for (int i = 0; i < d->devices && i < HRI_RUN_DEVICES; i++) {
        const CUmemLocation where = {CU_MEM_LOCATION_TYPE_DEVICE, i};
        unsigned long long flags = 0;
        if (d->get_access(&flags, &where, at) == CUDA_SUCCESS && flags) {
            descs[count++] = (CUmemAccessDesc){.location = where, .flags = (int)flags};
        }
    }
    if (HRI_CALL(cuMemUnmap, at, bytes) != CUDA_SUCCESS) {
        return false;
    }
    if (HRI_CALL(cuMemMap, at, bytes, 0, to, 0) == CUDA_SUCCESS) {
        if (!count || d->set_access(at, bytes, descs, count) == CUDA_SUCCESS) {
            return true;
        }
        (void)HRI_CALL(cuMemUnmap, at, bytes);
    }
    if (HRI_CALL(cuMemMap, at, bytes, 0, from, 0) == CUDA_SUCCESS && count) {
        (void)d->set_access(at, bytes, descs, count);
    }
    return false;
}

/* The mapping of a number at an address of at least `from`, the next in order; kind NONE: there is none. */
static hri_held_entry next_mapping(uint64_t number, uint64_t from) {
    hri_held_entry next = {0};
    pthread_mutex_lock(&hri_self.lock);
    for (size_t i = 0; i < hri_self.table.room; i++) {
        const hri_held_entry *e = &hri_self.table.entries[i];
        if (e->kind == HRI_KIND_MAPPING && e->a == number && e->key >= from &&
            (!next.kind || e->key < next.key)) {
            next = *e;
        }
    }
    pthread_mutex_unlock(&hri_self.lock);
    return next;
}

/* All addresses of a number; on failure those before are put back as they were. */
static bool remap_all(const driver *d, uint64_t number, uint64_t from, uint64_t to) {
    hri_held_entry m = next_mapping(number, 0);
    while (m.kind && remap(d, m.key, m.b, from, to)) {
        m = next_mapping(number, m.key + 1);
    }
    if (!m.kind) {
        return true;
    }
    for (hri_held_entry u = next_mapping(number, 0); u.kind && u.key < m.key;
         u = next_mapping(number, u.key + 1)) {
        (void)remap(d, u.key, u.b, to, from);
    }
    return false;
}

/* One piece back on the device; the bytes are taken.  Under spill, with the gate closed and the GPU idle. */
static bool bring_back(const driver *d, const hri_held_entry *s) {
    const CUmemAllocationProp prop = {
        .type = 1,
        .requestedHandleTypes = (int)(s->c >> 8 & 0xff),
        .location = {CU_MEM_LOCATION_TYPE_DEVICE, s->device},
        .allocFlags = {.gpuDirectRDMACapable = (unsigned char)(s->c >> 16 & 1)}};
    CUmemGenericAllocationHandle fresh;
    if (HRI_CALL(cuMemCreate, &fresh, s->b, &prop, 0) != CUDA_SUCCESS) {
        return false;
    }
    if (!copy_over(d, s->device, s->a, fresh, s->b) || !remap_all(d, s->key, s->a, fresh)) {
        (void)HRI_CALL(cuMemRelease, fresh);
        return false;
    }
    (void)HRI_CALL(cuMemRelease, s->a);
    pthread_mutex_lock(&hri_self.lock);
    hri_held_entry *e = hri_held_find(&hri_self.table, HRI_KIND_SPILL, s->key);
    hri_held_entry *handle = hri_held_find(&hri_self.table, HRI_KIND_HANDLE, s->key);
    if (e && handle) {
        e->a = fresh;
        e->c &= ~(uint64_t)HRI_SPILL_HOST;
        handle->bytes = s->b;
    }
    pthread_mutex_unlock(&hri_self.lock);
    return true;
}

/* ---- the safe point ---- */

/* The largest piece on the host of at most `room` bytes; kind NONE: there is none. */
static hri_held_entry largest(int device, uint64_t room) {
    hri_held_entry best = {0};
    pthread_mutex_lock(&hri_self.lock);
    for (size_t i = 0; i < hri_self.table.room; i++) {
        const hri_held_entry *e = &hri_self.table.entries[i];
        if (e->kind == HRI_KIND_SPILL && e->device == device && (e->c & HRI_SPILL_HOST) &&
            !(e->c & HRI_SPILL_STAYS) && e->b <= room && e->b > best.b) {
            best = *e;
        }
    }
    pthread_mutex_unlock(&hri_self.lock);
    return best;
}

/* What may come back: all that the device has for us, but for what small requests may want next. */
static uint64_t room_of(int device) {
    const hri_run_device *d = &hri_self.device[device];
    pthread_mutex_lock(&hri_self.lock);
    const uint64_t held = hri_held_bytes(d), kept = d->limit_bytes / 32;
    const uint64_t room = (d->granted_bytes > held ? d->granted_bytes - held : 0) + d->free_bytes;
    pthread_mutex_unlock(&hri_self.lock);
    return room > kept ? room - kept : 0;
}

/* Under spill. */
static void bring_back_what_fits(int device, hri_hook call) {
    driver d;
    hri_held_entry piece = largest(device, room_of(device));
    if (!piece.kind || !find_driver(&d) || !close_gate()) {
        return;
    }
    if (!__atomic_load_n(&hri_self.captures, __ATOMIC_ACQUIRE) &&
        !__atomic_load_n(&hri_self.contexts, __ATOMIC_ACQUIRE) &&
        HRI_CALL(cuCtxSynchronize) == CUDA_SUCCESS) {
        while (piece.kind && hri_try_take(device, piece.b, call) == CUDA_SUCCESS) {
            if (!bring_back(&d, &piece)) {
                hri_give(device, piece.b, call);
                break;
            }
            hri_spill_give_host(device, piece.b);
            hri_page_event_add(device, HRI_PAGE_RETURN, piece.b, call);
            piece = largest(device, room_of(device));
        }
    }
    open_gate();
}

void hri_spill_tick(void) {
    static uint64_t looked_ms; /* atomic */
    if (!hri_spill_on() || __atomic_load_n(&hri_self.captures, __ATOMIC_ACQUIRE)) {
        return;
    }
    const uint64_t now = now_ms(), before = __atomic_load_n(&looked_ms, __ATOMIC_RELAXED);
    if (now - before < LOOK_MS) {
        return;
    }
    const int device = hri_current_device();
    if (device < 0 || !hri_self.device[device].spilled_bytes ||
        pthread_mutex_trylock(&hri_self.spill) != 0) {
        return;
    }
    __atomic_store_n(&looked_ms, now, __ATOMIC_RELAXED);
    (void)hri_refresh(device);
    if (room_of(device)) { /* what is asked for next lies on the device */
        hri_host_pool_trim(device);
    }
    bring_back_what_fits(device, HRI_HOOK_cuCtxSynchronize);
    pthread_mutex_unlock(&hri_self.spill);
}
