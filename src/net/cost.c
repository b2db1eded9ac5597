/* What a wire takes and how fast it is, before it is opened.  The rates are starting values for plans of machines that are
 * not there; a run measures its own. */
#include <string.h>

#include "net/nccl_min.h"
#include "net/net.h"

/* NCCL 2.28.3 on an H200: 220 MiB by opening and 248 by the first exchange of one rank; 446 in all on each of two. */
enum {
    STACK_BYTES = 256 << 10,
    PEER_BYTES = 4096,
    NCCL_BYTES = 512 << 20,
    NCCL_CHANNEL_BYTES = 12 << 20
};

typedef struct known_wire {
    const char *name;
    double latency_ns, bytes_per_ns;
} known_wire;

static const known_wire known[] = {
    {"threads", 1000, 8.0}, {"shm", 4000, 3.0},   {"tcp", 25000, 1.6},
    {"mpi", 4000, 1.5},     {"nccl", 8000, 50.0}, {"none", 0, 0},
};

const char *hri_net_wire_of(const hri_net_options *o) {
    if (o->who.size <= 1) {
        return "none";
    }
    if (o->wire && strcmp(o->wire, "auto") != 0) {
        return o->wire;
    }
    return o->who.meet[0] == '\0' || o->who.local_size == o->who.size ? "shm" : "tcp";
}

hr_status hri_net_cost(const hri_net_options *o, hri_net_cost_bytes *out, hri_prose *why) {
    const char *name = hri_net_wire_of(o);
    const uint64_t peers = o->who.size > 1 ? o->who.size - 1 : 0;
    const uint64_t ring = o->ring_bytes ? o->ring_bytes : HRI_NET_RING_BYTES;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (strcmp(known[i].name, name) != 0) {
            continue;
        }
        hri_net_cost_bytes cost = {.latency_ns = known[i].latency_ns,
                                   .bytes_per_ns = known[i].bytes_per_ns};
        cost.host_bytes = peers * PEER_BYTES;
        if (strcmp(name, "threads") != 0 && peers) {
            cost.host_bytes += STACK_BYTES + 3 * (peers + 1) * (HRI_NET_SMALL_BYTES + 64);
        }
        if (strcmp(name, "shm") == 0) {
            cost.host_bytes += 2 * peers * ring;
        } else if (strcmp(name, "mpi") == 0) {
            cost.host_bytes +=
                2 * peers * HRI_NET_BAND_BYTES + (16u << 20); /* the library itself */
        } else if (strcmp(name, "nccl") == 0) {
            cost.device_bytes = NCCL_BYTES + peers * hri_nccl_channels() * NCCL_CHANNEL_BYTES;
        }
        *out = cost;
        return HR_OK;
    }
    return hri_prose_set(why, HR_E_INVALID, "%s is no wire: auto, threads, shm, tcp, mpi or nccl",
                         name);
}
