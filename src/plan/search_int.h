/* Shared by the two halves of the search: moves, and the facts about a schedule that moves are found by. */
#ifndef HRI_PLAN_SEARCH_INT_H
#define HRI_PLAN_SEARCH_INT_H

#include "plan/search.h"

typedef struct hri_move {
    double score;   /* low is good */
    double benefit; /* bytes over the limit, summed over entries */
    double cost;    /* nanoseconds, estimated */
    uint32_t at;    /* a gap, or gap_count + op */
    uint8_t was, to;
} hri_move;

typedef struct hri_searcher {
    hri_schedule *s;
    uint64_t stop; /* work at which effort is spent */
    hri_move *moves;
    size_t move_count, move_space;
    hri_move *drops; /* of the best schedule so far, when it is shaken */
    size_t drop_count, drop_space;
    uint32_t drop_entries; /* entries of that schedule; 0: it was not listed yet */
    uint32_t *previous;    /* by instance: the entry of the touch before */
    uint32_t previous_space;
    double *over;         /* by entry: bytes over the limit, summed from the start */
    uint32_t *over_count; /* and entries */
    uint32_t over_space;
    uint32_t *stamp, *stack; /* by op */
    uint32_t stamp_number;
    uint32_t *runs_at; /* by op: the entry of its first time */
    uint32_t *newest;  /* by value */
    uint8_t *saved, *saved_variant;
    uint8_t *tabu; /* by gap */
    double *clock; /* by entry: compute time before it */
    int can_copy, no_drop;
    uint64_t random;
} hri_searcher;

HR_MUST_CHECK hr_status hri_searcher_open(hri_searcher *x, hri_schedule *s, uint64_t effort);
void hri_searcher_close(hri_searcher *x);
/* Arrays by entry and by instance as long as the schedule now is, filled. */
HR_MUST_CHECK hr_status hri_size_up(hri_searcher *x);
HR_MUST_CHECK hr_status hri_push_move(hri_searcher *x, hri_move m);
/* The `most` best first, the others in any order behind them; ties by place, so that the order is one. */
void hri_sort_moves(hri_searcher *x, size_t most);
/* Drops at idle stretches.  With `any`, also those that relieve no entry over the limit. */
HR_MUST_CHECK hr_status hri_list_drops(hri_searcher *x, int any);
/* Down to the limit from the choice as it is, without touching what is tabu.  HR_E_NO_PLAN: no way was found before `stop`. */
HR_MUST_CHECK hr_status hri_go_down(hri_searcher *x);
void hri_set_move(hri_schedule *s, uint32_t at, uint8_t to);

#endif
