/* Fitting a training into a budget: which parts of the batch, which plans, how many bytes in all.
 *
 * The planner (plan/) plans one graph.  A training has several: a whole step, or a part of it and the last part, and
 * evaluation.  A *case* is one way of cutting the batch: the graphs and problems of it, over one layout of persistent
 * values at the bottom of one arena.  Planning a case for a budget plans each of its graphs for what the budget leaves
 * when the runtime is taken off; the arena is the largest of them, in whole pages.
 *
 *   peak = runtime + persistent + the rest of the arena        in bytes, exactly
 *
 * Runtime is what the process or device takes before any tensor.  On the host our own records (the graph, the bound
 * calls) are part of it, so it depends a little on the case.  On a GPU it is measured once the kernels of the case are
 * loaded, and captured graphs come on top by an estimate that is checked when they are there (run/runner.h).
 *
 * hri_fit_search looks for the fastest case: the batch whole, in halves, in quarters, ... in single samples.  A batch
 * is never cut where an op couples samples, unless the job allows it.
 *
 * Two rules hold it together.
 *   Whether a training fits, and how it is cut, is judged by a *nominal* machine: fixed speeds, work spaces of one
 *   thread.  So neither depends on clocks, threads or load.  Measured times and more threads come afterwards, inside
 *   the cut that was chosen; where they find no plan, the nominal one is taken and runs on one thread.
 *   The smallest budget is found by one procedure that does not know the budget asked for, and its plan is a plan for
 *   every larger budget.  So nothing at or above the smallest is refused.
 *
 * Planning takes memory too, and on the host it is the budget's: one case is open at a time, what a plan search may take
 * is bounded (hri_plan_make_bytes), and no case is planned, nor called fitting, under a budget that planning it would
 * exceed.  Plans outlive their case: detached, they are numbers and steps, and attaching builds the case again.
 * What a refusal looks for takes memory as well.  Whoever calls may bound it (hri_alloc_bound, base/alloc.h) with no less
 * than the budget leaves: then what the bound stops is larger than the budget, so no verdict depends on it.  A case that
 * could not be opened is remembered with bounds from below, and `too_large` says that nothing could be planned at all.
 *
 * Threads: one at a time. */
#ifndef HRI_FIT_FIT_H
#define HRI_FIT_FIT_H

#include <headroom/train.h>
#include "plan/from_graph.h"
#include "plan/plan.h"
#include "run/runner.h"
#include "run/trial.h"
#include "step/shard.h"

typedef struct hri_fit_job {
    hr_train_options options;
    hr_build_fn *build;
    void *user;
    /* In place of all that is built: frozen graphs of somebody's own, which outlive the case.  The batch is 1 then. */
    const hr_graph *const *given;
    uint32_t given_count; /* 0: none; at most HRI_FIT_PIECES */
    int64_t batch;
    int64_t parts;      /* micro-batches: 0: as many as is fastest, 1: never, k: about as many */
    int allow_coupled;  /* cut the batch even where an op couples samples */
    int keep_gradients; /* they are added up and stay until an update of its own takes them */
    /* Replicas that share the parts of a step (0, 1: nobody shares), and how many of them have their arena in this
     * process (0: one).  All are planned alike; the batch has at least as many parts. */
    uint32_t replicas, arenas;
    hri_shard_mode shard;     /* what replicas hold in slices */
    int evaluate;             /* plan the evaluation of a part into the same arena */
    int64_t evaluate_samples; /* of it; 0: as many as a part has */
    int evaluate_single; /* and that of one sample: for the last ones, where the loss leaves nothing out */
    /* Bytes at the bottom of the arena that are somebody else's: below our persistent values, and above them. */
    uint64_t below_bytes, above_bytes;
    hri_machine machine; /* as it is: its speed, its threads */
    hri_machine nominal; /* what cut and verdict are judged by; zeroed: `machine` with one thread */
    hri_engine *
        engine; /* of a GPU, which machine.gpu belongs to; NULL: the host, or a device that is not there */
    uint64_t page_bytes;    /* the arena is taken in these; 0: single bytes */
    uint64_t runtime_bytes; /* without our records; for one thread */
    uint64_t thread_bytes;  /* host: what each further thread takes */
    uint64_t reserve_bytes; /* GPU: kept free beside what is measured and estimated */
    uint64_t
        band_bytes; /* GPU: at the top of the arena, for what ranks of other processes send by device */
    int count_records; /* 1: our records are in the budget too */
    uint64_t effort;   /* of the planner; 0: its default */
    uint8_t no_offload;
    uint8_t no_overlap; /* exchanges with other replicas are waited for where they are started */
    uint8_t no_stage;   /* GPU: the next batch has no place of its own */
    uint64_t other_budget_bytes; /* of the memory where values wait; 0: no bound */
    const char *
        spill; /* a folder for what waits elsewhere, when the machine's copies go to a file; NULL: none */
    /* The time of a kernel in place of the analytic one, or a negative number: not known.  NULL: analytic. */
    double (*time_ns)(void *user, const hri_sig *sig, uint32_t variant);
    /* The same of several, as they are launched together (fit/timing.h), where time_ns is there; NULL: not known. */
    double (*together_ns)(void *user, const hri_trial_op *ops, uint32_t count);
    double (*many_ns)(void *user, const hri_trial_op *ops, uint32_t count, uint32_t *used);
    /* Said of the whole batch, once, before measured times are asked for; NULL: nobody listens. */
    double (*pace)(void *user, const hr_graph *g);
    void *time_user;
    /* Called before each search for a plan, which takes a second or two at most; any status but HR_OK ends planning with
     * it.  NULL: nobody is asked. */
    hr_status (*tick)(void *user);
    void *tick_user;
} hri_fit_job;

enum { HRI_FIT_PIECES = 6, HRI_FIT_CASES = 48 };

typedef struct hri_fit_piece {
    hr_step_kind kind;
    int64_t samples;
    uint32_t runs; /* a step; 0: evaluation */
    const hr_graph *g;
    hr_graph *built; /* the same, when it is ours; NULL: it was given */
    hri_graph_problem x;
    uint64_t *offsets; /* by value of the problem: where persistent values and constants lie */
} hri_fit_piece;

typedef struct hri_fit_case {
    int64_t part;
    uint32_t parts; /* runs a step */
    uint32_t count;
    uint32_t threads; /* whose work spaces and times the problems have; 0: the nominal machine's */
    uint32_t users;   /* plans that are attached to it */
    hri_fit_piece pieces[HRI_FIT_PIECES];
    hr_graph
        *face; /* of replicas with slices: every persistent value whole, under its name; NULL */
    uint64_t bottom_bytes;  /* persistent values and constants; somebody else's too */
    uint64_t own_bytes;     /* without those */
    uint64_t runtime_bytes; /* with the records, or the captured graphs, of this case */
    uint64_t
        planning_bytes; /* the most that the process takes while it plans this case; 0: not counted */
    hri_lane_sizes lane;            /* GPU: inputs and results */
    uint64_t floor_bytes;           /* of the whole budget: no plan of this case needs less */
    uint32_t floor_piece, floor_op; /* floor_op: NONE when persistent values and inputs make it */
    uint32_t coupled_op;            /* of piece 0: lets samples touch; NONE: no op does */
} hri_fit_case;

/* What is remembered of a case when it is closed: all of the nominal machine. */
typedef struct hri_fit_fact {
    int64_t part;
    uint32_t parts;
    uint64_t floor_bytes, runtime_bytes, planning_bytes, own_bytes;
    char floor_op[256],
        floor_kind[32];      /* the op that makes the floor; "": persistent values and inputs do */
    uint64_t floor_op_bytes; /* what it needs beside persistent values */
    int unopened; /* a bound on memory was in the way: it needs these many bytes or more, and has no op */
} hri_fit_fact;

/* What planning a case gave.  Zeroed: nothing. */
typedef struct hri_fit_plans {
    hri_fit_case *c; /* NULL: detached */
    hri_plan *plans[HRI_FIT_PIECES];
    int64_t part;
    uint32_t parts;
    uint32_t threads;        /* that it was planned for; 0: the nominal machine */
    uint64_t arena_bytes;    /* the whole of one, in whole pages */
    uint32_t arenas;         /* in this process: of replicas */
    uint64_t peak_bytes;     /* runtime and arenas */
    uint64_t runtime_bytes;  /* with what planning takes beyond the arenas, where that is more */
    uint64_t planning_bytes; /* of its case */
    uint64_t bottom_bytes, own_bytes;
    uint64_t live_bytes;  /* the largest liveness bound of the plans */
    uint64_t input_bytes; /* of the largest piece: inside the arena */
    uint64_t other_bytes, copied_bytes;
    uint64_t net_bytes;    /* that a replica receives from others in a step, at most */
    double net_ns;         /* predicted, of a step: on the wire */
    double net_exposed_ns; /* and of that, nothing is computed meanwhile */
    uint64_t net_count;    /* exchanges and gathers of a step */
    double time_ns;        /* of a step: every part */
    double base_time_ns;   /* the same without anything computed twice */
    double bound_time_ns;
    uint64_t again_count;  /* ops computed again, in a step */
    uint32_t peak_piece;   /* whose arena is the largest */
    uint64_t budget_bytes; /* that was asked for; 0: none */
    int stage;             /* GPU: the next batch has a place on the device while a step runs */
} hri_fit_plans;

void hri_fit_plans_deinit(hri_fit_plans *plans);

/* The choices behind the plans of a case, by piece. */
typedef struct hri_fit_memos {
    hri_plan_memo of[HRI_FIT_PIECES];
    uint8_t any;  /* any plan will do, however slow, and what is found is written here */
    uint8_t only; /* searches begin nowhere else */
} hri_fit_memos;

typedef struct hri_fit {
    hri_fit_job job;
    hri_fit_case *cases[HRI_FIT_CASES]; /* those open now: few */
    uint32_t case_count;
    hri_fit_fact facts[HRI_FIT_CASES]; /* of those that were ever open, the whole batch first */
    uint32_t fact_count;
    int coupled;            /* of the whole batch */
    hri_prose coupled_by;   /* "bn1 (batch_norm)" */
    double nominal_time_ns; /* of the whole batch without a bound, on the nominal machine */
    double base_time_ns;    /* the same as times are now known */
    double alone_ratio;     /* how much longer it is with one thread: nominal plans run on one */
    uint64_t
        unplanned_bytes; /* plain training: everything kept until its last reader, nothing in place */
    hri_fit_plans least; /* the smallest, detached, once it was looked for */
    int least_known;
    /* Who only asks whether so much is enough sets this before: then the smallest is one within it, if there is one; 0: the
     * smallest is asked for. */
    uint64_t enough_bytes;
    int least_open; /* a case that could not be opened might do with less */
    int too_large;  /* planning was given up for a bound on memory; facts[0], if there, is known */
    struct hri_past *past; /* searches that were made (past.h); NULL: none is kept */
} hri_fit;

/* What cut and verdict are judged by for this GPU.  One stands for all, so that where a batch is cut depends on none: about as fast as
 * an H200.  Next to a slower one launches weigh less, and batches would be cut where recomputing takes less time. */
hri_machine hri_fit_nominal_gpu(const hri_machine *machine);
/* Builds the case of the whole batch and plans it without a bound.  *why gets the reason of a failure: HR_E_INVALID when
 * the job wants the batch in parts and an op couples its samples.  HR_OK with out->too_large: closing it is all that is
 * left to do. */
HR_MUST_CHECK hr_status hri_fit_open(const hri_fit_job *job, hri_fit *out, hri_prose *why);
/* A zeroed one is allowed. */
void hri_fit_close(hri_fit *f);
/* Other times from now on; NULL: those of the machine.  The base time follows. */
HR_MUST_CHECK hr_status hri_fit_set_times(hri_fit *f,
                                          double (*time_ns)(void *, const hri_sig *, uint32_t),
                                          void *user, hri_prose *why);
/* Closes the cases that no plans are attached to; they are opened again when they are needed. */
void hri_fit_rest(hri_fit *f);
/* Drops every case but `keep` (may be NULL): memory for whoever runs now.  Plans attached to them must be gone. */
void hri_fit_drop_others(hri_fit *f, const hri_fit_case *keep);

/* Drops problems and offsets: after plans were bound only the graphs are needed. */
void hri_fit_release(hri_fit *f);

/* May this training's batch be cut? */
int hri_fit_may_cut(const hri_fit *f);
/* The case with parts of this size, nominal.  Cases without plans are closed for it. */
HR_MUST_CHECK hr_status hri_fit_case_get(hri_fit *f, int64_t part, hri_fit_case **out,
                                         hri_prose *why);
/* Work spaces and times of so many threads of the machine as it is; 0: nominal. */
HR_MUST_CHECK hr_status hri_fit_case_set_threads(const hri_fit *f, hri_fit_case *c,
                                                 uint32_t threads, hri_prose *why);
/* Plans one case as it is set.  budget_bytes is of everything; 0: as much as it takes.  HR_E_NO_PLAN when none was
 * found. */
HR_MUST_CHECK hr_status hri_fit_case_plan(const hri_fit *f, hri_fit_case *c, uint64_t budget_bytes,
                                          uint64_t effort, hri_fit_plans *out, hri_prose *why);
/* Takes over plans that were made elsewhere, one for each piece of the case, and adds them up. */
void hri_fit_plans_adopt(const hri_fit *f, hri_fit_case *c, hri_plan *const *plans,
                         hri_fit_plans *out);
/* Lets the case of the plans go, and builds it again. */
void hri_fit_detach(hri_fit *f, hri_fit_plans *plans);
HR_MUST_CHECK hr_status hri_fit_attach(hri_fit *f, hri_fit_plans *plans, hri_prose *why);

enum { HRI_FIT_LOOK = 32 }; /* the share of the effort for what is beside the question */
/* The fastest case that fits.  `share` divides the job's effort: 1 for the answer, HRI_FIT_LOOK for a look: what a look
 * calls fitting fits. */
HR_MUST_CHECK hr_status hri_fit_search(hri_fit *f, uint64_t budget_bytes, uint32_t share,
                                       hri_fit_plans *out, hri_prose *why);
/* The smallest floor of all cases that the job allows; *out is the fact of it, perhaps of one that was not opened. */
HR_MUST_CHECK hr_status hri_fit_floor(hri_fit *f, const hri_fit_fact **out, hri_prose *why);
/* The smallest budget for which a plan is found: *out_bytes, and in *out (may be NULL) the numbers of its plans, without
 * the plans: nothing to free.  HR_E_NO_PLAN: a bound on memory left none to plan; f->least_open: it left some out. */
HR_MUST_CHECK hr_status hri_fit_smallest(hri_fit *f, uint64_t *out_bytes, hri_fit_plans *out,
                                         hri_prose *why);
/* The most samples of which one part fits the budget: without cutting, the largest batch; 0: not even one. */
HR_MUST_CHECK hr_status hri_fit_largest(const hri_fit_job *job, uint64_t budget_bytes, int64_t *out,
                                        hri_prose *why);

/* A runner's options for these plans, but for device, threads and seed. */
void hri_fit_runner(const hri_fit_plans *plans, hri_runner_options *out);

#endif
