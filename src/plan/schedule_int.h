/* Shared by the files of the schedule: the state that one run needs, kept from run to run. */
#ifndef HRI_PLAN_SCHEDULE_INT_H
#define HRI_PLAN_SCHEDULE_INT_H

#include "plan/schedule.h"

struct hri_schedule_scratch {
    uint8_t *at_hand;    /* by value: can be read now */
    uint8_t *away;       /* by value: lies in the other memory */
    uint32_t *sent;      /* by value: the OUT entry that put it there */
    uint8_t *made;       /* by value: times made again in the current gap */
    uint32_t *gap;       /* by value: uses passed */
    uint32_t *version;   /* by value that is a root: the version in its memory */
    uint32_t *current;   /* by value: newest instance */
    uint32_t *stamp;     /* by op: the last burst it was part of */
    uint32_t *burst;     /* ops of the burst; at most op_count */
    uint32_t *stack;     /* values still to be looked into */
    uint32_t *temporary; /* values made in this burst that are not kept */
    uint32_t *taken;     /* by instance: the entry that took its memory over */
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

/* Bytes at each entry, and the peak. */
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

#endif
