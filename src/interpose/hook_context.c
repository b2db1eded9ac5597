/* Contexts: what the driver takes before the first allocation.
 *
 * Nobody knows beforehand what a context costs; afterwards NVML does, and the broker reads it there.  So a context is made,
 * measured and paid for in one step, and when the budget has no room for it, it is taken back and the program is told that
 * there is no memory.  A context that was made in another way (libcudart has one) is paid for at the first call that finds
 * it current. */
#include "interpose/causes.h"
#include "interpose/spill.h"

/* After a context was made: measures, and asks whether it fits. */
static CUresult pay(int device, hri_hook call) {
    hri_run_device *d = &hri_self.device[device];
    const int known = __atomic_exchange_n(&d->context, 1, __ATOMIC_ACQ_REL);
    const uint64_t before = d->remainder_bytes;
    hri_cause_now(d, HRI_CAUSE_CONTEXT);
    hri_refresh(device);
    if (hri_held_bytes(d) <= d->granted_bytes || hri_take(device, 0, call) == CUDA_SUCCESS) {
        hri_page_event_add(device, HRI_PAGE_TAKE,
                           d->remainder_bytes > before ? d->remainder_bytes - before : 0, call);
        return CUDA_SUCCESS;
    }
    d->context = known;
    return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *out, CUdevice device) {
    const int governed = hri_enter();
    if (!governed || hri_device_open(device) != 0) {
        const CUresult result = HRI_CALL(cuDevicePrimaryCtxRetain, out, device);
        return governed ? hri_leave(result) : result;
    }
    CUresult result = HRI_CALL(cuDevicePrimaryCtxRetain, out, device);
    if (result == CUDA_SUCCESS && !hri_self.device[device].context) {
        result = pay(device, HRI_HOOK_cuDevicePrimaryCtxRetain);
        if (result != CUDA_SUCCESS) {
            (void)HRI_CALL(cuDevicePrimaryCtxRelease_v2, device);
            hri_refresh(device);
        }
    }
    return hri_leave(result);
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
            hri_context_ended(device);                                                             \
        }                                                                                          \
        return hri_leave(result);                                                                  \
    }

/* Everything of a context dies with it: memory, arrays, pools.  Its entries are dropped when it is really gone. */
static void hri_context_ended(int device) {
    typedef CUresult state_fn(CUdevice, unsigned int *, int *);
    static state_fn *get;
    unsigned int flags;
    int active = 1;
    if (!get) {
        get = (state_fn *)hri_driver_function("cuDevicePrimaryCtxGetState");
    }
    if (!get || get(device, &flags, &active) != CUDA_SUCCESS || active) {
        return;
    }
    hri_run_device *d = &hri_self.device[device];
    pthread_mutex_lock(&hri_self.lock);
    for (size_t i = 0; i < hri_self.table.room;) {
        hri_held_entry *e = &hri_self.table.entries[i];
        const int dies =
            e->device == device &&
            (e->kind == HRI_KIND_MEMORY || e->kind == HRI_KIND_BLOCK || e->kind == HRI_KIND_ARRAY);
        if (dies) {
            /* A block is charged once, whoever uses it; memory itself for what lies between its blocks. */
            uint64_t bytes = e->kind == HRI_KIND_BLOCK ? HRI_BLOCK : e->bytes;
            if (e->kind == HRI_KIND_MEMORY) {
                const uint64_t first = e->key / HRI_BLOCK, last = (e->key + e->a - 1) / HRI_BLOCK;
                bytes = last - first > 1 ? (last - first - 1) * HRI_BLOCK : 0;
            }
            d->tracked_bytes -= bytes < d->tracked_bytes ? bytes : d->tracked_bytes;
            hri_held_remove(&hri_self.table, e); /* may move another one here: look again */
        } else {
            i++;
        }
    }
    d->context = 0;
    d->remainder_bytes = 0;
    hri_causes_forget(d);
    pthread_mutex_unlock(&hri_self.lock);
    hri_spill_context_ended(device);
    hri_refresh(device);
}

CONTEXT_ENDS(cuDevicePrimaryCtxRelease)
CONTEXT_ENDS(cuDevicePrimaryCtxRelease_v2)
CONTEXT_ENDS(cuDevicePrimaryCtxReset)
CONTEXT_ENDS(cuDevicePrimaryCtxReset_v2)

/* A context beside the primary one; `call` is the real function with its arguments. */
#define CREATED(NAME, DEVICE, OUT, ...)                                                            \
    const int governed = hri_enter();                                                              \
    CUresult result = HRI_CALL(NAME, __VA_ARGS__);                                                 \
    if (!governed) {                                                                               \
        return result;                                                                             \
    }                                                                                              \
    if (result == CUDA_SUCCESS && hri_device_open(DEVICE) == 0) {                                  \
        result = pay(DEVICE, HRI_HOOK_##NAME);                                                     \
        if (result != CUDA_SUCCESS) {                                                              \
            (void)HRI_CALL(cuCtxDestroy_v2, *(OUT));                                               \
            hri_refresh(DEVICE);                                                                   \
        } else {                                                                                   \
            __atomic_fetch_add(&hri_self.contexts, 1, __ATOMIC_ACQ_REL);                           \
        }                                                                                          \
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
        result = pay(device, HRI_HOOK_cuGreenCtxCreate);
        destroy_fn *destroy = (destroy_fn *)hri_driver_function("cuGreenCtxDestroy");
        if (result != CUDA_SUCCESS && destroy) {
            (void)destroy(*out);
            hri_refresh(device);
        } else {
            /* Its work is not waited for with the primary context's: what was spilled stays where it is. */
            __atomic_fetch_add(&hri_self.contexts, 1, __ATOMIC_ACQ_REL);
        }
    }
    return hri_leave(result);
}

static CUresult destroyed(CUresult result) {
    if (result == CUDA_SUCCESS && __atomic_load_n(&hri_self.contexts, __ATOMIC_ACQUIRE) > 0) {
        __atomic_fetch_sub(&hri_self.contexts, 1, __ATOMIC_ACQ_REL);
    }
    return result;
}

CUresult cuCtxDestroy(CUcontext context) {
    return destroyed(HRI_CALL(cuCtxDestroy, context));
}

CUresult cuCtxDestroy_v2(CUcontext context) {
    return destroyed(HRI_CALL(cuCtxDestroy_v2, context));
}
