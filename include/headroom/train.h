/* Training steps: from the forward graph of a model to the graph of a step.
 *
 *   static hr_status build(void *user, hr_graph *g, int64_t batch, int training) {
 *       ... inputs, parameters, nodes ...
 *       hr_graph_result(g, loss, "loss");                       a floating-point scalar: the mean over the batch
 *       return HR_OK;
 *   }
 *   hr_train_options o = {.size = sizeof o};
 *   hr_train_options_parse("optimizer=adamw,rate=3e-4,decay=0.1,clip=1,precision=bf16", &o, NULL);
 *   hr_step_build(&o, build, user, HR_STEP_WHOLE, 32, &graph, NULL);
 *
 * The graph is frozen.  It has the model, its gradients, clipping if requested, and one update per trainable parameter.
 * What changes from step to step is fed through small inputs, so that a step is captured only once; hr_step_state counts
 * steps on the host and says what to feed.
 *
 * Names, in addition to the model's own.  A graph has only those it needs; hr_graph_find() gives HR_NONE for the others.
 *
 *   train.rate       input, f32    the learning rate of this step
 *   train.update     input, f32    the number of this update, from 1 (Adam, AdamW)
 *   train.scale      input, f32    the loss scale (f16)
 *   train.weight     input, f32    micro-batches: its share of the batch, its samples / all samples
 *   train.first      input, f32    micro-batches: 1 for the first of a step, else 0; x: sums so far are scaled by 1 - x
 *   train.factor     result, f32   factor applied to gradients; 0 if the step was skipped (clip, f16, check)
 *   train.norm       result, f32   the norm of all gradients before clipping (clip, f16, check)
 *   <param>.velocity, <param>.first, <param>.second, <param>.average   optimizer state, with the shape of the parameter;
 *                    of 8 bit: u8, 260 bytes for each 256 elements begun
 *   <param>.sum      state         micro-batches: gradient accumulator, f32; sgd with momentum uses its velocity
 *
 * Micro-batches.  A batch may be trained as k micro-batches (or with gradient accumulation): k - 1 runs of a HR_STEP_PART
 * graph and one of a HR_STEP_LAST graph, which may be built for another number of samples (a smaller last one).
 * Persistent values of the same name share memory in all of them.  Each micro-batch adds weight * gradient to the
 * accumulators; the last one then clips and updates, once per step, without storing its own gradients.  Sgd with momentum
 * (without nesterov, clipping, check or f16) needs no accumulators: micro-batches add to its velocity, v = m v + sum of
 * weight * gradient + decay w, so velocities are valid only after a complete step.  The loss of the step is the sum of
 * weight * loss.
 *
 * Replicas.  Micro-batches of one step may be computed in several places.  A HR_STEP_GRADIENTS graph computes one and
 * changes nothing but states of its own, <param>.part0, .part1, ... (the gradient, in as many summands as it has) and
 * model.<n>.<i> (input i of node n, an op that changes a state of the model, such as running statistics).  HR_STEP_FOLD
 * and HR_STEP_FOLD_LAST have inputs of the same names, types and shapes, and do with them what PART and LAST do with the
 * values themselves: every place that folds all micro-batches of a step in their order gets the same bits as one place
 * that computes them one after the other.
 *
 * Ignored labels.  A cross entropy is the mean over rows whose id is not negative, so a micro-batch is weighted by its
 * rows that count, not by its samples.  If their number is not known before the first micro-batch, set `ignored`: every
 * optimizer then has accumulators, a weight is c_k / C_k (rows that count in this micro-batch, and in all so far), and
 * train.first is 1 in the first micro-batch and 1 - C_(k-1) / C_k in the others; after the last one the sum is the mean
 * over all rows.  A micro-batch in which nothing counts has loss, gradients and weight 0.
 *
 * Mixed precision.  Parameters stay f32.  Matmuls, convolutions and attention get their inputs in bf16 or f16, other ops
 * use the type they are given, and statistics, sums and losses are f32 internally.  Each parameter is cast once per step.
 *
 * Small optimizer state.  With `moments` it is kept in bf16 or 8 bit and computed in f32.  Rounding draws from counters
 * (seed, step, the parameter's name, element), so threads, micro-batches, budgets and slices change no bit.  Small
 * velocities do not take gradients in pieces: micro-batches then have accumulators.
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
    HR_OPTIMIZER_RMSPROP,
    HR_OPTIMIZER_LION,
    HR_OPTIMIZER_ADAFACTOR
} hr_optimizer;

typedef enum hr_schedule {
    HR_SCHEDULE_CONSTANT = 0,
    HR_SCHEDULE_STEP,       /* rate * gamma ^ floor(step / every) */
    HR_SCHEDULE_COSINE,     /* from rate to final_rate over `steps` */
    HR_SCHEDULE_POLYNOMIAL, /* likewise, final_rate + (rate - final_rate) (1 - done) ^ power */
    HR_SCHEDULE_ONECYCLE, /* from rate / 25 up to rate, then down to final_rate, by half a cosine each */
    HR_SCHEDULE_PLATEAU, /* times gamma after `every` validations (epochs without any) that were not better */
    HR_SCHEDULE_EXPONENTIAL /* from rate to final_rate over `steps`, by the same factor each step */
} hr_schedule;

/* The logits over very many classes (a vocabulary): the largest value in such a model. */
typedef enum hr_scores {
    HR_SCORES_AUTO = 0, /* never whole: loss and gradients are made together, row by row */
    HR_SCORES_KEPT,     /* from the forward to the backward pass */
    HR_SCORES_SLICES /* one slice at a time, recomputed in the backward pass: same bits, one more matmul */
} hr_scores;

typedef enum hr_precision {
    HR_PRECISION_F32 = 0,
    HR_PRECISION_BF16,
    HR_PRECISION_F16
} hr_precision;

/* How the optimizer's state (velocities, moments, averages) is stored. */
typedef enum hr_moments {
    HR_MOMENTS_F32 = 0,
    HR_MOMENTS_BF16, /* rounded at random, so that the mean is right */
    HR_MOMENTS_8BIT /* codes in blocks of 256 with a scale each; f32 where a parameter has fewer than 4,096 elements */
} hr_moments;

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
    int32_t check;       /* 1: skip steps whose gradients are not finite (always with f16) */
    int32_t ignored;     /* 1: labels may be negative (ignored); not in the text */
    double rate;         /* the base learning rate */
    double momentum;     /* sgd, rmsprop */
    double beta1, beta2; /* adam, adamw, lion */
    double alpha;        /* rmsprop */
    double epsilon;      /* adam, adamw, rmsprop */
    double
        decay; /* weight decay: decoupled in adamw, lion and adafactor, else part of the gradient */
    double clip;    /* maximum global gradient norm; 0: no clipping */
    int64_t steps;  /* schedules with an end: number of steps, warm-up included */
    int64_t warmup; /* warm-up steps: linear rise to the base rate; onecycle: steps of its rise */
    int64_t every;  /* schedules step and plateau */
    double gamma;   /* schedules step and plateau */
    double final_rate;     /* schedules with an end */
    int32_t moments;       /* hr_moments */
    int32_t relative_step; /* adafactor: steps are relative to the weights, as in torch */
    double power;          /* schedule polynomial */
    double clip_value;     /* largest magnitude of an element of a gradient; 0: no limit */
    double update_clip;    /* adafactor: largest root mean square of an update */
    double root_epsilon;   /* rmsprop: added under the root, as the epsilon of Keras */
} hr_train_options;

/* Defaults, then the text ("optimizer=adamw,rate=1e-3"; NULL or "" for none).  *why (may be NULL) gets the reason. */
HR_API HR_MUST_CHECK hr_status hr_train_options_parse(const char *text, hr_train_options *out,
                                                      hr_error *why);

/* The learning rate of step `step` (from 0).  Pure; of schedule plateau it is the base rate. */
HR_API double hr_train_rate(const hr_train_options *o, uint64_t step);

/* ---- graphs ---- */

/* Adds the model for `batch` samples to g and names its loss "loss".  With `training` 0 it is the model for
 * evaluation.  Called again for each graph that is built; must build the same parameters for every batch. */
typedef hr_status hr_build_fn(void *user, hr_graph *g, int64_t batch, int training);

typedef enum hr_step_kind {
    HR_STEP_WHOLE = 0, /* the whole batch: forward, backward, update */
    HR_STEP_PART,      /* a micro-batch that is not the last: forward, backward, accumulate */
    HR_STEP_LAST,      /* the last micro-batch: as PART, then update */
    HR_STEP_EVALUATE,  /* forward, in the same precision; nothing is updated */
    HR_STEP_UPDATE,    /* the update from the accumulators of PARTs; reads no input of the model */
    /* Where replicas share a step, a PART and a LAST in two: see "Replicas" above. */
    HR_STEP_GRADIENTS, /* forward, backward; what the micro-batch gives is kept */
    HR_STEP_FOLD,      /* accumulates what a micro-batch gave; reads no input of the model */
    HR_STEP_FOLD_LAST, /* as FOLD, then update */
    /* Of replicas that hold slices; built by the library itself. */
    HR_STEP_ROUND,     /* a micro-batch on each replica: forward, backward, exchange, accumulate */
    HR_STEP_ROUND_LAST /* as ROUND, then update */
} hr_step_kind;

/* A frozen graph.  *why (may be NULL) gets the reason with node and shapes.  HR_E_SHAPE without a scalar result
 * "loss"; whatever `build` returns; HR_E_INVALID for options that make no sense; HR_E_NOMEM_HOST. */
HR_API HR_MUST_CHECK hr_status hr_step_build(const hr_train_options *o, hr_build_fn *build,
                                             void *user, hr_step_kind kind, int64_t batch,
                                             hr_graph **out, hr_error *why);

/* ---- what the host counts ---- */

/* Plain data, part of a checkpoint.  Frozen, with room for more. */
typedef struct hr_step_state {
    uint64_t step;    /* completed steps, including skipped ones */
    uint64_t updates; /* steps that changed the parameters */
    double scale;     /* loss scale; 1 without f16 */
    uint64_t good;    /* steps without a skip since the scale last changed */
    uint64_t skipped;
    uint64_t reserved[3]; /* the library's own; zero to begin with */
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
