/* What the machine, or the container this process lives in, has and has left (memory/left.h). */
#include <stdio.h>
#include <unistd.h>

#include "base/proc.h"
#include "device/host/host.h"
#include "memory/left.h"

void hri_host_memory(uint64_t *total_bytes, uint64_t *free_bytes) {
    hri_memory_left left;
    hri_memory_left_read("", &left);
    const uint64_t all = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    const uint64_t total = left.total_bytes ? left.total_bytes : all;
    *total_bytes = total;
    *free_bytes = left.free_bytes < total ? left.free_bytes : total;
}

uint64_t hri_host_pages_left(void) {
    hri_memory_left left;
    hri_memory_left_read("", &left);
    const uint64_t bytes =
        left.machine_free < left.group_free ? left.machine_free : left.group_free;
    return bytes == UINT64_MAX ? 0 : bytes;
}

/* What is kept free where nobody has counted: a thirty-second of everything, 64 MiB at most. */
static uint64_t less_reserve(uint64_t left, uint64_t total) {
    static const uint64_t most = UINT64_C(64) << 20;
    const uint64_t reserve = total / 32 < most ? total / 32 : most;
    return left > reserve ? left - reserve : 0;
}

uint64_t hri_host_spare(void) {
    hri_memory_left left;
    hri_memory_left_read("", &left);
    uint64_t bytes = UINT64_MAX;
    if (left.machine_free != UINT64_MAX) {
        bytes = less_reserve(left.machine_free, left.machine_bytes);
    }
    if (left.group_free != UINT64_MAX) {
        const uint64_t group = less_reserve(left.group_free, left.group_limit);
        bytes = group < bytes ? group : bytes;
    }
    return bytes;
}

uint64_t hri_host_resident_bytes(void) {
    hri_proc f;
    char line[128];
    unsigned long long size, resident = 0;
    if (hri_proc_open(&f, "", "/proc/self/statm")) {
        if (!hri_proc_line(&f, line, sizeof line) ||
            sscanf(line, "%llu %llu", &size, &resident) != 2) {
            resident = 0;
        }
        hri_proc_close(&f);
    }
    return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}
