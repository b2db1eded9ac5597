/* Between the files of the trainer; see trainer.h.
 *
 *   trainer.c            steps and epochs, opening and closing
 *   trainer_save.c       checkpoints: when they fail, and going on from one
 *   trainer_validate.c   validation, the best so far, the model's own numbers */
#ifndef HRI_LOOP_TRAINER_PARTS_H
#define HRI_LOOP_TRAINER_PARTS_H

#include "loop/trainer.h"
#include "weights/folder.h"

/* Of the model's own numbers. */
typedef struct hri_trainer_means {
    double sums[HRI_PLANNED_METRICS];
    uint64_t counted;
} hri_trainer_means;

struct hri_trainer {
    hri_trainer_options o;
    hri_progress_state at;
    hri_trainer_sums sums;
    hri_trainer_end end;
    hri_folder own; /* locked here; fd -1: by the caller, or there is none */
    char *last_path, *best_path;
    const char *saved_path; /* "": nothing is there yet */
    char *resumed_path;
    uint64_t saved_step, saved_ns, begun_ns;
    uint64_t epoch_begun_ns, epoch_wait_ns, epoch_own_samples;
    hri_measured measured;
    uint64_t measured_ns;
    int validated; /* the epoch's last step was validated already */
    int save_failed, failed;
    int stopping; /* no batch is fed ahead any more */
    int looked,
        over;    /* over: this step ends its epoch, as it was seen before the next batch was fed */
    int begun;   /* the next epoch was begun while this step ran */
    void *place; /* how far the data was before the next batch was fed; NULL: nobody will ask */
    size_t place_bytes;
    hri_record_step unsaid; /* a step that was not reported yet */
    int has_unsaid;
    hri_numbers added; /* of the batches whose gradients wait for an update */
    uint64_t added_ns; /* > 0: there are some */
    hri_prose save_why;
    hri_trainer_means epoch_means,
        validation_means; /* of the model's own numbers, by this process */
};

void hri_trainer_log(const hri_trainer *t, hr_log_level level, const char *line);

/* ---- trainer_save.c ---- */

/* Writes the last checkpoint, or the best.  A failure is kept and said; whoever needs the file decides. */
hr_status hri_trainer_write(hri_trainer *t, int best);
HR_MUST_CHECK hr_status hri_trainer_resume(hri_trainer *t, const hri_checkpoint *c, hri_prose *why);
/* Averages of the weights begin with the weights. */
HR_MUST_CHECK hr_status hri_trainer_begin_averages(hri_trainer *t, hri_prose *why);
/* The place of the data behind the last step: now, or as it was before the next batch was fed ahead. */
HR_MUST_CHECK hr_status hri_trainer_keep_place(hri_trainer *t);
void hri_trainer_drop_place(hri_trainer *t);

/* ---- trainer_validate.c ---- */

/* Validates, reports it, and saves what is the best so far. */
HR_MUST_CHECK hr_status hri_trainer_do_validation(hri_trainer *t, hri_prose *why);
/* Is this number the best so far?  Counts those that were not. */
int hri_trainer_judge(hri_trainer *t, double number);
void hri_trainer_add_means(const hri_trainer *t, hri_trainer_means *m, uint64_t counted);

#endif
