/* Speaking, and the way into the library. */
#include "cli/common/cli.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/alloc.h"

/* One write a line, so that lines of several threads or processes do not mix. */
static void to_stderr(const char *prefix, const char *text) {
    char clean[1600], line[1700];
    /* the prose of an error may have several lines: each is cleaned alone */
    while (*text) {
        const size_t length = strcspn(text, "\n");
        char piece[1600];
        snprintf(piece, sizeof piece, "%.*s", (int)(length < 1599 ? length : 1599), text);
        hri_term_clean(piece, clean, sizeof clean);
        const int count = snprintf(line, sizeof line, "%s%s\n", prefix, clean);
        if (write(STDERR_FILENO, line, (size_t)count) < 0) {
            return; /* nobody is left to be told */
        }
        text += length + (text[length] == '\n');
        prefix = "  ";
    }
}

void hri_say_error(const char *format, ...) {
    char text[1536];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    to_stderr("headroom: ", text);
}

void hri_say_next(hri_cli *cli, const char *command) {
    hri_out_printf(&cli->out, "%snext:%s %s\n", hri_term_style(&cli->out_term, HRI_STYLE_DIM),
                   hri_term_style(&cli->out_term, HRI_STYLE_PLAIN), command);
}

void hri_say_title(hri_cli *cli, const char *format, ...) {
    char text[512], clean[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    hri_out_printf(&cli->out, "%s%s%s\n", hri_term_style(&cli->out_term, HRI_STYLE_BOLD),
                   hri_term_clean(text, clean, sizeof clean),
                   hri_term_style(&cli->out_term, HRI_STYLE_PLAIN));
}

int hri_cli_exit_code(hr_status status) {
    switch (status) {
    case HR_OK:
        return HRI_EXIT_YES;
    case HR_E_LIMIT:
    case HR_E_NO_PLAN:
        return HRI_EXIT_NO;
    case HR_E_INVALID:
    case HR_E_RANGE:
    case HR_E_NOT_FOUND:
    case HR_E_EXISTS:
    case HR_E_FORMAT:
    case HR_E_SHAPE:
        return HRI_EXIT_USAGE;
    default:
        return HRI_EXIT_FAULT;
    }
}

int hri_cli_failed(hr_ctx *ctx, const char *what, hr_status status) {
    hr_error error = {.code = HR_OK};
    if (ctx) {
        hr_ctx_error(ctx, &error);
    }
    hri_say_error("%s: %s", what,
                  error.code == status && error.message[0] ? error.message
                                                           : hr_status_text(status));
    return hri_cli_exit_code(status);
}

static void on_log(void *user, hr_log_level level, const char *line) {
    static const char *const names[] = {"error", "warn", "info", "debug"};
    hri_cli *cli = user;
    cli->error_lines += level == HR_LOG_ERROR;
    char prefix[32];
    snprintf(prefix, sizeof prefix, "headroom: %s: ", names[level & 3]);
    to_stderr(prefix, line);
}

int hri_cli_open(hri_cli *cli, hr_ctx **out) {
    if (cli->problem.text[0]) {
        hri_say_error("%s", cli->problem.text);
        hri_say_error("next: headroom doctor");
        return HRI_EXIT_USAGE;
    }
    return hri_cli_open_anyway(cli, out);
}

int hri_cli_open_anyway(hri_cli *cli, hr_ctx **out) {
    const hri_field *visible = hri_options_field(cli->options, "visible-devices");
    const int from_flag = hri_options_origin(cli->options, visible) == HRI_ORIGIN_FLAG;
    const hr_ctx_options options = {
        .size = sizeof options,
        .visible_devices = from_flag ? cli->settings->visible_devices : NULL,
        .log = on_log,
        .log_user = cli,
        .log_level = (hr_log_level)cli->settings->log,
        .no_cuda = !cli->settings->cuda,
        .null_bytes = cli->settings->null_device_bytes,
    };
    const hr_status status = hr_ctx_create(&options, out);
    if (status == HR_OK) {
        return HRI_EXIT_YES;
    }
    /* there is no object yet to carry the prose: the log has said it */
    if (!cli->error_lines) {
        hri_say_error("cannot look at the devices: %s", hr_status_text(status));
    }
    return hri_cli_exit_code(status);
}

size_t hri_cli_device_count(hr_ctx *ctx, int count) {
    return count ? (size_t)count : hr_device_count(ctx);
}

int hri_cli_device(hr_ctx *ctx, int count, const char *const *arguments, size_t i,
                   hr_device **out) {
    if (!count) {
        *out = hr_device_at(ctx, i);
        return HRI_EXIT_YES;
    }
    const hr_status status = hr_device_find(ctx, arguments[i], out);
    return status == HR_OK ? HRI_EXIT_YES : hri_cli_failed(ctx, arguments[i], status);
}

void hri_cli_json_start(hri_json *json) {
    hri_json_init(json);
    hri_json_u64(json, "version", 1);
}

int hri_cli_json_end(hri_cli *cli, hri_json *json, int code) {
    char *text = NULL;
    const hr_status status = hri_json_print(json, 2, &text);
    hri_json_deinit(json);
    if (status != HR_OK) {
        hri_say_error("cannot build the answer: %s", hr_status_text(status));
        return HRI_EXIT_FAULT;
    }
    hri_out_text(&cli->out, text);
    hri_out_text(&cli->out, "\n");
    hri_free(text);
    return code;
}
