/* From a choice to its steps, its time and its bytes: see schedule.h.
 *
 * Two passes.  `generate` walks the base order and decides which ops run: it knows only whether a value is at hand.  It begins where
 * the run may differ from the last one (schedule_rewind.c).
 * hri_schedule_measure walks the entries and finds when each instance dies, which outputs lie over inputs, and how many bytes
 * are alive at each entry.  Nothing is allocated once the arrays have grown to their size. */
#include "plan/schedule.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/vector.h"
#include "plan/schedule_int.h"

/* ---- set-up ---- */

static void set_default_gaps(hri_schedule *s) {
    memset(s->gaps, 0, s->gap_count);
    for (uint32_t v = 0; v < s->p->value_count; v++) {
        if (hri_schedule_can_drop(s, v)) {
            s->gaps[hri_gap_of(s->p, v, s->p->values[v].use_count)] = 1;
        }
    }
}

int hri_schedule_can_drop(const hri_schedule *s, uint32_t v) {
    const uint32_t producer = s->p->values[v].producer;
    return producer != HRI_PROBLEM_NONE && !s->p->ops[producer].once && !s->fixed[v];
}

int hri_schedule_can_copy(const hri_schedule *s) {
    return s->p->memory_count > 0;
}

static int by_number(const void *a, const void *b) {
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

void hri_schedule_set_order(hri_schedule *s, const uint32_t *order) {
    const hri_problem *p = s->p;
    memmove(s->order, order, p->op_count * sizeof *order);
    for (uint32_t t = 0; t < p->op_count; t++) {
        s->position[s->order[t]] = t;
    }
    for (uint32_t v = 0; v < p->value_count; v++) {
        const hri_problem_value *value = &p->values[v];
        uint32_t *at = s->use_at + value->use_first;
        for (uint32_t i = 0; i < value->use_count; i++) {
            at[i] = s->position[p->uses[value->use_first + i]];
        }
        qsort(at, value->use_count, sizeof *at, by_number);
    }
    set_default_gaps(s);
    hri_schedule_rewind_forget(s);
}

static hr_status allocate(hri_schedule *s) {
    const size_t ops = (size_t)s->p->op_count + 1, values = (size_t)s->p->value_count + 1;
    struct hri_schedule_scratch *x = hri_calloc(1, sizeof *x);
    s->scratch = x;
    if (!x) {
        return HR_E_NOMEM_HOST;
    }
    s->order = hri_malloc(ops * sizeof *s->order);
    s->position = hri_malloc(ops * sizeof *s->position);
    s->use_at = hri_malloc(((size_t)s->gap_count + 1) * sizeof *s->use_at);
    s->gaps = hri_calloc((size_t)s->gap_count + 1, 1);
    s->gap_value = hri_malloc(((size_t)s->gap_count + 1) * sizeof *s->gap_value);
    s->variant = hri_calloc(ops, 1);
    s->fixed = hri_calloc(values, 1);
    x->state = hri_calloc(values, sizeof *x->state);
    x->stamp = hri_calloc(ops, sizeof *x->stamp);
    x->burst = hri_malloc(ops * sizeof *x->burst);
    x->stack = hri_malloc(values * sizeof *x->stack);
    x->temporary = hri_malloc(values * sizeof *x->temporary);
    const int all = s->order && s->position && s->use_at && s->gaps && s->gap_value && s->variant &&
                    s->fixed && x->state && x->stamp && x->burst && x->stack && x->temporary;
    return all ? HR_OK : HR_E_NOMEM_HOST;
}

hr_status hri_schedule_init(hri_schedule *s, const hri_problem *p) {
    *s = (hri_schedule){.p = p, .in_place = 1, .limit = UINT64_MAX, .stop_ns = INFINITY};
    s->most_entries = (uint64_t)p->op_count * 64 + 1024;
    for (uint32_t v = 0; v < p->value_count; v++) {
        s->gap_count += p->values[v].use_count + 1;
    }
    const hr_status status = allocate(s);
    if (status != HR_OK) {
        hri_schedule_deinit(s);
        return status;
    }
    for (uint32_t n = 0; n < p->op_count; n++) {
        s->order[n] = n;
        for (uint32_t i = 1; i < p->ops[n].variant_count; i++) {
            if (p->ops[n].variants[i].time_ns < hri_schedule_op_time(s, n)) {
                s->variant[n] = (uint8_t)i;
            }
        }
    }
    for (uint32_t v = 0; v < p->value_count; v++) {
        s->fixed[v] = (uint8_t)hri_is_fixed(p, v);
        for (uint32_t k = 0; k <= p->values[v].use_count; k++) {
            s->gap_value[hri_gap_of(p, v, k)] = v;
        }
    }
    hri_schedule_set_order(s, s->order);
    return HR_OK;
}

void hri_schedule_deinit(hri_schedule *s) {
    struct hri_schedule_scratch *x = s->scratch;
    if (x) {
        hri_schedule_rewind_deinit(x->rewind);
        void *const all[] = {x->state, x->facts,   x->rooms,   x->clock,     x->keys,
                             x->moved, x->where,   x->stamp,   x->burst,     x->stack,
                             x->taken, x->touched, x->written, x->temporary, x};
        for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
            hri_free(all[i]);
        }
    }
    void *const all[] = {s->order, s->position, s->use_at,  s->gaps,      s->gap_value, s->variant,
                         s->fixed, s->entries,  s->touches, s->instances, s->live};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        hri_free(all[i]);
    }
    *s = (hri_schedule){0};
}

/* ---- generate ---- */

static hr_status room(void **items, uint32_t *space, uint32_t wanted, size_t bytes) {
    size_t capacity = *space;
    if (wanted <= *space) {
        return HR_OK;
    }
    const hr_status status = hri_vector_grow(items, &capacity, wanted, bytes);
    *space = status == HR_OK ? (uint32_t)capacity : *space;
    return status;
}

static hr_status make_room(hri_schedule *s, const hri_problem_op *op) {
    if (s->entry_count >= s->most_entries) {
        return HR_E_NO_PLAN;
    }
    if (s->entry_count < s->entry_space &&
        s->touch_count + op->in_count + op->out_count <= s->touch_space &&
        s->instance_count + op->out_count <= s->instance_space) {
        return HR_OK;
    }
    void *entries = s->entries, *touches = s->touches, *instances = s->instances;
    hr_status status = room(&entries, &s->entry_space, s->entry_count + 1, sizeof *s->entries);
    s->entries = entries;
    if (status == HR_OK) {
        status = room(&touches, &s->touch_space, s->touch_count + op->in_count + op->out_count,
                      sizeof *s->touches);
        s->touches = touches;
    }
    if (status == HR_OK) {
        status = room(&instances, &s->instance_space, s->instance_count + op->out_count,
                      sizeof *s->instances);
        s->instances = instances;
    }
    return status;
}

/* The newest instance of `v` begins at this entry. */
static uint32_t new_instance(hri_schedule *s, uint32_t v, uint32_t entry) {
    hri_value_state *state = &s->scratch->state[v];
    const uint32_t i = s->instance_count++;
    s->instances[i] = (hri_instance){v, entry, entry, i, state->current};
    state->current = i;
    return i;
}

/* Somebody asks for the value. */
static inline void note_look(const struct hri_schedule_scratch *x, hri_value_state *state) {
    state->looked = state->looked == HRI_PROBLEM_NONE ? x->now : state->looked;
}

/* The end of the exchange that the last entry starts: it touches the same. */
static hr_status emit_end(hri_schedule *s) {
    const uint32_t net = s->entry_count - 1, n = s->entries[net].op;
    const hri_problem_op all = {.in_count = s->p->ops[n].in_count + s->p->ops[n].out_count};
    const hr_status status = make_room(s, &all);
    if (status != HR_OK) {
        return status;
    }
    const uint32_t entry = s->entry_count++;
    s->entries[entry] = (hri_entry){HRI_STEP_WAIT, 0, 0, n, net, s->touch_count};
    for (uint32_t i = 0; i < all.in_count; i++) {
        const uint32_t instance = s->touches[s->entries[net].first + i].instance;
        s->touches[s->touch_count++] = (hri_touch){instance, HRI_PROBLEM_NONE, 0};
    }
    s->net_count++;
    return HR_OK;
}

static hr_status emit(hri_schedule *s, uint32_t n, uint8_t again) {
    struct hri_schedule_scratch *x = s->scratch;
    const hri_problem *p = s->p;
    const hri_problem_op *op = &p->ops[n];
    const int beside = op->net && s->overlap;
    const hr_status status = make_room(s, op);
    if (status != HR_OK) {
        return status;
    }
    const uint32_t entry = s->entry_count++;
    s->entries[entry] = (hri_entry){
        beside ? HRI_STEP_NET : HRI_STEP_RUN, again, 0, n, HRI_PROBLEM_NONE, s->touch_count};
    hri_touch *t = s->touches + s->touch_count;
    for (uint32_t i = 0; i < op->in_count; i++) {
        const uint32_t v = op->in[i];
        const hri_value_state *in = &x->state[v];
        *t++ = (hri_touch){in->current, s->fixed[v] ? HRI_PROBLEM_NONE : in->gap, in->made};
    }
    s->touch_count += op->in_count + op->out_count;
    for (uint32_t k = 0; k < op->out_count; k++) {
        const uint32_t v = op->out[k].value;
        hri_value_state *out = &x->state[v];
        const int fixed = s->fixed[v], counts = again && !fixed && !out->at_hand;
        if (fixed) { /* the version before it is no more */
            x->state[op->in[op->out[k].updates - 1]].at_hand = 0;
            out->at_hand = 1;
        } else if (again) {
            note_look(x, out);
        }
        *t++ =
            (hri_touch){new_instance(s, v, entry), counts ? out->gap : HRI_PROBLEM_NONE, out->made};
    }
    const double time = hri_schedule_time_of(s, n, again);
    s->time_ns += beside ? 0 : time;
    s->again_ns += again ? time : 0;
    s->again_count += again > 0;
    return beside ? emit_end(s) : HR_OK;
}

/* 2: must be copied in; 1: can be read; 0: must be made again; -1: is lost. */
static int look(const hri_schedule *s, uint32_t v) {
    hri_value_state *state = &s->scratch->state[v];
    note_look(s->scratch, state);
    return state->at_hand ? 1 : state->away ? 2 : state->drops ? 0 : -1;
}

/* An entry of a copy or of a wait, with its one operand. */
static hr_status emit_copy(hri_schedule *s, hri_step_kind kind, uint32_t v, uint32_t memory,
                           uint32_t pair) {
    struct hri_schedule_scratch *x = s->scratch;
    const hri_problem_op one = {.in_count = 1, .out_count = 1};
    const hr_status status = make_room(s, &one);
    if (status != HR_OK) {
        return status;
    }
    const uint32_t entry = s->entry_count++;
    s->entries[entry] = (hri_entry){(uint8_t)kind, 0, (uint8_t)memory, v, pair, s->touch_count};
    if (kind == HRI_STEP_IN) {
        (void)new_instance(s, v, entry);
    }
    s->touches[s->touch_count++] = (hri_touch){x->state[v].current, x->state[v].gap, 0};
    return HR_OK;
}

/* At the start of a gap: the copy, and the wait for it, which is moved later on. */
static hr_status send(hri_schedule *s, uint32_t v) {
    struct hri_schedule_scratch *x = s->scratch;
    x->state[v].away = 1;
    x->state[v].sent = s->entry_count;
    s->copy_count++;
    const uint64_t bytes = s->p->values[v].room_bytes;
    const uint32_t memory = hri_schedule_memory(s, bytes);
    if (!memory) {
        return HR_E_NO_PLAN; /* the sums bound whatever the places of all of them take */
    }
    s->copied_bytes += bytes;
    s->away_bytes[memory - 1] += bytes;
    s->copy_ns[0] += hri_copy_time(s->p, v, memory, 0);
    s->copy_ns[1] += hri_copy_time(s->p, v, memory, 1);
    const hr_status status = emit_copy(s, HRI_STEP_OUT, v, memory, HRI_PROBLEM_NONE);
    return status == HR_OK ? emit_copy(s, HRI_STEP_WAIT, v, memory, s->entry_count - 1) : status;
}

static hr_status fetch(hri_schedule *s, uint32_t v) {
    struct hri_schedule_scratch *x = s->scratch;
    x->state[v].away = 0;
    x->state[v].at_hand = 1;
    const uint32_t sent = x->state[v].sent, memory = s->entries[sent].memory;
    const hr_status status = emit_copy(s, HRI_STEP_IN, v, memory, sent);
    return status == HR_OK ? emit_copy(s, HRI_STEP_WAIT, v, memory, s->entry_count - 1) : status;
}

/* Collects the ops that must run again so that op n finds its inputs; copies in what lies away. */
static hr_status collect(hri_schedule *s, uint32_t n) {
    struct hri_schedule_scratch *x = s->scratch;
    if (++x->burst_number == 0) { /* once in thousands of millions */
        memset(x->stamp, 0, s->p->op_count * sizeof *x->stamp);
        x->burst_number = 1;
    }
    x->burst_count = 0;
    uint32_t next = n;
    for (uint32_t done = 0;; next = x->burst[done++]) {
        const hri_problem_op *op = &s->p->ops[next];
        for (uint32_t i = 0; i < op->in_count; i++) {
            const int found = look(s, op->in[i]);
            if (found < 0) {
                return HR_E_NO_PLAN;
            }
            if (found == 2) {
                const hr_status status = fetch(s, op->in[i]);
                if (status != HR_OK) {
                    return status;
                }
                continue;
            }
            const uint32_t producer = s->p->values[op->in[i]].producer;
            if (found == 0 && x->stamp[producer] != x->burst_number) {
                x->stamp[producer] = x->burst_number;
                x->burst[x->burst_count++] = producer;
            }
        }
        if (done == x->burst_count) {
            return HR_OK;
        }
    }
}

static void sort_burst(hri_schedule *s) {
    struct hri_schedule_scratch *x = s->scratch;
    for (uint32_t i = 0; i < x->burst_count; i++) {
        x->burst[i] = s->position[x->burst[i]];
    }
    if (x->burst_count > 16) {
        qsort(x->burst, x->burst_count, sizeof *x->burst, by_number);
    } else {
        for (uint32_t i = 1; i < x->burst_count; i++) {
            const uint32_t item = x->burst[i];
            uint32_t j = i;
            for (; j > 0 && x->burst[j - 1] > item; j--) {
                x->burst[j] = x->burst[j - 1];
            }
            x->burst[j] = item;
        }
    }
    for (uint32_t i = 0; i < x->burst_count; i++) {
        x->burst[i] = s->order[x->burst[i]];
    }
}

/* What op has just made again is at hand, for good or for this burst. */
static void note_made(hri_schedule *s, const hri_problem_op *op) {
    struct hri_schedule_scratch *x = s->scratch;
    for (uint32_t k = 0; k < op->out_count; k++) {
        const uint32_t v = op->out[k].value;
        hri_value_state *state = &x->state[v];
        if (state->at_hand) {
            continue; /* it was kept; the new one takes its part */
        }
        state->made = (uint8_t)(state->made < 254 ? state->made + 1 : 254);
        state->at_hand = 1;
        if (state->made < s->gaps[state->gap]) {
            x->temporary[x->temporary_count++] = v;
        }
    }
}

static hr_status run_burst(hri_schedule *s) {
    struct hri_schedule_scratch *x = s->scratch;
    x->temporary_count = 0;
    for (uint32_t i = 0; i < x->burst_count; i++) {
        const hri_problem_op *op = &s->p->ops[x->burst[i]];
        const hr_status status = emit(s, x->burst[i], 1);
        if (status != HR_OK) {
            return status;
        }
        note_made(s, op);
    }
    return HR_OK;
}

/* The op beside op n, if it ran before, what it makes first is missing, is read later on and would be kept, and all that it reads is at hand;
 * NONE: there is none. */
static uint32_t find_beside(const hri_schedule *s, uint32_t n) {
    const struct hri_schedule_scratch *x = s->scratch;
    const uint32_t f = hri_problem_beside(s->p, n);
    if (f == HRI_PROBLEM_NONE) {
        return f;
    }
    const hri_problem_op *op = &s->p->ops[f];
    const uint32_t v = op->out[0].value;
    const hri_value_state *state = &x->state[v];
    int good = s->position[f] < s->position[n] && look(s, v) == 0 &&
               state->gap < hri_gap_of(s->p, v, s->p->values[v].use_count) &&
               state->made + 1 >= s->gaps[state->gap];
    for (uint32_t i = 0; i < op->in_count && good; i++) {
        good = look(s, op->in[i]) == 1;
    }
    return good ? f : (uint32_t)HRI_PROBLEM_NONE;
}

static hr_status run_beside(hri_schedule *s, uint32_t n) {
    const uint32_t f = find_beside(s, n);
    const hr_status status = f == HRI_PROBLEM_NONE ? HR_OK : emit(s, f, HRI_AGAIN_BESIDE);
    if (status == HR_OK && f != HRI_PROBLEM_NONE) {
        note_made(s, &s->p->ops[f]);
    }
    return status;
}

/* The value enters this gap. */
static hr_status enter(hri_schedule *s, uint32_t v, uint32_t gap) {
    hri_value_state *state = &s->scratch->state[v];
    const uint8_t choice = s->gaps[gap];
    state->gap = gap;
    state->made = 0;
    state->at_hand = choice == 0;
    state->looked = HRI_PROBLEM_NONE;
    return choice == HRI_GAP_AWAY ? send(s, v) : HR_OK;
}

/* The base op has run: its inputs enter their next gap, its outputs their first. */
static hr_status advance(hri_schedule *s, uint32_t t) {
    struct hri_schedule_scratch *x = s->scratch;
    const hri_problem_op *op = &s->p->ops[s->order[t]];
    hr_status status = HR_OK;
    for (uint32_t i = 0; i < x->temporary_count; i++) {
        x->state[x->temporary[i]].at_hand = 0;
    }
    x->temporary_count = 0;
    for (uint32_t i = 0; i < op->in_count && status == HR_OK; i++) {
        const uint32_t v = op->in[i], gap = x->state[v].gap;
        const hri_problem_value *value = &s->p->values[v];
        if (!s->fixed[v] && gap - v < value->use_first + value->use_count &&
            s->use_at[gap - v] == t) {
            hri_schedule_rewind_leave(s, v);
            status = enter(s, v, gap + 1);
        }
    }
    for (uint32_t k = 0; k < op->out_count && status == HR_OK; k++) {
        const uint32_t v = op->out[k].value;
        status = s->fixed[v] ? HR_OK : enter(s, v, x->state[v].gap);
    }
    return status;
}

static hr_status begin(hri_schedule *s) {
    struct hri_schedule_scratch *x = s->scratch;
    const hri_problem *p = s->p;
    void *instances = s->instances;
    s->entry_count = s->touch_count = s->instance_count = s->again_count = 0;
    s->time_ns = s->again_ns = s->copy_ns[0] = s->copy_ns[1] = 0;
    s->copy_count = s->net_count = 0;
    s->copied_bytes = 0;
    memset(s->away_bytes, 0, sizeof s->away_bytes);
    const hr_status status =
        room(&instances, &s->instance_space, p->value_count, sizeof *s->instances);
    s->instances = instances;
    if (status != HR_OK) {
        return status;
    }
    for (uint32_t v = 0; v < p->value_count; v++) {
        const int there = p->values[v].role != HRI_ROLE_MADE;
        x->state[v] = (hri_value_state){.gap = hri_gap_of(p, v, 0),
                                        .current = HRI_PROBLEM_NONE,
                                        .looked = HRI_PROBLEM_NONE,
                                        .at_hand = (uint8_t)there,
                                        .drops = (uint8_t)hri_schedule_can_drop(s, v)};
        if (there) {
            (void)new_instance(s, v, 0);
        }
    }
    return HR_OK;
}

/* All that happens at position t. */
static hr_status pass(hri_schedule *s, uint32_t t) {
    hr_status status = collect(s, s->order[t]);
    if (status == HR_OK && s->scratch->burst_count) {
        sort_burst(s);
        status = run_burst(s);
    }
    if (status == HR_OK) {
        status = run_beside(s, s->order[t]);
    }
    if (status == HR_OK) {
        status = emit(s, s->order[t], 0);
    }
    if (status == HR_OK && s->time_ns >= s->stop_ns) {
        status = HR_E_NO_PLAN;
    }
    return status == HR_OK ? advance(s, t) : status;
}

static hr_status generate(hri_schedule *s) {
    struct hri_schedule_scratch *x = s->scratch;
    uint32_t t = 0;
    hr_status status = hri_schedule_rewind_to(s, &t);
    if (status == HR_OK && t == 0) {
        status = begin(s);
    }
    s->apart_ns = 0;
    x->temporary_count = 0;
    for (; t < s->p->op_count && status == HR_OK; t++) {
        x->now = t;
        hri_schedule_rewind_mark(s);
        status = pass(s, t);
    }
    hri_schedule_rewind_end(s, status == HR_OK || t == 0 ? t : t - 1);
    return status;
}

/* The schedule with exchanges waited for where they are started, and then as they move; *most: the bytes of the former. */
static hr_status run_once(hri_schedule *s, uint64_t *most) {
    hr_status status = generate(s);
    if (status == HR_OK && (s->net_count || !s->copy_count || s->p->copies_block)) {
        hri_schedule_settle(s); /* copies that are put in order settle it afterwards */
    }
    if (status == HR_OK && s->net_count && !s->at_once) {
        status = hri_schedule_measure(s);
        *most = s->peak_bytes;
        for (uint32_t i = 0; i < s->instance_count; i++) {
            s->instances[i].place = i;
        }
        s->work += s->entry_count;
    }
    if (status == HR_OK && (s->copy_count || s->net_count)) {
        status = hri_schedule_time_copies(s);
    }
    if (status == HR_OK && s->time_ns >= s->stop_ns) {
        status = HR_E_NO_PLAN;
    }
    return status == HR_OK ? hri_schedule_measure(s) : status;
}

hr_status hri_schedule_run(hri_schedule *s) {
    uint64_t most = 0;
    if (hri_schedule_rewind_is_whole(s)) {
        s->work += s->entry_count + 64;
        return HR_OK;
    }
    s->at_once = 0;
    hr_status status = run_once(s, &most);
    if (status == HR_OK && s->net_count && s->peak_bytes > s->limit && most <= s->limit) {
        s->at_once = 1; /* what was in place is no more: rather wait than not fit */
        status = run_once(s, &most);
    }
    if (status == HR_OK && !s->net_count) {
        s->apart_ns = hri_schedule_apart(s);
        s->time_ns += s->apart_ns;
    }
    hri_schedule_rewind_set_whole(s, status == HR_OK && !s->net_count);
    s->work += s->entry_count + 64;
    return status;
}
