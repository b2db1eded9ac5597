/* bench/heap [DEVICE]: what a hot alloc/free pair costs, in nanoseconds, beside what the platform offers.
 *
 * "Hot" is the case that a program meets in its loop: a block of a size that was just freed.  Each figure is the best
 * of many short rounds, which is what the code costs when nobody else takes the processor; all of them are from one
 * run, so compare them with one another.  On the host the neighbour
 * is malloc (whose blocks are not touched here: its large ones are bare mmap calls).  On CUDA the neighbours are
 * cuMemAlloc and cuMemAllocAsync of the same driver. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <headroom/headroom.h>

#include "base/clock.h"

enum { ROUNDS = 25, MOST_THREADS = 4 };

typedef struct way {
    const char *name;
    int (*pair)(void *state, uint64_t bytes); /* one alloc and one free; 0 when refused */
    void *state;
} way;

/* ---- the ways ---- */

static int headroom_pair(void *state, uint64_t bytes) {
    hr_block block;
    return hr_block_alloc(state, bytes, HR_CATEGORY_ACTIVATIONS, 0, &block) == HR_OK &&
           hr_block_free(state, &block) == HR_OK;
}

static int malloc_pair(void *state, uint64_t bytes) {
    (void)state;
    void *volatile block = malloc(bytes); /* volatile: the pair must not be optimised away */
    const int ok = block != NULL;
    free(block);
    return ok;
}

typedef struct driver {
    int (*alloc)(uint64_t *, size_t);
    int (*free)(uint64_t);
    int (*alloc_async)(uint64_t *, size_t, void *);
    int (*free_async)(uint64_t, void *);
    int (*set_current)(void *);
    int (*retain)(void **, int);
    void *context;
} driver;

/* The benchmark's threads have no context of their own. */
static int enter(driver *d) {
    static _Thread_local int entered;
    if (!entered) {
        entered = d->set_current(d->context) == 0;
    }
    return entered;
}

static int cu_alloc_pair(void *state, uint64_t bytes) {
    driver *d = state;
    uint64_t at;
    return enter(d) && d->alloc(&at, bytes) == 0 && d->free(at) == 0;
}

static int cu_async_pair(void *state, uint64_t bytes) {
    driver *d = state;
    uint64_t at;
    return enter(d) && d->alloc_async(&at, bytes, NULL) == 0 && d->free_async(at, NULL) == 0;
}

static int driver_open(driver *d) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        return 0;
    }
    *(void **)&d->alloc = dlsym(library, "cuMemAlloc_v2");
    *(void **)&d->free = dlsym(library, "cuMemFree_v2");
    *(void **)&d->alloc_async = dlsym(library, "cuMemAllocAsync");
    *(void **)&d->free_async = dlsym(library, "cuMemFreeAsync");
    *(void **)&d->set_current = dlsym(library, "cuCtxSetCurrent");
    *(void **)&d->retain = dlsym(library, "cuDevicePrimaryCtxRetain");
    return d->alloc && d->free && d->alloc_async && d->free_async && d->set_current && d->retain &&
           d->retain(&d->context, 0) == 0;
}

/* ---- timing ---- */

typedef struct job {
    const way *w;
    uint64_t bytes;
    uint64_t pairs;
    pthread_barrier_t *start;
    uint64_t ns;
    int ok;
} job;

static void *work(void *arg) {
    job *j = arg;
    j->ok = j->w->pair(j->w->state, j->bytes); /* warm */
    pthread_barrier_wait(j->start);
    const uint64_t begin = hri_clock_ns();
    for (uint64_t i = 0; i < j->pairs && j->ok; i++) {
        j->ok = j->w->pair(j->w->state, j->bytes);
    }
    j->ns = hri_clock_ns() - begin;
    return NULL;
}

/* One round: nanoseconds a pair as one thread sees it, or < 0 when something was refused. */
static double run_round(const way *w, uint64_t bytes, unsigned threads, uint64_t pairs) {
    pthread_t ids[MOST_THREADS];
    job jobs[MOST_THREADS];
    pthread_barrier_t start;
    pthread_barrier_init(&start, NULL, threads);
    double sum = 0;
    int ok = 1;
    for (unsigned i = 0; i < threads; i++) {
        jobs[i] = (job){.w = w, .bytes = bytes, .pairs = pairs, .start = &start};
        if (pthread_create(&ids[i], NULL, work, &jobs[i]) != 0) {
            fprintf(stderr, "heap: no thread\n");
            exit(3);
        }
    }
    for (unsigned i = 0; i < threads; i++) {
        pthread_join(ids[i], NULL);
        ok = ok && jobs[i].ok;
        sum += (double)jobs[i].ns / (double)pairs;
    }
    pthread_barrier_destroy(&start);
    return ok ? sum / threads : -1;
}

static double measure(const way *w, uint64_t bytes, unsigned threads) {
    /* as many pairs as take about 2 ms, less than a time slice */
    const double one = run_round(w, bytes, threads, 20);
    if (one < 0) {
        return -1;
    }
    const uint64_t pairs = (uint64_t)(2e6 / (one > 10 ? one : 10)) + 1;
    double best = one;
    for (int i = 0; i < ROUNDS; i++) {
        const double ns = run_round(w, bytes, threads, pairs);
        best = ns < best ? ns : best;
    }
    return best;
}

static void print_row(const way *ways, size_t count, uint64_t bytes, unsigned threads) {
    char size[32];
    printf("%8s  %7u", hr_bytes_print(bytes, size, sizeof size), threads);
    for (size_t i = 0; i < count; i++) {
        const double ns = measure(&ways[i], bytes, threads);
        if (ns < 0) {
            printf("  %15s", "refused");
        } else {
            printf("  %12.0f ns", ns);
        }
        fflush(stdout);
    }
    putchar('\n');
}

static int fail(hr_ctx *ctx, const char *what) {
    hr_error error;
    hr_ctx_error(ctx, &error);
    fprintf(stderr, "heap: %s: %s\n", what, error.message);
    hr_ctx_destroy(ctx);
    return 2;
}

int main(int argc, char **argv) {
    static const uint64_t sizes[] = {256, 64 << 10, 1 << 20, 64 << 20};
    static const unsigned threads[] = {1, MOST_THREADS};
    const char *name = argc > 1 ? argv[1] : "host";
    hr_ctx *ctx;
    hr_device *device;
    hr_logical *logical;
    if (hr_ctx_create(NULL, &ctx) != HR_OK) {
        fprintf(stderr, "heap: no context\n");
        return 3;
    }
    if (hr_device_find(ctx, name, &device) != HR_OK) {
        return fail(ctx, "device");
    }
    const hr_logical_options options = {.size = sizeof options, .limit_bytes = UINT64_C(1) << 30};
    if (hr_logical_create(device, &options, &logical) != HR_OK) {
        return fail(ctx, "slice");
    }
    driver cuda = {0};
    way ways[3] = {{"headroom", headroom_pair, logical}, {"malloc", malloc_pair, NULL}};
    size_t count = 2;
    if (!strncmp(name, "cuda", 4) && driver_open(&cuda)) {
        ways[1] = (way){"cuMemAlloc", cu_alloc_pair, &cuda};
        ways[2] = (way){"cuMemAllocAsync", cu_async_pair, &cuda};
        count = 3;
    }
    printf("a hot alloc/free pair on %s, best of %d rounds\n%8s  %7s", name, ROUNDS, "size",
           "threads");
    for (size_t i = 0; i < count; i++) {
        printf("  %15s", ways[i].name);
    }
    putchar('\n');
    for (size_t t = 0; t < sizeof threads / sizeof threads[0]; t++) {
        for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
            print_row(ways, count, sizes[s], threads[t]);
        }
    }
    hr_ctx_destroy(ctx);
    return 0;
}
