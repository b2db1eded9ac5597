/* Training steps that run plans: the small inputs, the parts of a batch, the loss; in memory that was taken once.
 *
 * The order of setting up (see run/runner.h):
 *
 *   hri_planned_open     binds every plan to reserved addresses
 *   hri_fit_release      problems and plans are no longer needed; the graphs are
 *   hri_planned_take     takes the arena; weights and states begin
 *   hri_planned_step ... nothing is allocated any more
 *
 * A step is fed by `feed`, or by the rule of synthetic.h; values go in and out by copying alone, so that the device may
 * be one whose memory the host cannot see.  The same seed and batches give the same losses, to the bit,
 * for every plan of one case; cases that cut the batch differently agree up to rounding.
 *
 * Threads: one at a time. */
#ifndef HRI_FIT_PLANNED_H
#define HRI_FIT_PLANNED_H

#include "fit/fit.h"
#include "net/net.h"

/* One run that is about to begin: whose inputs, and which samples of which step. */
typedef struct hri_planned_run {
    hri_exec *exec; /* NULL: another rank has these samples; they are passed over */
    const hr_graph *g;
    uint64_t step;
    uint32_t first_sample, samples; /* counted from the first of the whole batch */
    int evaluate;                   /* no step: a batch of evaluation */
    /* Gets how many labels of the run count (are not negative); set to all of them before.  NULL: nobody asks. */
    uint64_t *counted;
} hri_planned_run;

enum { HRI_PLANNED_METRICS = 32 };

/* What a step or an evaluation gave.  NAN where the graph does not say. */
typedef struct hri_numbers {
    float loss; /* of the whole batch: over the labels that count, as are the next two */
    float accuracy, top5;
    float norm;       /* of the gradients, before clipping */
    float rate;       /* the learning rate that was used */
    int skipped;      /* the gradients were not finite: nothing was updated */
    uint64_t counted; /* labels that count: what these means are over */
    uint64_t busy_ns; /* how long the device worked; 0: it cannot tell */
} hri_numbers;

typedef struct hri_planned_options {
    hr_device *device;
    const hri_fit_plans *plans;
    const hri_fit_job *job; /* options and batch; lives as long as the training */
    /* NULL: a runner of its own.  Else one that has these plans from `first_piece` on, and outlives the training. */
    hri_runner *runner;
    uint32_t first_piece;
    /* Of a runner of its own: its logical device's name (NULL: none) and limit (0: the arena's size), and whether memory
     * comes when it is first needed. */
    const char *name;
    uint64_t limit_bytes;
    int grow;
    /* Of a process that is one rank of several, each with one replica: all of them make the same calls.  NULL: all replicas
     * are here.  Outlives the training. */
    hri_net *net;
    /* Of replicas on several devices of one kind: rank r is on number r % engine_count, the first of which is the job's.  0:
     * all are on `device`.  They outlive the training. */
    hri_engine *const *engines;
    uint32_t engine_count;
    hri_threads *threads; /* NULL: one */
    uint64_t seed;        /* of weights, random ops and made-up batches */
    uint64_t init_mask;   /* first weights are those of seed ^ init_mask */
    uint64_t cycle;       /* > 0: batch s % cycle is used in step s */
    uint32_t limit;       /* of whole-number inputs: classes, vocabulary */
    /* Feeds the model's inputs of one run with hri_exec_put; see hri_planned_run.  NULL: all are made up. */
    hr_status (*feed)(void *user, const hri_planned_run *run, hri_prose *why);
    void *feed_user;
    hr_log_fn *log; /* NULL: silent */
    void *log_user;
} hri_planned_options;

typedef struct hri_planned hri_planned;

HR_MUST_CHECK hr_status hri_planned_open(const hri_planned_options *options, hri_planned **out,
                                         hri_prose *why);
HR_MUST_CHECK hr_status hri_planned_take(hri_planned *p, hri_prose *why);
/* One update of the weights. */
HR_MUST_CHECK hr_status hri_planned_step(hri_planned *p, hri_numbers *out, hri_prose *why);
/* How long the device works in a step: the median of the last ones; 0: there were too few, or replicas share them. */
uint64_t hri_planned_step_ns(const hri_planned *p);
/* With keep_gradients: adds `share` of the gradients of a batch; fresh: in place of what was there.  HR_E_UNSUPPORTED
 * where its parts ignore different numbers of labels and others came before. */
HR_MUST_CHECK hr_status hri_planned_backward(hri_planned *p, double share, int fresh,
                                             hri_numbers *out, hri_prose *why);
/* With keep_gradients: the update alone.  loss, accuracy and top5 of *out stay as they are. */
HR_MUST_CHECK hr_status hri_planned_apply(hri_planned *p, hri_numbers *out, hri_prose *why);
/* One batch of evaluation, when the job asked for its plan: hri_planned_evaluate_samples() of them; 0: it has none.  A
 * feed that answers HR_E_AGAIN is asked again for the graph of one sample, where the job has that. */
HR_MUST_CHECK hr_status hri_planned_evaluate(hri_planned *p, hri_numbers *out, hri_prose *why);
int64_t hri_planned_evaluate_samples(const hri_planned *p);
/* 1: the graph of one sample was planned, too. */
int hri_planned_has_single(const hri_planned *p);
/* The result "logits" of the last evaluation as f32, *count numbers of it.  HR_E_UNSUPPORTED: there is none, or the model
 * makes its loss without whole scores.  HR_E_RANGE: there are more than `room`. */
HR_MUST_CHECK hr_status hri_planned_scores(hri_planned *p, float *to, uint64_t room,
                                           uint64_t *count);
/* Scalar results of the model by number, as the last step or evaluation had them; NULL: there are no more (the first
 * HRI_PLANNED_METRICS are kept).  Whole numbers and small types are left out. */
const char *hri_planned_metric(const hri_planned *p, size_t index, double *out);
/* In place of the schedule from the next step on; NAN: the schedule. */
void hri_planned_set_rate(hri_planned *p, double rate);
/* Called between the parts of a step; any status but HR_OK ends the step with it.  NULL: nobody is. */
typedef hr_status hri_planned_tick_fn(void *user);
void hri_planned_set_tick(hri_planned *p, hri_planned_tick_fn *tick, void *user);
/* Between ranks (HR_OK at once without): are they about to train the same thing from the same place?  `print` is of
 * whatever else must be equal.  HR_E_INVALID names the first thing that differs. */
HR_MUST_CHECK hr_status hri_planned_agree(hri_planned *p, uint64_t print, hri_prose *why);
/* Does any rank say so?  All of them are asked at the same place. */
HR_MUST_CHECK hr_status hri_planned_vote(hri_planned *p, int mine, int *any, hri_prose *why);
/* Samples of a part of a step that several ranks share; 0: nobody does. */
int64_t hri_planned_part_samples(const hri_planned *p);
/* What a process of several takes for exchanging, beside its wire. */
enum { HRI_PLANNED_BAND = 1 << 20 };
/* What the host counts: part of a checkpoint, and set from one before the first step. */
hr_step_state hri_planned_state(const hri_planned *p);
const hr_train_options *hri_planned_training(const hri_planned *p);
void hri_planned_resume(hri_planned *p, const hr_step_state *state);
/* NULL is allowed. */
void hri_planned_close(hri_planned *p);

void hri_planned_measure(hri_planned *p, hri_measured *out);
/* Is called once the last run of a step was begun, where the device works by itself meanwhile: the time for whatever
 * need not be done between two steps.  Says whether the batch of the next step may be fed now; without it, and on other
 * devices, batches are fed when their step begins.  No evaluation may come before that step: it would take the place of
 * the batch. */
typedef int hri_planned_ahead_fn(void *user);
void hri_planned_set_ahead(hri_planned *p, hri_planned_ahead_fn *may, void *user);
/* 1 when the batch of the next step was fed already. */
int hri_planned_is_fed(const hri_planned *p);
/* From now on runs of steps go call by call, and each call is timed: for profiles.  run says that the next calls are those
 * of a part of the batch, or of the last part or the whole.  NULL: as usual. */
typedef enum hri_planned_which { HRI_PLANNED_PART, HRI_PLANNED_LAST } hri_planned_which;
typedef struct hri_planned_probe {
    uint64_t first_step, last_step; /* only in these, from 1; last 0: in all */
    void (*run)(void *user, hri_planned_which which);
    hri_exec_time_fn *each;
    hri_touch_fn *touch;     /* after them, what the calls touched; NULL: nobody asks */
    void (*end)(void *user); /* and nothing more of this run; may be NULL */
    void *user;
} hri_planned_probe;
/* *probe lives as long as it is in use. */
void hri_planned_set_probe(hri_planned *p, const hri_planned_probe *probe);
/* The run that ends a step: for profiles. */
hri_exec *hri_planned_exec(hri_planned *p);
/* For loading and saving in place: values of this graph, copied in pieces from byte `at` on (hri_exec_put).  The
 * functions are those that hr_weights_options asks for; `planned` is an hri_planned. */
const hr_graph *hri_planned_graph(const hri_planned *p);
/* What should be copied at once: a host's own memory in small pieces, a GPU's in large ones; 0: small. */
uint64_t hri_planned_band_bytes(const hri_planned *p);
HR_MUST_CHECK hr_status hri_planned_put(void *planned, hr_value value, uint64_t at,
                                        const void *from, uint64_t bytes);
HR_MUST_CHECK hr_status hri_planned_get(void *planned, hr_value value, uint64_t at, void *to,
                                        uint64_t bytes);

#endif
