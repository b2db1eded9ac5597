/* headroom doctor: what was found, what works, where each setting came from; text made for pasting into an issue.
 *
 * The one idea: nothing is believed.  What is found is listed with its version, what is missing with what that
 * switches off, and everything that can be tried is tried (checks.h).  A bad setting is a failed check, not the end:
 * a broken set-up is what the command is for. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "job/checks.h"
#include "cli/common/command.h"
#include "job/machine.h"
#include "base/table.h"
#include "device/device.h"

typedef struct doctor_options {
    bool json;
} doctor_options;

static const hri_field fields[] = {
    {"json", "print one JSON object, sizes in bytes", offsetof(doctor_options, json),
     HRI_FIELD_BOOL, .value = NULL},
    {0},
};

/* One fact of several kinds: of the machine, a component, a setting. */
typedef struct report {
    hri_cli *cli;
    int as_json;
    hri_json json;
    hri_table table; /* of the section being written */
    hr_status status;
} report;

static void section_start(report *r, const char *title, const char *key) {
    static const char *const headings[] = {"", "", "", ""};
    hri_table_init(&r->table, headings, 4);
    if (r->as_json) {
        hri_json_array(&r->json, key);
    } else {
        hri_out_text(&r->cli->out, "\n");
        hri_say_title(r->cli, "%s", title);
    }
}

static void section_end(report *r) {
    if (r->as_json) {
        hri_json_end(&r->json);
    } else if (r->status == HR_OK) {
        r->status = hri_table_print(&r->table, &r->cli->out, &r->cli->out_term, 2, 0);
    }
    hri_table_deinit(&r->table);
}

/* ---- the machine ---- */

static void fact(report *r, const char *key, const char *label, const char *value) {
    if (r->as_json) {
        hri_json_string(&r->json, key, value);
        return;
    }
    hri_table_cell(&r->table, HRI_STYLE_PLAIN, "%s", label);
    hri_table_cell(&r->table, HRI_STYLE_PLAIN, "%s", value);
    hri_table_cell(&r->table, HRI_STYLE_PLAIN, "%s", "");
    hri_table_cell(&r->table, HRI_STYLE_PLAIN, "%s", "");
}

static const char *limit_text(uint64_t bytes, char *buf, size_t size) {
    return bytes == UINT64_MAX ? "no limit" : hr_bytes_print(bytes, buf, size);
}

static void show_machine(report *r, const hri_machine_facts *m) {
    char text[400], size[32];
    if (r->as_json) {
        hri_json_object(&r->json, "machine");
        hri_json_u64(&r->json, "memory_bytes", m->memory_bytes);
        hri_json_i64(&r->json, "cores_online", m->cores_online);
        hri_json_i64(&r->json, "cores_usable", m->cores_usable);
        if (m->cgroup_limit_bytes == UINT64_MAX) {
            hri_json_null(&r->json, "cgroup_limit_bytes");
        } else {
            hri_json_u64(&r->json, "cgroup_limit_bytes", m->cgroup_limit_bytes);
        }
    } else {
        section_start(r, "machine", "machine");
        fact(r, NULL, "memory",
             m->memory_bytes ? hr_bytes_print(m->memory_bytes, size, sizeof size) : "unknown");
        snprintf(text, sizeof text, "%d online, %d usable", m->cores_online, m->cores_usable);
        fact(r, NULL, "cores", text);
        snprintf(text, sizeof text, "%s%s%s", limit_text(m->cgroup_limit_bytes, size, sizeof size),
                 m->cgroup_path[0] ? ", " : "", m->cgroup_path);
        fact(r, NULL, "cgroup", text);
    }
    fact(r, "system", "system", m->system);
    fact(r, "processor", "processor", m->processor);
    fact(r, "features", "features", m->features);
    fact(r, "huge_pages", "huge pages", m->huge_pages);
    fact(r, "locked_memory", "locked memory", limit_text(m->lock_limit_bytes, size, sizeof size));
    if (r->as_json) {
        hri_json_end(&r->json);
    } else {
        section_end(r);
    }
}

/* ---- components ---- */

static void on_component(void *user, const char *component, hri_found found, const char *version,
                         const char *detail) {
    static const char *const names[] = {"ok", "missing", "broken"};
    static const hri_style styles[] = {HRI_STYLE_GOOD, HRI_STYLE_WARN, HRI_STYLE_BAD};
    report *r = user;
    version = version ? version : "";
    detail = detail ? detail : "";
    if (r->as_json) {
        hri_json_object(&r->json, NULL);
        hri_json_string(&r->json, "name", component);
        hri_json_string(&r->json, "found", names[found]);
        hri_json_string(&r->json, "version", version);
        hri_json_string(&r->json, "detail", detail);
        hri_json_end(&r->json);
        return;
    }
    hri_table_cell(&r->table, styles[found], "%s", names[found]);
    hri_table_cell(&r->table, HRI_STYLE_PLAIN, "%s", component);
    hri_table_cell(&r->table, HRI_STYLE_PLAIN, "%s", version[0] ? version : "-");
    hri_table_cell(&r->table, HRI_STYLE_PLAIN, "%s", detail);
}

static void show_components(report *r, hr_ctx *ctx) {
    char version[32];
    section_start(r, "found", "components");
    on_component(r, "headroom", HRI_FOUND_OK, hr_version(), "");
    snprintf(version, sizeof version, "%s", JANSSON_VERSION);
    on_component(r, "jansson", HRI_FOUND_OK, version, "JSON");
    if (ctx) {
        hri_ctx_report(ctx, on_component, r);
    }
    section_end(r);
}

/* ---- settings ---- */

static void setting(report *r, const char *name, const char *value, const char *origin,
                    const char *variable) {
    if (r->as_json) {
        hri_json_object(&r->json, NULL);
        hri_json_string(&r->json, "name", name);
        hri_json_string(&r->json, "value", value);
        hri_json_string(&r->json, "origin", origin);
        hri_json_string(&r->json, "variable", variable);
        hri_json_end(&r->json);
        return;
    }
    hri_table_cell(&r->table, HRI_STYLE_PLAIN, "%s", name);
    hri_table_cell(&r->table, HRI_STYLE_PLAIN, "%s", value ? value : "-");
    hri_table_cell(&r->table, HRI_STYLE_PLAIN, "%s", origin);
    hri_table_cell(&r->table, HRI_STYLE_PLAIN, "%s",
                   variable && strcmp(variable, name) ? variable : "");
}

static void show_settings(report *r) {
    const hri_cli *cli = r->cli;
    char value[512];
    section_start(r, "settings", "settings");
    for (const hri_field *row = hri_settings_fields; row->name; row++) {
        if (!row->env) {
            continue; /* --help and --version set nothing */
        }
        const hri_field *field = hri_options_field(cli->options, row->name);
        hri_options_print(cli->options, field, value, sizeof value);
        if (!strcmp(row->name, "cache-dir")) {
            hri_settings_cache_dir(cli->settings, value, sizeof value);
        } else if (!strcmp(row->name, "visible-devices") && !cli->settings->visible_devices) {
            snprintf(value, sizeof value, "all");
        }
        setting(r, row->name, value, hri_origin_name(hri_options_origin(cli->options, field)),
                row->env);
    }
    for (const hri_foreign *v = hri_foreign_variables; v->variable; v++) {
        const char *text = getenv(v->variable);
        setting(r, v->variable, text, text ? "environment" : "not set", v->variable);
    }
    section_end(r);
}

/* ---- checks ---- */

static void show_checks(report *r, const hri_checks *checks) {
    static const char *const names[] = {"ok", "FAILED", "skipped"};
    static const hri_style styles[] = {HRI_STYLE_GOOD, HRI_STYLE_BAD, HRI_STYLE_DIM};
    section_start(r, "checks", "checks");
    for (size_t i = 0; i < checks->count; i++) {
        const hri_check *c = &checks->items[i];
        if (r->as_json) {
            hri_json_object(&r->json, NULL);
            hri_json_string(&r->json, "subject", c->subject);
            hri_json_string(&r->json, "name", c->name);
            hri_json_string(&r->json, "result",
                            c->result == HRI_CHECK_FAILED ? "failed" : names[c->result]);
            hri_json_string(&r->json, "detail", c->detail);
            hri_json_end(&r->json);
            continue;
        }
        hri_table_cell(&r->table, styles[c->result], "%s", names[c->result]);
        hri_table_cell(&r->table, HRI_STYLE_PLAIN, "%s", c->subject);
        hri_table_cell(&r->table, HRI_STYLE_PLAIN, "%s", c->name);
        hri_table_cell(&r->table, HRI_STYLE_PLAIN, "%s", c->detail);
    }
    section_end(r);
}

/* HRI_EXIT_YES, or wrong use: a device named that is not there. */
static int check_devices(hri_cli *cli, hr_ctx *ctx, int count, const char *const *names,
                         const hri_machine_facts *machine, hri_checks *checks) {
    for (size_t i = 0; i < hri_cli_device_count(ctx, count); i++) {
        hr_device *device = NULL;
        const int code = hri_cli_device(cli, ctx, count, names, i, &device);
        if (code != HRI_EXIT_YES) {
            return code;
        }
        hri_checks_device(checks, ctx, device, machine);
    }
    return HRI_EXIT_YES;
}

static int make_checks(hri_cli *cli, hr_ctx *ctx, int count, const char *const *names,
                       const hri_machine_facts *machine, hri_checks *checks) {
    char path[4096];
    const char *problem = cli->problem.text;
    hri_checks_add(checks, "settings", "can be read", problem[0] ? HRI_CHECK_FAILED : HRI_CHECK_OK,
                   "%s", problem[0] ? problem : "all variables and flags are valid");
    hri_checks_add(checks, "devices", "can be listed", ctx ? HRI_CHECK_OK : HRI_CHECK_FAILED, "%s",
                   ctx ? "every visible device was found"
                       : "see standard error; is HEADROOM_VISIBLE_DEVICES right?");
    const int code = ctx ? check_devices(cli, ctx, count, names, machine, checks) : HRI_EXIT_YES;
    hri_checks_cache_dir(checks, hri_settings_cache_dir(cli->settings, path, sizeof path));
    return code;
}

static int finish(report *r, const hri_checks *checks) {
    hri_cli *cli = r->cli;
    const int code = checks->failed ? HRI_EXIT_NO : HRI_EXIT_YES;
    if (r->as_json) {
        hri_json_bool(&r->json, "ok", !checks->failed);
        hri_json_u64(&r->json, "checks_ok", checks->ok);
        hri_json_u64(&r->json, "checks_failed", checks->failed);
        hri_json_u64(&r->json, "checks_skipped", checks->skipped);
        if (checks->failed) {
            hri_refuse(cli, "check_failed", "%zu checks failed", checks->failed);
        }
        return hri_cli_json_end(cli, &r->json, code);
    }
    hri_json_deinit(&r->json);
    if (r->status != HR_OK) {
        return hri_cli_failed(cli, NULL, "doctor", r->status);
    }
    hri_out_printf(&cli->out, "\n%zu checks = %zu ok + %zu failed + %zu skipped\n",
                   checks->ok + checks->failed + checks->skipped, checks->ok, checks->failed,
                   checks->skipped);
    hri_say_next(cli, checks->failed ? "headroom doctor --log-level debug" : "headroom devices");
    return code;
}

static int run(hri_cli *cli, const void *options, int count, const char *const *arguments) {
    report r = {.cli = cli, .as_json = ((const doctor_options *)options)->json};
    hri_machine_facts machine;
    hri_checks checks = {0};
    hr_ctx *ctx = NULL;
    hri_cli_json_start(&r.json);
    hri_machine_read(&machine);
    (void)hri_cli_open_anyway(cli,
                              &ctx); /* on failure ctx stays NULL, and that is a failed check */
    int code = make_checks(cli, ctx, count, arguments, &machine, &checks);
    if (code != HRI_EXIT_YES) {
        hri_json_deinit(&r.json);
        hri_checks_deinit(&checks);
        hr_ctx_destroy(ctx);
        return code;
    }
    if (!r.as_json) {
        hri_say_title(cli, "headroom %s: %s", hr_version(),
                      checks.failed ? "some checks failed" : "all checks passed");
    }
    show_machine(&r, &machine);
    show_components(&r, ctx);
    show_settings(&r);
    show_checks(&r, &checks);
    code = finish(&r, &checks);
    hri_checks_deinit(&checks);
    hr_ctx_destroy(ctx);
    return code;
}

const hri_command hri_command_doctor = {
    .name = "doctor",
    .summary = "check this machine and show where settings come from",
    .arguments = "[DEVICE...]",
    .choices = "",
    .arguments_max = HRI_ARGUMENTS_MAX,
    .help =
        "Shows the machine, the libraries found with their versions, the missing ones with the "
        "features they disable, and every setting with its value and origin (default, "
        "environment, flag).\n\nThe checks are real: on every device (or on those named) a page "
        "is mapped, and a block is copied there and back and compared, also through pinned "
        "memory; the cache directory is written to. Everything is cleaned up. The exit code is 1 "
        "if a check failed. The output is meant to be pasted into bug reports.",
    .examples = {{"headroom doctor", "everything, for people"},
                 {"headroom doctor --json", "the same for programs"},
                 {"headroom doctor --log debug", "with the library's log on stderr"}},
    .fields = fields,
    .options_bytes = sizeof(doctor_options),
    .run = run,
};
