/* The unnamed file, and whole reads and writes over calls that may do less. */
#include "run/spill.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <headroom/bytes.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "base/file.h"

struct hri_spill {
    int fd;
    char folder[256]; /* for sentences */
};

static hr_status refused(hri_prose *why, const char *folder, const char *doing, int error) {
    char text[128];
    const hr_status status = error == ENOENT || error == ENOTDIR ? HR_E_NOT_FOUND : HR_E_IO;
    return hri_prose_set(why, status, "spilling to %s: %s: %s", folder, doing,
                         strerror_r(error, text, sizeof text));
}

/* Some file systems have no files without a name: there one is made and its name taken away. */
static int open_unnamed(const char *folder) {
    char path[512];
    if (HRI_FAULT(OPEN)) {
        errno = EIO;
        return -1;
    }
    int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)) {
        return fd;
    }
    const int n = snprintf(path, sizeof path, "%s/headroom-spill-XXXXXX", folder);
    if (n < 0 || (size_t)n >= sizeof path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    fd = mkostemp(path, O_CLOEXEC);
    if (fd >= 0) {
        unlink(path);
    }
    return fd;
}

hr_status hri_spill_open(const char *folder, hri_spill **out, hri_prose *why) {
    hri_spill *s = hri_calloc(1, sizeof *s);
    if (!s) {
        return hri_prose_set(why, HR_E_NOMEM_HOST, "out of host memory to offload values");
    }
    snprintf(s->folder, sizeof s->folder, "%s", folder);
    s->fd = open_unnamed(folder);
    if (s->fd < 0) {
        const int error = errno;
        hri_free(s);
        return refused(why, folder, "a file cannot be created there", error);
    }
    *out = s;
    return HR_OK;
}

void hri_spill_close(hri_spill *s) {
    if (s) {
        close(s->fd);
        hri_free(s);
    }
}

hr_status hri_spill_take(hri_spill *s, uint64_t bytes, hri_prose *why) {
    char size[32], doing[96];
    int error = HRI_FAULT(WRITE) ? ENOSPC : 0;
    while (!error && bytes) {
        error = posix_fallocate(s->fd, 0, (off_t)bytes);
        if (error != EINTR) {
            break;
        }
        error = 0;
    }
    if (!error) {
        return HR_OK;
    }
    snprintf(doing, sizeof doing, "%s could not be allocated",
             hr_bytes_print(bytes, size, sizeof size));
    return refused(why, s->folder, doing, error);
}

hr_status hri_spill_write(hri_spill *s, uint64_t at, const void *from, uint64_t bytes) {
    if (HRI_FAULT(WRITE)) {
        return HR_E_IO;
    }
    for (uint64_t done = 0; done < bytes;) {
        const uint64_t piece = bytes - done < HRI_BEHIND_BYTES ? bytes - done : HRI_BEHIND_BYTES;
        const ssize_t n =
            pwrite(s->fd, (const char *)from + done, (size_t)piece, (off_t)(at + done));
        if (n <= 0 && (n == 0 || errno != EINTR)) {
            return HR_E_IO;
        }
        if (n > 0) {
            hri_file_behind(s->fd, at + done, at + done + (uint64_t)n);
        }
        done += n > 0 ? (uint64_t)n : 0;
    }
    return HR_OK;
}

hr_status hri_spill_read(hri_spill *s, uint64_t at, void *to, uint64_t bytes) {
    if (HRI_FAULT(READ)) {
        return HR_E_IO;
    }
    for (uint64_t done = 0; done < bytes;) {
        const ssize_t n =
            pread(s->fd, (char *)to + done, (size_t)(bytes - done), (off_t)(at + done));
        if (n <= 0 && (n == 0 || errno != EINTR)) {
            return HR_E_IO;
        }
        done += n > 0 ? (uint64_t)n : 0;
    }
    return HR_OK;
}
