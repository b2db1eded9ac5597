/* Seeds of the parts of a training: which of them may change alone.
 *
 *   data      the order of samples, and which of them validate
 *   init      first parameters
 *   dropout   random ops of the model
 *   augment   augmentation of samples, mixing, hidden tokens */
#ifndef HRI_JOB_SEEDS_H
#define HRI_JOB_SEEDS_H

#include "base/prose.h"

typedef struct hri_seeds {
    uint64_t data, init, dropout, augment;
} hri_seeds;

/* "data=1,init=2"; NULL: none.  Those that are not named are `seed`. */
HR_MUST_CHECK hr_status hri_seeds_parse(const char *text, uint64_t seed, hri_seeds *out,
                                        hri_prose *why);

#endif
