/* Values that replicas hold in slices; see planned_int.h and step/shard.h.
 *
 * From outside, values are whole (the face), as one replica has them: what is put goes into the slices that it covers.
 * Between processes rank 0 alone gets; the others answer, where they would otherwise wait for it to go on: before a step,
 * before an evaluation that gathers, and at the end.  So a checkpoint may be written at any time, and nobody else has to
 * know. */
#include "fit/planned_int.h"

#include <string.h>

#include "base/alloc.h"
#include "graph/slices.h"

enum { STACK_BAND = 16 << 10 };

typedef enum request_kind { GO = 1, GET, BYE } request_kind;

typedef struct request {
    uint64_t kind, value, at, bytes;
} request;

/* ---- opening ---- */

static hr_status open_nets(hri_planned *p, uint32_t count, hri_prose *why) {
    hri_net **nets = hri_calloc(count, sizeof *nets);
    const hri_net_options o = {.wire = "threads"};
    if (!nets) {
        return hri_prose_set(why, HR_E_NOMEM_HOST, "out of memory for the replicas");
    }
    const hr_status status = hri_net_open_threads(&o, count, nets, why);
    for (uint32_t i = 0; i < count && status == HR_OK; i++) {
        p->members[i].net = nets[i];
    }
    hri_free(nets);
    return status;
}

hr_status hri_shards_open(hri_planned *p, const hri_fit_plans *plans, hri_prose *why) {
    p->shard = p->o.job->shard;
    p->face = plans->c->face;
    for (uint32_t i = 0; i < plans->c->count; i++) {
        p->net_hash = p->net_hash * 31 +
                      hri_plan_net_of(&plans->c->pieces[i].x.problem, plans->plans[i]).hash;
    }
    p->row_weights = hri_calloc(2 * (size_t)p->ranks, sizeof *p->row_weights);
    if (!p->row_weights) {
        return hri_prose_set(why, HR_E_NOMEM_HOST, "out of memory for the replicas");
    }
    if (p->o.net) {
        p->members[0].net = p->o.net;
        return HR_OK;
    }
    if (p->o.job->engine) { /* one thread begins the work of all */
        p->together = hri_calloc(p->ranks, sizeof(hri_exec *));
        return p->together ? open_nets(p, p->ranks, why)
                           : hri_prose_set(why, HR_E_NOMEM_HOST, "out of memory for the replicas");
    }
    if (hri_threads_count(p->o.threads) < plans->arenas) {
        return hri_prose_set(why, HR_E_INVALID, "%u replicas need a thread each, and there are %u",
                             plans->arenas, hri_threads_count(p->o.threads));
    }
    return open_nets(p, plans->arenas, why);
}

static hr_status share(hri_planned *p, request_kind kind, hr_value value, uint64_t at,
                       uint64_t bytes, request *of_first) {
    const request mine = {(uint64_t)kind, value, at, bytes};
    request *all = (request *)(void *)p->band;
    const hr_status status = hri_net_share(p->o.net, &mine, sizeof mine, all);
    *of_first = status == HR_OK ? all[0] : mine;
    return status;
}

/* ---- where values lie ---- */

typedef struct place {
    hr_value value;
    uint64_t slice_bytes; /* 0: every member has the whole */
} place;

static hr_status find(const hri_planned *p, hr_value value, place *out) {
    if (value == HR_NONE || value >= p->face->value_count || !p->face->values[value].name) {
        return HR_E_NOT_FOUND;
    }
    const hr_graph *g = hri_exec_graph(p->members[0].last.exec);
    out->value = hr_graph_find(g, p->face->values[value].name);
    if (out->value == HR_NONE || !hri_exec_holds(p->members[0].last.exec, out->value)) {
        return HR_E_NOT_FOUND;
    }
    const uint64_t bytes = hr_meta_bytes(&g->values[out->value].meta);
    out->slice_bytes = bytes < hr_meta_bytes(&p->face->values[value].meta) ? bytes : 0;
    return HR_OK;
}

/* Of bytes [at, at + bytes) of the whole, those in the slice of `rank`: where in it, and how many. */
static uint64_t cut(const place *l, uint32_t rank, uint64_t at, uint64_t bytes, uint64_t *inside,
                    uint64_t *skip) {
    const uint64_t first = l->slice_bytes * rank, end = first + l->slice_bytes;
    const uint64_t from = at > first ? at : first, to = at + bytes < end ? at + bytes : end;
    *inside = from - first;
    *skip = from - at;
    return to > from ? to - from : 0;
}

hr_status hri_shards_put(hri_planned *p, hr_value value, uint64_t at, const void *from,
                         uint64_t bytes) {
    place l;
    hr_status status = find(p, value, &l);
    for (uint32_t i = 0; i < p->member_count && status == HR_OK; i++) {
        hri_exec *exec = p->members[i].last.exec;
        uint64_t inside = at, skip = 0, here = bytes;
        if (l.slice_bytes) {
            here = cut(&l, p->rank + i, at, bytes, &inside, &skip);
        }
        if (here) {
            status = hri_exec_put(exec, l.value, inside, (const char *)from + skip, here);
        }
    }
    return status;
}

/* Between processes: at most a band of it, from all ranks to rank 0; the others give theirs. */
static hr_status collect(hri_planned *p, const place *l, uint64_t at, uint64_t bytes, char *to) {
    const hri_net_range none = {NULL, 0};
    hri_net_range *give = hri_calloc(2 * (size_t)p->ranks, sizeof *give), *take = give + p->ranks;
    uint64_t inside, skip, ticket = 0;
    if (!give) {
        return HR_E_NOMEM_HOST;
    }
    for (uint32_t i = 0; i < p->ranks; i++) {
        const uint64_t here = p->rank == 0 ? cut(l, i, at, bytes, &inside, &skip) : 0;
        give[i] = none;
        take[i] = here ? (hri_net_range){to + skip, here} : none;
    }
    const uint64_t mine = cut(l, p->rank, at, bytes, &inside, &skip);
    hr_status status = HR_OK;
    if (mine) { /* rank 0 keeps its own where it belongs */
        char *band = p->rank == 0 ? to + skip : p->band;
        status = hri_exec_get(p->members[0].last.exec, l->value, inside, band, mine);
        give[0] = (hri_net_range){band, mine};
    }
    if (status == HR_OK) {
        status = hri_net_exchange(p->o.net, give, take, &ticket);
    }
    if (status == HR_OK) {
        status = hri_net_wait(p->o.net, ticket, 0);
    }
    hri_free(give);
    return status;
}

/* The same where the wire goes from device to device: owners give where it lies, rank 0 takes it into its band. */
static hr_status collect_direct(hri_planned *p, const place *l, uint64_t at, uint64_t bytes,
                                char *to) {
    hri_exec *exec = p->members[0].last.exec;
    const hri_net_range none = {NULL, 0};
    const hr_addr band = hri_exec_band(exec);
    hri_net_range *give = hri_calloc(2 * (size_t)p->ranks, sizeof *give), *take = give + p->ranks;
    uint64_t inside, skip, ticket = 0;
    if (!give || !band) {
        hri_free(give);
        return give ? HR_E_INTERNAL : HR_E_NOMEM_HOST;
    }
    for (uint32_t i = 0; i < p->ranks; i++) {
        const uint64_t here = p->rank == 0 && i ? cut(l, i, at, bytes, &inside, &skip) : 0;
        give[i] = none;
        take[i] = here ? (hri_net_range){(void *)(uintptr_t)(band + skip), here} : none;
    }
    const uint64_t mine = cut(l, p->rank, at, bytes, &inside, &skip);
    if (mine && p->rank) {
        give[0] =
            (hri_net_range){(void *)(uintptr_t)(hri_exec_address(exec, l->value) + inside), mine};
    }
    hr_status status = hri_exec_wait(exec); /* the wire has a queue of its own */
    status = status == HR_OK ? hri_net_exchange(p->o.net, give, take, &ticket) : status;
    status = status == HR_OK ? hri_net_wait(p->o.net, ticket, 0) : status;
    if (status == HR_OK && p->rank == 0) {
        status = hri_exec_get_band(exec, to, bytes);
    }
    if (status == HR_OK && p->rank == 0 && mine) {
        status = hri_exec_get(exec, l->value, inside, to + skip, mine);
    }
    hri_free(give);
    return status;
}

static hr_status collect_over(hri_planned *p, const place *l, uint64_t at, uint64_t bytes,
                              char *to) {
    return hri_net_device_memory(p->o.net) ? collect_direct(p, l, at, bytes, to)
                                           : collect(p, l, at, bytes, to);
}

static hr_status get_from_ranks(hri_planned *p, hr_value value, const place *l, uint64_t at,
                                char *to, uint64_t bytes) {
    hr_status status = p->rank == 0 && p->meets ? HR_OK : HR_E_UNSUPPORTED;
    for (uint64_t done = 0; done < bytes && status == HR_OK; done += HRI_PLANNED_BAND) {
        const uint64_t here = bytes - done < HRI_PLANNED_BAND ? bytes - done : HRI_PLANNED_BAND;
        request ignored;
        status = share(p, GET, value, at + done, here, &ignored);
        if (status == HR_OK) {
            status = collect_over(p, l, at + done, here, to + done);
        }
    }
    return status;
}

hr_status hri_shards_get(hri_planned *p, hr_value value, uint64_t at, void *to, uint64_t bytes) {
    place l;
    hr_status status = find(p, value, &l);
    if (status != HR_OK || !l.slice_bytes) {
        return status == HR_OK ? hri_exec_get(p->members[0].last.exec, l.value, at, to, bytes)
                               : status;
    }
    if (at > hr_meta_bytes(&p->face->values[value].meta) ||
        bytes > hr_meta_bytes(&p->face->values[value].meta) - at) {
        return HR_E_RANGE;
    }
    if (p->o.net) {
        return get_from_ranks(p, value, &l, at, to, bytes);
    }
    for (uint32_t i = 0; i < p->member_count && status == HR_OK; i++) {
        uint64_t inside, skip;
        const uint64_t here = cut(&l, i, at, bytes, &inside, &skip);
        if (here) {
            status =
                hri_exec_get(p->members[i].last.exec, l.value, inside, (char *)to + skip, here);
        }
    }
    return status;
}

static hr_status answer(hri_planned *p, const request *r) {
    place l;
    const hr_status status =
        r->bytes <= HRI_PLANNED_BAND ? find(p, (hr_value)r->value, &l) : HR_E_RANGE;
    return status == HR_OK ? collect_over(p, &l, r->at, r->bytes, NULL) : status;
}

hr_status hri_shards_meet(hri_planned *p, hri_prose *why) {
    request r = {0};
    hr_status status = HR_OK;
    if (!p->o.net || p->shard == HRI_SHARD_NONE) { /* every rank has all that is asked for */
        return HR_OK;
    }
    do {
        status = share(p, GO, HR_NONE, 0, 0, &r);
        if (status == HR_OK && r.kind == GET) {
            status = answer(p, &r);
        }
    } while (status == HR_OK && r.kind == GET);
    if (status == HR_OK && r.kind != GO) {
        return hri_prose_set(why, HR_E_PEER, "rank 0 has ended its training");
    }
    return status == HR_OK ? HR_OK : hri_planned_net_failed(p, status, why);
}

/* Rank 0 says that nothing more is wanted; until then the others answer.  After a failure nobody waits. */
static void take_leave(hri_planned *p) {
    request r = {0};
    hr_status status = HR_OK;
    do {
        status = share(p, BYE, HR_NONE, 0, 0, &r);
        if (status == HR_OK && r.kind == GET) {
            status = answer(p, &r);
        }
    } while (status == HR_OK && r.kind == GET);
}

void hri_shards_leave(hri_planned *p) {
    for (uint32_t i = 0; i < p->member_count && p->group_count; i++) {
        (void)!hri_exec_wait(p->members[i].last.exec); /* what runs may still use them */
    }
    for (; p->group_count; p->group_count--) {
        hri_group_destroy(p->groups[p->group_count - 1]);
    }
    if (p->meets) {
        take_leave(p);
        p->meets = 0;
    }
}

void hri_shards_close(hri_planned *p) {
    for (uint32_t i = 0; p->members && p->face && !p->o.net && i < p->ranks; i++) {
        if (!p->members[i].net) {
            continue;
        }
        hri_net_stop(p->members[i].net, HR_E_PEER, "the training has ended"); /* nobody waits */
        hri_net_close(p->members[i].net);
    }
    hri_free(p->row_weights);
    hri_free(p->together);
    p->row_weights = NULL;
    p->together = NULL;
}

/* ---- beginning ---- */

static hr_status begin_slice(hri_planned *p, uint32_t member, hr_value v, const place *l) {
    float room[STACK_BAND / sizeof(float)];
    const uint64_t width = hr_type_bytes(p->face->values[v].meta.type);
    const int64_t count = hr_shape_count(&p->face->values[v].meta.shape),
                  slice = (int64_t)(l->slice_bytes / width),
                  first = slice * (int64_t)(p->rank + member),
                  filled = hri_slice_filled(count, slice, (int64_t)(p->rank + member)),
                  most = (int64_t)(sizeof room / width);
    hr_status status = HR_OK;
    for (int64_t at = 0; at < filled && status == HR_OK; at += most) {
        const int64_t here = filled - at < most ? filled - at : most;
        hri_graph_initial_part(p->face, v, p->o.seed ^ p->o.init_mask, first + at, here, room);
        status = hri_exec_put(p->members[member].last.exec, l->value, (uint64_t)at * width, room,
                              (uint64_t)here * width);
    }
    return status;
}

hr_status hri_shards_begin(hri_planned *p) {
    hr_status status = HR_OK;
    for (hr_value v = 1; v < p->face->value_count && status == HR_OK; v++) {
        place l;
        if (p->face->values[v].kind != HR_VALUE_PARAM || find(p, v, &l) != HR_OK ||
            !l.slice_bytes) {
            continue;
        }
        for (uint32_t i = 0; i < p->member_count && status == HR_OK; i++) {
            status = begin_slice(p, i, v, &l);
        }
    }
    return status;
}
