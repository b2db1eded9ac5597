/* The replicas of this process, and what ranks of several processes tell one another; see planned_int.h.
 *
 * Part p is computed whole by replica p mod R, in round p / R; what replicas exchange in a round, and how each folds it, is in its
 * graph (step/round.c), so that all of them have the bits of one replica that computes the parts one after the other.
 * Ranks of several processes have one replica each; every rank passes over the samples of the others. */
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
        if (from->kind == HR_STEP_ROUND_LAST) {
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
    p->band = p->o.net ? hri_malloc(HRI_PLANNED_BAND) : NULL;
    hr_status status = p->members && p->parts && p->shares && (!p->o.net || p->band)
                           ? HR_OK
                           : hri_prose_set(why, HR_E_NOMEM_HOST, "out of memory for the replicas");
    if (status == HR_OK) {
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
    hri_free(p->band);
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
    hr_status status = hri_shards_meet(p, why);
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
    const terms mine = {{(uint64_t)p->o.job->batch, (uint64_t)p->members[0].part.samples,
                         p->o.seed ^ (p->o.init_mask << 32 | p->o.init_mask >> 32), p->state.step,
                         print_of_fold(hri_planned_graph(p)), hri_hash_bytes(o, sizeof *o, 0),
                         print, 1, (uint64_t)p->shard, p->net_hash}};
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

/* ---- what a round gave ---- */

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

hr_status hri_planned_share_parts(hri_planned *p, hri_prose *why) {
    if (!p->o.net) {
        return HR_OK;
    }
    const hri_planned_part mine = p->parts[p->rank];
    const hr_status status = hri_net_share(p->o.net, &mine, sizeof mine, p->parts);
    return status == HR_OK ? HR_OK : hri_planned_net_failed(p, status, why);
}
