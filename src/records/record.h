/* What a training tells about itself while it runs: one call a step, and every output that was asked for has it.
 *
 *   hri_record_options o = {.lines = "run.jsonl", .events = "logs/run1", .picture = "run.svg", .log = log};
 *   hri_record_open(&o, &start, &r, &why);       before the arena is taken: buffers are part of the runtime
 *   hri_record_step(r, &step) ...                after every update of the weights
 *   hri_record_validation(r, &validation) ...
 *   hri_record_epoch(r, &epoch) ...
 *   hri_record_end(r, &end);                     the last line, the picture; then hri_record_close(r)
 *
 * Outputs: JSON lines (lines.h), TensorBoard event files (events.h), one SVG at the end (picture.h).  The three know
 * nothing of one another; this is the only place that says which number goes where.
 *
 * Only opening can fail: a place that cannot be written is wrong use, said before step 1.  Later failures are given to
 * the log once and lose records, never the training.
 *
 * Going on from a checkpoint: start.step is the number of steps already done.  Lines of later steps, which the killed
 * run wrote and this one will write again, are taken out; TensorBoard is told to forget them; the picture shows the
 * kept lines too.
 *
 * Numbers that are not known: NAN in a double or float (accuracy, top5, rate ...), UINT64_MAX in bytes.  They are left
 * out.  A loss that is not finite is written (as null in JSON).
 * Threads: one at a time. */
#ifndef HRI_RECORDS_RECORD_H
#define HRI_RECORDS_RECORD_H

#include <stdint.h>
#include <headroom/context.h>
#include "base/prose.h"

typedef struct hri_record hri_record;

typedef struct hri_record_options {
    const char *lines;   /* file, its folder made when it is not there; NULL: none */
    const char *events;  /* folder, made when it is not there; NULL: none */
    const char *picture; /* file, as lines; NULL: none */
    uint64_t
        every; /* steps between records of steps; 0 or 1: all.  Epochs and validations are always kept */
    hr_log_fn *log; /* gets the warnings; NULL: silent */
    void *log_user;
} hri_record_options;

/* The run, as it is known before its first step. */
typedef struct hri_record_start {
    const char *model, *data, *device, *optimizer, *precision, *command; /* NULL: left out */
    uint64_t step;  /* done already: 0, or where a checkpoint goes on */
    uint64_t steps; /* the whole training, where it is known; 0: not */
    uint64_t epochs, batch, parameters, seed;
    uint64_t budget_bytes; /* 0: none was given */
    uint64_t planned_peak_bytes, runtime_bytes, persistent_bytes, arena_bytes;
    uint64_t micro_batches;
} hri_record_start;

typedef struct hri_record_step {
    uint64_t step;  /* steps done, this one included: from 1 */
    uint64_t epoch; /* from 1 */
    double loss, accuracy, top5, rate;
    double norm; /* of the gradients, where it is known */
    double samples_per_second;
    double seconds;                    /* of this step, waiting included */
    double wait_seconds;               /* of them, for data */
    double device_seconds;             /* of them, in which a GPU worked; 0: unknown */
    uint64_t memory_bytes, peak_bytes; /* what the outside sees: now, and so far at most */
} hri_record_step;

enum { HRI_RECORD_METRICS = 16 };

typedef struct hri_record_validation {
    uint64_t step, epoch;
    uint64_t samples;
    double loss, accuracy, top5;
    double seconds;
    int best; /* better than every one before */
    /* What else was asked for, by name; values that are NAN cannot be told. */
    uint32_t metric_count;
    struct {
        const char *name; /* lives as long as the run */
        double value;
    } metrics[HRI_RECORD_METRICS];
} hri_record_validation;

typedef struct hri_record_epoch {
    uint64_t step, epoch;
    uint64_t samples;
    double loss, accuracy, top5; /* means over the epoch's samples */
    double samples_per_second, seconds, wait_seconds;
    uint64_t memory_bytes, peak_bytes;
} hri_record_epoch;

typedef struct hri_record_end {
    uint64_t step;
    const char *reason;     /* "done", "interrupted", "early stop", "failed": ... */
    const char *checkpoint; /* path, or NULL */
    double loss, accuracy;  /* of the last validation, else of the last epoch */
    uint64_t planned_peak_bytes, measured_peak_bytes;
    double samples_per_second, seconds;
} hri_record_end;

/* HR_E_IO, HR_E_NOT_FOUND with the path; HR_E_FORMAT when lines is a file of something else; HR_E_NOMEM_HOST. */
HR_MUST_CHECK hr_status hri_record_open(const hri_record_options *o, const hri_record_start *start,
                                        hri_record **out, hri_prose *why);
/* In all of these r may be NULL: nothing was asked for. */
void hri_record_step_done(hri_record *r, const hri_record_step *s);
void hri_record_validation_done(hri_record *r, const hri_record_validation *v);
void hri_record_epoch_done(hri_record *r, const hri_record_epoch *e);
/* Writes the closing line and the picture. */
void hri_record_ended(hri_record *r, const hri_record_end *e);
/* Flushes and frees. */
void hri_record_close(hri_record *r);

#endif
