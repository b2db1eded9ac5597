/* Progress of long operations, and cancelling them.
 *
 *   static hr_status on_event(void *user, const hr_job_event *e) {
 *       if (e->kind == HR_EVENT_STEP) printf("step %d loss %f\n", (int)e->numbers->step, e->numbers->loss);
 *       return interrupted ? HR_E_CANCELLED : HR_OK;
 *   }
 *
 * One callback serves planning, training, evaluation and prediction.  It runs on the thread that called the library,
 * never on another one, and often (HR_EVENT_TICK): while planning before each search, which takes a second or two at most,
 * later between micro-batches and batches, at most every 100 ms.  That makes it the place to poll a signal flag, run a
 * GUI loop, or let Python raise KeyboardInterrupt.
 *
 * The return value decides what happens next:
 *
 *   HR_OK            continue
 *   HR_E_CANCELLED   stop as soon as possible.  Training finishes the current step and saves a checkpoint to resume
 *                    from; the call returns HR_E_CANCELLED.  This is the only way to cancel.
 *   anything else    the caller failed: stop without saving; the call returns this status.
 *
 * The event and everything it points to is valid until the callback returns. */
#ifndef HEADROOM_EVENT_H
#define HEADROOM_EVENT_H

#include <stddef.h>
#include <stdint.h>
#include <headroom/status.h>

HR_BEGIN_DECLS

typedef struct hr_trainer hr_trainer; /* trainer.h */

typedef enum hr_job_event_kind {
    HR_EVENT_TICK = 0, /* time passed; text, done and total describe the current activity */
    HR_EVENT_STARTED,  /* memory is taken and parameters are in place; numbers->step > 0: resumed */
    HR_EVENT_STEP,     /* one weight update */
    HR_EVENT_VALIDATED,   /* one pass over the validation data */
    HR_EVENT_EPOCH,       /* end of an epoch, after its validation */
    HR_EVENT_SAVED,       /* text: path of the checkpoint */
    HR_EVENT_SAVE_FAILED, /* text: reason.  Retried later; only the final checkpoint fails the run */
    HR_EVENT_RESIZED, /* replanned on request of the budget: total bytes before, done bytes now */
    HR_EVENT_BAD_SAMPLE, /* skipped, with skip_bad; text: "name: reason" */
    HR_EVENT_WARNING     /* text: one sentence; the job continues */
} hr_job_event_kind;

/* Numbers of a step, an epoch (means over its samples) or a validation.  NAN and HR_UNKNOWN (budget.h) where there is none. */
typedef struct hr_numbers {
    size_t size;
    uint64_t step;    /* steps done since the run began, including this one */
    uint64_t epoch;   /* from 1 */
    uint64_t samples; /* that these numbers cover */
    double loss, accuracy, top5;
    double learning_rate;
    double gradient_norm; /* before clipping */
    double seconds;
    double wait_seconds; /* part of seconds spent waiting for data */
    double samples_per_second;
    uint64_t memory_bytes; /* what the system reports for the process, now */
    uint64_t peak_bytes;   /* and at most so far */
    int32_t best;          /* validation: better than all before */
    int32_t skipped;       /* step: gradients were not finite, nothing was updated */
} hr_numbers;

typedef struct hr_job_event {
    size_t size;
    int32_t kind;     /* hr_job_event_kind; ignore kinds you do not know */
    uint32_t job;     /* index into the jobs of the plan */
    const char *text; /* TICK: the activity, "planning", "scanning images:flowers"; never NULL */
    uint64_t done, total;      /* TICK: total 0 if unknown */
    const hr_numbers *numbers; /* NULL if the kind has none */
    hr_trainer *trainer;       /* NULL while planning; the callback may get, put and save */
    const char *
        option; /* WARNING: the option of job.h that it is about, with which text begins; NULL: none */
} hr_job_event;

typedef hr_status hr_job_event_fn(void *user, const hr_job_event *event);

/* Receives text in pieces, each valid until the callback returns.  Any status but HR_OK stops the output. */
typedef hr_status hr_write_fn(void *user, const char *text, size_t bytes);

HR_END_DECLS
#endif
