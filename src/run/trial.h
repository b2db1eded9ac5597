/* Kernels on a GPU, tried and timed in scratch memory: one alone, or several as a step launches them one after another.
 *
 * Trying comes first even where the time is known: the first call with a signature compiles, loads and chooses, and what
 * that takes of the device's memory must be there before it is measured as runtime.
 *
 * Threads: one at a time. */
#ifndef HRI_RUN_TRIAL_H
#define HRI_RUN_TRIAL_H

#include "graph/op.h"
#include "run/engine.h"

/* One of several ops.  Operands with equal numbers are one memory; an output that updates an input lies there anyway. */
typedef struct hri_trial_op {
    const hri_sig *sig;
    const uint32_t *in, *out; /* numbers; both NULL: each operand has a memory of its own */
} hri_trial_op;

/* The number of operand k: inputs, then outputs. */
static inline uint32_t hri_trial_number(const hri_trial_op *x, uint32_t k) {
    return k < x->sig->in_count ? x->in[k] : x->out[k - x->sig->in_count];
}

/* Nanoseconds of one call of the op on made-up operands, from events around several; with `once` it is only tried, and
 * the answer is 0.  Negative: it needs more than most_bytes, or something refused. */
double hri_trial_time(hri_engine *engine, const hri_sig *s, uint32_t variant, uint64_t most_bytes,
                      int once);
/* The same of several in their order, in as few launches as a step makes of them (hri_op_launch_many). */
double hri_trial_together(hri_engine *engine, const hri_trial_op *ops, uint32_t count,
                          uint64_t most_bytes, int once);
/* What that takes of most_bytes at least; UINT64_MAX: there is no host memory to say it. */
uint64_t hri_trial_bytes(hri_engine *engine, const hri_trial_op *ops, uint32_t count);

#endif
