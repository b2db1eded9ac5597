/* A program on a machine without a GPU: its host memory is limited, and there is no broker, no library in it, and nothing reserved.
 * So any program will do, a static one among them. */
#ifndef HRI_GOVERN_ALONE_H
#define HRI_GOVERN_ALONE_H

#include "govern/ram.h"

typedef struct hri_alone {
    uint64_t job; /* for `headroom why`; 0: nothing can be kept in the user's folder */
    hri_ram ram;
    char folder[HRI_RAM_PATH];
} hri_alone;

/* A job of its own in the user's folder, and the limit.  *why has a sentence where it is only watched (hri_ram_init). */
HR_MUST_CHECK hr_status hri_alone_init(hri_alone *a, uint64_t ram_bytes, char *const *argv,
                                       hri_prose *why);
/* Runs it to its end; *out_status is as waitpid gives it.  Deinitialises `a` as well, whose record stays to be read. */
HR_MUST_CHECK hr_status hri_alone_run(hri_alone *a, char *const *argv, int *out_status,
                                      hri_prose *why);

#endif
