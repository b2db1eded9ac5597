/* See folder.h. */
#include "train/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/file.h"
#include "train/checkpoint.h"

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

hr_status hri_folder_open(const char *path, int *out, hri_prose *why) {
    const hr_status status = hri_path_make_folders(path, why);
    if (status != HR_OK) {
        return status;
    }
    errno = EIO;
    const int fd = HRI_FAULT(OPEN) ? -1 : open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        return hri_prose_set(why, errno == ENOENT ? HR_E_NOT_FOUND : HR_E_IO, "%s: %s", path,
                             strerror(errno));
    }
    /* A file system without locks is no reason not to train. */
    if (flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
        close(fd);
        return hri_prose_set(why, HR_E_BUSY, "another training runs in %s", path);
    }
    remove_halves(fd);
    *out = fd;
    return HR_OK;
}

void hri_folder_close(int folder) {
    if (folder >= 0) {
        close(folder); /* and the lock with it */
    }
}
