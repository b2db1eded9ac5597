/* Shared by the files of the schedule: the state that one run needs, kept from run to run. */
#ifndef HRI_PLAN_SCHEDULE_INT_H
#define HRI_PLAN_SCHEDULE_INT_H

#include "plan/schedule.h"

/* What is known of a value while the base order is walked through. */
typedef struct hri_value_state {
    uint32_t gap;     /* the one it is in: an index into gaps[] */
    uint32_t current; /* newest instance */
    uint32_t sent;    /* the OUT entry that put it into the other memory */
    uint32_t
        looked; /* the position at which somebody first asked for it in this gap; NONE: nobody has */
    uint8_t at_hand; /* can be read now; of versions of a persistent value, only one */
    uint8_t away;    /* lies in the other memory */
    uint8_t made;    /* times made again in the current gap */
    uint8_t drops;   /* may be dropped and made again; never changes */
} hri_value_state;

/* What runs ask of an op again and again, side by side in memory. */
typedef struct hri_op_facts {
    double time_ns[3];   /* first, again, again beside another */
    uint64_t work_bytes; /* room of its work space */
    uint32_t ins, outs;  /* operands */
} hri_op_facts;

struct hri_schedule_rewind; /* schedule_rewind.c */

struct hri_schedule_scratch {
    hri_value_state *state; /* by value */
    uint32_t now;           /* the position in the base order */
    hri_op_facts *facts;    /* by op, with the variants of this run; NULL: not kept */
    uint64_t *rooms; /* by value: its bytes in the arena, 0 of what is fixed; NULL: not kept */
    struct hri_schedule_rewind *rewind; /* NULL: every run begins at the start */
    uint32_t *stamp;                    /* by op: the last burst it was part of */
    uint32_t *burst;                    /* ops of the burst; at most op_count */
    uint32_t *stack;                    /* values still to be looked into */
    uint32_t *temporary;                /* values made in this burst that are not kept */
    uint32_t *taken;                    /* by instance: the entry that took its memory over */
    uint32_t taken_space;
    double *clock;  /* by entry: compute time before it */
    uint64_t *keys; /* by entry: where it goes */
    hri_entry *moved;
    uint32_t *where;
    uint32_t copy_space;
    uint32_t *touched; /* by instance: the next entry that touches it */
    uint32_t *written; /* by value that is a root: the next entry that writes it */
    uint32_t touched_space;
    uint32_t burst_count, stack_count, temporary_count, burst_number;
};

/* When instances are made and last touched, from the entries as they stand; none lies over another. */
void hri_schedule_settle(hri_schedule *s);
/* Bytes at each entry, and the peak.  HR_E_NO_PLAN as soon as the limit is exceeded, where only a schedule that is faster than
 * stop_ns is wanted. */
HR_MUST_CHECK hr_status hri_schedule_measure(hri_schedule *s);
/* Moves waits, copies and exchanges to where they cost least, and predicts the time with what waiting is left.  With
 * exchanges, s->live is that of the entries as they stand. */
HR_MUST_CHECK hr_status hri_schedule_time_copies(hri_schedule *s);
/* Of that, the keys of exchanges and of the waits for them; x->clock has the compute time before each entry. */
HR_MUST_CHECK hr_status hri_schedule_place_nets(hri_schedule *s);
/* After a run: what is lost because ops that go together are apart, and the limit does not let them come together. */
double hri_schedule_apart(const hri_schedule *s);
/* Room for the keys of all entries: twice the entry that an entry goes before, odd for those that stay. */
HR_MUST_CHECK hr_status hri_schedule_size_keys(hri_schedule *s);
/* Puts the entries in the order of their keys; pairs and lives follow. */
HR_MUST_CHECK hr_status hri_schedule_put_in_order(hri_schedule *s);
/* The same, and measures them anew.  What is fixed stays in its order: that is for who sets the keys. */
HR_MUST_CHECK hr_status hri_schedule_reorder(hri_schedule *s);
/* The first entry in [low, high] that begins at `time` or later. */
uint32_t hri_schedule_entry_at(const double *clock, uint32_t low, uint32_t high, double time);

/* ---- beginning a run in the middle: schedule_rewind.c ---- */

HR_MUST_CHECK hr_status hri_schedule_rewind_init(hri_schedule *s);
void hri_schedule_rewind_deinit(struct hri_schedule_rewind *r);
/* Another base order. */
void hri_schedule_rewind_forget(hri_schedule *s);
/* The position from which on this run may differ from the last, 0 when nothing is known: entries, states and sums before it are
 * those of the last run.  op_count: nothing differs. */
HR_MUST_CHECK hr_status hri_schedule_rewind_to(hri_schedule *s, uint32_t *position);
/* Position x->now begins.  Cheap. */
void hri_schedule_rewind_mark(hri_schedule *s);
/* The walk ended: before position `known`, or with all of them. */
void hri_schedule_rewind_end(hri_schedule *s, uint32_t known);
/* The value leaves its gap. */
void hri_schedule_rewind_leave(hri_schedule *s, uint32_t value);
/* The entries are about to be put into another order. */
HR_MUST_CHECK hr_status hri_schedule_rewind_save(hri_schedule *s);
/* The schedule stands as the last run left it, with this limit (set), or no longer. */
void hri_schedule_rewind_set_whole(hri_schedule *s, int whole);
int hri_schedule_rewind_is_whole(const hri_schedule *s);

/* Of an entry that runs op n. */
static inline double hri_schedule_time_of(const hri_schedule *s, uint32_t n, int again) {
    const hri_op_facts *facts = s->scratch->facts;
    return facts ? facts[n].time_ns[again] : hri_schedule_run_time(s, n, again);
}
/* The room of its work space. */
static inline uint64_t hri_schedule_work_of(const hri_schedule *s, uint32_t n) {
    const hri_op_facts *facts = s->scratch->facts;
    return facts ? facts[n].work_bytes
                 : hri_problem_room(s->p, s->p->ops[n].variants[s->variant[n]].workspace_bytes);
}
/* What the value takes of the arena beside what is fixed. */
static inline uint64_t hri_schedule_room_of(const hri_schedule *s, uint32_t v) {
    return s->scratch->rooms ? s->scratch->rooms[v] : s->fixed[v] ? 0 : s->p->values[v].room_bytes;
}

#endif
