/* Memory limits at work: two slices of the host's memory, eight threads that want more than there is, and what the
 * system reports for the process.  Uses the public API only; read it as an introduction to device.h and memory.h.
 *
 *   part 1  two logical devices, each with its own limit; the threads allocate, write, free, and are refused
 *   part 2  one full slice: the error that says who holds what; then every second block is freed, and all that is free
 *           is allocated in one piece
 *   part 3  the totals: limit, held, live, and the resident memory of this process as the kernel reports it
 *
 * Exits 0 if every limit held, 1 if one did not, 3 on failure. */
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <headroom/headroom.h>

#define MIB ((uint64_t)1 << 20)

enum {
    SLICES = 2,
    THREADS = 4, /* per slice */
    BLOCKS = 24, /* at most, per thread */
    PART_MS = 4500,
    LINE_MS = 300,
    BAR = 26
};

static hr_ctx *ctx;
static atomic_int stop;
static atomic_int broken; /* limits that did not hold */

static void fail(const char *what) {
    hr_error error;
    hr_ctx_error(ctx, &error);
    fprintf(stderr, "limit: %s: %s\n", what, error.message);
    exit(3);
}

static const char *size(uint64_t bytes) {
    static char texts[8][32]; /* enough for one line of output */
    static unsigned next;
    return hr_bytes_print(bytes, texts[next++ % 8], 32);
}

static uint64_t now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static void sleep_ms(long ms) {
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

/* The resident set, from the kernel. */
static uint64_t resident_bytes(void) {
    unsigned long long total = 0, resident = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f || fscanf(f, "%llu %llu", &total, &resident) != 2) {
        resident = 0;
    }
    if (f) {
        fclose(f);
    }
    return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Memory becomes resident only when it is written to. */
static void touch(const hr_block *block) {
    volatile uint8_t *bytes = (volatile uint8_t *)(uintptr_t)block->addr;
    for (uint64_t i = 0; i < block->bytes; i += 4096) {
        bytes[i] = 1;
    }
}

/* ---- part 1 ---- */

typedef struct worker {
    hr_logical *logical;
    hr_owner owner;
    hr_category category;
    uint64_t random; /* state; not 0 */
    uint64_t most;   /* bytes of its largest request */
    uint64_t start_ms;
} worker;

static uint64_t draw(worker *w) {
    w->random ^= w->random << 13;
    w->random ^= w->random >> 7;
    w->random ^= w->random << 17;
    return w->random;
}

static void free_one(worker *w, hr_block *blocks, int *count) {
    const int i = (int)(draw(w) % (uint64_t)*count);
    if (hr_block_free(w->logical, &blocks[i]) != HR_OK) {
        fail("free");
    }
    blocks[i] = blocks[--*count];
}

/* Greedy for a second and a half, modest for the next, and so on, so that the bars move. */
static int wants_more(const worker *w) {
    return (now_ms() - w->start_ms) / 1500 % 2 == 0;
}

static void *work(void *arg) {
    worker *w = arg;
    hr_block blocks[BLOCKS];
    int count = 0;
    while (!atomic_load(&stop)) {
        const int greedy = wants_more(w);
        if (count == BLOCKS || (!greedy && count > 2)) {
            free_one(w, blocks, &count);
        } else {
            const uint64_t bytes = 64 * 1024 + draw(w) % w->most;
            const hr_status status =
                hr_block_alloc(w->logical, bytes, w->category, w->owner, &blocks[count]);
            if (status == HR_OK) {
                touch(&blocks[count++]);
            } else if (status != HR_E_LIMIT) {
                fail("alloc");
            } else if (count > 0) {
                free_one(w, blocks, &count); /* a refusal is an ordinary status */
            }
        }
        /* Slow at first, so that the eye can follow; then at full speed. */
        sleep_ms(!greedy ? 20 : count < 4 ? 60 : 2);
    }
    while (count > 0) {
        free_one(w, blocks, &count);
    }
    return NULL;
}

/* "####==......": live, held but idle, still available. */
static void draw_bar(const hr_stats *s, char bar[BAR + 1]) {
    const uint64_t live = (s->held_bytes - s->idle_bytes) * BAR / s->limit_bytes;
    const uint64_t held = s->held_bytes * BAR / s->limit_bytes;
    for (uint64_t i = 0; i < BAR; i++) {
        bar[i] = i < live ? '#' : i < held ? '=' : '.';
    }
    bar[BAR] = 0;
}

static void check_limit(const hr_stats *s) {
    if (s->held_bytes > s->limit_bytes || s->held_peak_bytes > s->limit_bytes) {
        atomic_store(&broken, 1);
    }
}

/* Watches both slices while the threads run; returns the peak resident memory. */
static uint64_t watch(hr_logical *const slices[SLICES]) {
    const uint64_t start = now_ms();
    uint64_t most = 0;
    for (uint64_t now = start, line = start; now - start < PART_MS; now = now_ms()) {
        hr_stats s[SLICES];
        char bars[SLICES][BAR + 1];
        for (int i = 0; i < SLICES; i++) {
            s[i].size = sizeof s[i];
            hr_logical_get_stats(slices[i], &s[i]);
            check_limit(&s[i]);
            draw_bar(&s[i], bars[i]);
        }
        const uint64_t resident = resident_bytes();
        most = resident > most ? resident : most;
        if (now >= line) {
            printf("  %4.1f s  [%s] %8s  [%s] %8s  resident %8s\n", (double)(now - start) / 1000,
                   bars[0], size(s[0].held_bytes), bars[1], size(s[1].held_bytes), size(resident));
            fflush(stdout);
            line += LINE_MS;
        }
        sleep_ms(5);
    }
    return most;
}

static uint64_t run_threads(hr_logical *const slices[SLICES]) {
    static const hr_category categories[THREADS] = {HR_CATEGORY_WEIGHTS, HR_CATEGORY_GRADIENTS,
                                                    HR_CATEGORY_ACTIVATIONS, HR_CATEGORY_INPUT};
    worker workers[SLICES][THREADS];
    pthread_t threads[SLICES][THREADS];
    for (int i = 0; i < SLICES; i++) {
        for (int j = 0; j < THREADS; j++) {
            worker *w = &workers[i][j];
            char name[32];
            snprintf(name, sizeof name, "thread %d", i * THREADS + j);
            *w = (worker){.logical = slices[i],
                          .category = categories[j],
                          .random = (uint64_t)(i * THREADS + j + 1) * 0x9e3779b97f4a7c15u,
                          .most = (i ? 24 : 8) * MIB,
                          .start_ms = now_ms()};
            if (hr_owner_get(slices[i], name, &w->owner) != HR_OK ||
                pthread_create(&threads[i][j], NULL, work, w) != 0) {
                fail("start of a thread");
            }
        }
    }
    const uint64_t most = watch(slices);
    atomic_store(&stop, 1);
    for (int i = 0; i < SLICES * THREADS; i++) {
        pthread_join(threads[i / THREADS][i % THREADS], NULL);
    }
    return most;
}

/* ---- part 2 ---- */

enum { TRICK_BLOCKS = 256 };

static void draw_map(const hr_block *blocks, int count) {
    printf("  [");
    for (int i = 0; i < count; i++) {
        putchar(blocks[i].bytes ? '#' : '.');
    }
    printf("]\n");
}

static void trick(hr_device *device) {
    static const char *const names[] = {"encoder",   "decoder", "attention",
                                        "embedding", "head",    "cache"};
    hr_logical *slice;
    hr_owner owners[6];
    hr_block blocks[TRICK_BLOCKS], all;
    hr_stats s = {.size = sizeof s};
    int count = 0;
    if (hr_logical_create(device,
                          &(hr_logical_options){.size = sizeof(hr_logical_options),
                                                .name = "full",
                                                .limit_bytes = 192 * MIB},
                          &slice) != HR_OK) {
        fail("slice");
    }
    for (int i = 0; i < 6; i++) {
        if (hr_owner_get(slice, names[i], &owners[i]) != HR_OK) {
            fail("owner");
        }
    }
    hr_status status = HR_OK;
    while (count < TRICK_BLOCKS &&
           (status = hr_block_alloc(slice, 3 * MIB, HR_CATEGORY_ACTIVATIONS,
                                    owners[count * count % 6], &blocks[count])) == HR_OK) {
        touch(&blocks[count++]);
    }
    hr_error error;
    hr_ctx_error(ctx, &error);
    printf("\n2. A slice of %s is filled with blocks of 3 MiB. Block %d is refused with %s:\n\n",
           size(192 * MIB), count + 1, hr_status_name(status));
    for (char *line = strtok(error.message, "\n"); line; line = strtok(NULL, "\n")) {
        printf("  | %s\n", line);
    }
    printf("\n  Now every second block is freed (one character per block):\n\n");
    draw_map(blocks, count);
    for (int i = 0; i < count; i += 2) {
        if (hr_block_free(slice, &blocks[i]) != HR_OK) {
            fail("free");
        }
        blocks[i].bytes = 0;
    }
    draw_map(blocks, count);
    hr_logical_get_stats(slice, &s);
    const uint64_t wanted = s.free_bytes;
    status = hr_block_alloc(slice, wanted, HR_CATEGORY_WORKSPACE, 0, &all);
    printf("\n  Free: %s, in pieces of one block each. All of it in one block: %s.\n", size(wanted),
           status == HR_OK ? "allocated at the first try" : "REFUSED");
    if (status == HR_OK) {
        touch(&all);
        hr_logical_get_stats(slice, &s);
        printf("  It has %s at one address; the slice holds %s of %s.\n", size(all.bytes),
               size(s.held_bytes), size(s.limit_bytes));
        if (hr_block_free(slice, &all) != HR_OK) {
            fail("free");
        }
    } else {
        atomic_store(&broken, 1);
    }
    check_limit(&s);
    for (int i = 1; i < count; i += 2) {
        if (hr_block_free(slice, &blocks[i]) != HR_OK) {
            fail("free");
        }
    }
    if (hr_logical_check(slice) != HR_OK || hr_logical_destroy(slice) != HR_OK) {
        fail("end of the slice");
    }
}

/* ---- part 3 ---- */

static void sums(hr_logical *const slices[SLICES], uint64_t before, uint64_t most) {
    uint64_t limits = 0, peaks = 0;
    printf("\n3. Totals\n\n  %-12s %10s %10s %10s %10s %10s %10s\n", "slice", "limit", "held peak",
           "live peak", "held now", "requests", "refused");
    for (int i = 0; i < SLICES; i++) {
        hr_stats s = {.size = sizeof s};
        if (hr_logical_trim(slices[i], NULL) != HR_OK || hr_logical_check(slices[i]) != HR_OK) {
            fail("trim");
        }
        hr_logical_get_stats(slices[i], &s);
        check_limit(&s);
        printf("  %-12s %10s %10s %10s %10s %10" PRIu64 " %10" PRIu64 "\n",
               hr_logical_name(slices[i]), size(s.limit_bytes), size(s.held_peak_bytes),
               size(s.live_peak_bytes), size(s.held_bytes), s.allocs + s.refusals, s.refusals);
        limits += s.limit_bytes;
        peaks += s.held_peak_bytes;
        if (s.held_bytes != 0 || s.refusals == 0) {
            atomic_store(&broken, 1);
        }
    }
    const uint64_t after = resident_bytes();
    printf("  %-12s %10s %10s\n\n", "both", size(limits), size(peaks));
    printf("  resident memory of this process: %s at the start, peak %s (%s more), %s after trim\n",
           size(before), size(most), size(most - before), size(after));
    /* Stacks, the C library and bookkeeping come on top of the slices: a little, not a share of them. */
    if (most - before > limits + 8 * MIB) {
        atomic_store(&broken, 1);
    }
    printf("  %s\n", atomic_load(&broken)
                         ? "A LIMIT WAS EXCEEDED."
                         : "No limit was exceeded at any time, not even by a byte.");
}

int main(void) {
    static const struct {
        const char *name;
        uint64_t limit;
        uint32_t idle_trim_ms;
    } wanted[SLICES] = {{"small", 96 * MIB, 0}, {"large", 256 * MIB, 300}};
    hr_device *host;
    hr_logical *slices[SLICES];
    if (hr_ctx_create(NULL, &ctx) != HR_OK) {
        fprintf(stderr, "limit: no context\n");
        return 3;
    }
    if (hr_device_find(ctx, "host", &host) != HR_OK) {
        fail("host");
    }
    for (int i = 0; i < SLICES; i++) {
        const hr_logical_options options = {.size = sizeof options,
                                            .name = wanted[i].name,
                                            .limit_bytes = wanted[i].limit,
                                            .idle_trim_ms = wanted[i].idle_trim_ms};
        if (hr_logical_create(host, &options, &slices[i]) != HR_OK) {
            fail("slice");
        }
    }
    printf("1. Two slices of the host, %d greedy threads each.  # in use  = held, "
           "idle  . free\n\n",
           THREADS);
    printf("          %-*s  %-*s\n", BAR + 11, "small: 96 MiB, keeps idle pages", BAR + 11,
           "large: 256 MiB, gives them back after 0.3 s");
    const uint64_t before = resident_bytes();
    const uint64_t most = run_threads(slices);
    trick(host);
    sums(slices, before, most);
    hr_ctx_destroy(ctx);
    return atomic_load(&broken) ? 1 : 0;
}
