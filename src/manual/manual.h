/* A program described by its tables, and everything that is printed from them: --help, man pages, docs/commands.md, and
 * completions for shells.
 *
 * The one idea: what a command can do is written once.  The parser obeys the same descriptor that the pages are printed
 * from, so none of them can be stale.  No page shows the date or the machine: the same program prints the same page.
 *
 * This layer knows no command; the program hands it all of them (hri_manual). */
#ifndef HRI_MANUAL_MANUAL_H
#define HRI_MANUAL_MANUAL_H

#include <stddef.h>
#include "base/options.h"
#include "base/out.h"
#include "base/term.h"

typedef struct hri_cli hri_cli; /* one run of the program; nothing here looks inside */

typedef struct hri_example {
    const char *command; /* as typed, "headroom" in front */
    const char *text;    /* what it does, lower case, no full stop */
} hri_example;

enum { HRI_EXAMPLES = 4, HRI_ARGUMENTS_MAX = 64 };

typedef struct hri_command {
    const char *name;
    const char *summary;   /* one line, lower case, no full stop */
    const char *arguments; /* "[COMMAND]"; "" for none */
    const char
        *choices; /* words that the argument may be, with spaces between; "" any; "@commands" */
    int arguments_min, arguments_max;
    const char *help; /* paragraphs with an empty line between; '\n' elsewhere is only a space */
    hri_example examples[HRI_EXAMPLES];
    const hri_field *fields; /* the options, over a struct of options_bytes; NULL: none */
    size_t options_bytes;
    int hidden; /* works, but is not shown in the list */
    /* After parsing: brings different ways to say one thing to one form.  NULL: there are none. */
    hr_status (*settle)(hri_options *o, hri_prose *why);
    const char
        *reads; /* an option that has an effect here whatever it needs elsewhere; NULL: none */
    /* options points at the parsed struct; arguments[0..count) are the positional ones.  Returns an exit code. */
    int (*run)(hri_cli *cli, const void *options, int count, const char *const *arguments);
} hri_command;

/* A code that the program ends with, or a variable of other programs that it obeys. */
typedef struct hri_exit_text {
    int code;
    const char *text;
} hri_exit_text;
typedef struct hri_foreign {
    const char *variable, *help;
} hri_foreign;

typedef struct hri_manual {
    const char *summary;                /* of the program, one line */
    const hri_command *const *commands; /* ends with NULL, as all of these lists do */
    const hri_field *settings;          /* options of every command */
    const hri_foreign *foreign;
    const hri_exit_text *exits;
    const hri_example *first_steps;
    void (*chapters)(hri_out *out); /* further chapters of docs/commands.md */
} hri_manual;

/* ---- for people at a terminal ---- */

/* What the program is, its commands, the settings of every command. */
void hri_help_program(const hri_manual *m, hri_out *out, const hri_term *term);
/* Examples and where to read on: for a call without a command. */
void hri_help_short(const hri_manual *m, hri_out *out, const hri_term *term);
void hri_help_command(const hri_manual *m, const hri_command *command, hri_out *out,
                      const hri_term *term);
/* Paragraphs wrapped at `width` columns behind `indent` spaces, an empty line between them. */
void hri_help_wrap(hri_out *out, const char *text, size_t width, size_t indent);

/* ---- pages ---- */

/* headroom(1) for NULL, else headroom-<name>(1). */
void hri_man_page(const hri_manual *m, const hri_command *command, hri_out *out);
/* The whole of docs/commands.md. */
void hri_markdown_page(const hri_manual *m, hri_out *out);
/* A row of three cells, and a table of options that are written name=value: for chapters. */
void hri_markdown_row(hri_out *out, const char *name, const char *help, const char *value);
void hri_markdown_keys(hri_out *out, const hri_field *fields);

/* ---- completion ---- */

/* The script holds words only, no logic about any command: a case over the command's name gives its flags, and a case over
 * the flag before the cursor gives the choices of its value. */
void hri_completion_bash(const hri_manual *m, hri_out *out);
void hri_completion_zsh(const hri_manual *m, hri_out *out);

#endif
