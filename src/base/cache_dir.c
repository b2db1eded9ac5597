/* See cache_dir.h: every call goes through the descriptor of a folder that was looked at once. */
#include "base/cache_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fault.h"

static hr_status refused(hri_prose *why, const char *path, const char *doing, int error) {
    char text[128];
    return hri_prose_set(why, error == ENOENT || error == ENOTDIR ? HR_E_NOT_FOUND : HR_E_IO,
                         "%s: %s: %s", path, doing, strerror_r(error, text, sizeof text));
}

/* ---- the folder ---- */

/* Whose is it, and who may write in it? */
static hr_status judge(int fd, const char *path, hri_prose *why) {
    struct stat info;
    if (fstat(fd, &info) != 0) {
        return refused(why, path, "inspect it", errno);
    }
    if (info.st_uid != geteuid()) {
        return hri_prose_set(why, HR_E_INVALID,
                             "%s belongs to user %ld, not to %ld; it is not used as a cache", path,
                             (long)info.st_uid, (long)geteuid());
    }
    if (info.st_mode & 022) {
        return hri_prose_set(why, HR_E_INVALID,
                             "%s is writable by others (mode %03o) and is not used as a cache; "
                             "chmod 700 makes it private",
                             path, (unsigned)(info.st_mode & 0777));
    }
    return HR_OK;
}

/* `path` under `at`, without following a link at its end. */
static hr_status open_folder(int at, const char *path, int *out, hri_prose *why) {
    errno = EIO;
    const int fd =
        HRI_FAULT(OPEN) ? -1 : openat(at, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat info;
    if (fd < 0 && (errno == ELOOP || errno == ENOTDIR) &&
        fstatat(at, path, &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(info.st_mode)) {
        return hri_prose_set(why, HR_E_INVALID,
                             "%s is a symbolic link and is not used as a cache; give its target "
                             "instead",
                             path);
    }
    if (fd < 0) {
        return refused(why, path, "open", errno);
    }
    const hr_status status = judge(fd, path, why);
    if (status != HR_OK) {
        close(fd);
        return status;
    }
    *out = fd;
    return HR_OK;
}

/* The folders of `path`, each 0700 when it is made here. */
static hr_status make_folders(char *path, hri_prose *why) {
    for (size_t end = 0; path[end];) {
        end += 1 + strcspn(path + end + 1, "/");
        const char kept = path[end];
        path[end] = '\0';
        errno = EIO;
        const int made = HRI_FAULT(OPEN) ? -1 : mkdir(path, 0700);
        const int error = made ? errno : 0;
        struct stat info;
        hr_status status = HR_OK;
        if (made && (error == EIO || lstat(path, &info) != 0)) {
            status = refused(why, path, "make the folder", error);
        }
        path[end] = kept;
        if (status != HR_OK) {
            return status;
        }
    }
    return HR_OK;
}

/* Without slashes at the end, which would follow a link. */
static char *copy_path(const char *folder) {
    char *path = hri_strdup(folder);
    for (size_t n = path ? strlen(path) : 0; n > 1 && path[n - 1] == '/'; n--) {
        path[n - 1] = '\0';
    }
    return path;
}

static hr_status open_inside(int folder, const char *inside, int make, int *out, hri_prose *why) {
    errno = EIO;
    if (make && (HRI_FAULT(OPEN) || (mkdirat(folder, inside, 0700) != 0 && errno != EEXIST))) {
        return refused(why, inside, "make the folder", errno);
    }
    return open_folder(folder, inside, out, why);
}

hr_status hri_cache_open(const char *folder, const char *inside, int make, hri_cache *out,
                         hri_prose *why) {
    char *path = copy_path(folder);
    int fd = -1, below = -1;
    hr_status status = path ? HR_OK : hri_prose_set(why, HR_E_NOMEM_HOST, "out of memory");
    if (status == HR_OK && make) {
        status = make_folders(path, why);
    }
    if (status == HR_OK) {
        status = open_folder(AT_FDCWD, path, &fd, why);
    }
    hri_free(path);
    if (status == HR_OK && inside) {
        status = open_inside(fd, inside, make, &below, why);
        close(fd);
        fd = below;
    }
    if (status == HR_OK) {
        out->fd = fd;
    }
    return status;
}

void hri_cache_close(hri_cache *cache) {
    if (cache->fd >= 0) {
        close(cache->fd);
    }
    cache->fd = -1;
}

/* ---- files ---- */

/* Is it a file that only this user can have written? */
static int is_ours(int fd, struct stat *info) {
    return fstat(fd, info) == 0 && S_ISREG(info->st_mode) && info->st_uid == geteuid() &&
           !(info->st_mode & 022) && info->st_nlink == 1;
}

static int open_at(const hri_cache *cache, const char *name, int flags) {
    if (HRI_FAULT(OPEN) || cache->fd < 0 || strchr(name, '/')) {
        errno = EIO;
        return -1;
    }
    int fd;
    do { /* not blocking: a FIFO would wait for its other end */
        fd = openat(cache->fd, name, flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
    } while (fd < 0 && errno == EINTR);
    return fd;
}

hr_status hri_cache_open_file(const hri_cache *cache, const char *name, int *out_fd) {
    struct stat info;
    const int fd = open_at(cache, name, O_RDONLY);
    if (fd < 0) {
        return errno == ENOENT ? HR_E_NOT_FOUND : HR_E_IO;
    }
    if (!is_ours(fd, &info)) {
        close(fd);
        return HR_E_NOT_FOUND;
    }
    *out_fd = fd;
    return HR_OK;
}

static hr_status read_whole(int fd, size_t most, char **out, size_t *out_bytes) {
    struct stat info;
    if (fstat(fd, &info) != 0) {
        return HR_E_IO;
    }
    if ((uint64_t)info.st_size > most) {
        return HR_E_RANGE;
    }
    const size_t bytes = (size_t)info.st_size;
    char *text = hri_malloc(bytes + 1);
    if (!text) {
        return HR_E_NOMEM_HOST;
    }
    size_t done = 0;
    while (done < bytes) {
        const ssize_t got = HRI_FAULT(READ) ? -1 : read(fd, text + done, bytes - done);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            hri_free(text);
            return HR_E_IO; /* or cut short meanwhile */
        }
        done += (size_t)got;
    }
    text[bytes] = '\0';
    *out = text;
    *out_bytes = bytes;
    return HR_OK;
}

hr_status hri_cache_read(const hri_cache *cache, const char *name, size_t most, char **out,
                         size_t *out_bytes) {
    int fd = -1;
    hr_status status = hri_cache_open_file(cache, name, &fd);
    if (status == HR_OK) {
        status = read_whole(fd, most, out, out_bytes);
        close(fd);
    }
    return status;
}

static hr_status write_all(int fd, const char *p, size_t bytes) {
    while (bytes) {
        const ssize_t put = HRI_FAULT(WRITE) ? -1 : write(fd, p, bytes);
        if (put < 0 && errno == EINTR) {
            continue;
        }
        if (put <= 0) {
            return HR_E_IO;
        }
        p += put;
        bytes -= (size_t)put;
    }
    return HR_OK;
}

hr_status hri_cache_write(const hri_cache *cache, const char *name, const void *data,
                          size_t bytes) {
    char beside[320];
    int fd = -1;
    if (strlen(name) > 255) {
        return HR_E_RANGE;
    }
    for (unsigned n = 0; fd < 0 && n < 100; n++) {
        snprintf(beside, sizeof beside, ".%.240s.%ld.%u", name, (long)getpid(), n);
        fd = open_at(cache, beside, O_WRONLY | O_CREAT | O_EXCL);
        if (fd < 0 && errno != EEXIST) {
            return HR_E_IO;
        }
    }
    if (fd < 0) {
        return HR_E_IO;
    }
    hr_status status = write_all(fd, data, bytes);
    if (status == HR_OK && ((fsync(fd) != 0 && errno != EINVAL) || HRI_FAULT(WRITE))) {
        status = HR_E_IO;
    }
    if (close(fd) != 0 || status != HR_OK || renameat(cache->fd, beside, cache->fd, name) != 0) {
        (void)unlinkat(cache->fd, beside, 0);
        return HR_E_IO;
    }
    return HR_OK;
}

hr_status hri_cache_append(const hri_cache *cache, const char *name, const void *data,
                           size_t bytes) {
    struct stat info;
    const int fd = open_at(cache, name, O_WRONLY | O_APPEND | O_CREAT);
    if (fd < 0) {
        return HR_E_IO;
    }
    /* One write: two processes do not cut into one another's lines. */
    const int done =
        is_ours(fd, &info) && !HRI_FAULT(WRITE) && write(fd, data, bytes) == (ssize_t)bytes;
    close(fd);
    return done ? HR_OK : HR_E_IO;
}

const char *hri_cache_default(char *buf, size_t size) {
    const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (xdg && xdg[0] == '/') { /* a relative one is to be ignored, says its standard */
        snprintf(buf, size, "%s/headroom", xdg);
    } else if (home && home[0]) {
        snprintf(buf, size, "%s/.cache/headroom", home);
    } else if (size) {
        buf[0] = 0;
    }
    return buf;
}
