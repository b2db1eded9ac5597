/* The checks themselves.  Every one ends in exactly one hri_doctor_check. */
#include "job/doctor.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/cache_dir.h"
#include "base/alloc.h"
#include "device/device.h"
#include "job/machine.h"

/* Larger than any one cache line and page, small enough to be instant. */
enum { COPY_BYTES = 1 << 20, MADE_MAX = 16 };

/* The first line of the context's prose, or the status in words. */
static void add_failure(hr_doctor *d, hr_ctx *ctx, const char *subject, const char *name,
                        hr_status status) {
    hr_error error;
    hr_ctx_error(ctx, &error);
    const char *text =
        error.code == status && error.message[0] ? error.message : hr_status_text(status);
    hri_doctor_check(d, subject, name,
                     status == HR_E_UNSUPPORTED ? HR_CHECK_SKIPPED : HR_CHECK_FAILED, "%.*s",
                     (int)strcspn(text, "\n"), text);
}

/* ---- devices ---- */

static void check_page(hr_doctor *d, hr_ctx *ctx, hr_logical *logical, const hr_device_info *info) {
    const char *name = "maps a page";
    hr_range *range = NULL;
    hr_status status = hr_range_create(logical, info->page_bytes, HR_CATEGORY_OTHER, 0, &range);
    if (status == HR_OK) {
        status = hr_range_resize(range, info->page_bytes);
    }
    const int addressed = status == HR_OK && hr_range_addr(range) != 0;
    const hr_status ended = range ? hr_range_destroy(range) : HR_OK;
    if (status == HR_OK) {
        status = ended;
    }
    if (status != HR_OK) {
        add_failure(d, ctx, info->name, name, status);
        return;
    }
    char size[32];
    hr_bytes_print(info->page_bytes, size, sizeof size);
    hri_doctor_check(d, info->name, name, addressed ? HR_CHECK_OK : HR_CHECK_FAILED,
                     addressed ? "%s reserved, mapped and released" : "%s could not be mapped",
                     size);
}

/* host[0..bytes) to the device, then back over a wiped copy, compared with the pattern. */
static hr_status round_trip(hr_device *device, const hr_block *block, uint8_t *host, size_t bytes,
                            int *equal) {
    hr_queue *queue = NULL;
    hr_status status = hr_queue_create(device, &queue);
    if (status != HR_OK) {
        return status;
    }
    for (size_t i = 0; i < bytes; i++) {
        host[i] = (uint8_t)(i * 131 + (i >> 8) * 7 + 1);
    }
    status = hr_copy(queue, block->addr, (hr_addr)(uintptr_t)host, bytes);
    if (status == HR_OK) {
        status = hr_queue_sync(queue);
    }
    if (status == HR_OK) {
        memset(host, 0, bytes);
        status = hr_copy(queue, (hr_addr)(uintptr_t)host, block->addr, bytes);
    }
    if (status == HR_OK) {
        status = hr_queue_sync(queue);
    }
    hr_queue_destroy(queue);
    *equal = 1;
    for (size_t i = 0; status == HR_OK && i < bytes; i++) {
        *equal &= host[i] == (uint8_t)(i * 131 + (i >> 8) * 7 + 1);
    }
    return status;
}

static void check_copy(hr_doctor *d, hr_ctx *ctx, hr_device *device, hr_logical *logical,
                       const hr_device_info *info, int pinned) {
    const char *name = pinned ? "copies through pinned memory" : "copies and compares";
    void *host = NULL;
    hr_block block = {0};
    int equal = 0;
    hr_status status = HR_OK;
    if (pinned) {
        status = hr_pinned_create(device, COPY_BYTES, &host);
    } else {
        host = hri_malloc(COPY_BYTES);
        status = host ? HR_OK : HR_E_NOMEM_HOST;
    }
    if (status == HR_OK) {
        status = hr_block_alloc(logical, COPY_BYTES, HR_CATEGORY_OTHER, 0, &block);
    }
    if (status == HR_OK) {
        status = round_trip(device, &block, host, COPY_BYTES, &equal);
        const hr_status freed = hr_block_free(logical, &block);
        status = status == HR_OK ? freed : status;
    }
    if (pinned && host) {
        hr_pinned_destroy(device, host);
    } else {
        hri_free(host);
    }
    if (status != HR_OK) {
        add_failure(d, ctx, info->name, name, status);
        return;
    }
    hri_doctor_check(d, info->name, name, equal ? HR_CHECK_OK : HR_CHECK_FAILED,
                     equal ? "1 MiB copied there and back, identical"
                           : "1 MiB came back changed: do not trust this device");
}

/* Our own reading of the limit against what the device layer says. */
static void check_cgroup(hr_doctor *d, const hr_device_info *info) {
    const char *name = "respects its cgroup";
    hr_machine_info own = {0}, *machine = &own;
    hri_machine_read_cgroup(machine, "");
    if (machine->cgroup_limit_bytes == UINT64_MAX) {
        hri_doctor_check(d, info->name, name, HR_CHECK_SKIPPED, "no memory limit is set there");
        return;
    }
    char limit[32], total[32];
    hr_bytes_print(machine->cgroup_limit_bytes, limit, sizeof limit);
    hr_bytes_print(info->total_bytes, total, sizeof total);
    const int good = info->total_bytes <= machine->cgroup_limit_bytes;
    hri_doctor_check(d, info->name, name, good ? HR_CHECK_OK : HR_CHECK_FAILED,
                     "total %s, limit %s", total, limit);
}

void hri_doctor_check_device(hr_doctor *d, hr_ctx *ctx, hr_device *device) {
    hr_device_info info = {.size = sizeof info};
    hr_status status = hri_device_open(device);
    if (status == HR_OK) {
        status = hr_device_get_info(device, &info);
    }
    if (status != HR_OK) {
        add_failure(d, ctx, device->name, "can be opened", status);
        return;
    }
    if (hri_device_can(device) & HRI_CAN_POINT) {
        check_cgroup(d, &info);
    }
    const uint64_t limit_bytes =
        info.page_bytes * (COPY_BYTES / info.page_bytes + 2); /* a page, and room for the copy */
    hr_logical *logical = NULL;
    status = hr_logical_create(device,
                               &(hr_logical_options){.size = sizeof(hr_logical_options),
                                                     .name = "doctor",
                                                     .limit_bytes = limit_bytes},
                               &logical);
    if (status != HR_OK) {
        add_failure(d, ctx, info.name, "takes a limit", status);
        return;
    }
    check_page(d, ctx, logical, &info);
    if (!(hri_device_can(device) & HRI_CAN_COMPUTE)) {
        hri_doctor_check(d, info.name, "copies and compares", HR_CHECK_SKIPPED,
                         "a null device has addresses but no memory");
    } else {
        check_copy(d, ctx, device, logical, &info, 0);
        check_copy(d, ctx, device, logical, &info, 1);
    }
    status = hr_logical_destroy(logical);
    if (status != HR_OK) {
        add_failure(d, ctx, info.name, "releases everything", status);
    }
}

/* ---- the cache directory ---- */

/* Makes `path` and its parents; made[] gets the lengths of those that were not there, the outermost first. */
static int make_path(char *path, size_t *made, size_t *made_count) {
    *made_count = 0;
    for (size_t i = 1;; i++) {
        if (path[i] != '/' && path[i] != 0) {
            continue;
        }
        const char end = path[i];
        path[i] = 0;
        const int done = mkdir(path, 0700);
        const int error = errno;
        path[i] = end;
        if (done == 0 && *made_count < MADE_MAX) {
            made[(*made_count)++] = i;
        } else if (done != 0 && error != EEXIST) {
            errno = error;
            return 0;
        }
        if (!end) {
            return 1;
        }
    }
}

/* A file written, read back and removed; 0 with errno on failure. */
static int try_file(const char *dir) {
    static const char text[] = "headroom";
    char path[4200], back[sizeof text] = "";
    snprintf(path, sizeof path, "%s/.doctor-XXXXXX", dir);
    const int fd = mkstemp(path);
    if (fd < 0) {
        return 0;
    }
    int good = write(fd, text, sizeof text) == (ssize_t)sizeof text &&
               pread(fd, back, sizeof back, 0) == (ssize_t)sizeof back;
    int error = good ? 0 : errno;
    if (good && memcmp(text, back, sizeof text) != 0) {
        good = 0;
        error = EIO;
    }
    close(fd);
    unlink(path);
    errno = error;
    return good;
}

void hri_doctor_check_cache(hr_doctor *d, const char *path) {
    const char *subject = "cache directory", *name = "can be written";
    char copy[4096];
    size_t made[MADE_MAX], made_count;
    if (!path[0]) {
        hri_doctor_check(d, subject, name, HR_CHECK_SKIPPED,
                         "no cache: set HEADROOM_CACHE_DIR, or HOME");
        return;
    }
    if (strlen(path) >= sizeof copy) {
        hri_doctor_check(d, subject, name, HR_CHECK_FAILED, "the path is too long");
        return;
    }
    strcpy(copy, path);
    hri_cache cache = {.fd = -1};
    hri_prose why = {""};
    const int there = make_path(copy, made, &made_count);
    /* What cannot be trusted is not used; who owns it is said before whether it can be written. */
    const hr_status trusted = there ? hri_cache_open(path, NULL, 0, &cache, &why) : HR_OK;
    hri_cache_close(&cache);
    const int good = there && trusted == HR_OK && try_file(copy);
    const int error = errno;
    while (made_count) { /* leave no trace: the first real use makes it again */
        copy[made[--made_count]] = 0;
        rmdir(copy);
    }
    if (trusted == HR_E_INVALID) {
        hri_doctor_check(d, subject, name, HR_CHECK_FAILED, "%s", why.text);
        return;
    }
    hri_doctor_check(d, subject, name, good ? HR_CHECK_OK : HR_CHECK_FAILED, "%.180s%s%s", path,
                     good ? "" : ": ", good ? "" : strerror(error));
}
