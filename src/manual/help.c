/* Help: verdict first (what it is), then examples, then the tables. */
#include "manual/manual.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <headroom/context.h>
#include "base/wrap.h"

enum { WIDTH_DEFAULT = 80, WIDTH_MAX = 100, WIDTH_MIN = 30, COLUMN_MIN = 24 };

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

static void print_commands(const hri_manual *m, hri_out *out, const hri_term *term) {
    size_t left = 0;
    for (size_t i = 0; m->commands[i]; i++) {
        const size_t length = strlen(m->commands[i]->name);
        left = !m->commands[i]->hidden && length > left ? length : left;
    }
    for (size_t i = 0; m->commands[i]; i++) {
        if (!m->commands[i]->hidden) {
            pair(out, term, m->commands[i]->name, m->commands[i]->summary, left);
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

void hri_help_short(const hri_manual *m, hri_out *out, const hri_term *term) {
    print_head(out, term, hr_version(), m->summary, "COMMAND");
    title(out, term, "try");
    print_examples(out, term, m->first_steps, SIZE_MAX);
    hri_out_text(out, "\nnext: headroom help\n");
}

static void print_exit_codes(const hri_manual *m, hri_out *out, const hri_term *term) {
    title(out, term, "exit codes");
    for (size_t i = 0; m->exits[i].text; i++) {
        hri_out_printf(out, "  %d  %s\n", m->exits[i].code, m->exits[i].text);
    }
}

void hri_help_program(const hri_manual *m, hri_out *out, const hri_term *term) {
    print_head(out, term, hr_version(), m->summary, "COMMAND");
    title(out, term, "examples");
    print_examples(out, term, m->first_steps, SIZE_MAX);
    title(out, term, "commands");
    print_commands(m, out, term);
    title(out, term, "common options");
    hri_options_help(m->settings, width_of(term), out);
    print_exit_codes(m, out, term);
    hri_out_text(out, "\nnext: headroom help COMMAND\n");
}

void hri_help_command(const hri_manual *m, const hri_command *command, hri_out *out,
                      const hri_term *term) {
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
        hri_options_help(command->fields, width_of(term), out);
    }
    title(out, term, "common options");
    hri_options_help(m->settings, width_of(term), out);
    print_exit_codes(m, out, term);
}
