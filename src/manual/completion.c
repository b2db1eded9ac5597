/* Completion scripts for bash and zsh.  Both shells get the same words, so a new command or flag is completed the day it is
 * written. */
#include "manual/manual.h"

#include <string.h>

static void put_command_names(const hri_manual *m, hri_out *out) {
    int first = 1;
    for (size_t i = 0; m->commands[i]; i++) {
        if (!m->commands[i]->hidden) {
            hri_out_printf(out, "%s%s", first ? "" : " ", m->commands[i]->name);
            first = 0;
        }
    }
}

static void put_choices(const hri_manual *m, hri_out *out, const char *choices) {
    if (!strcmp(choices, "@commands")) {
        put_command_names(m, out);
    } else {
        hri_out_text(out, choices);
    }
}

static void put_words(hri_out *out, const char *const *words) {
    for (size_t i = 0; words[i]; i++) {
        hri_out_printf(out, "%s%s", i ? " " : "", words[i]);
    }
}

/* Such a flag is offered as --no-name: to switch on what is on is no use. */
static int on_by_default(const hri_field *f) {
    return f->type == HRI_FIELD_BOOL && f->value && !strcmp(f->value, "true");
}

/* ---- bash ---- */

static void bash_flags(hri_out *out, const hri_field *fields) {
    for (const hri_field *f = fields; f && f->name; f++) {
        hri_out_printf(out, " --%s%s", on_by_default(f) ? "no-" : "", f->name);
    }
}

/* What may follow a flag: its choices, files for a directory, or nothing we know. */
static void bash_values(hri_out *out, const hri_field *fields) {
    for (const hri_field *f = fields; f && f->name; f++) {
        if (f->type == HRI_FIELD_BOOL) {
            continue;
        }
        hri_out_printf(out, "        --%s)\n            ", f->name);
        if (f->choices) {
            hri_out_text(out, "COMPREPLY=($(compgen -W \"");
            put_words(out, f->choices);
            hri_out_text(out, "\" -- \"$cur\"))\n");
        } else if (f->metavar && (!strcmp(f->metavar, "DIR") || !strcmp(f->metavar, "FILE"))) {
            hri_out_printf(out, "COMPREPLY=($(compgen -%c -- \"$cur\"))\n",
                           f->metavar[0] == 'D' ? 'd' : 'f');
        } else {
            hri_out_text(out, "COMPREPLY=()\n");
        }
        hri_out_text(out, "            return ;;\n");
    }
}

void hri_completion_bash(const hri_manual *m, hri_out *out) {
    hri_out_text(out, "# bash completion for headroom; printed by: headroom completion bash\n"
                      "_headroom() {\n"
                      "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
                      "    local command= word skip= i\n"
                      "    COMPREPLY=()\n"
                      /* COMP_WORDBREAKS splits --flag=value into three words */
                      "    if [[ $cur == = ]]; then cur=; "
                      "elif [[ $prev == = ]]; then prev=${COMP_WORDS[COMP_CWORD-2]}; fi\n"
                      "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
                      "        word=${COMP_WORDS[i]}\n"
                      "        if [[ $word == = ]]; then skip=1; continue; fi\n"
                      "        if [[ -n $skip ]]; then skip=; continue; fi\n"
                      "        case $word in\n");
    hri_out_text(out, "        ");
    int first = 1;
    for (const hri_field *f = m->settings; f->name; f++) {
        if (f->type != HRI_FIELD_BOOL) {
            hri_out_printf(out, "%s--%s", first ? "" : "|", f->name);
            first = 0;
        }
    }
    hri_out_text(out, ") skip=1 ;;\n"
                      "        -*) ;;\n"
                      "        *) command=$word; break ;;\n"
                      "        esac\n"
                      "    done\n"
                      "    case $prev in\n");
    bash_values(out, m->settings);
    hri_out_text(out, "    esac\n    local flags=\"");
    bash_flags(out, m->settings);
    hri_out_text(out, "\" words=\"");
    put_command_names(m, out);
    hri_out_text(out, "\"\n    case $command in\n");
    for (size_t i = 0; m->commands[i]; i++) {
        const hri_command *c = m->commands[i];
        hri_out_printf(out, "    %s)\n", c->name);
        hri_out_text(out, "        words=\"");
        put_choices(m, out, c->choices);
        hri_out_text(out, "\"\n        flags+=\"");
        bash_flags(out, c->fields);
        hri_out_text(out, "\"\n        case $prev in\n");
        bash_values(out, c->fields);
        hri_out_text(out, "        esac ;;\n");
    }
    hri_out_text(out, "    ?*) words= ;;\n"
                      "    esac\n"
                      "    if [[ $cur == -* ]]; then words=$flags; fi\n"
                      "    COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
                      "}\n"
                      "complete -F _headroom headroom\n");
}

/* ---- zsh ---- */

/* Text inside '...' and [...] of an _arguments specification. */
static void zsh_text(hri_out *out, const char *text) {
    for (; *text; text++) {
        if (*text == '\'') {
            hri_out_text(out, "'\\''");
        } else if (strchr("[]:\\", *text)) {
            hri_out_printf(out, "\\%c", *text);
        } else {
            hri_out_bytes(out, text, 1);
        }
    }
}

/* One specification a line: '--log=[help]:LEVEL:(error warn)' */
static void zsh_fields(hri_out *out, const hri_field *fields, const char *indent, const char *end) {
    for (const hri_field *f = fields; f && f->name; f++) {
        const int boolean = f->type == HRI_FIELD_BOOL;
        const int on = on_by_default(f);
        hri_out_printf(out, "%s'--%s%s%s[%s", indent, on ? "no-" : "", f->name, boolean ? "" : "=",
                       on ? "do not " : "");
        zsh_text(out, f->help);
        hri_out_text(out, "]");
        if (!boolean) {
            hri_out_printf(out, ":%s:", f->metavar ? f->metavar : "value");
        }
        if (f->choices) {
            hri_out_text(out, "(");
            put_words(out, f->choices);
            hri_out_text(out, ")");
        } else if (f->metavar && !strcmp(f->metavar, "DIR")) {
            hri_out_text(out, "_files -/");
        } else if (f->metavar && !strcmp(f->metavar, "FILE")) {
            hri_out_text(out, "_files");
        }
        hri_out_printf(out, "'%s\n", end);
    }
}

static void zsh_command(const hri_manual *m, hri_out *out, const hri_command *c) {
    hri_out_printf(out, "        %s)\n            _arguments \"$shared[@]\"", c->name);
    if (c->fields) {
        hri_out_text(out, " \\\n");
        zsh_fields(out, c->fields, "                ", " \\");
        hri_out_text(out, "               ");
    }
    if (c->choices[0]) {
        hri_out_printf(out, " '%s:argument:(", c->arguments_max > 1 ? "*" : "1");
        put_choices(m, out, c->choices);
        hri_out_text(out, ")'");
    }
    hri_out_text(out, " ;;\n");
}

void hri_completion_zsh(const hri_manual *m, hri_out *out) {
    hri_out_text(out, "#compdef headroom\n"
                      "# zsh completion for headroom; printed by: headroom completion zsh\n"
                      "_headroom() {\n"
                      "    local curcontext=$curcontext state line\n"
                      "    typeset -A opt_args\n"
                      "    local -a shared commands\n"
                      "    commands=(\n");
    for (size_t i = 0; m->commands[i]; i++) {
        if (!m->commands[i]->hidden) {
            hri_out_printf(out, "        '%s:", m->commands[i]->name);
            zsh_text(out, m->commands[i]->summary);
            hri_out_text(out, "'\n");
        }
    }
    hri_out_text(out, "    )\n    shared=(\n");
    zsh_fields(out, m->settings, "        ", "");
    hri_out_text(out, "    )\n"
                      "    _arguments -C -A '-*' \"$shared[@]\" '1: :->command' '*:: :->rest'\n"
                      "    case $state in\n"
                      "    command) _describe command commands ;;\n"
                      "    rest)\n"
                      "        case $words[1] in\n");
    for (size_t i = 0; m->commands[i]; i++) {
        zsh_command(m, out, m->commands[i]);
    }
    hri_out_text(out, "        esac ;;\n"
                      "    esac\n"
                      "}\n"
                      "if [[ $funcstack[1] == _headroom ]]; then\n"
                      "    _headroom \"$@\"\n"
                      "else\n"
                      "    compdef _headroom headroom\n"
                      "fi\n");
}
