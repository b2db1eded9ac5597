/* Beginning a run of a schedule in the middle.
 *
 * A search changes one gap, runs the schedule, and changes it back, hundreds of thousands of times.  What comes before the first
 * position at which a change can be noticed is the same as in the last run: there the entries stay, and the walk goes on from
 * a mark, a copy of all that it knows at a position.  A gap that is changed is not noticed where it begins but where somebody first
 * asks for its value, most often far behind in the backward part; only a copy away is noticed at once.
 *
 * Sums are kept in the marks as they were added up, so a run from a mark gives the same numbers, to the last bit. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "plan/schedule_int.h"

enum { MARKS = 16, NONE = HRI_PROBLEM_NONE };

/* What a walk has come to. */
typedef struct mark {
    uint32_t position;
    uint32_t entry_count, touch_count, instance_count, again_count, copy_count, net_count;
    double time_ns, again_ns, copy_ns[2];
    uint64_t copied_bytes, away_bytes[HRI_PROBLEM_MEMORIES_MAX];
} mark;

struct hri_schedule_rewind {
    uint8_t *gaps, *variant; /* of the last run */
    uint32_t *looked;        /* by gap that was left: where its value was first asked for */
    hri_entry
        *plain; /* the entries as they were walked through, if they are in another order now */
    uint32_t plain_space;
    hri_value_state *states; /* (MARKS, values) */
    mark marks[MARKS], end;  /* by position, rising */
    uint32_t mark_count;
    uint32_t known;    /* positions that the last run got through */
    uint8_t reordered; /* entries are in `plain` */
    uint8_t whole;     /* the schedule stands as the last run left it */
    /* That run's. */
    uint8_t in_place, overlap;
    uint64_t limit, most_entries, away_limits[HRI_PROBLEM_MEMORIES_MAX];
};

hr_status hri_schedule_rewind_init(hri_schedule *s) {
    const size_t values = (size_t)s->p->value_count + 1, gaps = (size_t)s->gap_count + 1;
    const size_t ops = (size_t)s->p->op_count + 1;
    struct hri_schedule_scratch *x = s->scratch;
    struct hri_schedule_rewind *r = hri_calloc(1, sizeof *r);
    if (!r) {
        return HR_E_NOMEM_HOST;
    }
    x->rewind = r;
    x->facts = hri_malloc(ops * sizeof *x->facts);
    x->rooms = hri_malloc(values * sizeof *x->rooms);
    r->gaps = hri_malloc(gaps);
    r->variant = hri_malloc(ops);
    r->looked = hri_malloc(gaps * sizeof *r->looked);
    r->states = hri_malloc(MARKS * values * sizeof *r->states);
    if (!x->facts || !x->rooms || !r->gaps || !r->variant || !r->looked || !r->states) {
        hri_free(x->facts);
        hri_free(x->rooms);
        x->facts = NULL;
        x->rooms = NULL;
        hri_schedule_rewind_deinit(r);
        x->rewind = NULL;
        return HR_E_NOMEM_HOST;
    }
    for (uint32_t v = 0; v < s->p->value_count; v++) {
        x->rooms[v] = s->fixed[v] ? 0 : s->p->values[v].room_bytes;
    }
    memset(r->looked, 0xff, gaps * sizeof *r->looked);
    memset(r->variant, 0xff, ops); /* no op has so many: all facts are set */
    return HR_OK;
}

void hri_schedule_rewind_deinit(struct hri_schedule_rewind *r) {
    if (r) {
        hri_free(r->gaps);
        hri_free(r->variant);
        hri_free(r->looked);
        hri_free(r->plain);
        hri_free(r->states);
        hri_free(r);
    }
}

void hri_schedule_rewind_forget(hri_schedule *s) {
    struct hri_schedule_rewind *r = s->scratch->rewind;
    if (r) {
        r->known = 0;
        r->whole = 0;
    }
}

static mark mark_of(const hri_schedule *s, uint32_t position) {
    mark m = {.position = position,
              .entry_count = s->entry_count,
              .touch_count = s->touch_count,
              .instance_count = s->instance_count,
              .again_count = s->again_count,
              .copy_count = s->copy_count,
              .net_count = s->net_count,
              .time_ns = s->time_ns,
              .again_ns = s->again_ns,
              .copy_ns = {s->copy_ns[0], s->copy_ns[1]},
              .copied_bytes = s->copied_bytes};
    memcpy(m.away_bytes, s->away_bytes, sizeof m.away_bytes);
    return m;
}

static void go_back(hri_schedule *s, const mark *m) {
    struct hri_schedule_rewind *r = s->scratch->rewind;
    s->entry_count = m->entry_count;
    s->touch_count = m->touch_count;
    s->instance_count = m->instance_count;
    s->again_count = m->again_count;
    s->copy_count = m->copy_count;
    s->net_count = m->net_count;
    s->time_ns = m->time_ns;
    s->again_ns = m->again_ns;
    s->copy_ns[0] = m->copy_ns[0];
    s->copy_ns[1] = m->copy_ns[1];
    s->copied_bytes = m->copied_bytes;
    memcpy(s->away_bytes, m->away_bytes, sizeof m->away_bytes);
    if (r->reordered) {
        memcpy(s->entries, r->plain, m->entry_count * sizeof *s->entries);
    }
}

/* The position behind which the gap begins; NONE: at none, its value is there from the start. */
static uint32_t start_of(const hri_schedule *s, uint32_t gap) {
    const uint32_t v = s->gap_value[gap], first = hri_gap_of(s->p, v, 0);
    const uint32_t producer = s->p->values[v].producer;
    return gap > first        ? s->use_at[gap - v - 1]
           : producer == NONE ? (uint32_t)NONE
                              : s->position[producer];
}

/* The first position that may notice that the gap's number is another one. */
static uint32_t noticed_at(const hri_schedule *s, uint32_t gap) {
    const struct hri_schedule_rewind *r = s->scratch->rewind;
    const hri_value_state *state = &s->scratch->state[s->gap_value[gap]];
    const uint32_t start = start_of(s, gap);
    if (start == NONE || r->gaps[gap] == HRI_GAP_AWAY || s->gaps[gap] == HRI_GAP_AWAY) {
        return start;
    }
    const uint32_t looked = state->gap == gap ? state->looked : r->looked[gap];
    return looked > start ? looked : start;
}

/* The next gap from `gap` on that differs from the last run's; gap_count: none does. */
static uint32_t next_changed(const hri_schedule *s, uint32_t gap) {
    const uint8_t *was = s->scratch->rewind->gaps, *now = s->gaps;
    for (; gap + 64 <= s->gap_count && memcmp(was + gap, now + gap, 64) == 0; gap += 64) {
    }
    for (; gap < s->gap_count && was[gap] == now[gap]; gap++) {
    }
    return gap;
}

static uint32_t first_noticed(const hri_schedule *s) {
    const struct hri_schedule_rewind *r = s->scratch->rewind;
    uint32_t first = r->known;
    if (r->overlap != s->overlap || r->most_entries != s->most_entries ||
        memcmp(r->away_limits, s->away_limits, sizeof r->away_limits) != 0) {
        return 0;
    }
    for (uint32_t g = next_changed(s, 0); g < s->gap_count; g = next_changed(s, g + 1)) {
        const uint32_t at = noticed_at(s, g);
        first = at < first ? at : first;
    }
    for (uint32_t n = 0; n < s->p->op_count; n++) {
        first = r->variant[n] != s->variant[n] && s->position[n] < first ? s->position[n] : first;
    }
    return first;
}

/* Gaps that had begun and were not asked for, in all marks that are left and at the end: whether their values are at hand. */
static void change_states(hri_schedule *s) {
    struct hri_schedule_rewind *r = s->scratch->rewind;
    for (uint32_t g = next_changed(s, 0); g < s->gap_count; g = next_changed(s, g + 1)) {
        const uint32_t start = start_of(s, g), v = s->gap_value[g];
        for (uint32_t i = r->mark_count; i-- > 0 && r->marks[i].position > start;) {
            hri_value_state *state = &r->states[(size_t)i * s->p->value_count + v];
            state->at_hand = state->gap == g ? s->gaps[g] == 0 : state->at_hand;
        }
        hri_value_state *last = &s->scratch->state[v];
        last->at_hand = last->gap == g && start != NONE ? s->gaps[g] == 0 : last->at_hand;
    }
}

static void set_facts(hri_schedule *s) {
    for (uint32_t n = 0; n < s->p->op_count; n++) {
        const hri_problem_op *op = &s->p->ops[n];
        hri_op_facts *facts = &s->scratch->facts[n];
        for (int again = 0; again < 3; again++) {
            facts->time_ns[again] = hri_schedule_run_time(s, n, again);
        }
        facts->work_bytes = hri_problem_room(s->p, op->variants[s->variant[n]].workspace_bytes);
        facts->ins = op->in_count;
        facts->outs = op->out_count;
    }
}

static void take_over(hri_schedule *s) {
    struct hri_schedule_rewind *r = s->scratch->rewind;
    if (memcmp(r->variant, s->variant, s->p->op_count) != 0) {
        set_facts(s);
    }
    memcpy(r->gaps, s->gaps, s->gap_count);
    memcpy(r->variant, s->variant, s->p->op_count);
    memcpy(r->away_limits, s->away_limits, sizeof r->away_limits);
    r->most_entries = s->most_entries;
    r->overlap = s->overlap;
    r->whole = r->reordered = 0;
}

hr_status hri_schedule_rewind_to(hri_schedule *s, uint32_t *position) {
    const hr_status status = s->scratch->rewind || s->frugal ? HR_OK : hri_schedule_rewind_init(s);
    struct hri_schedule_rewind *r = s->scratch->rewind;
    *position = 0;
    if (status != HR_OK || !r) {
        return status;
    }
    const size_t values = s->p->value_count;
    const uint32_t first = first_noticed(s);
    if (first == s->p->op_count && r->end.time_ns < s->stop_ns) {
        change_states(s);
        go_back(s, &r->end);
        *position = first;
        take_over(s);
        return HR_OK;
    }
    while (r->mark_count && (r->marks[r->mark_count - 1].position > first ||
                             r->marks[r->mark_count - 1].time_ns >= s->stop_ns)) {
        r->mark_count--; /* a run that is too slow ends where it was too slow first */
    }
    if (r->mark_count) {
        const mark *m = &r->marks[r->mark_count - 1];
        change_states(s);
        memcpy(s->scratch->state, r->states + (r->mark_count - 1) * values,
               values * sizeof *r->states);
        go_back(s, m);
        *position = m->position;
    }
    take_over(s);
    return HR_OK;
}

/* Was what is tried noticed before this position?  Marks from there on would go with it. */
static int is_past_trial(const hri_schedule *s) {
    const uint32_t at = s->trial - 1;
    if (at >= s->gap_count) {
        return s->position[at - s->gap_count] < s->scratch->now;
    }
    const hri_value_state *state = &s->scratch->state[s->gap_value[at]];
    return state->gap > at || (state->gap == at && state->looked != NONE);
}

void hri_schedule_rewind_mark(hri_schedule *s) {
    struct hri_schedule_rewind *r = s->scratch->rewind;
    const uint32_t t = s->scratch->now, every = s->p->op_count / (MARKS + 1) + 1;
    if (!r || t == 0 || t % every || (r->mark_count && r->marks[r->mark_count - 1].position >= t) ||
        (s->trial && is_past_trial(s))) {
        return;
    }
    const size_t values = s->p->value_count;
    memcpy(r->states + r->mark_count * values, s->scratch->state, values * sizeof *r->states);
    r->marks[r->mark_count++] = mark_of(s, t);
}

void hri_schedule_rewind_end(hri_schedule *s, uint32_t known) {
    struct hri_schedule_rewind *r = s->scratch->rewind;
    if (r) {
        r->known = known;
        r->end = mark_of(s, known);
    }
}

void hri_schedule_rewind_leave(hri_schedule *s, uint32_t v) {
    const hri_value_state *state = &s->scratch->state[v];
    if (s->scratch->rewind) {
        s->scratch->rewind->looked[state->gap] = state->looked;
    }
}

hr_status hri_schedule_rewind_save(hri_schedule *s) {
    struct hri_schedule_rewind *r = s->scratch->rewind;
    if (!r || r->reordered) {
        return HR_OK;
    }
    if (r->plain_space < s->entry_count) {
        hri_entry *plain = hri_realloc(r->plain, (size_t)s->entry_space * sizeof *plain);
        if (!plain) {
            return HR_E_NOMEM_HOST;
        }
        r->plain = plain;
        r->plain_space = s->entry_space;
    }
    memcpy(r->plain, s->entries, s->entry_count * sizeof *s->entries);
    r->reordered = 1;
    return HR_OK;
}

void hri_schedule_rewind_set_whole(hri_schedule *s, int whole) {
    struct hri_schedule_rewind *r = s->scratch->rewind;
    if (r) {
        r->whole = whole != 0;
        r->limit = s->limit;
        r->in_place = s->in_place;
    }
}

int hri_schedule_rewind_is_whole(const hri_schedule *s) {
    const struct hri_schedule_rewind *r = s->scratch->rewind;
    return r && r->whole && r->limit == s->limit && r->in_place == s->in_place &&
           r->overlap == s->overlap && r->most_entries == s->most_entries && isinf(s->stop_ns) &&
           memcmp(r->away_limits, s->away_limits, sizeof r->away_limits) == 0 &&
           memcmp(r->gaps, s->gaps, s->gap_count) == 0 &&
           memcmp(r->variant, s->variant, s->p->op_count) == 0;
}
