/* A program of somebody else's: caller WAY STEP...  finds the driver in one of the ways of programs (caller.h), and does the
 * steps (steps.c), each of which prints "STEP RESULT" and, where there is one, a number.  After each step it looks whether
 * errno, the umask, signals and descriptors are as they were.
 *
 *   alloc:SIZE free pitch:SIZE managed:SIZE array:SIZE unarray async:SIZE unasync trim sync
 *   vmm:SIZE unvmm nccl (retain, release, unmap, release) numa:SIZE (host memory, no context needed) graph:SIZE graphtrim
 *   info total peak (of the process, as the driver counts) used hold:MS wait:FILE touch:FILE release fork
 *   torch:SIZE (caches what it frees; on refusal frees the cache and asks again)  bfc:SIZE (grows by doubling, then halves)
 *   xla:SIZE (VMM with the properties that XLA sets)  random:N (N steps of all kinds from the seed in CALLER_SEED)
 *   threads:N (N threads that take and give)
 *   write verify (a pattern in everything plain and mapped)  host hostpeak (bytes of the host, as the driver counts)
 *   every (hooked functions that no other step comes to)  gates  resets  calls (how often each was called, as the driver counts)
 *   context:SIZE (one beside the primary, with memory)  uncontext  heap:SIZE (of kernels)  low:SIZE (the first cuMemAlloc)
 *   upload:SIZE (a graph that is instantiated with its memory)
 *   fill:SIZE (the driver takes memory by itself)  module:SIZE (code of that size is loaded)  unmodule
 *   node:SIZE (a graph built by hand, with one allocation, launched)
 *   pooled:N (N times taken from a pool or given back in another order, sizes from 512 bytes to 60 MiB: a pool in pieces)
 *   pairs:N (N times taken from a pool and given back: nanoseconds each)
 *   type range ipc (of the newest plain memory)  export (of the newest mapped)  capture endcapture  churn:N (N copies by
 *   another thread, all the time, while this one waits for the GPU)
 * free, unasync and the like take the newest; without one they do nothing. */
#include "steps.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- what a library must leave as it is ---- */

typedef struct hygiene {
    mode_t umask;
    sigset_t blocked;
    uint64_t handlers;
    int descriptors; /* but for those of the driver itself */
} hygiene;

static hygiene look(void) {
    if (getenv("CALLER_QUICK")) {
        return (hygiene){0};
    }
    hygiene h = {.umask = umask(0)};
    umask(h.umask);
    pthread_sigmask(SIG_BLOCK, NULL, &h.blocked);
    for (int i = 1; i < 64; i++) {
        struct sigaction action;
        if (sigaction(i, NULL, &action) == 0) {
            h.handlers = h.handlers * 31 + (uint64_t)(uintptr_t)action.sa_handler +
                         (uint64_t)(unsigned)action.sa_flags;
        }
    }
    const char *state = getenv("FAKECUDA_STATE");
    for (int fd = 0; fd < 1024; fd++) {
        char path[32], target[256];
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        const ssize_t length = readlink(path, target, sizeof target - 1);
        target[length > 0 ? length : 0] = '\0';
        h.descriptors += length > 0 && !strstr(target, "fakecuda") && strcmp(target, "/dev/null") &&
                         (!state || strcmp(target, state));
    }
    return h;
}

static void compare(const char *name, const hygiene *a, const hygiene *b) {
    if (a->umask != b->umask || a->handlers != b->handlers || a->descriptors != b->descriptors ||
        memcmp(&a->blocked, &b->blocked, sizeof a->blocked)) {
        printf("changed by %s: umask %o %o, handlers %d, mask %d, descriptors %d %d\n", name,
               (unsigned)a->umask, (unsigned)b->umask, a->handlers != b->handlers,
               memcmp(&a->blocked, &b->blocked, sizeof a->blocked) != 0, a->descriptors,
               b->descriptors);
    }
}

int main(int argc, char **argv) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    const char *start = getenv("CALLER_SEED");
    me.seed = start ? strtoull(start, NULL, 10) : 1;
    if (argc < 2 || caller_find(argv[1], &me.cu) != 0) {
        return 3;
    }
    CUresult result = me.cu.cuInit(0);
    int first = 2;
    while (result == CUDA_SUCCESS && first < argc &&
           !strncmp(argv[first], "numa", 4)) { /* before a context */
        printf("%s %d\n", argv[first],
               (int)caller_step("numa", strchr(argv[first], ':') + 1, NULL));
        first++;
    }
    result = result == CUDA_SUCCESS ? me.cu.cuDevicePrimaryCtxRetain(&me.context, 0) : result;
    result = result == CUDA_SUCCESS ? me.cu.cuCtxSetCurrent(me.context) : result;
    printf("start %d\n", (int)result);
    for (int i = first; i < argc && result == CUDA_SUCCESS; i++) {
        char name[32] = "";
        const char *value = strchr(argv[i], ':');
        uint64_t number = UINT64_MAX;
        snprintf(name, sizeof name, "%.*s", (int)(value ? value - argv[i] : 31), argv[i]);
        const hygiene before = look();
        errno = 77;
        const CUresult got = caller_step(name, value ? value + 1 : NULL, &number);
        const int kept = errno;
        const hygiene after = look();
        compare(name, &before, &after);
        printf(number == UINT64_MAX ? "%s %d\n" : "%s %d %llu\n", argv[i], (int)got,
               (unsigned long long)number);
        if (kept != 77 && strcmp(name, "wait") && strcmp(name, "hold") && strcmp(name, "touch") &&
            strcmp(name, "fork")) {
            printf("errno %d\n", kept);
        }
    }
    return result == CUDA_SUCCESS ? 0 : 1;
}
