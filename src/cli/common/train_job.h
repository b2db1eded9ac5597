/* One training of `headroom train`: from flags to a trainer that is ready for its first step.
 *
 * The order is what keeps the promise:
 *
 *   look    data and model: what there is, what the model string leaves open
 *   size    device, budget, batch, how long; what input pipelines may take
 *   plan    the plan for the whole budget, or the refusal
 *   start   records of planning go back; then pipelines, arena, weights, records of the run
 *
 * Every step says itself what is wrong, and returns an exit code.  Two trainings that share an arena go through the
 * same steps, side by side (train_pair.h). */
#ifndef HRI_CLI_TRAIN_JOB_H
#define HRI_CLI_TRAIN_JOB_H

#include "job/print.h"
#include "job/ways.h"
#include "cli/common/spell.h"
#include "cli/common/train_flags.h"
#include "weights/folder.h"
#include "weights/init.h"
#include "step/objective.h"
#include "loop/trainer.h"

/* The stage of an input pipeline whose smallest working set is the largest. */
typedef struct hri_largest_stage {
    char name[HR_FIELD_NAME_SIZE];
    uint64_t bytes;
} hri_largest_stage;

typedef struct hri_train_job {
    hri_cli *cli;
    hri_train_flags flags;
    const char *name;        /* "" for the only one, else "first", "second": for sentences */
    const char *given_model; /* as it was typed */
    hri_text model_text;     /* with what the data says */
    char *graph;             /* of a model that no name opens, as text; NULL: it has a name */
    char said[128];
    hri_source source, val_source;
    hri_model_input want;
    hri_objective objective;
    uint64_t train_count, val_count; /* samples of an epoch; HR_COUNT_UNKNOWN; 0: no validation */
    int all_labels_count; /* none of them is negative, or every sample has equally many that count */
    int64_t batch;        /* samples of a step */
    uint64_t steps_per_epoch, epochs, steps, total_steps;
    char train_text[HRI_SOURCE_TEXT + 1024], val_text[HRI_SOURCE_TEXT + 1024];
    hri_text options, augment;
    hri_largest_stage largest_stage;
    uint64_t train_bytes,
        val_bytes; /* budgets of the pipelines: the least, and when planned what there is room for */
    uint64_t train_wanted, val_wanted; /* with which batches are made while others are trained */
    uint64_t train_least;              /* of the training pipeline, whatever --data-budget says */
    int spare_host;                    /* GPU: the host has room for all that pipelines want */
    uint64_t own_bytes;                /* what the trainer itself takes while it runs */
    uint32_t workers;                  /* threads a pipeline; 0: not known yet */
    char *folder;                      /* NULL: nothing is saved */
    char *choices;                     /* a GPU's: read if it is there, else written */
    hri_folder lock;                   /* of it */
    const char *beside;  /* folder of the first of two trainings; NULL: there is none */
    uint64_t init_bytes; /* what the list of --init takes while it is read */
    hri_checkpoint resume;
    int resumes;
    hr_ctx *ctx;
    hr_job_options ask; /* what is planned */
    hri_plan_road road;
    hri_plan_speller speller;
    bool batch_chosen; /* --batch auto */
    hri_plan_job plan;
    hri_plan_answer answer;
    hri_fit_plans plans;
    hri_plan_row row; /* what was planned, kept for the end */
    hri_about about;
    hri_arena facts; /* texts of `about` */
    hri_supply *train, *validation;
    hri_feeds feeds;
    hri_planned *planned;
    hri_init_report init;
    hri_record *record;
    hri_trainer *trainer;
    hri_trainer_options trainer_options; /* callbacks are set by whoever shows */
} hri_train_job;

int hri_train_job_look(hri_cli *cli, const hri_train_flags *flags, const char *model,
                       hri_train_job *out);
int hri_train_job_size(hri_train_job *j);
/* Plans; HRI_EXIT_NO when nothing fits, and then answer says why. */
int hri_train_job_plan(hri_train_job *j);
/* After planning: gives the input pipelines of what the plan leaves, as far as it is of use; returns how much.  Who
 * counts it in a row of numbers is the caller's business: two trainings are one process. */
uint64_t hri_train_job_share_out(hri_train_job *j, uint64_t left_bytes);
void hri_train_job_count_input(hri_train_job *j, uint64_t bytes);
/* Adds the command as it was typed, with some flags changed. */
HR_MUST_CHECK hr_status hri_train_job_command(const hri_train_job *j, const hri_change *changes,
                                              size_t count, hri_text *out);
/* Gives the records of planning back. */
void hri_train_job_release(hri_train_job *j);
/* After the memory was taken (hri_planned_take): weights, records, the trainer. */
int hri_train_job_open_input(hri_train_job *j);
int hri_train_job_start(hri_train_job *j);
/* A zeroed one is allowed. */
void hri_train_job_close(hri_train_job *j);

/* ---- train_choices.c ---- */

/* Before the device is opened, and when the plan stands. */
int hri_train_choices_find(hri_train_job *j);
int hri_train_choices_write(hri_train_job *j);

#endif
