/* Between the files of planned.h.
 *
 *   planned.c   one place: the parts of a step one after the other, evaluation, values in and out
 *   members.c   replicas: their runners, and what ranks of several processes agree on
 *   rounds.c    the parts of a step in rounds, which exchange and fold inside their graphs
 *   shards.c    values in slices */
#ifndef HRI_FIT_PLANNED_INT_H
#define HRI_FIT_PLANNED_INT_H

#include "fit/planned.h"
#include "run/group.h"
#include "step/share.h"

enum { HRI_PLANNED_GROUPS = 4 }; /* a round, the last one, an evaluation, one of a sample */
/* Steps whose times are kept, those that are not counted at the beginning, and how many are enough to say how long one takes. */
enum { HRI_PLANNED_STEPS = 31, HRI_PLANNED_WARM = 3, HRI_PLANNED_ENOUGH = 6 };

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
    hri_planned_piece part, last;
    hri_planned_piece last_round; /* the last round with as many samples as the others */
    hri_net *net;                 /* to the other replicas; its own, but between processes */
    uint64_t counted;             /* labels that count in the part that it was fed */
    hri_share_part share;         /* of that part in the step */
    hr_status status;             /* of its part of a round */
    hri_prose why;
} hri_planned_member;

struct hri_planned {
    hri_planned_options o;
    hri_runner *runner;
    int owns_runner;
    hri_planned_piece part, last; /* part.exec is NULL when the batch is trained whole */
    hri_planned_piece
        update; /* with keep_gradients: the graph that updates; exec is NULL without */
    hri_planned_member *members; /* replicas; NULL: nobody shares the step */
    uint32_t member_count;
    hri_shard_mode shard;                  /* what they hold in slices */
    const hr_graph *face;                  /* and every value of them whole; the case's */
    uint64_t net_hash;                     /* of what their plans exchange */
    int meets;                             /* between processes: the others answer to rank 0 */
    float *row_weights;                    /* of the parts of a round: weight, then first */
    hri_group *groups[HRI_PLANNED_GROUPS]; /* GPUs: of pieces that all replicas ran together */
    uint32_t group_count;
    hri_exec **together;          /* room to name one: by rank */
    uint32_t ranks, rank;         /* replicas in all, and the first of this process */
    hri_planned_part *parts;      /* of a round, by rank */
    hri_share_part *shares;       /* of them in the step */
    char *band;                   /* between processes: of bytes */
    hri_planned_piece evaluation; /* exec is NULL when it was not planned */
    hri_planned_piece single; /* the same for one sample; exec is NULL when it was not planned */
    const hri_planned_piece *evaluated; /* the one of these that ran last; NULL: none */
    const hri_planned_probe *probe;     /* NULL: none */
    hri_planned_ahead_fn *may_ahead;
    void *ahead_user;
    int fed;              /* the first part of the next step, or its first round */
    int fed_within;       /* the next round of this step */
    hr_status fed_status; /* of that; told when the step begins */
    uint64_t fed_counted;
    hri_prose fed_why;
    uint64_t busy_ns;                     /* of this step, or this evaluation */
    uint64_t steps_ns[HRI_PLANNED_STEPS]; /* of the last steps, in turns */
    uint64_t steps_seen;                  /* with those that are not counted */
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
/* The small inputs of a run; and beginning one whose others are fed. */
HR_MUST_CHECK hr_status hri_planned_put_piece(hri_planned *p, const hri_planned_piece *x,
                                              int64_t first_sample, const hri_share_part *share,
                                              hri_prose *why);
HR_MUST_CHECK hr_status hri_planned_run_piece(hri_planned *p, const hri_planned_piece *x,
                                              int64_t first_sample, const hri_share_part *share,
                                              hri_prose *why);
/* What a run gave, once it is over; and adding it, by its share of the batch. */
HR_MUST_CHECK hr_status hri_planned_read_part(hri_planned *p, const hri_planned_piece *x,
                                              hri_planned_part *out);
void hri_planned_add_part(hri_planned *p, const hri_planned_part *part, const hri_share_part *share,
                          double sum[3], int fresh);
/* Samples of another rank are passed over. */
HR_MUST_CHECK hr_status hri_planned_skip(hri_planned *p, int64_t samples, uint64_t step,
                                         int64_t first_sample, hri_prose *why);
/* Velocities that take the parts as they come cannot be scaled when a later part shows that others weigh less. */
HR_MUST_CHECK hr_status hri_planned_check_even(const hri_planned *p, const hri_share_part *share,
                                               hri_prose *why);

/* ---- members.c ---- */

/* Opens a runner for each replica; p->part, ->last, ->update and ->runner become those of the first. */
HR_MUST_CHECK hr_status hri_planned_open_members(hri_planned *p, const hri_runner_options *o,
                                                 const hri_fit_plans *plans, hri_prose *why);
void hri_planned_close_members(hri_planned *p);
/* Between ranks: HR_E_PEER names the one that ended while this one computed by itself. */
HR_MUST_CHECK hr_status hri_planned_all_here(const hri_planned *p, hri_prose *why);
/* The first failure of members first .. end: one of its own before those that another made fail. */
HR_MUST_CHECK hr_status hri_planned_first_failure(const hri_planned *p, uint32_t first,
                                                  uint32_t end, hri_prose *why);
/* Why the group has ended, as far as it has: the first reason of any rank. */
hr_status hri_planned_net_failed(const hri_planned *p, hr_status status, hri_prose *why);
/* Between processes: p->parts of every rank, of which this one knows its own. */
HR_MUST_CHECK hr_status hri_planned_share_parts(hri_planned *p, hri_prose *why);
/* ---- shards.c ---- */

/* Each member's own end, before its runner is opened. */
HR_MUST_CHECK hr_status hri_shards_open(hri_planned *p, const hri_fit_plans *plans, hri_prose *why);
/* While the slices are still there; and after the runners are closed. */
void hri_shards_leave(hri_planned *p);
void hri_shards_close(hri_planned *p);
/* Slices begin as the whole does. */
HR_MUST_CHECK hr_status hri_shards_begin(hri_planned *p);
/* Between processes: what rank 0 asks of the others' slices is answered until it goes on. */
HR_MUST_CHECK hr_status hri_shards_meet(hri_planned *p, hri_prose *why);
/* Values of the face.  Between processes only rank 0 gets what is cut: HR_E_UNSUPPORTED on others. */
HR_MUST_CHECK hr_status hri_shards_put(hri_planned *p, hr_value value, uint64_t at,
                                       const void *from, uint64_t bytes);
HR_MUST_CHECK hr_status hri_shards_get(hri_planned *p, hr_value value, uint64_t at, void *to,
                                       uint64_t bytes);

/* ---- rounds.c ---- */

/* All parts of a step, in rounds, and the update; *end is the piece that updated. */
HR_MUST_CHECK hr_status hri_shards_run(hri_planned *p, double sum[3], uint64_t *labels,
                                       const hri_planned_piece **end, hri_prose *why);
/* A batch of evaluation whose inputs the first member was fed: all gather, so all run it. */
HR_MUST_CHECK hr_status hri_shards_evaluate(hri_planned *p, const hri_planned_piece *x,
                                            hri_prose *why);

#endif
