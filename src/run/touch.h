/* What the calls of a run touch: every range of the arena that a kernel or a copy was given, in order.
 *
 * The one idea: addresses are what calls got, sizes are what the graph's own shapes say, and nothing of the plan's lifetimes
 * is looked at.  From this alone follows what was alive when, which can then be compared with what was planned.
 *
 * A copy reads or writes its range when it begins and again where it is waited for.  Memories beside the arena are left
 * out. */
#ifndef HRI_RUN_TOUCH_H
#define HRI_RUN_TOUCH_H

#include "run/bind.h"

typedef enum hri_touch_how {
    HRI_TOUCH_KEEP, /* persistent, or a constant: there before the first call and after the last */
    HRI_TOUCH_READ,
    HRI_TOUCH_WRITE
} hri_touch_how;

/* call: of the run, from 0; HRI_TOUCH_AFTER: the outside reads a result once the last call is over.  at: from the
 * start of the arena. */
enum { HRI_TOUCH_AFTER = -1 };
typedef void hri_touch_fn(void *user, int64_t call, hri_touch_how how, uint64_t at, uint64_t bytes);

void hri_bound_touch(const hri_bound *b, hri_touch_fn *each, void *user);

#endif
