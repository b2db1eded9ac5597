/* headroom report: a recording as text or as a page. */
#include "cli/common/command.h"
#include "cli/common/spell.h"
#include "see/open.h"
#include "see/outputs.h"
#include "see/report.h"
#include "show/help_texts.h"

typedef struct report_options {
    bool json;
    int64_t rows;
    hri_see_outputs to;
} report_options;

#define AT(M) offsetof(report_options, M)

static const hri_field fields[] = {
    {"html", "write a page that shows memory and time, op by op", AT(to.html), HRI_FIELD_STRING,
     NULL, .metavar = "FILE"},
    {"trace", "write a trace for Perfetto or chrome://tracing", AT(to.trace), HRI_FIELD_STRING,
     NULL, .metavar = "FILE.json"},
    {"csv", "write every table as a CSV file", AT(to.csv), HRI_FIELD_STRING, NULL,
     .metavar = "FOLDER"},
    {"tensorboard", "write scalars for TensorBoard", AT(to.tensorboard), HRI_FIELD_STRING, NULL,
     .metavar = "FOLDER"},
    {"rows", "rows of each table", AT(rows), HRI_FIELD_INT, "10", .min = 1, .max = 1e9,
     .metavar = "N"},
    {"json", "print one JSON object", AT(json), HRI_FIELD_BOOL, .value = NULL},
    {0},
};

static int print(hri_cli *cli, const report_options *o, const char *path, const hri_recording *r) {
    hr_status status;
    if (o->json) {
        hri_json json;
        hri_cli_json_start(&json);
        status = hri_see_report_json(r, &json);
        return hri_cli_json_end(cli, &json, status == HR_OK ? HRI_EXIT_YES : HRI_EXIT_FAULT);
    }
    status = hri_see_report_text(r, (size_t)o->rows, &cli->out, &cli->out_term);
    if (status != HR_OK) {
        return hri_cli_failed(cli, NULL, "report", status);
    }
    if (!o->to.html) {
        hri_say_next_page(cli, path);
    }
    return HRI_EXIT_YES;
}

static int run(hri_cli *cli, const void *options, int count, const char *const *arguments) {
    const report_options *o = options;
    hri_recording r = {.truncated = false};
    hri_prose why = {0};
    hri_why place = {0};
    (void)count;
    hr_status status = hri_see_outputs_check(&o->to, &place);
    if (status != HR_OK) {
        return hri_cli_why(cli, &place, status);
    }
    status = hri_see_open(arguments[0], &r, &why);
    if (status != HR_OK) {
        hri_say_error(cli, "%s", why.text);
        return hri_cli_exit_code_of_input(status);
    }
    if (r.truncated) {
        hri_say_warning(cli, "%s: truncated; showing what it has", arguments[0]);
    }
    status = hri_see_write(&r, &o->to, &why);
    if (status != HR_OK) {
        hri_say_error(cli, "%s", why.text[0] ? why.text : hr_status_text(status));
    }
    const int code = status == HR_OK ? print(cli, o, arguments[0], &r) : hri_cli_exit_code(status);
    hri_recording_deinit(&r);
    return code;
}

const hri_command hri_command_report = {
    .name = "report",
    .summary = "show a recorded plan or profile as text or as a page",
    .arguments = "FILE",
    .choices = "",
    .arguments_min = 1,
    .arguments_max = 1,
    .help = hri_help_report,
    .examples = {{"headroom plan resnet50 --batch 32 --budget 900MiB --record r50.hrp",
                  "record a plan"},
                 {"headroom report r50.hrp", "in the terminal"},
                 {"headroom report r50.hrp --html page.html", "as a page"}},
    .fields = fields,
    .options_bytes = sizeof(report_options),
    .run = run,
};
