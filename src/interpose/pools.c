/* See pools.h. */
#include "interpose/pools.h"

#include <sched.h>

#define LOAD(X)     __atomic_load_n(&(X), __ATOMIC_ACQUIRE)
#define STORE(X, V) __atomic_store_n(&(X), (V), __ATOMIC_SEQ_CST)
#define BEGUN(D)    __atomic_load_n(&(D)->pool_begun, __ATOMIC_SEQ_CST)

enum { REFUSED_MS = 500, PATIENCE = 100000 };

static uint64_t up(uint64_t bytes, uint64_t unit) {
    return (bytes + unit - 1) / unit * unit;
}

/* False: the driver does not say. */
static bool read_attribute(CUmemoryPool pool, int which, uint64_t *out) {
    typedef CUresult attribute_fn(CUmemoryPool, int, void *);
    static attribute_fn *get;
    if (!get) {
        get = (attribute_fn *)hri_driver_function("cuMemPoolGetAttribute");
    }
    return get && get(pool, which, out) == CUDA_SUCCESS;
}

uint64_t hri_pool_attribute(CUmemoryPool pool, int which) {
    uint64_t value = 0;
    return read_attribute(pool, which, &value) ? value : 0;
}

/* What it has reserved; `otherwise` when the driver does not say: what is charged stays charged. */
static uint64_t reserved_by(CUmemoryPool pool, uint64_t otherwise) {
    uint64_t value = 0;
    return read_attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &value) ? value : otherwise;
}

static hri_held_entry *entry_of(CUmemoryPool pool) {
    return hri_held_find(&hri_self.table, HRI_KIND_POOL, (uint64_t)(uintptr_t)pool);
}

/* ---- pools that are known ---- */

int hri_pool_known(CUmemoryPool pool) {
    for (int d = 0; d < HRI_RUN_DEVICES && LOAD(hri_self.device[d].known); d++) {
        for (int i = 0; i < HRI_RUN_POOLS; i++) {
            if (LOAD(hri_self.device[d].pool[i]) == pool) {
                return d;
            }
        }
    }
    return -1;
}

/* Nothing goes through any more, until somebody has looked.  Under lock. */
static void close_way(hri_run_device *d) {
    STORE(d->pool_until, 0);
}

void hri_pool_changed(int device) {
    pthread_mutex_lock(&hri_self.lock);
    close_way(&hri_self.device[device]);
    STORE(hri_self.device[device].current_known, 0);
    pthread_mutex_unlock(&hri_self.lock);
}

void hri_pool_forget(int device, CUmemoryPool pool) {
    hri_run_device *d = &hri_self.device[device];
    close_way(d);
    STORE(d->current_known, 0); /* the driver takes another one when it was this */
    for (int i = 0; i < HRI_RUN_POOLS; i++) {
        if (d->pool[i] == pool) {
            STORE(d->pool[i], NULL);
        }
    }
}

/* Enters the pool; 1: it was known, and calls of it may be let through. */
static int remember(int device, CUmemoryPool pool, bool current) {
    hri_run_device *d = &hri_self.device[device];
    int place = -1;
    pthread_mutex_lock(&hri_self.lock);
    if (!entry_of(pool)) {
        hri_held_add(&hri_self.table, (hri_held_entry){.key = (uint64_t)(uintptr_t)pool,
                                                       .kind = HRI_KIND_POOL,
                                                       .device = device});
    }
    const bool entered = entry_of(pool) != NULL;
    for (int i = 0; i < HRI_RUN_POOLS; i++) {
        if (d->pool[i] == pool) {
            STORE(d->current_known, current ? 1 : d->current_known);
            pthread_mutex_unlock(&hri_self.lock);
            return 1;
        }
        place = place < 0 && !d->pool[i] ? i : place;
    }
    if (place >= 0 && entered) {
        close_way(d); /* base is larger now */
        STORE(d->pool[place], pool);
    }
    pthread_mutex_unlock(&hri_self.lock);
    return 0;
}

/* ---- looking ---- */

/* What may come on top of twice the bytes asked for.  Under lock. */
static uint64_t base_of(const hri_run_device *d) {
    uint64_t pools = 1;
    for (int i = 0; i < HRI_RUN_POOLS; i++) {
        pools += d->pool[i] != NULL;
    }
    return pools * d->pool_chunk;
}

/* The most that a request adds to what pools may have grown by. */
static uint64_t risk_of(const hri_run_device *d, uint64_t bytes) {
    const uint64_t chunk = LOAD(d->pool_chunk);
    return bytes > chunk / 2 ? up(bytes, chunk) : 2 * up(bytes, 512);
}

typedef struct seen {
    uint64_t grown, shrunk;
} seen;

/* Charges pools with what they have.  Under lock.  A call that is made exactly charges what it made its pool grow by. */
static seen look(int device, bool drop) {
    hri_run_device *d = &hri_self.device[device];
    const uint64_t ended = LOAD(d->pool_ended); /* before the driver is asked, and before `begun` */
    const bool open = d->pool_until != 0 && !d->exact_calls;
    seen s = {0};
    if (drop && !d->exact_calls) {
        close_way(d);
    }
    for (int i = 0; i < HRI_RUN_POOLS; i++) {
        hri_held_entry *e = d->pool[i] ? entry_of(d->pool[i]) : NULL;
        if (!e) {
            continue;
        }
        const uint64_t reserved = reserved_by(d->pool[i], e->bytes);
        if (reserved > e->bytes && !d->exact_calls) {
            s.grown += reserved - e->bytes;
            e->bytes = reserved;
        } else if (reserved < e->bytes && !hri_self.pool_flight) {
            s.shrunk += e->bytes - reserved;
            e->bytes = reserved;
        }
    }
    d->tracked_bytes += s.grown;
    d->tracked_bytes -= s.shrunk < d->tracked_bytes ? s.shrunk : d->tracked_bytes;
    const uint64_t held = hri_held_bytes(d);
    d->peak_bytes = held > d->peak_bytes ? held : d->peak_bytes;
    if (d->exact_calls) {
        return s;
    }
    if (s.grown > d->ahead_bytes) {
        STORE(d->pool_chunk,
              2 * d->pool_chunk); /* pools here are not as we think: more care from now on */
    }
    d->ahead_bytes -= s.grown < d->ahead_bytes ? s.grown : d->ahead_bytes;
    const uint64_t base = base_of(d), way = BEGUN(d) - ended;
    const uint64_t least = way ? way + base : 0; /* of calls that are on their way */
    if (drop || !open) {
        d->ahead_bytes = d->ahead_bytes < least ? d->ahead_bytes : least;
    }
    d->pool_looked = ended;
    STORE(d->pool_until,
          open && !drop && d->ahead_bytes > base ? ended + d->ahead_bytes - base : 0);
    return s;
}

static void record(int device, seen s, hri_hook call) {
    if (s.grown) {
        hri_page_event_add(device, HRI_PAGE_TAKE, s.grown, call);
    }
    if (s.shrunk) {
        hri_page_event_add(device, HRI_PAGE_GIVE, s.shrunk, call);
    }
}

void hri_pools_settle(int device, bool trim, bool drop) {
    hri_run_device *d = &hri_self.device[device];
    for (int i = 0; trim && i < HRI_RUN_POOLS; i++) {
        CUmemoryPool pool = LOAD(d->pool[i]);
        if (pool) {
            (void)HRI_CALL(cuMemPoolTrimTo, pool, 0);
        }
    }
    pthread_mutex_lock(&hri_self.lock);
    (void)look(device, drop);
    pthread_mutex_unlock(&hri_self.lock);
}

/* ---- the way through ---- */

bool hri_pool_pass(int device, bool current, uint64_t bytes, hri_pool_turn *out) {
    hri_run_device *d = &hri_self.device[device];
    const uint64_t until = LOAD(d->pool_until);
    if (!until || bytes > UINT64_MAX / 8 || (current && !LOAD(d->current_known))) {
        return false;
    }
    const uint64_t risk = risk_of(d, bytes);
    const uint64_t begun = __atomic_add_fetch(&d->pool_begun, risk, __ATOMIC_SEQ_CST);
    /* Asked again: a look may have closed the way meanwhile. */
    if (begun > __atomic_load_n(&d->pool_until, __ATOMIC_SEQ_CST)) {
        __atomic_fetch_sub(&d->pool_begun, risk, __ATOMIC_SEQ_CST);
        return false;
    }
    *out = (hri_pool_turn){.bytes = risk};
    return true;
}

/* Sets as much ahead as the lease has, up to a sixteenth of the budget beyond what the call needs; false: not enough for it. */
static bool set_ahead(int device, uint64_t bytes) {
    hri_run_device *d = &hri_self.device[device];
    pthread_mutex_lock(&hri_self.lock);
    const uint64_t base = base_of(d), held = hri_held_bytes(d);
    const uint64_t room = d->granted_bytes > held ? d->granted_bytes - held : 0;
    const uint64_t since = BEGUN(d) - d->pool_looked; /* paid for by what is ahead, too */
    const uint64_t least = base + since + risk_of(d, bytes);
    const uint64_t most = least + (hri_self.flags & HRI_WIRE_OVERCOMMIT ? 0 : d->limit_bytes / 16);
    const bool enough = room >= least && room >= d->ahead_bytes;
    if (enough) {
        const uint64_t wanted = room < most ? room : most;
        d->ahead_bytes = wanted > d->ahead_bytes ? wanted : d->ahead_bytes;
        STORE(d->pool_until, d->pool_looked + d->ahead_bytes - base);
    }
    pthread_mutex_unlock(&hri_self.lock);
    return enough;
}

/* The broker is not asked at every call of a program that lives at its budget.  Under pools. */
static bool refused_lately(const hri_run_device *d) {
    return d->refused_ms && hri_coarse_ms() - d->refused_ms < REFUSED_MS;
}

/* Asks the broker for what is missing, unless it said no a moment ago or it is much of a small budget. */
static bool ask_ahead(int device, uint64_t bytes) {
    hri_run_device *d = &hri_self.device[device];
    pthread_mutex_lock(&hri_self.lock);
    const uint64_t least = base_of(d) + risk_of(d, bytes);
    const bool worth = least <= d->limit_bytes / 4;
    pthread_mutex_unlock(&hri_self.lock);
    if (!worth || refused_lately(d)) {
        return false;
    }
    if (hri_lease_more(device, least) && set_ahead(device, bytes)) {
        return true;
    }
    d->refused_ms = hri_coarse_ms();
    return false;
}

/* Looks, and lets the call through if there is room ahead for it.  Under pools. */
static bool pass_after_look(int device, bool current, uint64_t bytes, hri_hook call,
                            hri_pool_turn *out) {
    pthread_mutex_lock(&hri_self.lock);
    const seen s = look(device, false);
    pthread_mutex_unlock(&hri_self.lock);
    record(device, s, call);
    return (set_ahead(device, bytes) || ask_ahead(device, bytes)) &&
           hri_pool_pass(device, current, bytes, out);
}

/* ---- one at a time ---- */

/* Nothing goes through, and what went through has come back.  Under pools, so it stays so. */
static void stand_alone(int device) {
    const hri_run_device *d = &hri_self.device[device];
    hri_pools_settle(device, false, true);
    for (int i = 0; BEGUN(d) != LOAD(d->pool_ended) && i < PATIENCE; i++) {
        sched_yield(); /* calls of the driver that only find memory: soon */
    }
    hri_pools_settle(device, false, true);
}

/* A pool with enough free memory is let through with nothing when there is nothing to take.  Its memory may lie in pieces that are
 * too small, so it must not matter if it grows all the same: the broker keeps slack_bytes of the budget out of every lease.  While
 * the call goes on, what is charged to pools stays charged (pool_flight).  Under pools. */
static bool has_enough(int device, CUmemoryPool pool, uint64_t bytes, uint64_t most) {
    pthread_mutex_lock(&hri_self.lock);
    const uint64_t reserved = reserved_by(pool, 0);
    const uint64_t used = hri_pool_attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT);
    const hri_held_entry *e = entry_of(pool);
    const bool enough = e && most <= hri_self.device[device].slack_bytes && reserved <= e->bytes &&
                        reserved > used && reserved - used >= up(bytes, 512);
    hri_self.pool_flight += enough;
    pthread_mutex_unlock(&hri_self.lock);
    return enough;
}

static CUresult take_exactly(int device, CUmemoryPool pool, uint64_t bytes, hri_hook call,
                             bool patient, uint64_t *out_taken) {
    hri_run_device *d = &hri_self.device[device];
    const uint64_t most = up(bytes, d->pool_chunk);
    *out_taken = most;
    stand_alone(device);
    if (hri_take_quietly(device, most)) {
        return CUDA_SUCCESS;
    }
    if (has_enough(device, pool, bytes, most)) {
        *out_taken = 0;
        return CUDA_SUCCESS;
    }
    if (!refused_lately(d) && hri_try_take(device, most, call) == CUDA_SUCCESS) {
        return CUDA_SUCCESS;
    }
    d->refused_ms = refused_lately(d) ? d->refused_ms : hri_coarse_ms();
    hri_pools_settle(device, !hri_self.captures, true); /* what is free goes, and is taken anew */
    if (hri_take_quietly(device, most) || hri_try_take(device, most, call) == CUDA_SUCCESS) {
        return CUDA_SUCCESS;
    }
    if (!patient) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    pthread_mutex_unlock(&hri_self.pools); /* this may wait */
    const CUresult result = hri_take(device, most, call);
    pthread_mutex_lock(&hri_self.pools);
    stand_alone(device);
    return result;
}

CUresult hri_pool_take(int device, CUmemoryPool pool, bool current, uint64_t bytes, hri_hook call,
                       bool patient, hri_pool_turn *out) {
    *out = (hri_pool_turn){.exact = true};
    pthread_mutex_lock(&hri_self.pools);
    if (bytes > UINT64_MAX / 8) {
        return CUDA_SUCCESS; /* the driver knows what to say */
    }
    /* The first call of a pool shows in which steps it grows. */
    if (remember(device, pool, current) && pass_after_look(device, current, bytes, call, out)) {
        pthread_mutex_unlock(&hri_self.pools);
        return CUDA_SUCCESS;
    }
    const CUresult result = take_exactly(device, pool, bytes, call, patient, &out->bytes);
    out->bytes = result == CUDA_SUCCESS ? out->bytes : 0;
    pthread_mutex_lock(&hri_self.lock);
    hri_self.device[device].exact_calls = result == CUDA_SUCCESS;
    pthread_mutex_unlock(&hri_self.lock);
    return result;
}

void hri_pool_refused(void) {
    pthread_mutex_unlock(&hri_self.pools);
}

/* ---- behind the call ---- */

/* Charges the pool with what it has reserved now, of which `taken` bytes are taken already. */
static CUresult settle_exactly(int device, CUmemoryPool pool, uint64_t taken, hri_hook call) {
    hri_run_device *d = &hri_self.device[device];
    pthread_mutex_lock(&hri_self.lock);
    hri_held_entry *e = entry_of(pool);
    const uint64_t before = e ? e->bytes : 0;
    const uint64_t reserved = reserved_by(pool, before + taken);
    if (e) {
        e->bytes = reserved;
    }
    if (reserved > before && reserved - before > d->pool_chunk && taken < reserved - before) {
        STORE(d->pool_chunk, up(reserved - before - taken, HRI_BLOCK) + d->pool_chunk);
    }
    d->exact_calls = 0; /* one at a time */
    hri_self.pool_flight = 0;
    pthread_mutex_unlock(&hri_self.lock);
    const uint64_t own = before + taken;
    if (reserved == before) { /* the pool had it.  The lease stays: the next one comes soon */
        hri_give_quietly(device, taken);
        return CUDA_SUCCESS;
    }
    if (reserved <= own) {
        hri_give(device, own - reserved, call);
        return CUDA_SUCCESS;
    }
    if (hri_try_take(device, reserved - own, call) == CUDA_SUCCESS) {
        return CUDA_SUCCESS;
    }
    hri_page_refuse(device, HRI_PAGE_REFUSE_LIMIT, reserved - own, call, 0);
    pthread_mutex_lock(&hri_self.lock);
    e = entry_of(pool);
    if (e) {
        e->bytes = own; /* what is paid for; the caller trims */
    }
    pthread_mutex_unlock(&hri_self.lock);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult hri_pool_settle(int device, CUmemoryPool pool, const hri_pool_turn *turn, hri_hook call) {
    static __thread unsigned turns __attribute__((tls_model("initial-exec")));
    if (turn->exact) {
        const CUresult result = settle_exactly(device, pool, turn->bytes, call);
        pthread_mutex_unlock(&hri_self.pools);
        return result;
    }
    __atomic_fetch_add(&hri_self.device[device].pool_ended, turn->bytes, __ATOMIC_SEQ_CST);
    if (++turns % 64 == 0) {
        hri_answer(device);
    }
    return CUDA_SUCCESS;
}
