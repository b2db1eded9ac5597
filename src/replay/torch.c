/* PyTorch's pluggable allocator over replays.
 *
 * PyTorch calls plain functions without an object, so the replays stand in a table for the process, written before PyTorch
 * first allocates.  A refusal has to be a C++ exception, because PyTorch takes NULL for an address: libstdc++'s own
 * function throws it, found in the copy that PyTorch has loaded, and this file is compiled so that it can pass through. */
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#include "replay/replay_int.h"

#include "device/device.h"

typedef void throw_fn(const char *words);

/* What is called of CUDA's driver; all or nothing. */
typedef struct driver {
    int (*cuCtxSynchronize)(void);
    int (*cuDevicePrimaryCtxRetain)(void **context, int device);
    int (*cuDevicePrimaryCtxRelease_v2)(int device);
    int (*cuCtxPushCurrent_v2)(void *context);
    int (*cuCtxPopCurrent_v2)(void **context);
} driver;

static struct {
    pthread_mutex_t mutex;
    hr_replay *of[HR_TORCH_DEVICES];
    throw_fn *raise; /* NULL: refusals are NULL */
    driver cuda;
} table = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* A function of a library that this process has loaded; *out is NULL when there is none. */
static void find(const char *library, const char *name, void *out) {
    void *opened = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
    void *found = opened ? dlsym(opened, name) : NULL;
    memcpy(out, &found, sizeof found); /* C has no cast from an object to a function */
    if (opened) {
        dlclose(opened); /* whoever loaded it holds it */
    }
}

hr_status hr_torch_use(int device, hr_replay *replay, int throws) {
    throw_fn *raise = NULL;
    if (device < 0 || device >= HR_TORCH_DEVICES) {
        return HR_E_RANGE;
    }
    if (throws) {
        find("libstdc++.so.6", "_ZSt21__throw_runtime_errorPKc", &raise);
        if (!raise) {
            return HR_E_UNSUPPORTED;
        }
    }
    pthread_mutex_lock(&table.mutex);
    table.of[device] = replay;
    table.raise = raise;
    pthread_mutex_unlock(&table.mutex);
    return HR_OK;
}

static hr_replay *replay_of(int device, throw_fn **raise) {
    const bool known = device >= 0 && device < HR_TORCH_DEVICES;
    pthread_mutex_lock(&table.mutex);
    hr_replay *found = known ? table.of[device] : NULL;
    *raise = table.raise;
    pthread_mutex_unlock(&table.mutex);
    return found;
}

void *hr_torch_alloc(size_t bytes, int device, void *stream) {
    throw_fn *raise;
    hr_addr at = 0;
    hr_replay *replay = replay_of(device, &raise);
    if (!replay && bytes > 0 && raise) {
        raise("headroom: no memory was reserved on this device (headroom.compiled.reserve)");
    }
    if (replay && hr_replay_alloc(replay, bytes, (uint64_t)(uintptr_t)stream, &at) != HR_OK &&
        raise) {
        hr_error why;
        hr_ctx_error(replay->logical->device->ctx, &why);
        raise(why.message);
    }
    return (void *)(uintptr_t)at;
}

void hr_torch_free(void *at, size_t bytes, int device, void *stream) {
    throw_fn *raise;
    hr_replay *replay = replay_of(device, &raise);
    (void)bytes;
    (void)stream;
    if (replay && hr_replay_free(replay, (hr_addr)(uintptr_t)at) != HR_OK) {
        return; /* not ours: PyTorch has no place for an error here */
    }
}

void hr_torch_record(void *at, void *stream) {
    throw_fn *raise;
    (void)stream;
    for (int device = 0; device < HR_TORCH_DEVICES; device++) {
        hr_replay *replay = replay_of(device, &raise);
        if (replay && hr_replay_share(replay, (hr_addr)(uintptr_t)at) == HR_OK) {
            return;
        }
    }
}

static bool open_driver(driver *out) {
    static const char library[] = "libcuda.so.1";
    pthread_mutex_lock(&table.mutex);
    driver *d = &table.cuda;
    if (!d->cuCtxSynchronize) {
        find(library, "cuDevicePrimaryCtxRetain", &d->cuDevicePrimaryCtxRetain);
        find(library, "cuDevicePrimaryCtxRelease_v2", &d->cuDevicePrimaryCtxRelease_v2);
        find(library, "cuCtxPushCurrent_v2", &d->cuCtxPushCurrent_v2);
        find(library, "cuCtxPopCurrent_v2", &d->cuCtxPopCurrent_v2);
        find(library, "cuCtxSynchronize", &d->cuCtxSynchronize);
    }
    *out = *d;
    pthread_mutex_unlock(&table.mutex);
    return out->cuCtxSynchronize && out->cuDevicePrimaryCtxRetain &&
           out->cuDevicePrimaryCtxRelease_v2 && out->cuCtxPushCurrent_v2 && out->cuCtxPopCurrent_v2;
}

int hr_torch_sync(void *user) {
    const int device = (int)(intptr_t)user;
    driver d;
    void *context;
    if (!open_driver(&d) || d.cuDevicePrimaryCtxRetain(&context, device) != 0) {
        return 1;
    }
    int failed = d.cuCtxPushCurrent_v2(context);
    if (!failed) {
        failed = d.cuCtxSynchronize();
        (void)d.cuCtxPopCurrent_v2(&context);
    }
    (void)d.cuDevicePrimaryCtxRelease_v2(device);
    return failed != 0;
}
