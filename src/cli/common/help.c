/* The layout of help.h: verdict first (what it is), then examples, then the tables. */
#include "cli/common/help.h"

#include <stdint.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/wrap.h"

enum { WIDTH_DEFAULT = 80, WIDTH_MAX = 100, WIDTH_MIN = 30, COLUMN_MIN = 24 };

const char hri_program_summary[] = "trains neural networks within a memory budget";

const hri_exit_text hri_exit_texts[] = {
    {HRI_EXIT_YES, "success, or \"fits\""},
    {HRI_EXIT_NO, "does not fit, or a check failed"},
    {HRI_EXIT_USAGE, "usage error or bad input"},
    {HRI_EXIT_FAULT, "runtime failure"},
    {0, NULL},
};

static size_t width_of(const hri_term *term) {
    if (term->width == SIZE_MAX) {
        return WIDTH_DEFAULT;
    }
    return term->width > WIDTH_MAX ? WIDTH_MAX : term->width < WIDTH_MIN ? WIDTH_MIN : term->width;
}

void hri_help_wrap(hri_out *out, const char *text, size_t width, size_t indent) {
    hri_out_pad(out, indent);
    hri_wrap(out, text, width, indent, indent);
    hri_out_text(out, "\n");
}

static void title(hri_out *out, const hri_term *term, const char *text) {
    hri_out_text(out, "\n");
    hri_out_text(out, hri_term_style(term, HRI_STYLE_BOLD));
    hri_out_text(out, text);
    hri_out_text(out, hri_term_style(term, HRI_STYLE_PLAIN));
    hri_out_text(out, "\n");
}

/* The option table prints to a FILE; here it is caught in memory. */
static void print_fields(hri_out *out, const hri_term *term, const hri_field *fields) {
    char *text = NULL;
    size_t bytes = 0;
    FILE *f = open_memstream(&text, &bytes);
    if (f) {
        hri_options_help(fields, (int)width_of(term), f);
        fclose(f);
    }
    if (text) {
        hri_out_bytes(out, text, bytes);
    } else {
        hri_out_failed(out, ENOMEM);
    }
    free(text); /* open_memstream's */
}

/* "  left   right" with the right side wrapped in its column, or below the left one when that leaves little room. */
static void pair(hri_out *out, const hri_term *term, const char *left, const char *right,
                 size_t left_width) {
    const size_t width = width_of(term), column = 2 + left_width + 2;
    hri_out_printf(out, "  %s", left);
    if (column + COLUMN_MIN <= width || column + strlen(right) <= width) {
        hri_out_pad(out, left_width + 2 - strlen(left));
        hri_wrap(out, right, width, column, column);
        hri_out_text(out, "\n");
    } else {
        hri_out_text(out, "\n");
        hri_help_wrap(out, right, width, 6);
    }
}

static void print_commands(hri_out *out, const hri_term *term) {
    size_t left = 0;
    for (size_t i = 0; hri_commands[i]; i++) {
        const size_t length = strlen(hri_commands[i]->name);
        left = !hri_commands[i]->hidden && length > left ? length : left;
    }
    for (size_t i = 0; hri_commands[i]; i++) {
        if (!hri_commands[i]->hidden) {
            pair(out, term, hri_commands[i]->name, hri_commands[i]->summary, left);
        }
    }
}

static void print_examples(hri_out *out, const hri_term *term, const hri_example *examples,
                           size_t count) {
    size_t left = 0;
    for (size_t i = 0; i < count && examples[i].command; i++) {
        const size_t length = strlen(examples[i].command);
        left = length > left ? length : left;
    }
    for (size_t i = 0; i < count && examples[i].command; i++) {
        pair(out, term, examples[i].command, examples[i].text, left);
    }
}

/* "headroom devices: what it does" and the usage. */
static void print_head(hri_out *out, const hri_term *term, const char *name, const char *summary,
                       const char *usage) {
    char text[512];
    snprintf(text, sizeof text, "headroom %s: %s", name, summary);
    hri_help_wrap(out, text, width_of(term), 0);
    const char *program =
        strstr(usage, " -- "); /* options stand in front of another program's words */
    hri_out_printf(out, "\nusage: headroom %.*s [OPTION...]%s\n",
                   (int)(program ? (size_t)(program - usage) : strlen(usage)), usage,
                   program ? program : "");
}

static const hri_example first_steps[] = {
    {"headroom plan resnet50 --batch 32 --budget 2GiB", "tell whether a training run fits, and "
                                                        "at what cost"},
    {"headroom data 'images:DIR | decode(224) | batch(32)' --budget 64MiB",
     "run an input pipeline"},
    {"headroom devices", "list devices and their memory"},
    {"headroom doctor", "check this machine"},
    {NULL, NULL},
};

void hri_help_short(hri_out *out, const hri_term *term) {
    print_head(out, term, hr_version(), hri_program_summary, "COMMAND");
    title(out, term, "try");
    print_examples(out, term, first_steps, 4);
    hri_out_text(out, "\nnext: headroom help\n");
}

static void print_exit_codes(hri_out *out, const hri_term *term) {
    title(out, term, "exit codes");
    for (size_t i = 0; hri_exit_texts[i].text; i++) {
        hri_out_printf(out, "  %d  %s\n", hri_exit_texts[i].code, hri_exit_texts[i].text);
    }
}

void hri_help_program(hri_out *out, const hri_term *term) {
    print_head(out, term, hr_version(), hri_program_summary, "COMMAND");
    title(out, term, "examples");
    print_examples(out, term, first_steps, 4);
    title(out, term, "commands");
    print_commands(out, term);
    title(out, term, "common options");
    print_fields(out, term, hri_settings_fields);
    print_exit_codes(out, term);
    hri_out_text(out, "\nnext: headroom help COMMAND\n");
}

void hri_help_command(hri_out *out, const hri_term *term, const hri_command *command) {
    char usage[128];
    snprintf(usage, sizeof usage, "%s%s%s", command->name, command->arguments[0] ? " " : "",
             command->arguments);
    print_head(out, term, command->name, command->summary, usage);
    title(out, term, "examples");
    print_examples(out, term, command->examples, HRI_EXAMPLES);
    hri_out_text(out, "\n");
    hri_help_wrap(out, command->help, width_of(term), 0);
    if (command->fields) {
        title(out, term, "options");
        print_fields(out, term, command->fields);
    }
    title(out, term, "common options");
    print_fields(out, term, hri_settings_fields);
    print_exit_codes(out, term);
}
