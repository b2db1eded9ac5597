/* Rounds of replicas, and values that they hold in slices; see planned_int.h and step/shard.h.
 *
 * Here exchanging and folding are ops of the plan.  So every replica of this process has a thread for as long as a round
 * takes: they wait for one another inside it; on GPUs one thread begins the work of all (run/group.h), and between processes
 * each has the others behind its wire (run/gpu_wire.h).  A replica that has no part in the last round runs it on zeros and gives
 * nothing.
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
        hri_graph_initial_part(p->face, v, p->o.seed, first + at, here, room);
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

/* ---- rounds ---- */

typedef struct shard_round {
    hri_planned *p;
    uint32_t first, count; /* parts of it: one a rank, from rank 0 on */
    uint32_t parts;        /* of the step */
    int evaluates;
    const hri_planned_piece *evaluation;
} shard_round;

static const hri_planned_piece *piece_of(const shard_round *r, uint32_t rank) {
    const hri_planned *p = r->p;
    const int here = rank >= p->rank && rank < p->rank + p->member_count;
    const hri_planned_member *m = &p->members[here ? rank - p->rank : 0];
    return r->first + r->count < r->parts    ? &m->part
           : r->first + rank + 1 == r->parts ? &m->last
                                             : &m->last_round;
}

static int64_t first_sample(const shard_round *r, uint32_t rank) {
    return (int64_t)(r->first + rank) * r->p->members[0].part.samples;
}

/* A replica without a part of its own. */
static hr_status feed_zeros(const hri_planned_piece *x) {
    static const char zeros[4096];
    const hr_graph *g = hri_exec_graph(x->exec);
    hr_status status = hri_runner_need(x->runner, x->index);
    for (hr_value v = 1; v < g->value_count && status == HR_OK; v++) {
        const uint64_t bytes = hr_meta_bytes(&g->values[v].meta);
        if (g->values[v].kind != HR_VALUE_INPUT || !hri_exec_holds(x->exec, v)) {
            continue;
        }
        for (uint64_t at = 0; at < bytes && status == HR_OK; at += sizeof zeros) {
            const uint64_t here = bytes - at < sizeof zeros ? bytes - at : sizeof zeros;
            status = hri_exec_put(x->exec, v, at, zeros, here);
        }
    }
    return status;
}

/* Samples in their order, and how many labels count in each part. */
static hr_status feed_round(const shard_round *r, hri_prose *why) {
    hri_planned *p = r->p;
    hr_status status = HR_OK;
    for (uint32_t i = 0; i < p->ranks && status == HR_OK; i++) {
        const hri_planned_piece *x = piece_of(r, i);
        const int here = i >= p->rank && i < p->rank + p->member_count;
        if (i < r->count) {
            status = here ? hri_planned_feed(p, x, p->state.step, first_sample(r, i),
                                             &p->parts[i].counted, why)
                          : hri_planned_skip(p, x->samples, first_sample(r, i), why);
        } else if (here && (status = feed_zeros(x)) != HR_OK) {
            return hri_prose_set(why, status, "inputs of step %llu: %s",
                                 (unsigned long long)p->state.step, hr_status_text(status));
        }
    }
    return status;
}

static hr_status put_rows(const hri_planned_piece *x, const char *name, const float *rows,
                          uint32_t count) {
    const hr_value v = hr_graph_find(hri_exec_graph(x->exec), name);
    return v != HR_NONE && hri_exec_holds(x->exec, v)
               ? hri_exec_put(x->exec, v, 0, rows, count * sizeof *rows)
               : HR_OK;
}

static const hri_share_part whole_share = {
    .share = 1.0, .keep = 1.0, .weight = 1.0f, .first = 1.0f};

/* The piece that a replica runs, with the weights of the round's parts in its inputs. */
static hr_status ready_piece(const shard_round *r, uint32_t at, hri_planned_piece *x,
                             hri_prose *why) {
    const hri_planned *p = r->p;
    const hri_planned_member *m = &p->members[at];
    if (r->evaluates) {
        *x = *r->evaluation;
        x->exec = hri_runner_exec(m->runner, x->index);
        x->runner = m->runner;
        return HR_OK;
    }
    *x = *piece_of(r, p->rank + at);
    hr_status status = put_rows(x, "train.weights", p->row_weights, r->count);
    if (status == HR_OK) {
        status = put_rows(x, "train.firsts", p->row_weights + p->ranks, r->count);
    }
    return status == HR_OK ? HR_OK : hri_prose_set(why, status, "weights of the micro-batches");
}

/* A task: the round of one replica.  What fails ends it for all of them. */
static void run_one(void *user, uint32_t at, uint32_t worker) {
    const shard_round *r = user;
    hri_planned *p = r->p;
    hri_planned_member *m = &p->members[at];
    const uint32_t rank = p->rank + at;
    hri_planned_piece x;
    (void)worker;
    m->status = ready_piece(r, at, &x, &m->why);
    if (m->status == HR_OK) {
        m->status = hri_planned_run_piece(p, &x, r->evaluates ? 0 : first_sample(r, rank),
                                          &whole_share, &m->why);
    }
    if (m->status == HR_E_PEER) {
        m->status = hri_planned_net_failed(p, m->status, &m->why);
    } else if (m->status != HR_OK) {
        hri_net_stop(m->net, m->status, "rank %u failed: %s", rank, m->why.text);
        hri_exec_drop(m->last.exec);
    }
}

/* p->together as one; the first time it is made. */
static hr_status find_group(hri_planned *p, hri_group **out, hri_prose *why) {
    for (uint32_t i = 0; i < p->group_count; i++) {
        if (hri_group_is(p->groups[i], p->together, p->ranks)) {
            *out = p->groups[i];
            return HR_OK;
        }
    }
    if (p->group_count == HRI_PLANNED_GROUPS) {
        return hri_prose_set(why, HR_E_INTERNAL, "more kinds of rounds than there are");
    }
    const hr_status status =
        hri_group_create(p->together, p->ranks, &p->groups[p->group_count], why);
    *out = p->groups[p->group_count];
    p->group_count += status == HR_OK;
    return status;
}

/* On GPUs: the round of all replicas, begun by one thread. */
static hr_status run_together(shard_round *r, hri_prose *why) {
    hri_planned *p = r->p;
    hri_group *group = NULL;
    uint32_t node = 0;
    hr_status status = HR_OK;
    for (uint32_t i = 0; i < p->member_count && status == HR_OK; i++) {
        hri_planned_piece x;
        status = ready_piece(r, i, &x, why);
        if (status == HR_OK) {
            status = hri_planned_put_piece(p, &x, r->evaluates ? 0 : first_sample(r, i),
                                           &whole_share, why);
            p->together[i] = x.exec;
        }
    }
    status = status == HR_OK ? find_group(p, &group, why) : status;
    if (status != HR_OK) {
        return status;
    }
    status = hri_group_run(group, (uint32_t)p->state.step, &node);
    return status == HR_OK
               ? HR_OK
               : hri_prose_set(why, status, "step %llu, %s: %s", (unsigned long long)p->state.step,
                               hri_exec_graph(p->together[0])->nodes[node].name,
                               hr_status_text(status));
}

static hr_status run_all(shard_round *r, hri_prose *why) {
    const hri_planned *p = r->p;
    if (p->together) {
        return run_together(r, why);
    }
    if (p->o.net) {
        run_one(r, 0, 0);
    } else {
        hri_threads_run(p->o.threads, p->member_count, run_one, r);
    }
    return hri_planned_first_failure(p, 0, p->member_count, why);
}

static hr_status read_parts(const shard_round *r, hri_prose *why) {
    hri_planned *p = r->p;
    hr_status status = HR_OK;
    for (uint32_t i = p->rank; i < p->rank + p->member_count && i < r->count && status == HR_OK;
         i++) {
        status = hri_planned_read_part(p, piece_of(r, i), &p->parts[i]);
    }
    return status == HR_OK
               ? hri_planned_share_parts(p, why)
               : hri_prose_set(why, status, "step %llu failed: %s",
                               (unsigned long long)p->state.step, hr_status_text(status));
}

static hr_status run_round(shard_round *r, hri_share *so_far, double sum[3], hri_prose *why) {
    hri_planned *p = r->p;
    hr_status status = feed_round(r, why);
    if (status == HR_OK) {
        status = hri_planned_share_parts(p, why);
    }
    for (uint32_t i = 0; i < r->count && status == HR_OK; i++) {
        p->shares[i] = hri_share_add(so_far, (uint64_t)p->o.job->batch,
                                     (uint64_t)piece_of(r, i)->samples, p->parts[i].counted);
        p->row_weights[i] = p->shares[i].weight;
        p->row_weights[p->ranks + i] = p->shares[i].first;
        status = hri_planned_check_even(p, &p->shares[i], why);
    }
    if (status == HR_OK) {
        status = run_all(r, why);
    }
    if (status == HR_OK) {
        status = read_parts(r, why);
    }
    for (uint32_t i = 0; i < r->count && status == HR_OK; i++) {
        hri_planned_add_part(p, &p->parts[i], &p->shares[i], sum, r->first + i == 0);
    }
    return status;
}

hr_status hri_shards_run(hri_planned *p, double sum[3], uint64_t *labels,
                         const hri_planned_piece **end, hri_prose *why) {
    const int64_t part_samples = p->members[0].part.samples;
    const uint32_t parts = (uint32_t)((p->o.job->batch - 1) / part_samples + 1);
    shard_round r = {.p = p, .parts = parts};
    hri_share so_far = {0};
    hr_status status = hri_shards_meet(p, why);
    while (r.first < parts && status == HR_OK) {
        r.count = parts - r.first < p->ranks ? parts - r.first : p->ranks;
        status = run_round(&r, &so_far, sum, why);
        *end = piece_of(&r, p->rank);
        r.first += r.count;
        if (status == HR_OK && r.first < parts && p->tick) {
            status = p->tick(p->tick_user);
        }
    }
    *labels = so_far.counted;
    return status;
}

/* ---- evaluation ---- */

static hr_status copy_inputs(const hri_planned_piece *x, hri_exec *to) {
    const hr_graph *g = hri_exec_graph(x->exec);
    char band[STACK_BAND];
    hr_status status = HR_OK;
    for (hr_value v = 1; v < g->value_count && status == HR_OK; v++) {
        const uint64_t bytes = hr_meta_bytes(&g->values[v].meta);
        if (g->values[v].kind != HR_VALUE_INPUT || !hri_exec_holds(x->exec, v)) {
            continue;
        }
        for (uint64_t at = 0; at < bytes && status == HR_OK; at += sizeof band) {
            const uint64_t here = bytes - at < sizeof band ? bytes - at : sizeof band;
            status = hri_exec_get(x->exec, v, at, band, here);
            if (status == HR_OK) {
                status = hri_exec_put(to, v, at, band, here);
            }
        }
    }
    return status;
}

hr_status hri_shards_evaluate(hri_planned *p, const hri_planned_piece *x, hri_prose *why) {
    shard_round r = {.p = p, .evaluates = 1, .evaluation = x};
    for (uint32_t i = 1; i < p->member_count; i++) {
        hr_status status = hri_runner_need(p->members[i].runner, x->index);
        if (status == HR_OK) {
            status = copy_inputs(x, hri_runner_exec(p->members[i].runner, x->index));
        }
        if (status != HR_OK) {
            return hri_prose_set(why, status, "inputs of an evaluation: %s",
                                 hr_status_text(status));
        }
    }
    return run_all(&r, why);
}
