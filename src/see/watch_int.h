/* Between watch.c, which looks on, and watch_parts.c, which says what was seen. */
#ifndef HRI_SEE_WATCH_INT_H
#define HRI_SEE_WATCH_INT_H

#include "memory/resident.h"
#include "see/alive.h"
#include "see/watch.h"

enum { HRI_SEE_GRAPHS = 4 }; /* of a step: a micro-batch, the last one, and what no step runs */

typedef struct hri_see_timed {
    double ns; /* all runs together */
    uint64_t held_bytes;
    uint32_t runs;
} hri_see_timed;

/* The ops of one graph, and what they touched. */
typedef struct hri_see_ran {
    uint32_t first_op, end_op;
    size_t first_touch, end_touch;
    bool touched;
} hri_see_ran;

struct hri_see_watch {
    hri_planned_probe probe;
    char *scratch;
    bool written;
    uint8_t *what; /* of each op */
    hri_see_timed *ops;
    hri_see_step *steps;
    hri_see_touch *touches;
    hri_see_ran graphs[HRI_SEE_GRAPHS];
    size_t op_count, at, graph_count, touch_count, touch_room;
    uint64_t step_count, step_room;
    uint8_t graph, last_graph; /* that runs; that ends a step */
    bool host, skip;
    int statm;
    uint64_t begin_ns, page_bytes;
    uint64_t held_bytes;              /* the most that was seen while steps ran */
    uint64_t peak_before;             /* of the process, before the arena */
    hri_resident_kinds before, after; /* the host's: before the arena, and at the end */
    hri_measured measured;
};

/* Bytes in use per op, parts and the measured peak, into a recording that has times already. */
HR_MUST_CHECK hr_status hri_see_watch_measured(const hri_see_watch *w, hri_recording *r);

#endif
