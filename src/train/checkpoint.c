/* Reading a checkpoint: the text beside the tensors, and the tensors into a graph. */
#include "train/checkpoint.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "graph/graph.h"

/* ---- the text ---- */

static hr_status get_bits(const json_t *object, const char *key, uint64_t *out, hri_prose *why) {
    const char *text;
    char *end;
    const hr_status status = hri_json_get_string(object, key, &text, why);
    if (status != HR_OK) {
        return status;
    }
    const unsigned long long bits = strtoull(text, &end, 16);
    if (strlen(text) != 16 || *end) {
        return hri_prose_set(why, HR_E_FORMAT, "\"%s\" is not 16 hexadecimal digits", key);
    }
    *out = bits;
    return HR_OK;
}

static hr_status get_real(const json_t *object, const char *key, double *out, hri_prose *why) {
    uint64_t bits = 0;
    const hr_status status = get_bits(object, key, &bits, why);
    if (status == HR_OK) {
        memcpy(out, &bits, sizeof bits);
    }
    return status;
}

static hr_status read_progress(const json_t *o, hri_progress_state *p, hri_prose *why) {
    const struct {
        const char *key;
        uint64_t *to;
    } numbers[] = {{"step", &p->state.step},       {"updates", &p->state.updates},
                   {"good", &p->state.good},       {"skipped", &p->state.skipped},
                   {"epoch", &p->epoch},           {"epoch_step", &p->epoch_step},
                   {"batch", &p->batch},           {"seed", &p->seed},
                   {"parts", &p->parts},           {"samples", &p->samples},
                   {"best_epoch", &p->best_epoch}, {"bad_epochs", &p->bad_epochs},
                   {"seconds_ns", &p->seconds_ns}};
    const struct {
        const char *key;
        double *to;
    } reals[] = {{"scale", &p->state.scale},
                 {"loss_sum", &p->loss_sum},
                 {"right_sum", &p->right_sum},
                 {"top_sum", &p->top_sum},
                 {"best", &p->best}};
    hr_status status = HR_OK;
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0] && status == HR_OK; i++) {
        status = hri_json_get_u64(o, numbers[i].key, numbers[i].to, why);
    }
    for (size_t i = 0; i < sizeof reals / sizeof reals[0] && status == HR_OK; i++) {
        status = get_real(o, reals[i].key, reals[i].to, why);
    }
    p->counted = p->samples; /* before 0.2 sums went by samples */
    if (status == HR_OK && json_object_get(o, "counted")) {
        status = hri_json_get_u64(o, "counted", &p->counted, why);
    }
    const char *options = "";
    if (status == HR_OK && (status = get_bits(o, "input_print", &p->input_print, why)) == HR_OK &&
        (status = get_bits(o, "digest", &p->digest, why)) == HR_OK &&
        (status = hri_json_get_string(o, "options", &options, why)) == HR_OK) {
        snprintf(p->options, sizeof p->options, "%s", options);
    }
    return status;
}

static hr_status read_classes(hri_checkpoint *c, hri_prose *why) {
    const json_t *list = json_object_get(c->json, "classes");
    if (!list) {
        return HR_OK;
    }
    c->about.class_count = json_array_size(list);
    c->names = hri_calloc(c->about.class_count + 1, sizeof *c->names);
    if (!c->names) {
        return HR_E_NOMEM_HOST;
    }
    for (size_t i = 0; i < c->about.class_count; i++) {
        c->names[i] = json_string_value(json_array_get(list, i));
        if (!c->names[i]) {
            return hri_prose_set(why, HR_E_FORMAT, "class %zu has no name", i);
        }
    }
    c->about.classes = c->names;
    return HR_OK;
}

/* One to HRI_PIXELS_CHANNELS numbers. */
static size_t read_numbers(const json_t *list, double *out) {
    const size_t count = json_array_size(list);
    for (size_t i = 0; i < count && count <= HRI_PIXELS_CHANNELS; i++) {
        out[i] = json_is_number(json_array_get(list, i))
                     ? json_number_value(json_array_get(list, i))
                     : NAN;
    }
    return count;
}

static hr_status read_pixels(hri_checkpoint *c, hri_prose *why) {
    const json_t *object = json_object_get(c->json, "normalise");
    hri_pixels p = {.channels = 0};
    if (!object) {
        return HR_OK;
    }
    const size_t means = read_numbers(json_object_get(object, "mean"), p.mean);
    const size_t stds = read_numbers(json_object_get(object, "std"), p.std);
    int good = means == stds && means >= 1 && means <= HRI_PIXELS_CHANNELS;
    for (size_t i = 0; good && i < means; i++) {
        good = isfinite(p.mean[i]) && isfinite(p.std[i]) && fabs(p.std[i]) > 1e-12;
    }
    if (!good) {
        return hri_prose_set(why, HR_E_FORMAT,
                             "normalise: mean and std must be 1 to %d numbers each, std not 0",
                             HRI_PIXELS_CHANNELS);
    }
    p.channels = (uint32_t)means;
    snprintf(p.name, sizeof p.name, "%s", c->about.input);
    c->about.pixels = p;
    return HR_OK;
}

static hr_status read_about(hri_checkpoint *c, const char *text, hri_prose *why) {
    hr_status status = hri_json_parse(text, strlen(text), NULL, &c->json, why);
    uint64_t version = 0;
    if (status == HR_OK) {
        status = hri_json_get_u64(c->json, "version", &version, why);
    }
    if (status == HR_OK && version != 1) {
        return hri_prose_set(why, HR_E_UNSUPPORTED, "it is of version %llu, this program reads 1",
                             (unsigned long long)version);
    }
    const struct {
        const char *key, **to;
    } texts[] = {{"model", &c->about.model},
                 {"precision", &c->about.precision},
                 {"source", &c->about.source},
                 {"stages", &c->about.stages},
                 {"input", &c->about.input}};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0] && status == HR_OK; i++) {
        status = hri_json_get_string(c->json, texts[i].key, texts[i].to, why);
    }
    if (status == HR_OK) {
        status = read_classes(c, why);
    }
    if (status == HR_OK) {
        status = read_pixels(c, why);
    }
    const json_t *training = status == HR_OK ? json_object_get(c->json, "training") : NULL;
    if (training) {
        c->whole = 1;
        status = read_progress(training, &c->progress, why);
    }
    return status;
}

/* ---- opening ---- */

/* The file that is meant: a folder's best weights, else its last. */
static hr_status find_file(const char *path, char **out) {
    struct stat info;
    if (stat(path, &info) != 0 || !S_ISDIR(info.st_mode)) {
        *out = hri_strdup(path);
        return *out ? HR_OK : HR_E_NOMEM_HOST;
    }
    hr_status status = hri_path_join(path, HRI_CHECKPOINT_BEST, out);
    if (status == HR_OK && !hri_file_exists(*out)) {
        hri_free(*out);
        *out = NULL;
        status = hri_path_join(path, HRI_CHECKPOINT_LAST, out);
    }
    return status;
}

hr_status hri_checkpoint_open(const char *path, hri_checkpoint *out, hri_prose *why) {
    hri_checkpoint c = {.file = {.fd = -1}};
    hri_prose reason = {""};
    hr_status status = find_file(path, &c.path);
    if (status == HR_OK) {
        status = hri_tensors_open(c.path, &c.file, why);
    }
    const char *text = status == HR_OK ? hri_tensors_metadata(&c.file, "headroom") : NULL;
    if (status == HR_OK && !text) {
        status = hri_prose_set(why, HR_E_FORMAT,
                               "%s: it has weights, but is no checkpoint of headroom", c.path);
    } else if (status == HR_OK) {
        status = read_about(&c, text, &reason);
        if (status != HR_OK) {
            hri_prose_set(why, status == HR_E_NOT_FOUND ? HR_E_FORMAT : status,
                          "%s: a damaged checkpoint: %s", c.path,
                          reason.text[0] ? reason.text : hr_status_text(status));
            status = status == HR_E_NOT_FOUND ? HR_E_FORMAT : status;
        }
    }
    if (status != HR_OK) {
        hri_checkpoint_close(&c);
        return status;
    }
    *out = c;
    return HR_OK;
}

void hri_checkpoint_close(hri_checkpoint *c) {
    if (c->path) {
        hri_tensors_close(&c->file);
    }
    json_decref(c->json);
    hri_free(c->names);
    hri_free(c->path);
    *c = (hri_checkpoint){.file = {.fd = -1}};
}

/* ---- loading ---- */

static const hri_tensor *find_tensor(const hri_checkpoint *c, const hr_graph *g, hr_value v) {
    char full[512];
    snprintf(full, sizeof full, "%s%s", hri_keep_of(g, v) == HRI_KEEP_OPTIMIZER ? "optimizer/" : "",
             g->values[v].name);
    return hri_tensors_find(&c->file, full);
}

static int is_wanted(const hr_graph *g, hr_value v, hri_checkpoint_part part) {
    const hri_keep keep = hri_keep_of(g, v);
    return keep == HRI_KEEP_WEIGHT || (keep == HRI_KEEP_OPTIMIZER && part == HRI_CHECKPOINT_WHOLE);
}

static hr_status check(const hri_checkpoint *c, const hr_graph *g, hr_value v, hri_prose *why) {
    const hri_value *value = &g->values[v];
    const hri_tensor *t = find_tensor(c, g, v);
    if (!t) {
        return hri_prose_set(why, HR_E_NOT_FOUND, "%s: %s is not in it: a checkpoint of %s",
                             c->path, value->name, c->about.model);
    }
    const hr_meta wanted = {value->meta.type, hri_file_shape(&value->meta.shape)};
    const hr_meta is = {wanted.type, t->shape};
    char a[256], b[256];
    if (!hr_shape_same(&is.shape, &wanted.shape) || !hri_tensor_can_be(t, wanted.type)) {
        return hri_prose_set(why, HR_E_SHAPE, "%s: %s is %s %s in it and %s here", c->path,
                             value->name, t->dtype, hr_meta_print(&is, a, sizeof a),
                             hr_meta_print(&wanted, b, sizeof b));
    }
    return HR_OK;
}

hr_status hri_checkpoint_load(const hri_checkpoint *c, const hr_graph *g, const hri_values *to,
                              hri_checkpoint_part part, hri_prose *why) {
    hr_status status = HR_OK;
    if (part == HRI_CHECKPOINT_WHOLE && !c->whole) {
        return hri_prose_set(why, HR_E_INVALID,
                             "%s: it has the weights alone, so training cannot go on from it",
                             c->path);
    }
    for (hr_value v = 1; v < g->value_count && status == HR_OK; v++) {
        status = is_wanted(g, v, part) ? check(c, g, v, why) : HR_OK;
    }
    for (hr_value v = 1; v < g->value_count && status == HR_OK; v++) {
        if (is_wanted(g, v, part)) {
            status =
                hri_tensor_load(&c->file, find_tensor(c, g, v), to, v, &g->values[v].meta, why);
        }
    }
    return status;
}

hr_status hri_checkpoint_input(const hri_checkpoint *c, void **out, size_t *out_bytes,
                               hri_prose *why) {
    const hri_tensor *t = hri_tensors_find(&c->file, "headroom/input");
    if (!t || t->shape.rank != 1 || !hri_tensor_can_be(t, HR_TYPE_U8)) {
        return hri_prose_set(why, HR_E_FORMAT, "%s: the place of the input is missing", c->path);
    }
    const uint64_t bytes = t->end - t->begin;
    void *data = hri_malloc((size_t)bytes + 1);
    if (!data) {
        return hri_prose_set(why, HR_E_NOMEM_HOST, "%s: no memory for the place of the input",
                             c->path);
    }
    const hr_status status = hri_tensors_read(&c->file, t, 0, bytes, HR_TYPE_U8, data, why);
    if (status != HR_OK) {
        hri_free(data);
        return status;
    }
    *out = data;
    *out_bytes = (size_t)bytes;
    return HR_OK;
}
