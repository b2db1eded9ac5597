/* Training steps: from a model's forward graph to a graph that learns.
 *
 *   static hr_status build(void *user, hr_graph *g, int64_t batch, int training) {
 *       ... inputs, parameters, nodes ...
 *       hr_graph_result(g, loss, "loss");                       a real scalar: the mean over the batch
 *       return HR_OK;
 *   }
 *   hr_train_options o = {.size = sizeof o};
 *   hr_train_options_parse("optimizer=adamw,rate=3e-4,decay=0.1,clip=1,precision=bf16", &o, NULL);
 *   hr_step_build(&o, build, user, HR_STEP_WHOLE, 32, &graph, NULL);
 *
 * The built graph is frozen.  It holds the model, its gradients, clipping where asked for, and one update for each
 * trainable parameter.  What changes from step to step is fed in as small inputs, so that a captured step need not be
 * captured again; hr_step_state counts steps on the host and says what to feed.
 *
 * Names, beside the model's own.  A graph has only those it needs; hr_graph_find() gives HR_NONE for the others.
 *
 *   train.rate       input, f32    the learning rate of this step
 *   train.update     input, f32    the number of this update, from 1 (Adam, AdamW)
 *   train.scale      input, f32    the loss scale (f16)
 *   train.weight     input, f32    parts: the share of this part in the batch, its samples / all samples
 *   train.first      input, f32    parts: 1 for the first part of a step, else 0; x: sums so far are scaled by 1 - x
 *   train.factor     result, f32   what gradients were multiplied by; 0 when the step was skipped (clip, f16, check)
 *   train.norm       result, f32   the norm of all gradients before clipping (clip, f16, check)
 *   <param>.velocity, <param>.first, <param>.second, <param>.average   states of the optimizer, like the parameter
 *   <param>.sum      state         parts: the gradient so far, f32; not for sgd with momentum, whose velocity serves
 *
 * Parts.  A batch may be trained in k parts (micro-batches, explicit accumulation): k - 1 runs of a HR_STEP_PART graph
 * and one of a HR_STEP_LAST graph, which may be built for another number of samples (the short last part).  Persistent
 * values are the same memory in all of them, by name.  Each part adds weight * gradient to the sums; the last one goes
 * on to clip and update, once a step, with its own gradients never stored apart.  Sgd with momentum (not nesterov, no
 * clipping, no check, not f16) needs no sums: parts add to its velocity, v = m v + sum of weight * gradient + decay w,
 * so a step that was begun must be ended before the velocities mean something.  The loss of the step is the sum of
 * weight * loss.
 *
 * Labels that do not count.  A cross entropy is the mean over rows whose id is not negative, so a part weighs what it has
 * of the rows that count, not of the samples.  Where these are not known before the first part, set `ignored`: every
 * optimizer then has sums, a part's weight is c_k / C_k (its rows that count, those of all parts so far) and train.first
 * is 1 in the first part and 1 - C_(k-1) / C_k in the others; after the last part the sum is the mean over all of them.
 * A part in which nothing counts has a loss and gradients of 0, and the weight 0.
 *
 * Mixed precision.  Parameters stay f32; what the descriptors call products (matrix products, convolutions,
 * attention) take their inputs in bf16 or f16, other ops follow the type they are given, and statistics, sums and
 * losses are f32 inside.  Each parameter is cast once a step.
 *
 * Threads: none of these objects is shared; a built graph may be read by any thread. */
#ifndef HEADROOM_TRAIN_H
#define HEADROOM_TRAIN_H

#include <stddef.h>
#include <stdint.h>
#include <headroom/context.h>
#include <headroom/graph.h>

HR_BEGIN_DECLS

typedef enum hr_optimizer {
    HR_OPTIMIZER_SGD = 0,
    HR_OPTIMIZER_ADAM,
    HR_OPTIMIZER_ADAMW,
    HR_OPTIMIZER_RMSPROP
} hr_optimizer;

typedef enum hr_schedule {
    HR_SCHEDULE_CONSTANT = 0,
    HR_SCHEDULE_STEP,  /* rate * gamma ^ floor(step / every) */
    HR_SCHEDULE_COSINE /* from rate to final_rate over `steps` */
} hr_schedule;

/* The scores of a head with very many classes (a vocabulary): larger than anything else in such a model. */
typedef enum hr_scores {
    HR_SCORES_AUTO = 0, /* kept, but a planner may take slices where memory is short */
    HR_SCORES_KEPT,     /* from the forward to the backward pass */
    HR_SCORES_SLICES /* a slice at a time, made again in the backward pass: same bits, one product more */
} hr_scores;

typedef enum hr_precision {
    HR_PRECISION_F32 = 0,
    HR_PRECISION_BF16,
    HR_PRECISION_F16
} hr_precision;

/* Filled by hr_train_options_parse(); the names in its text are these with '-' for '_'.  Defaults are torch's, with
 * momentum 0.9 for sgd. */
typedef struct hr_train_options {
    size_t size;         /* set by the caller to sizeof(hr_train_options) */
    int32_t optimizer;   /* hr_optimizer */
    int32_t precision;   /* hr_precision */
    int32_t scores;      /* hr_scores */
    int32_t schedule;    /* hr_schedule */
    int32_t nesterov;    /* sgd */
    int32_t decay_all;   /* 0: parameters of rank 0 and 1 (biases, norms) are not decayed */
    int32_t check;       /* 1: a step whose gradients are not finite is skipped (f16 always does) */
    int32_t ignored;     /* 1: labels may be negative and so not count; not in the text */
    double rate;         /* the base learning rate */
    double momentum;     /* sgd, rmsprop */
    double beta1, beta2; /* adam, adamw */
    double alpha;        /* rmsprop */
    double epsilon;      /* adam, adamw, rmsprop */
    double decay;        /* weight decay: decoupled in adamw, part of the gradient in the others */
    double clip;         /* largest norm of all gradients; 0: no clipping */
    int64_t steps;       /* of the cosine, warm-up included */
    int64_t warmup;      /* steps of linear rise to the base rate */
    int64_t every;       /* step schedule */
    double gamma;        /* step schedule */
    double final_rate;   /* cosine */
} hr_train_options;

/* Defaults, then the text ("optimizer=adamw,rate=1e-3"; NULL or "" for none).  *why (may be NULL) gets the reason. */
HR_API HR_MUST_CHECK hr_status hr_train_options_parse(const char *text, hr_train_options *out,
                                                      hr_error *why);

/* The learning rate of step `step` (from 0).  Pure. */
HR_API double hr_train_rate(const hr_train_options *o, uint64_t step);

/* ---- graphs ---- */

/* Adds the model for `batch` samples to g and names its loss "loss".  With `training` 0 it is the model for
 * evaluation.  Called again for each graph that is built; must build the same parameters for every batch. */
typedef hr_status hr_build_fn(void *user, hr_graph *g, int64_t batch, int training);

typedef enum hr_step_kind {
    HR_STEP_WHOLE = 0, /* the batch at once: forward, backward, update */
    HR_STEP_PART,      /* a part of it that is not the last: forward, backward, add to the sums */
    HR_STEP_LAST,      /* the last part: as PART, then update */
    HR_STEP_EVALUATE,  /* forward, in the same precision; nothing is updated */
    HR_STEP_UPDATE /* what PARTs have added up moves the parameters; no input of the model is read */
} hr_step_kind;

/* A frozen graph.  *why (may be NULL) gets the reason with node and shapes.  HR_E_SHAPE without a scalar result
 * "loss"; whatever `build` returns; HR_E_INVALID for options that make no sense; HR_E_NOMEM_HOST. */
HR_API HR_MUST_CHECK hr_status hr_step_build(const hr_train_options *o, hr_build_fn *build,
                                             void *user, hr_step_kind kind, int64_t batch,
                                             hr_graph **out, hr_error *why);

/* ---- what the host counts ---- */

/* Plain data, part of a checkpoint.  Frozen, with room for more. */
typedef struct hr_step_state {
    uint64_t step;    /* steps begun and ended, skipped ones too */
    uint64_t updates; /* steps that changed the weights */
    double scale;     /* loss scale; 1 without f16 */
    uint64_t good;    /* steps without a skip since the scale last changed */
    uint64_t skipped;
    uint64_t reserved[3]; /* zero */
} hr_step_state;

/* What to write into the inputs of the same names before a step.  Frozen. */
typedef struct hr_step_feed {
    float rate, update, scale;
} hr_step_feed;

HR_API void hr_step_state_init(const hr_train_options *o, hr_step_state *out);
HR_API hr_step_feed hr_step_next(const hr_train_options *o, const hr_step_state *s);
/* After a step; `factor` is the result train.factor, or 1 for graphs without it.  The loss scale starts at 2^15; a
 * skipped step halves it (not below 1), 2,000 good steps in a row double it (not above 2^24).  Every skip is given to
 * the log (may be NULL) as a warning.  Returns 1 when the step was skipped. */
HR_API int hr_step_done(const hr_train_options *o, hr_step_state *s, float factor, hr_log_fn *log,
                        void *log_user);

HR_END_DECLS
#endif
