/* The bytes of a schedule: when each instance dies, which outputs lie over inputs, and how many bytes are alive at each
 * entry.  One walk over the entries; see schedule.c for where they come from. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "plan/schedule_int.h"

/* Inputs of entry e that die there and may be overwritten by output k: the one that was made last.  Who adds to what was just made then
 * need not store that, where both are one launch. */
static uint32_t find_place(const hri_schedule *s, uint32_t e, const hri_problem_op *op,
                           uint32_t k) {
    const hri_touch *in = s->touches + s->entries[e].first;
    const uint64_t mask = op->out[k].overwrite;
    uint32_t latest = HRI_PROBLEM_NONE;
    for (uint32_t i = 0; mask >> i && i < op->in_count; i++) {
        const uint32_t x = in[i].instance;
        const uint32_t v = s->instances[x].value;
        if (!(mask >> i & 1) || s->instances[x].last != e || s->scratch->taken[x] == e ||
            s->fixed[v]) {
            continue;
        }
        int other = 0; /* the same value in a place that must stay readable */
        for (uint32_t j = 0; j < op->in_count; j++) {
            other |= in[j].instance == x && (j >= HRI_PROBLEM_OVERWRITE_MAX || !(mask >> j & 1));
        }
        if (!other &&
            (latest == HRI_PROBLEM_NONE || s->instances[x].birth > s->instances[latest].birth)) {
            latest = x;
        }
    }
    return latest;
}

/* Entries whose touches are as they were left: nothing of them is asked but instances. */
void hri_schedule_settle(hri_schedule *s) {
    for (uint32_t i = 0; i < s->instance_count; i++) {
        s->instances[i].last = 0;
        s->instances[i].place = i;
    }
    for (uint32_t e = 0; e < s->entry_count; e++) {
        const hri_entry *entry = &s->entries[e];
        const hri_touch *t = s->touches + entry->first;
        const hri_op_facts *op =
            entry->kind == HRI_STEP_RUN && s->scratch->facts ? &s->scratch->facts[entry->op] : NULL;
        const uint32_t ins = op ? op->ins : hri_entry_ins(s, e);
        const uint32_t outs = op ? op->outs : hri_entry_outs(s, e);
        for (uint32_t i = 0; i < ins; i++) {
            s->instances[t[i].instance].last = e;
        }
        for (uint32_t i = ins; i < ins + outs; i++) {
            s->instances[t[i].instance].last = s->instances[t[i].instance].birth = e;
        }
    }
}

static hr_status grow_live(hri_schedule *s) {
    struct hri_schedule_scratch *x = s->scratch;
    uint64_t *live = hri_realloc(s->live, ((size_t)s->entry_space + 1) * sizeof *live);
    if (!live) {
        return HR_E_NOMEM_HOST;
    }
    s->live = live;
    if (x->taken_space < s->instance_space) {
        uint32_t *taken = hri_realloc(x->taken, (size_t)s->instance_space * sizeof *taken);
        if (!taken) {
            return HR_E_NOMEM_HOST;
        }
        x->taken = taken;
        x->taken_space = s->instance_space;
    }
    return HR_OK;
}

static uint64_t measure_entry(hri_schedule *s, uint32_t e, uint64_t before, uint64_t *after) {
    const hri_entry *entry = &s->entries[e];
    hri_touch *t = s->touches + entry->first;
    if (hri_entry_ends_net(s, e)) {
        const uint64_t work = hri_schedule_work_of(s, entry->op);
        *after = before - work;
        for (uint32_t i = 0; i < hri_entry_ins(s, e); i++) {
            const uint32_t x = t[i].instance;
            if (s->instances[x].last == e && s->scratch->taken[x] != e &&
                !s->fixed[s->instances[x].value]) {
                s->scratch->taken[x] = e; /* counted once */
                *after -= s->p->values[s->instances[x].value].room_bytes;
            }
        }
        return before;
    }
    if (!hri_entry_runs(s, e)) {
        const uint64_t size = s->p->values[entry->op].room_bytes;
        *after = before + (entry->kind == HRI_STEP_IN ? size : 0);
        const uint64_t most = *after;
        *after -= s->instances[t[0].instance].last == e ? size : 0;
        return most;
    }
    const hri_problem_op *op = &s->p->ops[entry->op];
    uint64_t now = before, freed = 0;
    for (uint32_t k = 0; k < op->out_count; k++) {
        hri_instance *made = &s->instances[t[op->in_count + k].instance];
        const uint64_t bytes = hri_schedule_room_of(s, made->value);
        if (s->fixed[made->value]) {
            continue;
        }
        const uint32_t place = s->in_place && op->out[k].overwrite && !op->out[k].updates
                                   ? find_place(s, e, op, k)
                                   : HRI_PROBLEM_NONE;
        if (place != HRI_PROBLEM_NONE) {
            made->place = s->instances[place].place;
            s->scratch->taken[place] = e;
        } else {
            now += bytes;
        }
        freed += made->last == e ? bytes : 0;
    }
    for (uint32_t i = 0; i < op->in_count; i++) {
        const uint32_t x = t[i].instance;
        if (s->instances[x].last == e && s->scratch->taken[x] != e) {
            s->scratch->taken[x] = e; /* counted once, though read twice */
            freed += hri_schedule_room_of(s, s->instances[x].value);
        }
    }
    const uint64_t work = hri_schedule_work_of(s, entry->op);
    *after = now - freed + (entry->kind == HRI_STEP_NET ? work : 0);
    return now + work;
}

hr_status hri_schedule_measure(hri_schedule *s) {
    const hri_problem *p = s->p;
    const hr_status status = grow_live(s);
    if (status != HR_OK) {
        return status;
    }
    uint64_t live = 0, after = 0, unread = 0;
    memset(s->scratch->taken, 0xff, s->instance_count * sizeof *s->scratch->taken);
    for (uint32_t v = 0; v < p->value_count; v++) {
        const hri_problem_value *value = &p->values[v];
        if (value->result) {
            /* Beyond the last entry. */
            s->instances[s->scratch->state[v].current].last = s->entry_count;
        }
        live += value->role == HRI_ROLE_INPUT ? value->room_bytes : 0;
        unread += value->role == HRI_ROLE_INPUT && !value->use_count && !value->result
                      ? value->room_bytes
                      : 0;
    }
    s->peak_bytes = s->over = 0;
    s->peak_entry = 0;
    for (uint32_t e = 0; e < s->entry_count; e++) {
        s->live[e] = measure_entry(s, e, live, &after);
        live = after;
        live -= e == 0 ? unread : 0;
        if (s->live[e] > s->peak_bytes) {
            s->peak_bytes = s->live[e];
            s->peak_entry = e;
        }
        s->over += s->live[e] > s->limit ? s->live[e] - s->limit : 0;
        if (s->over && !isinf(s->stop_ns) && !s->net_count) {
            return HR_E_NO_PLAN;
        }
    }
    return HR_OK;
}

hr_status hri_schedule_reorder(hri_schedule *s) {
    const hr_status status = hri_schedule_put_in_order(s);
    hri_schedule_rewind_set_whole(s, 0);
    return status == HR_OK ? hri_schedule_measure(s) : status;
}
