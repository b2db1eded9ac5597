/* What is left: MemAvailable, and the control groups.  A container's limit is what the kernel kills for, so it counts
 * even when the machine has more; page cache of the group that is not in use counts as free, as in MemAvailable. */
#include "data/budget.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/file.h"

static char *read_text(const char *root, const char *path) {
    char full[1024];
    char *text = NULL;
    const int n = snprintf(full, sizeof full, "%s%s", root, path);
    if (n < 0 || (size_t)n >= sizeof full ||
        hri_file_read(full, 1 << 20, &text, NULL, NULL) != HR_OK) {
        return NULL;
    }
    return text;
}

/* The number in a file of one number; UINT64_MAX for "max" and for what cannot be read. */
static uint64_t read_number(const char *root, const char *folder, const char *name) {
    char path[768];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    char *text = read_text(root, path);
    uint64_t number = UINT64_MAX;
    if (text && text[0] >= '0' && text[0] <= '9') {
        number = strtoull(text, NULL, 10);
    }
    hri_free(text);
    return number;
}

/* The number behind `key` at the start of a line. */
static uint64_t read_key(const char *root, const char *path, const char *key) {
    char *text = read_text(root, path);
    uint64_t number = 0;
    for (const char *line = text; line && *line;) {
        if (strncmp(line, key, strlen(key)) == 0) {
            number = strtoull(line + strlen(key), NULL, 10);
            break;
        }
        line = strchr(line, '\n');
        line = line ? line + 1 : NULL;
    }
    hri_free(text);
    return number;
}

static uint64_t group_left(const char *root, const char *folder, bool v2) {
    const uint64_t limit = read_number(root, folder, v2 ? "memory.max" : "memory.limit_in_bytes");
    const uint64_t used =
        read_number(root, folder, v2 ? "memory.current" : "memory.usage_in_bytes");
    if (limit == UINT64_MAX || used == UINT64_MAX) {
        return UINT64_MAX;
    }
    char path[768];
    snprintf(path, sizeof path, "%s/memory.stat", folder);
    const uint64_t cache = read_key(root, path, v2 ? "inactive_file " : "total_inactive_file ");
    const uint64_t firm = used > cache ? used - cache : 0;
    return limit > firm ? limit - firm : 0;
}

/* The group named in /proc/self/cgroup and every one above it, up to the mount. */
static uint64_t groups_left(const char *root, const char *mount, const char *name, size_t length,
                            bool v2) {
    uint64_t left = UINT64_MAX;
    for (;;) {
        char folder[640];
        snprintf(folder, sizeof folder, "%s%.*s", mount, (int)length, name);
        const uint64_t here = group_left(root, folder, v2);
        left = here < left ? here : left;
        while (length > 0 && name[length - 1] != '/') {
            length--;
        }
        if (length == 0) {
            return left;
        }
        length--;
    }
}

uint64_t hri_budget_available(const char *root) {
    uint64_t left = read_key(root, "/proc/meminfo", "MemAvailable:") * 1024;
    left = left ? left : UINT64_MAX;
    char *text = read_text(root, "/proc/self/cgroup");
    for (const char *line = text; line && *line;) {
        const char *end = strchr(line, '\n');
        end = end ? end : line + strlen(line);
        const char *colon = memchr(line, ':', (size_t)(end - line));
        const char *second = colon ? memchr(colon + 1, ':', (size_t)(end - colon - 1)) : NULL;
        if (second) {
            const bool v2 = second == colon + 1;
            const bool v1 = memmem(colon, (size_t)(second - colon), "memory", 6) != NULL;
            const char *mount = v2 ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory";
            if (v1 || v2) {
                const uint64_t here =
                    groups_left(root, mount, second + 1, (size_t)(end - second - 1), v2);
                left = here < left ? here : left;
            }
        }
        line = *end ? end + 1 : end;
    }
    hri_free(text);
    return left == UINT64_MAX ? 0 : left;
}
