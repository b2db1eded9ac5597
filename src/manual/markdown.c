/* docs/commands.md. */
#include "manual/manual.h"

#include <ctype.h>
#include <string.h>

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
        hri_options_reference(c->fields, out);
        hri_out_text(out, "\n");
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

void hri_markdown_row(hri_out *out, const char *name, const char *help, const char *value) {
    hri_out_printf(out, "| `%s` | ", name);
    markdown_cell(out, help);
    hri_out_text(out, " | ");
    markdown_cell(out, value);
    hri_out_text(out, " |\n");
}

/* Options that are written name=value, without dashes. */
void hri_markdown_keys(hri_out *out, const hri_field *fields) {
    hri_out_text(out, "| option | meaning | default |\n|---|---|---|\n");
    for (const hri_field *f = fields; f->name; f++) {
        hri_markdown_row(out, f->name, f->help, f->value);
    }
    hri_out_text(out, "\n");
}

void hri_markdown_page(const hri_manual *m, hri_out *out) {
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
        m->summary);
    for (size_t i = 0; m->exits[i].text; i++) {
        hri_out_printf(out, "| %d | %s |\n", m->exits[i].code, m->exits[i].text);
    }
    hri_out_text(out, "\n");
    for (size_t i = 0; m->commands[i]; i++) {
        if (!m->commands[i]->hidden) {
            markdown_command(out, m->commands[i]);
        }
    }
    hri_out_text(
        out,
        "## Options of every command\n\n"
        "A flag is stronger than its variable, the variable is stronger than the default.\n\n");
    hri_options_reference(m->settings, out);
    hri_out_text(out, "\n");
    m->chapters(out);
    hri_out_text(out, "## Variables of other programs that are obeyed\n\n"
                      "| variable | meaning |\n|---|---|\n");
    for (const hri_foreign *v = m->foreign; v->variable; v++) {
        hri_out_printf(out, "| `%s` | %s |\n", v->variable, v->help);
    }
}
