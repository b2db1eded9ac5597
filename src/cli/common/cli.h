/* One run of the program: its streams, its settings, its ways to speak.
 *
 * The one idea: results go to `out` (stdout) and nothing else does; words (errors, logs, progress) go to stderr.  A
 * command gets this object, and returns one of the four exit codes. */
#ifndef HRI_CLI_CLI_H
#define HRI_CLI_CLI_H

#include <headroom/headroom.h>
#include "base/json.h"
#include "base/options.h"
#include "cli/common/out.h"
#include "cli/common/settings.h"
#include "cli/common/term.h"

enum {
    HRI_EXIT_YES = 0,   /* it fits, it is done, all is right */
    HRI_EXIT_NO = 1,    /* it does not fit, a check failed */
    HRI_EXIT_USAGE = 2, /* wrong use or bad input */
    HRI_EXIT_FAULT = 3  /* something broke at run time */
};

typedef struct hri_cli {
    hri_out out;
    hri_term out_term, err_term;
    const hri_settings *settings;
    const hri_options *options; /* for the origins of the settings */
    hri_prose problem;          /* the first bad variable; "" when all is well */
    int error_lines;            /* lines that the library logged as errors */
} hri_cli;

/* "headroom: " and the sentence, on stderr.  Control characters in it are shown as '?'. */
void hri_say_error(const char *format, ...) HR_PRINTF(1, 2);
/* The last line of every answer for people: "next: headroom ...". */
void hri_say_next(hri_cli *cli, const char *command);
/* A line in bold where there is colour. */
void hri_say_title(hri_cli *cli, const char *format, ...) HR_PRINTF(2, 3);

/* A context with the settings of this run; the library's log goes to stderr.  Returns HRI_EXIT_YES, or the exit code
 * after the reason was printed. */
int hri_cli_open(hri_cli *cli, hr_ctx **out);
/* The same, with the default in place of a bad variable. */
int hri_cli_open_anyway(hri_cli *cli, hr_ctx **out);
/* Device i of those named in arguments[0..count), or of all when none is named; how many there are.  A name that is
 * not there is printed with those that are; then the exit code is not HRI_EXIT_YES. */
size_t hri_cli_device_count(hr_ctx *ctx, int count);
int hri_cli_device(hr_ctx *ctx, int count, const char *const *arguments, size_t i, hr_device **out);
/* Prints what failed, with the context's own prose where it has some (ctx may be NULL), and gives the exit code of
 * `status`. */
int hri_cli_failed(hr_ctx *ctx, const char *what, hr_status status);
/* What kind of exit a failed call means. */
int hri_cli_exit_code(hr_status status);

/* Starts an object with "version": 1; hri_cli_json_end prints and frees it and gives the exit code: `code`, or 3 when
 * it could not be built. */
void hri_cli_json_start(hri_json *json);
int hri_cli_json_end(hri_cli *cli, hri_json *json, int code);

#endif
