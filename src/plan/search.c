/* Greedy descent over gaps: see search.h.  search_improve.c goes back up.
 *
 * Moves are ranked by an estimate (the time of what would have to run again, by the bytes and entries it relieves) and
 * the best few are tried for real.  While there is far to go, many good moves are made at once. */

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "plan/search_int.h"

enum { TRIES = 6, CLOSURE_MOST = 400 };
enum { FIRST = 64, PART = 12 }; /* looked at one by one; made at once: one of so many */

void hri_set_move(hri_schedule *s, uint32_t at, uint8_t to) {
    if (at < s->gap_count) {
        s->gaps[at] = to;
    } else {
        s->variant[at - s->gap_count] = to;
    }
}

hr_status hri_searcher_open(hri_searcher *x, hri_schedule *s, uint64_t effort) {
    *x = (hri_searcher){.s = s,
                        .stop = s->work + effort,
                        .can_copy = !s->no_copies && hri_schedule_can_copy(s),
                        .no_drop = s->no_drops};
    x->stamp = hri_calloc((size_t)s->p->op_count + 1, sizeof *x->stamp);
    x->stack = hri_calloc((size_t)s->p->op_count + 1, sizeof *x->stack);
    x->runs_at = hri_calloc((size_t)s->p->op_count + 1, sizeof *x->runs_at);
    x->newest = hri_calloc((size_t)s->p->value_count + 1, sizeof *x->newest);
    x->saved = hri_malloc((size_t)s->gap_count + 1);
    x->tabu = hri_calloc((size_t)s->gap_count + s->p->op_count + 1, 1);
    x->saved_variant = hri_malloc((size_t)s->p->op_count + 1);
    return x->stamp && x->stack && x->runs_at && x->newest && x->saved && x->tabu &&
                   x->saved_variant
               ? HR_OK
               : HR_E_NOMEM_HOST;
}

void hri_searcher_close(hri_searcher *x) {
    void *const all[] = {x->moves, x->drops, x->previous, x->over,  x->over_count,
                         x->stamp, x->stack, x->newest,   x->saved, x->saved_variant,
                         x->tabu,  x->clock, x->runs_at};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        hri_free(all[i]);
    }
}

static void save(hri_searcher *x) {
    memcpy(x->saved, x->s->gaps, x->s->gap_count);
    memcpy(x->saved_variant, x->s->variant, x->s->p->op_count);
}

static void restore(hri_searcher *x) {
    memcpy(x->s->gaps, x->saved, x->s->gap_count);
    memcpy(x->s->variant, x->saved_variant, x->s->p->op_count);
}

static int grow(void **items, size_t count, size_t bytes) {
    void *new = hri_realloc(*items, count * bytes);
    if (!new) {
        return 0;
    }
    *items = new;
    return 1;
}

/* Arrays by entry and by instance as long as the schedule now is. */
hr_status hri_size_up(hri_searcher *x) {
    const hri_schedule *s = x->s;
    if (x->previous_space < s->instance_space) {
        void *items = x->previous;
        if (!grow(&items, s->instance_space, sizeof *x->previous)) {
            return HR_E_NOMEM_HOST;
        }
        x->previous = items;
        x->previous_space = s->instance_space;
    }
    if (x->over_space < s->entry_space + 1) {
        void *over = x->over, *count = x->over_count, *clock = x->clock;
        const int a = grow(&over, (size_t)s->entry_space + 2, sizeof *x->over);
        x->over = over;
        const int b = grow(&count, (size_t)s->entry_space + 2, sizeof *x->over_count);
        x->over_count = count;
        const int c = grow(&clock, (size_t)s->entry_space + 2, sizeof *x->clock);
        x->clock = clock;
        if (!a || !b || !c) {
            return HR_E_NOMEM_HOST;
        }
        x->over_space = s->entry_space + 1;
    }
    x->over[0] = 0;
    x->over_count[0] = 0;
    x->clock[0] = 0;
    for (uint32_t e = 0; e < s->entry_count; e++) {
        const int is = s->live[e] > s->limit;
        x->over[e + 1] = x->over[e] + (is ? (double)(s->live[e] - s->limit) : 0);
        x->over_count[e + 1] = x->over_count[e] + (uint32_t)is;
        if (s->entries[e].kind == HRI_STEP_RUN && !s->entries[e].again) {
            x->runs_at[s->entries[e].op] = e;
        }
        x->clock[e + 1] =
            x->clock[e] +
            (s->entries[e].kind == HRI_STEP_RUN ? hri_schedule_op_time(s, s->entries[e].op) : 0);
    }
    memset(x->newest, 0xff, s->p->value_count * sizeof *x->newest);
    for (uint32_t i = 0; i < s->instance_count; i++) {
        x->newest[s->instances[i].value] = i;
        x->previous[i] = s->instances[i].birth;
    }
    return HR_OK;
}

/* Is the value there at this entry, as the schedule now stands? */
static int is_there(const hri_searcher *x, uint32_t v, uint32_t entry) {
    const hri_schedule *s = x->s;
    if (s->fixed[v]) {
        return 1;
    }
    for (uint32_t i = x->newest[v]; i != HRI_PROBLEM_NONE; i = s->instances[i].older) {
        if (s->instances[i].birth < entry && s->instances[i].last >= entry) {
            return 1;
        }
    }
    return 0;
}

/* The time to make v again at this entry. */
static double closure_time(hri_searcher *x, uint32_t v, uint32_t entry) {
    const hri_schedule *s = x->s;
    uint32_t count = 0, total = 1;
    double time = 0;
    x->stamp_number++;
    x->stack[count++] = s->p->values[v].producer;
    x->stamp[x->stack[0]] = x->stamp_number;
    while (count) {
        const hri_problem_op *op = &s->p->ops[x->stack[--count]];
        time += hri_schedule_again_time(s, x->stack[count]);
        if (op->once) {
            return INFINITY;
        }
        for (uint32_t i = 0; i < op->in_count; i++) {
            const uint32_t producer = s->p->values[op->in[i]].producer;
            if (is_there(x, op->in[i], entry)) {
                continue;
            }
            if (producer == HRI_PROBLEM_NONE || total > CLOSURE_MOST) {
                return INFINITY;
            }
            if (x->stamp[producer] != x->stamp_number) {
                x->stamp[producer] = x->stamp_number;
                x->stack[count++] = producer;
                total++;
            }
        }
    }
    return time;
}

/* The time to make v again before this read at entry e: beside another op where one comes in between and all is there. */
static double time_again(hri_searcher *x, uint32_t v, const hri_touch *read, uint32_t e) {
    const hri_schedule *s = x->s;
    const uint32_t n = s->p->values[v].producer, k = read->gap - hri_gap_of(s->p, v, 0);
    const uint32_t *at = s->use_at + s->p->values[v].use_first;
    const hri_problem_op *op = &s->p->ops[n];
    const uint32_t of = op->beside_of;
    int good = of && op->out[0].value == v && read->count == 0 && k > 0 &&
               k < s->p->values[v].use_count && s->position[of - 1] > at[k - 1] &&
               s->position[of - 1] < at[k];
    for (uint32_t i = 0; i < op->in_count && good; i++) {
        good = is_there(x, op->in[i], x->runs_at[of - 1]);
    }
    return good ? hri_schedule_run_time(s, n, HRI_AGAIN_BESIDE) : closure_time(x, v, e);
}

hr_status hri_push_move(hri_searcher *x, hri_move m) {
    if (x->move_count == x->move_space) {
        void *items = x->moves;
        const size_t space = x->move_space ? x->move_space * 2 : 256;
        if (!grow(&items, space, sizeof *x->moves)) {
            return HR_E_NOMEM_HOST;
        }
        x->moves = items;
        x->move_space = space;
    }
    x->moves[x->move_count++] = m;
    return HR_OK;
}

static inline int is_before(const hri_move *x, const hri_move *y) {
    return x->score != y->score ? x->score < y->score
           : x->at != y->at     ? x->at < y->at
                                : x->to < y->to;
}

static inline void swap(hri_move *x, hri_move *y) {
    const hri_move move = *x;
    *x = *y;
    *y = move;
}

/* Splits the moves around one of three of them; returns where that came to lie. */
static size_t split(hri_move *moves, size_t count) {
    hri_move *const first = &moves[0], *const mid = &moves[count / 2],
                    *const last = &moves[count - 1];
    if (is_before(mid, first)) {
        swap(mid, first);
    }
    if (is_before(last, mid)) {
        swap(last, mid);
        if (is_before(mid, first)) {
            swap(mid, first);
        }
    }
    swap(mid, last);
    size_t at = 0;
    for (size_t i = 0; i + 1 < count; i++) {
        if (is_before(&moves[i], last)) {
            swap(&moves[i], &moves[at++]);
        }
    }
    swap(&moves[at], last);
    return at;
}

/* Sorts as far as the first `most` are asked for.  qsort() would move all of them, and call for each comparison: that took more
 * time than listing them. */
static void sort(hri_move *moves, size_t count, size_t most) {
    enum { FEW = 12 };
    while (count > FEW) {
        const size_t at = split(moves, count), behind = at + 1;
        if (behind >= most || at < count / 2) {
            sort(moves, at, most);
            if (behind >= most) {
                return;
            }
            moves += behind;
            count -= behind;
            most -= behind;
        } else {
            sort(moves + behind, count - behind, most - behind);
            count = at;
        }
    }
    for (size_t i = 1; i < count; i++) {
        const hri_move move = moves[i];
        size_t at = i;
        for (; at > 0 && is_before(&move, &moves[at - 1]); at--) {
            moves[at] = moves[at - 1];
        }
        moves[at] = move;
    }
}

void hri_sort_moves(hri_searcher *x, size_t most) {
    sort(x->moves, x->move_count, most);
}

/* Copying away for the idle stretch (from, e): what cannot be hidden behind compute, and a price for the queues. */
static double away_time(const hri_searcher *x, uint32_t v, uint32_t memory, uint32_t from,
                        uint32_t e) {
    const hri_schedule *s = x->s;
    const double out = hri_copy_time(s->p, v, memory, 0), in = hri_copy_time(s->p, v, memory, 1);
    if (s->p->copies_block) {
        return out + in;
    }
    const double window = x->clock[e] - x->clock[from + 1];
    const double busy = (s->copy_ns[0] + s->copy_ns[1] + out + in) / (2 * s->time_ns + 1);
    const double open = out + in > window ? out + in - window : 0;
    return open + (out + in) * (busy > 1 ? 1 : busy * busy * 0.5) +
           (0.001 + s->p->copy_drag) * (out + in);
}

/* The moves for one idle stretch, ended by this read at entry e. */
static hr_status list_stretch(hri_searcher *x, const hri_touch *read, uint32_t from, uint32_t e,
                              int any) {
    const hri_schedule *s = x->s;
    const uint32_t v = s->instances[read->instance].value;
    const uint32_t entries = x->over_count[e] - x->over_count[from + 1];
    const double bytes = (double)s->p->values[v].room_bytes;
    const double most = x->over[e] - x->over[from + 1];
    const double all = any ? bytes * (e - from - 1) : bytes * entries;
    const double benefit = any || all < most ? all : most;
    const uint8_t now = s->gaps[read->gap];
    hr_status status = HR_OK;
    if (benefit <= 0) {
        return HR_OK;
    }
    if (hri_schedule_can_drop(s, v) && !x->no_drop) {
        const double cost = time_again(x, v, read, e);
        if (cost < INFINITY) {
            status = hri_push_move(x, (hri_move){(cost + 1) / benefit, benefit, cost, read->gap,
                                                 now, (uint8_t)(read->count + 1)});
        }
    }
    const uint32_t birth = s->p->values[v].role == HRI_ROLE_MADE ? 0 : hri_gap_of(s->p, v, 0);
    const uint32_t memory = hri_schedule_memory(s, s->p->values[v].room_bytes);
    if (status == HR_OK && x->can_copy && memory && read->count == 0 && now == 0 &&
        read->gap != hri_gap_of(s->p, v, s->p->values[v].use_count) &&
        (birth == 0 || read->gap != birth)) {
        const double cost = away_time(x, v, memory, from, e);
        status = hri_push_move(
            x, (hri_move){(cost + 1) / benefit, benefit, cost, read->gap, now, HRI_GAP_AWAY});
    }
    return status;
}

/* Drops at idle stretches.  With `any`, also those that relieve no entry over the limit. */
hr_status hri_list_drops(hri_searcher *x, int any) {
    const hri_schedule *s = x->s;
    hr_status status = hri_size_up(x);
    x->move_count = 0;
    for (uint32_t e = 0; e < s->entry_count && status == HR_OK; e++) {
        const hri_touch *in = s->touches + s->entries[e].first;
        const uint32_t count = hri_entry_ins(s, e);
        for (uint32_t i = 0; i < count && status == HR_OK; i++) {
            const uint32_t from = in[i].gap == HRI_PROBLEM_NONE ? e : x->previous[in[i].instance];
            x->previous[in[i].instance] = e;
            if (hri_entry_runs(s, e) && from + 1 < e && s->gaps[in[i].gap] <= in[i].count &&
                !x->tabu[in[i].gap] && in[i].count < HRI_GAP_MOST) {
                status = list_stretch(x, &in[i], from, e, any);
            }
        }
    }
    return status;
}

/* Smaller workspaces where the limit is exceeded. */
static hr_status list_variants(hri_searcher *x) {
    const hri_schedule *s = x->s;
    hr_status status = HR_OK;
    for (uint32_t e = 0; e < s->entry_count && status == HR_OK; e++) {
        if (!hri_entry_runs(s, e)) {
            continue;
        }
        const uint32_t n = s->entries[e].op;
        const hri_problem_op *op = &s->p->ops[n];
        const hri_problem_variant *now = &op->variants[s->variant[n]];
        for (uint32_t i = 0; i < op->variant_count && s->live[e] > s->limit && status == HR_OK;
             i++) {
            const hri_problem_variant *other = &op->variants[i];
            if (other->workspace_bytes >= now->workspace_bytes || x->tabu[s->gap_count + n]) {
                continue;
            }
            const double saved = (double)(now->workspace_bytes - other->workspace_bytes);
            const double excess = (double)(s->live[e] - s->limit);
            const double benefit = saved < excess ? saved : excess;
            const double cost = other->time_ns > now->time_ns ? other->time_ns - now->time_ns : 0;
            status = hri_push_move(x, (hri_move){(cost + 1) / benefit, benefit, cost,
                                                 s->gap_count + n, s->variant[n], (uint8_t)i});
        }
    }
    return status;
}

/* Several of the best at once.  1: done and worth it. */
static hr_status try_many(hri_searcher *x, int *good) {
    hri_schedule *s = x->s;
    const uint64_t before = s->over;
    const double time = s->time_ns;
    size_t count = x->move_count / PART;
    double expected = 0, cost = 0;
    *good = 0;
    if (count < 3) {
        return HR_OK;
    }
    save(x);
    size_t used = 0;
    for (; used < count && expected < 0.35 * (double)before; used++) {
        hri_set_move(s, x->moves[used].at, x->moves[used].to);
        expected += x->moves[used].benefit;
        cost += x->moves[used].cost;
    }
    hr_status status = used < 2 ? HR_E_NO_PLAN : hri_schedule_run(s);
    if (status == HR_OK && s->over < before && s->time_ns - time <= 2 * cost + 0.01 * time &&
        (double)(before - s->over) >
            0.5 * (expected < (double)before ? expected : (double)before)) {
        *good = 1;
        return HR_OK;
    }
    restore(x);
    return status == HR_E_NO_PLAN ? HR_OK : status;
}

/* The best of the first few, tried one by one.  1: one of them helped; it is set. */
static hr_status try_few(hri_searcher *x, int *good) {
    hri_schedule *s = x->s;
    const uint64_t before = s->over;
    const double time = s->time_ns;
    double best = INFINITY;
    size_t chosen = 0;
    *good = 0;
    for (size_t i = 0; i < x->move_count && (i < TRIES || (!*good && i < FIRST)); i++) {
        const hri_move *m = &x->moves[i];
        hri_set_move(s, m->at, m->to);
        s->trial = m->at + 1;
        const hr_status status = hri_schedule_run(s);
        s->trial = 0;
        hri_set_move(s, m->at, m->was);
        if (status != HR_OK && status != HR_E_NO_PLAN) {
            return status;
        }
        if (status == HR_OK && s->over < before) {
            const double extra = s->time_ns > time ? s->time_ns - time : 0;
            const double ratio = (extra + 1) / (double)(before - s->over);
            if (ratio < best) {
                best = ratio;
                chosen = i;
                *good = 1;
            }
        }
    }
    if (*good) {
        hri_set_move(s, x->moves[chosen].at, x->moves[chosen].to);
    }
    return hri_schedule_run(s);
}

/* A long burst is itself the peak: keeping one of the values it makes would cut it in two. */
static hr_status list_keeps(hri_searcher *x) {
    const hri_schedule *s = x->s;
    hr_status status = HR_OK;
    x->move_count = 0;
    for (uint32_t e = 0; e < s->entry_count && status == HR_OK;) {
        uint32_t end = e;
        int over = 0;
        while (end < s->entry_count && (s->entries[end].again || end == e)) {
            over |= s->live[end] > s->limit;
            end++;
        }
        over |= end < s->entry_count && s->live[end] > s->limit;
        for (; e < end && status == HR_OK; e++) {
            const hri_touch *out = s->touches + s->entries[e].first + hri_entry_ins(s, e);
            const uint32_t outs = s->entries[e].again ? hri_entry_outs(s, e) : 0;
            for (uint32_t k = 0; over && k < outs && status == HR_OK; k++) {
                if (out[k].gap != HRI_PROBLEM_NONE && s->gaps[out[k].gap] > 0 &&
                    !x->tabu[out[k].gap]) {
                    const double bytes =
                        (double)s->p->values[s->instances[out[k].instance].value].room_bytes;
                    status = hri_push_move(
                        x, (hri_move){bytes, 0, 0, out[k].gap, s->gaps[out[k].gap],
                                      (uint8_t)(s->gaps[out[k].gap] > 1 ? out[k].count : 0)});
                }
            }
        }
    }
    return status;
}

/* No single move helps: make the best one all the same, and not again. */
static hr_status push_on(hri_searcher *x) {
    hri_schedule *s = x->s;
    for (size_t i = 0; i < x->move_count; i++) {
        const hri_move *m = &x->moves[i];
        hri_set_move(s, m->at, m->to);
        x->tabu[m->at] = 1;
        const hr_status status = hri_schedule_run(s);
        if (status != HR_E_NO_PLAN) {
            return status;
        }
        hri_set_move(s, m->at, m->was);
    }
    return HR_E_NO_PLAN;
}

hr_status hri_go_down(hri_searcher *x) {
    hri_schedule *s = x->s;
    hr_status status = hri_schedule_run(s);
    while (status == HR_OK && s->over > 0) {
        int good = 0;
        if (s->work > x->stop) {
            return HR_E_NO_PLAN;
        }
        status = hri_list_drops(x, 0);
        if (status == HR_OK) {
            status = list_variants(x);
        }
        if (status != HR_OK) {
            break;
        }
        hri_sort_moves(x, FIRST + x->move_count / PART);
        status = try_many(x, &good);
        if (status == HR_OK && !good) {
            status = hri_schedule_run(s);
        }
        if (status == HR_OK && !good) {
            status = try_few(x, &good);
        }
        if (status == HR_OK && !good) {
            status = list_keeps(x);
            hri_sort_moves(x, FIRST);
            if (status == HR_OK) {
                status = try_few(x, &good);
            }
        }
        if (status == HR_OK && !good) {
            status = hri_list_drops(x, 0);
            hri_sort_moves(x, x->move_count);
            status = status == HR_OK ? push_on(x) : status;
        }
    }
    return status;
}

hr_status hri_search_fit(hri_schedule *s, uint64_t limit, uint64_t effort) {
    hri_searcher x;
    s->limit = limit;
    hr_status status = hri_searcher_open(&x, s, effort);
    if (status == HR_OK) {
        status = hri_go_down(&x);
    }
    hri_searcher_close(&x);
    return status;
}
