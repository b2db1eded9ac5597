/* Speaking, and the way into the library. */
#include "cli/common/cli.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/alloc.h"
#include "base/visible.h"
#include "device/device.h"
#include "show/show.h"

/* One write a line, so that lines of several threads or processes do not mix. */
static void write_line(const char *prefix, const char *text, size_t length) {
    hri_text line = {0};
    hri_text_add(&line, "%s", prefix);
    for (size_t taken = 0; length; text += taken, length -= taken) {
        char shown[17];
        const size_t put =
            hri_visible_next(text, shown, &taken); /* never past a newline or the end */
        hri_text_bytes(&line, shown, put);
    }
    hri_text_bytes(&line, "\n", 1);
    if (!line.failed && write(STDERR_FILENO, line.chars, line.used) < 0) {
        line.failed = true; /* nobody is left to be told */
    }
    hri_text_deinit(&line);
}

/* The prose of an error may have several lines: each is cleaned alone. */
static void to_stderr(const char *prefix, const char *text) {
    while (*text) {
        const size_t length = strcspn(text, "\n");
        write_line(prefix, text, length);
        text += length + (text[length] == '\n');
        prefix = "  ";
    }
}

static void say(const hri_cli *cli, hri_text *keep, const char *prefix, const char *format,
                va_list args) {
    hri_text text = {0};
    hri_text_vadd(&text, format, args);
    if (cli && cli->waiting) {
        hri_waiting_hide(cli->waiting);
    }
    if (!cli || !cli->quiet) {
        to_stderr(prefix, hri_text_status(&text) == HR_OK ? hri_text_get(&text)
                                                          : hr_status_text(HR_E_NOMEM_HOST));
    }
    if (keep) {
        hri_text_add(keep, "%s%s", keep->used ? "\n" : "", hri_text_get(&text));
    }
    hri_text_deinit(&text);
}

void hri_say_error(hri_cli *cli, const char *format, ...) {
    va_list args;
    va_start(args, format);
    say(cli, cli && !cli->failure.used ? &cli->failure : NULL, "headroom: ", format, args);
    va_end(args);
}

void hri_refuse(hri_cli *cli, const char *kind, const char *format, ...) {
    va_list args;
    va_start(args, format);
    if (!cli->failure.used) {
        hri_text_vadd(&cli->failure, format, args);
        cli->kind = kind;
    }
    va_end(args);
}

void hri_say_hint(hri_cli *cli, const char *format, ...) {
    va_list args;
    va_start(args, format);
    say(cli, cli && !cli->next.used ? &cli->next : NULL, "headroom: next: ", format, args);
    va_end(args);
}

void hri_say_warning(hri_cli *cli, const char *format, ...) {
    va_list args;
    va_start(args, format);
    say(cli, cli ? &cli->warnings : NULL, "headroom: warning: ", format, args);
    va_end(args);
}

void hri_say_note(const char *format, ...) {
    va_list args;
    va_start(args, format);
    say(NULL, NULL, "headroom: ", format, args);
    va_end(args);
}

void hri_say_next(hri_cli *cli, const char *command) {
    hri_out_text(&cli->out, hri_term_style(&cli->out_term, HRI_STYLE_DIM));
    hri_out_text(&cli->out, "next:");
    hri_out_text(&cli->out, hri_term_style(&cli->out_term, HRI_STYLE_PLAIN));
    if (!cli->out.width) {
        hri_out_printf(&cli->out, " %s\n", command);
        return;
    }
    size_t column = strlen("next:"); /* broken as a shell reads it */
    for (const char *p = command; *p;) {
        const size_t n = strcspn(p, " ");
        if (column + 1 + n + 2 > cli->out.width && column > 2) {
            hri_out_text(&cli->out, " \\\n ");
            column = 1;
        }
        hri_out_printf(&cli->out, " %.*s", (int)n, p);
        column += n + 1;
        p += n + (p[n] == ' ');
    }
    hri_out_text(&cli->out, "\n");
}

void hri_cli_wrap(hri_cli *cli) {
    if (cli->out_term.tty && !cli->json && cli->out_term.width < 10000) {
        cli->out.width = cli->out_term.width;
    }
}

void hri_say_title(hri_cli *cli, const char *format, ...) {
    va_list args;
    va_start(args, format);
    hri_show_vtitle(&cli->out, &cli->out_term, format, args);
    va_end(args);
}

int hri_out_finish(hri_out *out, int code) {
    hri_out_flush(out);
    if (out->error && out->error != EPIPE) {
        hri_say_note("cannot write the result: %s", strerror(out->error));
        return HRI_EXIT_FAULT;
    }
    return code;
}

hr_status hri_cli_command(const hri_cli *cli, const char *name, const char *word,
                          const hri_field *fields, const void *target, hri_text *out) {
    hri_text_add(out, "headroom %s", name);
    if (word) {
        hri_text_add(out, " ");
        hri_text_word(out, word);
    }
    hr_status status = hri_fields_command(fields, target, out);
    for (const hri_field *f = hri_settings_fields; f->name && status == HR_OK; f++) {
        const hri_field *row = hri_options_field(cli->options, f->name);
        if (row && hri_options_origin(cli->options, row) == HRI_ORIGIN_FLAG) {
            const hri_field one[] = {*f, {0}};
            status = hri_fields_command(one, cli->settings, out);
        }
    }
    return status;
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

int hri_cli_exit_code_of_input(hr_status status) {
    return status == HR_E_IO || status == HR_E_UNSUPPORTED || status == HR_E_EOF
               ? HRI_EXIT_USAGE
               : hri_cli_exit_code(status);
}

int hri_cli_failed(hri_cli *cli, hr_ctx *ctx, const char *what, hr_status status) {
    hr_error error = {.code = HR_OK};
    if (ctx) {
        hr_ctx_error(ctx, &error);
    }
    hri_say_error(cli, "%s: %s", what,
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
        hri_say_error(cli, "%s", cli->problem.text);
        hri_say_hint(cli, "headroom doctor");
        return HRI_EXIT_USAGE;
    }
    return hri_cli_open_anyway(cli, out);
}

static int open_context(hri_cli *cli, int host_only, hr_ctx **out) {
    const hri_field *visible = hri_options_field(cli->options, "visible-devices");
    const int from_flag = hri_options_origin(cli->options, visible) == HRI_ORIGIN_FLAG;
    const hr_ctx_options options = {
        .size = sizeof options,
        .visible_devices = host_only   ? ""
                           : from_flag ? cli->settings->visible_devices
                                       : NULL,
        .log = on_log,
        .log_user = cli,
        .log_level = (hr_log_level)cli->settings->log,
        .no_cuda = host_only || !cli->settings->cuda,
        .null_bytes = cli->settings->null_device_bytes,
    };
    const hr_status status = hr_ctx_create(&options, out);
    if (status == HR_OK) {
        return HRI_EXIT_YES;
    }
    /* there is no object yet to carry the prose: the log has said it */
    if (!cli->error_lines) {
        hri_say_error(cli, "cannot list the devices: %s", hr_status_text(status));
    }
    return hri_cli_exit_code(status);
}

int hri_cli_open_anyway(hri_cli *cli, hr_ctx **out) {
    return open_context(cli, 0, out);
}

int hri_cli_open_for(hri_cli *cli, const char *device, hr_ctx **out) {
    if (!hri_device_name_is_host(device) || cli->problem.text[0]) {
        return hri_cli_open(cli, out);
    }
    return open_context(cli, 1, out);
}

void hri_cli_json_start(hri_json *json) {
    hri_json_init(json);
    hri_json_u64(json, "version", 1);
}

static const char *kind_of(const hri_cli *cli, int code) {
    return cli->kind                ? cli->kind
           : code == HRI_EXIT_NO    ? "does_not_fit"
           : code == HRI_EXIT_USAGE ? "bad_input"
                                    : "runtime";
}

void hri_cli_json_error(const hri_cli *cli, hri_json *json, int code) {
    if (cli->warnings.used) {
        hri_json_array(json, "warnings");
        for (const char *at = hri_text_get(&cli->warnings); *at;) {
            hri_text one = {0};
            const size_t length = strcspn(at, "\n");
            hri_text_bytes(&one, at, length);
            hri_json_string(json, NULL, hri_text_get(&one));
            hri_text_deinit(&one);
            at += length + (at[length] == '\n');
        }
        hri_json_end(json);
    }
    if (code == HRI_EXIT_YES) {
        return;
    }
    hri_json_object(json, "error");
    hri_json_i64(json, "code", code);
    hri_json_string(json, "kind", kind_of(cli, code));
    hri_json_string(json, "message",
                    cli->failure.used ? hri_text_get(&cli->failure) : kind_of(cli, code));
    if (cli->next.used) {
        hri_json_string(json, "next", hri_text_get(&cli->next));
    }
    hri_json_end(json);
}

int hri_cli_json_failure(hri_cli *cli, int code) {
    hri_json json;
    hri_cli_json_start(&json);
    return hri_cli_json_end(cli, &json, code);
}

int hri_cli_json_end(hri_cli *cli, hri_json *json, int code) {
    char *text = NULL;
    hri_cli_json_error(cli, json, code);
    cli->answered = true;
    const hr_status status = hri_json_print(json, 2, &text);
    hri_json_deinit(json);
    if (status != HR_OK) {
        hri_say_error(cli, "cannot write the result: %s", hr_status_text(status));
        return HRI_EXIT_FAULT;
    }
    hri_out_text(&cli->out, text);
    hri_out_text(&cli->out, "\n");
    hri_free(text);
    return code;
}
