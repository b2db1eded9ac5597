/* Options of training that are flags of commands as well: --rate 0.1 and --options rate=0.1 are one thing. */
#ifndef HRI_STEP_OPTION_KEYS_H
#define HRI_STEP_OPTION_KEYS_H

#include "base/options.h"
#include "base/prose.h"
#include "base/text.h"

/* Takes the keys of --options that have a flag of their own (schedule, momentum, ...) out of it, as if the flags had been
 * typed; a key whose flag was typed too is refused.  For the tables of `train` and `plan`. */
HR_MUST_CHECK hr_status hri_train_keys_settle(hri_options *o, hri_prose *why);
/* Adds the options of training that flags set, "optimizer=adam,rate=0.1": what is auto is left out. */
void hri_train_keys_add(const hri_field *fields, const void *flags, hri_text *out);
/* The passes over the model that flags of their names ask for, for hr_job_options. */
void hri_train_passes_add(const hri_field *fields, const void *flags, hri_text *out);

#define HRI_TRAIN_LORA_HELP                                                                        \
    "train low-rank adapters of linear layers and nothing else: rank=16,alpha=32,layers=PATTERN"
#define HRI_TRAIN_PRUNE_HELP                                                                       \
    "set small weights to zero while training: 0.8, 0.5:0.8 or "                                   \
    "2:4,begin=STEP,end=STEP,every=N,layers=PATTERN"
#define HRI_TRAIN_QAT_HELP                                                                         \
    "train with weights and activations rounded to 8 bits from this step on, 0 for all: "          \
    "STEP,norms=STEP,freeze=STEP,keep=0.99"
#define HRI_TRAIN_FREEZE_HELP                                                                      \
    "layers that are not trained: names joined by +, * for any letters; \"*,except=fc\" is all "   \
    "but fc"

#endif
