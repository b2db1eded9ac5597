/* Schedules: a base order of the ops and, for every value and every gap between its uses, one small number.
 *
 * The one idea of the planner.  Let the uses of a value in the base order cut its life into gaps: gap 0 ends with its
 * first use, gap k with the use after the k-th, and the last gap (the tail) begins with the last use.  For each gap a
 * number says how often the value is let go in it:
 *     0  kept from the start of the gap to its end;
 *     1  dropped; made again when somebody needs it, and kept from then on;
 *     k  dropped k times: made again whenever needed, kept only from the k-th time on.
 * The steps follow from these numbers: before each op of the base order, the ops that make what is missing are run
 * again, in base order, each once (the minimal completion).  Keeping everything, checkpoints, nested checkpoints at
 * any depth and mixtures of them are all points of this space, for any graph, with cut points or without.
 *
 * When a value dies is not decided but read off: after its last reader.  So keeping what nobody needs costs nothing.
 *
 * Where an op is about to run that has another beside it, what that makes is missing and needed later, and all is at hand that
 * it reads, it runs again there: that is cheaper than later.
 *
 * AWAY in place of a number: the value is copied to the other memory at the start of the gap, and back in time for
 * the next need.  Copies take the queues of plan.h; where they are started and waited for follows from the times.
 *
 * Where ranks exchange bytes, an exchange is started and waited for like a copy; it follows from the times and the limit as
 * well (schedule_net.c).
 *
 * hri_schedule_run is the planner's only judge: time, bytes at every step, steps.  O(steps). */
#ifndef HRI_PLAN_SCHEDULE_H
#define HRI_PLAN_SCHEDULE_H

#include "plan/plan.h"

enum { HRI_GAP_AWAY = 255, HRI_GAP_MOST = 100 };
/* Starts keep values of no more than this part of the limit: moments and the like, whose making may be dear.  The search
 * may still drop them. */
enum { HRI_SMALL = 16384 };

/* Of an entry: the op runs again; and right before the op that it is beside of (problem.h), in one launch with that. */
enum { HRI_AGAIN = 1, HRI_AGAIN_BESIDE };

/* One thing done, before buffers have addresses.  OUT, IN and WAIT for them: `op` is the value; `pair` is, of an IN, the
 * entry of the OUT before it, and of a WAIT that of the copy or the exchange.  A WAIT for an exchange has its op, and touches
 * all that it works on. */
typedef struct hri_entry {
    uint8_t kind, again; /* 0 or one of the above */
    uint8_t memory;      /* of a copy: which */
    uint32_t op;
    uint32_t pair;
    uint32_t first; /* into touches: inputs, then outputs (made instances) */
} hri_entry;

/* An operand of an entry. */
typedef struct hri_touch {
    uint32_t instance;
    uint32_t
        gap; /* index into gaps[]: of a read, the gap it ends; of a value made again, the gap it fell into;
                       else NONE */
    uint8_t count; /* how often the value had been made in that gap */
} hri_touch;

/* A stretch of memory holding one value, or one after the other in place. */
typedef struct hri_instance {
    uint32_t value;
    uint32_t birth, last; /* entries: made at, last touched at */
    uint32_t place;       /* the instance whose memory it took over; itself: its own */
    uint32_t older;       /* the instance of the same value before it */
} hri_instance;

typedef struct hri_schedule {
    const hri_problem *p;
    /* The base order. */
    uint32_t *order, *position; /* position -> op, op -> position */
    uint32_t *use_at;           /* positions of uses of each value, rising; indexed like p->uses */
    /* The choice. */
    uint8_t *gaps;    /* of value v: gaps[p->values[v].use_first + v + k] */
    uint8_t *variant; /* by op */
    uint32_t gap_count;
    uint32_t *gap_value;         /* which value a gap is of */
    uint8_t *fixed;              /* by value: persistent or constant, in any version */
    uint8_t in_place;            /* 0: outputs never overwrite inputs */
    uint8_t overlap;             /* 1: exchanges go on beside what is computed */
    uint8_t at_once;             /* 1: for this run each is waited for where it is started */
    uint8_t no_copies, no_drops; /* for the search: what it may not do */
    uint8_t frugal; /* 1: no memory for what only makes runs quicker; before the first */
    uint32_t trial; /* 1 + the gap, or the count of gaps + the op, that differs for this run and is
                              most likely set back after it; 0: none.  Only makes runs quicker */
    uint64_t most_entries; /* run() gives up with HR_E_NO_PLAN when it gets longer than this */
    /* All copies to a memory together may take so much of it; 0: no bound. */
    uint64_t away_limits[HRI_PROBLEM_MEMORIES_MAX];
    /* What run() found. */
    hri_entry *entries;
    hri_touch *touches;
    hri_instance *instances;
    uint64_t *live; /* bytes at each entry, persistent ones not counted */
    uint32_t entry_count, touch_count, instance_count;
    uint32_t entry_space, touch_space, instance_space;
    uint64_t peak_bytes; /* persistent ones not counted */
    uint32_t peak_entry;
    double time_ns, again_ns;
    double apart_ns; /* of time_ns: lost by ops that would go together and cannot */
    uint32_t again_count;
    uint32_t copy_count;                           /* OUT entries */
    uint32_t net_count;                            /* NET entries */
    uint64_t copied_bytes;                         /* by them */
    uint64_t away_bytes[HRI_PROBLEM_MEMORIES_MAX]; /* of them, to each memory */
    double copy_ns[2]; /* the queues of copies out and in are busy for so long */
    uint64_t over;     /* sum over entries of bytes above `limit` */
    uint64_t limit;
    double stop_ns; /* run() gives up with HR_E_NO_PLAN when it gets as slow as this */
    uint64_t work;  /* entries simulated so far: the measure of effort */
    struct hri_schedule_scratch *scratch;
} hri_schedule;

/* Keeps everything in the problem's own order, fastest variants. */
HR_MUST_CHECK hr_status hri_schedule_init(hri_schedule *s, const hri_problem *p);
void hri_schedule_deinit(hri_schedule *s);
/* Is there another memory to copy to? */
int hri_schedule_can_copy(const hri_schedule *s);
/* Another base order (copied).  Resets the gaps to their defaults. */
void hri_schedule_set_order(hri_schedule *s, const uint32_t *order);
/* May the value be dropped and made again? */
int hri_schedule_can_drop(const hri_schedule *s, uint32_t value);

/* HR_OK, HR_E_NO_PLAN when the choice cannot be carried out (something to be made again needs a value that was
 * overwritten) or becomes absurdly long, HR_E_NOMEM_HOST. */
HR_MUST_CHECK hr_status hri_schedule_run(hri_schedule *s);

/* After a run: brings ops that go together (`joins` and `after` of problem.h) next to one another where the limit bears it.  The next run
 * undoes it.  *moved: so many were apart. */
HR_MUST_CHECK hr_status hri_schedule_join(hri_schedule *s, uint32_t *moved);
/* After a run, too: updates that nobody waits for come next to one another where the limit bears it.  A schedule with
 * exchanges stays as it is. */
HR_MUST_CHECK hr_status hri_schedule_gather(hri_schedule *s, uint32_t *moved);
/* The same of ops of one kind that run again and read parameters alone: they come up to the first of them. */
HR_MUST_CHECK hr_status hri_schedule_gather_again(hri_schedule *s, uint32_t *moved);
/* The time of the entries as they stand: ops save what they do together only where they are neighbours. */
double hri_schedule_joined_time(const hri_schedule *s);

static inline uint32_t hri_gap_of(const hri_problem *p, uint32_t value, uint32_t k) {
    return p->values[value].use_first + value + k;
}
static inline double hri_schedule_op_time(const hri_schedule *s, uint32_t op) {
    return s->p->ops[op].variants[s->variant[op]].time_ns;
}
/* What op n saves when it makes its first input itself. */
static inline double hri_schedule_joined_ns(const hri_schedule *s, uint32_t n) {
    const uint32_t maker = hri_problem_joined(s->p, n);
    return maker == HRI_PROBLEM_NONE ? 0
                                     : hri_problem_joined_ns(s->p, n, hri_schedule_op_time(s, n),
                                                             hri_schedule_op_time(s, maker));
}
/* What op n saves when it runs again beside another: that cannot make its first input itself then. */
static inline double hri_schedule_beside_ns(const hri_schedule *s, uint32_t n) {
    const uint32_t of = s->p->ops[n].beside_of;
    const double saved = hri_problem_beside_share(s->p, n) * hri_schedule_op_time(s, n);
    const double lost = of ? hri_schedule_joined_ns(s, of - 1) : 0;
    return saved > lost ? saved - lost : 0;
}
/* Of op n where it runs again: one of many has hardly any of them beside it then. */
static inline double hri_schedule_again_time(const hri_schedule *s, uint32_t n) {
    const hri_problem_op *op = &s->p->ops[n];
    return hri_schedule_op_time(s, n) + (op->many ? op->alone_ns : 0);
}
/* Of an entry that runs op n.  Until they are placed, ops that may go together do so, the first time they run. */
static inline double hri_schedule_run_time(const hri_schedule *s, uint32_t n, int again) {
    return again == HRI_AGAIN_BESIDE ? hri_schedule_op_time(s, n) - hri_schedule_beside_ns(s, n)
           : again                   ? hri_schedule_again_time(s, n)
                                     : hri_schedule_op_time(s, n) - hri_schedule_joined_ns(s, n);
}
/* Does the entry run an op, at once or beside others? */
static inline int hri_entry_runs(const hri_schedule *s, uint32_t e) {
    return s->entries[e].kind == HRI_STEP_RUN || s->entries[e].kind == HRI_STEP_NET;
}
static inline int hri_entry_ends_net(const hri_schedule *s, uint32_t e) {
    return s->entries[e].kind == HRI_STEP_WAIT &&
           s->entries[s->entries[e].pair].kind == HRI_STEP_NET;
}
/* Operands of an entry. */
static inline uint32_t hri_entry_ins(const hri_schedule *s, uint32_t e) {
    const hri_problem_op *op = &s->p->ops[hri_entry_runs(s, e) ? s->entries[e].op : 0];
    if (hri_entry_ends_net(s, e)) {
        op = &s->p->ops[s->entries[e].op];
        return op->in_count + op->out_count;
    }
    return hri_entry_runs(s, e) ? op->in_count : s->entries[e].kind != HRI_STEP_IN;
}
static inline uint32_t hri_entry_outs(const hri_schedule *s, uint32_t e) {
    return hri_entry_runs(s, e) ? s->p->ops[s->entries[e].op].out_count
                                : s->entries[e].kind == HRI_STEP_IN;
}
static inline double hri_copy_time(const hri_problem *p, uint32_t value, uint32_t memory, int in) {
    return hri_problem_copy_ns(p, memory, in, p->values[value].room_bytes);
}
/* The memory that the next value of this size would go to: the first with room; 0: none. */
static inline uint32_t hri_schedule_memory(const hri_schedule *s, uint64_t room_bytes) {
    for (uint32_t m = 0; m < s->p->memory_count; m++) {
        if (!s->away_limits[m] || s->away_bytes[m] + room_bytes <= s->away_limits[m]) {
            return m + 1;
        }
    }
    return 0;
}
static inline int hri_is_fixed(const hri_problem *p, uint32_t v) {
    const uint8_t role = p->values[p->values[v].root].role;
    return role == HRI_ROLE_PERSISTENT || role == HRI_ROLE_CONSTANT;
}

#endif
