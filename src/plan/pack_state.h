/* The state of the exact search (pack_exact.c): what is placed, how low the rest can lie and why, and how to take it back.
 * What failed once is remembered for as long as the state lives, from one round to the next. */
#ifndef HRI_PLAN_PACK_STATE_H
#define HRI_PLAN_PACK_STATE_H

#include "plan/pack_int.h"

typedef struct hri_pack_undo {
    uint32_t kind : 2, index : 30;
    int32_t why;
    uint64_t value;
} hri_pack_undo;

/* Lists of 32-bit numbers, one after another: those of key i are in items[first[i]] to items[first[i + 1]]. */
typedef struct hri_pack_lists {
    uint32_t *items, *first;
} hri_pack_lists;

struct hri_pack_state {
    const hri_pack_problem *p;
    uint64_t capacity;
    size_t most_bytes;   /* that it may take in all; beyond them it gives up */
    uint64_t round;      /* nodes of the next round */
    uint64_t nodes_left; /* of the round */
    uint64_t random;
    int gave_up, too_large; /* in this round; for good, since it would take too many bytes */
    hr_status status;
    uint64_t *low; /* (count): the lowest offset still possible, for those not placed */
    int32_t *
        why; /* (count): the section that made low what it is; below zero: the set of a level, -level - 1 */
    uint64_t *offset; /* (count) */
    uint8_t *placed;  /* (count) */
    uint64_t *floor;  /* (sections): the end of the highest placed */
    uint64_t *left;   /* (sections): bytes not placed yet */
    uint64_t *height; /* (sections): the least low of those not placed; UINT64_MAX where all are */
    uint8_t *stale;   /* (sections): the height is to be worked out again */
    double *
        failures; /* (sections): how often one was the place of a failure, fading from round to round */
    hri_pack_lists neighbors; /* of an item: those that live with it */
    hri_pack_lists cover;     /* of a section: those alive in it */
    hri_pack_lists begins,
        ends;           /* of a section: those that begin there, and those whose last it is */
    uint32_t words;     /* of a set of sections */
    uint64_t *conflict; /* a set: the reason of the last failure */
    uint64_t *sets;     /* two a level: the reasons of its failures, and of what it leaves empty */
    size_t set_levels;
    hri_pack_undo *trail;
    size_t trail_count, trail_capacity;
    uint32_t *stack; /* choices, a level after another */
    size_t stack_count, stack_capacity;
    size_t list_bytes;
    uint8_t *reach; /* (sections + 1): see reach_all */
    uint32_t last_reached;
    int32_t *counts; /* (sections + 1) */
    uint64_t *above; /* (count) */
    uint64_t key[2]; /* of what is not placed and how low it can lie */
    uint64_t *memo;  /* a key and the reason, each: what failed before */
    uint64_t memo_mask;
};

/* ---- sets of sections ---- */

static inline void hri_pack_set_add(uint64_t *set, uint32_t section) {
    set[section / 64] |= UINT64_C(1) << (section % 64);
}

static inline int hri_pack_set_has(const uint64_t *set, uint32_t section) {
    return set[section / 64] >> (section % 64) & 1;
}

static inline void hri_pack_set_unite(const hri_pack_state *e, uint64_t *set,
                                      const uint64_t *other) {
    for (uint32_t i = 0; i < e->words; i++) {
        set[i] |= other[i];
    }
}

static inline uint64_t *hri_pack_reasons(const hri_pack_state *e, size_t level) {
    return e->sets + 2 * level * e->words;
}

static inline uint64_t *hri_pack_emptied(const hri_pack_state *e, size_t level) {
    return e->sets + (2 * level + 1) * e->words;
}

/* Why the item cannot lie lower than its low. */
static inline void hri_pack_add_why(const hri_pack_state *e, uint64_t *set, uint32_t id) {
    if (e->low[id] == 0) {
        return;
    }
    if (e->why[id] >= 0) {
        hri_pack_set_add(set, (uint32_t)e->why[id]);
    } else {
        hri_pack_set_unite(e, set, hri_pack_emptied(e, (size_t)(-(e->why[id] + 1))));
    }
}

/* ---- memory: 0 where it would take more than it may (then gave_up is set), or where there is none ---- */

int hri_pack_have_level(hri_pack_state *e, size_t level);
int hri_pack_have_trail(hri_pack_state *e, size_t more);
int hri_pack_have_stack(hri_pack_state *e, size_t more);

/* ---- what failed before ---- */

void hri_pack_record(hri_pack_state *e, const uint64_t key[2]);
/* 1: what is left to do failed before, and the reason is in conflict. */
int hri_pack_failed_before(hri_pack_state *e);

/* ---- changes, and taking them back; the trail has room ---- */

void hri_pack_set_low(hri_pack_state *e, uint32_t id, uint64_t low, int32_t why);
void hri_pack_take_back(hri_pack_state *e, size_t mark);
/* Works out the heights of sections again; 0 when what is left does not fit above one of them, with the reason. */
int hri_pack_refresh(hri_pack_state *e, uint32_t begin, uint32_t end);
/* Puts an item at its low.  0: it does not go, or there is no memory. */
int hri_pack_put(hri_pack_state *e, uint32_t id);

/* ---- set-up: p, capacity and most_bytes are set ---- */

/* Look at status and gave_up; deinit in any case. */
void hri_pack_state_init(hri_pack_state *e);
void hri_pack_state_deinit(hri_pack_state *e);
/* Nothing is placed, and so many nodes are left. */
void hri_pack_state_start(hri_pack_state *e, uint64_t nodes);

#endif
