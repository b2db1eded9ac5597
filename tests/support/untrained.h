/* A checkpoint without a training: a model with the parameters it begins with, in a file. */
#ifndef HR_TEST_UNTRAINED_H
#define HR_TEST_UNTRAINED_H

#include "weights/checkpoint.h"

/* Writes NAME in the case's folder and returns its path, good until the next call.  `about` says what the data is; its model
 * and precision are filled in. */
const char *test_untrained(const char *model, const hri_about *about, const char *name);

#endif
