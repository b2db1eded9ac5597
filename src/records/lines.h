/* The log of a training as JSON lines: one object a line, one line a step, validation, epoch, beginning and end.
 *
 * Every line has "event" (start, step, validation, epoch, end), "step" (steps done so far) and "time" (UTC, ISO 8601).
 * The other keys are those of record.h, sizes as integers with _bytes in their names, times in seconds, accuracies
 * between 0 and 1; docs/training-log.md lists them.  What is not known is left out; a loss that is not finite is null.
 *
 * A line is written whole before the next step begins, so a killed run loses at most its last line.  The file of a
 * run that is continued keeps its lines up to the step of the checkpoint and loses those behind it: each step is in
 * the file once.  Such a file must be one of ours: every line has "event" and "step".
 * Threads: one at a time. */
#ifndef HRI_RECORDS_LINES_H
#define HRI_RECORDS_LINES_H

#include "base/json.h"
#include "records/record.h"
#include "records/sink.h"

typedef struct hri_lines {
    hri_sink sink;
} hri_lines;

/* Is given every line that was kept, as a parsed object. */
typedef void hri_lines_replay(void *user, const json_t *line);

/* start->step > 0 goes on with the file, if there is one; otherwise it begins anew.  replay may be NULL. */
HR_MUST_CHECK hr_status hri_lines_open(const char *path, const hri_record_start *start,
                                       hri_lines_replay *replay, void *user, hr_log_fn *log,
                                       void *log_user, hri_lines *out, hri_prose *why);
void hri_lines_step(hri_lines *l, const hri_record_step *s);
void hri_lines_validation(hri_lines *l, const hri_record_validation *v);
void hri_lines_epoch(hri_lines *l, const hri_record_epoch *e);
void hri_lines_end(hri_lines *l, const hri_record_end *e);
/* Allowed twice, and on one whose sink is {.fd = -1}. */
void hri_lines_close(hri_lines *l);

#endif
