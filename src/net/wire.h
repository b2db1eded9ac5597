/* What a wire does for net.c, which checks arguments, keeps the book of tickets and answers for groups of one. */
#ifndef HRI_NET_WIRE_H
#define HRI_NET_WIRE_H

#include "net/net.h"

typedef void hri_net_wire_state; /* each wire knows what it is */

typedef struct hri_net_wire_ops {
    const char *name;
    bool device_memory;
    /* to and from have size() elements each; the wire copies what it needs of them. */
    hr_status (*exchange)(hri_net_wire_state *s, const hri_net_range *to, const hri_net_range *from,
                          uint64_t ticket);
    /* HR_E_AGAIN: not yet.  timeout_ns 0: does not wait at all. */
    hr_status (*wait)(hri_net_wire_state *s, uint64_t ticket, uint64_t timeout_ns);
    hr_status (*share)(hri_net_wire_state *s, const void *mine, uint32_t bytes, void *all);
    void (*stop)(hri_net_wire_state *s, const hri_net_end *end); /* any thread */
    bool (*cause)(hri_net_wire_state *s, hri_net_end *out);      /* any thread */
    uint32_t (*slowest)(hri_net_wire_state *s);
    const char *(*member)(hri_net_wire_state *s, uint32_t rank);
    /* For how long `rank` was waited for, so far; see hri_net_stats. */
    uint64_t (*waited_ns)(hri_net_wire_state *s, uint32_t rank);
    void (*close)(hri_net_wire_state *s);
} hri_net_wire_ops;

/* An open end, as net.c gets it. */
typedef struct hri_net_wire_end {
    const hri_net_wire_ops *ops;
    hri_net_wire_state *state;
} hri_net_wire_end;

HR_MUST_CHECK hr_status hri_net_threads_open(const hri_net_options *o, uint32_t count,
                                             hri_net_wire_end *out, hri_prose *why);
/* "tcp", "shm" or "mpi": ranks that are processes. */
HR_MUST_CHECK hr_status hri_net_mesh_open(const hri_net_options *o, const char *wire,
                                          hri_net_wire_end *out, hri_prose *why);
/* Ranks that have a GPU each, or one rank alone. */
HR_MUST_CHECK hr_status hri_net_nccl_open(const hri_net_options *o, hri_net_wire_end *out,
                                          hri_prose *why);

#endif
