/* headroom limit: a new budget for a job that runs. */
#include <stdlib.h>

#include "govern/link.h"
#include "cli/common/command.h"

static int run(hri_cli *cli, const void *options, int count, const char *const *arguments) {
    (void)options;
    (void)count;
    hri_link link;
    hri_prose why = {0};
    char *end;
    char wanted[32], left[32], leased[32];
    hri_wire w = hri_wire_make(HRI_VERB_LIMIT);
    w.job = strtoull(arguments[0], &end, 10);
    if (*end || !w.job) {
        hri_say_error(cli, "'%s' is not a job number; headroom top lists the jobs", arguments[0]);
        return HRI_EXIT_USAGE;
    }
    if (hr_bytes_parse(arguments[1], 0, &w.limit_bytes) != HR_OK || !w.limit_bytes) {
        hri_say_error(cli, "'%s' is not a size; use 8GiB, for example", arguments[1]);
        return HRI_EXIT_USAGE;
    }
    const uint64_t limit = w.limit_bytes;
    hr_status status = hri_link_find(&link, &why);
    if (status == HR_E_NOT_FOUND) {
        hri_say_error(cli, "no program is running under headroom run");
        return HRI_EXIT_USAGE;
    }
    if (status == HR_OK) {
        status = hri_client_ask(&link.client, &w, 10000);
    }
    hri_link_close(&link);
    if (status != HR_OK) {
        hri_say_error(cli, "%s", *why.text ? why.text : hr_status_text(status));
        return HRI_EXIT_FAULT;
    }
    hr_bytes_print(limit, wanted, sizeof wanted);
    switch (w.said) {
    case HRI_SAID_OK:
        if (w.granted_bytes > limit) {
            hri_say_note("job %s holds %s; it was asked to release memory and gets no more until "
                         "it is below the limit",
                         arguments[0], hr_bytes_print(w.granted_bytes, leased, sizeof leased));
        }
        hri_out_printf(&cli->out, "job %s: budget is now %s\n", arguments[0], wanted);
        return HRI_EXIT_YES;
    case HRI_SAID_NOT_FOUND:
        hri_say_error(cli, "there is no job %s; headroom top lists the jobs", arguments[0]);
        return HRI_EXIT_USAGE;
    case HRI_SAID_LIMIT:
        hri_say_error(cli, "%s is more than the GPU has (%s)", wanted,
                      hr_bytes_print(w.total_bytes, left, sizeof left));
        return HRI_EXIT_USAGE;
    default:
        hri_say_error(cli, "%s is not available: other programs hold the rest, %s is left", wanted,
                      hr_bytes_print(w.free_bytes, left, sizeof left));
        return HRI_EXIT_NO;
    }
}

const hri_command hri_command_limit = {
    .name = "limit",
    .summary = "change the budget of a program under headroom run",
    .arguments = "JOB SIZE",
    .choices = "",
    .arguments_min = 2,
    .arguments_max = 2,
    .help = "JOB is the number shown by headroom top. A higher budget takes effect at once, "
            "provided that the GPU has that much left. A lower one applies to all further "
            "allocations; memory that the program already holds is not taken away.",
    .examples = {{"headroom limit 3 12GiB", "give job 3 a budget of 12 GiB"}},
    .run = run,
};
