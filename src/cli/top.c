/* headroom top: devices, jobs, who holds and who waits. */
#include <locale.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/common/command.h"
#include "show/top.h"
#include "show/help_texts.h"

typedef struct top_options {
    bool once, json;
} top_options;

static const hri_field fields[] = {
    {"once", "print once and exit", offsetof(top_options, once), HRI_FIELD_BOOL, .value = NULL},
    {"json", "print one JSON object, sizes in bytes, and exit", offsetof(top_options, json),
     HRI_FIELD_BOOL, .value = NULL},
    {0},
};

/* Every second until 'q' or the end of the input, where there is no ncurses. */
static hr_status watch(hri_cli *cli, hri_link *link, hri_watch_view *view, hri_prose *why) {
    for (;;) {
        hri_out_text(&cli->out, "\033[H\033[2J");
        hr_status status = hri_view_look(view, link, why);
        status = status == HR_OK ? hri_top_text(view, &cli->out, &cli->out_term) : status;
        hri_out_text(&cli->out, "\nq and Enter: quit\n");
        hri_out_flush(&cli->out);
        struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};
        char key = 0;
        if (status != HR_OK ||
            (poll(&p, 1, 1000) > 0 && (read(STDIN_FILENO, &key, 1) <= 0 || key == 'q'))) {
            return status;
        }
    }
}

static hr_status live(hri_cli *cli, hri_link *link, hri_watch_view *view, hri_prose *why) {
    const int utf8 = cli->out_term.utf8 && setlocale(LC_CTYPE, "") && MB_CUR_MAX > 1;
    const char *type = getenv("TERM");
    hri_out_flush(&cli->out);
    const hr_status status = !type || !strcmp(type, "dumb")
                                 ? HR_E_UNSUPPORTED
                                 : hri_top_screen(view, link, utf8, stdout, stdin, why);
    return status == HR_E_UNSUPPORTED ? watch(cli, link, view, why) : status;
}

static int run(hri_cli *cli, const void *options, int count, const char *const *arguments) {
    (void)count;
    (void)arguments;
    const top_options *o = options;
    hri_link link;
    hri_prose why = {0};
    hr_status status = hri_link_open(&link, &why);
    if (status != HR_OK) {
        hri_say_error(cli, "%s", *why.text ? why.text : hr_status_text(status));
        return status == HR_E_UNSUPPORTED || status == HR_E_RANGE ? HRI_EXIT_USAGE : HRI_EXIT_FAULT;
    }
    hri_watch_view view = {0};
    int code = HRI_EXIT_YES;
    if (o->json || o->once || !isatty(STDOUT_FILENO) || !isatty(STDIN_FILENO)) {
        status = hri_view_look(&view, &link, &why);
    } else {
        status = live(cli, &link, &view, &why);
        hri_view_deinit(&view);
    }
    if (status == HR_OK && o->json) {
        hri_json json;
        hri_cli_json_start(&json);
        hri_json_array(&json, "rows");
        hri_top_json(&view, &json);
        hri_json_end(&json);
        code = hri_cli_json_end(cli, &json, HRI_EXIT_YES);
    } else if (status == HR_OK && view.count) {
        status = hri_top_text(&view, &cli->out, &cli->out_term);
    }
    hri_view_deinit(&view);
    hri_link_close(&link);
    if (status != HR_OK) {
        hri_say_error(cli, "%s", *why.text ? why.text : hr_status_text(status));
        return HRI_EXIT_FAULT;
    }
    return code;
}

const hri_command hri_command_top = {
    .name = "top",
    .summary = "show who holds GPU memory and who waits for it",
    .arguments = "",
    .choices = "",
    .help = hri_help_top,
    .examples = {{"headroom top", "live"}, {"headroom top --once --json", "for scripts"}},
    .fields = fields,
    .options_bytes = sizeof(top_options),
    .run = run,
};
