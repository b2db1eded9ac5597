/* The two languages of spell.h. */
#include "cli/common/spell.h"

#include <stdio.h>
#include <string.h>

/* Options whose flags have other names. */
static const struct {
    const char *option, *flag;
} others[] = {{"split_norm", "ghost-norm"},     {"val_split", "val-split"},
              {"val_batch", "val-batch"},       {"micro_batches", "micro-batches"},
              {"no_offload", "offload"},        {"data_budget_bytes", "data-budget"},
              {"device_spec", "device-spec"},   {"host_budget", "host-budget"},
              {"val_data", "val-data"},         {"plan_file", "load"},
              {"gpu_choices", "choices"},       {"folder", "out"},
              {"folder=none", "no-save"},       {"start=resume", "resume"},
              {"start=overwrite", "overwrite"}, {"link", "net"}};

static const char *flag_of(const char *option, size_t bytes) {
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        if (strlen(others[i].option) == bytes && !strncmp(others[i].option, option, bytes)) {
            return others[i].flag;
        }
    }
    return NULL; /* its own name */
}

/* Where the value is another word too. */
static const char *value_of(const hri_way_change *c) {
    return !strcmp(c->key, "split_norm")      ? "true"
           : !strcmp(c->key, "no_offload")    ? "true"
           : !strcmp(c->key, "micro_batches") ? "auto"
                                              : c->value;
}

void hri_spell_changes(const hri_way_change *changes, size_t count, hri_change *out) {
    for (size_t i = 0; i < count; i++) {
        const char *flag = flag_of(changes[i].key, strlen(changes[i].key));
        out[i] = (hri_change){flag ? flag : changes[i].key, value_of(&changes[i])};
    }
}

hr_status hri_spell_flags(const hri_field *fields, const hri_change *changes, size_t count,
                          hri_text *out) {
    const hri_options o = {.fields = fields, .count = hri_fields_count(fields)};
    for (size_t i = 0; i < count; i++) {
        const hri_field *f = hri_options_field(&o, changes[i].name);
        const bool truth = f && f->type == HRI_FIELD_BOOL;
        const bool off = truth && !strcmp(changes[i].text, "false");
        hri_text_add(out, "%s--%s%s", out->used ? " " : "", off ? "no-" : "", changes[i].name);
        if (!truth) {
            hri_text_add(out, " ");
            hri_text_word(out, changes[i].text);
        }
    }
    return hri_text_status(out);
}

int hri_cli_exit_of(hr_cause cause) {
    switch (cause) {
    case HR_CAUSE_NONE:
        return HRI_EXIT_YES;
    case HR_CAUSE_NO_FIT:
    case HR_CAUSE_CANCELLED:
        return HRI_EXIT_NO;
    case HR_CAUSE_USAGE:
    case HR_CAUSE_DATA:
        return HRI_EXIT_USAGE;
    default:
        return HRI_EXIT_FAULT;
    }
}

/* "--" and the flag of an option. */
static void add_flag(const char *option, size_t bytes, hri_text *out) {
    const char *flag = flag_of(option, bytes);
    hri_text_add(out, "--%s", flag ? flag : "");
    for (size_t i = 0; !flag && i < bytes; i++) {
        hri_text_bytes(out, option[i] == '_' ? "-" : option + i, 1);
    }
}

/* An option in `backquotes`, with a value or without, as it is typed; 0: it is none.  How many bytes it took. */
static size_t add_quoted(const char *text, hri_text *out) {
    static const char small[] = "abcdefghijklmnopqrstuvwxyz_";
    static const char more[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.";
    const size_t name = strspn(text + 1, small);
    const size_t value = text[1 + name] == '=' ? 1 + strspn(text + 2 + name, more) : 0;
    if (!name || value == 1 || text[1 + name + value] != '`') {
        return 0;
    }
    if (value && flag_of(text + 1, name + value)) {
        add_flag(text + 1, name + value, out);
    } else {
        add_flag(text + 1, name, out);
        hri_text_add(out, "%s%.*s", value ? " " : "", value ? (int)value - 1 : 0, text + 2 + name);
    }
    return name + value + 2;
}

/* A sentence of the library as the command line says it: the option that it begins with, and those in `backquotes`. */
static void spell_option(const char *text, size_t option_bytes, hri_text *out) {
    if (option_bytes) {
        add_flag(text, option_bytes, out);
    }
    for (text += option_bytes; *text;) {
        const size_t taken = *text == '`' ? add_quoted(text, out) : 0;
        const size_t plain = taken ? 0 : 1 + strcspn(text + 1, "`");
        hri_text_bytes(out, text, plain);
        text += taken + plain;
    }
}

int hri_cli_error(hri_cli *cli, const hr_error *error) {
    return hri_cli_error_of(cli, "", error);
}

int hri_cli_error_of(hri_cli *cli, const char *what, const hr_error *error) {
    hri_text text = {0};
    hri_text_add(&text, "%s", what);
    spell_option(error->message, (size_t)error->option_bytes, &text);
    hri_say_error(cli, "%s", text.failed ? error->message : hri_text_get(&text));
    hri_text_deinit(&text);
    return hri_cli_exit_of((hr_cause)error->cause);
}

int hri_cli_why(hri_cli *cli, const hri_why *why, hr_status status) {
    hr_error error;
    hri_why_give(why, status, &error);
    return hri_cli_error(cli, &error);
}

static void keep_refusal(hri_cli *cli, const hri_plan_sheet *sheet) {
    hri_text text = {0};
    hri_plan_print_refusal(sheet->job, sheet->answer, &text);
    hri_refuse(cli, "does_not_fit", "%s", hri_text_get(&text));
    hri_text_deinit(&text);
}

int hri_cli_answer(hri_cli *cli, const hri_plan_sheet *sheet, bool as_json) {
    const int code = sheet->answer->fits ? HRI_EXIT_YES : HRI_EXIT_NO;
    if (!as_json) {
        const hr_status status = hri_plan_print_text(sheet, &cli->out, &cli->out_term);
        return status == HR_OK ? code : hri_cli_failed(cli, NULL, "plan", status);
    }
    hri_json json;
    hri_cli_json_start(&json);
    if (code != HRI_EXIT_YES) {
        keep_refusal(cli, sheet);
    }
    const hr_status status = hri_plan_print_json(sheet, &json);
    if (status != HR_OK) {
        hri_json_deinit(&json);
        return hri_cli_failed(cli, NULL, "plan", status);
    }
    return hri_cli_json_end(cli, &json, code);
}

void hri_cli_next_way(hri_cli *cli, const hri_plan_sheet *sheet) {
    const hri_plan_answer *a = sheet->answer;
    hri_text command = {0};
    hri_plan_way more = {.changes = {{.key = "budget"}}, .change_count = 1};
    snprintf(more.changes[0].value, sizeof more.changes[0].value, "%lluMiB",
             (unsigned long long)((a->at_least_bytes + (1 << 20) - 1) >> 20));
    const hri_plan_way *way = a->way_count ? &a->ways[0] : a->at_least_bytes ? &more : NULL;
    if (!way) {
        hri_say_next(cli, "headroom help plan");
    } else if (sheet->speller->command(sheet->speller->user, way, &command) == HR_OK &&
               hri_text_status(&command) == HR_OK) {
        hri_say_next(cli, hri_text_get(&command));
    }
    hri_text_deinit(&command);
}

hr_status hri_cli_on_event(void *user, const hr_job_event *event) {
    hri_cli *cli = user;
    if (event->kind == HR_EVENT_WARNING) {
        hri_text text = {0};
        spell_option(event->text, event->option ? strlen(event->option) : 0, &text);
        hri_say_warning(cli, "%s", text.failed ? event->text : hri_text_get(&text));
        hri_text_deinit(&text);
    }
    hri_startup_event(&cli->startup, NULL, event);
    return HR_OK;
}

void hri_cli_job_settings(hri_cli *cli, hr_job_options *out) {
    out->threads = cli->settings->threads > 0 ? (uint64_t)cli->settings->threads : 0;
    out->cache = hri_settings_cache_dir(cli->settings, cli->cache, sizeof cli->cache);
    out->on_event = hri_cli_on_event;
    out->user = cli;
}

void hri_say_next_page(hri_cli *cli, const char *recording) {
    hri_text next = {0};
    hri_text_add(&next, "headroom report ");
    hri_text_word(&next, recording);
    hri_text_add(&next, " --html page.html");
    hri_say_next(cli, hri_text_get(&next));
    hri_text_deinit(&next);
}
