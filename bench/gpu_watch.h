/* For bench/gpu: turns at a GPU that several processes measure on, and the peak of one of them, seen by a thread. */
#ifndef HRI_BENCH_GPU_WATCH_H
#define HRI_BENCH_GPU_WATCH_H

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>

#include "base/clock.h"
#include "fit/planned.h"
#include "gpu_stop.h"

/* ---- turns ---- */

/* Of this process at the GPU.  Kernels that are timed, and a context whose process NVML is to tell from others, want it alone. */
typedef struct turn {
    int fd; /* -1: there is nobody to wait for */
    atomic_int held;
    uint64_t since_ns, waited_ns, held_ns;
} turn;

static void turn_open(turn *t, const char *path) {
    *t = (turn){.fd = path ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1};
    if (path && t->fd < 0) {
        stop(path, HR_E_IO, strerror(errno));
    }
}

static void turn_take(turn *t) {
    const uint64_t begin = hri_clock_ns();
    if (t->held || t->fd < 0) {
        return;
    }
    while (flock(t->fd, LOCK_EX)) {
        if (errno != EINTR) {
            stop("--lock", HR_E_IO, strerror(errno));
        }
    }
    t->held = 1;
    t->since_ns = hri_clock_ns();
    t->waited_ns += t->since_ns - begin;
}

static void turn_give(turn *t) {
    if (t->held) {
        t->held_ns += hri_clock_ns() - t->since_ns;
        (void)!flock(t->fd, LOCK_UN);
        t->held = 0;
    }
}

/* ---- the peak, seen by a thread ---- */

typedef struct sampler {
    hri_engine *engine;
    turn *turn; /* outside of it nothing changes, and NVML answers one process at a time */
    pthread_t thread;
    atomic_int over;
    _Atomic uint64_t most, looks;
} sampler;

static void look(sampler *s) {
    const uint64_t now = hri_engine_process(s->engine);
    uint64_t most = atomic_load(&s->most);
    if (now > most) {
        atomic_store(&s->most, now);
    }
    atomic_fetch_add(&s->looks, 1);
}

static void *sample(void *user) {
    sampler *s = user;
    while (!atomic_load(&s->over)) {
        if (s->turn->fd < 0 || atomic_load(&s->turn->held)) {
            look(s);
        }
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    return NULL;
}

#endif
