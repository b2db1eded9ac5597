/* What the files of the packer share.  Sizes are aligned and times are renumbered: a section is a stretch of time in
 * which nothing begins or ends. */
#ifndef HRI_PLAN_PACK_INT_H
#define HRI_PLAN_PACK_INT_H

#include "plan/pack.h"

typedef struct hri_pack_item {
    uint32_t begin, end; /* sections, begin < end */
    uint64_t size;       /* aligned, > 0 */
    uint64_t total;      /* the most that lives at one moment of its life */
} hri_pack_item;

typedef struct hri_pack_problem {
    hri_pack_item *items; /* (count); buffers of no size or no life are left out */
    uint32_t *source;     /* (count): index of the caller's buffer */
    uint32_t count, sections;
    uint64_t *live; /* (sections): bytes alive */
    uint64_t lower_bound;
    uint32_t peak; /* the section where the bound is */
} hri_pack_problem;

static inline int hri_pack_overlap(const hri_pack_item *a, const hri_pack_item *b) {
    return a->begin < b->end && b->begin < a->end;
}

/* ---- greedy ---- */

typedef enum hri_pack_fit { HRI_PACK_LOWEST, HRI_PACK_TIGHTEST, HRI_PACK_FITS } hri_pack_fit;

enum { HRI_PACK_ORDERS = 12 };

typedef struct hri_pack_key {
    uint32_t item;
    int at_peak;
    double first, second;
} hri_pack_key;

/* Writes order number `which` of the portfolio; `keys` is scratch of (count). */
void hri_pack_order(const hri_pack_problem *p, uint32_t which, hri_pack_key *keys, uint32_t *order);
/* Places the items in that order, from place `start` on: those before it have their offsets and lie in `placed` by
 * rising offset.  `placed` is scratch of (count).  Returns the height of all; gives up with UINT64_MAX as soon as it
 * would reach `stop`. */
uint64_t hri_pack_place(const hri_pack_problem *p, const uint32_t *order, uint32_t start,
                        hri_pack_fit fit, uint64_t stop, uint64_t *offsets, uint32_t *placed);

/* ---- coarse ---- */

/* Packs those of at least `least` bytes exactly, as low as `nodes` nodes of search allow, and the others into the gaps
 * that are left.  *height is UINT64_MAX when nothing below `stop` was found; else offsets holds the packing.  `order`
 * and `placed` are scratch of (count). */
HR_MUST_CHECK hr_status hri_pack_coarse(const hri_pack_problem *p, uint64_t least, uint64_t nodes,
                                        uint64_t stop, uint64_t *offsets, uint32_t *order,
                                        uint32_t *placed, uint64_t *height);

/* ---- exact ---- */

enum {
    HRI_PACK_EXACT_BYTES = 5 << 18 /* that it may take where nobody says how many */
};

typedef enum hri_pack_verdict {
    HRI_PACK_FOUND,
    HRI_PACK_NONE, /* proved: there is no packing of that height */
    HRI_PACK_GAVE_UP
} hri_pack_verdict;

typedef struct hri_pack_state hri_pack_state;

/* A search for a packing of at most `capacity`, which can be gone on with.  The problem stays the caller's. */
HR_MUST_CHECK hr_status hri_pack_exact_create(const hri_pack_problem *p, uint64_t capacity,
                                              size_t most_bytes, hri_pack_state **out);
void hri_pack_exact_destroy(hri_pack_state *e); /* NULL is allowed */
/* Searches for *nodes nodes more, and takes those used off.  offsets is touched only when a packing is found. */
HR_MUST_CHECK hr_status hri_pack_exact_run(hri_pack_state *e, uint64_t *nodes, uint64_t *offsets,
                                           hri_pack_verdict *verdict);
/* All three. */
HR_MUST_CHECK hr_status hri_pack_exact(const hri_pack_problem *p, uint64_t capacity,
                                       size_t most_bytes, uint64_t *nodes, uint64_t *offsets,
                                       hri_pack_verdict *verdict);

/* ---- blocks ---- */

typedef struct hri_pack_regroup hri_pack_regroup;

/* A search for a packing of at most `capacity`, no less than the bound, that joins buffers to blocks and packs those
 * exactly; it can be gone on with.  The problem stays the caller's, and so do the threads (NULL: none but the caller's). */
HR_MUST_CHECK hr_status hri_pack_blocks_create(const hri_pack_problem *p, uint64_t capacity,
                                               size_t most_bytes, hri_threads *threads,
                                               hri_pack_regroup **out);
void hri_pack_blocks_destroy(hri_pack_regroup *g); /* NULL is allowed */
/* Searches for about *nodes nodes more, and takes those used off.  Never HRI_PACK_NONE. */
HR_MUST_CHECK hr_status hri_pack_blocks_run(hri_pack_regroup *g, uint64_t *nodes, uint64_t *offsets,
                                            hri_pack_verdict *verdict);

#endif
