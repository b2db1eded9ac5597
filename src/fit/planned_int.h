/* Between the files of planned.h.
 *
 *   planned.c   one place: the parts of a step one after the other, evaluation, values in and out
 *   rounds.c    replicas: the parts of a step in rounds, folded everywhere in their order
 *   carry.c     bytes from the replica that computed a part to those that fold it in */
#ifndef HRI_FIT_PLANNED_INT_H
#define HRI_FIT_PLANNED_INT_H

#include "fit/planned.h"
#include "step/share.h"

typedef struct hri_planned_piece {
    hri_exec *exec;
    int64_t samples;
    uint32_t index; /* in the runner */
    hri_runner *runner;
} hri_planned_piece;

/* What a part of a step gave, as its graph says it. */
typedef struct hri_planned_part {
    uint64_t counted, busy_ns; /* labels that count; how long the device worked */
    float numbers[4];          /* loss, accuracy, top5; 0 */
    float metrics[HRI_PLANNED_METRICS];
} hri_planned_part;

/* One replica of this process. */
typedef struct hri_planned_member {
    hri_runner *runner;
    hri_planned_piece part, last, fold, fold_last;
    uint64_t counted;     /* labels that count in the part that it was fed */
    hri_share_part share; /* of that part in the step */
    hr_status status;     /* of its part of a round */
    hri_prose why;
} hri_planned_member;

struct hri_planned {
    hri_planned_options o;
    hri_runner *runner;
    int owns_runner;
    hri_planned_piece part, last; /* part.exec is NULL when the batch is trained whole */
    hri_planned_piece
        update; /* with keep_gradients, or of the first replica: the graph that updates; exec is NULL without */
    hri_planned_member *members; /* replicas; NULL: nobody shares the step */
    uint32_t member_count;
    uint32_t ranks, rank;    /* replicas in all, and the first of this process */
    hri_planned_part *parts; /* of a round, by rank */
    hri_share_part *shares;  /* of them in the step */
    /* What is carried from a part into the graph that folds it in, and from the last one into that which folds it. */
    hri_exec_pair *pairs[2];
    uint32_t pair_count[2];
    hri_net_range
        *ranges; /* between processes: room for an exchange, by rank; and a band of bytes */
    char *band;
    hri_planned_piece evaluation; /* exec is NULL when it was not planned */
    hri_planned_piece single; /* the same for one sample; exec is NULL when it was not planned */
    const hri_planned_probe *probe; /* NULL: none */
    hri_planned_ahead_fn *may_ahead;
    void *ahead_user;
    int fed;              /* the first part of the next step */
    hr_status fed_status; /* of that; told when the step begins */
    uint64_t fed_counted;
    hri_prose fed_why;
    uint64_t busy_ns; /* of this step, or this evaluation */
    hr_step_state state;
    double rate; /* in place of the schedule's; NAN: none */
    hri_planned_tick_fn *tick;
    void *tick_user;
    uint32_t metric_count;
    const char *metric_names[HRI_PLANNED_METRICS]; /* the graph's */
    double metrics[HRI_PLANNED_METRICS];           /* of the last step or evaluation */
};

/* 1 when the calls of the step that runs now are timed. */
static inline int hri_planned_is_probed(const hri_planned *p) {
    const uint64_t step = p->state.step + 1;
    return p->probe &&
           (!p->probe->last_step || (step >= p->probe->first_step && step <= p->probe->last_step));
}

/* The model's inputs for a run of this piece: samples first_sample and on. */
HR_MUST_CHECK hr_status hri_planned_feed(hri_planned *p, const hri_planned_piece *x, uint64_t step,
                                         int64_t first_sample, uint64_t *counted, hri_prose *why);
/* Begins a run whose inputs are fed, but for the small ones. */
HR_MUST_CHECK hr_status hri_planned_run_piece(hri_planned *p, const hri_planned_piece *x,
                                              int64_t first_sample, const hri_share_part *share,
                                              hri_prose *why);
/* What a run gave, once it is over; and adding it, by its share of the batch. */
HR_MUST_CHECK hr_status hri_planned_read_part(hri_planned *p, const hri_planned_piece *x,
                                              hri_planned_part *out);
void hri_planned_add_part(hri_planned *p, const hri_planned_part *part, const hri_share_part *share,
                          double sum[3], int fresh);
/* Samples of another rank are passed over. */
HR_MUST_CHECK hr_status hri_planned_skip(hri_planned *p, int64_t samples, int64_t first_sample,
                                         hri_prose *why);
/* Velocities that take the parts as they come cannot be scaled when a later part shows that others weigh less. */
HR_MUST_CHECK hr_status hri_planned_check_even(const hri_planned *p, const hri_share_part *share,
                                               hri_prose *why);

/* ---- carry.c ---- */

/* Lists what is carried, once pieces are sorted; the members' graphs are all alike. */
HR_MUST_CHECK hr_status hri_planned_list_carried(hri_planned *p);
/* What the part of a rank gave, from the piece that computed it (here, or one like it) into one that folds it in. */
HR_MUST_CHECK hr_status hri_planned_carry(hri_planned *p, uint32_t rank,
                                          const hri_planned_piece *from,
                                          const hri_planned_piece *to);
/* Is the replica of that rank in this process? */
static inline int hri_planned_is_here(const hri_planned *p, uint32_t rank) {
    return rank >= p->rank && rank < p->rank + p->member_count;
}

/* ---- rounds.c ---- */

/* Opens a runner for each replica; p->part, ->last, ->update and ->runner become those of the first. */
HR_MUST_CHECK hr_status hri_planned_open_members(hri_planned *p, const hri_runner_options *o,
                                                 const hri_fit_plans *plans, hri_prose *why);
void hri_planned_close_members(hri_planned *p);
/* Between ranks: HR_E_PEER names the one that ended while this one computed by itself. */
HR_MUST_CHECK hr_status hri_planned_all_here(const hri_planned *p, hri_prose *why);
/* All parts of a step, in rounds, and the update. */
HR_MUST_CHECK hr_status hri_planned_run_rounds(hri_planned *p, double sum[3], uint64_t *labels,
                                               hri_prose *why);

#endif
