/* Our own declarations of NCCL, found at run time (libnccl.so.2); no header of it is needed.
 *
 * From 2.14 on: calls that may be polled, and a config whose fields grow at its end, of which the library takes as many as
 * it knows.  Only bytes are moved (type 1, ncclUint8); no reduction of it is ever called. */
#ifndef HRI_NET_NCCL_MIN_H
#define HRI_NET_NCCL_MIN_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <headroom/status.h>
#include "base/prose.h"
#include "base/text.h"
#include "net/who.h"

enum {
    HRI_NCCL_OK = 0,
    HRI_NCCL_SYSTEM = 2,
    HRI_NCCL_REMOTE = 6,
    HRI_NCCL_IN_PROGRESS = 7,
    HRI_NCCL_BYTE = 1,
    HRI_NCCL_LEAST = 21400,
    HRI_NCCL_SEVERAL = 23000 /* ranks on one GPU, where the user asks for it */
};

typedef struct ncclComm hri_nccl_comm;
typedef struct hri_nccl_id {
    char bytes[128];
} hri_nccl_id;

/* As of 2.17; unset numbers are INT_MIN. */
typedef struct hri_nccl_config {
    size_t size;
    unsigned magic, version;
    int blocking, cga_cluster_size, min_ctas, max_ctas;
    const char *net_name;
} hri_nccl_config;
#define HRI_NCCL_CONFIG                                                                            \
    { sizeof(hri_nccl_config), 0xcafebeefu, 21700, 0, INT_MIN, INT_MIN, INT_MIN, NULL }

typedef struct hri_nccl {
    void *library;
    const char *path; /* of the library: lives as long as it does; "": unknown */
    int version;      /* 22809 is 2.28.9 */
    int (*get_version)(int *version);
    int (*get_id)(hri_nccl_id *id);
    int (*init)(hri_nccl_comm **comm, int size, hri_nccl_id id, int rank, hri_nccl_config *config);
    int (*async_error)(hri_nccl_comm *comm, int *error);
    int (*abort)(hri_nccl_comm *comm);
    int (*finalize)(hri_nccl_comm *comm);
    int (*destroy)(hri_nccl_comm *comm);
    int (*group_start)(void);
    int (*group_end)(void);
    int (*send)(const void *from, size_t count, int type, int peer, hri_nccl_comm *comm,
                void *stream);
    int (*recv)(void *to, size_t count, int type, int peer, hri_nccl_comm *comm, void *stream);
    const char *(*error_text)(int error);
    const char *(*last_error)(hri_nccl_comm *comm); /* NULL: before 2.13 */
} hri_nccl;

/* Where wheels have put it: paths of files that are there, a line each.  Folders of HEADROOM_CUDA_PATH and PYTHONPATH, then the
 * Pythons of the environment, of the user and of the system under `root`. */
void hri_nccl_places(hri_who_env *env, void *user, const char *root, hri_text *out);
/* The copy that this process has already, PyTorch's for example; else a folder of HEADROOM_CUDA_PATH; else the system's; else one
 * of a wheel.  HR_E_UNSUPPORTED: it is not there, or older than 2.14; *why says which. */
HR_MUST_CHECK hr_status hri_nccl_load(hri_nccl *out, hri_prose *why);
void hri_nccl_unload(hri_nccl *nccl);
/* Channels to each other rank: what the user gave NCCL in its variable, or 4.  Every one takes memory, so that opening bounds them. */
#define HRI_NCCL_CHANNELS "NCCL_MAX_P2P_NCHANNELS"
uint32_t hri_nccl_channels(void);
/* "2.28.9" */
void hri_nccl_version_text(int version, char *buf, size_t size);

#endif
