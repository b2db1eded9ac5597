/* headroom doctor: what was found, what works, where each setting came from; text made for pasting into an issue.
 *
 * The one idea: nothing is believed.  The library tries what can be tried (headroom/doctor.h); a bad setting is a failed
 * check, not the end: a broken set-up is what the command is for. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/table.h"
#include "cli/common/command.h"
#include "cli/common/spell.h"

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
    bool as_json;
    hri_json json;
    hri_table table; /* of the section being written */
    hr_status status;
    unsigned counts[3]; /* of checks, by result */
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

/* One of the four things that a row says: in JSON a key with its value, for people a word that may be another one. */
typedef struct cell {
    const char *key, *value;
    const char *shown; /* NULL: the value */
    hri_style style;
} cell;

/* For people, cells[first] stands in front of the others. */
static void row(report *r, const cell *cells, int first) {
    if (r->as_json) {
        hri_json_object(&r->json, NULL);
        for (int i = 0; i < 4; i++) {
            hri_json_string(&r->json, cells[i].key, cells[i].value);
        }
        hri_json_end(&r->json);
        return;
    }
    for (int i = -1; i < 4; i++) {
        const cell *c = &cells[i < 0 ? first : i];
        if (i != first) {
            hri_table_cell(&r->table, c->style, "%s", c->shown ? c->shown : c->value);
        }
    }
}

/* ---- the machine ---- */

static void fact(report *r, const char *key, const char *label, const char *value) {
    if (r->as_json) {
        hri_json_string(&r->json, key, value);
        return;
    }
    row(r, (const cell[]){{.value = label}, {.value = value}, {.value = ""}, {.value = ""}}, 0);
}

static const char *limit_text(uint64_t bytes, char *buf, size_t size) {
    return bytes == UINT64_MAX ? "no limit" : hr_bytes_print(bytes, buf, size);
}

static void show_machine(report *r) {
    char text[400], size[32];
    hr_machine_info own = {.size = sizeof own};
    const hr_machine_info *m = &own;
    if (hr_machine_get_info(&own) != HR_OK) {
        return; /* the size is right */
    }
    if (r->as_json) {
        hri_json_object(&r->json, "machine");
        hri_json_u64(&r->json, "memory_bytes", m->memory_bytes);
        hri_json_u64(&r->json, "cores_online", m->cores_online);
        hri_json_u64(&r->json, "cores_usable", m->cores_usable);
        if (m->cgroup_limit_bytes == UINT64_MAX) {
            hri_json_null(&r->json, "cgroup_limit_bytes");
        } else {
            hri_json_u64(&r->json, "cgroup_limit_bytes", m->cgroup_limit_bytes);
        }
        hri_table_init(&r->table, NULL, 0);
    } else {
        section_start(r, "machine", NULL);
        fact(r, NULL, "memory",
             m->memory_bytes ? hr_bytes_print(m->memory_bytes, size, sizeof size) : "unknown");
        snprintf(text, sizeof text, "%u online, %u usable", m->cores_online, m->cores_usable);
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
    section_end(r);
}

/* ---- components, settings, checks ---- */

static void show_components(report *r, const hr_doctor *d) {
    static const char *const names[] = {"ok", "missing", "broken"};
    static const hri_style styles[] = {HRI_STYLE_GOOD, HRI_STYLE_WARN, HRI_STYLE_BAD};
    hr_component c = {.size = sizeof c};
    section_start(r, "found", "components");
    for (size_t i = 0; hr_doctor_get_component(d, i, &c) == HR_OK; i++) {
        row(r,
            (const cell[]){{"name", c.name},
                           {"found", names[c.found], .style = styles[c.found]},
                           {"version", c.version, c.version[0] ? NULL : "-"},
                           {"detail", c.detail}},
            1);
    }
    section_end(r);
}

static void setting(report *r, const char *name, const char *value, const char *origin,
                    const char *variable) {
    row(r,
        (const cell[]){{"name", name},
                       {"value", value, value ? NULL : "-"},
                       {"origin", origin},
                       {"variable", variable, strcmp(variable, name) ? NULL : ""}},
        0);
}

static void show_settings(report *r) {
    const hri_cli *cli = r->cli;
    char value[512];
    section_start(r, "settings", "settings");
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
    section_end(r);
}

static void show_check(report *r, const hr_check *c) {
    static const char *const names[] = {"ok", "failed", "skipped"};
    static const hri_style styles[] = {HRI_STYLE_GOOD, HRI_STYLE_BAD, HRI_STYLE_DIM};
    row(r,
        (const cell[]){{"subject", c->subject},
                       {"name", c->name},
                       {"result", names[c->result], c->result == HR_CHECK_FAILED ? "FAILED" : NULL,
                        styles[c->result]},
                       {"detail", c->detail}},
        2);
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
    section_start(r, "checks", "checks");
    for (size_t i = 0; get_check(r, ctx, d, i, &c) == HR_OK; i++) {
        show_check(r, &c);
    }
    section_end(r);
}

static int finish(report *r) {
    hri_cli *cli = r->cli;
    const unsigned ok = r->counts[HR_CHECK_OK], failed = r->counts[HR_CHECK_FAILED];
    const unsigned skipped = r->counts[HR_CHECK_SKIPPED];
    const int code = failed ? HRI_EXIT_NO : HRI_EXIT_YES;
    if (r->as_json) {
        hri_json_bool(&r->json, "ok", !failed);
        hri_json_u64(&r->json, "checks_ok", ok);
        hri_json_u64(&r->json, "checks_failed", failed);
        hri_json_u64(&r->json, "checks_skipped", skipped);
        if (failed) {
            hri_refuse(cli, "check_failed", "%u checks failed", failed);
        }
        return hri_cli_json_end(cli, &r->json, code);
    }
    hri_json_deinit(&r->json);
    if (r->status != HR_OK) {
        return hri_cli_failed(cli, NULL, "doctor", r->status);
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
    hri_cli_json_start(&r->json);
    if (!r->as_json) {
        hri_say_title(r->cli, "headroom %s: %s", hr_version(),
                      r->counts[HR_CHECK_FAILED] ? "some checks failed" : "all checks passed");
    }
    show_machine(r);
    show_components(r, d);
    show_settings(r);
    show_checks(r, ctx, d);
    return finish(r);
}

static int run(hri_cli *cli, const void *options, int count, const char *const *arguments) {
    report r = {.cli = cli, .as_json = ((const doctor_options *)options)->json};
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
