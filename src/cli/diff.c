/* headroom diff: two recordings side by side. */
#include "cli/common/command.h"
#include "see/diff.h"
#include "show/help_texts.h"

typedef struct diff_options {
    bool json;
    int64_t rows;
    const char *fail_over;
} diff_options;

#define AT(M) offsetof(diff_options, M)

static const hri_field fields[] = {
    {"fail-over", "exit with 1 when the peak or the step time grew by more than this: 5%",
     AT(fail_over), HRI_FIELD_STRING, NULL, .metavar = "PERCENT"},
    {"rows", "rows of each table", AT(rows), HRI_FIELD_INT, "10", .min = 1, .max = 1e9,
     .metavar = "N"},
    {"json", "print one JSON object", AT(json), HRI_FIELD_BOOL, .value = NULL},
    {0},
};

static int print(hri_cli *cli, const diff_options *o, const hri_see_diff *d, double share) {
    const int code = o->fail_over && hri_see_diff_over(d, share) ? HRI_EXIT_NO : HRI_EXIT_YES;
    if (code == HRI_EXIT_NO) {
        hri_say_error(cli, "the peak or the step time grew by more than %s", o->fail_over);
    }
    if (o->json) {
        hri_json json;
        hri_cli_json_start(&json);
        hri_see_diff_json(d, &json);
        return hri_cli_json_end(cli, &json, code);
    }
    const hr_status status = hri_see_diff_text(d, (size_t)o->rows, &cli->out, &cli->out_term);
    return status == HR_OK ? code : hri_cli_failed(cli, NULL, "diff", status);
}

static int run(hri_cli *cli, const void *options, int count, const char *const *arguments) {
    const diff_options *o = options;
    hri_see_diff d = {.a = NULL};
    hri_prose why = {0};
    double share = 0;
    (void)count;
    if (o->fail_over && hri_see_share_parse(o->fail_over, &share) != HR_OK) {
        hri_say_error(cli, "--fail-over: \"%s\" is not a percentage such as 5%%", o->fail_over);
        return HRI_EXIT_USAGE;
    }
    const hr_status status = hri_see_diff_files(arguments[0], arguments[1], &d, &why);
    if (status != HR_OK) {
        hri_say_error(cli, "%s", why.text[0] ? why.text : hr_status_text(status));
        return hri_cli_exit_code_of_input(status);
    }
    const int code = print(cli, o, &d, share);
    hri_see_diff_close(&d);
    return code;
}

const hri_command hri_command_diff = {
    .name = "diff",
    .summary = "compare two recorded plans or profiles",
    .arguments = "A B",
    .choices = "",
    .arguments_min = 2,
    .arguments_max = 2,
    .help = hri_help_diff,
    .examples = {{"headroom diff before.hrp after.hrp", "what changed"},
                 {"headroom diff main.hrp branch.hrp --fail-over 5%", "a check for CI"}},
    .fields = fields,
    .options_bytes = sizeof(diff_options),
    .run = run,
};
