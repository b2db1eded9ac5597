/* Failures, answers and warnings as the command line says them; see spell.h. */
#include "cli/common/spell.h"

#include <stdio.h>
#include <string.h>

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

int hri_cli_error(hri_cli *cli, const hr_error *error) {
    return hri_cli_error_of(cli, "", error);
}

int hri_cli_error_of(hri_cli *cli, const char *what, const hr_error *error) {
    hri_text text = {0};
    hri_text_add(&text, "%s", what);
    hri_spell_sentence(error->message, (size_t)error->option_bytes, &text);
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
        hri_spell_sentence(event->text, event->option ? strlen(event->option) : 0, &text);
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
