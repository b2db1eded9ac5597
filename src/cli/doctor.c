/* headroom doctor: what was found, what works, where each setting came from; text made for pasting into an issue.
 *
 * The one idea: nothing is believed.  The library tries what can be tried (headroom/doctor.h); a bad setting is a failed
 * check, not the end: a broken set-up is what the command is for. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "cli/common/command.h"
#include "cli/common/spell.h"
#include "show/doctor.h"
#include "show/help_texts.h"

typedef struct doctor_options {
    bool json;
} doctor_options;

static const hri_field fields[] = {
    {"json", "print one JSON object, sizes in bytes", offsetof(doctor_options, json),
     HRI_FIELD_BOOL, .value = NULL},
    {0},
};

typedef struct report {
    hri_cli *cli;
    hri_sections s;
    unsigned counts[3]; /* of checks, by result */
} report;

static void setting(report *r, const char *name, const char *value, const char *origin,
                    const char *variable) {
    hri_section_row(
        &r->s,
        (const hri_row_cell[]){{"name", name},
                               {"value", value, value ? NULL : "-"},
                               {"origin", origin},
                               {"variable", variable, strcmp(variable, name) ? NULL : ""}},
        0);
}

static void show_settings(report *r) {
    const hri_cli *cli = r->cli;
    char value[512];
    hri_section_start(&r->s, "settings", "settings");
    for (const hri_field *f = hri_settings_fields; f->name; f++) {
        if (!f->env) {
            continue; /* --help and --version set nothing */
        }
        const hri_field *field = hri_options_field(cli->options, f->name);
        hri_options_print(cli->options, field, value, sizeof value);
        if (!strcmp(f->name, "cache-dir")) {
            hri_settings_cache_dir(cli->settings, value, sizeof value);
        } else if (!strcmp(f->name, "visible-devices") && !cli->settings->visible_devices) {
            snprintf(value, sizeof value, "all");
        }
        setting(r, f->name, value, hri_origin_name(hri_options_origin(cli->options, field)),
                f->env);
    }
    for (const hri_foreign *v = hri_foreign_variables; v->variable; v++) {
        const char *text = getenv(v->variable);
        setting(r, v->variable, text, text ? "environment" : "not set", v->variable);
    }
    hri_section_end(&r->s);
}

/* What only the program knows stands before the library's checks. */
enum { OWN_CHECKS = 2 };

static hr_status get_check(const report *r, const hr_ctx *ctx, const hr_doctor *d, size_t i,
                           hr_check *out) {
    const char *problem = r->cli->problem.text;
    if (i >= OWN_CHECKS) {
        return hr_doctor_get_check(d, i - OWN_CHECKS, out);
    }
    *out = i == 0 ? (hr_check){.subject = "settings",
                               .name = "can be read",
                               .result = problem[0] ? HR_CHECK_FAILED : HR_CHECK_OK,
                               .detail = problem[0] ? problem : "all variables and flags are valid"}
                  : (hr_check){.subject = "devices",
                               .name = "can be listed",
                               .result = ctx ? HR_CHECK_OK : HR_CHECK_FAILED,
                               .detail = ctx ? "every visible device was found"
                                             : "see standard error; is HEADROOM_VISIBLE_DEVICES "
                                               "right?"};
    out->size = sizeof *out;
    return HR_OK;
}

static void show_checks(report *r, const hr_ctx *ctx, const hr_doctor *d) {
    hr_check c = {.size = sizeof c};
    hri_section_start(&r->s, "checks", "checks");
    for (size_t i = 0; get_check(r, ctx, d, i, &c) == HR_OK; i++) {
        hri_show_check(&r->s, &c);
    }
    hri_section_end(&r->s);
}

static int finish(report *r) {
    hri_cli *cli = r->cli;
    const unsigned ok = r->counts[HR_CHECK_OK], failed = r->counts[HR_CHECK_FAILED];
    const unsigned skipped = r->counts[HR_CHECK_SKIPPED];
    const int code = failed ? HRI_EXIT_NO : HRI_EXIT_YES;
    if (r->s.as_json) {
        hri_json_bool(&r->s.json, "ok", !failed);
        hri_json_u64(&r->s.json, "checks_ok", ok);
        hri_json_u64(&r->s.json, "checks_failed", failed);
        hri_json_u64(&r->s.json, "checks_skipped", skipped);
        if (failed) {
            hri_refuse(cli, "check_failed", "%u checks failed", failed);
        }
        return hri_cli_json_end(cli, &r->s.json, code);
    }
    hri_json_deinit(&r->s.json);
    if (r->s.status != HR_OK) {
        return hri_cli_failed(cli, NULL, "doctor", r->s.status);
    }
    hri_out_printf(&cli->out, "\n%u checks = %u ok + %u failed + %u skipped\n",
                   ok + failed + skipped, ok, failed, skipped);
    hri_say_next(cli, failed ? "headroom doctor --log-level debug" : "headroom devices");
    return code;
}

static int show(report *r, const hr_ctx *ctx, const hr_doctor *d) {
    hr_check c = {.size = sizeof c};
    for (size_t i = 0; get_check(r, ctx, d, i, &c) == HR_OK; i++) {
        r->counts[c.result]++;
    }
    hri_cli_json_start(&r->s.json);
    if (!r->s.as_json) {
        hri_say_title(r->cli, "headroom %s: %s", hr_version(),
                      r->counts[HR_CHECK_FAILED] ? "some checks failed" : "all checks passed");
    }
    hri_show_machine(&r->s);
    hri_show_components(&r->s, d);
    show_settings(r);
    show_checks(r, ctx, d);
    return finish(r);
}

static int run(hri_cli *cli, const void *options, int count, const char *const *arguments) {
    report r = {.cli = cli,
                .s = {.out = &cli->out,
                      .term = &cli->out_term,
                      .as_json = ((const doctor_options *)options)->json}};
    char cache[4096];
    hr_ctx *ctx = NULL;
    hr_doctor *d = NULL;
    hr_error error = {0};
    (void)hri_cli_open_anyway(cli, &ctx); /* on failure ctx stays NULL: a failed check */
    const hr_doctor_options o = {.size = sizeof o,
                                 .devices = count ? arguments : NULL,
                                 .device_count = (size_t)count,
                                 .cache =
                                     hri_settings_cache_dir(cli->settings, cache, sizeof cache)};
    const int code = hr_doctor_create(ctx, &o, &d, &error) == HR_OK ? show(&r, ctx, d)
                                                                    : hri_cli_error(cli, &error);
    hr_doctor_destroy(d);
    hr_ctx_destroy(ctx);
    return code;
}

const hri_command hri_command_doctor = {
    .name = "doctor",
    .summary = "check this machine and show where settings come from",
    .arguments = "[DEVICE...]",
    .choices = "",
    .arguments_max = HRI_ARGUMENTS_MAX,
    .help = hri_help_doctor,
    .examples = {{"headroom doctor", "everything, for people"},
                 {"headroom doctor --json", "the same for programs"},
                 {"headroom doctor --log debug", "with the library's log on stderr"}},
    .fields = fields,
    .options_bytes = sizeof(doctor_options),
    .run = run,
};
