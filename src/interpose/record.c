/* Writing allocations, a line each; see record.h. */
#include "interpose/record.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "interpose/stack.h"

enum { LINE = 3072, PYTHON = 1024, FRAMES = 12 };

static int file = -1; /* -1: nothing is recorded.  Atomic */

static void put(const char *line, size_t bytes) {
    const int fd = __atomic_load_n(&file, __ATOMIC_ACQUIRE);
    ssize_t wrote;
    do {
        wrote = fd >= 0 ? write(fd, line, bytes) : (ssize_t)bytes;
    } while (wrote < 0 && errno == EINTR);
    if (wrote != (ssize_t)bytes) { /* a full disk: half a line would be followed by others */
        __atomic_store_n(&file, -1, __ATOMIC_RELEASE);
    }
}

void hri_record_open(void) {
    enum { FLAGS = O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC | O_NOFOLLOW };
    const char *path = getenv("HEADROOM_RUN_RECORD");
    char line[PATH_MAX + 32];
    if (!path || !*path) {
        return;
    }
    int fd = open(path, FLAGS, 0600);
    if (fd < 0 && errno == EEXIST) { /* another process of the program has it */
        const int length = snprintf(line, sizeof line, "%s.%d", path, (int)getpid());
        fd = length > 0 && (size_t)length < sizeof line ? open(line, FLAGS, 0600) : -1;
    }
    if (fd < 0) {
        return;
    }
    __atomic_store_n(&file, fd, __ATOMIC_RELEASE);
    const int length = snprintf(line, sizeof line, "headroom allocations 1\t%d\t%s\n",
                                (int)getpid(), program_invocation_short_name);
    put(line, length > 0 ? (size_t)length : 0);
}

void hri_record_close_in_child(void) {
    if (file >= 0) {
        close(file);
        file = -1;
    }
}

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* The frames behind what is in `line` already; names have no place for a line's own marks. */
static size_t add_frames(char *line, size_t used, size_t size) {
    char frames[FRAMES][HRI_STACK_NAME];
    const int count = hri_stack_native(frames, FRAMES, 1);
    for (int i = 0; i < count && used + HRI_STACK_NAME + 2 < size; i++) {
        const size_t length = strlen(frames[i]);
        if (i) {
            line[used++] = ';';
        }
        memcpy(line + used, frames[i], length);
        used += length;
    }
    return used;
}

static void add(char what, int device, uint64_t at, uint64_t bytes, hri_hook call) {
    char line[LINE], python[PYTHON] = "";
    if (__atomic_load_n(&file, __ATOMIC_ACQUIRE) < 0) {
        return;
    }
    if (what == 'A') {
        hri_stack_python(python, sizeof python);
        for (char *c = python; *c; c++) {
            *c = (unsigned char)*c < ' ' ? ' ' : *c;
        }
    }
    const int begun =
        snprintf(line, sizeof line, "%c\t%llu\t%ld\t%d\t%llx\t%llu\t%s\t%s%s", what,
                 (unsigned long long)now_ns(), syscall(SYS_gettid), device, (unsigned long long)at,
                 (unsigned long long)bytes, hri_hook_name(call), python, what == 'A' ? "\t" : "");
    size_t used = begun > 0 && (size_t)begun < sizeof line ? (size_t)begun : 0;
    if (what == 'A' && used) {
        used = add_frames(line, used, sizeof line);
    }
    line[used++] = '\n';
    put(line, used);
}

void hri_record_alloc(int device, uint64_t at, uint64_t bytes, hri_hook call) {
    add('A', device, at, bytes, call);
}

void hri_record_free(int device, uint64_t at, hri_hook call) {
    add('F', device, at, 0, call);
}
