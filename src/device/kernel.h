/* The kernels of a back end: compute beside memory.
 *
 * backend.h says what a kind of hardware does with memory; this says what it computes.  A back end points to one table:
 * op -> kernel.  The table is the back end's own: who adds one writes it next to its kernels and touches neither the ops
 * nor the graph.  What the table lacks falls back, as the table says: a device whose memory the processor reads names the
 * host's kernels; one that cannot run them names nothing, and the use of such an op is refused with its name before
 * anything runs.
 *
 * A kernel is found once, when a plan is made or bound (hri_kernel_for in graph/op.h), never when it runs.
 *
 * The signature and the calls are of the graph layer (graph/op.h); here they are names. */
#ifndef HRI_DEVICE_KERNEL_H
#define HRI_DEVICE_KERNEL_H

#include <stdint.h>
#include <headroom/status.h>

struct hri_call;
struct hri_gpu;
struct hri_gpu_call;
struct hri_sig;

typedef hr_status hri_run_fn(const struct hri_call *c);
typedef uint64_t hri_workspace_fn(const struct hri_sig *s, uint32_t threads);

/* Another way to compute the same, for the planner to choose. */
typedef struct hri_variant {
    const char *name;
    double time; /* relative to the first, before anything is measured */
    hri_workspace_fn *workspace;
    hri_run_fn *run;
} hri_variant;

/* One op on one back end.  What a device has no use for stays NULL. */
typedef struct hri_kernel {
    /* Whether it does this use of the op: types, shapes, attributes.  NULL: every one.  0 falls back. */
    int (*supports)(const struct hri_sig *s);

    /* Where the processor reads the memory.  The work space never falls as threads grow; NULL: none. */
    hri_run_fn *run;
    hri_workspace_fn *workspace;
    const hri_variant *variants; /* NULL: run and workspace above; else ends with a NULL name */

    /* Where work is put into queues.  For ops on many small tensors (updates, casts), launch_many takes calls of this op
     * that touch none of each other's results, with no work space, in few launches and to the bits of `launch` for each;
     * NULL: one by one. */
    hr_status (*launch)(const struct hri_gpu_call *c);
    uint64_t (*launch_workspace)(const struct hri_sig *s, struct hri_gpu *gpu, uint32_t variant);
    hr_status (*launch_many)(const struct hri_gpu_call *calls, uint32_t count);
    /* For ops whose first input often is a sum of two that was made just before (a and b, of its shape and type): both calls in
     * one, to the same bits; what neither call leaves for others may differ.  HR_E_UNSUPPORTED: not with these places. */
    hr_status (*launch_sum)(const struct hri_gpu_call *c, uint64_t a, uint64_t b);
    /* For ops whose first output often is added to something right behind them (to `other`, of its shape and type, into `to`):
     * both calls in one, to the same bits; with `again` (NULL: none) all three, see below.  The output itself is stored where
     * `to` does not lie over it.  HR_E_UNSUPPORTED as above. */
    hr_status (*launch_added)(const struct hri_gpu_call *c, uint64_t other, uint64_t to,
                              const struct hri_gpu_call *again);
    /* The same where the columns of what is written last are summed right behind (`total`: a sum_to of the output, or of `to`), in
     * one call more; nothing is added where `to` is 0. */
    hr_status (*launch_summed)(const struct hri_gpu_call *c, uint64_t other, uint64_t to,
                               const struct hri_gpu_call *again, const struct hri_gpu_call *total);
    /* For ops whose input often is the result of an element-wise call just before (`maker`): both calls in one, to the same
     * bits in all that they write; with `again` (NULL: none) all three, see below.  HR_E_UNSUPPORTED as above. */
    hr_status (*launch_made)(const struct hri_gpu_call *c, const struct hri_gpu_call *maker,
                             const struct hri_gpu_call *again);
    /* For gradients (of dy and x first) whose forward op `beside` may run again just before them, reading the same x first
     * (`again`, whose first result lies apart from all that the gradient reads and writes; others do, too, or are what it reads):
     * both calls in one, to the same bits in all that they write.  HR_E_UNSUPPORTED as above. */
    const char *beside;
    hr_status (*launch_beside)(const struct hri_gpu_call *c, const struct hri_gpu_call *again);
} hri_kernel;

typedef struct hri_kernel_entry {
    const char *op;           /* NULL ends the list */
    const hri_kernel *kernel; /* NULL: none for this op */
} hri_kernel_entry;

typedef struct hri_kernels hri_kernels;
struct hri_kernels {
    const hri_kernel_entry *entries; /* NULL: none */
    /* For ops that are not listed or not supported: kernels that are made from the op itself.  NULL as answer: none. */
    const hri_kernel *(*general)(const struct hri_sig *s);
    const hri_kernels *base; /* asked last; NULL: what is not here is refused */
};

extern const hri_kernels hri_kernels_host; /* graph/op_kernel.c: those of the descriptors */
extern const hri_kernels
    hri_kernels_cuda; /* graph/op_cuda.c: those of src/ops, or made from scalars */

#endif
