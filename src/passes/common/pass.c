/* Finding a pass, reading its options, applying it; see pass.h. */
#include "passes/common/pass.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

const hri_pass *hri_pass_find(const char *name) {
    for (const hri_pass *const *p = hri_passs; *p; p++) {
        if (!strcmp((*p)->name, name)) {
            return *p;
        }
    }
    return NULL;
}

static hr_status unknown(const char *name, hri_prose *why) {
    hri_text names = {0};
    for (const hri_pass *const *p = hri_passs; *p; p++) {
        hri_text_add(&names, "%s%s", names.used ? ", " : "", (*p)->name);
    }
    const hr_status status = hri_prose_set(why, HR_E_NOT_FOUND, "unknown pass \"%s\"; there are %s",
                                           name, hri_text_get(&names));
    hri_text_deinit(&names);
    return status;
}

hr_status hri_pass_parse(const char *text, hri_pass_options *out, hri_prose *why) {
    const char *colon = strchr(text, ':');
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)(colon ? colon - text : (long)strlen(text)), text);
    hri_pass_options made = {.pass = hri_pass_find(name)};
    if (!made.pass) {
        return unknown(name, why);
    }
    if (made.pass->options_bytes > sizeof made.bytes) {
        return hri_prose_set(why, HR_E_INTERNAL, "%s: the options are too large", name);
    }
    hr_status status = hri_options_init(&made.parsed, made.pass->fields, made.bytes, why);
    if (status != HR_OK) {
        return status;
    }
    if (colon) {
        status = hri_options_set_text(&made.parsed, colon + 1, why);
    }
    if (status == HR_OK && made.pass->check) {
        status = made.pass->check(made.bytes, why);
    }
    if (status != HR_OK) {
        hri_options_deinit(&made.parsed);
        return status;
    }
    *out = made;
    out->parsed.target = out->bytes;
    return HR_OK;
}

void hri_pass_print(const hri_pass_options *o, hri_text *out) {
    hri_text_add(out, "%s", o->pass->name);
    char before = ':';
    for (const hri_field *f = o->pass->fields; f && f->name; f++) {
        hri_text value = {0};
        hri_field_add(f, o->bytes, &value);
        if (*hri_text_get(&value)) {
            hri_text_add(out, "%c%s=%s", before, f->name, hri_text_get(&value));
            before = ',';
        }
        out->failed |= value.failed;
        hri_text_deinit(&value);
    }
}

void hri_pass_options_deinit(hri_pass_options *o) {
    hri_options_deinit(&o->parsed);
    *o = (hri_pass_options){0};
}

static hr_status apply_as(const hri_pass_options *o, int evaluate, const hr_graph *from,
                          hr_graph *to, hri_pass_map *map) {
    hri_pass_map made = {0};
    const hr_status status =
        (evaluate && o->pass->apply_evaluate ? o->pass->apply_evaluate
                                             : o->pass->apply)(o->bytes, from, to, &made);
    if (status != HR_OK) {
        hri_pass_map_deinit(&made);
        return status;
    }
    *map = made;
    return HR_OK;
}

hr_status hri_pass_apply(const hri_pass_options *o, const hr_graph *from, hr_graph *to,
                         hri_pass_map *map) {
    return apply_as(o, 0, from, to, map);
}

hr_status hri_pass_apply_evaluate(const hri_pass_options *o, const hr_graph *from, hr_graph *to,
                                  hri_pass_map *map) {
    return apply_as(o, 1, from, to, map);
}

hr_value hri_pass_read(const hri_pass_map *map, hr_value value) {
    return value < map->read_count && map->reads[value] != HR_NONE ? map->reads[value] : value;
}

void hri_pass_map_deinit(hri_pass_map *map) {
    hri_free(map->values);
    hri_free(map->reads);
    *map = (hri_pass_map){0};
}
