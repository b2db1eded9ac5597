/* What the history of a training depends on, as its user would say it: for the checkpoint, and for going on from it.
 *
 * The one idea: one list of names and values ("--batch" "8").  Two trainings are the same when their lists are; what differs is
 * named by its flag.  Threads, budget, how long it trains and what is written beside are not in it: they change no bit. */
#ifndef HRI_CLI_TRAIN_FACTS_H
#define HRI_CLI_TRAIN_FACTS_H

#include "base/arena.h"
#include "cli/common/train_job.h"

/* Fills about->run and ->environment; the texts lie in `texts`.  After planning and after the input was opened. */
HR_MUST_CHECK hr_status hri_train_facts(const hri_train_job *j, hri_arena *texts, hri_about *about);
/* The batch that a checkpoint was trained with, for --batch auto; 0: it does not say. */
int64_t hri_train_facts_batch(const hri_about *about);

#endif
