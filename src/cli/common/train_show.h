/* What `headroom train` shows: the plan, a line that moves, an epoch's line, the sums at the end.
 *
 * On a terminal one line is redrawn (progress.h) and stays when its epoch ends.  Elsewhere each epoch is one whole line:
 * on stdout, or on stderr when stdout is kept for the JSON object.  Nothing else is written while training runs. */
#ifndef HRI_CLI_TRAIN_SHOW_H
#define HRI_CLI_TRAIN_SHOW_H

#include "cli/common/progress.h"
#include "cli/common/train_job.h"

typedef struct hri_train_show {
    hri_train_job *job;
    hri_out err;
    hri_progress bar;
    uint64_t epoch; /* whose bar is drawn; 0: none */
    double best;
    int many; /* another training runs beside it: lines say whose they are */
} hri_train_show;

/* Sets the callbacks of the job's trainer. */
void hri_train_show_init(hri_train_show *s, hri_train_job *job, int many);
/* The plan before the first step. */
hr_status hri_train_show_plan(hri_train_show *s);
/* The sums; the exit code of how it ended. */
int hri_train_show_end(hri_train_show *s);
/* After a step failed: closes the records, and says what to go on from. */
void hri_train_show_failed(hri_train_show *s);
void hri_train_show_json(hri_train_show *s, hri_json *json);
void hri_train_show_hide(hri_train_show *s);

#endif
