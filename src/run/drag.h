/* What copies to and from the host cost the kernels that run beside them.
 *
 * The copies of a plan overlap with kernels and are not free for that: they share memory, caches and the ends of kernels.
 * A sequence of memory-bound kernels is captured as steps are, alone and with copies beside it, and what it takes longer
 * is told as a share of the copies' own time.
 *
 * Threads: one at a time. */
#ifndef HRI_RUN_DRAG_H
#define HRI_RUN_DRAG_H

#include "run/engine.h"

typedef struct hri_drag {
    double out, in;       /* shares, from 0 to 1 */
    double alone_ns;      /* the kernels without copies */
    double out_ns, in_ns; /* with copies away, with copies back */
    double copy_ns[2];    /* the copies alone, each way */
    uint32_t launches;
} hri_drag;

/* In scratch memory, which is given back.  `bytes` of an operand of the kernels, at least 256; 0: what fits ordinary
 * steps, and a device that is too slow to be a GPU is refused.  HR_E_UNSUPPORTED: nothing can be timed here; else what the
 * device says.  Operands under 1 MiB have copies as small as they are. */
HR_MUST_CHECK hr_status hri_drag_measure(hri_engine *e, uint64_t bytes, hri_drag *out);
/* The share that a plan is made with: what kernels lose, with a margin in favour of no copies at all, and what steps lose by
 * waiting for copies that are late. */
double hri_drag_share(const hri_drag *d);

#endif
