/* What the tests of `headroom train` share: the program as users run it (support/program.h), on small images in the case's
 * own folder.  The history of a run is one number ("history", a hash of the bits of every loss), so "the same losses" is
 * one comparison. */
#ifndef HR_TEST_E2E_TRAIN_RIG_H
#define HR_TEST_E2E_TRAIN_RIG_H

#include <stddef.h>

#include "program.h"
#include "test.h"

#define RESNET "resnet18:size=32,width=8 --data images:pics --batch 8 --seed 3"

/* The case's folder; begin makes "pics" in it, three classes of 20 images each. */
const char *where(void);
void begin(void);
void make_pictures(const char *name, int classes);
/* A path in the folder; four of them are good at a time. */
const char *in(const char *name);
void read_text(const char *name, char *buf, size_t size);
/* If there is a checkpoint, it can be opened. */
void check_checkpoint(const char *path);

/* headroom train ARGUMENTS --no-measure --json; end every outcome with program_end. */
program_outcome run(const char *arguments);
program_outcome run_killed(const char *arguments, unsigned after_ms, int signal);
/* The case fails unless it ends well. */
program_outcome run_well(const char *arguments);
/* The sentence, the exit code, no crash. */
void refused(const char *arguments, int code, const char *sentence);

#endif
