/* Updates that go together: see hri_schedule_gather in schedule.h.
 *
 * A device that updates many parameters in one launch takes a fraction of the time of as many launches, but orders that end
 * lives early have each update right behind its gradient.  Here updates wait for the next ones, from the last on, as long as
 * the gradients that are held meanwhile stay under the limit. */
#include "plan/schedule_int.h"

/* Does nobody in this step depend on when the entry runs, but for those whose results it reads? */
static int may_wait(const hri_schedule *s, uint32_t e) {
    const hri_problem *p = s->p;
    if (s->entries[e].kind != HRI_STEP_RUN) {
        return 0;
    }
    const hri_problem_op *op = &p->ops[s->entries[e].op];
    int good = !s->entries[e].again && op->out_count > 0 &&
               hri_problem_joined(p, s->entries[e].op) == HRI_PROBLEM_NONE;
    for (uint32_t k = 0; k < op->out_count && good; k++) {
        const hri_problem_value *v = &p->values[op->out[k].value];
        good = s->fixed[op->out[k].value] && !v->use_count && v->updater == HRI_PROBLEM_NONE;
    }
    for (uint32_t i = 0; i < op->in_count && good; i++) {
        const uint32_t updater = p->values[op->in[i]].updater;
        good = updater == HRI_PROBLEM_NONE || updater == s->entries[e].op;
    }
    return good;
}

/* What is held while entry e waits. */
static uint64_t held_bytes(const hri_schedule *s, uint32_t e) {
    const hri_touch *t = s->touches + s->entries[e].first;
    uint64_t held = 0;
    for (uint32_t i = 0; i < s->p->ops[s->entries[e].op].in_count; i++) {
        const hri_instance *x = &s->instances[t[i].instance];
        held += x->last == e && !s->fixed[x->value] ? s->p->values[x->value].room_bytes : 0;
    }
    return held;
}

static int fits_until(const hri_schedule *s, uint32_t e, uint32_t end, uint64_t held) {
    for (uint32_t k = e + 1; k < end; k++) {
        if (s->live[k] + held > s->limit) {
            return 0;
        }
    }
    return 1;
}

hr_status hri_schedule_gather(hri_schedule *s, uint32_t *moved) {
    struct hri_schedule_scratch *x = s->scratch;
    *moved = 0;
    if (s->net_count) {
        return HR_OK;
    }
    hr_status status = hri_schedule_size_keys(s);
    if (status != HR_OK) {
        return status;
    }
    uint32_t next = s->entry_count; /* the updates that others may join stand before this entry */
    for (uint32_t e = s->entry_count; e-- > 0;) {
        x->keys[e] = 2 * (uint64_t)e + 1;
        if (!may_wait(s, e)) {
            continue;
        }
        const uint64_t held = held_bytes(s, e);
        if (next == e + 1 || !fits_until(s, e, next, held)) {
            next = e;
            continue;
        }
        x->keys[e] = 2 * (uint64_t)next;
        ++*moved;
        for (uint32_t k = e + 1; k < next; k++) {
            s->live[k] += held;
        }
    }
    return *moved ? hri_schedule_reorder(s) : HR_OK;
}
