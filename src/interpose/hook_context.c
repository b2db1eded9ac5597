/* Contexts: what the driver takes before the first allocation.
 *
 * Nobody knows beforehand what a context costs; afterwards NVML does, and the broker reads it there.  So a context is made,
 * measured and paid for in one step, and when the budget has no room for it, it is taken back and the program is told that
 * there is no memory.  A context that was made in another way (libcudart has one) is paid for at the first call that finds
 * it current. */
#include "interpose/causes.h"
#include "interpose/spill.h"

/* Before a context is made: what one is known to cost is taken, so that a second one is refused before it is there.  *out: so
 * much; hri_became_remainder or hri_give follows. */
static CUresult set_aside(int device, hri_hook call, uint64_t *out) {
    pthread_mutex_lock(&hri_self.lock);
    *out = hri_self.device[device].context_bytes;
    pthread_mutex_unlock(&hri_self.lock);
    return *out ? hri_take(device, *out, call) : CUDA_SUCCESS;
}

/* After a context was made, for which `aside` bytes were taken: measures, and asks whether it fits. */
static CUresult pay(int device, uint64_t aside, hri_hook call) {
    hri_run_device *d = &hri_self.device[device];
    const int known = __atomic_exchange_n(&d->context, 1, __ATOMIC_ACQ_REL);
    const uint64_t before = d->remainder_bytes;
    hri_cause_now(d, HRI_CAUSE_CONTEXT);
    hri_became_remainder(device, aside);
    (void)hri_refresh(device);
    const uint64_t cost = d->remainder_bytes > before ? d->remainder_bytes - before : 0;
    if (hri_held_bytes(d) <= d->granted_bytes || hri_take(device, 0, call) == CUDA_SUCCESS) {
        pthread_mutex_lock(&hri_self.lock);
        d->context_bytes = cost > d->context_bytes ? cost : d->context_bytes;
        pthread_mutex_unlock(&hri_self.lock);
        hri_page_event_add(device, HRI_PAGE_TAKE, cost, call);
        return CUDA_SUCCESS;
    }
    d->context = known;
    return CUDA_ERROR_OUT_OF_MEMORY;
}

/* Whether the primary context is there; `otherwise` where the driver does not say. */
static int primary_active(int device, int otherwise) {
    typedef CUresult state_fn(CUdevice, unsigned int *, int *);
    static state_fn *get;
    unsigned int flags;
    int active = otherwise;
    if (!get) {
        get = (state_fn *)hri_driver_function("cuDevicePrimaryCtxGetState");
    }
    return get && get(device, &flags, &active) == CUDA_SUCCESS ? active : otherwise;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *out, CUdevice device) {
    const int governed = hri_enter();
    if (!governed || hri_device_open(device) != 0) {
        const CUresult result = HRI_CALL(cuDevicePrimaryCtxRetain, out, device);
        return governed ? hri_leave(result) : result;
    }
    const int known = hri_self.device[device].context;
    if (known && primary_active(device, known)) { /* the second retain of many */
        return hri_leave(HRI_CALL(cuDevicePrimaryCtxRetain, out, device));
    }
    uint64_t aside;
    CUresult result = set_aside(device, HRI_HOOK_cuDevicePrimaryCtxRetain, &aside);
    if (result != CUDA_SUCCESS) {
        return hri_leave(result);
    }
    result = HRI_CALL(cuDevicePrimaryCtxRetain, out, device);
    if (result != CUDA_SUCCESS) {
        hri_give(device, aside, HRI_HOOK_cuDevicePrimaryCtxRetain);
        return hri_leave(result);
    }
    result = pay(device, aside, HRI_HOOK_cuDevicePrimaryCtxRetain);
    if (result != CUDA_SUCCESS) {
        (void)HRI_CALL(cuDevicePrimaryCtxRelease_v2, device);
        (void)hri_refresh(device);
    }
    return hri_leave(result);
}

/* ---- what dies with a context ---- */

uint64_t hri_context_now(void) {
    typedef CUresult current_fn(CUcontext *);
    static current_fn *get;
    if (!__atomic_load_n(&hri_self.contexts, __ATOMIC_ACQUIRE)) {
        return 0;
    }
    if (!get) {
        get = (current_fn *)hri_driver_function("cuCtxGetCurrent");
    }
    CUcontext context = NULL;
    return get && get(&context) == CUDA_SUCCESS ? (uint64_t)(uintptr_t)context : 0;
}

/* Memory, or an array, of this context; of the primary one when `context` is 0.  Under lock. */
static bool dies(const hri_held_entry *e, int device, uint64_t context) {
    if (e->device != device || (e->kind != HRI_KIND_MEMORY && e->kind != HRI_KIND_ARRAY)) {
        return false;
    }
    return context ? e->b == context
                   : !e->b || !hri_held_find(&hri_self.table, HRI_KIND_CONTEXT, e->b);
}

/* Takes one out, from *at on; its kind is HRI_KIND_NONE when there is none. */
static hri_held_entry take_dead(int device, uint64_t context, size_t *at) {
    hri_held_entry was = {0};
    pthread_mutex_lock(&hri_self.lock);
    while (*at < hri_self.table.room && !dies(&hri_self.table.entries[*at], device, context)) {
        ++*at;
    }
    if (*at < hri_self.table.room) { /* another one may move here: *at stays */
        was = hri_self.table.entries[*at];
        hri_held_remove(&hri_self.table, &hri_self.table.entries[*at]);
    }
    pthread_mutex_unlock(&hri_self.lock);
    return was;
}

static void bury(int device, uint64_t context, hri_hook call) {
    bool any = true;
    while (any) { /* once more: removing moves entries over the end of the table */
        size_t at = 0;
        any = false;
        for (hri_held_entry was = take_dead(device, context, &at); was.kind;
             was = take_dead(device, context, &at)) {
            any = true;
            if (was.kind == HRI_KIND_MEMORY) {
                hri_plain_freed(&was, CUDA_SUCCESS, call);
            } else {
                hri_give(device, was.bytes, call);
            }
        }
    }
}

/* Everything of a context dies with it: memory, arrays.  Its entries are dropped when it is really gone. */
static void primary_ended(int device, hri_hook call) {
    if (primary_active(device, 1)) {
        return;
    }
    hri_run_device *d = &hri_self.device[device];
    bury(device, 0, call);
    pthread_mutex_lock(&hri_self.lock);
    d->context = 0;
    hri_causes_forget(d);
    pthread_mutex_unlock(&hri_self.lock);
    hri_spill_context_ended(device);
    (void)hri_refresh(device);
}

/* The last release takes the context away: what is left is measured again. */
#define CONTEXT_ENDS(NAME)                                                                         \
    CUresult NAME(CUdevice device) {                                                               \
        const int governed = hri_enter();                                                          \
        const CUresult result = HRI_CALL(NAME, device);                                            \
        if (!governed) {                                                                           \
            return result;                                                                         \
        }                                                                                          \
        if (result == CUDA_SUCCESS && hri_device_open(device) == 0) {                              \
            primary_ended(device, HRI_HOOK_##NAME);                                                \
        }                                                                                          \
        return hri_leave(result);                                                                  \
    }

CONTEXT_ENDS(cuDevicePrimaryCtxRelease)
CONTEXT_ENDS(cuDevicePrimaryCtxRelease_v2)
CONTEXT_ENDS(cuDevicePrimaryCtxReset)
CONTEXT_ENDS(cuDevicePrimaryCtxReset_v2)

/* ---- contexts beside the primary one ---- */

static void remember(CUcontext context, int device) {
    pthread_mutex_lock(&hri_self.lock);
    hri_held_add(&hri_self.table, (hri_held_entry){.key = (uint64_t)(uintptr_t)context,
                                                   .kind = HRI_KIND_CONTEXT,
                                                   .device = device});
    pthread_mutex_unlock(&hri_self.lock);
    __atomic_fetch_add(&hri_self.contexts, 1, __ATOMIC_ACQ_REL);
}

#define CREATED(NAME, DEVICE, OUT, ...)                                                            \
    const int governed = hri_enter();                                                              \
    uint64_t aside = 0;                                                                            \
    if (!governed || hri_device_open(DEVICE) != 0) {                                               \
        const CUresult other = HRI_CALL(NAME, __VA_ARGS__);                                        \
        return governed ? hri_leave(other) : other;                                                \
    }                                                                                              \
    CUresult result = set_aside(DEVICE, HRI_HOOK_##NAME, &aside);                                  \
    if (result != CUDA_SUCCESS) {                                                                  \
        return hri_leave(result);                                                                  \
    }                                                                                              \
    result = HRI_CALL(NAME, __VA_ARGS__);                                                          \
    if (result != CUDA_SUCCESS) {                                                                  \
        hri_give(DEVICE, aside, HRI_HOOK_##NAME);                                                  \
        return hri_leave(result);                                                                  \
    }                                                                                              \
    result = pay(DEVICE, aside, HRI_HOOK_##NAME);                                                  \
    if (result != CUDA_SUCCESS) {                                                                  \
        (void)HRI_CALL(cuCtxDestroy_v2, *(OUT));                                                   \
        (void)hri_refresh(DEVICE);                                                                 \
    } else {                                                                                       \
        remember(*(OUT), DEVICE);                                                                  \
    }                                                                                              \
    return hri_leave(result)

CUresult cuCtxCreate(CUcontext *out, unsigned int flags, CUdevice device) {
    CREATED(cuCtxCreate, device, out, out, flags, device);
}

CUresult cuCtxCreate_v2(CUcontext *out, unsigned int flags, CUdevice device) {
    CREATED(cuCtxCreate_v2, device, out, out, flags, device);
}

CUresult cuCtxCreate_v3(CUcontext *out, void *affinity, int count, unsigned int flags,
                        CUdevice device) {
    CREATED(cuCtxCreate_v3, device, out, out, affinity, count, flags, device);
}

CUresult cuCtxCreate_v4(CUcontext *out, void *parameters, unsigned int flags, CUdevice device) {
    CREATED(cuCtxCreate_v4, device, out, out, parameters, flags, device);
}

/* One that shares the primary context's memory has some of its own. */
CUresult cuGreenCtxCreate(void **out, void *description, CUdevice device, unsigned int flags) {
    typedef CUresult destroy_fn(void *);
    const int governed = hri_enter();
    CUresult result = HRI_CALL(cuGreenCtxCreate, out, description, device, flags);
    if (!governed) {
        return result;
    }
    if (result == CUDA_SUCCESS && hri_device_open(device) == 0) {
        result = pay(device, 0, HRI_HOOK_cuGreenCtxCreate);
        destroy_fn *destroy = (destroy_fn *)hri_driver_function("cuGreenCtxDestroy");
        if (result != CUDA_SUCCESS && destroy) {
            (void)destroy(*out);
            (void)hri_refresh(device);
        } else {
            /* Its work is not waited for with the primary context's: what was spilled stays where it is. */
            __atomic_fetch_add(&hri_self.contexts, 1, __ATOMIC_ACQ_REL);
        }
    }
    return hri_leave(result);
}

/* After it was destroyed: what was in it has gone, and so has it. */
static void context_gone(CUcontext context, hri_hook call) {
    const uint64_t key = (uint64_t)(uintptr_t)context;
    pthread_mutex_lock(&hri_self.lock);
    const hri_held_entry *e = hri_held_find(&hri_self.table, HRI_KIND_CONTEXT, key);
    const int device = e ? e->device : -1;
    pthread_mutex_unlock(&hri_self.lock);
    if (device < 0) {
        return;
    }
    bury(device, key, call);
    pthread_mutex_lock(&hri_self.lock);
    hri_held_entry *own = hri_held_find(&hri_self.table, HRI_KIND_CONTEXT, key);
    if (own) {
        hri_held_remove(&hri_self.table, own);
    }
    pthread_mutex_unlock(&hri_self.lock);
    __atomic_fetch_sub(&hri_self.contexts, 1, __ATOMIC_ACQ_REL);
    (void)hri_refresh(device);
}

#define DESTROYS(NAME)                                                                             \
    CUresult NAME(CUcontext context) {                                                             \
        const int governed = hri_enter();                                                          \
        const CUresult result = HRI_CALL(NAME, context);                                           \
        if (!governed) {                                                                           \
            return result;                                                                         \
        }                                                                                          \
        if (result == CUDA_SUCCESS) {                                                              \
            context_gone(context, HRI_HOOK_##NAME);                                                \
        }                                                                                          \
        return hri_leave(result);                                                                  \
    }

DESTROYS(cuCtxDestroy)
DESTROYS(cuCtxDestroy_v2)

/* ---- limits: memory that kernels may take, and that the driver sets aside for them ---- */

/* How many times the limit's value it costs.  A stack is one for every thread that the device can have at once. */
static uint64_t limit_times(int device, int which) {
    typedef CUresult attribute_fn(int *, int, CUdevice);
    attribute_fn *get = (attribute_fn *)hri_driver_function("cuDeviceGetAttribute");
    int processors = 0, threads = 0;
    if (which != CU_LIMIT_STACK_SIZE) {
        return which == CU_LIMIT_PRINTF_FIFO_SIZE || which == CU_LIMIT_MALLOC_HEAP_SIZE;
    }
    if (!get ||
        get(&processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device) != CUDA_SUCCESS ||
        get(&threads, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, device) != CUDA_SUCCESS) {
        return 0;
    }
    return processors > 0 && threads > 0 ? (uint64_t)processors * (uint64_t)threads : 0;
}

/* What a higher limit costs more than the one that is set. */
static uint64_t limit_cost(int device, int which, uint64_t value) {
    typedef CUresult get_fn(size_t *, int);
    get_fn *get = (get_fn *)hri_driver_function("cuCtxGetLimit");
    size_t now = 0;
    if (!get || get(&now, which) != CUDA_SUCCESS || value <= now) {
        return 0;
    }
    const uint64_t bytes = (value - now) * limit_times(device, which);
    return (bytes + HRI_BLOCK - 1) / HRI_BLOCK * HRI_BLOCK;
}

CUresult cuCtxSetLimit(int which, size_t value) {
    const int device = hri_enter() ? hri_current_device() : -2;
    if (device < 0 || value > UINT64_MAX >> 32) {
        const CUresult result = HRI_CALL(cuCtxSetLimit, which, value);
        return device == -2 ? result : hri_leave(result);
    }
    const uint64_t cost = limit_cost(device, which, value);
    hri_cause(device, HRI_CAUSE_CONTEXT);
    CUresult result = cost ? hri_take(device, cost, HRI_HOOK_cuCtxSetLimit) : CUDA_SUCCESS;
    if (result != CUDA_SUCCESS) {
        return hri_leave(result);
    }
    result = HRI_CALL(cuCtxSetLimit, which, value);
    if (result == CUDA_SUCCESS) {
        hri_became_remainder(device, cost); /* the driver may take it later: it is measured then */
    } else {
        hri_give(device, cost, HRI_HOOK_cuCtxSetLimit);
    }
    return hri_leave(result);
}
