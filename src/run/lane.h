/* What all executors of one training on a GPU share: the way of inputs into the device and of results out of it.
 *
 *   pinned staging -- feed queue --> staging on the device -- compute queue --> the plan's input buffers
 *
 * The memory of an input is used for other things later in a step, so the next batch cannot be copied there while the
 * step runs.  It goes to a staging place at the top of the arena instead, which is part of the plan, and from there by a
 * copy within the device when the next run begins.  Without that place (little memory) large inputs are copied when the
 * run begins, and the step waits for them.
 *
 * Numbers of f32 that a graph reads only to round them to bf16 are rounded by the host as they are put, wait as bf16 and are
 * widened on the way into the plan's buffer: half of the place and of the bytes that travel, and the same bits.
 *
 *   top of the arena: control block | small inputs | large inputs, or nothing | band, or nothing
 *
 * The control block is what changes between replays (seed, step, first sample); kernels of random ops read it.
 *
 * Invariant: pinned staging is written only when the feed queue has passed its last copy from there. */
#ifndef HRI_RUN_LANE_H
#define HRI_RUN_LANE_H

#include "graph/graph.h"
#include "graph/op.h"
#include "run/engine.h"

enum {
    HRI_LANE_ALIGN = 256,
    HRI_LANE_SMALL = 4096,    /* inputs and results up to so many bytes are small */
    HRI_LANE_BOUNCE = 4 << 20 /* pinned memory through which persistent values are copied */
};

/* Bytes of the inputs and results of the largest of some graphs. */
typedef struct hri_lane_sizes {
    uint64_t small, large, results;
    uint64_t waiting; /* of the large ones, as they wait on the device */
    uint64_t band;    /* on the device, for what other ranks send outside of runs; 0: none */
} hri_lane_sizes;

/* The op that widens an input which waits rounded, and how the host rounds it.  Points into itself: not to be copied. */
typedef struct hri_lane_widen {
    hr_meta in, out;
    hri_attr attr, round_attr;
    hri_sig sig;
} hri_lane_widen;
/* 1: input v waits rounded, and *out (may be NULL) widens it.  0: it waits as it is. */
int hri_lane_widens(const hr_graph *g, hr_value v, hri_lane_widen *out);
/* So many numbers as they wait. */
HR_MUST_CHECK hr_status hri_lane_round(const hri_lane_widen *w, const void *from, uint64_t count,
                                       void *to);

/* Makes *sizes at least as large as g needs. */
void hri_lane_need(const hr_graph *g, hri_lane_sizes *sizes);
/* Bytes at the top of the arena. */
uint64_t hri_lane_top_bytes(const hri_lane_sizes *sizes, int stage);

typedef struct hri_lane {
    hri_engine *engine;
    hr_addr control; /* an hri_gpu_control; behind it staging, which looks like pinned */
    hr_addr band;    /* of sizes.band bytes */
    hri_lane_sizes sizes;
    int stage;         /* large inputs have a place on the device */
    char *pinned;      /* a control block, small inputs, large inputs */
    char *back;        /* small results */
    char *bounce;      /* HRI_LANE_BOUNCE */
    hr_event *staged;  /* the feed queue has passed the copies of a run's inputs */
    hr_event *taken;   /* the compute queue has copied them to where the plan wants them */
    hr_event *ready;   /* what a copy of the plan waits for */
    hr_event *begun;   /* the compute queue has come to a run, and */
    hr_event *over;    /* has passed it */
    const void *owner; /* whose inputs lie in staging */
    int feeding;       /* the feed queue may still read pinned memory */
    int direct;        /* the compute queue may, until `taken` */
} hri_lane;

/* `top` is the address of hri_lane_top_bytes(), at the end of the arena; it need not be there yet. */
HR_MUST_CHECK hr_status hri_lane_open(hri_lane *lane, hri_engine *engine,
                                      const hri_lane_sizes *sizes, int stage, hr_addr top,
                                      hri_prose *why);
/* A zeroed one is allowed. */
void hri_lane_close(hri_lane *lane);
/* Bytes of the large inputs in pinned staging. */
uint64_t hri_lane_large(const hri_lane *lane);
/* Waits until pinned staging may be written. */
HR_MUST_CHECK hr_status hri_lane_settle(hri_lane *lane);
/* Copies through the bounce buffer, after everything in the compute queue, and waits. */
HR_MUST_CHECK hr_status hri_lane_put(hri_lane *lane, hr_addr to, const void *from, uint64_t bytes);
/* The same for bytes that `make` writes where they are copied from, a piece at a time: one half of the bounce buffer is made
 * while the other is copied. */
typedef void hri_lane_make_fn(void *user, uint64_t at, uint64_t bytes, void *to);
HR_MUST_CHECK hr_status hri_lane_make(hri_lane *lane, hr_addr to, uint64_t bytes,
                                      hri_lane_make_fn *make, void *user);
HR_MUST_CHECK hr_status hri_lane_get(hri_lane *lane, void *to, hr_addr from, uint64_t bytes);

#endif
