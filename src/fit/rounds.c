/* Replicas in rounds; see planned_int.h.
 *
 * Part p is computed whole by replica p mod R, in round p / R.  When a round is over, what each of its parts gave is
 * carried to every replica as bytes, part after part, and every replica folds it in with the same kernel: so all of them
 * have the same bits, which are those of one replica that computes the parts one after the other.  What is carried are
 * the inputs of the graph that folds (step/replica.c); samples are fed by the caller's thread, in their order.
 *
 * Replicas of one process run as tasks of the caller's pool, which never wait for one another: between computing and
 * folding everybody is done. */
#include "fit/planned_int.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

enum { BAND = 16 << 10 }; /* copied at once, through the stack */

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
        }
    }
}

hr_status hri_planned_open_members(hri_planned *p, const hri_runner_options *o,
                                   const hri_fit_plans *plans, hri_prose *why) {
    hri_runner_options each = *o;
    char name[32];
    hr_status status = HR_OK;
    p->members = hri_calloc(plans->arenas, sizeof *p->members);
    if (!p->members) {
        return hri_prose_set(why, HR_E_NOMEM_HOST, "out of host memory for the replicas");
    }
    each.threads = NULL; /* kernels of a task run inline */
    for (; p->member_count < plans->arenas && status == HR_OK; p->member_count++) {
        hri_planned_member *m = &p->members[p->member_count];
        snprintf(name, sizeof name, "replica %u", p->member_count);
        each.name = o->name ? o->name : name;
        status = hri_runner_open(&each, &m->runner, why);
        if (status == HR_OK) {
            sort_pieces(m, plans);
        }
    }
    if (status != HR_OK) {
        hri_planned_close_members(p);
        return status;
    }
    p->runner = p->members[0].runner;
    return HR_OK;
}

void hri_planned_close_members(hri_planned *p) {
    for (uint32_t i = 0; i < p->member_count; i++) {
        hri_runner_close(p->members[i].runner);
    }
    hri_free(p->members);
    p->members = NULL;
    p->member_count = 0;
}

/* ---- a round ---- */

typedef struct round {
    hri_planned *p;
    uint32_t first, count; /* parts of it */
    uint32_t parts;        /* of the step */
    uint32_t from;         /* whose part is folded now */
} round;

static int is_last(const round *r, uint32_t member) {
    return r->first + member + 1 == r->parts;
}

static int64_t first_sample(const round *r, uint32_t member) {
    return (int64_t)(r->first + member) * r->p->members[0].part.samples;
}

static const hri_planned_piece *piece_of(const round *r, uint32_t member) {
    const hri_planned_member *m = &r->p->members[member];
    return is_last(r, member) ? &m->last : &m->part;
}

/* A task: the gradients of one part. */
static void compute(void *user, uint32_t at, uint32_t worker) {
    static const hri_share_part whole = {.share = 1.0, .keep = 1.0, .weight = 1.0f, .first = 1.0f};
    const round *r = user;
    hri_planned_member *m = &r->p->members[at];
    (void)worker;
    m->status = hri_planned_run_piece(r->p, piece_of(r, at), first_sample(r, at), &whole, &m->why);
}

/* What the part gave, from the replica that computed it to one that folds it in. */
static hr_status carry(const hri_planned_piece *from, const hri_planned_piece *to) {
    const hr_graph *g = hri_exec_graph(to->exec), *source = hri_exec_graph(from->exec);
    char band[BAND];
    hr_status status = HR_OK;
    for (hr_value v = 1; v < g->value_count && status == HR_OK; v++) {
        const hri_value *is = &g->values[v];
        if (is->kind != HR_VALUE_INPUT || !strncmp(is->name, "train.", 6) ||
            !hri_exec_holds(to->exec, v)) {
            continue;
        }
        const uint64_t bytes = hr_meta_bytes(&is->meta);
        const hr_value kept = hr_graph_find(source, is->name);
        for (uint64_t at = 0; at < bytes && status == HR_OK; at += BAND) {
            const uint64_t here = bytes - at < BAND ? bytes - at : BAND;
            status = hri_exec_get(from->exec, kept, at, band, here);
            if (status == HR_OK) {
                status = hri_exec_put(to->exec, v, at, band, here);
            }
        }
    }
    return status;
}

/* A task: one replica folds in the part of replica `from`. */
static void fold(void *user, uint32_t at, uint32_t worker) {
    const round *r = user;
    hri_planned_member *m = &r->p->members[at];
    const hri_planned_piece *to = is_last(r, r->from) ? &m->fold_last : &m->fold;
    (void)worker;
    m->status = hri_runner_need(to->runner, to->index);
    if (m->status == HR_OK) {
        m->status = carry(piece_of(r, r->from), to);
    }
    if (m->status != HR_OK) {
        m->status = hri_prose_set(&m->why, m->status, "step %llu: a gradient was not exchanged: %s",
                                  (unsigned long long)r->p->state.step, hr_status_text(m->status));
        return;
    }
    m->status = hri_planned_run_piece(r->p, to, first_sample(r, r->from),
                                      &r->p->members[r->from].share, &m->why);
}

/* All tasks, and the first failure of them. */
static hr_status run_all(round *r, uint32_t count, hri_task_fn *task, hri_prose *why) {
    hri_threads_run(r->p->probe ? NULL : r->p->o.threads, count, task, r);
    for (uint32_t i = 0; i < count; i++) {
        const hri_planned_member *m = &r->p->members[i];
        if (m->status != HR_OK) {
            return hri_prose_set(why, m->status, "replica %u: %s", i, m->why.text);
        }
    }
    return HR_OK;
}

/* What a part weighs in the step, and its numbers: before anything is folded, which takes the place of results. */
static hr_status weigh(const round *r, uint32_t at, hri_share *so_far, double sum[3],
                       hri_prose *why) {
    hri_planned *p = r->p;
    hri_planned_member *m = &p->members[at];
    const hri_planned_piece *x = piece_of(r, at);
    m->share = hri_share_add(so_far, (uint64_t)p->o.job->batch, (uint64_t)x->samples, m->counted);
    const hr_status status = hri_planned_check_even(p, &m->share, why);
    return status == HR_OK ? hri_planned_end_piece(p, x, &m->share, sum, r->first + at == 0, why)
                           : status;
}

static hr_status run_round(round *r, hri_share *so_far, double sum[3], hri_prose *why) {
    hri_planned *p = r->p;
    hr_status status = HR_OK;
    for (uint32_t i = 0; i < r->count && status == HR_OK; i++) {
        status = hri_planned_feed(p, piece_of(r, i), p->state.step, first_sample(r, i),
                                  &p->members[i].counted, why);
    }
    if (status == HR_OK) {
        status = run_all(r, r->count, compute, why);
    }
    for (uint32_t i = 0; i < r->count && status == HR_OK; i++) {
        status = weigh(r, i, so_far, sum, why);
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
        r.count = parts - r.first < p->member_count ? parts - r.first : p->member_count;
        status = run_round(&r, &so_far, sum, why);
        r.first += r.count;
        if (status == HR_OK && r.first < parts && p->tick) {
            status = p->tick(p->tick_user);
        }
    }
    *labels = so_far.counted;
    return status;
}
