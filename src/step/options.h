/* The option table of training: one list for texts, flags, help and reference pages. */
#ifndef HRI_STEP_OPTIONS_H
#define HRI_STEP_OPTIONS_H

#include <headroom/train.h>
#include "base/options.h"

extern const hri_field hri_train_fields[]; /* of hr_train_options */
#define HRI_TRAIN_MOMENTS_HELP                                                                     \
    "type of the optimizer state; bf16 and 8bit take less memory and change the result slightly"

extern const char *const hri_train_schedules[];
/* Does its schedule need the number of steps? */
int hri_train_has_end(const hr_train_options *o);

/* What schedule plateau multiplies the rate by: 1 to begin with.  In the room that hr_step_state has. */
double hri_step_plateau(const hr_step_state *s);
void hri_step_set_plateau(hr_step_state *s, double factor);

/* After the fields were set: fills in what depends on the optimizer (a negative rate, momentum or decay means "its
 * default") and refuses what makes no sense, with HR_E_INVALID. */
HR_MUST_CHECK hr_status hri_train_options_settle(hr_train_options *o, hri_prose *why);
/* The caller's options in a struct of ours; where they cannot be taken (no size, or fields that we do not know), the rate
 * is not a number. */
hr_train_options hri_train_options_known(const hr_train_options *theirs);
/* Do gradients of parts go into the velocity before all of them are known?  Nobody scales, clips or refuses them later,
 * and the update needs nothing but their sum. */
int hri_train_feeds_velocity(const hr_train_options *o);

#endif
