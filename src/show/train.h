/* A training for people and scripts: what it starts from, a line that moves, an epoch's line, the sums at the end.
 *
 * On a terminal one line is redrawn (progress.h) and stays when its epoch ends.  Elsewhere each epoch is one whole line: on
 * `out`, or on `err` when `out` is kept for the JSON object.  Nothing else is written while training runs. */
#ifndef HRI_SHOW_TRAIN_H
#define HRI_SHOW_TRAIN_H

#include "job/together.h"
#include "show/progress.h"
#include "show/show.h"
#include "show/startup.h"

typedef struct hri_train_view {
    const hri_train_job *job; /* once it is planned */
    hri_out *out, *err;       /* results; what moves */
    const hri_term *out_term, *err_term;
    bool json; /* one object is printed at the end, and no other result */
    bool many; /* another training runs beside it: lines say whose they are */
    hri_progress bar;
    uint64_t epoch;                   /* whose bar is drawn; 0: none */
    hri_record_validation validation; /* the last one of this epoch */
} hri_train_view;

/* STARTED, STEP, VALIDATED and EPOCH; the others are the caller's. */
void hri_train_show_event(hri_train_view *v, const hr_job_event *e);
/* Takes the line that moves away, so that something else may be printed. */
void hri_train_show_hide(hri_train_view *v);

/* The plan before the first step. */
HR_MUST_CHECK hr_status hri_train_show_plan(const hri_train_view *v);
/* How it ended: numbers, memory, time, what was left out, what was saved. */
void hri_train_show_end(const hri_train_view *v);
/* What was loaded, and where it goes on. */
void hri_train_show_start(const hri_train_view *v);
/* The members of the object; startup may be NULL. */
HR_MUST_CHECK hr_status hri_train_show_json(const hr_plan *plan, size_t job,
                                            const hri_startup *startup, hri_json *json);

/* Two that share an arena: what they take, and would take apart. */
void hri_train_show_pair(const hri_train_view *v, const hri_together *t);
/* Two that do not fit together: what both need at least, and a budget that a plan was found for.  v is of t->which. */
void hri_train_show_refusal(const hri_train_view *v, const hri_together *t);
void hri_train_refusal_json(const hri_together *t, hri_json *json);

#endif
