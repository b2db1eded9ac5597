/* See folder.h. */
#include "weights/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "weights/checkpoint.h"

/* "last.safetensors.a1B2c3.tmp": what hri_writer writes beside a checkpoint. */
static int is_half(const char *name) {
    static const char *const whole[] = {HRI_CHECKPOINT_LAST, HRI_CHECKPOINT_BEST};
    for (size_t i = 0; i < sizeof whole / sizeof whole[0]; i++) {
        const size_t n = strlen(whole[i]);
        if (!strncmp(name, whole[i], n) && name[n] == '.' && strlen(name) == n + 11 &&
            !strcmp(name + n + 7, ".tmp")) {
            return 1;
        }
    }
    return 0;
}

/* What cannot be removed stays: it is only in the way of the disk. */
static void remove_halves(int folder) {
    const int copy = dup(folder);
    DIR *dir = copy >= 0 ? fdopendir(copy) : NULL;
    if (!dir) {
        if (copy >= 0) {
            close(copy);
        }
        return;
    }
    for (const struct dirent *e = readdir(dir); e; e = readdir(dir)) {
        if (is_half(e->d_name)) {
            (void)unlinkat(folder, e->d_name, 0);
        }
    }
    closedir(dir);
}

static hr_status refused(hri_prose *why, const char *path, const char *doing, int error) {
    char text[128];
    return hri_prose_set(why, error == ENOENT ? HR_E_NOT_FOUND : HR_E_IO, "%s: %s: %s", path, doing,
                         strerror_r(error, text, sizeof text));
}

/* Makes what is missing of the path, from above.  *again: a part of it was removed meanwhile. */
static hr_status make(hri_folder *f, hri_folder_kind kind, int *again, hri_prose *why) {
    for (size_t end = 0; f->path[end];) {
        end += 1 + strcspn(f->path + end + 1, "/");
        const char kept = f->path[end];
        f->path[end] = '\0';
        errno = EIO;
        const int made = HRI_FAULT(OPEN) ? -1 : mkdir(f->path, 0777);
        const int error = made ? errno : 0;
        struct stat info;
        const int there =
            made && error != EIO && stat(f->path, &info) == 0 && S_ISDIR(info.st_mode);
        const int last = !kept || !f->path[end + 1];
        hr_status status = HR_OK;
        if (made && !there) {
            *again = error == ENOENT && end > 1;
            status = refused(why, f->path, "make the folder", error);
        } else if (made && last && kind == HRI_FOLDER_NEW) {
            status = hri_prose_set(why, HR_E_EXISTS, "%s: already exists", f->path);
        }
        f->made_from = !made && !f->made_from ? end : f->made_from;
        f->made_to = !made ? end : f->made_to;
        f->path[end] = kept;
        if (status != HR_OK) {
            return status;
        }
    }
    return HR_OK;
}

/* Locks it.  *again: between making and locking it was removed by the training that had made it. */
static hr_status lock(hri_folder *f, int *again, hri_prose *why) {
    struct stat mine, there;
    errno = EIO;
    f->fd = HRI_FAULT(OPEN) ? -1 : open(f->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (f->fd < 0) {
        *again = errno == ENOENT;
        return refused(why, f->path, "open", errno);
    }
    /* A file system without locks is no reason not to train. */
    if (flock(f->fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
        return hri_prose_set(why, HR_E_BUSY, "another run is using %s", f->path);
    }
    f->locked = 1;
    if (fstat(f->fd, &mine) != 0 || stat(f->path, &there) != 0 || mine.st_ino != there.st_ino ||
        mine.st_dev != there.st_dev) {
        *again = 1;
        return hri_prose_set(why, HR_E_BUSY,
                             "%s: it is repeatedly removed and created by "
                             "another process",
                             f->path);
    }
    return HR_OK;
}

/* One byte in a file of its own, which goes again. */
static hr_status try_to_write(const hri_folder *f, hri_prose *why) {
    static const char name[] = ".headroom-try";
    (void)unlinkat(f->fd, name, 0); /* of one that was killed here */
    errno = EIO;
    const int fd =
        HRI_FAULT(OPEN) ? -1 : openat(f->fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    int error = fd < 0 ? errno : 0;
    if (fd >= 0) {
        errno = ENOSPC;
        error = HRI_FAULT(WRITE) || write(fd, "", 1) != 1 ? errno : 0;
        close(fd);
        (void)unlinkat(f->fd, name, 0);
    }
    return error ? refused(why, f->path, "it is not writable", error) : HR_OK;
}

hr_status hri_folder_open(const char *path, hri_folder_kind kind, hri_folder *out, hri_prose *why) {
    hri_folder f = {.fd = -1, .path = hri_strdup(path)};
    hr_status status =
        f.path ? HR_OK : hri_prose_set(why, HR_E_NOMEM_HOST, "%s: out of memory", path);
    for (size_t n = f.path ? strlen(f.path) : 0; n > 1 && f.path[n - 1] == '/'; n--) {
        f.path[n - 1] = '\0';
    }
    for (int round = 0, again = 1; status == HR_OK && again; round++) {
        again = 0;
        status = make(&f, kind, &again, why);
        if (status == HR_OK) {
            status = lock(&f, &again, why);
        }
        if (again && round < 16) {
            if (f.fd >= 0) {
                close(f.fd);
            }
            f.fd = -1;
            f.locked = 0;
            status = HR_OK;
        } else {
            again = 0;
        }
    }
    if (status == HR_OK) {
        status = try_to_write(&f, why);
    }
    if (status != HR_OK) {
        hri_folder_close(&f);
        return status;
    }
    remove_halves(f.fd);
    *out = f;
    return HR_OK;
}

void hri_folder_close(hri_folder *f) {
    if (!f->path) {
        return;
    }
    /* The last part only while it is locked: without the lock it may be another's by now.  The parts above go when nothing is
     * in them. */
    const size_t whole = strlen(f->path);
    for (size_t end = f->made_to; f->made_from && end >= f->made_from;) {
        f->path[end] = '\0';
        if ((end < whole || f->locked) && rmdir(f->path) != 0 && errno != ENOENT) {
            break;
        }
        while (end > 0 && f->path[--end] != '/') {
        }
    }
    if (f->fd >= 0) {
        close(f->fd); /* and the lock with it */
    }
    hri_free(f->path);
    *f = (hri_folder){.fd = -1};
}
