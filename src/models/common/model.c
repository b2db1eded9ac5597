/* Finding, opening and building models: the part that knows no family. */
#include "models/common/model.h"

#include <string.h>

#include "base/alloc.h"
#include "base/nearest.h"

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

static const hri_model_name *name_find(const char *text, size_t length, const hri_family **family,
                                       hri_prose *why) {
    const char *names[64] = {0};
    size_t count = 0;
    for (const hri_model_name *n; count < 64 && (n = name_at(count, family)); count++) {
        if (strlen(n->name) == length && !memcmp(n->name, text, length)) {
            return n;
        }
        names[count] = n->name;
    }
    char word[64];
    snprintf(word, sizeof word, "%.*s", (int)(length < 60 ? length : 60), text);
    const char *near = hri_nearest(word, names, count, sizeof names[0]);
    char all[360] = "";
    for (size_t i = 0, used = 0; !near && i < count && used < sizeof all; i++) {
        used += (size_t)snprintf(all + used, sizeof all - used, "%s%s", i ? ", " : "", names[i]);
    }
    if (near) {
        hri_prose_set(why, HR_E_NOT_FOUND, "unknown model %s; did you mean %s?", word, near);
    } else {
        hri_prose_set(why, HR_E_NOT_FOUND, "unknown model \"%s\"; there are %s", word, all);
    }
    return NULL;
}

hr_status hr_model_list(size_t index, hr_model_info *out) {
    const hri_family *family;
    const hri_model_name *n = name_at(index, &family);
    if (!n) {
        return HR_E_EOF;
    }
    *out = (hr_model_info){n->name, family->name, n->help};
    return HR_OK;
}

hr_status hr_model_find(const char *name, hr_model_info *out, hr_error *why) {
    const hri_family *family;
    hri_prose prose = {""};
    const hri_model_name *n = name_find(name, strlen(name), &family, &prose);
    if (!n) {
        return hri_model_fail(why, HR_E_NOT_FOUND, &prose);
    }
    *out = (hr_model_info){n->name, family->name, n->help};
    return HR_OK;
}

hr_status hr_model_keys(const char *name, size_t index, hr_model_key *out) {
    hr_model *m;
    const hr_status status = hr_model_open(name, &m, NULL);
    if (status != HR_OK) {
        return status;
    }
    const bool there = index < m->parsed.count;
    if (there) {
        const hri_field *field = &m->family->fields[index];
        *out = (hr_model_key){.name = field->name, .help = field->help};
        hri_options_print(&m->parsed, field, out->value, sizeof out->value);
    }
    hr_model_close(m);
    return there ? HR_OK : HR_E_EOF;
}

/* ---- opening ---- */

/* "resnet18:classes=10,...": what the options are now. */
static hr_status print_text(hr_model *m) {
    const size_t room = 1024;
    m->text = hri_malloc(room);
    if (!m->text) {
        return HR_E_NOMEM_HOST;
    }
    size_t used = (size_t)snprintf(m->text, room, "%s", m->name->name);
    for (size_t i = 0; i < m->parsed.count && used < room; i++) {
        char value[128];
        hri_options_print(&m->parsed, &m->parsed.fields[i], value, sizeof value);
        used += (size_t)snprintf(m->text + used, room - used, "%c%s=%s", i ? ',' : ':',
                                 m->parsed.fields[i].name, value);
    }
    return used < room ? HR_OK : HR_E_INTERNAL;
}

/* The options of an opened name: table, name, text, in that order. */
static hr_status read_options(hr_model *m, const char *tail, hri_prose *why) {
    if (m->family->options_bytes > sizeof m->options) {
        return hri_prose_set(why, HR_E_INTERNAL, "%s: its options are too large", m->family->name);
    }
    hr_status status = hri_options_init(&m->parsed, m->family->fields, m->options, why);
    if (status == HR_OK && m->name->defaults) {
        status = hri_options_set_text(&m->parsed, m->name->defaults, why);
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

hr_status hr_model_open(const char *text, hr_model **out, hr_error *why) {
    const char *colon = strchr(text, ':');
    const hri_family *family;
    hri_prose prose = {""}, inner = {""};
    const hri_model_name *n =
        name_find(text, colon ? (size_t)(colon - text) : strlen(text), &family, &prose);
    if (!n) {
        return hri_model_fail(why, HR_E_NOT_FOUND, &prose);
    }
    hr_model *m = hri_calloc(1, sizeof *m);
    if (!m) {
        return hri_model_fail(why, HR_E_NOMEM_HOST, &prose);
    }
    m->family = family;
    m->name = n;
    hr_status status = read_options(m, colon ? colon + 1 : NULL, &inner);
    if (status == HR_OK) {
        status = print_text(m);
    }
    if (status != HR_OK) {
        hr_model_close(m);
        hri_prose_set(&prose, status, "%s: %s", n->name,
                      *inner.text ? inner.text : hr_status_text(status));
        return hri_model_fail(why, status, &prose);
    }
    *out = m;
    return HR_OK;
}

void hr_model_close(hr_model *m) {
    if (m) {
        hri_options_deinit(&m->parsed);
        hri_free(m->text);
        hri_free(m);
    }
}

const char *hr_model_name(const hr_model *m) {
    return m->name->name;
}

const char *hr_model_text(const hr_model *m) {
    return m->text;
}

int64_t hr_model_classes(const hr_model *m) {
    return m->family->classes(m->options);
}

/* ---- building ---- */

hr_status hr_model_build(void *model, hr_graph *g, int64_t batch, int training) {
    const hr_model *m = model;
    hri_build b = {.g = g, .options = m->options, .batch = batch, .training = training != 0};
    m->family->build(&b);
    hr_error error;
    hr_graph_error(g, &error);
    return error.code;
}
