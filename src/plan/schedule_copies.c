/* Copies in a schedule: where each is started and waited for.
 *
 * generate() puts a copy away and its wait right behind the value's last touch, and the copy back with its wait right
 * before the next need.  Here the waits for copies away move back to where the copy is over by itself, and the copies
 * back move forward so that nobody waits for them: a queue each way, filled from the front and from the end. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "plan/schedule_int.h"

hr_status hri_schedule_size_keys(hri_schedule *s) {
    struct hri_schedule_scratch *x = s->scratch;
    if (x->copy_space >= s->entry_space) {
        return HR_OK;
    }
    const size_t n = (size_t)s->entry_space + 1;
    double *clock = hri_realloc(x->clock, n * sizeof *clock);
    x->clock = clock ? clock : x->clock;
    uint64_t *keys = hri_realloc(x->keys, n * sizeof *keys);
    x->keys = keys ? keys : x->keys;
    hri_entry *moved = hri_realloc(x->moved, n * sizeof *moved);
    x->moved = moved ? moved : x->moved;
    uint32_t *where = hri_realloc(x->where, n * sizeof *where);
    x->where = where ? where : x->where;
    if (!clock || !keys || !moved || !where) {
        return HR_E_NOMEM_HOST;
    }
    x->copy_space = s->entry_space;
    return HR_OK;
}

uint32_t hri_schedule_entry_at(const double *clock, uint32_t low, uint32_t high, double time) {
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (clock[middle] < time) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* Of the copy that an entry starts. */
static uint32_t queue_of(const hri_schedule *s, uint32_t e) {
    return hri_problem_queue(s->p, s->entries[e].memory, s->entries[e].kind == HRI_STEP_IN);
}

static double time_of(const hri_schedule *s, uint32_t e) {
    const hri_entry *entry = &s->entries[e];
    return hri_copy_time(s->p, entry->op, entry->memory, entry->kind == HRI_STEP_IN);
}

/* A key is twice the entry that an entry goes before, odd for those that stay: as all do here. */
static void begin_places(hri_schedule *s) {
    struct hri_schedule_scratch *x = s->scratch;
    double compute = 0;
    for (uint32_t e = 0; e < s->entry_count; e++) {
        x->clock[e] = compute;
        x->keys[e] = 2 * (uint64_t)e + 1;
        const int runs = s->entries[e].kind == HRI_STEP_RUN;
        compute += runs ? hri_schedule_time_of(s, s->entries[e].op, s->entries[e].again) : 0;
    }
}

/* Where waits for copies out go (when they are over by themselves) and copies in (so early that nobody waits). */
static void find_places(hri_schedule *s) {
    struct hri_schedule_scratch *x = s->scratch;
    double out_free[HRI_PROBLEM_QUEUES_MAX], in_busy[HRI_PROBLEM_QUEUES_MAX];
    for (uint32_t q = 0; q < HRI_PROBLEM_QUEUES_MAX; q++) {
        out_free[q] = 0;
        in_busy[q] = INFINITY;
    }
    for (uint32_t e = 0; e < s->entry_count; e++) {
        x->where[e] = s->entry_count; /* of an OUT: the latest place for its wait */
        if (s->entries[e].kind == HRI_STEP_IN) {
            x->where[s->entries[e].pair] = e;
        }
    }
    for (uint32_t e = 0; e < s->entry_count; e++) {
        if (s->entries[e].kind == HRI_STEP_OUT) {
            double *queue = &out_free[queue_of(s, e)];
            const double start = *queue > x->clock[e] ? *queue : x->clock[e];
            *queue = start + time_of(s, e);
            x->keys[e + 1] =
                2 * (uint64_t)hri_schedule_entry_at(x->clock, e + 1, x->where[e], *queue);
        }
    }
    for (uint32_t e = s->entry_count; e-- > 0;) {
        if (s->entries[e].kind == HRI_STEP_IN) {
            double *queue = &in_busy[queue_of(s, e)];
            const double by = *queue < x->clock[e] ? *queue : x->clock[e];
            *queue = by - time_of(s, e);
            const uint32_t first = (uint32_t)(x->keys[s->entries[e].pair + 1] / 2);
            uint32_t at = hri_schedule_entry_at(x->clock, first, e, *queue);
            at -= at > first && x->clock[at] > *queue;
            x->keys[e] = 2 * (uint64_t)at;
        }
    }
}

static int by_key(const void *a, const void *b) {
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* Most are in order already. */
static void sort_keys(uint64_t *keys, uint32_t count) {
    enum { FEW = 64 };
    if (count > FEW) {
        qsort(keys, count, sizeof *keys, by_key);
        return;
    }
    for (uint32_t i = 1; i < count; i++) {
        const uint64_t item = keys[i];
        uint32_t j = i;
        for (; j > 0 && keys[j - 1] > item; j--) {
            keys[j] = keys[j - 1];
        }
        keys[j] = item;
    }
}

hr_status hri_schedule_put_in_order(hri_schedule *s) {
    struct hri_schedule_scratch *x = s->scratch;
    const hr_status status = hri_schedule_rewind_save(s);
    uint32_t movers = 0, next = 0, to = 0;
    if (status != HR_OK) {
        return status;
    }
    /* Those that move, by the entry they go before; there are few, so they alone are sorted. */
    for (uint32_t e = 0; e < s->entry_count; e++) {
        const uint64_t key = x->keys[e];
        x->where[e] = key & 1 ? 0 : HRI_PROBLEM_NONE;
        x->keys[movers] = key / 2 << 32 | e;
        movers += !(key & 1);
    }
    sort_keys(x->keys, movers);
    for (uint32_t e = 0; e <= s->entry_count; e++) {
        for (; next < movers && x->keys[next] >> 32 == e; next++) {
            const uint32_t mover = (uint32_t)x->keys[next];
            x->keys[next] = (uint64_t)to << 32 | mover;
            x->moved[to++] = s->entries[mover];
        }
        if (e < s->entry_count && x->where[e] != HRI_PROBLEM_NONE) {
            x->where[e] = to;
            x->moved[to++] = s->entries[e];
        }
    }
    for (next = 0; next < movers; next++) {
        x->where[(uint32_t)x->keys[next]] = (uint32_t)(x->keys[next] >> 32);
    }
    for (uint32_t e = 0; e < s->entry_count; e++) {
        const uint32_t pair = x->moved[e].pair;
        s->entries[e] = x->moved[e];
        s->entries[e].pair = pair == HRI_PROBLEM_NONE ? pair : x->where[pair];
    }
    hri_schedule_settle(s);
    return HR_OK;
}

hr_status hri_schedule_time_copies(hri_schedule *s) {
    struct hri_schedule_scratch *x = s->scratch;
    if (s->p->copies_block && !s->net_count) {
        /* Nothing runs beside a copy, so each stays where memory is best. */
        s->time_ns += s->copy_ns[0] + s->copy_ns[1];
        return HR_OK;
    }
    hr_status status = hri_schedule_size_keys(s);
    if (status == HR_OK) {
        begin_places(s);
        if (s->copy_count && !s->p->copies_block) {
            find_places(s);
        }
        status = s->net_count && !s->at_once ? hri_schedule_place_nets(s) : HR_OK;
    }
    if (status == HR_OK) {
        status = hri_schedule_put_in_order(s);
    }
    if (status != HR_OK) {
        return status;
    }
    double compute = 0, wire = 0, queues[HRI_PROBLEM_QUEUES_MAX] = {0};
    for (uint32_t e = 0; e < s->entry_count; e++) {
        const hri_entry *entry = &s->entries[e];
        if (entry->kind == HRI_STEP_RUN) {
            compute += hri_schedule_time_of(s, entry->op, entry->again);
        } else if (entry->kind == HRI_STEP_NET) {
            wire = (wire > compute ? wire : compute) + hri_schedule_op_time(s, entry->op);
            x->clock[e] = wire;
        } else if (s->p->copies_block && entry->kind != HRI_STEP_WAIT) {
            compute += time_of(s, e);
            x->clock[e] = compute;
        } else if (entry->kind == HRI_STEP_WAIT) {
            compute = x->clock[entry->pair] > compute ? x->clock[entry->pair] : compute;
        } else {
            double *queue = &queues[queue_of(s, e)];
            const double start = *queue > compute ? *queue : compute;
            *queue = start + time_of(s, e);
            x->clock[e] = *queue; /* from here on: when the copy is over */
            compute += s->p->copy_drag * time_of(s, e);
        }
    }
    s->time_ns = compute;
    return HR_OK;
}
