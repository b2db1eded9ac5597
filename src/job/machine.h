/* Facts about this machine that explain how Headroom will do on it: kernel, processor, huge pages, outer limits.
 *
 * All of it is read from /proc and /sys, nothing is changed, and a fact that cannot be read is "unknown", never an
 * error: doctor must work on the strangest machine.  Left out on purpose: what devices there are (the library's). */
#ifndef HRI_JOB_MACHINE_H
#define HRI_JOB_MACHINE_H

#include <stdint.h>

typedef struct hri_machine_facts {
    char system[160];            /* "Linux 6.1.0 x86_64" */
    char processor[96];          /* "AMD EPYC 7763"; "unknown" */
    char features[128];          /* "avx2 fma"; "none known" */
    int cores_online;            /* of the machine */
    int cores_usable;            /* that this process may use (affinity) */
    char huge_pages[96];         /* "transparent: madvise, shared memory: never, reserved: 0" */
    uint64_t cgroup_limit_bytes; /* the smallest one on the way up; UINT64_MAX: none */
    char cgroup_path[256];       /* the file that says so; "" */
    uint64_t lock_limit_bytes;   /* RLIMIT_MEMLOCK; UINT64_MAX: none */
    uint64_t memory_bytes;       /* of the machine; 0: unknown */
} hri_machine_facts;

void hri_machine_read(hri_machine_facts *machine);
/* Processor and features alone; `root` is put in front of every path. */
void hri_machine_read_processor(hri_machine_facts *machine, const char *root);
/* The two cgroup fields alone; `root` is put in front of every path. */
void hri_machine_read_cgroup(hri_machine_facts *machine, const char *root);

#endif
