/* The tables of settings.h. */
#include "manual/settings.h"

#include "base/cache_dir.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const log_choices[] = {"error", "warn", "info", "debug", NULL};
static const char *const color_choices[] = {"auto", "always", "never", NULL};

#define AT(MEMBER) offsetof(hri_settings, MEMBER)

const hri_field hri_settings_fields[] = {
    {"visible-devices",
     "devices to use, in this order (cuda:0,host); the host is always included; default: all",
     AT(visible_devices), HRI_FIELD_STRING, NULL, .env = "HEADROOM_VISIBLE_DEVICES",
     .metavar = "LIST"},
    {"null-device", "add a null device null:0 of this size, for planning", AT(null_device_bytes),
     HRI_FIELD_BYTES, NULL, .env = "HEADROOM_NULL_DEVICE", .metavar = "SIZE"},
    {"cuda", "look for CUDA devices", AT(cuda), HRI_FIELD_BOOL, "true", .env = "HEADROOM_CUDA"},
    {"threads", "CPU threads; 0: one per available core", AT(threads), HRI_FIELD_INT, "0", .min = 0,
     .max = 1024, .env = "HEADROOM_THREADS", .metavar = "N"},
    {"cache-dir", "cache directory; default ~/.cache/headroom", AT(cache_dir), HRI_FIELD_STRING,
     NULL, .env = "HEADROOM_CACHE_DIR", .metavar = "DIR"},
    {"log-level", "log level of the library, shown on stderr", AT(log), HRI_FIELD_ENUM, "error",
     .env = "HEADROOM_LOG", .metavar = "LEVEL", .choices = log_choices, .alias = "log"},
    {"color", "colour the output", AT(color), HRI_FIELD_ENUM, "auto", .env = "HEADROOM_COLOR",
     .metavar = "WHEN", .choices = color_choices},
    {"help", "show help for a command", AT(help), HRI_FIELD_BOOL, NULL, .letter = 'h'},
    {"version", "show the version", AT(version), HRI_FIELD_BOOL, NULL, .letter = 'V'},
    {0},
};

const hri_foreign hri_foreign_variables[] = {
    {"CUDA_VISIBLE_DEVICES", "GPUs that the driver shows to this process"},
    {"NO_COLOR", "not empty: no colour"},
    {"CLICOLOR_FORCE", "not empty and not 0: colour even when not on a terminal"},
    {"FORCE_COLOR", "the same as CLICOLOR_FORCE"},
    {"TERM", "dumb: no colour, no redrawn lines"},
    {"XDG_CACHE_HOME", "the directory above the default cache directory"},
    {NULL, NULL},
};

hr_status hri_settings_set_env(hri_options *o, hri_prose *why) {
    hr_status first = HR_OK;
    for (size_t i = 0; i < o->count; i++) {
        const hri_field *field = &o->fields[i];
        const char *text = field->env ? getenv(field->env) : NULL;
        if (!text || !text[0]) {
            continue;
        }
        hri_prose reason = {0};
        const hr_status status = hri_options_set(o, field->name, text, HRI_ORIGIN_ENV, &reason);
        if (status != HR_OK && first == HR_OK) {
            first = hri_prose_set(why, status, "%s=%.64s: %s", field->env, text, reason.text);
        }
    }
    return first;
}

const char *hri_settings_cache_dir(const hri_settings *settings, char *buf, size_t size) {
    if (settings->cache_dir && settings->cache_dir[0]) {
        snprintf(buf, size, "%s", settings->cache_dir);
        return buf;
    }
    return hri_cache_default(buf, size);
}
