/* --replicas N on one machine: starts the ranks as processes of their own and sees them to their ends.
 *
 * Each is this program again (argv from /proc/self/exe), with HEADROOM_RANK, HEADROOM_SIZE and HEADROOM_RUN set; the caller
 * is not a rank.  Standard input goes to rank 0 alone.  When the launcher dies, its ranks do (parent-death signal);
 * when one rank fails, the others have the net's deadline to end by themselves before they are killed. */
#ifndef HRI_NET_LAUNCH_H
#define HRI_NET_LAUNCH_H

#include <stdbool.h>
#include <stdint.h>
#include <headroom/status.h>
#include "base/prose.h"

typedef struct hri_launch_end {
    int32_t rank; /* the first that did not exit with 0; -1: none */
    int32_t code; /* its exit code, or -signal */
    int32_t pid;
    bool told; /* rank 0, or rank 1 in its place, ended by itself and has said why */
} hri_launch_end;

/* Runs argv (argv[0] is replaced by this program) `count` times and returns when all have ended. */
HR_MUST_CHECK hr_status hri_launch(uint32_t count, char *const *argv, uint64_t grace_ns,
                                   hri_launch_end *out, hri_prose *why);
/* The same with the command line of this process. */
HR_MUST_CHECK hr_status hri_launch_self(uint32_t count, uint64_t grace_ns, hri_launch_end *out,
                                        hri_prose *why);
/* First thing in a rank: from here on it ends with its launcher (HEADROOM_LAUNCHER; true where nobody of us launched it).
 * false: that is gone already. */
bool hri_launch_follow(void);

#endif
