/* What ops that move bytes between ranks share.
 *
 * Every rank runs the same plan, so all of them come to such an op in the same order.  With one rank there is nobody to wait
 * for, and the op is a copy: that is what tests without ranks run.  Nothing is added here but where an op says so. */
#ifndef HRI_OPS_COMMON_RANKS_H
#define HRI_OPS_COMMON_RANKS_H

#include <string.h>

#include "graph/op.h"
#include "graph/slices.h"
#include "net/net.h"

enum { HRI_RANKS_MOST = 65536 };

#define HRI_RANKS_FIELD(STRUCT)                                                                    \
    {                                                                                              \
        "ranks", "ranks that share it", offsetof(STRUCT, ranks), HRI_FIELD_INT, "1",               \
            .min = 1, .max = HRI_RANKS_MOST                                                        \
    }

/* Room for the ranges of an exchange: those given, then those taken. */
static inline uint64_t hri_ranks_workspace(int64_t ranks) {
    return ranks > 1 ? 2 * (uint64_t)ranks * sizeof(hri_net_range) : 0;
}

static inline int64_t hri_ranks_own(const hri_call *c) {
    return c->net ? (int64_t)hri_net_rank(c->net) : 0;
}

/* HR_E_UNSUPPORTED: the op was made for other ranks than are there. */
HR_MUST_CHECK static inline hr_status hri_ranks_check(const hri_call *c, int64_t ranks) {
    return (c->net ? (int64_t)hri_net_size(c->net) : 1) == ranks ? HR_OK : HR_E_UNSUPPORTED;
}

/* Slices of all ranks, each to all: out[0 .. count) of elements of `bytes`. */
HR_MUST_CHECK static inline hr_status hri_ranks_gather(const hri_call *c, const void *slice,
                                                       void *out, int64_t count, int64_t each,
                                                       uint64_t bytes) {
    const int64_t ranks = (int64_t)hri_net_size(c->net), own = hri_ranks_own(c);
    hri_net_range *from = c->workspace;
    uint64_t ticket = 0;
    for (int64_t i = 0; i < ranks; i++) {
        const uint64_t filled = (uint64_t)hri_slice_filled(count, each, i) * bytes;
        from[i] =
            (hri_net_range){filled ? (char *)out + (uint64_t)(i * each) * bytes : NULL, filled};
    }
    const hri_net_range mine = {(void *)(uintptr_t)slice, from[own].bytes};
    const hr_status status = hri_net_gather(c->net, mine, from, &ticket);
    return status == HR_OK ? hri_net_wait(c->net, ticket, 0) : status;
}

/* The moves of a gather: every rank sends its slice to all. */
static inline void hri_ranks_moves(hri_moves *out, uint32_t rank, int64_t ranks, uint32_t input,
                                   int64_t count, int64_t each, uint64_t width) {
    out->ranks = (uint32_t)ranks;
    out->from_input = input;
    for (int64_t i = 0; i < ranks && out->to; i++) {
        const uint64_t theirs = (uint64_t)hri_slice_filled(count, each, i) * width;
        const uint64_t own = (uint64_t)hri_slice_filled(count, each, rank) * width;
        out->to[i] = (struct hri_move_range){0, own};
        out->from[i] = (struct hri_move_range){(uint64_t)(i * each) * width, theirs};
    }
}

/* On a GPU by the executor (run/group.h), but for one rank, which copies. */
static inline hr_status hri_ranks_launch(const hri_gpu_call *c) {
    hri_moves m = {0};
    c->sig->op->moves(c->sig, c->rank, &m);
    return m.ranks == 1 ? hri_gpu_copy(c->gpu, c->out[0], c->in[m.from_input],
                                       hr_meta_bytes(&c->sig->out[0]))
                        : HR_E_UNSUPPORTED;
}

/* One exchange of `bytes` a rank in all, of which a rank keeps its own share. */
static inline void hri_ranks_cost(hri_cost *cost, int64_t ranks, double bytes) {
    cost->flops = 0.0;
    cost->messages = (double)(ranks - 1);
    cost->wire_bytes = bytes * (double)(ranks - 1) / (double)ranks;
}

/* What ranks exchange lets no sample of a batch touch another. */
static inline hri_samples hri_ranks_samples(const hri_sig *s, uint32_t batched) {
    (void)s;
    return batched ? HRI_SAMPLES_COUPLED : HRI_SAMPLES_APART;
}

#endif
