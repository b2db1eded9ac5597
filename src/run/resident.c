/* /proc/self/status and /proc/self/smaps, line by line through a buffer on the stack: measuring must not allocate what
 * it measures. */
#include "run/resident.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fault.h"

typedef struct lines {
    int fd;
    size_t at, used;
    char buf[2048];
} lines;

/* The next line without its newline, cut at size; 0 at the end. */
static int next_line(lines *l, char *out, size_t size) {
    size_t n = 0;
    for (;;) {
        if (l->at == l->used) {
            const ssize_t got = HRI_FAULT(READ) ? -1 : read(l->fd, l->buf, sizeof l->buf);
            if (got <= 0) {
                break;
            }
            l->used = (size_t)got;
            l->at = 0;
        }
        const char c = l->buf[l->at++];
        if (c == '\n') {
            out[n] = '\0';
            return 1;
        }
        if (n + 1 < size) {
            out[n++] = c;
        }
    }
    out[n] = '\0';
    return n > 0;
}

static int open_lines(lines *l, const char *path) {
    l->fd = HRI_FAULT(OPEN) ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    l->at = l->used = 0;
    return l->fd >= 0;
}

void hri_resident_read(uint64_t *now_bytes, uint64_t *peak_bytes) {
    lines l;
    char line[128];
    unsigned long long kib, now = 0, peak = 0;
    if (open_lines(&l, "/proc/self/status")) {
        while (next_line(&l, line, sizeof line)) {
            now = sscanf(line, "VmRSS: %llu", &kib) == 1 ? kib : now;
            peak = sscanf(line, "VmHWM: %llu", &kib) == 1 ? kib : peak;
        }
        close(l.fd);
    }
    if (now_bytes) {
        *now_bytes = (uint64_t)now * 1024;
    }
    if (peak_bytes) {
        *peak_bytes = (uint64_t)peak * 1024;
    }
}

uint64_t hri_resident_unmapped(void) {
    lines l;
    char line[512], path[256];
    unsigned long long kib, size = 0;
    uint64_t missing = 0;
    int counted = 0;
    if (!open_lines(&l, "/proc/self/smaps")) {
        return 0;
    }
    while (next_line(&l, line, sizeof line)) {
        char rights[8] = "";
        path[0] = '\0';
        if (sscanf(line, "%*x-%*x %7s %*x %*s %*u %255s", rights, path) >= 1) {
            counted = path[0] == '/' && rights[0] == 'r' && rights[3] == 'p';
        } else if (sscanf(line, "Size: %llu", &kib) == 1) {
            size = kib;
        } else if (sscanf(line, "Rss: %llu", &kib) == 1 && counted && size > kib) {
            missing += (uint64_t)(size - kib) * 1024;
        }
    }
    close(l.fd);
    return missing;
}

uint64_t hri_resident_runtime(uint32_t threads) {
    static const uint64_t unit = UINT64_C(1) << 20, stack = UINT64_C(64) << 10;
    uint64_t now;
    hri_resident_read(&now, NULL);
    const uint64_t bytes = now + hri_resident_unmapped() + threads * stack + unit;
    return (bytes + unit - 1) / unit * unit;
}
