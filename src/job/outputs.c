/* See outputs.h. */
#include "job/outputs.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <headroom/bytes.h>
#include "base/alloc.h"

/* Cuts the last name off; "." or "/" when there is nothing before it. */
static void cut_name(char *path) {
    char *slash = strrchr(path, '/');
    while (slash && slash > path && !slash[1]) { /* slashes at the end */
        *slash = '\0';
        slash = strrchr(path, '/');
    }
    if (!slash) {
        memcpy(path, ".", 2);
    } else {
        slash[slash == path] = '\0';
    }
}

/* The nearest folder above that is there, in place.  `path` has room for two characters at least. */
static void cut_missing(char *path) {
    struct stat is;
    while (stat(path, &is) != 0 && errno == ENOENT && strcmp(path, ".") != 0 &&
           strcmp(path, "/") != 0) {
        cut_name(path);
    }
}

static char *copy_of(const char *path) {
    const size_t length = strlen(path);
    char *copy = hri_malloc(length + 2);
    return copy ? memcpy(copy, path, length + 1) : NULL;
}

static hr_status refused(hri_why *why, const char *option, const char *path, const char *reason) {
    return hri_why_option(why, HR_E_INVALID, option, ": %s cannot be written: %s", path, reason);
}

static hr_status check_folder(hri_why *why, const char *option, const char *path,
                              const char *folder) {
    struct stat is;
    if (stat(folder, &is) != 0) {
        return refused(why, option, path, strerror(errno));
    }
    if (!S_ISDIR(is.st_mode)) {
        return refused(why, option, path, "a file is in the place of a directory");
    }
    return access(folder, W_OK | X_OK) == 0 ? HR_OK : refused(why, option, path, strerror(errno));
}

hr_status hri_output_check(hri_why *why, const char *option, const char *path,
                           hri_output_kind kind) {
    struct stat is;
    if (!path) {
        return HR_OK;
    }
    if (!*path) {
        return refused(why, option, "\"\"", "the name is missing");
    }
    if (stat(path, &is) == 0) {
        if (kind == HRI_OUTPUT_FOLDER) {
            return check_folder(why, option, path, path);
        }
        if (S_ISDIR(is.st_mode)) {
            return refused(why, option, path, "it is a directory");
        }
        if (access(path, W_OK) != 0) {
            return refused(why, option, path, strerror(errno));
        }
        if (!S_ISREG(is.st_mode)) {
            return HR_OK; /* /dev/null, a pipe: written where it is */
        }
    } else if (errno != ENOENT) {
        return refused(why, option, path, strerror(errno));
    }
    char *folder = copy_of(path);
    if (!folder) {
        return hri_why_set(why, HR_CAUSE_MACHINE, HR_E_NOMEM_HOST, "out of memory for %s", path);
    }
    cut_name(folder);
    if (kind != HRI_OUTPUT_FILE) {
        cut_missing(folder);
    }
    const hr_status status = check_folder(why, option, path, folder);
    hri_free(folder);
    return status;
}

hr_status hri_output_room(hri_why *why, const char *path, uint64_t bytes, const char *what,
                          const char *instead) {
    struct statvfs disk;
    char *there = copy_of(path);
    if (!there) {
        return hri_why_set(why, HR_CAUSE_MACHINE, HR_E_NOMEM_HOST, "out of memory for %s", path);
    }
    cut_missing(there);
    const int known = statvfs(there, &disk) == 0;
    hri_free(there);
    const uint64_t unit = known && disk.f_frsize ? disk.f_frsize : 1;
    if (!known || disk.f_bavail >= bytes / unit + 1) {
        return HR_OK; /* what cannot be asked is met when it is written */
    }
    char needs[32], left[32];
    return hri_why_set(why, HR_CAUSE_USAGE, HR_E_LIMIT,
                       "%s needs %s, but the disk of %s has %s left; %s", what,
                       hr_bytes_print(bytes, needs, sizeof needs), path,
                       hr_bytes_print((uint64_t)disk.f_bavail * unit, left, sizeof left), instead);
}
