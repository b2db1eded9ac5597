/* Affinity and cgroup, read from the system.  What cannot be read puts no bound: a wrong guess here costs
 * speed, never a result. */
#include "base/cores.h"

#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"

enum { FILE_BYTES = 64 * 1024 };

/* A small file of the system as text in buf; false when there is none. */
static bool read_small(const char *path, char *buf, size_t size) {
    char *text;
    if (hri_file_read(path, FILE_BYTES, &text, NULL, NULL) != HR_OK) {
        return false;
    }
    snprintf(buf, size, "%s", text);
    hri_free(text);
    return true;
}

static uint32_t whole_cores(long long quota, long long period) {
    if (quota <= 0 || period <= 0) {
        return 0;
    }
    const long long cores = quota / period + (quota % period != 0);
    return cores > INT_MAX ? 0 : (uint32_t)cores;
}

static uint32_t bound_v2(const char *folder) {
    char path[PATH_MAX + 16], text[64];
    long long quota, period;
    snprintf(path, sizeof path, "%s/cpu.max", folder);
    /* "max 100000" when there is no bound */
    if (!read_small(path, text, sizeof text) || sscanf(text, "%lld %lld", &quota, &period) != 2) {
        return 0;
    }
    return whole_cores(quota, period);
}

static uint32_t bound_v1(const char *folder) {
    char path[PATH_MAX + 32], quota[32], period[32];
    snprintf(path, sizeof path, "%s/cpu.cfs_quota_us", folder);
    if (!read_small(path, quota, sizeof quota)) {
        return 0;
    }
    snprintf(path, sizeof path, "%s/cpu.cfs_period_us", folder);
    if (!read_small(path, period, sizeof period)) {
        return 0;
    }
    return whole_cores(atoll(quota), atoll(period));
}

static uint32_t smaller_bound(uint32_t a, uint32_t b) {
    return !a ? b : !b || a < b ? a : b;
}

/* The bound of root/below and of every folder above it up to root. */
static uint32_t walk_up(const char *root, const char *below, uint32_t (*bound)(const char *)) {
    char folder[PATH_MAX];
    const int length = snprintf(folder, sizeof folder, "%s%s", root, below);
    if (length < 0 || (size_t)length >= sizeof folder) {
        return 0;
    }
    uint32_t cores = 0;
    for (;;) {
        cores = smaller_bound(cores, bound(folder));
        char *slash = strrchr(folder, '/');
        if (!slash || (size_t)(slash - folder) < strlen(root)) {
            return cores;
        }
        *slash = '\0';
    }
}

/* Whether a version 1 line "4:cpu,cpuacct:/path" is of the cpu controller. */
static bool names_cpu(const char *controllers, size_t length) {
    while (length) {
        const char *comma = memchr(controllers, ',', length);
        const size_t word = comma ? (size_t)(comma - controllers) : length;
        if (word == 3 && !memcmp(controllers, "cpu", 3)) {
            return true;
        }
        length -= comma ? word + 1 : word;
        controllers += word + 1;
    }
    return false;
}

uint32_t hri_cores_of_cgroup(const char *membership, const char *root) {
    uint32_t cores = 0;
    for (const char *line = membership; *line;) {
        const size_t length = strcspn(line, "\n");
        const char *first = memchr(line, ':', length);
        const char *second =
            first ? memchr(first + 1, ':', length - (size_t)(first + 1 - line)) : NULL;
        if (second) {
            char below[PATH_MAX], v1_root[PATH_MAX];
            snprintf(below, sizeof below, "%.*s", (int)(line + length - second - 1), second + 1);
            if (second == first + 1) {
                cores = smaller_bound(cores, walk_up(root, below, bound_v2));
            } else if (names_cpu(first + 1, (size_t)(second - first - 1))) {
                snprintf(v1_root, sizeof v1_root, "%s/cpu", root);
                cores = smaller_bound(cores, walk_up(v1_root, below, bound_v1));
            }
        }
        line += length + (line[length] == '\n');
    }
    return cores;
}

static uint32_t affinity(void) {
    /* The mask of a machine may be larger than cpu_set_t's 1024; the kernel says so with EINVAL. */
    for (size_t bits = 1024; bits <= 1 << 20; bits *= 2) {
        cpu_set_t *set = hri_calloc(1, CPU_ALLOC_SIZE(bits));
        if (!set) {
            break;
        }
        const int got = sched_getaffinity(0, CPU_ALLOC_SIZE(bits), set);
        const int count = got == 0 ? CPU_COUNT_S(CPU_ALLOC_SIZE(bits), set) : 0;
        hri_free(set);
        if (count > 0) {
            return (uint32_t)count;
        }
    }
    return 1;
}

uint32_t hri_cores_usable(void) {
    char membership[4096];
    const uint32_t cores = affinity();
    if (!read_small("/proc/self/cgroup", membership, sizeof membership)) {
        return cores;
    }
    return smaller_bound(cores, hri_cores_of_cgroup(membership, "/sys/fs/cgroup"));
}
