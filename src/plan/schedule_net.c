/* Exchanges in a schedule: where each is started and waited for.
 *
 * generate() puts an exchange and its wait side by side.  Here the start moves forward, so that what is gathered has arrived
 * when it is read, and the wait moves back to where the exchange is over by itself, or somebody needs what it works on; both as
 * far as the limit has room for what lives longer.  The order of exchanges stays: ranks that plan with other times still meet.
 *
 * Waiting where it was started is always possible, so there is nothing here that makes a plan impossible. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "plan/schedule_int.h"

enum {
    EARLY = 2
}; /* started so many times its length before it is needed: times are predictions */

static hr_status size_up(hri_schedule *s) {
    struct hri_schedule_scratch *x = s->scratch;
    if (!x->written) {
        x->written = hri_malloc(((size_t)s->p->value_count + 1) * sizeof *x->written);
    }
    if (x->touched_space < s->instance_space) {
        uint32_t *touched = hri_realloc(x->touched, (size_t)s->instance_space * sizeof *x->touched);
        x->touched = touched ? touched : x->touched;
        x->touched_space = touched ? s->instance_space : x->touched_space;
    }
    return x->written && x->touched_space >= s->instance_space ? HR_OK : HR_E_NOMEM_HOST;
}

static uint32_t earlier(uint32_t a, uint32_t b) {
    return a < b ? a : b;
}

/* By NET entry, into x->where: the entry that needs what it works on, before which its wait must be. */
static void find_needs(hri_schedule *s) {
    struct hri_schedule_scratch *x = s->scratch;
    memset(x->touched, 0xff, s->instance_count * sizeof *x->touched);
    memset(x->written, 0xff, s->p->value_count * sizeof *x->written);
    for (uint32_t e = s->entry_count; e-- > 0;) {
        const uint32_t ins = hri_entry_ins(s, e), outs = hri_entry_outs(s, e);
        const hri_touch *t = s->touches + s->entries[e].first;
        uint32_t need = s->entry_count;
        if (hri_entry_ends_net(s, e)) {
            continue;
        }
        for (uint32_t i = 0; i < ins + outs; i++) {
            const uint32_t v = s->instances[t[i].instance].value;
            if (s->fixed[v]) {
                need = earlier(need, x->written[s->p->values[v].root]);
            }
            if (i >= ins) {
                need = earlier(need, x->touched[t[i].instance]);
            }
        }
        for (uint32_t i = 0; i < ins + outs; i++) {
            const uint32_t v = s->instances[t[i].instance].value;
            x->touched[t[i].instance] = e;
            if (i >= ins && s->fixed[v]) {
                x->written[s->p->values[v].root] = e;
            }
        }
        if (s->entries[e].kind == HRI_STEP_NET) {
            x->where[e] = need;
        }
    }
}

/* The first place where everything is there that the exchange at entry e reads; e: it had better stay. */
static uint32_t first_start(const hri_schedule *s, uint32_t e) {
    const hri_problem_op *op = &s->p->ops[s->entries[e].op];
    const hri_touch *t = s->touches + s->entries[e].first;
    uint32_t first = 0;
    for (uint32_t k = 0; k < op->out_count; k++) {
        if (s->fixed[op->out[k].value]) {
            return e; /* others read what it overwrites */
        }
    }
    for (uint32_t i = 0; i < op->in_count; i++) {
        const hri_instance *x = &s->instances[t[i].instance];
        if (s->p->values[x->value].producer == HRI_PROBLEM_NONE && x->older == HRI_PROBLEM_NONE) {
            continue; /* there from the start */
        }
        if (s->entries[x->birth].kind != HRI_STEP_RUN) {
            return e; /* it comes by a copy or an exchange, whose wait may move */
        }
        first = x->birth + 1 > first ? x->birth + 1 : first;
    }
    return first < e ? first : e;
}

/* Bytes that live longer: of outputs when it is started earlier, of inputs that die with it when it ends later. */
static uint64_t held_bytes(const hri_schedule *s, uint32_t e, int later) {
    const hri_problem_op *op = &s->p->ops[s->entries[e].op];
    const hri_touch *t = s->touches + s->entries[e].first + (later ? 0 : op->in_count);
    const uint32_t count = later ? op->in_count : op->out_count;
    uint64_t bytes =
        hri_problem_room(s->p, op->variants[s->variant[s->entries[e].op]].workspace_bytes);
    for (uint32_t i = 0; i < count; i++) {
        const hri_instance *x = &s->instances[t[i].instance];
        bytes += s->fixed[x->value] || (later && x->last > e + 1)
                     ? 0
                     : s->p->values[x->value].room_bytes;
    }
    return bytes;
}

/* Of entries [from, to): as far as the limit allows, from the front on or from the end on; and they hold it now. */
static uint32_t extend(hri_schedule *s, uint32_t from, uint32_t to, int backward, uint64_t bytes) {
    uint32_t at = backward ? to : from;
    while (backward ? at > from : at < to) {
        const uint32_t next = backward ? at - 1 : at;
        if (s->live[next] > s->limit || bytes > s->limit - s->live[next]) {
            break;
        }
        s->live[next] += bytes;
        at = backward ? next : at + 1;
    }
    return at;
}

/* Latest starts, from the end: x->keys of a NET is where it should begin. */
static void wish_starts(hri_schedule *s) {
    struct hri_schedule_scratch *x = s->scratch;
    double wire = INFINITY;
    for (uint32_t e = s->entry_count; e-- > 0;) {
        if (s->entries[e].kind != HRI_STEP_NET) {
            continue;
        }
        const uint32_t need = x->where[e];
        const double time = hri_schedule_op_time(s, s->entries[e].op);
        const double needed = need < s->entry_count ? x->clock[need] : INFINITY;
        const double by = wire < needed ? wire : needed;
        wire = by - time;
        const uint32_t first = first_start(s, e);
        uint32_t at =
            by < INFINITY ? hri_schedule_entry_at(x->clock, first, e, by - EARLY * time) : e;
        at -= at > first && x->clock[at] > by - EARLY * time;
        x->keys[e] = at;
    }
}

hr_status hri_schedule_place_nets(hri_schedule *s) {
    struct hri_schedule_scratch *x = s->scratch;
    const hr_status status = size_up(s);
    uint32_t before = 0;
    double wire = 0;
    if (status != HR_OK) {
        return status;
    }
    find_needs(s);
    wish_starts(s);
    for (uint32_t e = 0; e < s->entry_count; e++) {
        if (s->entries[e].kind != HRI_STEP_NET) {
            continue;
        }
        const uint32_t wish = (uint32_t)x->keys[e] > before ? (uint32_t)x->keys[e] : before;
        const uint32_t start = extend(s, wish, e, 1, held_bytes(s, e, 0));
        const double begin = wire > x->clock[start] ? wire : x->clock[start];
        wire = begin + hri_schedule_op_time(s, s->entries[e].op);
        const uint32_t need = x->where[e];
        const uint32_t over =
            need > e + 2 ? hri_schedule_entry_at(x->clock, e + 2, need, wire) : e + 2;
        const uint32_t wait = extend(s, e + 2, over, 0, held_bytes(s, e, 1));
        x->keys[e] = start < e ? 2 * (uint64_t)start : 2 * (uint64_t)e + 1;
        x->keys[e + 1] = wait > e + 2 ? 2 * (uint64_t)wait : 2 * ((uint64_t)e + 1) + 1;
        before = start;
    }
    return HR_OK;
}
