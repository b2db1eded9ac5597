/* Replicas in rounds; see planned_int.h.
 *
 * Part p is computed whole by replica p mod R, in round p / R.  When a round is over, what each of its parts gave is
 * carried to every replica as bytes, part after part, and every replica folds it in with the same kernel: so all of them
 * have the same bits, which are those of one replica that computes the parts one after the other.  What is carried are
 * the inputs of the graph that folds (step/replica.c); samples are fed by the caller's thread, in their order.
 *
 * Replicas of one process run as tasks of the caller's pool, which never wait for one another: between computing and
 * folding everybody is done.  On GPUs one thread drives all of them: work is only begun, and each queue keeps its order.
 * Ranks of several processes have one replica each; every rank passes over the samples of
 * the others, and bytes go through net/net.h in an order that the graph alone gives. */
#include "fit/planned_int.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"

/* ---- opening ---- */

static void sort_pieces(hri_planned_member *m, const hri_fit_plans *plans) {
    for (uint32_t i = 0; i < plans->c->count; i++) {
        const hri_fit_piece *from = &plans->c->pieces[i];
        const hri_planned_piece piece = {hri_runner_exec(m->runner, i), from->samples, i,
                                         m->runner};
        if (from->kind == HR_STEP_GRADIENTS) {
            m->last = i == 0 ? piece : m->last;
            m->part = piece; /* the last part is as large as the others, unless one follows */
        } else if (from->kind == HR_STEP_FOLD) {
            m->fold = piece;
        } else if (from->kind == HR_STEP_FOLD_LAST) {
            m->fold_last = piece;
        } else if (from->kind == HR_STEP_ROUND_LAST) {
            m->last = i == 0 ? piece : m->last;
            m->last_round = m->part = piece; /* of one round alone, its parts are these */
        } else if (from->kind == HR_STEP_ROUND) {
            m->part = piece;
        }
    }
}

/* Replicas of this process: as many as there are arenas, or as a group over several devices has. */
static uint32_t members_of(const hri_planned *p, const hri_fit_plans *plans) {
    return p->o.engine_count ? p->ranks : plans->arenas;
}

static hr_status open_runners(hri_planned *p, const hri_runner_options *o,
                              const hri_fit_plans *plans, hri_prose *why) {
    hri_runner_options each = *o;
    char name[32];
    hr_status status = HR_OK;
    each.threads = p->o.net ? o->threads : NULL; /* kernels of a task run inline */
    for (uint32_t i = 1; i < p->o.engine_count && status == HR_OK; i++) {
        status = hri_gpu_follow(hri_engine_gpu(p->o.engines[i]), hri_engine_gpu(p->o.engines[0]));
    }
    for (; p->member_count < members_of(p, plans) && status == HR_OK; p->member_count++) {
        hri_planned_member *m = &p->members[p->member_count];
        if (p->o.engine_count) {
            each.engine = p->o.engines[p->member_count % p->o.engine_count];
            each.device = hri_engine_device(each.engine);
        }
        snprintf(name, sizeof name, "replica %u", p->rank + p->member_count);
        each.name = o->name ? o->name : name;
        each.net = m->net;
        each.apart = p->o.net != NULL;
        status = hri_runner_open(&each, &m->runner, why);
        if (status == HR_OK) {
            sort_pieces(m, plans);
        }
    }
    return status;
}

hr_status hri_planned_open_members(hri_planned *p, const hri_runner_options *o,
                                   const hri_fit_plans *plans, hri_prose *why) {
    p->ranks = p->o.job->replicas;
    p->rank = p->o.net ? hri_net_rank(p->o.net) : 0;
    p->members = hri_calloc(members_of(p, plans), sizeof *p->members);
    p->parts = hri_calloc(p->ranks, sizeof *p->parts);
    p->shares = hri_calloc(p->ranks, sizeof *p->shares);
    p->ranges = p->o.net ? hri_calloc(p->ranks, sizeof *p->ranges) : NULL;
    p->band = p->o.net ? hri_malloc(HRI_PLANNED_BAND) : NULL;
    hr_status status = p->members && p->parts && p->shares && (!p->o.net || (p->ranges && p->band))
                           ? HR_OK
                           : hri_prose_set(why, HR_E_NOMEM_HOST, "out of memory for the replicas");
    if (status == HR_OK && p->o.job->shard != HRI_SHARD_NONE) {
        status = hri_shards_open(p, plans, why);
    }
    if (status == HR_OK) {
        status = open_runners(p, o, plans, why);
    }
    const uint32_t there = p->o.net ? hri_net_size(p->o.net) : members_of(p, plans);
    if (status == HR_OK && there != p->ranks) {
        status = hri_prose_set(why, HR_E_INVALID, "%u replicas were planned, but there are %u",
                               p->ranks, there);
    }
    if (status == HR_OK && hri_planned_list_carried(p) != HR_OK) {
        status = hri_prose_set(why, HR_E_NOMEM_HOST, "out of memory for the replicas");
    }
    if (status != HR_OK) {
        hri_planned_close_members(p);
        return status;
    }
    p->runner = p->members[0].runner;
    return HR_OK;
}

void hri_planned_close_members(hri_planned *p) {
    hri_shards_leave(p);
    for (uint32_t i = 0; i < p->member_count; i++) {
        hri_runner_close(p->members[i].runner);
    }
    hri_shards_close(p);
    hri_free(p->members);
    hri_free(p->parts);
    hri_free(p->shares);
    hri_free(p->ranges);
    hri_free(p->band);
    hri_free(p->pairs[0]);
    hri_free(p->pairs[1]);
    p->members = NULL;
    p->member_count = 0;
}

int64_t hri_planned_part_samples(const hri_planned *p) {
    return p->members ? p->members[0].part.samples : 0;
}

/* ---- between processes ---- */

hr_status hri_planned_net_failed(const hri_planned *p, hr_status status, hri_prose *why) {
    hri_net_end end;
    if (hri_net_cause(p->o.net ? p->o.net : p->members[0].net, &end)) {
        return hri_prose_set(why, status, "%s", end.text);
    }
    return hri_prose_set(why, status, "the exchange with other ranks failed: %s",
                         hr_status_text(status));
}

hr_status hri_planned_all_here(const hri_planned *p, hri_prose *why) {
    hri_net_end end;
    return p->o.net && hri_net_cause(p->o.net, &end) ? hri_planned_net_failed(p, HR_E_PEER, why)
                                                     : HR_OK;
}

hr_status hri_planned_vote(hri_planned *p, int mine, int *any, hri_prose *why) {
    *any = mine != 0;
    if (!p->o.net) {
        return HR_OK;
    }
    const unsigned char own = mine != 0;
    unsigned char *all = (unsigned char *)p->band;
    /* Rank 0 may have saved: the others answer before they vote. */
    hr_status status = p->shard != HRI_SHARD_NONE ? hri_shards_meet(p, why) : HR_OK;
    if (status != HR_OK) {
        return status;
    }
    status = hri_net_share(p->o.net, &own, 1, all);
    for (uint32_t i = 0; i < p->ranks && status == HR_OK; i++) {
        *any |= all[i];
    }
    return status == HR_OK ? HR_OK : hri_planned_net_failed(p, status, why);
}

typedef struct terms {
    uint64_t of[10];
} terms;

static const char *const term_names[] = {"the batch",
                                         "the samples of a micro-batch",
                                         "the seed",
                                         "the step to begin with",
                                         "the model",
                                         "the training options",
                                         "the input or the losses so far",
                                         "the version",
                                         "what is sharded",
                                         "the plan of what is exchanged"};

/* What is carried, in its order. */
static uint64_t print_of_fold(const hr_graph *g) {
    uint64_t print = 0;
    for (hr_value v = 1; v < g->value_count; v++) {
        const hri_value *is = &g->values[v];
        if (is->kind == HR_VALUE_INPUT || is->kind == HR_VALUE_PARAM) {
            print = hri_hash_u64(print ^ hri_hash_bytes(is->name, strlen(is->name), 0)) +
                    hr_meta_bytes(&is->meta);
        }
    }
    return print;
}

hr_status hri_planned_agree(hri_planned *p, uint64_t print, hri_prose *why) {
    if (!p->o.net) {
        return HR_OK;
    }
    const hr_train_options *o = &p->o.job->options;
    const terms mine = {{(uint64_t)p->o.job->batch, (uint64_t)p->members[0].part.samples, p->o.seed,
                         p->state.step, print_of_fold(hri_planned_graph(p)),
                         hri_hash_bytes(o, sizeof *o, 0), print, 1, (uint64_t)p->shard,
                         p->net_hash}};
    terms *all = (terms *)(void *)p->band;
    const hr_status status = hri_net_share(p->o.net, &mine, sizeof mine, all);
    if (status != HR_OK) {
        return hri_planned_net_failed(p, status, why);
    }
    for (uint32_t i = 1; i < p->ranks; i++) {
        for (size_t k = 0; k < sizeof term_names / sizeof term_names[0]; k++) {
            if (all[i].of[k] != all[0].of[k]) {
                return hri_prose_set(why, HR_E_INVALID,
                                     "ranks 0 and %u do not train the same: %s differs (%llu, "
                                     "%llu)",
                                     i, term_names[k], (unsigned long long)all[0].of[k],
                                     (unsigned long long)all[i].of[k]);
            }
        }
    }
    p->meets = p->shard != HRI_SHARD_NONE;
    return HR_OK;
}

/* ---- a round ---- */

typedef struct round {
    hri_planned *p;
    uint32_t first, count; /* parts of it: one a rank, from rank 0 on */
    uint32_t parts;        /* of the step */
    uint32_t from;         /* the rank whose part is folded now */
} round;

static int is_last(const round *r, uint32_t rank) {
    return r->first + rank + 1 == r->parts;
}

static int64_t first_sample(const round *r, uint32_t rank) {
    return (int64_t)(r->first + rank) * r->p->members[0].part.samples;
}

/* The graph that computes the part of a rank: of the replica that is here, or one that is like it. */
static const hri_planned_piece *piece_of(const round *r, uint32_t rank) {
    const hri_planned *p = r->p;
    const hri_planned_member *m = &p->members[hri_planned_is_here(p, rank) ? rank - p->rank : 0];
    return is_last(r, rank) ? &m->last : &m->part;
}

/* A task: the gradients of one part. */
static void compute(void *user, uint32_t at, uint32_t worker) {
    static const hri_share_part whole = {.share = 1.0, .keep = 1.0, .weight = 1.0f, .first = 1.0f};
    const round *r = user;
    hri_planned_member *m = &r->p->members[at];
    const uint32_t rank = r->p->rank + at;
    (void)worker;
    m->status =
        hri_planned_run_piece(r->p, piece_of(r, rank), first_sample(r, rank), &whole, &m->why);
}

/* A task: one replica folds in the part of rank `from`. */
static void fold(void *user, uint32_t at, uint32_t worker) {
    const round *r = user;
    hri_planned_member *m = &r->p->members[at];
    const hri_planned_piece *to = is_last(r, r->from) ? &m->fold_last : &m->fold;
    (void)worker;
    m->status = hri_runner_need(to->runner, to->index);
    if (m->status == HR_OK) {
        m->status = hri_planned_carry(r->p, r->from, piece_of(r, r->from), to);
    }
    if (m->status == HR_E_PEER) {
        m->status = hri_planned_net_failed(r->p, m->status, &m->why);
        return;
    }
    if (m->status != HR_OK) {
        m->status = hri_prose_set(&m->why, m->status, "step %llu: a gradient was not exchanged: %s",
                                  (unsigned long long)r->p->state.step, hr_status_text(m->status));
        return;
    }
    m->status =
        hri_planned_run_piece(r->p, to, first_sample(r, r->from), &r->p->shares[r->from], &m->why);
}

hr_status hri_planned_first_failure(const hri_planned *p, uint32_t first, uint32_t end,
                                    hri_prose *why) {
    const hri_planned_member *found = NULL;
    for (uint32_t i = first; i < end; i++) {
        const hri_planned_member *m = &p->members[i];
        if (m->status != HR_OK && (!found || found->status == HR_E_PEER)) {
            found = m;
        }
    }
    if (!found || found->status == HR_E_PEER) {
        return found ? hri_prose_set(why, found->status, "%s", found->why.text) : HR_OK;
    }
    return hri_prose_set(why, found->status, "replica %u: %s",
                         p->rank + (uint32_t)(found - p->members), found->why.text);
}

/* All tasks, and the first failure of them. */
static hr_status run_all(round *r, uint32_t count, hri_task_fn *task, hri_prose *why) {
    const hri_planned *p = r->p;
    if (p->o.net || hri_planned_is_probed(p) ||
        p->o.job->engine) { /* its kernels have the threads, or a GPU */
        for (uint32_t i = 0; i < count; i++) {
            task(r, i, 0);
        }
    } else {
        hri_threads_run(p->o.threads, count, task, r);
    }
    return hri_planned_first_failure(p, 0, count, why);
}

/* Samples, in their order; and the gradients of the parts that are computed here.  A GPU computes a part while the next one
 * is fed. */
static hr_status compute_round(round *r, hri_prose *why) {
    hri_planned *p = r->p;
    const int at_once = p->o.job->engine != NULL;
    uint32_t here = 0;
    hr_status status = HR_OK;
    for (uint32_t i = 0; i < r->count && status == HR_OK; i++) {
        const hri_planned_piece *x = piece_of(r, i);
        if (!hri_planned_is_here(p, i)) {
            status = hri_planned_skip(p, x->samples, first_sample(r, i), why);
            continue;
        }
        status =
            hri_planned_feed(p, x, p->state.step, first_sample(r, i), &p->parts[i].counted, why);
        if (status == HR_OK && at_once) {
            compute(r, here, 0);
            status = hri_planned_first_failure(p, here, here + 1, why);
        }
        here++;
    }
    if (status == HR_OK && !at_once) {
        status = run_all(r, here, compute, why);
    }
    /* Before anything is folded, which takes the place of results. */
    for (uint32_t i = p->rank; i < p->rank + here && status == HR_OK; i++) {
        status = hri_planned_read_part(p, piece_of(r, i), &p->parts[i]);
        if (status != HR_OK) {
            return hri_prose_set(why, status, "step %llu failed: %s",
                                 (unsigned long long)p->state.step, hr_status_text(status));
        }
    }
    return status;
}

hr_status hri_planned_share_parts(hri_planned *p, hri_prose *why) {
    if (!p->o.net) {
        return HR_OK;
    }
    const hri_planned_part mine = p->parts[p->rank];
    const hr_status status = hri_net_share(p->o.net, &mine, sizeof mine, p->parts);
    return status == HR_OK ? HR_OK : hri_planned_net_failed(p, status, why);
}

static hr_status run_round(round *r, hri_share *so_far, double sum[3], hri_prose *why) {
    hri_planned *p = r->p;
    hr_status status = compute_round(r, why);
    if (status == HR_OK) {
        status = hri_planned_share_parts(p, why);
    }
    for (uint32_t i = 0; i < r->count && status == HR_OK; i++) {
        p->shares[i] = hri_share_add(so_far, (uint64_t)p->o.job->batch,
                                     (uint64_t)piece_of(r, i)->samples, p->parts[i].counted);
        status = hri_planned_check_even(p, &p->shares[i], why);
        hri_planned_add_part(p, &p->parts[i], &p->shares[i], sum, r->first + i == 0);
    }
    for (r->from = 0; r->from < r->count && status == HR_OK; r->from++) {
        status = run_all(r, p->member_count, fold, why);
    }
    return status;
}

hr_status hri_planned_run_rounds(hri_planned *p, double sum[3], uint64_t *labels, hri_prose *why) {
    const int64_t part = p->members[0].part.samples;
    const uint32_t parts = (uint32_t)((p->o.job->batch - 1) / part + 1);
    round r = {.p = p, .parts = parts};
    hri_share so_far = {0};
    hr_status status = HR_OK;
    while (r.first < parts && status == HR_OK) {
        r.count = parts - r.first < p->ranks ? parts - r.first : p->ranks;
        status = run_round(&r, &so_far, sum, why);
        r.first += r.count;
        if (status == HR_OK && r.first < parts && p->tick) {
            status = p->tick(p->tick_user);
        }
    }
    *labels = so_far.counted;
    return status;
}
