/* Back to speed: keeps again what fits, then trades.
 *
 * Keeping is tried only where the bytes between the two touches leave room for it, which a look at the profile says at
 * once.  Trading drops one to three of the cheaper things at random and keeps again; what is not faster is undone.  Which of a few
 * large values is kept is not changed by that: so it is also done the other way round, one thing that does not fit is kept,
 * the dearer the likelier, and others go until all fits. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "plan/search_int.h"

enum { FORCED = 30 };       /* of a hundred trades: so many keep what does not fit */
enum { FORCED_RUNS = 150 }; /* the work of one of them, in runs of the schedule */

/* Would the memory between the last touch of the value and its making again at entry e bear it?  What dies with the
 * making (inputs kept for it alone) would make room. */
static int may_stay(const hri_schedule *s, uint32_t e, uint32_t instance) {
    const hri_instance *made = &s->instances[instance];
    const hri_problem_op *op = &s->p->ops[s->entries[e].op];
    const hri_touch *in = s->touches + s->entries[e].first;
    uint64_t allowed = s->limit;
    if (made->older == HRI_PROBLEM_NONE) {
        return 0;
    }
    for (uint32_t i = 0; i < op->in_count; i++) {
        const hri_instance *x = &s->instances[in[i].instance];
        allowed += x->last == e && !s->fixed[x->value] ? s->p->values[x->value].room_bytes : 0;
    }
    const uint64_t bytes = s->p->values[made->value].room_bytes;
    uint32_t end = e;
    while (end > 0 && s->entries[end - 1].again) {
        end--;
    }
    for (uint32_t i = s->instances[made->older].last + 1; i < end; i++) {
        if (s->live[i] + bytes > allowed) {
            return 0;
        }
    }
    return 1;
}

/* Gaps in which something was made again, dearest first; and variants that are not the fastest.  `all`: also what has no room. */
static hr_status list_returns(hri_searcher *x, int all) {
    const hri_schedule *s = x->s;
    hr_status status = hri_size_up(x);
    x->move_count = 0;
    for (uint32_t e = 0; e < s->entry_count && status == HR_OK; e++) {
        const hri_touch *out = s->touches + s->entries[e].first + hri_entry_ins(s, e);
        const uint32_t outs = hri_entry_outs(s, e);
        if (s->entries[e].kind == HRI_STEP_IN) {
            const double time = hri_copy_time(s->p, s->entries[e].op, s->entries[e].memory, 1);
            status =
                hri_push_move(x, (hri_move){-time, 0, time, out[0].gap, s->gaps[out[0].gap], 0});
            continue;
        }
        for (uint32_t k = 0; k < outs && s->entries[e].again && status == HR_OK; k++) {
            if (out[k].gap == HRI_PROBLEM_NONE || s->gaps[out[k].gap] == 0 ||
                s->instances[out[k].instance].last == e) {
                continue;
            }
            const double time = hri_schedule_again_time(s, s->entries[e].op);
            const double bytes =
                (double)s->p->values[s->instances[out[k].instance].value].room_bytes;
            const uint32_t now = s->gaps[out[k].gap];
            for (uint32_t to = all || now > 1 || may_stay(s, e, out[k].instance) ? 0 : now;
                 to < now && to < 2 && status == HR_OK; to++) {
                status = hri_push_move(x, (hri_move){-time / (bytes + 1) / (to + 1), 0, time,
                                                     out[k].gap, s->gaps[out[k].gap], (uint8_t)to});
            }
        }
    }
    for (uint32_t n = 0; n < s->p->op_count && status == HR_OK; n++) {
        for (uint32_t i = 0; i < s->p->ops[n].variant_count && status == HR_OK; i++) {
            const double won = hri_schedule_op_time(s, n) - s->p->ops[n].variants[i].time_ns;
            if (won > 0) {
                status = hri_push_move(
                    x, (hri_move){-won, 0, won, s->gap_count + n, s->variant[n], (uint8_t)i});
            }
        }
    }
    hri_sort_moves(x, x->move_count);
    return status;
}

/* Takes back whatever fits.  *time is that of the schedule as it is set, before and after. */
static hr_status take_back(hri_searcher *x, double *time) {
    hri_schedule *s = x->s;
    for (int changed = 1; changed && s->work < x->stop;) {
        changed = 0;
        hr_status status = hri_schedule_run(s);
        if (status == HR_OK) {
            status = list_returns(x, 0);
        }
        for (size_t i = 0; i < x->move_count && status == HR_OK && s->work < x->stop; i++) {
            const hri_move *m = &x->moves[i];
            const uint8_t now =
                m->at < s->gap_count ? s->gaps[m->at] : s->variant[m->at - s->gap_count];
            if (now != m->was) {
                continue;
            }
            hri_set_move(s, m->at, m->to);
            s->stop_ns = *time;
            s->trial = m->at + 1;
            status = hri_schedule_run(s);
            s->trial = 0;
            s->stop_ns = INFINITY;
            if (status == HR_OK && s->over == 0 && s->time_ns < *time) {
                *time = s->time_ns;
                changed = 1;
            } else {
                hri_set_move(s, m->at, m->was);
                status = status == HR_E_NO_PLAN ? HR_OK : status;
            }
        }
        if (status != HR_OK) {
            return status;
        }
    }
    return HR_OK;
}

static uint64_t draw(hri_searcher *x) {
    x->random = hri_hash_u64(x->random + 0x9e3779b97f4a7c15u);
    return x->random;
}

/* Lists what the schedule as it stands may drop, best first, into x->drops.  HR_E_NO_PLAN: nothing. */
static hr_status list_shakes(hri_searcher *x) {
    const hr_status status = hri_list_drops(x, 1);
    if (status != HR_OK || x->move_count == 0) {
        return status == HR_OK ? HR_E_NO_PLAN : status;
    }
    hri_sort_moves(x, x->move_count);
    hri_move *const list = x->moves;
    const size_t space = x->move_space;
    x->moves = x->drops;
    x->move_space = x->drop_space;
    x->drops = list;
    x->drop_space = space;
    x->drop_count = x->move_count;
    x->drop_entries = x->s->entry_count;
    return HR_OK;
}

/* Drops one to three things of the cheaper kind. */
static void shake(hri_searcher *x) {
    const uint64_t count = 1 + draw(x) % 3;
    for (uint64_t i = 0; i < count; i++) {
        const double share = (double)(draw(x) >> 11) * 0x1p-53;
        const hri_move *m = &x->drops[(size_t)(share * share * (double)x->drop_count)];
        hri_set_move(x->s, m->at, m->to);
    }
}

/* The schedule is the best so far.  What may be dropped is listed once for it, however often it is shaken. */
static hr_status look_again(hri_searcher *x) {
    hri_schedule *s = x->s;
    if (x->drop_entries) {
        s->work += x->drop_entries + 64; /* as much as a run, which would say the same */
        return HR_OK;
    }
    const hr_status status = hri_schedule_run(s);
    if (status == HR_OK && s->again_count == 0 && s->copy_count == 0) {
        return HR_E_NO_PLAN;
    }
    return status == HR_OK ? list_shakes(x) : status;
}

/* One of what is listed, each as likely as it is dear. */
static const hri_move *draw_move(hri_searcher *x) {
    double sum = 0;
    size_t i = 0;
    for (size_t k = 0; k < x->move_count; k++) {
        sum += x->moves[k].cost;
    }
    double at = (double)(draw(x) >> 11) * 0x1p-53 * sum;
    for (; i + 1 < x->move_count && at >= x->moves[i].cost; i++) {
        at -= x->moves[i].cost;
    }
    return &x->moves[i];
}

/* Keeps one thing that does not fit, and goes down from there without touching it.  *time: of what came of it; INFINITY: no way
 * down was found.  HR_E_NO_PLAN: there is nothing to keep. */
static hr_status force(hri_searcher *x, double *time) {
    hri_schedule *s = x->s;
    *time = INFINITY;
    hr_status status = hri_schedule_run(s);
    status = status == HR_OK ? list_returns(x, 1) : status;
    if (status != HR_OK || x->move_count == 0) {
        return status == HR_OK ? HR_E_NO_PLAN : status;
    }
    const size_t tabu = (size_t)s->gap_count + s->p->op_count;
    const uint64_t stop = x->stop, most = s->work + (uint64_t)s->entry_count * FORCED_RUNS;
    const hri_move kept = *draw_move(x);
    hri_set_move(s, kept.at, kept.to);
    x->tabu[kept.at] = 1;
    x->stop = most < stop ? most : stop;
    status = hri_go_down(x);
    memset(x->tabu, 0, tabu);
    if (status == HR_OK) {
        *time = s->time_ns;
        status = take_back(x, time);
    }
    x->stop = stop;
    return status == HR_E_NO_PLAN ? HR_OK : status;
}

/* Drops a few things, and keeps others; *time as above. */
static hr_status drop_some(hri_searcher *x, double *time) {
    hri_schedule *s = x->s;
    *time = INFINITY;
    hr_status status = look_again(x);
    if (status != HR_OK) {
        return status;
    }
    shake(x);
    status = hri_schedule_run(s);
    if (status == HR_OK && s->over == 0) {
        *time = s->time_ns;
        status = take_back(x, time);
    }
    return status == HR_E_NO_PLAN ? HR_OK : status;
}

hr_status hri_search_improve(hri_schedule *s, uint64_t limit, uint64_t effort) {
    hri_searcher x;
    uint8_t *best = NULL, *best_variant = NULL;
    s->limit = limit;
    hr_status status = hri_searcher_open(&x, s, effort);
    if (status == HR_OK) {
        best = hri_malloc((size_t)s->gap_count + 1);
        best_variant = hri_malloc((size_t)s->p->op_count + 1);
        status = best && best_variant ? hri_schedule_run(s) : HR_E_NOMEM_HOST;
    }
    double best_time = s->time_ns;
    if (status == HR_OK) {
        status = take_back(&x, &best_time);
    }
    while (status == HR_OK && s->work < x.stop) {
        double time;
        memcpy(best, s->gaps, s->gap_count);
        memcpy(best_variant, s->variant, s->p->op_count);
        status = draw(&x) % 100 < FORCED ? force(&x, &time) : drop_some(&x, &time);
        if (status == HR_E_NO_PLAN) { /* all is kept */
            status = HR_OK;
            break;
        }
        if (status == HR_OK && !(time < best_time)) {
            memcpy(s->gaps, best, s->gap_count);
            memcpy(s->variant, best_variant, s->p->op_count);
        } else if (status == HR_OK) {
            best_time = time;
            x.drop_entries = 0;
        }
        x.drop_entries = s->frugal ? 0 : x.drop_entries;
    }
    if (status == HR_OK) {
        status = hri_schedule_run(s);
    }
    hri_free(best);
    hri_free(best_variant);
    hri_searcher_close(&x);
    return status;
}
