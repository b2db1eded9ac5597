/* Facts about this machine that explain how Headroom will do on it: kernel, processor, huge pages, outer limits.  All of
 * it is read from /proc and /sys, and nothing is changed. */
#include "job/machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>
#include "base/cores.h"
#include "base/grow.h"
#include "base/proc.h"
#include "base/processor.h"
#include "memory/left.h"

/* Those that change which kernels run; a machine shows the ones it has. */
static const char *const features_of_interest[] = {"avx",     "avx2",        "fma",      "f16c",
                                                   "avx512f", "avx512_bf16", "amx_tile", "asimd",
                                                   "asimdhp", "bf16",        "sve",      "sve2"};

/* The first line of a file without its newline; 0 when there is none. */
static int read_line(const char *path, char *line, int size) {
    FILE *f = fopen(path, "r");
    if (!f) {
        return 0;
    }
    const int found = fgets(line, size, f) != NULL;
    fclose(f);
    if (found) {
        line[strcspn(line, "\n")] = 0;
    }
    return found;
}

static void add_word(char *list, size_t size, const char *word) {
    const size_t used = strlen(list);
    if (used + strlen(word) + 2 <= size) {
        snprintf(list + used, size - used, "%s%s", used ? " " : "", word);
    }
}

static void read_features(hr_machine_info *machine, char *flags) {
    char *save = NULL;
    for (char *word = strtok_r(flags, " \t\n", &save); word;
         word = strtok_r(NULL, " \t\n", &save)) {
        for (size_t i = 0; i < sizeof features_of_interest / sizeof features_of_interest[0]; i++) {
            if (!strcmp(word, features_of_interest[i])) {
                add_word(machine->features, sizeof machine->features, word);
            }
        }
    }
}

void hri_machine_read_processor(hr_machine_info *machine, const char *root) {
    hri_proc f;
    char line[8192];
    hri_processor_name(root, machine->processor, sizeof machine->processor);
    machine->features[0] = 0;
    if (hri_proc_open(&f, root, "/proc/cpuinfo")) {
        while (!machine->features[0] && hri_proc_line(&f, line, sizeof line)) {
            char *value = strchr(line, ':');
            if (value && (!strncmp(line, "flags", 5) || !strncmp(line, "Features", 8))) {
                read_features(machine, value + 1);
            }
        }
        hri_proc_close(&f);
    }
    if (!machine->processor[0]) {
        strcpy(machine->processor, "unknown");
    }
    if (!machine->features[0]) {
        strcpy(machine->features, "none known");
    }
}

/* "always [madvise] never" -> "madvise" */
static void chosen(const char *path, char *word, size_t size) {
    char line[128];
    snprintf(word, size, "unknown");
    if (read_line(path, line, sizeof line)) {
        char *from = strchr(line, '['), *to = from ? strchr(from, ']') : NULL;
        if (to) {
            *to = 0;
            snprintf(word, size, "%s", from + 1);
        }
    }
}

static void read_huge_pages(hr_machine_info *machine) {
    char normal[24], shared[24], reserved[24] = "unknown";
    chosen("/sys/kernel/mm/transparent_hugepage/enabled", normal, sizeof normal);
    chosen("/sys/kernel/mm/transparent_hugepage/shmem_enabled", shared, sizeof shared);
    char line[32];
    if (read_line("/proc/sys/vm/nr_hugepages", line, sizeof line)) {
        snprintf(reserved, sizeof reserved, "%.20s", line);
    }
    snprintf(machine->huge_pages, sizeof machine->huge_pages,
             "transparent: %s, shared memory: %s, reserved: %s", normal, shared, reserved);
}

void hri_machine_read_cgroup(hr_machine_info *machine, const char *root) {
    hri_memory_left left;
    hri_memory_left_read(root, &left);
    machine->cgroup_limit_bytes = left.group_limit;
    snprintf(machine->cgroup_path, sizeof machine->cgroup_path, "%s", left.group_path);
}

hr_status hr_machine_get_info(hr_machine_info *out) {
    hr_machine_info own = {0}, *machine = &own;
    struct utsname name;
    if (uname(&name) == 0) {
        snprintf(machine->system, sizeof machine->system, "%.32s %.64s %.32s", name.sysname,
                 name.release, name.machine);
    } else {
        strcpy(machine->system, "unknown");
    }
    hri_machine_read_processor(machine, "");
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    machine->cores_online = online > 0 ? (uint32_t)online : 0;
    machine->cores_usable = hri_cores_usable();
    read_huge_pages(machine);
    hri_machine_read_cgroup(machine, "");
    struct rlimit lock;
    machine->lock_limit_bytes = UINT64_MAX;
    if (getrlimit(RLIMIT_MEMLOCK, &lock) == 0 && lock.rlim_cur != RLIM_INFINITY) {
        machine->lock_limit_bytes = lock.rlim_cur;
    }
    const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    machine->memory_bytes = pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : 0;
    return hri_give(out, &own, sizeof own);
}
