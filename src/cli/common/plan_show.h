/* Showing the answer of `headroom plan`: for people, as JSON, as a curve in text or SVG. */
#ifndef HRI_CLI_PLAN_SHOW_H
#define HRI_CLI_PLAN_SHOW_H

#include "cli/common/plan_answer.h"
#include "run/runner.h"

/* What --try measured; NULL where nothing was run. */
typedef struct hri_plan_trial {
    const float *losses;
    uint64_t steps;
    hri_measured measured;
    double seconds;
} hri_plan_trial;

/* A saved plan beside this one; NULL: none. */
typedef struct hri_plan_saved {
    const char *path;
    hri_plan_row row;
} hri_plan_saved;

/* Keeps the refusal of an answer that does not fit, for the object of --json. */
void hri_plan_show_refuse(const hri_plan_job *job, const hri_plan_answer *a);
void hri_plan_show_json(const hri_plan_job *job, const hri_plan_answer *a,
                        const hri_plan_trial *trial, const hri_plan_saved *saved, hri_json *json);
/* HR_E_NOMEM_HOST when a table found no memory.  parts: of an answer that fits, the verdict, the sum that adds up and
 * what it costs. */
HR_MUST_CHECK hr_status hri_plan_show_parts(hri_cli *cli, const hri_plan_job *job,
                                            const hri_plan_answer *a);
HR_MUST_CHECK hr_status hri_plan_show_text(hri_cli *cli, const hri_plan_job *job,
                                           const hri_plan_answer *a, const hri_plan_trial *trial,
                                           const hri_plan_saved *saved);
/* The SVG of a.points; hri_free() it.  NULL: no memory. */
char *hri_plan_show_svg(const hri_plan_job *job, const hri_plan_answer *a);
/* The SVG of one plan: which buffer lies where, step by step; hri_free() it.  NULL: no memory. */
char *hri_plan_show_map(const hri_plan_job *job, const hri_problem *p, const hri_plan *plan);

#endif
