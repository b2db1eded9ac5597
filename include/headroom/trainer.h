/* Training: a job that fits, run to its end or step by step.
 *
 *   hr_trainer *t;
 *   hr_trainer_open(plan, 0, &t, &why);                 takes the memory; initializes or resumes
 *   while (hr_trainer_end(t) == HR_END_RUNNING) {
 *       if (hr_trainer_advance(t, &why) != HR_OK) ...   one update; then validation, checkpoint, early stop when due
 *   }
 *   hr_trainer_close(t);
 *
 * hr_job_train is this loop.  With hr_trainer_step, _validate, _save, _get and _put between the steps it is your own.  Nothing
 * allocates device memory after opening, so the peak stays the planned one.  Values are accessed by name and by copying,
 * so the same loop works on a GPU.
 *
 * What happens is told to hr_job_options.on_event, on the thread that called; what it returns decides whether training
 * goes on (event.h).  Without a listener everything else is the same: checkpoints, the log, its last line and the chart.
 *
 * After a failure other than HR_E_CANCELLED and a refused save the trainer can only be closed.  Threads: one at a time,
 * not necessarily the same one. */
#ifndef HEADROOM_TRAINER_H
#define HEADROOM_TRAINER_H

#include <headroom/data.h>
#include <headroom/event.h>
#include <headroom/graph.h>
#include <headroom/job.h>
#include <headroom/plan.h>

HR_BEGIN_DECLS

/* ---- a whole job ---- */

/* Up to 8 jobs that alternate in one arena: it holds the persistent values of all and the activations of the largest.  Device
 * and budget are those of the first.  Otherwise as hr_job_plan; the details of plan.h are the first job's. */
HR_API HR_MUST_CHECK hr_status hr_job_plan_together(hr_ctx *ctx, const hr_job_options *const *jobs,
                                                    size_t count, hr_plan **out, hr_error *why);

/* Trains all jobs of the plan to their end, one step of each in turn.  The plan needs data.  HR_E_NO_PLAN: does not fit.
 * HR_E_CANCELLED: saved, can be resumed.  HR_E_RANGE: the loss is not finite.  HR_E_IO: the final checkpoint could not be
 * written.  HR_E_BUSY: the plan was used before. */
HR_API HR_MUST_CHECK hr_status hr_job_train(hr_plan *plan, hr_error *why);

typedef enum hr_end {
    HR_END_RUNNING = 0,
    HR_END_DONE,      /* all epochs or steps */
    HR_END_EARLY,     /* patience ran out */
    HR_END_CANCELLED, /* can be resumed */
    HR_END_FAILED
} hr_end;

/* Everything in `headroom train --json`.  NAN and HR_UNKNOWN where there is no value.  Set size to
 * sizeof(hr_train_result). */
typedef struct hr_train_result {
    size_t size;
    int32_t end;         /* hr_end */
    int32_t over_budget; /* 1: measured above the budget, which is a bug in Headroom */
    uint64_t steps, epochs, skipped_steps; /* of the whole run, before resuming too */
    uint64_t bad_samples;
    double loss, accuracy; /* of the last validation, else the last epoch, else the last step */
    double train_loss;     /* of the last epoch */
    double last_loss;      /* of the last step */
    double val_loss, val_accuracy, val_top5;
    uint64_t val_samples;
    double best;
    uint64_t best_epoch;
    uint64_t history; /* digest of all losses, bit for bit */
    int64_t batch;
    uint64_t micro_batches, recomputed_ops;
    uint64_t budget_bytes, planned_peak_bytes, measured_peak_bytes;
    uint64_t planned_arena_bytes, measured_arena_bytes, pipeline_bytes;
    double samples_per_second;
    double seconds, wait_seconds, validation_seconds, save_seconds; /* this process */
    /* Strings are valid as long as the plan. */
    const char *model, *data, *device, *precision;
    const char *checkpoint; /* the last one written; NULL: none */
    uint64_t checkpoint_step;
    uint64_t left_over_samples;                  /* per epoch, that do not fill a batch */
    uint64_t host_peak_bytes, host_budget_bytes; /* GPU: planned, of this process */
    uint64_t offloaded_bytes;
    uint64_t weights; /* digest of parameters and optimizer states at the end, bit for bit */
    /* Several processes: the rank that was waited for longest, and how far it was behind the first in all, as rank 0 saw it.
     * HR_UNKNOWN and NAN otherwise. */
    uint64_t slowest_rank;
    double slowest_seconds;
} hr_train_result;

/* At any time from the start of training on, after a failure too.  HR_E_NOT_FOUND before. */
HR_API HR_MUST_CHECK hr_status hr_job_get_result(const hr_plan *plan, size_t job,
                                                 hr_train_result *out);

typedef enum hr_train_format {
    HR_TRAIN_TEXT = 0, /* the lines that `headroom train` ends with, without the "next" line */
    HR_TRAIN_JSON      /* as train --json */
} hr_train_format;

/* Prints the result.  format: hr_train_format, plus HR_PRINT_COLOR (plan.h); columns: width of text, 0: 80.  HR_E_NOT_FOUND
 * as hr_job_get_result. */
HR_API HR_MUST_CHECK hr_status hr_job_print(const hr_plan *plan, size_t job, int32_t format,
                                            uint32_t columns, hr_write_fn *write, void *user);

/* ---- step by step ---- */

/* The plan must outlive it.  Trainers of one plan share an arena and take turns on one thread.  HR_E_NO_PLAN: does not
 * fit.  HR_E_AGAIN: others hold the ledger's memory, and wait_ms have passed; the plan is as it was.  HR_E_LIMIT: this
 * process has grown since planning, or the machine has less.  HR_E_BUSY: the job has a trainer.
 * HR_E_NOT_FOUND: there is no such job, or it has no data.  HR_E_INVALID, HR_E_SHAPE or HR_E_FORMAT: the checkpoint
 * belongs to a different job.  *why (may be NULL) has the sentence and its cause. */
HR_API HR_MUST_CHECK hr_status hr_trainer_open(hr_plan *plan, size_t job, hr_trainer **out,
                                               hr_error *why);
/* Saves nothing.  Memory goes back with the plan.  NULL is allowed. */
HR_API void hr_trainer_close(hr_trainer *t);

/* One update from the job's data, then whatever is due.  HR_E_CANCELLED: the listener said so, and a checkpoint was
 * written.  HR_E_BUSY after the end. */
HR_API HR_MUST_CHECK hr_status hr_trainer_advance(hr_trainer *t, hr_error *why);
HR_API hr_end hr_trainer_end(const hr_trainer *t);
/* Ends the run now, with a checkpoint if it has a folder.  A batch already on the device is trained first. */
HR_API HR_MUST_CHECK hr_status hr_trainer_finish(hr_trainer *t, hr_error *why);

/* Exactly one update from your own batch, and nothing that may be due.  fields[0..count) are the model's inputs by name,
 * each with the whole batch (hr_train_result.batch samples) in dimension 0 and in the input's type; the trainer splits it
 * as planned.  It counts as a step of the run and extends its history.  HR_E_NOT_FOUND: an input is missing.  HR_E_SHAPE:
 * wrong size or type.  HR_E_RANGE: the loss is not finite.  After the first two the trainer is as it was.  `out` may be
 * NULL. */
HR_API HR_MUST_CHECK hr_status hr_trainer_step(hr_trainer *t, const hr_field *fields, size_t count,
                                               hr_numbers *out, hr_error *why);
/* One pass over the validation data, as after an epoch: it counts as one of the run's.  HR_E_NOT_FOUND if the job has
 * none.  `out` may be NULL. */
HR_API HR_MUST_CHECK hr_status hr_trainer_validate(hr_trainer *t, hr_numbers *out, hr_error *why);
/* Forward pass only, for a batch of your own: the model's inputs by name, as for hr_trainer_step, with val_batch samples
 * (without val_batch: hr_train_result.batch / micro_batches, rounded up); any number where the loss ignores no label.  It
 * counts for nothing.  HR_E_UNSUPPORTED: the job has neither validation data nor val_batch, so no evaluation was planned.
 * HR_E_NOT_FOUND, HR_E_SHAPE as above.  `out` may be NULL. */
HR_API HR_MUST_CHECK hr_status hr_trainer_evaluate(hr_trainer *t, const hr_field *fields,
                                                   size_t count, hr_numbers *out, hr_error *why);
/* Overrides the schedule from the next step on; NAN: back to the schedule.  Not saved: set it again after resuming.
 * HR_E_RANGE if it is negative or infinite. */
HR_API HR_MUST_CHECK hr_status hr_trainer_set_learning_rate(hr_trainer *t, double rate);

typedef enum hr_metric_of {
    HR_METRIC_STEP = 0,  /* the last step */
    HR_METRIC_EPOCH,     /* the epoch so far, or the last one at its end; since resuming */
    HR_METRIC_VALIDATION /* the last validation */
} hr_metric_of;

/* Mean over the labels that count of a scalar f32 result of the model, such as "loss" or one of your own; of: hr_metric_of.
 * NAN before the first.  HR_E_NOT_FOUND. */
HR_API HR_MUST_CHECK hr_status hr_trainer_get_metric(const hr_trainer *t, const char *name,
                                                     int32_t of, double *out);
/* Writes a checkpoint that can be resumed.  path NULL: last.safetensors in the folder. */
HR_API HR_MUST_CHECK hr_status hr_trainer_save(hr_trainer *t, const char *path, hr_error *why);

/* ---- your own gradients: with hr_job_options.keep_gradients, else HR_E_UNSUPPORTED ---- */

/* Forward and backward pass of a whole batch of your own (as hr_trainer_step); adds share * the gradient of its mean loss to
 * the gradients.  Shares of one update should sum to 1: samples of this call over all samples.  After a failure other than
 * HR_E_NOT_FOUND and HR_E_SHAPE the trainer can only be closed.  `out` may be NULL. */
HR_API HR_MUST_CHECK hr_status hr_trainer_backward(hr_trainer *t, const hr_field *fields,
                                                   size_t count, double share, hr_numbers *out,
                                                   hr_error *why);
/* The gradient of a parameter so far, f32, in its shape; read it, change it.  HR_E_NOT_FOUND, HR_E_SHAPE; HR_E_BUSY: nothing
 * was added since the last update. */
HR_API HR_MUST_CHECK hr_status hr_trainer_get_gradient(hr_trainer *t, const char *parameter,
                                                       float *to, uint64_t bytes);
HR_API HR_MUST_CHECK hr_status hr_trainer_put_gradient(hr_trainer *t, const char *parameter,
                                                       const float *from, uint64_t bytes);
/* Clips and updates: one step of the run, whose loss is that of the batches by their shares.  HR_E_BUSY: there are no
 * gradients.  HR_E_RANGE: the loss is not finite.  `out` may be NULL. */
HR_API HR_MUST_CHECK hr_status hr_trainer_apply(hr_trainer *t, hr_numbers *out, hr_error *why);
/* Forgets the gradients without updating. */
HR_API void hr_trainer_drop_gradients(hr_trainer *t);

/* Parameters and states by name.  HR_E_NOT_FOUND; HR_E_SHAPE if `bytes` is not the size of the value. */
HR_API HR_MUST_CHECK hr_status hr_trainer_get(hr_trainer *t, const char *name, void *to,
                                              uint64_t bytes);
HR_API HR_MUST_CHECK hr_status hr_trainer_put(hr_trainer *t, const char *name, const void *from,
                                              uint64_t bytes);
/* Set size to sizeof(hr_value_info). */
typedef struct hr_value_info {
    size_t size;
    const char *name; /* valid as long as the trainer */
    hr_shape shape;
    uint64_t bytes;
    int32_t type; /* hr_type */
    int32_t kind; /* HR_VALUE_PARAM, or HR_VALUE_STATE: running statistics, optimizer state, sums */
} hr_value_info;

/* Every value that hr_trainer_get and _put know, until HR_E_EOF. */
HR_API HR_MUST_CHECK hr_status hr_trainer_get_value(const hr_trainer *t, size_t index,
                                                    hr_value_info *out);
/* Parameters and running statistics from a safetensors file, as hr_job_options.init.  Everything is compared before the first
 * changes: HR_E_NOT_FOUND, HR_E_SHAPE, HR_E_FORMAT. */
HR_API HR_MUST_CHECK hr_status hr_trainer_load_weights(hr_trainer *t, const char *path,
                                                       hr_error *why);
/* The same into a file that other programs read, replaced as a whole.  Not resumable: hr_trainer_save is. */
HR_API HR_MUST_CHECK hr_status hr_trainer_save_weights(hr_trainer *t, const char *path,
                                                       hr_error *why);
/* The graph of a step, for names, types and shapes.  Valid as long as the trainer. */
HR_API const hr_graph *hr_trainer_graph(const hr_trainer *t);

HR_END_DECLS
#endif
