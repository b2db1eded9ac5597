/* Showing an answer: for people, as JSON, as a curve or a map in SVG.
 *
 * Text and JSON are written to whatever the caller prints to; the command line adds its colours, warnings and the next
 * command, a program gets them plain (hr_plan_print). */
#ifndef HRI_SHOW_PLAN_H
#define HRI_SHOW_PLAN_H

#include "base/json.h"
#include "base/out.h"
#include "base/term.h"
#include "job/answer.h"
#include "run/runner.h"

/* What a trial measured. */
typedef struct hri_plan_trial {
    const float *losses;
    uint64_t steps;
    hri_measured measured;
    double seconds;
} hri_plan_trial;

/* A saved plan beside this one. */
typedef struct hri_plan_saved {
    const char *path;
    hri_plan_row row;
} hri_plan_saved;

/* How a way out is spelled where it is shown: as flags of a command and as the whole of it. */
typedef struct hri_plan_speller {
    void *user;
    HR_MUST_CHECK hr_status (*flags)(void *user, const hri_plan_way *way, hri_text *out);
    HR_MUST_CHECK hr_status (*command)(void *user, const hri_plan_way *way, hri_text *out);
} hri_plan_speller;

typedef struct hri_plan_sheet {
    const hri_plan_job *job;
    const hri_plan_answer *answer;
    const hri_plan_trial *trial;     /* NULL: nothing was run */
    const hri_plan_saved *saved;     /* NULL: none */
    const hri_plan_speller *speller; /* NULL: "batch=27" */
    const char *assumed;             /* data that is counted though none was named; NULL: none is */
    bool alone;                      /* the step: what a run takes beside it is not counted */
    bool curve;                      /* the points of the curve are shown as a table too */
} hri_plan_sheet;

/* Adds "does not fit: ..." of an answer that does not. */
void hri_plan_print_refusal(const hri_plan_job *job, const hri_plan_answer *a, hri_text *out);
/* The members of the object. */
HR_MUST_CHECK hr_status hri_plan_print_json(const hri_plan_sheet *sheet, hri_json *json);
/* HR_E_NOMEM_HOST when a table found no memory.  parts: of an answer that fits, the verdict, the sum that adds up and
 * what it costs. */
HR_MUST_CHECK hr_status hri_plan_print_parts(const hri_plan_sheet *sheet, hri_out *out,
                                             const hri_term *term);
HR_MUST_CHECK hr_status hri_plan_print_text(const hri_plan_sheet *sheet, hri_out *out,
                                            const hri_term *term);
/* The SVG of a.points; hri_free() it.  NULL: no memory. */
char *hri_plan_print_svg(const hri_plan_job *job, const hri_plan_answer *a);
/* The SVG of one plan: which buffer lies where, step by step; hri_free() it.  NULL: no memory. */
char *hri_plan_print_map(const hri_plan_job *job, const hri_problem *p, const hri_plan *plan);

#endif
