/* /proc/self/status and /proc/self/smaps, line by line through a buffer on the stack: measuring must not allocate what
 * it measures. */
#include "memory/resident.h"

#include <stdio.h>
#include <string.h>

#include "base/level.h"
#include "base/proc.h"

void hri_resident_read(uint64_t *now_bytes, uint64_t *peak_bytes) {
    hri_proc f;
    char line[128];
    unsigned long long kib, now = 0, peak = 0;
    if (hri_proc_open(&f, "", "/proc/self/status")) {
        while (hri_proc_line(&f, line, sizeof line)) {
            now = sscanf(line, "VmRSS: %llu", &kib) == 1 ? kib : now;
            peak = sscanf(line, "VmHWM: %llu", &kib) == 1 ? kib : peak;
        }
        hri_proc_close(&f);
    }
    if (now_bytes) {
        *now_bytes = (uint64_t)now * 1024;
    }
    if (peak_bytes) {
        *peak_bytes = (uint64_t)peak * 1024;
    }
}

/* One pass over the mappings: what is resident of all of them, of files the whole, and of that what is not resident. */
static void read_mappings(uint64_t *resident, uint64_t *files, uint64_t *missing) {
    hri_proc f;
    char line[512], path[256];
    unsigned long long kib, size = 0;
    int counted = 0;
    *resident = *files = *missing = 0;
    if (!hri_proc_open(&f, "", "/proc/self/smaps")) {
        return;
    }
    while (hri_proc_line(&f, line, sizeof line)) {
        char rights[8] = "";
        path[0] = '\0';
        if (sscanf(line, "%*x-%*x %7s %*x %*s %*u %255s", rights, path) >= 1) {
            counted = path[0] == '/' && rights[0] == 'r' && rights[3] == 'p';
        } else if (sscanf(line, "Size: %llu", &kib) == 1) {
            size = kib;
        } else if (sscanf(line, "Rss: %llu", &kib) == 1) {
            *resident += (uint64_t)kib * 1024;
            *files += counted ? (uint64_t)(size > kib ? size : kib) * 1024 : 0;
            *missing += counted && size > kib ? (uint64_t)(size - kib) * 1024 : 0;
        }
    }
    hri_proc_close(&f);
}

static uint64_t *kind_of(hri_resident_kinds *k, const char *path) {
    return !strncmp(path, "/memfd:", 7) || !strncmp(path, "/dev/zero", 9) ? &k->pages_bytes
           : path[0] == '/'                                               ? &k->files_bytes
           : !strcmp(path, "[heap]")                                      ? &k->heap_bytes
           : !strcmp(path, "[stack]")                                     ? &k->stack_bytes
                                                                          : &k->anonymous_bytes;
}

void hri_resident_read_kinds(hri_resident_kinds *out) {
    hri_proc f;
    char line[512], path[256];
    unsigned long long kib;
    *out = (hri_resident_kinds){.pages_bytes = 0};
    uint64_t *kind = &out->anonymous_bytes;
    if (!hri_proc_open(&f, "", "/proc/self/smaps")) {
        return;
    }
    while (hri_proc_line(&f, line, sizeof line)) {
        char rights[8] = "";
        path[0] = '\0';
        if (sscanf(line, "%*x-%*x %7s %*x %*s %*u %255s", rights, path) >= 1) {
            kind = kind_of(out, path);
        } else if (sscanf(line, "Rss: %llu", &kib) == 1) {
            *kind += (uint64_t)kib * 1024;
        }
    }
    hri_proc_close(&f);
}

uint64_t hri_resident_unmapped(void) {
    uint64_t resident, files, missing;
    read_mappings(&resident, &files, &missing);
    return missing;
}

uint64_t hri_resident_runtime(void) {
    static const uint64_t unit = UINT64_C(1) << 20;
    uint64_t now, resident, files, missing;
    hri_resident_read(&now, NULL);
    read_mappings(&resident, &files, &missing);
    /* Programs and libraries are as large in every run; the rest differs by some pages, and only that is rounded. */
    const uint64_t rest = (resident ? resident : now) + missing - files;
    const uint64_t unused = hri_level_unused_bytes();
    return (files > unused ? files - unused : files) + unit + (rest + unit - 1) / unit * unit;
}

uint64_t hri_resident_kernel(uint64_t bytes) {
    /* an entry of 8 bytes a page in our page table, and a node of 576 bytes for 64 pages in that of the file */
    static const uint64_t each = 240, covered = UINT64_C(1) << 20;
    return bytes / each > covered ? bytes / each - covered : 0;
}
