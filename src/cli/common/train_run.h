/* One training as it was typed: its flags, the options of the library that they are, and what is shown of it. */
#ifndef HRI_CLI_TRAIN_RUN_H
#define HRI_CLI_TRAIN_RUN_H

#include <headroom/trainer.h>

#include "show/progress.h"
#include "cli/common/spell.h"
#include "cli/common/train_flags.h"
#include "job/together.h"

typedef struct hri_train_run {
    hri_cli *cli;
    const hri_train_flags *flags;
    const char *model; /* as it was typed */
    hri_text training, augment, folder;
    hr_job_options o;
    hri_train_job *job; /* once it is planned */
    hri_plan_speller speller;
    int many; /* another training runs beside it: lines say whose they are */
    hri_out err;
    hri_progress bar;
    uint64_t epoch;                   /* whose bar is drawn; 0: none */
    hri_record_validation validation; /* the last one of this epoch */
} hri_train_run;

/* The second training of --also, and the limits of --logical-devices. */
typedef struct hri_train_also {
    hri_options options; /* texts of its flags */
    char *text, **words;
    hri_train_flags flags;
    const char *model;
} hri_train_also;

/* Exit codes; reasons were said. */
int hri_train_also_read(hri_cli *cli, const hri_train_flags *first, hri_train_also *out);
void hri_train_also_deinit(hri_train_also *also);
/* "2GiB,1GiB": a limit for each of `count` trainings. */
int hri_train_slices_read(hri_cli *cli, const char *text, uint32_t count, uint64_t *out);

/* Fills the options; a zeroed one with cli, flags and model. */
int hri_train_run_init(hri_train_run *r);
void hri_train_run_deinit(hri_train_run *r);
/* Adds the command as it was typed, with some flags changed. */
HR_MUST_CHECK hr_status hri_train_run_command(const hri_train_run *r, const hri_change *changes,
                                              size_t count, hri_text *out);

/* ---- what is shown (train_show.c) ---- */

/* On a terminal one line is redrawn (progress.h) and stays when its epoch ends.  Elsewhere each epoch is one whole line:
 * on stdout, or on stderr when stdout is kept for the JSON object.  Nothing else is written while training runs. */
void hri_train_show_event(hri_train_run *r, const hr_job_event *e);
void hri_train_show_hide(hri_train_run *r);
/* The plan before the first step. */
hr_status hri_train_show_plan(hri_train_run *r);
/* Two that share an arena: what they take, and would take apart. */
void hri_train_show_pair(const hri_train_run *first, const hri_together *t);
/* That nothing fits; HRI_EXIT_NO. */
int hri_train_show_refusal(hri_train_run *runs, const hri_together *t);
/* The sums; the exit code of how it ended. */
int hri_train_show_end(hri_train_run *r);
/* After a step failed: what to go on from. */
void hri_train_show_failed(hri_train_run *r);
void hri_train_show_json(hri_train_run *r, hri_json *json);

#endif
