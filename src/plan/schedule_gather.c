/* Ops of which many go together: see hri_schedule_gather and hri_schedule_gather_again in schedule.h.
 *
 * A device that updates many parameters in one launch takes a fraction of the time of as many launches, but orders that end
 * lives early have each update right behind its gradient.  Here updates wait for the next ones, from the last on, as long as
 * the gradients that are held meanwhile stay under the limit.
 *
 * What runs again does so right before it is read, one by one.  Where that is made of parameters alone, rounded weights say,
 * it comes up to the first of its kind that runs again, as long as what it makes, held from there on, stays under the limit.
 * One that does not get there is the first for those behind it: backward, memory becomes free from op to op. */
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

/* ---- what runs again ---- */

enum { KINDS = 64 }; /* of many: those of greater numbers stay where they are */

/* Is entry e one of many that runs again, and reads nothing but what was there when the step began? */
static int may_hurry(const hri_schedule *s, uint32_t e) {
    const hri_problem *p = s->p;
    if (s->entries[e].kind != HRI_STEP_RUN || s->entries[e].again != HRI_AGAIN) {
        return 0;
    }
    const hri_problem_op *op = &p->ops[s->entries[e].op];
    int good = op->many && op->many < KINDS && op->alone_ns > 0;
    for (uint32_t i = 0; i < op->in_count && good; i++) {
        good = s->fixed[op->in[i]] && p->values[op->in[i]].producer == HRI_PROBLEM_NONE;
    }
    for (uint32_t k = 0; k < op->out_count && good; k++) {
        good = !s->fixed[op->out[k].value];
    }
    return good;
}

/* May what entry e makes be held from behind entry `first` on?  Not while it is still there from the time before. */
static int may_hold(const hri_schedule *s, uint32_t first, uint32_t e, uint64_t *held) {
    const hri_problem_op *op = &s->p->ops[s->entries[e].op];
    const hri_touch *made = s->touches + s->entries[e].first + op->in_count;
    *held = hri_schedule_work_of(s, s->entries[e].op);
    for (uint32_t k = 0; k < op->out_count; k++) {
        const uint32_t older = s->instances[made[k].instance].older;
        if (older != HRI_PROBLEM_NONE && s->instances[older].last >= first) {
            return 0;
        }
        *held += s->p->values[op->out[k].value].room_bytes;
    }
    for (uint32_t k = first; k < e; k++) {
        if (s->live[k] + *held > s->limit) {
            return 0;
        }
    }
    return 1;
}

hr_status hri_schedule_gather_again(hri_schedule *s, uint32_t *moved) {
    struct hri_schedule_scratch *x = s->scratch;
    uint32_t first[KINDS];
    *moved = 0;
    if (s->net_count) {
        return HR_OK;
    }
    const hr_status status = hri_schedule_size_keys(s);
    if (status != HR_OK) {
        return status;
    }
    for (uint32_t k = 0; k < KINDS; k++) {
        first[k] = HRI_PROBLEM_NONE;
    }
    for (uint32_t e = 0; e < s->entry_count; e++) {
        x->keys[e] = 2 * (uint64_t)e + 1;
        if (!may_hurry(s, e)) {
            continue;
        }
        uint32_t *to = &first[s->p->ops[s->entries[e].op].many];
        uint64_t held;
        if (*to == HRI_PROBLEM_NONE || !may_hold(s, *to, e, &held)) {
            *to = e;
            continue;
        }
        x->keys[e] = 2 * ((uint64_t)*to + 1);
        ++*moved;
        for (uint32_t k = *to; k < e; k++) {
            s->live[k] += held;
        }
    }
    return *moved ? hri_schedule_reorder(s) : HR_OK;
}
