/* What the machine has: /proc/meminfo, bounded by every cgroup (v2 or v1) above this process.  A container's limit is
 * the truth for the process in it. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "device/host/host.h"

static int read_number(const char *path, uint64_t *out) {
    FILE *f = fopen(path, "re");
    unsigned long long value = 0;
    const int ok = f && fscanf(f, "%llu", &value) == 1; /* "max" is no number: no bound */
    if (f) {
        fclose(f);
    }
    if (ok) {
        *out = value;
    }
    return ok;
}

static void meminfo(uint64_t *total, uint64_t *available) {
    FILE *f = fopen("/proc/meminfo", "re");
    char line[128];
    unsigned long long kib;
    while (f && fgets(line, sizeof line, f)) {
        if (sscanf(line, "MemTotal: %llu", &kib) == 1) {
            *total = kib * 1024;
        } else if (sscanf(line, "MemAvailable: %llu", &kib) == 1) {
            *available = kib * 1024;
        }
    }
    if (f) {
        fclose(f);
    }
}

/* File pages count in a cgroup's use but go when somebody needs the room. */
static uint64_t reclaimable(const char *dir) {
    char path[4096 + 64], key[64];
    unsigned long long value;
    uint64_t bytes = 0;
    snprintf(path, sizeof path, "%s/memory.stat", dir);
    FILE *f = fopen(path, "re");
    while (f && fscanf(f, "%63s %llu", key, &value) == 2) {
        if (!strcmp(key, "inactive_file") || !strcmp(key, "total_inactive_file")) {
            bytes = value;
        }
    }
    if (f) {
        fclose(f);
    }
    return bytes;
}

typedef struct bounds {
    uint64_t total, available;
} bounds;

static void bound_by(bounds *b, const char *dir, const char *max_name, const char *use_name) {
    char path[4096 + 64];
    uint64_t max, use = 0;
    snprintf(path, sizeof path, "%s/%s", dir, max_name);
    if (!read_number(path, &max)) {
        return;
    }
    snprintf(path, sizeof path, "%s/%s", dir, use_name);
    if (read_number(path, &use)) {
        const uint64_t cache = reclaimable(dir);
        use -= cache < use ? cache : use;
        const uint64_t left = max > use ? max - use : 0;
        b->available = left < b->available ? left : b->available;
    }
    b->total = max < b->total ? max : b->total;
}

/* Walks from this process's group up to the root of the hierarchy mounted at `mount`. */
static void bound_by_groups(bounds *b, const char *mount, const char *group, const char *max_name,
                            const char *use_name) {
    char dir[4096];
    snprintf(dir, sizeof dir, "%s%s", mount, group);
    for (;;) {
        bound_by(b, dir, max_name, use_name);
        char *slash = strrchr(dir, '/');
        if (!slash || strlen(dir) <= strlen(mount)) {
            return;
        }
        *slash = '\0';
    }
}

void hri_host_memory(uint64_t *total_bytes, uint64_t *free_bytes) {
    bounds b;
    char line[2048];
    b.total = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    b.available = b.total;
    meminfo(&b.total, &b.available);
    FILE *f = fopen("/proc/self/cgroup", "re");
    while (f && fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = '\0';
        char *controllers = strchr(line, ':');
        char *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group) {
            continue;
        }
        *group++ = '\0';
        if (controllers[1] == '\0') {
            bound_by_groups(&b, "/sys/fs/cgroup", group, "memory.max", "memory.current");
        } else if (strstr(controllers, "memory")) {
            bound_by_groups(&b, "/sys/fs/cgroup/memory", group, "memory.limit_in_bytes",
                            "memory.usage_in_bytes");
        }
    }
    if (f) {
        fclose(f);
    }
    *total_bytes = b.total;
    *free_bytes = b.available < b.total ? b.available : b.total;
}

uint64_t hri_host_resident_bytes(void) {
    FILE *f = fopen("/proc/self/statm", "re");
    unsigned long long size, resident = 0;
    if (f) {
        if (fscanf(f, "%llu %llu", &size, &resident) != 2) {
            resident = 0;
        }
        fclose(f);
    }
    return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}
