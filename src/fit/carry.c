/* What a part gave, to those that fold it in; see planned_int.h.
 *
 * Inside a process values go from arena to arena: copied by the host, or by GPUs, which may read one another's memory or
 * not (run/execute.h knows).  Between processes a band of bytes after the other goes through net/net.h, or values from
 * device to device where the wire can, in an order that the graph alone gives. */
#include "fit/planned_int.h"

#include "base/alloc.h"

/* The inputs of `to` that `from` has kept, in the order of the graph. */
static hr_status list(const hri_planned_piece *from, const hri_planned_piece *to,
                      hri_exec_pair **out, uint32_t *out_count) {
    if (!from->exec || !to->exec) {
        return HR_OK;
    }
    const hr_graph *g = hri_exec_graph(to->exec);
    uint32_t count = 0;
    hri_exec_pair *pairs = hri_calloc(g->value_count, sizeof *pairs);
    if (!pairs) {
        return HR_E_NOMEM_HOST;
    }
    for (hr_value v = 1; v < g->value_count; v++) {
        if (g->values[v].carried && hri_exec_holds(to->exec, v)) {
            pairs[count++] =
                (hri_exec_pair){v, hr_graph_find(hri_exec_graph(from->exec), g->values[v].name)};
        }
    }
    *out = pairs;
    *out_count = count;
    return HR_OK;
}

hr_status hri_planned_list_carried(hri_planned *p) {
    const hri_planned_member *m = &p->members[0];
    const hr_status status = list(&m->part, &m->fold, &p->pairs[0], &p->pair_count[0]);
    return status == HR_OK ? list(&m->last, &m->fold_last, &p->pairs[1], &p->pair_count[1])
                           : status;
}

/* The first `bytes` of p->band, from rank `from` to all. */
static hr_status send_band(hri_planned *p, uint32_t from, uint64_t bytes) {
    uint64_t ticket = 0;
    const hri_net_range range = {p->band, bytes}, none = {NULL, 0};
    for (uint32_t i = 0; i < p->ranks; i++) {
        p->ranges[i] = i == from ? range : none;
    }
    const hr_status status =
        hri_net_gather(p->o.net, from == p->rank ? range : none, p->ranges, &ticket);
    return status == HR_OK ? hri_net_wait(p->o.net, ticket, 0) : status;
}

/* One value, by way of the band. */
static hr_status send_value(hri_planned *p, uint32_t rank, hri_exec *from, hri_exec *to,
                            const hri_exec_pair *pair) {
    const uint64_t bytes = hr_meta_bytes(&hri_exec_graph(to)->values[pair->to].meta);
    hr_status status = HR_OK;
    for (uint64_t at = 0; at < bytes && status == HR_OK; at += HRI_PLANNED_BAND) {
        const uint64_t left = bytes - at, here = left < HRI_PLANNED_BAND ? left : HRI_PLANNED_BAND;
        if (hri_planned_is_here(p, rank)) {
            status = hri_exec_get(from, pair->from, at, p->band, here);
        }
        status = status == HR_OK ? send_band(p, rank, here) : status;
        status = status == HR_OK ? hri_exec_put(to, pair->to, at, p->band, here) : status;
    }
    return status;
}

/* One value from device to device: in the queue that computes, so nothing is waited for. */
static hr_status send_direct(hri_planned *p, uint32_t rank, hri_exec *from, hri_exec *to,
                             const hri_exec_pair *pair, uint64_t *ticket) {
    const uint64_t bytes = hr_meta_bytes(&hri_exec_graph(to)->values[pair->to].meta);
    const hri_net_range none = {NULL, 0};
    const hri_net_range own = {(void *)(uintptr_t)hri_exec_address(from, pair->from), bytes};
    for (uint32_t i = 0; i < p->ranks; i++) {
        p->ranges[i] = none;
    }
    p->ranges[rank] = (hri_net_range){(void *)(uintptr_t)hri_exec_address(to, pair->to), bytes};
    return hri_net_gather(p->o.net, rank == p->rank ? own : none, p->ranges, ticket);
}

static hr_status carry_direct(hri_planned *p, uint32_t rank, hri_exec *from, hri_exec *to,
                              const hri_exec_pair *pairs, uint32_t count) {
    uint64_t ticket = 0;
    hr_status status = HR_OK;
    for (uint32_t i = 0; i < count && status == HR_OK; i++) {
        status = send_direct(p, rank, from, to, &pairs[i], &ticket);
    }
    return status == HR_OK && ticket ? hri_net_wait(p->o.net, ticket, 0) : status;
}

hr_status hri_planned_carry(hri_planned *p, uint32_t rank, const hri_planned_piece *from,
                            const hri_planned_piece *to) {
    const int last = to->index == p->members[0].fold_last.index;
    const hri_exec_pair *pairs = p->pairs[last];
    hr_status status = HR_OK;
    if (!p->o.net) {
        return hri_exec_carry(to->exec, from->exec, pairs, p->pair_count[last]);
    }
    if (hri_net_device_memory(p->o.net)) {
        return carry_direct(p, rank, from->exec, to->exec, pairs, p->pair_count[last]);
    }
    for (uint32_t i = 0; i < p->pair_count[last] && status == HR_OK; i++) {
        status = send_value(p, rank, from->exec, to->exec, &pairs[i]);
    }
    return status;
}
