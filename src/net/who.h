/* Who am I, how many are we, where do we meet: read from the variables that launchers set.
 *
 * In this order: ours (HEADROOM_RANK, _SIZE, _MEET, _TOKEN_FILE), torchrun's (RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR,
 * MASTER_PORT), Open MPI's, MPICH's, TF_CONFIG, Slurm's (only inside a step).  The first that is complete wins; the names of all
 * others that were seen are kept, for `doctor`.  Pure: the environment comes in as a function. */
#ifndef HRI_NET_WHO_H
#define HRI_NET_WHO_H

#include <stdbool.h>
#include <stdint.h>
#include <headroom/status.h>
#include "base/prose.h"

typedef struct hri_who {
    uint32_t rank, size;
    uint32_t local_rank, local_size; /* on this machine; local_size 0: unknown */
    char launcher[24]; /* "", "headroom", "torchrun", "Open MPI", "MPICH", "TF_CONFIG", "Slurm" */
    char others[96];   /* seen and not used: "Slurm, TF_CONFIG" */
    /* Where rank 0 listens: "host:port"; "" : this machine alone, under the name `run`. */
    char meet[280];
    char run[64];         /* names this run among others of the same user and machine */
    char token_file[512]; /* "": none */
} hri_who;

/* A variable's value, or NULL. */
typedef const char *hri_who_env(void *user, const char *name);

/* Without any of the variables: rank 0 of 1.  HR_E_INVALID: a variable is there and makes no sense (named). */
HR_MUST_CHECK hr_status hri_who_read(hri_who_env *env, void *user, hri_who *out, hri_prose *why);
/* From this process's environment. */
HR_MUST_CHECK hr_status hri_who_am_i(hri_who *out, hri_prose *why);

#endif
