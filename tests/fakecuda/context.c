/* Contexts: the primary one of each device, those that programs create beside it, green ones, and the stack of current ones.
 *
 * A context takes memory of its device when it is made, and more when its limits are raised.  Its plain memory, arrays, code
 * and executable graphs go with it; handles of cuMemCreate and pools do not.  Currency is a thing of the thread; after an
 * asynchronous fault every call in the context gives that error.  What was destroyed is known for ever, so that a stale handle
 * is told. */
#include "pieces.h"

#include <stdlib.h>
#include <string.h>

struct CUctx_st fake_contexts[FAKE_DEVICES]; /* the primary ones */

static struct CUctx_st *created; /* under fake_lock */
static _Thread_local struct CUctx_st *stack[16];
static _Thread_local int depth;

/* ---- begin and end ---- */

/* Under the lock. */
static CUresult begin(struct CUctx_st *c, int device) {
    *c = (struct CUctx_st){.device = device,
                           .owed = c->owed,
                           .next = c->next,
                           .taken_bytes = fake_state_context_bytes() + fake_state_stack_bytes()};
    if (fake_state_take(device, c->taken_bytes) != 0) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    c->retains = 1;
    fake_live.contexts++;
    return CUDA_SUCCESS;
}

/* Nobody has it any more: what belongs to it goes.  Not under the lock. */
static void end(struct CUctx_st *c) {
    pthread_mutex_lock(&fake_lock);
    c->retains = 0;
    fake_streams_end(c);
    fake_modules_end(c);
    fake_graphs_end(c);
    fake_state_give(c->device, c->taken_bytes);
    fake_live.contexts--;
    pthread_mutex_unlock(&fake_lock);
    fake_pieces_end(c);
}

/* ---- the primary one ---- */

CUresult fake_cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice ordinal) {
    const int device = fake_device_of(ordinal);
    if (device < 0 || !context) {
        return device < 0 ? CUDA_ERROR_INVALID_DEVICE : CUDA_ERROR_INVALID_VALUE;
    }
    pthread_mutex_lock(&fake_lock);
    struct CUctx_st *c = &fake_contexts[device];
    CUresult result = CUDA_SUCCESS;
    if (c->retains) {
        c->retains++;
    } else {
        result = begin(c, device);
    }
    if (result == CUDA_SUCCESS) {
        *context = c;
    }
    pthread_mutex_unlock(&fake_lock);
    return result;
}

CUresult fake_cuDevicePrimaryCtxRelease_v2(CUdevice ordinal) {
    const int device = fake_device_of(ordinal);
    if (device < 0) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    pthread_mutex_lock(&fake_lock);
    struct CUctx_st *c = &fake_contexts[device];
    const int owed = !c->retains && c->owed, last = c->retains == 1;
    const CUresult result = c->retains || owed ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
    c->owed -= owed;
    c->retains -= c->retains > 1;
    pthread_mutex_unlock(&fake_lock);
    if (last) {
        end(c);
    }
    return result;
}

CUresult fake_cuDevicePrimaryCtxRelease(CUdevice ordinal) {
    return fake_cuDevicePrimaryCtxRelease_v2(ordinal);
}

/* Everything of it goes at once; whoever retained it may, and should, release it all the same. */
CUresult fake_cuDevicePrimaryCtxReset_v2(CUdevice ordinal) {
    const int device = fake_device_of(ordinal);
    if (device < 0) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    pthread_mutex_lock(&fake_lock);
    struct CUctx_st *c = &fake_contexts[device];
    const int alive = c->retains;
    c->owed += alive;
    pthread_mutex_unlock(&fake_lock);
    if (alive) {
        end(c);
    }
    return CUDA_SUCCESS;
}

CUresult fake_cuDevicePrimaryCtxReset(CUdevice ordinal) {
    return fake_cuDevicePrimaryCtxReset_v2(ordinal);
}

CUresult fake_cuDevicePrimaryCtxGetState(CUdevice ordinal, unsigned int *flags, int *active) {
    const int device = fake_device_of(ordinal);
    if (device < 0 || !flags || !active) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    *flags = 0;
    *active = fake_contexts[device].retains > 0;
    return CUDA_SUCCESS;
}

/* ---- beside it ---- */

static CUresult create(CUcontext *out, unsigned int flags, CUdevice ordinal) {
    const int device = fake_device_of(ordinal);
    if (device < 0 || !out || flags > 0xff || depth == 16) {
        return device < 0 ? CUDA_ERROR_INVALID_DEVICE : CUDA_ERROR_INVALID_VALUE;
    }
    struct CUctx_st *c = calloc(1, sizeof *c);
    pthread_mutex_lock(&fake_lock);
    const CUresult result = c ? begin(c, device) : CUDA_ERROR_OUT_OF_MEMORY;
    if (result == CUDA_SUCCESS) {
        c->next = created;
        created = c;
    }
    pthread_mutex_unlock(&fake_lock);
    if (result == CUDA_SUCCESS) {
        *out = stack[depth++] = c; /* it is the current one */
    } else {
        free(c);
    }
    return result;
}

CUresult fake_cuCtxCreate(CUcontext *out, unsigned int flags, CUdevice ordinal) {
    return create(out, flags, ordinal);
}

CUresult fake_cuCtxCreate_v2(CUcontext *out, unsigned int flags, CUdevice ordinal) {
    return create(out, flags, ordinal);
}

CUresult fake_cuCtxCreate_v3(CUcontext *out, void *affinity, int count, unsigned int flags,
                             CUdevice ordinal) {
    return count < 0 || (count && !affinity) ? CUDA_ERROR_INVALID_VALUE
                                             : create(out, flags, ordinal);
}

CUresult fake_cuCtxCreate_v4(CUcontext *out, void *parameters, unsigned int flags,
                             CUdevice ordinal) {
    (void)parameters;
    return create(out, flags, ordinal);
}

/* Under the lock. */
static int is_created(CUcontext context) {
    const struct CUctx_st *c = created;
    while (c && c != context) {
        c = c->next;
    }
    return c != NULL;
}

CUresult fake_cuCtxDestroy_v2(CUcontext context) {
    pthread_mutex_lock(&fake_lock);
    const int known = is_created(context), alive = known && context->retains;
    pthread_mutex_unlock(&fake_lock);
    if (!alive) { /* the primary one is released, not destroyed */
        return known ? CUDA_ERROR_CONTEXT_IS_DESTROYED : CUDA_ERROR_INVALID_CONTEXT;
    }
    depth -= depth && stack[depth - 1] == context;
    end(context);
    return CUDA_SUCCESS;
}

CUresult fake_cuCtxDestroy(CUcontext context) {
    return fake_cuCtxDestroy_v2(context);
}

/* ---- green ones: a part of the device, over the primary context ---- */

struct CUgreenCtx_st {
    int device, alive;
};
enum { GREEN_BYTES = 2 * FAKE_PAGE, GREEN_DEFAULT_STREAM = 1 };

CUresult fake_cuDeviceGetDevResource(CUdevice ordinal, void *resource, int type) {
    if (fake_device_of(ordinal) < 0) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    if (!resource || type != 1) { /* processors */
        return CUDA_ERROR_INVALID_VALUE;
    }
    memcpy(resource, &type, sizeof type);
    return CUDA_SUCCESS;
}

CUresult fake_cuDevResourceGenerateDesc(void **out, void *resources, unsigned int count) {
    if (!out || !resources || !count) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *out = resources;
    return CUDA_SUCCESS;
}

CUresult fake_cuGreenCtxCreate(CUgreenCtx *out, void *description, CUdevice ordinal,
                               unsigned int flags) {
    CUcontext primary;
    const int device = fake_device_of(ordinal);
    if (device < 0 || !out || !description || flags != GREEN_DEFAULT_STREAM) {
        return device < 0 ? CUDA_ERROR_INVALID_DEVICE : CUDA_ERROR_INVALID_VALUE;
    }
    CUgreenCtx green = calloc(1, sizeof *green);
    CUresult result =
        green ? fake_cuDevicePrimaryCtxRetain(&primary, ordinal) : CUDA_ERROR_OUT_OF_MEMORY;
    if (result == CUDA_SUCCESS && fake_state_take(device, GREEN_BYTES) != 0) {
        (void)fake_cuDevicePrimaryCtxRelease_v2(ordinal);
        result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (result != CUDA_SUCCESS) {
        free(green);
        return result;
    }
    *green = (struct CUgreenCtx_st){.device = device, .alive = 1};
    *out = green;
    return CUDA_SUCCESS;
}

CUresult fake_cuGreenCtxDestroy(CUgreenCtx green) {
    if (!green || !green->alive) {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    green->alive = 0;
    fake_state_give(green->device, GREEN_BYTES);
    return fake_cuDevicePrimaryCtxRelease_v2(fake_ordinal_of(green->device));
}

/* ---- limits: stack, printf, heap of kernels ---- */

static const uint64_t usual[FAKE_LIMITS] = {1024, 1 << 20, 8 << 20};

/* What a limit costs; the usual ones are in the context's own memory.  A smaller stack gives its share of that back. */
static int64_t cost_of(int which, uint64_t value) {
    const uint64_t times = which == 0 ? FAKE_PROCESSORS * FAKE_THREADS : 1;
    if (which == 0 && value < usual[0]) {
        return (int64_t)(fake_up(fake_state_stack_bytes() / usual[0] * value, FAKE_PAGE)) -
               (int64_t)fake_state_stack_bytes();
    }
    return value > usual[which] ? (int64_t)fake_up((value - usual[which]) * times, FAKE_PAGE) : 0;
}

CUresult fake_cuCtxGetLimit(size_t *value, int which) {
    struct CUctx_st *c;
    const CUresult result = fake_current_now(&c);
    if (result == CUDA_SUCCESS && (!value || which < 0 || which >= FAKE_LIMITS)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (result == CUDA_SUCCESS) {
        *value = c->limit[which] ? c->limit[which] : usual[which];
    }
    return result;
}

CUresult fake_cuCtxSetLimit(CUlimit limit, size_t value) {
    const int which = (int)limit;
    struct CUctx_st *c;
    pthread_mutex_lock(&fake_lock);
    CUresult result = fake_current(&c);
    if (result == CUDA_SUCCESS && (which < 0 || which >= FAKE_LIMITS || value > 1ull << 45)) {
        result = CUDA_ERROR_INVALID_VALUE;
    }
    if (result == CUDA_SUCCESS) {
        const int64_t cost = cost_of(which, value), had = c->limit_bytes[which];
        if (cost > had && fake_state_take(c->device, (uint64_t)(cost - had)) != 0) {
            result = CUDA_ERROR_OUT_OF_MEMORY;
        } else {
            if (cost < had) {
                fake_state_give(c->device, (uint64_t)(had - cost));
            }
            c->taken_bytes += (uint64_t)(cost - had);
            c->limit_bytes[which] = cost;
            c->limit[which] = value;
        }
    }
    pthread_mutex_unlock(&fake_lock);
    return result;
}

/* ---- currency ---- */

CUresult fake_cuCtxGetCurrent(CUcontext *context) {
    if (!context) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *context = depth > 0 ? stack[depth - 1] : NULL;
    return CUDA_SUCCESS;
}

CUresult fake_cuCtxPushCurrent_v2(CUcontext context) {
    pthread_mutex_lock(&fake_lock);
    int known = is_created(context);
    for (int i = 0; i < FAKE_DEVICES; i++) {
        known |= context == &fake_contexts[i];
    }
    const CUresult result = !known || depth == 16 ? CUDA_ERROR_INVALID_CONTEXT
                            : context->retains    ? CUDA_SUCCESS
                                                  : CUDA_ERROR_CONTEXT_IS_DESTROYED;
    pthread_mutex_unlock(&fake_lock);
    if (result == CUDA_SUCCESS) {
        stack[depth++] = context;
    }
    return result;
}

CUresult fake_cuCtxPopCurrent_v2(CUcontext *context) {
    if (depth == 0) {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    depth--;
    if (context) {
        *context = stack[depth];
    }
    return CUDA_SUCCESS;
}

CUresult fake_current(struct CUctx_st **out) {
    if (depth == 0) {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    struct CUctx_st *c = stack[depth - 1];
    if (c->retains == 0) {
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    }
    *out = c;
    return c->bad;
}

CUresult fake_cuCtxGetDevice(CUdevice *device) {
    struct CUctx_st *context;
    const CUresult result = fake_current_now(&context);
    if (result != CUDA_SUCCESS || !device) {
        return result != CUDA_SUCCESS ? result : CUDA_ERROR_INVALID_VALUE;
    }
    *device = fake_ordinal_of(context->device);
    return CUDA_SUCCESS;
}

CUresult fake_cuCtxSetCurrent(CUcontext context) {
    CUcontext old;
    if (fake_cuCtxGetCurrent(&old) == CUDA_SUCCESS && old) {
        (void)fake_cuCtxPopCurrent_v2(&old);
    }
    return context ? fake_cuCtxPushCurrent_v2(context) : CUDA_SUCCESS;
}

CUresult fake_cuCtxSynchronize(void) {
    struct CUctx_st *context;
    const CUresult result = fake_current_now(&context);
    if (result == CUDA_SUCCESS) {
        pthread_mutex_lock(&fake_lock);
        fake_streams_drain(context);
        fake_pools_synced();
        pthread_mutex_unlock(&fake_lock);
    }
    return result;
}
