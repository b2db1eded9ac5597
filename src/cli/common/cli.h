/* One run of the program: its streams, its settings, its ways to speak.
 *
 * The one idea: results go to `out` (stdout) and nothing else does; words (errors, logs, progress) go to stderr.  A
 * command gets this object, and returns one of the four exit codes. */
#ifndef HRI_CLI_CLI_H
#define HRI_CLI_CLI_H

#include <headroom/headroom.h>
#include "base/json.h"
#include "base/options.h"
#include "base/text.h"
#include "base/out.h"
#include "manual/settings.h"
#include "show/startup.h"
#include "base/term.h"
#include "manual/manual.h"
#include "show/waiting.h"

enum {
    HRI_EXIT_YES = 0,   /* it fits, it is done, all is right */
    HRI_EXIT_NO = 1,    /* it does not fit, a check failed */
    HRI_EXIT_USAGE = 2, /* wrong use or bad input */
    HRI_EXIT_FAULT = 3  /* something broke at run time */
};

struct hri_cli {
    hri_out out;
    hri_term out_term, err_term;
    const hri_settings *settings;
    const hri_options *options; /* for the origins of the settings */
    hri_prose problem;          /* the first bad variable; "" when all is well */
    int error_lines;            /* lines that the library logged as errors */
    /* What a script reads when something fails: the first error, the next command, every warning. */
    hri_text failure, next, warnings;
    const char *kind;     /* of the failure; NULL: follows from the exit code */
    hri_waiting *waiting; /* the line that shows that it works; NULL: none */
    bool quiet;           /* words are kept, none is printed: for what is only tried */
    bool json;            /* one object is wanted on stdout */
    bool answered;        /* and was printed */
    hri_startup startup;
    char cache[1024]; /* the directory of measurements and kernels, once it was asked for */
};

/* "headroom: " and the sentence, on stderr.  Control characters in it are shown as '?'.  The first one of a run is the
 * message of the object that --json prints.  cli may be NULL. */
void hri_say_error(hri_cli *cli, const char *format, ...) HR_PRINTF(2, 3);
/* The same for an answer that is a refusal: kept for the object of --json, printed by whoever shows the answer.  kind is
 * a static text ("does_not_fit"). */
void hri_refuse(hri_cli *cli, const char *kind, const char *format, ...) HR_PRINTF(3, 4);
/* "headroom: next: " and a command, on stderr: behind an error. */
void hri_say_hint(hri_cli *cli, const char *format, ...) HR_PRINTF(2, 3);
/* "headroom: warning: ": the run goes on, and the object of --json has it too.  Not for other threads. */
void hri_say_warning(hri_cli *cli, const char *format, ...) HR_PRINTF(2, 3);
/* "headroom: " and what is neither of these.  For any thread. */
void hri_say_note(const char *format, ...) HR_PRINTF(1, 2);
/* The last line of every answer for people: "next: headroom ...". */
void hri_say_next(hri_cli *cli, const char *command);
/* From now on lines of the answer are broken between words at the terminal's edge: for answers that people read. */
void hri_cli_wrap(hri_cli *cli);
/* Flushes the answer; `code`, or 3 after a sentence on stderr when a write failed for another reason than a closed pipe,
 * which is the reader's choice. */
int hri_out_finish(hri_out *out, int code);
/* A line in bold where there is colour. */
void hri_say_title(hri_cli *cli, const char *format, ...) HR_PRINTF(2, 3);

/* Adds "headroom NAME WORD" and the flags of a target of `fields` that are not at their defaults, then the settings that
 * were typed.  word may be NULL. */
HR_MUST_CHECK hr_status hri_cli_command(const hri_cli *cli, const char *name, const char *word,
                                        const hri_field *fields, const void *target, hri_text *out);
/* A context with the settings of this run; the library's log goes to stderr.  Returns HRI_EXIT_YES, or the exit code
 * after the reason was printed. */
int hri_cli_open(hri_cli *cli, hr_ctx **out);
/* The same, with the default in place of a bad variable. */
int hri_cli_open_anyway(hri_cli *cli, hr_ctx **out);
/* For one device alone: whoever computes on the host need not hold the libraries of a GPU, which count in its budget. */
int hri_cli_open_for(hri_cli *cli, const char *device, hr_ctx **out);
/* Prints what failed, with the context's own prose where it has some (ctx may be NULL), and gives the exit code of
 * `status`. */
int hri_cli_failed(hri_cli *cli, hr_ctx *ctx, const char *what, hr_status status);
/* What kind of exit a failed call means; of_input: of one that read what the user gave, where "cannot be read" and "is
 * not supported" are bad input. */
int hri_cli_exit_code(hr_status status);
int hri_cli_exit_code_of_input(hr_status status);

/* Starts an object with "version": 1; hri_cli_json_end adds the warnings and, when `code` is not HRI_EXIT_YES, the
 * error, prints and frees it and gives the exit code: `code`, or 3 when it could not be built. */
void hri_cli_json_start(hri_json *json);
int hri_cli_json_end(hri_cli *cli, hri_json *json, int code);
/* The keys that json_end adds, for an object that is printed in pieces. */
void hri_cli_json_error(const hri_cli *cli, hri_json *json, int code);
/* The object of a failure that printed none: {"version": 1, "error": {"code", "kind", "message"}}. */
int hri_cli_json_failure(hri_cli *cli, int code);

#endif
