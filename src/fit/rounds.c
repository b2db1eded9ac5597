/* Rounds of replicas: a part of the batch on each; see planned_int.h and step/shard.h.
 *
 * Exchanging and folding are ops of the plan.  So every replica of this process has a thread for as long as a round
 * takes: they wait for one another inside it; on GPUs one thread begins the work of all (run/group.h), and between processes
 * each has the others behind its wire (run/gpu_wire.h).  A replica that has no part in the last round runs it on zeros and gives
 * nothing.
 *
 * On GPUs the inputs of a round travel while the round before it runs. */
#include "fit/planned_int.h"

enum { STACK_BAND = 16 << 10 };

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
static hr_status feed_round(const shard_round *r, uint64_t step, hri_prose *why) {
    hri_planned *p = r->p;
    hr_status status = HR_OK;
    for (uint32_t i = 0; i < p->ranks && status == HR_OK; i++) {
        const hri_planned_piece *x = piece_of(r, i);
        const int here = i >= p->rank && i < p->rank + p->member_count;
        if (i < r->count) {
            status = here ? hri_planned_feed(p, x, step, first_sample(r, i),
                                             &p->members[i - p->rank].counted, why)
                          : hri_planned_skip(p, x->samples, step, first_sample(r, i), why);
        } else if (here && (status = feed_zeros(x)) != HR_OK) {
            return hri_prose_set(why, status, "inputs of step %llu: %s", (unsigned long long)step,
                                 hr_status_text(status));
        }
    }
    return status;
}

static uint32_t parts_left(const shard_round *r) {
    const uint32_t left = r->parts - r->first;
    return left < r->p->ranks ? left : r->p->ranks;
}

/* Inputs of the round behind r, while r runs, where the device can do both at once.  The first round of the next step only in
 * one process: others may be about to stop, or to save. */
static void feed_ahead(const shard_round *r) {
    hri_planned *p = r->p;
    shard_round next = *r;
    next.first += r->count;
    const int begins = next.first >= r->parts;
    if (!hri_exec_overlaps(p->members[0].last.exec) ||
        (begins &&
         (p->o.net || !p->owns_runner || !p->may_ahead || !p->may_ahead(p->ahead_user)))) {
        return;
    }
    next.first = begins ? 0 : next.first;
    next.count = parts_left(&next);
    *(begins ? &p->fed : &p->fed_within) = 1;
    p->fed_status = feed_round(&next, p->state.step + (uint64_t)begins, &p->fed_why);
}

static hr_status feed_now(const shard_round *r, hri_prose *why) {
    hri_planned *p = r->p;
    const int fed = p->fed || p->fed_within;
    hr_status status = fed ? p->fed_status : feed_round(r, p->state.step, why);
    if (fed && status != HR_OK) {
        status = hri_prose_set(why, status, "%s", p->fed_why.text);
    }
    p->fed = p->fed_within = 0;
    for (uint32_t i = 0; i < p->member_count && status == HR_OK; i++) {
        p->parts[p->rank + i].counted = p->members[i].counted;
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
        p->parts[i].busy_ns = p->together && i ? 0 : p->parts[i].busy_ns; /* all at once */
    }
    return status == HR_OK
               ? hri_planned_share_parts(p, why)
               : hri_prose_set(why, status, "step %llu failed: %s",
                               (unsigned long long)p->state.step, hr_status_text(status));
}

static hr_status run_round(shard_round *r, hri_share *so_far, double sum[3], hri_prose *why) {
    hri_planned *p = r->p;
    hr_status status = feed_now(r, why);
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
        feed_ahead(r);
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
        r.count = parts_left(&r);
        status = run_round(&r, &so_far, sum, why);
        *end = piece_of(&r, p->rank);
        r.first += r.count;
        if (status == HR_OK && r.first < parts && p->tick) {
            status = p->tick(p->tick_user);
        }
    }
    p->fed_within = 0; /* of a step that failed */
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
