/* Finding, opening and building models: the part that knows no family. */
#include "models/common/model.h"

#include <string.h>

#include "base/alloc.h"
#include "base/grow.h"
#include "base/hash.h"
#include "base/nearest.h"
#include "models/common/file.h"
#include "models/common/line.h"

hr_status hri_model_fail(hr_error *why, hr_status status, const hri_prose *prose) {
    if (why) {
        *why = (hr_error){.code = status};
        snprintf(why->message, sizeof why->message, "%s",
                 *prose->text ? prose->text : hr_status_text(status));
    }
    return status;
}

/* ---- listing ---- */

/* Name number `index` over all families, in the order of the listing; NULL past the end. */
static const hri_model_name *name_at(size_t index, const hri_family **family) {
    for (const hri_family *const *f = hri_familys; *f; f++) {
        for (const hri_model_name *n = (*f)->names; n->name; n++) {
            if (index-- == 0) {
                *family = *f;
                return n;
            }
        }
    }
    return NULL;
}

enum { NAMES_MAX = 256 };

static const hri_model_name *name_find(const char *text, size_t length, const hri_family **family,
                                       hri_prose *why) {
    const char *names[NAMES_MAX] = {0};
    size_t count = 0;
    for (const hri_model_name *n; count < NAMES_MAX && (n = name_at(count, family)); count++) {
        if (strlen(n->name) == length && !memcmp(n->name, text, length)) {
            return n;
        }
        names[count] = n->name;
    }
    char word[64];
    snprintf(word, sizeof word, "%.*s", (int)(length < 60 ? length : 60), text);
    const char *near = hri_nearest(word, names, count, sizeof names[0]);
    char all[360] = ""; /* the first of each family: all of them are too many for a sentence */
    for (size_t i = 0, used = 0; !near && hri_familys[i] && used < sizeof all; i++) {
        used += (size_t)snprintf(all + used, sizeof all - used, "%s%s", i ? ", " : "",
                                 hri_familys[i]->names[0].name);
    }
    if (near) {
        hri_prose_set(why, HR_E_NOT_FOUND, "unknown model %s; did you mean %s?", word, near);
    } else {
        hri_prose_set(why, HR_E_NOT_FOUND,
                      "unknown model \"%s\"; there are %s and others (headroom models)", word, all);
    }
    return NULL;
}

static hr_status give_info(const hri_family *family, const hri_model_name *n, hr_model_info *out) {
    const hr_model_info info = {.name = n->name, .family = family->name, .help = n->help};
    return hri_give(out, &info, sizeof info);
}

hr_status hr_model_list(size_t index, hr_model_info *out) {
    const hri_family *family;
    const hri_model_name *n = name_at(index, &family);
    if (!n) {
        return HR_E_EOF;
    }
    return give_info(family, n, out);
}

hr_status hr_model_find(const char *name, hr_model_info *out, hr_error *why) {
    const hri_family *family;
    hri_prose prose = {""};
    const hri_model_name *n = name_find(name, strlen(name), &family, &prose);
    if (!n) {
        return hri_model_fail(why, HR_E_NOT_FOUND, &prose);
    }
    return give_info(family, n, out);
}

hr_status hr_model_keys(const char *name, size_t index, hr_model_key *out) {
    hr_model *m;
    hr_status status = hr_model_open(name, &m, NULL);
    if (status != HR_OK) {
        return status;
    }
    status = HR_E_EOF;
    if (m->family && index < m->parsed.count) {
        const hri_field *field = &m->family->fields[index];
        hr_model_key key = {.name = field->name, .help = field->help};
        hri_options_print(&m->parsed, field, key.value, sizeof key.value);
        status = hri_give(out, &key, sizeof key);
    }
    hr_model_close(m);
    return status;
}

/* ---- opening ---- */

/* "resnet18:classes=10,...": what the options are now. */
static hr_status print_text(hr_model *m) {
    const size_t room = 1024;
    m->text = hri_malloc(room);
    if (!m->text) {
        return HR_E_NOMEM_HOST;
    }
    size_t used = (size_t)snprintf(m->text, room, "%s", m->name);
    for (size_t i = 0; i < m->parsed.count && used < room; i++) {
        char value[128];
        hri_options_print(&m->parsed, &m->parsed.fields[i], value, sizeof value);
        used += (size_t)snprintf(m->text + used, room - used, "%c%s=%s", i ? ',' : ':',
                                 m->parsed.fields[i].name, value);
    }
    return used < room ? HR_OK : HR_E_INTERNAL;
}

/* The options of an opened name: table, name, text, in that order. */
static hr_status read_options(hr_model *m, const char *defaults, const char *tail, hri_prose *why) {
    if (m->family->options_bytes > sizeof m->options) {
        return hri_prose_set(why, HR_E_INTERNAL, "%s: the options are too large", m->family->name);
    }
    hr_status status = hri_options_init(&m->parsed, m->family->fields, m->options, why);
    if (status == HR_OK && defaults) {
        status = hri_options_set_text(&m->parsed, defaults, why);
        status = status == HR_OK || status == HR_E_NOMEM_HOST ? status : HR_E_INTERNAL;
    }
    if (status == HR_OK && tail) {
        status = hri_options_set_text(&m->parsed, tail, why);
        status = status == HR_E_NOT_FOUND ? HR_E_INVALID : status;
    }
    if (status == HR_OK && m->family->check) {
        status = m->family->check(m->options, why);
    }
    return status;
}

static hr_status open_name(hr_model *m, const hri_family *family, const hri_model_name *n,
                           const char *tail, hri_prose *why) {
    m->family = family;
    m->prefix = family->prefix;
    m->derived = family->derived;
    m->heads = family->heads;
    m->name = hri_strdup(n->name);
    hr_status status = m->name ? read_options(m, n->defaults, tail, why) : HR_E_NOMEM_HOST;
    if (status == HR_OK) {
        m->classes = family->classes(m->options);
        status = print_text(m);
    }
    return status;
}

hr_status hr_model_open(const char *text, hr_model **out, hr_error *why) {
    const char *colon = strchr(text, ':');
    const hri_family *family = NULL;
    const hri_model_name *n = NULL;
    hri_prose prose = {""}, inner = {""};
    const int is_line = hri_line_is(text), is_file = !is_line && hri_model_file_is(text);
    if (!is_file && !is_line) {
        n = name_find(text, colon ? (size_t)(colon - text) : strlen(text), &family, &prose);
        if (!n) {
            return hri_model_fail(why, HR_E_NOT_FOUND, &prose);
        }
    }
    hr_model *m = hri_calloc(1, sizeof *m);
    if (!m) {
        return hri_model_fail(why, HR_E_NOMEM_HOST, &prose);
    }
    const hr_status status = is_line   ? hri_line_open(text, m, &inner)
                             : is_file ? hri_model_file_open(text, m, &prose)
                                       : open_name(m, family, n, colon ? colon + 1 : NULL, &inner);
    if (status != HR_OK) {
        hr_model_close(m);
        if (!is_file) {
            hri_prose_set(&prose, status, "%s: %s", is_line ? "net" : n->name,
                          *inner.text ? inner.text : hr_status_text(status));
        }
        return hri_model_fail(why, status, &prose);
    }
    *out = m;
    return HR_OK;
}

/* ---- a program's own ---- */

/* What a model must hold for every batch: the same persistent values, and a scalar "loss". */
static hr_status check_build(hr_model *m, int64_t batch, int training, uint64_t *persistent,
                             hri_prose *why) {
    hr_graph *g;
    hr_status status = hr_graph_create(&g);
    if (status != HR_OK) {
        return status;
    }
    status = hr_model_build(m, g, batch, training);
    if (status != HR_OK) {
        hr_error error;
        hr_graph_error(g, &error);
        hri_prose_set(why, status, "batch %d: %s", (int)batch,
                      error.code != HR_OK ? error.message : hr_status_text(status));
    }
    const hr_value loss = status == HR_OK ? hr_graph_find(g, "loss") : HR_NONE;
    const hr_meta meta = hr_graph_meta(g, loss);
    if (status == HR_OK && (loss == HR_NONE || meta.shape.rank || !hr_type_is_real(meta.type))) {
        status = hri_prose_set(why, HR_E_SHAPE, "scalar result \"loss\" is missing");
    }
    uint64_t hash = 0;
    for (hr_value v = 1; status == HR_OK && v <= hr_graph_value_count(g); v++) {
        const hr_value_kind kind = hr_graph_kind(g, v);
        if (kind == HR_VALUE_PARAM || kind == HR_VALUE_STATE) {
            char text[256];
            const hr_meta of = hr_graph_meta(g, v);
            hr_meta_print(&of, text, sizeof text);
            hash +=
                hri_hash_string(hr_graph_name(g, v)) ^ (hri_hash_string(text) * 3 + (uint64_t)kind);
        }
    }
    if (status == HR_OK && *persistent && *persistent != hash) {
        status = hri_prose_set(why, HR_E_SHAPE,
                               "its parameters differ between batch sizes, or "
                               "between training and evaluation");
    }
    *persistent = hash;
    hr_graph_destroy(g);
    return status;
}

hr_status hri_model_check(hr_model *m, hri_prose *why) {
    static const int64_t batches[] = {1, 2, 5};
    uint64_t persistent = 0;
    hr_status status = HR_OK;
    for (int i = 0; i < 6 && status == HR_OK; i++) {
        status = check_build(m, batches[i / 2], i % 2, &persistent, why);
    }
    return status;
}

hr_status hr_model_define(const hr_model_options *options, hr_model **out, hr_error *why) {
    hr_model_options o;
    hri_prose prose = {""};
    hr_status status = hri_take(&o, sizeof o, options);
    if (status == HR_OK && (!o.name || !*o.name || strlen(o.name) > 64 || !o.build)) {
        status = hri_prose_set(&prose, HR_E_INVALID,
                               "a model needs a name of 1 to 64 bytes and a "
                               "build function");
    }
    hr_model *m = status == HR_OK ? hri_calloc(1, sizeof *m) : NULL;
    if (m) {
        m->name = hri_strdup(o.name);
        m->text = hri_strdup(o.name);
        m->build = o.build;
        m->user = o.user;
        m->classes = o.classes;
        status = m->name && m->text ? hri_model_check(m, &prose) : HR_E_NOMEM_HOST;
    } else if (status == HR_OK) {
        status = HR_E_NOMEM_HOST;
    }
    if (status != HR_OK) {
        hr_model_close(m);
        return hri_model_fail(why, status, &prose);
    }
    *out = m;
    return HR_OK;
}

void hr_model_close(hr_model *m) {
    if (m) {
        hri_options_deinit(&m->parsed);
        hri_model_file_close(m->file);
        hri_line_free(m->line);
        hri_free(m->name);
        hri_free(m->text);
        hri_free(m->weights);
        hri_free(m);
    }
}

const char *hr_model_name(const hr_model *m) {
    return m->name;
}

const char *hr_model_text(const hr_model *m) {
    return m->text;
}

int64_t hr_model_classes(const hr_model *m) {
    return m->classes;
}

/* ---- building ---- */

static void build_family(const hr_model *m, hr_graph *g, int64_t batch, int training) {
    hri_build b = {.g = g, .options = m->options, .batch = batch, .training = training != 0};
    m->family->build(&b);
}

int64_t hri_model_context(const hr_model *m) {
    return m->family && m->family->context ? m->family->context(m->options) : 0;
}

hr_status hri_model_build_decode(const hr_model *m, hr_graph *g, int64_t tokens) {
    hri_build b = {.g = g, .options = m->options, .batch = 1, .decode = tokens};
    if (!hri_model_context(m)) {
        return HR_E_UNSUPPORTED;
    }
    m->family->build(&b);
    hr_error error;
    hr_graph_error(g, &error);
    return error.code;
}

hr_status hr_model_build(void *model, hr_graph *g, int64_t batch, int training) {
    const hr_model *m = model;
    if (m->build) {
        const hr_status status = m->build(m->user, g, batch, training);
        if (status != HR_OK) {
            return status;
        }
    } else if (m->file) {
        return hri_model_file_build(m->file, g, batch, training);
    } else {
        build_family(m, g, batch, training);
    }
    hr_error error;
    hr_graph_error(g, &error);
    return error.code;
}
