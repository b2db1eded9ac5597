/* The state that all processes share: a mapped file, locked by flock.
 *
 * Nothing in it needs to be undone when a process dies, even by SIGKILL: what a device has in use is always the sum
 * over the slots of living processes, the kernel drops the lock of a dead one, and a slot whose process has gone is
 * emptied by whoever looks next.  A process is known by its number and its start time.
 *
 * Linked into both libraries; each has its own open file, so that the lock also works between the two. */
#include "fake.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MAGIC 0x3330616475636b66u /* another layout wants another number */

static pthread_mutex_t threads = PTHREAD_MUTEX_INITIALIZER; /* flock does not tell threads apart */
static fake_state *state;
static int state_fd = -1;
static int own_slot = -1;

uint64_t fake_bytes(const char *text, uint64_t otherwise) {
    char *end;
    const double number = text ? strtod(text, &end) : -1;
    if (number < 0 || (text && end == text)) {
        return otherwise;
    }
    static const char units[] = "KMGT";
    const char *unit = *end ? strchr(units, *end) : NULL;
    return (uint64_t)(number * (double)(unit ? 1ull << (10 * (unit - units + 1)) : 1ull));
}

uint64_t fake_env_bytes(const char *name, uint64_t otherwise) {
    return fake_bytes(getenv(name), otherwise);
}

/* When a process started, in clock ticks since boot; 0 when it is dead or a zombie. */
static uint64_t start_of(int64_t pid) {
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%lld/stat", (long long)pid);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return 0;
    }
    const ssize_t got = read(fd, text, sizeof text - 1);
    close(fd);
    if (got <= 0) {
        return 0;
    }
    text[got] = '\0';
    const char *at = strrchr(text, ')'); /* the name before it may hold anything */
    char run_state = 'X';
    unsigned long long started_at = 0;
    if (!at ||
        sscanf(at + 1,
               " %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu",
               &run_state, &started_at) != 2) {
        return 0;
    }
    return run_state == 'Z' || run_state == 'X' ? 0 : started_at + 1;
}

static void lock(void) {
    pthread_mutex_lock(&threads);
    while (flock(state_fd, LOCK_EX) != 0) {
    }
}

static void unlock(void) {
    flock(state_fd, LOCK_UN);
    pthread_mutex_unlock(&threads);
}

static uint64_t now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000u + (uint64_t)t.tv_nsec / 1000000u;
}

/* Empties the slots of the dead; returns how many live. */
static int bury(void) {
    int living = 0;
    for (int i = 0; i < FAKE_PROCESSES; i++) {
        fake_slot *slot = &state->slots[i];
        if (slot->pid && start_of(slot->pid) != slot->started_at) {
            slot->dead_at_ms = slot->dead_at_ms ? slot->dead_at_ms : now_ms();
            if (now_ms() - slot->dead_at_ms >= state->drain_ms) {
                memset(slot, 0, sizeof *slot);
            }
        }
        living += slot->pid != 0;
    }
    return living;
}

/* An observer may be looking, which is in no slot: what does not change must not be zero for a moment. */
static void set_up(void) {
    static fake_state fresh; /* under the lock */
    memset(&fresh, 0, sizeof fresh);
    fresh.magic = MAGIC;
    const char *devices = getenv("FAKECUDA_DEVICES");
    const long count = devices ? strtol(devices, NULL, 10) : 1;
    fresh.devices = (uint64_t)(count < 0 ? 0 : count > FAKE_DEVICES ? FAKE_DEVICES : count);
    fresh.context_bytes = fake_env_bytes("FAKECUDA_CONTEXT", 64 << 20);
    fresh.stack_bytes = fake_env_bytes("FAKECUDA_STACK", 0);
    fresh.local_bytes = fake_env_bytes("FAKECUDA_LOCAL", 0);
    fresh.shared_bytes = fake_env_bytes("FAKECUDA_SHARED", 0);
    fresh.drain_ms = fake_env_bytes("FAKECUDA_DRAIN_MS", 0);
    fresh.lazy_bytes = fake_env_bytes("FAKECUDA_LAZY", 2 << 20);
    const char *list = getenv("FAKECUDA_CAPACITY");
    uint64_t capacity = 4ull << 30;
    for (int i = 0; i < FAKE_DEVICES; i++) {
        capacity = fake_bytes(list, capacity);
        fresh.capacity[i] = capacity;
        list = list ? strchr(list, ',') : NULL;
        list = list ? list + 1 : NULL;
    }
    memcpy(state, &fresh, sizeof fresh);
}

static int open_file(void) {
    char path[512];
    const char *folder = getenv("XDG_RUNTIME_DIR");
    const char *given = getenv("FAKECUDA_STATE");
    if (given && *given) {
        snprintf(path, sizeof path, "%s", given);
    } else {
        snprintf(path, sizeof path, "%s/fakecuda-%u", folder && *folder ? folder : "/tmp",
                 (unsigned)getuid());
    }
    const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) {
        return -1;
    }
    void *memory = MAP_FAILED;
    if (flock(fd, LOCK_EX) == 0 && ftruncate(fd, sizeof *state) == 0) {
        memory = mmap(NULL, sizeof *state, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    }
    if (memory == MAP_FAILED) {
        close(fd);
        return -1;
    }
    state = memory;
    state_fd = fd;
    return 0;
}

int fake_state_open(int join) {
    pthread_mutex_lock(&threads);
    int failed = state ? (flock(state_fd, LOCK_EX), 0) : open_file();
    if (!failed) {
        /* bury() compares before it reads a foreign layout: of another magic nothing is taken over. */
        if (state->magic != MAGIC || bury() == 0) {
            set_up();
        }
        for (int i = 0; join && own_slot < 0 && i < FAKE_PROCESSES; i++) {
            if (state->slots[i].pid == 0) {
                own_slot = i;
                state->slots[i].pid = getpid();
                state->slots[i].started_at = start_of(getpid());
            }
        }
        failed = join && own_slot < 0 ? -1 : 0;
        flock(state_fd, LOCK_UN);
    }
    pthread_mutex_unlock(&threads);
    return failed;
}

void fake_state_leave(void) {
    if (own_slot < 0) {
        return;
    }
    lock();
    if (state->slots[own_slot].pid == getpid()) { /* not in a forked child */
        memset(&state->slots[own_slot], 0, sizeof state->slots[own_slot]);
    }
    own_slot = -1;
    unlock();
}

static uint64_t sum(int device) {
    uint64_t bytes = 0;
    for (int i = 0; i < FAKE_PROCESSES; i++) {
        bytes += state->slots[i].bytes[device];
    }
    return bytes;
}

int fake_state_take(int device, uint64_t bytes) {
    lock();
    uint64_t used = sum(device);
    const uint64_t capacity = state->capacity[device];
    if (bytes > capacity || used > capacity - bytes) {
        bury(); /* looking at processes is slow, so only when it matters */
        used = sum(device);
    }
    const int fits = bytes <= capacity && used <= capacity - bytes;
    if (fits) {
        state->slots[own_slot].bytes[device] += bytes;
        if (used + bytes > state->peak[device]) {
            state->peak[device] = used + bytes;
        }
        if (state->slots[own_slot].bytes[device] > state->process_peak[device]) {
            state->process_peak[device] = state->slots[own_slot].bytes[device];
        }
    } else {
        state->refused[device]++;
    }
    unlock();
    return fits ? 0 : -1;
}

void fake_state_give(int device, uint64_t bytes) {
    lock();
    state->slots[own_slot].bytes[device] -= bytes;
    unlock();
}

void fake_state_host(int64_t more_bytes) {
    lock();
    state->slots[own_slot].host_bytes += (uint64_t)more_bytes;
    uint64_t all = 0;
    for (int i = 0; i < FAKE_PROCESSES; i++) {
        all += state->slots[i].host_bytes;
    }
    state->host_peak = all > state->host_peak ? all : state->host_peak;
    unlock();
}

uint64_t fake_state_host_used(void) {
    uint64_t all = 0;
    lock();
    bury();
    for (int i = 0; i < FAKE_PROCESSES; i++) {
        all += state->slots[i].host_bytes;
    }
    unlock();
    return all;
}

uint64_t fake_state_host_peak(void) {
    return state->host_peak;
}

uint64_t fake_state_used(int device) {
    lock();
    bury();
    const uint64_t bytes = sum(device);
    unlock();
    return bytes;
}

uint64_t fake_state_peak(int device, int reset) {
    lock();
    const uint64_t peak = state->peak[device];
    if (reset) {
        bury();
        state->peak[device] = sum(device);
    }
    unlock();
    return peak;
}

unsigned fake_state_processes(int device, int64_t *pids, uint64_t *bytes, unsigned room) {
    unsigned count = 0;
    lock();
    bury();
    for (int i = 0; i < FAKE_PROCESSES; i++) {
        const fake_slot *slot = &state->slots[i];
        if (slot->pid && slot->bytes[device]) {
            if (count < room) {
                pids[count] = slot->pid;
                bytes[count] = slot->bytes[device];
            }
            count++;
        }
    }
    unlock();
    return count;
}

uint64_t fake_state_refused(int device) {
    return state->refused[device];
}

uint64_t fake_state_process_peak(int device) {
    return state->process_peak[device];
}

/* These do not change while a process is there. */
uint64_t fake_state_capacity(int device) {
    return state->capacity[device];
}
uint64_t fake_state_devices(void) {
    return state->devices;
}
uint64_t fake_state_context_bytes(void) {
    return state->context_bytes;
}
uint64_t fake_state_stack_bytes(void) {
    return state->stack_bytes;
}
uint64_t fake_state_local_bytes(void) {
    return state->local_bytes;
}

uint64_t fake_state_shared_bytes(void) {
    return state->shared_bytes;
}
uint64_t fake_state_lazy_bytes(void) {
    return state->lazy_bytes;
}

void fake_bus_id(int device, char *buf, size_t size) {
    snprintf(buf, size, "0000:%02X:00.0", 0x1b + device * 0x10);
}

void fake_uuid(int device, unsigned char out[16]) {
    for (int i = 0; i < 16; i++) {
        out[i] = (unsigned char)(0xfa ^ (i * 29));
    }
    out[15] = (unsigned char)device;
}

void fake_uuid_text(int device, char *buf, size_t size) {
    unsigned char b[16];
    fake_uuid(device, b);
    snprintf(buf, size, "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
             b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13],
             b[14], b[15]);
}
