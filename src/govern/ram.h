/* A limit on the RAM of a program and of all that it starts.
 *
 *   hri_ram ram;
 *   status = hri_ram_init(&ram, bytes, &why);   a cgroup (v2) of its own where the user may make one; else it is watched, and
 *                                               `why` says why
 *   hri_ram_enter(&ram);                        what is started from here on is inside
 *   pid = ...
 *   hri_ram_leave(&ram);
 *   hri_ram_look(&ram, pid);                    several times a second, when it is only watched
 *   hri_ram_deinit(&ram, folder, job);          what happened is left in the folder for `headroom why`
 *
 * In a cgroup the kernel keeps the limit: nothing is ever above it, and when nothing can be given back it kills a process.
 * Watching does the same from outside: processes of the tree below `pid`, this process not counted, are added up (shared pages once),
 * and the largest is killed when they are above the limit.  What grows faster than it is looked at passes for a moment.
 *
 * HEADROOM_CGROUP_ROOT stands in for /sys/fs/cgroup. */
#ifndef HRI_GOVERN_RAM_H
#define HRI_GOVERN_RAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <headroom/status.h>
#include "base/prose.h"

enum { HRI_RAM_PATH = 1024, HRI_RAM_LOOK_MS = 100 };
#define HRI_RAM_MAGIC 0x316d61526d7248u

/* What is left of it: a file "ram-JOB" in the user's folder. */
typedef struct hri_ram_record {
    uint64_t magic, job, at_ns; /* at_ns: of the last kill, or of the end; CLOCK_REALTIME */
    uint64_t limit_bytes, peak_bytes, kills_count;
    uint64_t enforced; /* by the kernel */
    int64_t pid;       /* of the last one killed while it was watched; 0: not known */
    char name[64];
} hri_ram_record;

typedef struct hri_ram {
    hri_ram_record record;
    char path[HRI_RAM_PATH]; /* the cgroup; "": it is watched */
    char home[HRI_RAM_PATH]; /* where we came from */
} hri_ram;

/* bytes 0: no limit, and nothing below does anything. */
HR_MUST_CHECK hr_status hri_ram_init(hri_ram *ram, uint64_t bytes, hri_prose *why);
bool hri_ram_enforced(const hri_ram *ram);
void hri_ram_enter(hri_ram *ram);
void hri_ram_leave(hri_ram *ram);
void hri_ram_look(hri_ram *ram, pid_t pid);
/* folder NULL: nothing is left. */
void hri_ram_deinit(hri_ram *ram, const char *folder, uint64_t job);

/* true when the bytes are a record whose text ends. */
bool hri_ram_record_check(const void *bytes, size_t count);
/* The record of a job; false: there is none. */
bool hri_ram_record_load(const char *folder, uint64_t job, hri_ram_record *out);

#endif
