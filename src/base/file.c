/* Whole files, atomic replacement, paths.
 *
 * Reading grows a buffer instead of trusting the file's size, because files under /proc have none and
 * others grow.  Writing goes to "<path>.<random>.tmp" in the same folder: rename works only inside one
 * file system.  The folder is synced after the rename; before that a crash may bring the old file back. */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fault.h"

static hr_status refused(hri_prose *why, const char *path, const char *doing, int error) {
    const hr_status status = error == ENOENT || error == ENOTDIR ? HR_E_NOT_FOUND : HR_E_IO;
    char text[128];
    if (error == ENOENT && !strcmp(doing, "open")) {
        return hri_prose_set(why, status, "%s: no such file or directory", path);
    }
    /* The GNU form: it may return a static text instead of filling ours. */
    return hri_prose_set(why, status, "%s: %s: %s", path, doing,
                         strerror_r(error, text, sizeof text));
}

static hr_status no_memory(hri_prose *why, const char *path) {
    return hri_prose_set(why, HR_E_NOMEM_HOST, "%s: out of memory", path);
}

/* open() with its fault point; -1 and errno on refusal. */
static int open_file(const char *path, int flags) {
    if (HRI_FAULT(OPEN)) {
        errno = EIO;
        return -1;
    }
    int fd;
    do {
        fd = open(path, flags | O_CLOEXEC, 0666);
    } while (fd < 0 && errno == EINTR);
    return fd;
}

static ssize_t read_some(int fd, char *to, size_t bytes) {
    if (HRI_FAULT(READ)) {
        errno = EIO;
        return -1;
    }
    ssize_t got;
    do {
        got = read(fd, to, bytes);
    } while (got < 0 && errno == EINTR);
    return got;
}

static int wait_from_now_on(int fd) {
    const int flags = fcntl(fd, F_GETFL);
    return flags >= 0 && (flags & O_NONBLOCK) && fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) == 0;
}

/* Reads all of fd into a new buffer with a NUL behind. */
static hr_status read_all(int fd, const char *path, size_t max_bytes, char **out, size_t *out_bytes,
                          hri_prose *why) {
    struct stat info = {.st_mode = S_IFREG};
    size_t room = 4096;
    if (fstat(fd, &info) == 0 && info.st_size > 0) {
        room = (uint64_t)info.st_size < max_bytes ? (size_t)info.st_size + 1 : max_bytes + 1;
    }
    char *text = hri_malloc(room + 1);
    size_t bytes = 0;
    hr_status status = text ? HR_OK : no_memory(why, path);
    while (status == HR_OK) {
        if (bytes == room) {
            char *more = hri_realloc(text, room * 2 + 1);
            if (!more) {
                status = no_memory(why, path);
                break;
            }
            text = more;
            room *= 2;
        }
        const ssize_t got = read_some(fd, text + bytes, room - bytes);
        if (got < 0 && errno == EAGAIN) { /* a pipe with a writer: it is worth waiting for */
            status = wait_from_now_on(fd) ? HR_OK : refused(why, path, "read", errno);
        } else if (got < 0) {
            status = refused(why, path, "read", errno);
        } else if (got == 0 && bytes == 0 && S_ISFIFO(info.st_mode)) {
            status = hri_prose_set(why, HR_E_FORMAT, "%s: a FIFO without a writer", path);
        } else if (got == 0) {
            break;
        } else if ((bytes += (size_t)got) > max_bytes) {
            status = hri_prose_set(why, HR_E_RANGE, "%s: longer than %zu bytes", path, max_bytes);
        }
    }
    if (status != HR_OK) {
        hri_free(text);
        return status;
    }
    text[bytes] = '\0';
    *out = text;
    if (out_bytes) {
        *out_bytes = bytes;
    }
    return HR_OK;
}

hr_status hri_file_read(const char *path, size_t max_bytes, char **out, size_t *out_bytes,
                        hri_prose *why) {
    if (max_bytes > PTRDIFF_MAX / 4) {
        max_bytes = PTRDIFF_MAX / 4;
    }
    /* Not blocking, so that a FIFO without a writer is found out at once. */
    const int fd = open_file(path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) {
        return refused(why, path, "open", errno);
    }
    const hr_status status = read_all(fd, path, max_bytes, out, out_bytes, why);
    close(fd);
    return status;
}

static const char *kind_of_file(mode_t mode) {
    return S_ISDIR(mode)                    ? "a folder"
           : S_ISFIFO(mode)                 ? "a FIFO"
           : S_ISSOCK(mode)                 ? "a socket"
           : S_ISCHR(mode) || S_ISBLK(mode) ? "a device"
                                            : "something else";
}

hr_status hri_file_open_regular(const char *path, int *out_fd, uint64_t *out_bytes,
                                hri_prose *why) {
    /* Not blocking: the opening of a FIFO waits for a writer otherwise.  Of regular files it changes nothing. */
    const int fd = open_file(path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
    const int error = fd < 0 ? errno : 0;
    struct stat info;
    const int known = fd >= 0 ? fstat(fd, &info) : stat(path, &info);
    if (known == 0 && !S_ISREG(info.st_mode) && (fd >= 0 || error == ENXIO)) {
        if (fd >= 0) {
            close(fd);
        }
        return hri_prose_set(why, HR_E_FORMAT, "%s: not a regular file but %s", path,
                             kind_of_file(info.st_mode));
    }
    if (fd < 0 || known != 0) {
        const int reason = fd < 0 ? error : errno;
        if (fd >= 0) {
            close(fd);
        }
        return refused(why, path, "open", reason);
    }
    *out_fd = fd;
    if (out_bytes) {
        *out_bytes = (uint64_t)info.st_size;
    }
    return HR_OK;
}

bool hri_file_exists(const char *path) {
    return access(path, F_OK) == 0;
}

/* ---- writing ---- */

static void writer_free(hri_writer *w) {
    hri_free(w->path);
    hri_free(w->temporary);
    *w = (hri_writer){.fd = -1};
}

/* A device or a pipe is written where it is: a file in its place would be another thing under its name.  Nobody is waited
 * for, so a pipe that nobody reads is refused. */
static hr_status open_in_place(hri_writer *w, const char *path, hri_prose *why) {
    hri_writer made = {.fd = -1, .path = hri_strdup(path)};
    if (!made.path) {
        return no_memory(why, path);
    }
    made.fd = open_file(path, O_WRONLY | O_NONBLOCK | O_NOCTTY);
    if (made.fd < 0 || !wait_from_now_on(made.fd)) {
        const int error = errno;
        hri_writer_abandon(&made);
        return error == ENXIO ? hri_prose_set(why, HR_E_IO, "%s: nobody reads from it", path)
                              : refused(why, path, "open", error);
    }
    *w = made;
    return HR_OK;
}

hr_status hri_writer_open(hri_writer *w, const char *path, hri_prose *why) {
    struct stat old, link;
    const bool there = stat(path, &old) == 0;
    if (there && !S_ISREG(old.st_mode) && !S_ISDIR(old.st_mode)) {
        return open_in_place(w, path, why);
    }
    /* Behind a link the file that it leads to is replaced, and the link stays. */
    char target[PATH_MAX];
    const bool linked = there && lstat(path, &link) == 0 && S_ISLNK(link.st_mode);
    hri_writer made = {.fd = -1,
                       .path = hri_strdup(linked && realpath(path, target) ? target : path)};
    const size_t size = made.path ? strlen(made.path) + 12 : 0;
    made.temporary = made.path ? hri_malloc(size) : NULL;
    if (!made.temporary) {
        writer_free(&made);
        return no_memory(why, path);
    }
    snprintf(made.temporary, size, "%s.XXXXXX.tmp", made.path);
    if (HRI_FAULT(OPEN)) {
        errno = EIO;
    } else {
        made.fd = mkostemps(made.temporary, 4, O_CLOEXEC);
    }
    if (made.fd < 0) {
        const int error = errno;
        writer_free(&made);
        return refused(why, path, "create", error);
    }
    /* mkostemps makes private files; ours get the ordinary mode, or that of the file they replace.
     * There is no way to read the umask without changing it for all threads but this file. */
    if (there) {
        (void)!fchmod(made.fd, old.st_mode & 07777);
    } else {
        char *status_text = NULL;
        unsigned mask = 022;
        if (hri_file_read("/proc/self/status", 1 << 16, &status_text, NULL, NULL) == HR_OK) {
            const char *line = strstr(status_text, "\nUmask:");
            if (line) {
                mask = (unsigned)strtoul(line + 7, NULL, 8);
            }
            hri_free(status_text);
        }
        (void)!fchmod(made.fd, 0666 & ~mask);
    }
    *w = made;
    return HR_OK;
}

void hri_file_behind(int fd, uint64_t from, uint64_t to) {
    const uint64_t piece = HRI_BEHIND_BYTES;
    for (uint64_t end = (from / piece + 1) * piece; end <= to; end += piece) {
        /* What a file system cannot do of this it leaves undone: fsync comes anyway, and errors are kept for it. */
        (void)sync_file_range(fd, (off_t)(end - piece), (off_t)piece, SYNC_FILE_RANGE_WRITE);
        if (end > piece) {
            (void)sync_file_range(fd, (off_t)(end - 2 * piece), (off_t)piece,
                                  SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE |
                                      SYNC_FILE_RANGE_WAIT_AFTER);
        }
    }
}

hr_status hri_writer_write(hri_writer *w, const void *data, size_t bytes, hri_prose *why) {
    const char *p = data;
    while (bytes > 0) {
        ssize_t put = -1;
        if (HRI_FAULT(WRITE)) {
            errno = ENOSPC;
        } else {
            put = write(w->fd, p, bytes < HRI_BEHIND_BYTES ? bytes : HRI_BEHIND_BYTES);
        }
        if (put < 0 && errno == EINTR) {
            continue;
        }
        if (put < 0) {
            return refused(why, w->path, "write", errno);
        }
        p += put;
        bytes -= (size_t)put;
        w->bytes += (uint64_t)put;
        hri_file_behind(w->fd, w->bytes - (uint64_t)put, w->bytes);
    }
    return HR_OK;
}

/* Makes the rename last.  A file system that cannot sync folders is not a failure. */
static void sync_folder(const char *path) {
    char *folder = hri_strdup(path);
    if (!folder) {
        return;
    }
    char *slash = strrchr(folder, '/');
    if (slash) {
        slash[slash == folder] = '\0';
    }
    const int fd = open(slash ? folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        fsync(fd);
        close(fd);
    }
    hri_free(folder);
}

static int sync_and_rename(hri_writer *w) {
    if (HRI_FAULT(WRITE)) {
        errno = EIO;
        return -1;
    }
    if (fsync(w->fd) != 0 && errno != EINVAL && errno != EROFS) { /* of what cannot be synced */
        return -1;
    }
    const int fd = w->fd;
    w->fd = -1;
    if (close(fd) != 0) {
        return -1;
    }
    return w->temporary ? rename(w->temporary, w->path) : 0;
}

hr_status hri_writer_commit(hri_writer *w, hri_prose *why) {
    if (sync_and_rename(w) != 0) {
        const hr_status status = refused(why, w->path, "write", errno);
        hri_writer_abandon(w);
        return status;
    }
    if (w->temporary) {
        sync_folder(w->path);
    }
    writer_free(w);
    return HR_OK;
}

void hri_writer_abandon(hri_writer *w) {
    if (w->fd >= 0) {
        close(w->fd);
    }
    if (w->temporary) {
        unlink(w->temporary);
    }
    writer_free(w);
}

hr_status hri_file_write(const char *path, const void *data, size_t bytes, hri_prose *why) {
    hri_writer w;
    hr_status status = hri_writer_open(&w, path, why);
    if (status != HR_OK) {
        return status;
    }
    status = hri_writer_write(&w, data, bytes, why);
    if (status != HR_OK) {
        hri_writer_abandon(&w);
        return status;
    }
    return hri_writer_commit(&w, why);
}

/* ---- paths ---- */

hr_status hri_path_join(const char *a, const char *b, char **out) {
    const bool alone = b[0] == '/' || a[0] == '\0';
    const size_t length = alone ? 0 : strlen(a);
    const bool slash = length > 0 && a[length - 1] != '/';
    char *path = hri_malloc(length + slash + strlen(b) + 1);
    if (!path) {
        return HR_E_NOMEM_HOST;
    }
    memcpy(path, a, length);
    path[length] = '/';
    strcpy(path + length + slash, b);
    *out = path;
    return HR_OK;
}

const char *hri_path_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

hr_status hri_path_make_folders(const char *path, hri_prose *why) {
    char *part = hri_strdup(path);
    if (!part) {
        return no_memory(why, path);
    }
    hr_status status = HR_OK;
    for (char *end = part; status == HR_OK && *end;) {
        end += 1 + strcspn(end + 1, "/");
        const char kept = *end;
        *end = '\0';
        if (HRI_FAULT(OPEN)) {
            status = refused(why, part, "make the folder", EIO);
        } else if (mkdir(part, 0777) != 0) {
            const int error = errno;
            struct stat info;
            if (stat(part, &info) != 0 || !S_ISDIR(info.st_mode)) {
                status = refused(why, part, "make the folder", error);
            }
        }
        *end = kept;
    }
    hri_free(part);
    return status;
}

hr_status hri_path_cache(char **out) {
    const char *own = getenv("HEADROOM_CACHE_DIR");
    if (own && *own) {
        return hri_path_join("", own, out);
    }
    const char *cache = getenv("XDG_CACHE_HOME");
    if (cache && cache[0] == '/') {
        return hri_path_join(cache, "headroom", out);
    }
    const char *home = getenv("HOME");
    if (home && *home) {
        return hri_path_join(home, ".cache/headroom", out);
    }
    return HR_E_NOT_FOUND;
}
