/* One training as it was typed: its flags, the options of the library that they are, and what is shown of it. */
#ifndef HRI_CLI_TRAIN_RUN_H
#define HRI_CLI_TRAIN_RUN_H

#include <headroom/trainer.h>

#include "cli/common/spell.h"
#include "manual/train_flags.h"
#include "show/train.h"

typedef struct hri_train_run {
    hri_cli *cli;
    const hri_train_flags *flags;
    const char *model; /* as it was typed */
    hri_text training, passes, augment, folder;
    hr_job_options o;
    hri_plan_speller speller;
    hri_out err;
    hri_train_view view;           /* what is shown of it */
    bool ranks;                    /* one of several processes */
    struct hri_see_train *profile; /* NULL: none */
} hri_train_run;

/* One training of --also, and the limits of --logical-devices. */
typedef struct hri_train_also {
    hri_options options; /* texts of its flags */
    char *text, **words;
    hri_train_flags flags;
    const char *model;
} hri_train_also;

/* Exit codes; reasons were said. */
/* Reads one line of flags.also and goes on to the next. */
int hri_train_also_read(hri_cli *cli, const hri_train_flags *first, const char **line,
                        hri_train_also *out);
void hri_train_also_deinit(hri_train_also *also);
/* "2GiB,1GiB": a limit for each of `count` trainings. */
int hri_train_slices_read(hri_cli *cli, const char *text, uint32_t count, uint64_t *out);

/* Fills the options; a zeroed one with cli, flags and model. */
int hri_train_run_init(hri_train_run *r);
void hri_train_run_deinit(hri_train_run *r);
/* Adds the command as it was typed, with some flags changed. */
HR_MUST_CHECK hr_status hri_train_run_command(const hri_train_run *r, const hri_change *changes,
                                              size_t count, hri_text *out);

/* ---- what follows (train_show.c): exit codes, and the next command ---- */

/* That nothing fits. */
int hri_train_run_refusal(hri_train_run *runs, const hri_together *t);
/* The sums, for people. */
int hri_train_run_end(hri_train_run *r);
/* After a step failed: what to go on from. */
void hri_train_run_failed(const hri_train_run *r, bool alone);

#endif
