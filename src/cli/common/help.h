/* Help for people at a terminal, printed from the tables. */
#ifndef HRI_CLI_HELP_H
#define HRI_CLI_HELP_H

#include "cli/common/cli.h"
#include "cli/common/command.h"

/* What the program is, its commands, the settings of every command. */
void hri_help_program(hri_out *out, const hri_term *term);
/* Two examples and where to read on: for a call without a command. */
void hri_help_short(hri_out *out, const hri_term *term);
void hri_help_command(hri_out *out, const hri_term *term, const hri_command *command);

/* Words for every form of the reference. */
extern const char hri_program_summary[];
typedef struct hri_exit_text {
    int code;
    const char *text;
} hri_exit_text;
/* Ends with a NULL text. */
extern const hri_exit_text hri_exit_texts[];

/* Prints paragraphs wrapped at `width` columns behind `indent` spaces, an empty line between them. */
void hri_help_wrap(hri_out *out, const char *text, size_t width, size_t indent);

#endif
