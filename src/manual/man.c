/* Pages in the man macros. */
#include "manual/manual.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <headroom/context.h>

/* A '-' that is typed must be one when copied; a line must not start with a dot or a quote; a newline is a space. */
static void man_text(hri_out *out, const char *text) {
    int at_start = 1;
    for (; *text; text++) {
        if (*text == '-') {
            hri_out_text(out, "\\-");
        } else if (*text == '\\') {
            hri_out_text(out, "\\e");
        } else if (at_start && (*text == '.' || *text == '\'')) {
            hri_out_printf(out, "\\&%c", *text);
        } else if (text[0] == '\n' && text[1] == '\n') {
            hri_out_text(out, "\n.PP\n");
            text++;
            at_start = 1;
            continue;
        } else {
            hri_out_bytes(out, *text == '\n' ? " " : text, 1);
        }
        at_start = 0;
    }
}

static void man_line(hri_out *out, const char *text) {
    man_text(out, text);
    hri_out_text(out, "\n");
}

static void man_fields(hri_out *out, const hri_field *fields) {
    for (const hri_field *f = fields; f && f->name; f++) {
        hri_out_text(out, ".TP\n\\fB");
        if (f->letter) {
            hri_out_printf(out, "\\-%c\\fR, \\fB", f->letter);
        }
        hri_out_text(out, "\\-\\-");
        man_text(out, f->name);
        hri_out_text(out, "\\fR");
        if (f->type == HRI_FIELD_BOOL && f->value && !strcmp(f->value, "true")) {
            hri_out_text(out, ", \\fB\\-\\-no\\-");
            man_text(out, f->name);
            hri_out_text(out, "\\fR");
        } else if (f->type != HRI_FIELD_BOOL) {
            hri_out_printf(out, " \\fI%s\\fR", f->metavar ? f->metavar : "VALUE");
        }
        hri_out_text(out, "\n");
        man_line(out, f->help);
        for (size_t i = 0; f->choices && f->choices[i]; i++) {
            hri_out_printf(out, "%s\\fB%s\\fR", i ? ", " : "One of ", f->choices[i]);
        }
        hri_out_text(out, f->choices ? ".\n" : "");
        if (f->value) {
            hri_out_text(out, "Default: ");
            man_text(out, f->value);
            hri_out_text(out, ".\n");
        }
        if (f->env) {
            hri_out_printf(out, "Variable: \\fB%s\\fR.\n", f->env);
        }
    }
}

static void man_head(hri_out *out, const char *name, const char *summary) {
    hri_out_text(out, ".TH ");
    for (const char *p = name; *p; p++) {
        hri_out_printf(out, "%c", toupper((unsigned char)*p));
    }
    hri_out_printf(out, " 1 \"\" \"headroom %s\" \"Headroom\"\n.SH NAME\n", hr_version());
    man_text(out, name);
    hri_out_text(out, " \\- ");
    man_line(out, summary);
    hri_out_text(out, ".SH SYNOPSIS\n");
}

static void man_exit_codes(const hri_manual *m, hri_out *out) {
    hri_out_text(out, ".SH EXIT STATUS\n");
    for (size_t i = 0; m->exits[i].text; i++) {
        hri_out_printf(out, ".TP\n%d\n", m->exits[i].code);
        man_line(out, m->exits[i].text);
    }
}

static void man_program(const hri_manual *m, hri_out *out) {
    man_head(out, "headroom", m->summary);
    hri_out_text(out, "\\fBheadroom\\fR \\fICOMMAND\\fR [\\fIOPTION\\fR...]\n.SH DESCRIPTION\n"
                      "You state a budget; Headroom states a plan; the plan holds.\n"
                      "Results go to standard output, messages to standard error.\n"
                      "With \\fB\\-\\-json\\fR a command prints one object with \"version\": 1;\n"
                      "sizes in it are in bytes.\n.SH COMMANDS\n");
    for (size_t i = 0; m->commands[i]; i++) {
        if (!m->commands[i]->hidden) {
            hri_out_printf(out, ".TP\n\\fBheadroom\\-%s\\fR(1)\n", m->commands[i]->name);
            man_line(out, m->commands[i]->summary);
        }
    }
    hri_out_text(out, ".SH COMMON OPTIONS\n");
    man_fields(out, m->settings);
    hri_out_text(out, ".SH ENVIRONMENT\nA flag overrides its environment variable.\n"
                      "These common variables are respected as well:\n");
    for (const hri_foreign *v = m->foreign; v->variable; v++) {
        hri_out_printf(out, ".TP\n\\fB%s\\fR\n", v->variable);
        man_line(out, v->help);
    }
    man_exit_codes(m, out);
}

void hri_man_page(const hri_manual *m, const hri_command *command, hri_out *out) {
    if (!command) {
        man_program(m, out);
        return;
    }
    char name[64];
    snprintf(name, sizeof name, "headroom-%s", command->name);
    man_head(out, name, command->summary);
    hri_out_printf(out, "\\fBheadroom %s\\fR", command->name);
    if (command->arguments[0]) {
        hri_out_printf(out, " \\fI%s\\fR", command->arguments);
    }
    hri_out_text(out, " [\\fIOPTION\\fR...]\n.SH DESCRIPTION\n");
    man_line(out, command->help);
    if (command->fields) {
        hri_out_text(out, ".SH OPTIONS\n");
        man_fields(out, command->fields);
    }
    hri_out_text(out, ".PP\nThe common options are described in \\fBheadroom\\fR(1).\n"
                      ".SH EXAMPLES\n");
    for (size_t i = 0; i < HRI_EXAMPLES && command->examples[i].command; i++) {
        hri_out_text(out, ".TP\n\\fB");
        man_text(out, command->examples[i].command);
        hri_out_text(out, "\\fR\n");
        man_line(out, command->examples[i].text);
    }
    man_exit_codes(m, out);
    hri_out_text(out, ".SH SEE ALSO\n\\fBheadroom\\fR(1)\n");
}
