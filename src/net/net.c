/* The group as its users see it: arguments, tickets, statistics, groups of one.  The wires are in net/wires. */
#include "net/net.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "net/wire.h"

struct hri_net {
    hri_net_wire_end end; /* ops NULL: a group of one */
    uint32_t rank, size;
    uint64_t tickets;      /* given so far: the last ticket */
    hri_net_range *ranges; /* 2 * size, for gather and warm */
    unsigned char *bytes;  /* 2 * size, for warm */
    hri_net_stats stats;
    bool stopped; /* of a group of one */
    hri_net_end cause;
};

static hr_status create(const hri_net_wire_end *end, uint32_t rank, uint32_t size, hri_net **out) {
    hri_net *net = hri_calloc(1, sizeof *net);
    hri_net_range *ranges = hri_calloc((size_t)2 * size, sizeof *ranges);
    unsigned char *bytes = hri_calloc(2, size);
    if (!net || !ranges || !bytes) {
        hri_free(bytes);
        hri_free(ranges);
        hri_free(net);
        return HR_E_NOMEM_HOST;
    }
    *net = (hri_net){.end = end ? *end : (hri_net_wire_end){0},
                     .rank = rank,
                     .size = size,
                     .ranges = ranges,
                     .bytes = bytes};
    *out = net;
    return HR_OK;
}

hr_status hri_net_open_threads(const hri_net_options *o, uint32_t count, hri_net **out,
                               hri_prose *why) {
    if (count == 0 || count > HRI_NET_MOST_RANKS) {
        return hri_prose_set(why, HR_E_INVALID, "%u replicas: 1 to %d are possible", count,
                             HRI_NET_MOST_RANKS);
    }
    hri_net_wire_end *ends = hri_calloc(count, sizeof *ends);
    hri_net **nets = hri_calloc(count, sizeof(hri_net *));
    hr_status status = ends && nets ? HR_OK : HR_E_NOMEM_HOST;
    status = status == HR_OK ? hri_net_threads_open(o, count, ends, why) : status;
    uint32_t made = 0;
    while (status == HR_OK && made < count) {
        status = create(&ends[made], made, count, &nets[made]);
        made += status == HR_OK;
    }
    if (status != HR_OK) {
        const hri_net_end end = {.rank = HRI_NET_ALL, .status = status, .text = "out of memory"};
        for (uint32_t i = 0; ends && i < count; i++) {
            if (ends[i].state) {
                ends[i].ops->stop(ends[i].state, &end); /* so that closing does not wait */
            }
        }
        for (uint32_t i = 0; ends && i < count; i++) {
            if (i < made) {
                hri_net_close(nets[i]);
            } else if (ends[i].state) {
                ends[i].ops->close(ends[i].state);
            }
        }
    } else {
        memcpy(out, nets, count * sizeof(hri_net *));
    }
    hri_free(nets);
    hri_free(ends);
    return status;
}

hr_status hri_net_open(const hri_net_options *o, hri_net **out, hri_prose *why) {
    if (o->who.size > HRI_NET_MOST_RANKS || (o->who.size && o->who.rank >= o->who.size)) {
        return hri_prose_set(why, HR_E_INVALID, "rank %u of %u: at most %d are possible",
                             o->who.rank, o->who.size, HRI_NET_MOST_RANKS);
    }
    if (o->who.size <= 1) {
        return create(NULL, 0, 1, out);
    }
    const char *wire = hri_net_wire_of(o);
    const bool nccl = strcmp(wire, "nccl") == 0;
    if (!nccl && strcmp(wire, "shm") != 0 && strcmp(wire, "tcp") != 0 && strcmp(wire, "mpi") != 0) {
        return hri_prose_set(why, HR_E_UNSUPPORTED,
                             "%s is no wire between processes: shm, tcp, mpi or nccl", wire);
    }
    hri_net_wire_end end;
    hr_status status =
        nccl ? hri_net_nccl_open(o, &end, why) : hri_net_mesh_open(o, wire, &end, why);
    if (status == HR_OK) {
        status = create(&end, o->who.rank, o->who.size, out);
        if (status != HR_OK) {
            const hri_net_end none = {
                .rank = (int32_t)o->who.rank, .status = status, .text = "out of memory"};
            end.ops->stop(end.state, &none);
            end.ops->close(end.state);
        }
    }
    return status;
}

void hri_net_close(hri_net *net) {
    if (!net) {
        return;
    }
    if (net->end.ops) {
        net->end.ops->close(net->end.state);
    }
    hri_free(net->bytes);
    hri_free(net->ranges);
    hri_free(net);
}

uint32_t hri_net_rank(const hri_net *net) {
    return net->rank;
}

uint32_t hri_net_size(const hri_net *net) {
    return net->size;
}

const char *hri_net_wire(const hri_net *net) {
    return net->end.ops ? net->end.ops->name : "none";
}

const char *hri_net_member(const hri_net *net, uint32_t rank) {
    return net->end.ops && rank < net->size ? net->end.ops->member(net->end.state, rank) : "rank 0";
}

bool hri_net_device_memory(const hri_net *net) {
    return net->end.ops && net->end.ops->device_memory;
}

/* ---- exchanges ---- */

static hr_status ended(hri_net *net) {
    hri_net_end end;
    return hri_net_cause(net, &end) ? HR_E_PEER : HR_OK;
}

hr_status hri_net_exchange(hri_net *net, const hri_net_range *to, const hri_net_range *from,
                           uint64_t *ticket) {
    hr_status status = ended(net);
    const hri_net_range mine = to[net->rank], own = from[net->rank];
    if (status == HR_OK && mine.bytes != own.bytes && own.bytes != 0 && mine.bytes != 0) {
        return HR_E_INVALID;
    }
    if (status != HR_OK) {
        return status;
    }
    if (net->end.ops) {
        status = net->end.ops->exchange(net->end.state, to, from, net->tickets + 1);
    } else if (own.bytes && mine.bytes && mine.at != own.at) {
        memcpy(own.at, mine.at, own.bytes);
    }
    if (status != HR_OK) {
        return status;
    }
    for (uint32_t i = 0; i < net->size; i++) {
        net->stats.sent_bytes += i == net->rank ? 0 : to[i].bytes;
        net->stats.received_bytes += i == net->rank ? 0 : from[i].bytes;
    }
    net->stats.exchanges++;
    *ticket = ++net->tickets;
    return HR_OK;
}

hr_status hri_net_gather(hri_net *net, hri_net_range own, const hri_net_range *from,
                         uint64_t *ticket) {
    for (uint32_t i = 0; i < net->size; i++) {
        net->ranges[i] = own;
    }
    return hri_net_exchange(net, net->ranges, from, ticket);
}

static hr_status wait_wire(hri_net *net, uint64_t ticket, uint64_t timeout_ns) {
    if (ticket == 0 || ticket > net->tickets) {
        return HR_E_INVALID;
    }
    return net->end.ops ? net->end.ops->wait(net->end.state, ticket, timeout_ns) : ended(net);
}

hr_status hri_net_test(hri_net *net, uint64_t ticket, bool *done) {
    const hr_status status = wait_wire(net, ticket, 0);
    if (status == HR_OK || status == HR_E_AGAIN) {
        *done = status == HR_OK;
        return HR_OK;
    }
    return status;
}

hr_status hri_net_wait(hri_net *net, uint64_t ticket, uint64_t timeout_ns) {
    const uint64_t begun = hri_clock_ns();
    const hr_status status = wait_wire(net, ticket, timeout_ns ? timeout_ns : UINT64_MAX);
    net->stats.waited_ns += hri_clock_ns() - begun;
    return status;
}

hr_status hri_net_share(hri_net *net, const void *mine, uint32_t bytes, void *all) {
    if (bytes > HRI_NET_SMALL_BYTES) {
        return HR_E_INVALID;
    }
    const hr_status status = ended(net);
    if (status == HR_OK && !net->end.ops) {
        memcpy(all, mine, bytes);
    }
    return status == HR_OK && net->end.ops ? net->end.ops->share(net->end.state, mine, bytes, all)
                                           : status;
}

/* A wire between devices carries no host memory: in small pieces, by the star. */
static hr_status spread_small(hri_net *net, unsigned char *data, uint64_t bytes) {
    unsigned char *all = hri_malloc((size_t)net->size * HRI_NET_SMALL_BYTES);
    hr_status status = all ? HR_OK : HR_E_NOMEM_HOST;
    for (uint64_t at = 0; at < bytes && status == HR_OK; at += HRI_NET_SMALL_BYTES) {
        const uint32_t piece =
            bytes - at < HRI_NET_SMALL_BYTES ? (uint32_t)(bytes - at) : HRI_NET_SMALL_BYTES;
        status = hri_net_share(net, data + at, piece, all);
        if (status == HR_OK) {
            memcpy(data + at, all, piece);
        }
    }
    hri_free(all);
    return status;
}

hr_status hri_net_spread(hri_net *net, void *data, uint64_t bytes) {
    if (hri_net_device_memory(net)) {
        return spread_small(net, data, bytes);
    }
    hri_net_range *const to = net->ranges, *const from = net->ranges + net->size;
    uint64_t ticket = 0;
    for (uint32_t i = 0; i < net->size; i++) {
        to[i] = (hri_net_range){data, net->rank == 0 && i > 0 ? bytes : 0};
        from[i] = (hri_net_range){data, net->rank > 0 && i == 0 ? bytes : 0};
    }
    const hr_status status = hri_net_exchange(net, to, from, &ticket);
    return status == HR_OK ? hri_net_wait(net, ticket, 0) : status;
}

hr_status hri_net_barrier(hri_net *net) {
    return hri_net_share(net, net->bytes, 1, net->bytes + net->size);
}

hr_status hri_net_warm(hri_net *net) {
    hri_net_range *const to = net->ranges, *const from = net->ranges + net->size;
    for (uint32_t i = 0; i < net->size && !hri_net_device_memory(net); i++) {
        to[i] = (hri_net_range){net->bytes + i, 1};
        from[i] = (hri_net_range){net->bytes + net->size + i, 1};
    }
    uint64_t ticket = 0;
    const hr_status status = hri_net_exchange(net, to, from, &ticket);
    return status == HR_OK ? hri_net_wait(net, ticket, 0) : status;
}

/* ---- ends ---- */

void hri_net_stop(hri_net *net, hr_status status, const char *format, ...) {
    hri_prose text = {0};
    hri_net_end end = {.rank = (int32_t)net->rank, .status = status};
    va_list args;
    va_start(args, format);
    hri_prose_set_args(&text, format, args);
    va_end(args);
    snprintf(end.text, sizeof end.text, "%s: %s", hri_net_member(net, net->rank), text.text);
    if (net->end.ops) {
        net->end.ops->stop(net->end.state, &end);
    } else if (!net->stopped) {
        net->stopped = true;
        net->cause = end;
    }
}

bool hri_net_cause(hri_net *net, hri_net_end *out) {
    if (net->end.ops) {
        return net->end.ops->cause(net->end.state, out);
    }
    if (net->stopped) {
        *out = net->cause;
    }
    return net->stopped;
}

uint32_t hri_net_slowest(hri_net *net) {
    return net->end.ops ? net->end.ops->slowest(net->end.state) : 0;
}

void hri_net_get_stats(hri_net *net, hri_net_stats *out) {
    for (uint32_t i = 0; i < net->size && net->end.ops; i++) {
        const uint64_t waited = net->end.ops->waited_ns(net->end.state, i);
        if (waited > net->stats.slowest_ns) {
            net->stats.slowest_ns = waited;
            net->stats.slowest = i;
        }
    }
    *out = net->stats;
}
