/* The checks of doctor: things really tried, each with a result and a sentence.
 *
 * The one idea: "found" proves nothing; a page that was mapped, written, read back and given up does.  A check leaves
 * the machine as it found it.  One that makes no sense here (a copy on a null device) is skipped with the reason. */
#ifndef HRI_JOB_CHECKS_H
#define HRI_JOB_CHECKS_H

#include <stddef.h>
#include <headroom/headroom.h>
#include "job/machine.h"

typedef enum hri_check_result {
    HRI_CHECK_OK,
    HRI_CHECK_FAILED,
    HRI_CHECK_SKIPPED
} hri_check_result;

typedef struct hri_check {
    char subject[64]; /* "cuda:0", "cache directory" */
    char name[48];    /* "maps a page" */
    hri_check_result result;
    char detail[256];
} hri_check;

typedef struct hri_checks {
    hri_check *items; /* owned */
    size_t count, room;
    size_t ok, failed, skipped;
    int no_memory; /* a check could not be recorded: it counts as failed */
} hri_checks;

void hri_checks_deinit(hri_checks *checks);
void hri_checks_add(hri_checks *checks, const char *subject, const char *name,
                    hri_check_result result, const char *format, ...) HR_PRINTF(5, 6);

/* Maps a page, copies and compares, asks for pinned memory; on the host, its total must not exceed what the cgroup
 * grants. */
void hri_checks_device(hri_checks *checks, hr_ctx *ctx, hr_device *device,
                       const hri_machine_facts *machine);
/* Makes, writes, reads and removes a file there. */
void hri_checks_cache_dir(hri_checks *checks, const char *path);

#endif
