/* Leases and what is taken of them; see govern.h. */
#include "interpose/govern.h"
#include "interpose/record.h"
#include "interpose/causes.h"
#include "interpose/pools.h"
#include "interpose/spill.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

hri_run hri_self = {.lock = PTHREAD_MUTEX_INITIALIZER,
                    .talk = PTHREAD_MUTEX_INITIALIZER,
                    .pools = PTHREAD_MUTEX_INITIALIZER,
                    .spill = PTHREAD_MUTEX_INITIALIZER,
                    .socket = -1};

/* What the start files would bring, with constructors; pthread_atfork wants it. */
__attribute__((visibility("hidden"))) void *__dso_handle = &__dso_handle;

static __thread int depth __attribute__((tls_model("initial-exec")));
static __thread int kept_errno __attribute__((tls_model("initial-exec")));

#define ENTERED (1ull << 32) /* in hri_self.inside */

enum { CHUNK_MOST = 64 << 20, CHUNK_LEAST = 2 << 20, ANSWER_MS = 10 };

/* ---- entering ---- */

bool hri_enter(void) {
    if (depth || !__atomic_load_n(&hri_self.on, __ATOMIC_ACQUIRE) ||
        !(hri_self.here ? *hri_self.here : hri_self.pid == getpid())) {
        return false;
    }
    kept_errno = errno;
    depth = 1;
    __atomic_fetch_add(&hri_self.inside, ENTERED + 1, __ATOMIC_ACQ_REL);
    return true;
}

CUresult hri_leave(CUresult result) {
    __atomic_fetch_sub(&hri_self.inside, 1, __ATOMIC_ACQ_REL);
    depth = 0;
    errno = kept_errno;
    return result;
}

void hri_inside_for_ever(void) {
    depth = 2;
}

uint64_t hri_moment(void) {
    const uint64_t inside = __atomic_load_n(&hri_self.inside, __ATOMIC_ACQUIRE);
    return inside % ENTERED <= (depth == 1) ? inside : UINT64_MAX;
}

/* CUDA is unusable in a forked child; what it inherits must neither keep its parent alive nor speak for it. */
static void forget_in_child(void) {
    if (hri_self.socket >= 0) {
        close(hri_self.socket);
    }
    hri_page_close_in_child();
    hri_record_close_in_child();
    const uint64_t job = hri_self.job;
    if (hri_self.here) {
        munmap((void *)(uintptr_t)hri_self.here, sizeof *hri_self.here);
    }
    hri_held_clear(&hri_self.table);
    memset(&hri_self, 0, sizeof hri_self);
    pthread_mutex_init(&hri_self.lock, NULL);
    pthread_mutex_init(&hri_self.talk, NULL);
    pthread_mutex_init(&hri_self.pools, NULL);
    pthread_mutex_init(&hri_self.spill, NULL);
    hri_gate_forget_in_child();
    hri_self.socket = -1;
    hri_self.job = job;
    depth = 0;
}

/* A word that the kernel clears in every child: asking for the pid is a system call, and this is asked at every call. */
static const volatile int *mark_here(void) {
    int *here =
        mmap(NULL, sizeof *here, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (here == MAP_FAILED) {
        return NULL;
    }
    if (madvise(here, sizeof *here, MADV_WIPEONFORK) != 0) {
        munmap(here, sizeof *here);
        return NULL;
    }
    *here = 1;
    return here;
}

void hri_start(void) {
    static int
        watched; /* fork handlers are registered once in a program's life, children included */
    const char *job = getenv("HEADROOM_RUN_JOB");
    if (!job || !*job || depth) {
        return;
    }
    const int error = errno;
    depth = 1;
    pthread_mutex_lock(&hri_self.talk);
    if (hri_self.pid != getpid()) {
        const char *wait = getenv("HEADROOM_RUN_WAIT_MS");
        const char *spill = getenv("HEADROOM_RUN_SPILL");
        hri_self.job = strtoull(job, NULL, 10);
        hri_self.wait_ms = wait ? strtoull(wait, NULL, 10) : 0;
        hri_self.spill_limit_bytes = spill ? strtoull(spill, NULL, 10) : 0;
        if (hri_self.job && hri_wire_folder(hri_self.folder, sizeof hri_self.folder) == 0) {
            hri_self.pid = getpid();
            hri_self.here = mark_here();
            if (!watched) {
                watched = pthread_atfork(NULL, NULL, forget_in_child) == 0;
            }
            hri_page_open();
            hri_record_open();
            /* Without a broker there is no lease: everything is refused until it is there. */
            (void)hri_talk_open();
            __atomic_store_n(&hri_self.on, 1, __ATOMIC_RELEASE);
        }
    }
    pthread_mutex_unlock(&hri_self.talk);
    depth = 0;
    errno = error;
}

/* ---- devices ---- */

int hri_device_open(int device) {
    if (device < 0 || device >= HRI_RUN_DEVICES) {
        return -1;
    }
    hri_run_device *d = &hri_self.device[device];
    if (__atomic_load_n(&d->known, __ATOMIC_ACQUIRE)) {
        return 0;
    }
    typedef CUresult uuid_fn(CUuuid *, CUdevice);
    typedef CUresult count_fn(int *);
    uuid_fn *uuid = (uuid_fn *)hri_driver_function("cuDeviceGetUuid_v2");
    uuid = uuid ? uuid : (uuid_fn *)hri_driver_function("cuDeviceGetUuid");
    count_fn *count_devices = (count_fn *)hri_driver_function("cuDeviceGetCount");
    CUuuid id;
    size_t total = 0;
    int count = 0;
    if (!uuid || uuid(&id, device) != CUDA_SUCCESS) {
        return -1;
    }
    (void)HRI_CALL(cuDeviceTotalMem_v2, &total, device);
    pthread_mutex_lock(&hri_self.talk);
    if (!d->known) {
        memcpy(d->uuid, id.bytes, sizeof d->uuid);
        d->total_bytes = total;
        d->pool_chunk = 32 << 20;
        const int alone = count_devices && count_devices(&count) == CUDA_SUCCESS && count == 1;
        __atomic_store_n(&hri_self.one_device, alone, __ATOMIC_RELEASE);
        hri_wire w = hri_wire_make(HRI_VERB_DEVICE);
        memcpy(w.uuid, d->uuid, sizeof w.uuid);
        w.total_bytes = total;
        /* With the broker away the device is known all the same, with an empty lease: nothing passes by it. */
        (void)hri_talk(&w, 0, device, 0);
        __atomic_store_n(&d->known, 1, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&hri_self.talk);
    hri_watcher_start(false);
    return 0;
}

int hri_current_device(void) {
    typedef CUresult device_fn(CUdevice *);
    static device_fn *current;
    if (__atomic_load_n(&hri_self.one_device, __ATOMIC_ACQUIRE) &&
        __atomic_load_n(&hri_self.device[0].context, __ATOMIC_ACQUIRE)) {
        return 0; /* without a context the driver refuses what is asked, and nothing is charged */
    }
    if (!current) {
        current = (device_fn *)hri_driver_function("cuCtxGetDevice");
    }
    CUdevice device;
    if (!current || current(&device) != CUDA_SUCCESS) {
        return -1;
    }
    if (hri_device_open(device) != 0) {
        return -1;
    }
    hri_run_device *d = &hri_self.device[device];
    if (!__atomic_exchange_n(&d->context, 1, __ATOMIC_ACQ_REL)) {
        hri_cause_now(d, HRI_CAUSE_CONTEXT);
        (void)hri_refresh(device); /* somebody made it behind our back: now it is measured */
    }
    return device;
}

/* ---- taking and giving ---- */

uint64_t hri_held_bytes(const hri_run_device *d) {
    return d->tracked_bytes + d->remainder_bytes;
}

/* With what pools may have grown by since somebody looked: what the lease must cover. */
static uint64_t charged(const hri_run_device *d) {
    return hri_held_bytes(d) + d->ahead_bytes;
}

static void note_peak(hri_run_device *d) {
    const uint64_t held = hri_held_bytes(d);
    d->peak_bytes = held > d->peak_bytes ? held : d->peak_bytes;
}

/* Takes from the lease as it is; under lock. */
static bool take_here(hri_run_device *d, uint64_t bytes) {
    const uint64_t held = charged(d);
    if (held > d->granted_bytes || bytes > d->granted_bytes - held) {
        return false;
    }
    d->tracked_bytes += bytes;
    note_peak(d);
    return true;
}

/* The step in which leases grow and shrink: small for small budgets, so that processes of one job can share one. */
static uint64_t chunk_of(const hri_run_device *d) {
    const uint64_t part = d->limit_bytes / 32 / HRI_BLOCK * HRI_BLOCK;
    return part < CHUNK_LEAST ? CHUNK_LEAST : part > CHUNK_MOST ? CHUNK_MOST : part;
}

/* What a lease is left with beyond what is held.  A program with pools likes to have more ahead; with --overcommit that would
 * be the others'. */
static uint64_t spare_of(const hri_run_device *d) {
    const bool ahead = d->current_known && !(hri_self.flags & HRI_WIRE_OVERCOMMIT);
    return chunk_of(d) + (ahead ? d->limit_bytes / 16 : 0);
}

/* What the remainder is made of, when that has changed.  Under talk. */
static void tell_causes(int device, const hri_wire *answer) {
    hri_run_device *d = &hri_self.device[device];
    hri_wire w = hri_wire_make(HRI_VERB_CAUSES);
    pthread_mutex_lock(&hri_self.lock);
    const int changed = hri_causes_learn(d, answer);
    memcpy(w.cause_bytes, d->cause_bytes, sizeof w.cause_bytes);
    note_peak(d);
    hri_page_refresh(device);
    pthread_mutex_unlock(&hri_self.lock);
    memcpy(w.uuid, d->uuid, sizeof w.uuid);
    if (changed) {
        (void)hri_talk(&w, 0, device, 0); /* only to be shown: a broker that is away misses it */
    }
}

/* One exchange about the lease: asks for `more` bytes above what is held.  Under talk. */
static int exchange(int device, uint64_t more, uint64_t wait_ms, hri_wire *answer) {
    hri_run_device *d = &hri_self.device[device];
    hri_wire w = hri_wire_make(HRI_VERB_LEASE);
    /* The remainder is measured against what is tracked: let it be the truth. */
    hri_pools_settle(device, false, true);
    hri_self.moment = hri_moment();
    pthread_mutex_lock(&hri_self.lock);
    w.held_bytes = d->tracked_bytes;
    w.remainder_bytes = d->remainder_bytes;
    w.least_bytes = more + d->ahead_bytes + d->unsure_bytes;
    w.wanted_bytes = w.least_bytes + spare_of(d);
    /* What the broker will take back is gone now: another thread must not take of it while we talk. */
    const uint64_t kept = hri_held_bytes(d) + w.wanted_bytes;
    d->granted_bytes = d->granted_bytes < kept ? d->granted_bytes : kept;
    pthread_mutex_unlock(&hri_self.lock);
    memcpy(w.uuid, d->uuid, sizeof w.uuid);
    w.wait_ms = wait_ms;
    w.flags = hri_self.captures ? HRI_WIRE_CAPTURING : 0;
    const int failed = hri_talk(&w, wait_ms, device, more);
    *answer = w;
    if (!failed) {
        tell_causes(device, &w);
    }
    return failed;
}

static uint64_t now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000u + (uint64_t)t.tv_nsec / 1000000u;
}

uint64_t hri_coarse_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
    return (uint64_t)t.tv_sec * 1000u + (uint64_t)t.tv_nsec / 1000000u;
}

static hri_page_kind kind_of(int away, uint32_t said) {
    return away                        ? HRI_PAGE_REFUSE_AWAY
           : said == HRI_SAID_LIMIT    ? HRI_PAGE_REFUSE_LIMIT
           : said == HRI_SAID_DEADLOCK ? HRI_PAGE_REFUSE_DEADLOCK
                                       : HRI_PAGE_REFUSE_FULL;
}

/* Grows the lease until the bytes are ours; HRI_PAGE_TAKE, or the kind of refusal. */
static hri_page_kind grow(int device, uint64_t bytes, uint64_t wait_ms) {
    hri_run_device *d = &hri_self.device[device];
    hri_page_kind kind = HRI_PAGE_REFUSE_FULL;
    pthread_mutex_lock(&hri_self.talk);
    for (int round = 0; round < 8; round++) {
        hri_wire answer;
        pthread_mutex_lock(&hri_self.lock);
        const bool ours = take_here(d, bytes);
        pthread_mutex_unlock(&hri_self.lock);
        if (ours) {
            kind = HRI_PAGE_TAKE;
            break;
        }
        /* Another thread, or a remainder that grew, may use up what was granted: then it is asked for again. */
        const int away = exchange(device, bytes, wait_ms, &answer);
        if (away || answer.said != HRI_SAID_OK) {
            kind = kind_of(away, answer.said);
            pthread_mutex_lock(&hri_self.lock);
            if (take_here(d, bytes)) { /* freed meanwhile */
                kind = HRI_PAGE_TAKE;
            }
            pthread_mutex_unlock(&hri_self.lock);
            break;
        }
    }
    pthread_mutex_unlock(&hri_self.talk);
    return kind;
}

/* The broker asked for memory back: idle pools are trimmed, and the lease shrinks to what is held. */
void hri_answer(int device) {
    static uint64_t looked_ms[HRI_RUN_DEVICES]; /* atomic */
    const uint64_t now = hri_coarse_ms();
    if (now - __atomic_load_n(&looked_ms[device], __ATOMIC_RELAXED) < ANSWER_MS) {
        return; /* looking costs two system calls */
    }
    __atomic_store_n(&looked_ms[device], now, __ATOMIC_RELAXED);
    if (hri_talk_asked(device) == UINT64_MAX) {
        hri_causes_look(device);
        return;
    }
    if (!hri_self.captures) {
        hri_pools_settle(device, true, true);
    }
    (void)hri_refresh(device);
}

bool hri_take_quietly(int device, uint64_t bytes) {
    hri_run_device *d = &hri_self.device[device];
    pthread_mutex_lock(&hri_self.lock);
    const uint64_t held = charged(d);
    const bool ours = held <= d->granted_bytes && bytes <= d->granted_bytes - held;
    d->tracked_bytes += ours ? bytes : 0;
    pthread_mutex_unlock(&hri_self.lock);
    return ours;
}

void hri_give_quietly(int device, uint64_t bytes) {
    hri_run_device *d = &hri_self.device[device];
    pthread_mutex_lock(&hri_self.lock);
    d->tracked_bytes -= bytes < d->tracked_bytes ? bytes : d->tracked_bytes;
    note_peak(d);
    pthread_mutex_unlock(&hri_self.lock);
    hri_answer(device);
}

bool hri_lease_more(int device, uint64_t bytes) {
    if (grow(device, bytes, 0) != HRI_PAGE_TAKE) {
        return false;
    }
    pthread_mutex_lock(&hri_self.lock);
    hri_run_device *d = &hri_self.device[device];
    d->tracked_bytes -= bytes < d->tracked_bytes ? bytes : d->tracked_bytes;
    pthread_mutex_unlock(&hri_self.lock);
    return true;
}

CUresult hri_try_take(int device, uint64_t bytes, hri_hook call) {
    hri_run_device *d = &hri_self.device[device];
    pthread_mutex_lock(&hri_self.lock);
    const bool ours = take_here(d, bytes);
    pthread_mutex_unlock(&hri_self.lock);
    if (ours || grow(device, bytes, 0) == HRI_PAGE_TAKE) {
        hri_page_event_add(device, HRI_PAGE_TAKE, bytes, call);
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult hri_take(int device, uint64_t bytes, hri_hook call) {
    hri_run_device *d = &hri_self.device[device];
    hri_answer(device);
    if (hri_try_take(device, bytes, call) == CUDA_SUCCESS) {
        return CUDA_SUCCESS;
    }
    /* Pools may hold memory that nobody uses. */
    hri_pools_settle(device, !hri_self.captures, true);
    const uint64_t from_ms = now_ms();
    const hri_page_kind kind = grow(device, bytes, hri_self.captures ? 0 : hri_self.wait_ms);
    if (kind == HRI_PAGE_TAKE) {
        hri_page_event_add(device, kind, bytes, call);
        return CUDA_SUCCESS;
    }
    pthread_mutex_lock(&hri_self.lock);
    d->free_bytes = d->granted_bytes > hri_held_bytes(d) ? d->granted_bytes - hri_held_bytes(d) : 0;
    pthread_mutex_unlock(&hri_self.lock);
    hri_page_refuse(device, kind, bytes, call, now_ms() - from_ms);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

void hri_give(int device, uint64_t bytes, hri_hook call) {
    hri_run_device *d = &hri_self.device[device];
    pthread_mutex_lock(&hri_self.lock);
    d->tracked_bytes -= bytes < d->tracked_bytes ? bytes : d->tracked_bytes;
    const bool much = d->granted_bytes > charged(d) + 2 * chunk_of(d) + spare_of(d);
    pthread_mutex_unlock(&hri_self.lock);
    if (bytes) {
        hri_page_event_add(device, HRI_PAGE_GIVE, bytes, call);
    }
    if (much) {
        (void)hri_refresh(device);
    }
    hri_answer(device);
}

void hri_became_remainder(int device, uint64_t bytes) {
    hri_run_device *d = &hri_self.device[device];
    pthread_mutex_lock(&hri_self.lock);
    d->tracked_bytes -= bytes < d->tracked_bytes ? bytes : d->tracked_bytes;
    d->remainder_bytes += bytes;
    pthread_mutex_unlock(&hri_self.lock);
}

void hri_driver_refused(int device, uint64_t bytes, hri_hook call) {
    hri_page_refuse(device, HRI_PAGE_REFUSE_DRIVER, bytes, call, 0);
}

bool hri_refresh(int device) {
    hri_wire answer;
    pthread_mutex_lock(&hri_self.talk);
    const bool sure = exchange(device, 0, 0, &answer) == 0 && hri_self.device[device].sure;
    pthread_mutex_unlock(&hri_self.talk);
    return sure;
}
