/* Why a call of the job layer failed: a status, a sentence, and who has to act.
 *
 *   return hri_why_option(why, HR_E_INVALID, "budget", ": \"%s\" is not an amount of memory", text);
 *
 * The one idea: whoever meets a failure knows what it means (a mistyped option, a bad file, a broken machine); a status
 * alone does not tell.  So the cause is set there, once, and travels up in hr_error (job.h); programs map causes to exit
 * codes or exceptions.  A sentence about an option begins with the option's name as hr_job_options has it; options further
 * on stand in `backquotes`, with a value (`steps=100`) or without.  The command line prints both as flags. */
#ifndef HRI_JOB_WHY_H
#define HRI_JOB_WHY_H

#include <headroom/job.h>
#include "base/prose.h"

typedef struct hri_why {
    hr_status status;
    hr_cause cause;        /* NONE while nothing has failed */
    uint32_t option_bytes; /* of the option that the sentence begins with; 0: none */
    hri_prose prose;
} hri_why;

/* What a status means where nothing more is known; input: of a call that read what the user gave, where "cannot be read"
 * and "is not supported" are the data's fault. */
hr_cause hri_cause_of(hr_status status);
hr_cause hri_cause_of_input(hr_status status);

/* All return `status`.  The first failure is kept: what follows from it says nothing new.  why may be NULL. */
hr_status hri_why_set(hri_why *why, hr_cause cause, hr_status status, const char *format, ...)
    HR_PRINTF(4, 5);
/* USAGE; the sentence is the option's name and then the rest. */
hr_status hri_why_option(hri_why *why, hr_status status, const char *option, const char *rest, ...)
    HR_PRINTF(4, 5);
/* A sentence of a layer above (may be empty: then the status speaks), behind "WHAT: " unless what is NULL. */
hr_status hri_why_prose(hri_why *why, hr_cause cause, hr_status status, const char *what,
                        const hri_prose *prose);
/* The same with a public error's sentence. */
hr_status hri_why_error(hri_why *why, hr_cause cause, hr_status status, const char *what,
                        const hr_error *error);

/* For a public call: *out (may be NULL) gets it all. */
void hri_why_give(const hri_why *why, hr_status status, hr_error *out);

/* ---- what is said while a job goes on ---- */

/* Who listens: hr_job_options.on_event. */
typedef struct hri_listener {
    hr_job_event_fn *fn; /* NULL: nobody */
    void *user;
} hri_listener;

/* A warning; option (may be NULL) is what it begins with. */
void hri_listener_warn(const hri_listener *l, const char *option, const char *format, ...)
    HR_PRINTF(3, 4);
/* "planning", "opening cuda:0": what begins now.  Any status but HR_OK ends the job with it. */
HR_MUST_CHECK hr_status hri_listener_tick(const hri_listener *l, const char *activity,
                                          uint64_t done, uint64_t total, hri_why *why);

#endif
