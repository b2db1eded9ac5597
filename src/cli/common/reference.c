/* The two printers of reference.h.  Neither shows the date or the machine: the same program prints the same page. */
#include "cli/common/reference.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "cli/common/help.h"
#include "data/stage.h"
#include "step/options.h"

/* ---- man ---- */

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

static void man_exit_codes(hri_out *out) {
    hri_out_text(out, ".SH EXIT STATUS\n");
    for (size_t i = 0; hri_exit_texts[i].text; i++) {
        hri_out_printf(out, ".TP\n%d\n", hri_exit_texts[i].code);
        man_line(out, hri_exit_texts[i].text);
    }
}

static void man_program(hri_out *out) {
    man_head(out, "headroom", hri_program_summary);
    hri_out_text(out, "\\fBheadroom\\fR \\fICOMMAND\\fR [\\fIOPTION\\fR...]\n.SH DESCRIPTION\n"
                      "You state a budget; Headroom states a plan; the plan holds.\n"
                      "Results go to standard output, words to standard error.\n"
                      "With \\fB\\-\\-json\\fR a command prints one object with \"version\": 1;\n"
                      "sizes in it are whole bytes.\n.SH COMMANDS\n");
    for (size_t i = 0; hri_commands[i]; i++) {
        if (!hri_commands[i]->hidden) {
            hri_out_printf(out, ".TP\n\\fBheadroom\\-%s\\fR(1)\n", hri_commands[i]->name);
            man_line(out, hri_commands[i]->summary);
        }
    }
    hri_out_text(out, ".SH OPTIONS OF EVERY COMMAND\n");
    man_fields(out, hri_settings_fields);
    hri_out_text(out, ".SH ENVIRONMENT\nA flag is stronger than its variable.\n"
                      "These variables of other programs are obeyed as well:\n");
    for (const hri_foreign *v = hri_foreign_variables; v->variable; v++) {
        hri_out_printf(out, ".TP\n\\fB%s\\fR\n", v->variable);
        man_line(out, v->help);
    }
    man_exit_codes(out);
}

void hri_reference_man(hri_out *out, const hri_command *command) {
    if (!command) {
        man_program(out);
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
    hri_out_text(out, ".PP\nThe options of every command are in \\fBheadroom\\fR(1).\n"
                      ".SH EXAMPLES\n");
    for (size_t i = 0; i < HRI_EXAMPLES && command->examples[i].command; i++) {
        hri_out_text(out, ".TP\n\\fB");
        man_text(out, command->examples[i].command);
        hri_out_text(out, "\\fR\n");
        man_line(out, command->examples[i].text);
    }
    man_exit_codes(out);
    hri_out_text(out, ".SH SEE ALSO\n\\fBheadroom\\fR(1)\n");
}

/* ---- Markdown ---- */

static void markdown_fields(hri_out *out, const hri_field *fields) {
    char *text = NULL;
    size_t bytes = 0;
    FILE *f = open_memstream(&text, &bytes);
    if (f) {
        hri_options_reference(fields, f);
        fclose(f);
    }
    if (text) {
        hri_out_bytes(out, text, bytes);
    } else {
        hri_out_failed(out, ENOMEM);
    }
    free(text); /* open_memstream's */
    hri_out_text(out, "\n");
}

static void markdown_command(hri_out *out, const hri_command *c) {
    const int last =
        strncmp(c->arguments, "-- ", 3) == 0; /* another program's words stand behind the options */
    hri_out_printf(out, "## headroom %s\n\n%c%s.\n\n```\nheadroom %s%s%s [OPTION...]%s%s\n```\n\n",
                   c->name, toupper((unsigned char)c->summary[0]), c->summary + 1, c->name,
                   c->arguments[0] && !last ? " " : "", last ? "" : c->arguments, last ? " " : "",
                   last ? c->arguments : "");
    hri_help_wrap(out, c->help, 110, 0);
    hri_out_text(out, "\n");
    if (c->fields) {
        markdown_fields(out, c->fields);
    }
    for (size_t i = 0; i < HRI_EXAMPLES && c->examples[i].command; i++) {
        hri_out_printf(out, "- `%s`: %s\n", c->examples[i].command, c->examples[i].text);
    }
    hri_out_text(out, "\n");
}

/* A '|' in a cell would end it. */
static void markdown_cell(hri_out *out, const char *text) {
    for (; text && *text; text++) {
        hri_out_text(out, *text == '|' ? "\\" : "");
        hri_out_bytes(out, text, 1);
    }
}

static void markdown_row(hri_out *out, const char *name, const char *help, const char *value) {
    hri_out_printf(out, "| `%s` | ", name);
    markdown_cell(out, help);
    hri_out_text(out, " | ");
    markdown_cell(out, value);
    hri_out_text(out, " |\n");
}

/* Options that are written name=value, without dashes. */
static void markdown_keys(hri_out *out, const hri_field *fields) {
    hri_out_text(out, "| option | meaning | default |\n|---|---|---|\n");
    for (const hri_field *f = fields; f->name; f++) {
        markdown_row(out, f->name, f->help, f->value);
    }
    hri_out_text(out, "\n");
}

static void markdown_models(hri_out *out) {
    hri_out_text(out, "## Models\n\nA model is `name[:key=value,...]`.\n\n");
    hr_model_info info = {.size = sizeof info};
    for (size_t i = 0; hr_model_list(i, &info) == HR_OK; i++) {
        hr_model_key key = {.size = sizeof key};
        hri_out_printf(out, "### %s\n\n%s\n\n| key | meaning | default |\n|---|---|---|\n",
                       info.name, info.help);
        for (size_t k = 0; hr_model_keys(info.name, k, &key) == HR_OK; k++) {
            markdown_row(out, key.name, key.help, key.value);
        }
        hri_out_text(out, "\n");
    }
}

static void markdown_stages(hri_out *out) {
    hri_out_text(out, "## Sources and stages of pipelines\n\n"
                      "Written `name(option=value,...)` or `name:value,option=value`; the main "
                      "option needs no name.\n\n");
    for (size_t i = 0; hri_stage_types[i]; i++) {
        const hri_stage_type *t = hri_stage_types[i];
        hri_out_printf(out, "### %s\n\n%s%s%s%s\n\n", t->name, t->help,
                       t->main ? ". The main option: `" : "", t->main ? t->main : "",
                       t->main ? "`" : "");
        if (t->fields && t->fields->name) {
            markdown_keys(out, t->fields);
        }
    }
}

void hri_reference_markdown(hri_out *out) {
    hri_out_printf(
        out,
        "# The commands\n\n"
        "This page is printed by `headroom man --markdown` from the tables that the program "
        "obeys;\n"
        "do not edit it by hand.\n\n"
        "Headroom %s.\n\n"
        "Results go to standard output, words to standard error. `--json` prints one object with\n"
        "`\"version\": 1`; sizes in it are whole bytes.\n\n"
        "| exit code | meaning |\n|---|---|\n",
        hri_program_summary);
    for (size_t i = 0; hri_exit_texts[i].text; i++) {
        hri_out_printf(out, "| %d | %s |\n", hri_exit_texts[i].code, hri_exit_texts[i].text);
    }
    hri_out_text(out, "\n");
    for (size_t i = 0; hri_commands[i]; i++) {
        if (!hri_commands[i]->hidden) {
            markdown_command(out, hri_commands[i]);
        }
    }
    hri_out_text(
        out,
        "## Options of every command\n\n"
        "A flag is stronger than its variable, the variable is stronger than the default.\n\n");
    markdown_fields(out, hri_settings_fields);
    hri_out_text(out, "## Options of training\n\nOf `--options`, written `key=value,...`.\n\n");
    markdown_keys(out, hri_train_fields);
    markdown_models(out);
    markdown_stages(out);
    hri_out_text(out, "## Variables of other programs that are obeyed\n\n"
                      "| variable | meaning |\n|---|---|\n");
    for (const hri_foreign *v = hri_foreign_variables; v->variable; v++) {
        hri_out_printf(out, "| `%s` | %s |\n", v->variable, v->help);
    }
}
