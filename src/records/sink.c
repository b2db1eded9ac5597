/* Writing whole records and cutting back what was written of half a one. */
#include "records/sink.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fault.h"

enum { WAIT_MS = 1000 };

static hr_status refused(hri_prose *why, const char *path, int error) {
    char text[128];
    return hri_prose_set(why, error == ENOENT || error == ENOTDIR ? HR_E_NOT_FOUND : HR_E_IO,
                         "%s: open: %s", path, strerror_r(error, text, sizeof text));
}

static int open_file(const char *path) {
    if (HRI_FAULT(OPEN)) {
        errno = EIO;
        return -1;
    }
    int fd;
    do {
        fd = open(path, O_RDWR | O_CREAT | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0666);
    } while (fd < 0 && errno == EINTR);
    return fd;
}

/* The length to keep, and the place to go on.  Pipes and terminals have neither, and need none. */
static int cut_at(int fd, uint64_t keep_bytes, uint64_t *good_bytes) {
    const off_t end = lseek(fd, 0, SEEK_END);
    if (end < 0) {
        *good_bytes = 0;
        return errno == ESPIPE ? 0 : -1;
    }
    *good_bytes = keep_bytes < (uint64_t)end ? keep_bytes : (uint64_t)end;
    if (HRI_FAULT(WRITE)) {
        errno = EIO;
        return -1;
    }
    if (*good_bytes < (uint64_t)end && ftruncate(fd, (off_t)*good_bytes) != 0 && errno != EINVAL) {
        return -1;
    }
    return lseek(fd, (off_t)*good_bytes, SEEK_SET) < 0 ? -1 : 0;
}

hr_status hri_sink_open(const char *path, uint64_t keep_bytes, hr_log_fn *log, void *log_user,
                        hri_sink *out, hri_prose *why) {
    hri_sink made = {.fd = -1, .log = log, .log_user = log_user, .flushed_ns = hri_clock_ns()};
    made.path = hri_strdup(path);
    made.buffer = made.path ? hri_malloc(HRI_SINK_BUFFER) : NULL;
    hr_status status =
        made.buffer ? HR_OK : hri_prose_set(why, HR_E_NOMEM_HOST, "%s: out of memory", path);
    if (status == HR_OK) {
        made.fd = open_file(path);
        if (made.fd < 0 || cut_at(made.fd, keep_bytes, &made.good_bytes) != 0) {
            status = refused(why, path, errno);
        }
    }
    if (status != HR_OK) {
        hri_sink_close(&made);
        return status;
    }
    *out = made;
    return HR_OK;
}

static void lose(hri_sink *s, uint64_t records, const char *reason) {
    s->lost += records;
    if (s->warned || !s->log) {
        return;
    }
    s->warned = true;
    char line[512];
    snprintf(line, sizeof line, "%s: %s; log lines are being lost, training continues", s->path,
             reason);
    s->log(s->log_user, HR_LOG_WARN, line);
}

void hri_sink_lose(hri_sink *s, const char *reason) {
    if (s->fd >= 0) {
        lose(s, 1, reason);
    }
}

/* A reader of a pipe may be slow, but it does not hold the training: once it has, nothing waits for it until it reads. */
static bool is_worth_waiting(hri_sink *s) {
    struct pollfd p = {.fd = s->fd, .events = POLLOUT};
    const bool ready = poll(&p, 1, s->stuck ? 0 : WAIT_MS) == 1 && (p.revents & POLLOUT);
    s->stuck = !ready;
    errno = EAGAIN;
    return ready;
}

static bool write_all(hri_sink *s, const char *p, size_t bytes) {
    const int fd = s->fd;
    while (bytes > 0) {
        ssize_t put = -1;
        if (HRI_FAULT(WRITE)) {
            errno = ENOSPC;
        } else {
            put = write(fd, p, bytes);
        }
        if (put < 0 && (errno == EINTR || (errno == EAGAIN && is_worth_waiting(s)))) {
            continue;
        }
        if (put <= 0) {
            return false;
        }
        p += put;
        bytes -= (size_t)put;
    }
    return true;
}

/* All of these records or none of them. */
static void write_records(hri_sink *s, const void *data, size_t bytes, uint64_t records) {
    if (write_all(s, data, bytes)) {
        s->good_bytes += bytes;
        return;
    }
    char text[128];
    const char *reason = strerror_r(errno, text, sizeof text);
    /* On a pipe neither works, and half a record stays. */
    if (ftruncate(s->fd, (off_t)s->good_bytes) == 0) {
        (void)!lseek(s->fd, (off_t)s->good_bytes, SEEK_SET);
    }
    lose(s, records, reason);
}

void hri_sink_flush(hri_sink *s) {
    if (s->fd < 0) {
        return;
    }
    if (s->used > 0) {
        write_records(s, s->buffer, s->used, s->waiting);
    }
    s->used = 0;
    s->waiting = 0;
    s->flushed_ns = hri_clock_ns();
}

void hri_sink_put(hri_sink *s, const void *record, size_t bytes) {
    if (s->fd < 0) {
        return;
    }
    if (bytes > HRI_SINK_BUFFER - s->used) {
        hri_sink_flush(s);
    }
    if (bytes > HRI_SINK_BUFFER) {
        write_records(s, record, bytes, 1);
        return;
    }
    memcpy(s->buffer + s->used, record, bytes);
    s->used += bytes;
    s->waiting++;
}

void hri_sink_close(hri_sink *s) {
    hri_sink_flush(s);
    if (s->fd >= 0) {
        close(s->fd);
    }
    if (s->lost > 0 && s->log) {
        char line[512];
        snprintf(line, sizeof line, "%s: %llu log lines could not be written", s->path,
                 (unsigned long long)s->lost);
        s->log(s->log_user, HR_LOG_WARN, line);
    }
    hri_free(s->path);
    hri_free(s->buffer);
    *s = (hri_sink){.fd = -1};
}
