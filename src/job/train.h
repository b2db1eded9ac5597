/* One training: from the options of job.h to a trainer that is ready for its first step.
 *
 * The order is what keeps the promise:
 *
 *   look    data and model: what there is, what the model's text leaves open                  look.c
 *   size    folder, device, budget, batch, how long; what input pipelines may take            size.c, input.c, length.c
 *   plan    the plan for the whole budget, or the refusal                                     size.c
 *   start   records of planning go back; then pipelines, arena, weights, records of the run   start.c
 *
 * Each of them returns a status, and hri_train_job.why has the sentence and its cause.  Several trainings that share an
 * arena go through the same steps, side by side (together.h). */
#ifndef HRI_JOB_TRAIN_H
#define HRI_JOB_TRAIN_H

#include "base/text.h"
#include "job/answer.h"
#include "job/ways.h"
#include "job/seeds.h"
#include "loop/trainer.h"
#include "step/objective.h"
#include "weights/folder.h"
#include "weights/init.h"

/* Threads of a pipeline that every budget has room for, and what one of them takes beside the data: its stack, the
 * state of a decoder.  More of them are started only where there is room. */
enum { HRI_TRAIN_WORKERS = 2, HRI_TRAIN_WORKER_BYTES = 96 << 10 };

/* The stage of an input pipeline whose smallest working set is the largest. */
typedef struct hri_largest_stage {
    char name[HR_FIELD_NAME_SIZE];
    uint64_t bytes;
} hri_largest_stage;

typedef struct hri_train_job {
    hr_job_options o;   /* as they were given, defaults filled in; texts are the plan's */
    hr_job_options ask; /* what is planned */
    hr_ctx *ctx;
    hri_why why;
    hri_listener listener;
    /* Of the hr_plan that this is the training of. */
    hri_plan_job *plan;
    hri_plan_answer *answer;
    hri_fit_plans *plans;
    hri_pace pace; /* that its steps measure */
    hri_plan_road *road;

    const char *name; /* "" for the only one, else "first", "second": for sentences */
    uint32_t index;   /* of several */
    bool own_refusal; /* no ways out are looked for: several have a refusal of their own */
    uint64_t
        process_bytes; /* with logical devices: the limits of all and the process; 0: the plan's budget */
    hri_text model_text; /* with what the data says */
    hri_text line;       /* a network in one line with its input from the data */
    hri_text weights;    /* a model file's own, which `init` of the options then is */
    char *graph;         /* of a model that no name opens, as text; NULL: it has a name */
    char said[128];
    hri_source source, val_source;
    hri_model_input want;
    hri_objective objective;
    hri_loss loss; /* in place of the model's own */
    hri_seeds seeds;
    float *class_weights;            /* want.classes of them; NULL: none */
    uint64_t train_count, val_count; /* samples of an epoch; HR_COUNT_UNKNOWN; 0: no validation */
    int all_labels_count; /* none of them is negative, or every sample has equally many that count */
    int64_t batch;        /* samples of a step */
    bool batch_chosen;    /* nobody said one */
    uint64_t steps_per_epoch, epochs, steps, total_steps;
    char train_text[HRI_SOURCE_TEXT + 1024], val_text[HRI_SOURCE_TEXT + 1024];
    hri_text options, augment;
    hri_largest_stage largest_stage;
    uint64_t train_bytes,
        val_bytes; /* budgets of the pipelines: the least, and when planned what there is room for */
    uint64_t train_wanted, val_wanted; /* with which batches are made while others are trained */
    uint64_t train_least;              /* of the training pipeline, whatever its budget says */
    int spare_host;                    /* GPU: the host has room for all that pipelines want */
    hri_wanted wanted;                 /* metrics of validations, by name */
    size_t best_by;                    /* of them; HRI_BEST_BY_LOSS */
    hri_scorer *scorer;
    hri_mix_options mix; /* both 0: nothing is mixed */
    uint64_t own_bytes;  /* what the trainer itself takes while it runs */
    uint32_t workers;    /* threads a pipeline; 0: not known yet */
    char *folder;        /* NULL: nothing is saved */
    char *choices;       /* a GPU's: read if it is there, else written */
    hri_folder lock;     /* of the folder */
    const char *beside;  /* folder of the first of several; NULL: there is none */
    uint64_t init_bytes; /* what the list of `init` takes while it is read */
    hri_checkpoint resume;
    int resumes;
    hri_plan_row row; /* what was planned, kept for the end */
    hri_about about;
    hri_arena facts; /* texts of `about` */
    hri_supply *train, *validation;
    hri_feeds feeds;
    hri_who who;  /* size 0 or 1: alone */
    hri_net *net; /* between processes; NULL: there is one */
    hri_planned *planned;
    hri_init_report init;
    hri_record *record;
    hri_trainer *trainer;
    hr_trainer *door;   /* the public face of it, for events */
    hr_status answered; /* what the listener said when it did not say HR_OK */
    uint64_t ticked_ns; /* when it was last asked */
    size_t bad_said[2]; /* bad samples that were named: of training, validation */
    bool ended;         /* the last record was written */
    uint64_t digest;    /* of parameters and states, at the end; HR_UNKNOWN: not yet */
} hri_train_job;

/* Sets why, and returns status: of what the user gave, and of a sentence from above. */
hr_status hri_train_failed(hri_train_job *j, hr_status status, const hri_prose *why);

/* `options` are owned by the plan whose parts j points to. */
HR_MUST_CHECK hr_status hri_train_look(hri_train_job *j, hr_ctx *ctx,
                                       const hr_job_options *options);
HR_MUST_CHECK hr_status hri_train_size(hri_train_job *j);
/* After hri_plan_job_fit.  HR_OK whether it fits or not: j->answer->fits. */
HR_MUST_CHECK hr_status hri_train_plan(hri_train_job *j);
/* After planning: gives the input pipelines of what the plan leaves, as far as it is of use; returns how much.  Who
 * counts it in a row of numbers is the caller's business: several trainings are one process. */
uint64_t hri_train_share_out(hri_train_job *j, uint64_t left_bytes);
void hri_train_count_input(hri_train_job *j, uint64_t bytes);
/* Gives the records of planning back. */
void hri_train_release(hri_train_job *j);
HR_MUST_CHECK hr_status hri_train_open_input(hri_train_job *j);
/* What the pipelines of this job lease themselves when they are opened. */
uint64_t hri_train_leased_input(const hri_train_job *j);
/* After the memory was taken (hri_planned_take): weights, records, the trainer. */
HR_MUST_CHECK hr_status hri_train_start(hri_train_job *j);
/* A zeroed one is allowed. */
void hri_train_close(hri_train_job *j);

/* ---- between the files ---- */

/* input.c: texts of the pipelines for batches of this size; what they need; why they need it. */
HR_MUST_CHECK hr_status hri_train_write_pipelines(hri_train_job *j, int64_t batch, hri_prose *why);
HR_MUST_CHECK hr_status hri_train_size_input(hri_train_job *j, int64_t samples);
void hri_train_explain_input(const hri_train_job *j, char *text, size_t size);
uint32_t hri_train_threads(const hri_train_job *j);
hr_pipeline_options hri_train_pipeline_options(const hri_train_job *j, uint64_t budget);
/* length.c: the batch where none is given; how many steps; the text of options with the length of a cosine. */
HR_MUST_CHECK hr_status hri_train_find_batch(hri_train_job *j, int64_t *out);
HR_MUST_CHECK hr_status hri_train_set_length(hri_train_job *j);
HR_MUST_CHECK hr_status hri_train_set_options(hri_train_job *j);
HR_MUST_CHECK hr_status hri_train_options_text(const hr_job_options *o, uint64_t steps,
                                               hri_text *out);
void hri_train_warn_of_length(const hri_train_job *j);
/* metric.c: what is asked for, after everything was looked at; what it takes; before the input is opened. */
hri_target hri_train_target(const hri_loss *loss);
void hri_train_task(const hri_model_input *want, const hri_loss *loss, hri_wanted_task *out);
HR_MUST_CHECK hr_status hri_train_read_metrics(hri_train_job *j);
uint64_t hri_train_metric_bytes(const hri_train_job *j);
HR_MUST_CHECK hr_status hri_train_open_scorer(hri_train_job *j, hri_prose *why);
/* folder.c */
HR_MUST_CHECK hr_status hri_train_open_folder(hri_train_job *j);
/* size.c: what pipelines would like beside the least, by the budget. */
void hri_train_set_comfort(hri_train_job *j);
/* size.c: what the trainer itself takes while it runs. */
uint64_t hri_train_own_bytes(const hri_train_job *j);
/* facts.c: fills about->run and ->environment, after planning and after the input was opened. */
HR_MUST_CHECK hr_status hri_train_facts(hri_train_job *j);
/* The batch that a checkpoint was trained with; 0: it does not say. */
int64_t hri_train_facts_batch(const hri_about *about);

/* ---- how it ended (result.c) ---- */

const char *hri_train_reason(hri_trainer_end end); /* "done", "early stop", ... */
/* Loss and accuracy of the last validation, else of the last epoch, else of the last step; NAN. */
void hri_train_final_numbers(const hri_trainer_sums *sums, double *loss, double *accuracy);
/* Samples that were left out as bad, and those that fill no batch at the end of an epoch. */
uint64_t hri_train_bad_samples(const hri_train_job *j);
uint64_t hri_train_left_over(const hri_train_job *j);
/* More was measured than was granted, which is a bug in Headroom. */
bool hri_train_over_budget(const hri_train_job *j, const hri_measured *m);
/* Numbers of a step for the public face. */
hr_numbers hri_train_numbers(const hri_train_job *j, const hri_record_step *s);
/* After the ranks have met: all run one plan, that of rank 0 (same_plan.c).  HR_E_LIMIT, HR_E_INVALID: it does not fit or pass here,
 * and ranks hold slices.  Nothing is done without ranks. */
HR_MUST_CHECK hr_status hri_train_same_plan(hri_train_job *j, hri_prose *why);
/* Between processes: all others end with the reason. */
void hri_train_tell_ranks(hri_train_job *j, hr_status status, const char *text);
/* What is behind the public face (trainer.c). */
hri_train_job *hri_trainer_job(const hr_trainer *t);
/* Writes the last record and the picture, once. */
void hri_train_record_end(hri_train_job *j);

#endif
