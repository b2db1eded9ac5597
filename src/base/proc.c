/* See proc.h. */
#include "base/proc.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include "base/fault.h"

bool hri_proc_open(hri_proc *f, const char *root, const char *path) {
    char full[PATH_MAX];
    const int length = snprintf(full, sizeof full, "%s%s", root, path);
    f->at = f->used = 0;
    f->fd = length < 0 || (size_t)length >= sizeof full || HRI_FAULT(OPEN)
                ? -1
                : open(full, O_RDONLY | O_CLOEXEC);
    return f->fd >= 0;
}

void hri_proc_close(hri_proc *f) {
    close(f->fd);
    f->fd = -1;
}

bool hri_proc_line(hri_proc *f, char *out, size_t size) {
    size_t n = 0;
    for (;;) {
        if (f->at == f->used) {
            const ssize_t got = HRI_FAULT(READ) ? -1 : read(f->fd, f->buf, sizeof f->buf);
            if (got <= 0) {
                break;
            }
            f->used = (size_t)got;
            f->at = 0;
        }
        const char c = f->buf[f->at++];
        if (c == '\n') {
            out[n] = '\0';
            return true;
        }
        if (n + 1 < size) {
            out[n++] = c;
        }
    }
    out[n] = '\0';
    return n > 0;
}

bool hri_proc_number(const char *root, const char *path, uint64_t *out) {
    hri_proc f;
    char line[64];
    unsigned long long number = 0;
    if (!hri_proc_open(&f, root, path)) {
        return false;
    }
    const bool is = hri_proc_line(&f, line, sizeof line) && line[0] >= '0' && line[0] <= '9' &&
                    sscanf(line, "%llu", &number) == 1;
    hri_proc_close(&f);
    if (is) {
        *out = number;
    }
    return is;
}
