/* Packing: an offset for every buffer, so that no two that live at the same time overlap and the whole is low.
 *
 * This is where lifetimes become addresses.  Means, tried until the height is good enough:
 *   greedy   a portfolio of orders, each placed by lowest fit and by tightest fit (pack_greedy.c); on training graphs
 *            this is nearly always within a fraction of a percent of the bound
 *   exact    search over the valleys of the skyline for a given height (pack_exact.c); finds the packings that greedy
 *            orders miss on tight problems, and can prove that there is none
 *   blocks   buffers that make a rectangle together are one (pack_blocks.c), and those are packed exactly;
 *            they come apart and are joined again (pack_regroup.c), several attempts at a time (pack_waves.c); in a
 *            thorough search only
 *   coarse   the large buffers alone packed exactly, the small ones put into the gaps (pack_coarse.c)
 *   search   moves of single buffers in the best order, aimed at the buffer on top
 * The last four take turns with more steps each time, so that a large effort does not delay what a small one finds.
 *
 * Pure and deterministic: effort is counted in steps, never in seconds, so the same problem has the same packing on
 * every machine.  hri_pack_check shares no code with the rest.
 *
 * Threads: any thread; nothing is shared but the pool of options. */
#ifndef HRI_PLAN_PACK_H
#define HRI_PLAN_PACK_H

#include <stddef.h>
#include <stdint.h>
#include <headroom/status.h>

#include "base/threads.h"

/* Lives in lower <= t < upper. */
typedef struct hri_pack_buffer {
    int64_t lower, upper;
    uint64_t bytes;
} hri_pack_buffer;

typedef struct hri_pack_options {
    uint64_t align;    /* offsets and sizes are multiples of it; 0: 1 */
    uint64_t capacity; /* this height is good enough; 0: as low as can be found */
    uint64_t effort;   /* steps of search, each about a millisecond at 1,000 buffers; 0: 2,000 */
    size_t
        search_bytes; /* for a thorough search for the capacity, which remembers what failed; 0: a plain one */
    hri_threads *
        threads; /* that a thorough search may use; NULL: none.  The packing is the same with any number of them. */
} hri_pack_options;

typedef struct hri_pack_result {
    uint64_t height;
    uint64_t
        lower_bound;    /* the most bytes alive at one moment, sizes aligned: no packing is lower */
    const char *method; /* what found it: "greedy", "coarse", "search", "exact", "blocks" */
    int proved;         /* 1: no lower one exists */
    int refuted;        /* 1: no packing reaches the capacity, and that is proved */
    uint64_t steps;     /* of search, used */
} hri_pack_result;

/* offsets is (count).  HR_E_INVALID for a buffer that ends before it begins or an alignment that is no power of two,
 * HR_E_RANGE when the sizes add up to more than 63 bits, HR_E_NOMEM_HOST.  A height above the capacity is a success:
 * the caller looks at it. */
HR_MUST_CHECK hr_status hri_pack(const hri_pack_buffer *buffers, size_t count,
                                 const hri_pack_options *options, uint64_t *offsets,
                                 hri_pack_result *out);

/* 1 when every offset is a multiple of `align`, every end is at most `height`, and no two buffers that live together
 * overlap; else 0 with the two buffers (or one of them twice) in bad[]. */
int hri_pack_check(const hri_pack_buffer *buffers, size_t count, uint64_t align,
                   const uint64_t *offsets, uint64_t height, size_t bad[2]);

/* The most memory that packing so many buffers takes, with a plain search. */
uint64_t hri_pack_bytes(uint64_t count);

#endif
