/* /proc/meminfo, /proc/self/cgroup, the mounts of the hierarchies, the groups from ours up to the mount, and
 * /proc/self/limits. */
#include "memory/left.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cores.h"
#include "base/proc.h"

/* Version 1 writes about this much when there is no limit. */
static const uint64_t no_limit = UINT64_C(1) << 60;

typedef struct names {
    const char *limits[2], *use, *reclaimable[3];
} names;

static const names version_1 = {{"memory.limit_in_bytes", NULL},
                                "memory.usage_in_bytes",
                                {"total_inactive_file", "total_active_file", NULL}};
/* Beyond memory.high a group is slowed down until it gives something back: that is a limit, too. */
static const names version_2 = {{"memory.max", "memory.high"},
                                "memory.current",
                                {"inactive_file", "active_file", "slab_reclaimable"}};

static uint64_t smaller(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

static void read_machine(const char *root, hri_memory_left *out) {
    hri_proc f;
    char line[128];
    unsigned long long kib;
    if (!hri_proc_open(&f, root, "/proc/meminfo")) {
        return;
    }
    while (hri_proc_line(&f, line, sizeof line)) {
        if (sscanf(line, "MemTotal: %llu", &kib) == 1) {
            out->machine_bytes = (uint64_t)kib * 1024;
        } else if (sscanf(line, "MemAvailable: %llu", &kib) == 1) {
            out->machine_free = (uint64_t)kib * 1024;
        }
    }
    hri_proc_close(&f);
}

static uint64_t reclaimable(const char *root, const char *folder, const names *n) {
    hri_proc f;
    char path[PATH_MAX + 64], line[128], key[64];
    unsigned long long value;
    uint64_t bytes = 0;
    snprintf(path, sizeof path, "%s/memory.stat", folder);
    if (!hri_proc_open(&f, root, path)) {
        return 0;
    }
    while (hri_proc_line(&f, line, sizeof line)) {
        if (sscanf(line, "%63s %llu", key, &value) != 2) {
            continue;
        }
        for (size_t i = 0; i < sizeof n->reclaimable / sizeof n->reclaimable[0]; i++) {
            bytes += n->reclaimable[i] && !strcmp(key, n->reclaimable[i]) ? value : 0;
        }
    }
    hri_proc_close(&f);
    return bytes;
}

static void look_at_group(const char *root, const char *folder, const names *n,
                          hri_memory_left *out) {
    char path[PATH_MAX + 64];
    uint64_t limit = UINT64_MAX, use = 0;
    for (size_t i = 0; i < 2 && n->limits[i]; i++) {
        uint64_t bytes;
        snprintf(path, sizeof path, "%s/%s", folder, n->limits[i]);
        if (!hri_proc_number(root, path, &bytes) || bytes >= no_limit) {
            continue;
        }
        limit = smaller(limit, bytes);
        if (bytes < out->group_limit) {
            out->group_limit = bytes;
            snprintf(out->group_path, sizeof out->group_path, "%.*s",
                     (int)sizeof out->group_path - 1, path);
        }
    }
    snprintf(path, sizeof path, "%s/%s", folder, n->use);
    if (limit != UINT64_MAX && hri_proc_number(root, path, &use)) {
        const uint64_t firm = use - smaller(use, reclaimable(root, folder, n));
        out->group_free = smaller(out->group_free, limit > firm ? limit - firm : 0);
    }
}

/* Where a hierarchy is mounted, and which of its groups is the root there (a container sees its own). */
typedef struct mount {
    char at[PATH_MAX], group[PATH_MAX];
} mount;

static bool has_word(const char *list, const char *word) {
    const size_t length = strlen(word);
    for (const char *at = list; *at; at += strcspn(at, ","), at += *at == ',') {
        if (strcspn(at, ",") == length && !strncmp(at, word, length)) {
            return true;
        }
    }
    return false;
}

static void find_mount(const char *root, bool v2, mount *out) {
    hri_proc f;
    char line[2 * PATH_MAX + 256], at[PATH_MAX], group[PATH_MAX], type[64], options[512];
    snprintf(out->at, sizeof out->at, "%s", v2 ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory");
    snprintf(out->group, sizeof out->group, "/");
    if (!hri_proc_open(&f, root, "/proc/self/mountinfo")) {
        return;
    }
    _Static_assert(PATH_MAX == 4096, "the widths below are those of the buffers");
    while (hri_proc_line(&f, line, sizeof line)) {
        const char *rest = strstr(line, " - ");
        if (!rest || sscanf(line, "%*s %*s %*s %4095s %4095s", group, at) != 2 ||
            sscanf(rest, " - %63s %*s %511s", type, options) != 2) {
            continue;
        }
        if (v2 ? !strcmp(type, "cgroup2")
               : !strcmp(type, "cgroup") && has_word(options, "memory")) {
            memcpy(out->at, at, sizeof at);
            memcpy(out->group, group, sizeof group);
            break;
        }
    }
    hri_proc_close(&f);
}

/* Our group and every one above it, up to the mount.  A limit binds from anywhere above. */
static void walk_up(const char *root, const char *group, bool v2, hri_memory_left *out) {
    mount m;
    char folder[2 * PATH_MAX];
    find_mount(root, v2, &m);
    const size_t above = strcmp(m.group, "/") != 0 ? strlen(m.group) : 0;
    if (above && !strncmp(group, m.group, above)) {
        group += above;
    }
    const size_t base = strlen(m.at);
    /* a group outside of what is mounted here: all that can be seen is the mount itself */
    const bool outside = !strncmp(group, "/..", 3);
    snprintf(folder, sizeof folder, "%s%s", m.at, outside || !strcmp(group, "/") ? "" : group);
    for (;;) {
        look_at_group(root, folder, v2 ? &version_2 : &version_1, out);
        char *slash = strrchr(folder, '/');
        if (!slash || (size_t)(slash - folder) < base) {
            return;
        }
        *slash = '\0';
    }
}

static void read_groups(const char *root, hri_memory_left *out) {
    hri_proc f;
    char line[PATH_MAX + 256];
    if (!hri_proc_open(&f, root, "/proc/self/cgroup")) {
        return;
    }
    while (hri_proc_line(&f, line, sizeof line)) {
        char *controllers = strchr(line, ':');
        char *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group) {
            continue;
        }
        *controllers++ = '\0';
        *group++ = '\0';
        const bool v2 = !*controllers && !strcmp(line, "0");
        if (v2 || has_word(controllers, "memory")) {
            walk_up(root, group, v2, out);
        }
    }
    hri_proc_close(&f);
}

/* The stacks of a pool for the model and one for its data, as large as a thread gets them, but not more than half of
 * what is left: a thread that cannot be started is done without. */
static uint64_t stacks(uint64_t stack, uint64_t left) {
    static const uint64_t usual = UINT64_C(8) << 20;
    return smaller(2 * hri_cores_usable() * (stack ? stack : usual), left / 2);
}

static void read_space(const char *root, hri_memory_left *out) {
    hri_proc f;
    char line[128];
    unsigned long long limit = 0, stack = 0;
    uint64_t pages;
    if (!hri_proc_open(&f, root, "/proc/self/limits")) {
        return;
    }
    while (hri_proc_line(&f, line, sizeof line)) {
        if (sscanf(line, "Max address space %llu", &limit) != 1) {
            (void)sscanf(line, "Max stack size %llu", &stack);
        }
    }
    hri_proc_close(&f);
    if (limit == 0 || limit >= no_limit || !hri_proc_number(root, "/proc/self/statm", &pages)) {
        return;
    }
    const uint64_t mapped = pages * (uint64_t)sysconf(_SC_PAGESIZE);
    out->space_limit = limit;
    out->space_free = limit > mapped ? limit - mapped : 0;
    out->stack_bytes = stacks(stack, out->space_free);
}

void hri_memory_left_read(const char *root, hri_memory_left *out) {
    *out = (hri_memory_left){.machine_free = UINT64_MAX,
                             .group_limit = UINT64_MAX,
                             .group_free = UINT64_MAX,
                             .space_limit = UINT64_MAX,
                             .space_free = UINT64_MAX};
    read_machine(root, out);
    read_groups(root, out);
    read_space(root, out);
    out->total_bytes =
        smaller(out->machine_bytes ? out->machine_bytes : UINT64_MAX, out->group_limit);
    out->total_bytes = smaller(out->total_bytes, out->space_limit);
    out->total_bytes = out->total_bytes == UINT64_MAX ? 0 : out->total_bytes;
    const uint64_t left = smaller(smaller(out->machine_free, out->group_free), out->space_free);
    out->free_bytes = left == UINT64_MAX ? 0 : left;
}

uint64_t hri_memory_left_free(const char *root) {
    hri_memory_left left;
    hri_memory_left_read(root, &left);
    return left.free_bytes;
}
