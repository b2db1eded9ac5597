/* Failures, answers and warnings of the library as the command line says them (show/spell.h has the words).  What each cause of
 * a failure means for the exit code is said once, in hri_cli_exit_of. */
#ifndef HRI_CLI_SPELL_H
#define HRI_CLI_SPELL_H

#include <headroom/job.h>
#include "cli/common/cli.h"
#include "show/plan.h"
#include "show/spell.h"

int hri_cli_exit_of(hr_cause cause);
/* Says what went wrong and gives the exit code. */
int hri_cli_error(hri_cli *cli, const hr_error *error);
/* The same behind `what`, "--save: ". */
int hri_cli_error_of(hri_cli *cli, const char *what, const hr_error *error);
int hri_cli_why(hri_cli *cli, const hri_why *why, hr_status status);
/* Shows an answer, as text or as the object of --json: its exit code, or that of a failure. */
int hri_cli_answer(hri_cli *cli, const hri_plan_sheet *sheet, bool as_json);
/* "next: " and the first way out of a refusal. */
void hri_cli_next_way(hri_cli *cli, const hri_plan_sheet *sheet);
/* An hr_job_event_fn for a hri_cli: prints warnings, marks the parts of the start. */
hr_status hri_cli_on_event(void *cli, const hr_job_event *event);
/* The settings of this run, and hri_cli_on_event, for a job. */
void hri_cli_job_settings(hri_cli *cli, hr_job_options *out);

/* "next: headroom report FILE --html page.html". */
void hri_say_next_page(hri_cli *cli, const char *recording);

#endif
