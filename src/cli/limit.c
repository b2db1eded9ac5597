/* headroom limit: a new budget for a job that runs. */
#include <stdlib.h>

#include "cli/common/command.h"
#include "govern/limit.h"
#include "show/help_texts.h"

static int run(hri_cli *cli, const void *options, int count, const char *const *arguments) {
    (void)options;
    (void)count;
    hri_link link;
    hri_prose why = {0};
    char *end;
    uint64_t bytes = 0;
    const uint64_t job = strtoull(arguments[0], &end, 10);
    if (*end || !job) {
        hri_say_error(cli, "'%s' is not a job number; headroom top lists the jobs", arguments[0]);
        return HRI_EXIT_USAGE;
    }
    if (hr_bytes_parse(arguments[1], 0, &bytes) != HR_OK || !bytes) {
        hri_say_error(cli, "'%s' is not a size; use 8GiB, for example", arguments[1]);
        return HRI_EXIT_USAGE;
    }
    hr_status status = hri_link_find(&link, &why);
    if (status == HR_E_NOT_FOUND) {
        hri_say_error(cli, "no program is running under headroom run");
        return HRI_EXIT_USAGE;
    }
    if (status == HR_OK) {
        status = hri_limit_job(&link, job, bytes, &why);
        hri_link_close(&link);
    }
    if (status == HR_OK) {
        hri_out_printf(&cli->out, "%s\n", why.text);
        return HRI_EXIT_YES;
    }
    hri_say_error(cli, "%s", *why.text ? why.text : hr_status_text(status));
    if (status == HR_E_NOT_FOUND) {
        hri_say_hint(cli, "headroom top lists the jobs");
    }
    return status == HR_E_IO ? HRI_EXIT_FAULT : status == HR_E_AGAIN ? HRI_EXIT_NO : HRI_EXIT_USAGE;
}

const hri_command hri_command_limit = {
    .name = "limit",
    .summary = "change the budget of a program under headroom run",
    .arguments = "JOB SIZE",
    .choices = "",
    .arguments_min = 2,
    .arguments_max = 2,
    .help = hri_help_limit,
    .examples = {{"headroom limit 3 12GiB", "give job 3 a budget of 12 GiB"}},
    .run = run,
};
