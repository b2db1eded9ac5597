/* Blocks of buffers (pack_blocks.c says what they are): how they are joined, and how they come apart again. */
#ifndef HRI_PLAN_PACK_BLOCKS_H
#define HRI_PLAN_PACK_BLOCKS_H

#include <stdatomic.h>

#include "plan/pack_int.h"

enum { HRI_PACK_NO_BLOCK = UINT32_MAX, HRI_PACK_MOST_PARTS = 5 };

typedef struct hri_pack_block {
    uint32_t begin, end;
    uint64_t size;
    uint32_t parent; /* HRI_PACK_NO_BLOCK: not joined */
    uint64_t above;  /* bytes above the bottom of its parent */
    double cost;     /* of the best join that is known; negative: none */
    uint32_t partner, doubt;
    uint32_t parts[HRI_PACK_MOST_PARTS], part_count; /* that it was joined of; 0: a buffer */
} hri_pack_block;

typedef struct hri_pack_opened {
    uint32_t begin;
    uint64_t size;
} hri_pack_opened;

typedef struct hri_pack_builder {
    const hri_pack_problem *p;
    hri_pack_block *blocks; /* (most): the buffers, what fills the slack, then the joins */
    uint32_t *live;         /* (most): those not joined */
    uint32_t *spare;        /* (most): places of joins that came apart */
    uint32_t *first, *next; /* (sections + 1), (most): lists of them by begin */
    uint32_t most, live_count, count, spare_count;
    uint64_t *slack;         /* (sections): what can still be wasted */
    uint32_t *begins, *ends; /* (sections + 1): how many that are not joined begin and end there */
    hri_pack_opened *open;   /* (sections): what fills the slack and has not ended */
    int careful;             /* puts one on the other last, unless something beside them says so */
    int shapely; /* takes moments at which one ends and one begins, and equal lives, at their word */
    uint64_t seed;
    double noise, most_cost;
} hri_pack_builder;

#define HRI_PACK_SELDOM 0.1 /* pairs that are not joined this time, where there is noise */

uint64_t hri_pack_mix(uint64_t z);
/* Between 0 and 1, the same for the same pair and seed. */
double hri_pack_chance(const hri_pack_builder *b, uint32_t x, uint32_t y);

/* Can every one of those sections waste so many bytes more? */
int hri_pack_can_spare(const hri_pack_builder *b, uint32_t begin, uint32_t end, uint64_t bytes);
/* A new block of those parts, whose `above` are set; what it wastes is taken off the slack. */
uint32_t hri_pack_make_block(hri_pack_builder *b, hri_pack_block block);
/* A joined one comes apart: its parts are live again. */
void hri_pack_part(hri_pack_builder *b, uint32_t block);
/* Joins two and two or to wheels, those first that waste the least and leave the least doubt, until nothing can be joined or no more
 * than `least` are left. */
void hri_pack_join_all(hri_pack_builder *b, uint32_t least);

/* ---- pack_wheels.c ---- */

/* Joins the wheel that wastes the least: five around one another, which no two of them start.  0 when there is none. */
int hri_pack_join_wheel(hri_pack_builder *b);
/* One that nothing else can be in the place of. */
int hri_pack_join_sure_wheel(hri_pack_builder *b);
/* Buffers that are not there: where the slack rises one begins, and where it falls by as much it ends. */
void hri_pack_fill_slack(hri_pack_builder *b);
/* What ends where nothing takes its place lives on until something does, and the other way round, where there is room. */
void hri_pack_stretch(hri_pack_builder *b);

/* ---- pack_regroup.c ---- */

enum { HRI_PACK_KINDS = 32 };

/* One attempt at a packing by blocks.  It touches nothing that another one does but `first_found`, which it reads. */
typedef struct hri_pack_attempt {
    hri_pack_builder b, kept; /* `kept` is what is improved */
    hri_pack_problem rest;    /* the blocks as a problem of their own */
    uint64_t *found;
    uint64_t capacity, random;
    double room; /* bytes and sections that are free */
    size_t most_bytes;
    uint32_t fewest; /* blocks that were not refuted */
    /* What to do: look at a kind, or take a turn with it; the number is that in its wave. */
    uint32_t kind, turn, number;
    int looking;
    const _Atomic uint32_t *first_found; /* the number of the first that found one */
    uint64_t nodes;                      /* that it may use; then those not used */
    /* What came of it; `left` says how good the kind is, little being good. */
    uint32_t left;
    hr_status status;
    hri_pack_verdict verdict;
} hri_pack_attempt;

/* capacity is set; deinit in any case. */
HR_MUST_CHECK hr_status hri_pack_attempt_init(hri_pack_attempt *g, const hri_pack_problem *p);
void hri_pack_attempt_deinit(hri_pack_attempt *g);
void hri_pack_attempt_run(hri_pack_attempt *g);
void hri_pack_attempt_offsets(const hri_pack_attempt *g, uint64_t *offsets);

#endif
