/* See adapter.h. */
#include "weights/adapter.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "graph/graph.h"
#include "passes/common/lora.h"
#include "passes/common/pass.h"

#define BEFORE "base_model.model."

/* Is it part of what was learned? */
static int is_learned(const hr_graph *g, hr_value v) {
    return g->values[v].kind == HR_VALUE_PARAM && g->values[v].node == HRI_NO_NODE &&
           !hri_graph_tags(g, v)->frozen;
}

uint64_t hri_adapter_bytes(const hr_graph *g) {
    uint64_t bytes = 0;
    for (hr_value v = 1; v < g->value_count; v++) {
        bytes += is_learned(g, v) ? hr_meta_bytes(&g->values[v].meta) : 0;
    }
    return bytes;
}

typedef struct saving {
    const hr_graph *g;
    const hri_values *from;
    const char *prefix;
    hri_arena names;
    hri_tensor_plan *plan;
    hr_value *values; /* beside it */
    size_t count;
    hri_prose *why;
} saving;

static hr_status list(saving *s) {
    const hr_graph *g = s->g;
    size_t room = 0;
    for (hr_value v = 1; v < g->value_count; v++) {
        room += is_learned(g, v) ? 1 : 0;
    }
    s->plan = hri_calloc(room + 1, sizeof *s->plan);
    s->values = hri_calloc(room + 1, sizeof *s->values);
    for (hr_value v = 1; s->plan && s->values && v < g->value_count; v++) {
        if (is_learned(g, v)) {
            const char *name =
                hri_arena_printf(&s->names, BEFORE "%s%s", s->prefix, g->values[v].name);
            if (!name) {
                return HR_E_NOMEM_HOST;
            }
            s->values[s->count] = v;
            s->plan[s->count++] = (hri_tensor_plan){name, hri_file_meta(g, v)};
        }
    }
    return s->plan && s->values ? HR_OK : HR_E_NOMEM_HOST;
}

static hr_status write_tensors(saving *s, const char *path) {
    static const char *const metadata[] = {"format", "pt", NULL};
    hri_tensors_writer w;
    hr_status status = hri_tensors_create(&w, path, s->plan, s->count, metadata, s->why);
    if (status != HR_OK) {
        return status;
    }
    for (size_t i = 0; i < s->count && status == HR_OK; i++) {
        const hr_value v = s->values[i];
        const hr_meta *meta = &s->g->values[v].meta;
        status = hri_tensor_save(&w, (hr_type)meta->type, s->from, v, meta,
                                 hri_graph_tags(s->g, v)->layout, s->why);
    }
    if (status == HR_OK) {
        return hri_tensors_commit(&w, s->why);
    }
    hri_tensors_abandon(&w);
    return status;
}

/* ---- the configuration ---- */

static void put_layer(hri_json *j, const saving *s, const char *name, size_t length) {
    char text[400];
    snprintf(text, sizeof text, "%s%.*s", s->prefix, (int)length, name);
    hri_json_string(j, NULL, text);
}

/* Layers with adapters; returns 1 when their weights lie as (in, out). */
static int put_targets(hri_json *j, const saving *s) {
    int in_first = 0;
    hri_json_array(j, "target_modules");
    for (hr_value v = 1; v < s->g->value_count; v++) {
        const char *name = s->g->values[v].name;
        if ((s->g->values[v].kind == HR_VALUE_PARAM || s->g->values[v].kind == HR_VALUE_STATE) &&
            hri_lora_find(s->g, name, HRI_LORA_A) != HR_NONE) {
            put_layer(j, s, name, hri_lora_layer(name));
            in_first |= hri_lora_in_first(s->g, v) > 0;
        }
    }
    hri_json_end(j);
    return in_first;
}

/* Layers that are trained whole, each once: their parameters stand beside one another. */
static void put_whole(hri_json *j, const saving *s) {
    const char *last = "";
    size_t length = 0, count = 0;
    for (size_t i = 0; i < s->count; i++) {
        const hr_value v = s->values[i];
        const char *name = s->g->values[v].name, *dot = strrchr(name, '.');
        const size_t n = dot ? (size_t)(dot - name) : strlen(name);
        if (!hri_lora_is_adapter(s->g, v) && (n != length || strncmp(name, last, n) != 0)) {
            if (!count++) {
                hri_json_array(j, "modules_to_save");
            }
            put_layer(j, s, name, n);
            last = name;
            length = n;
        }
    }
    if (count) {
        hri_json_end(j);
    } else {
        hri_json_null(j, "modules_to_save");
    }
}

static hr_status write_config(const saving *s, const hri_lora *o, const char *path) {
    hri_json j;
    char *text = NULL;
    hri_json_init(&j);
    hri_json_string(&j, "peft_type", "LORA");
    hri_json_null(&j, "task_type");
    hri_json_null(&j, "base_model_name_or_path");
    hri_json_i64(&j, "r", o->rank);
    hri_json_double(&j, "lora_alpha", hri_lora_scale(o) * (double)o->rank);
    hri_json_double(&j, "lora_dropout", 0.0);
    hri_json_string(&j, "bias", "none");
    hri_json_bool(&j, "use_rslora", false);
    hri_json_bool(&j, "inference_mode", true);
    hri_json_bool(&j, "fan_in_fan_out", put_targets(&j, s));
    put_whole(&j, s);
    hr_status status = hri_json_print(&j, 2, &text);
    hri_json_deinit(&j);
    status = status == HR_OK ? hri_file_write(path, text, strlen(text), s->why) : status;
    hri_free(text);
    return status;
}

hr_status hri_adapter_save(const char *folder, const hr_graph *g, const hri_values *from,
                           const hri_about *about, hri_prose *why) {
    saving s = {.g = g, .from = from, .prefix = about->prefix ? about->prefix : "", .why = why};
    hri_passes passes = {0};
    char *tensors = NULL, *config = NULL;
    hr_status status = hri_passes_parse(about->passes, &passes, why);
    const hri_lora *o = status == HR_OK ? hri_passes_find(&passes, "lora") : NULL;
    if (o) {
        status = hri_path_join(folder, HRI_ADAPTER_TENSORS, &tensors);
        status = status == HR_OK ? hri_path_join(folder, HRI_ADAPTER_CONFIG, &config) : status;
        status = status == HR_OK ? list(&s) : status;
        if (status != HR_OK) {
            hri_prose_set(why, status, "%s: list of adapters: %s", folder, hr_status_text(status));
        }
        status = status == HR_OK ? write_tensors(&s, tensors) : status;
        status = status == HR_OK ? write_config(&s, o, config) : status;
    }
    hri_free(tensors);
    hri_free(config);
    hri_free(s.plan);
    hri_free(s.values);
    hri_arena_deinit(&s.names);
    hri_passes_deinit(&passes);
    return status;
}
