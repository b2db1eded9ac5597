/* Building and reading JSON over jansson.
 *
 * The builder keeps the open objects and arrays; each new value is handed to its parent at once, so that
 * only the root is ours and one json_decref frees all.  The first failure sticks.
 *
 * The reader looks over the text once before jansson does, for depth and the number of values: jansson's own
 * limit is fixed at its build, and a limit of ours must hold with any.  The look needs to know strings and brackets and
 * nothing else; whatever it misjudges in wrong JSON, jansson refuses. */
#include "base/json.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/visible.h"

void hri_json_init(hri_json *j) {
    *j = (hri_json){.depth = 1};
    j->open[0] = json_object();
    j->status = j->open[0] ? HR_OK : HR_E_NOMEM_HOST;
}

void hri_json_deinit(hri_json *j) {
    json_decref(j->open[0]);
    *j = (hri_json){0};
}

/* Hands `value` (ours from now on; NULL: there was no memory) to the object or array that is open. */
static void add(hri_json *j, const char *key, json_t *value) {
    json_t *parent = j->open[j->depth - 1];
    hr_status status = HR_OK;
    if (!value) {
        status = HR_E_NOMEM_HOST;
    } else if (json_is_object(parent) != (key != NULL)) {
        status = HR_E_INVALID;
    } else if (key && json_object_get(parent, key)) {
        status = HR_E_EXISTS;
    } else if (key ? json_object_set(parent, key, value) : json_array_append(parent, value)) {
        status = HR_E_NOMEM_HOST; /* or a key that is not UTF-8: keys are ours */
    }
    json_decref(value);
    j->status = status;
}

static void open_child(hri_json *j, const char *key, json_t *(*make)(void)) {
    if (j->status != HR_OK) {
        return;
    }
    if (j->depth == HRI_JSON_DEPTH) {
        j->status = HR_E_RANGE;
        return;
    }
    json_t *child = make();
    add(j, key, child);
    if (j->status == HR_OK) {
        j->open[j->depth++] = child; /* the parent keeps it alive */
    }
}

void hri_json_object(hri_json *j, const char *key) {
    open_child(j, key, json_object);
}

void hri_json_array(hri_json *j, const char *key) {
    open_child(j, key, json_array);
}

void hri_json_end(hri_json *j) {
    if (j->status == HR_OK && j->depth == 1) {
        j->status = HR_E_INVALID;
    } else if (j->status == HR_OK) {
        j->depth--;
    }
}

/* A text whose bad bytes are '?', as a JSON string; NULL: no memory. */
static json_t *repaired(const char *text) {
    char *copy = hri_strdup(text);
    if (!copy) {
        return NULL;
    }
    for (char *p = copy; *p;) {
        const size_t length = hri_utf8_length(p);
        if (!length) {
            *p = '?';
        }
        p += length ? length : 1;
    }
    json_t *value = json_string(copy);
    hri_free(copy);
    return value;
}

void hri_json_string(hri_json *j, const char *key, const char *value) {
    if (j->status != HR_OK) {
        return;
    }
    json_t *made = value ? json_string(value) : json_null();
    add(j, key, made ? made : repaired(value));
}

void hri_json_u64(hri_json *j, const char *key, uint64_t value) {
    if (j->status == HR_OK && value > INT64_MAX) {
        j->status = HR_E_RANGE;
    }
    hri_json_i64(j, key, (int64_t)value);
}

void hri_json_i64(hri_json *j, const char *key, int64_t value) {
    if (j->status == HR_OK) {
        add(j, key, json_integer(value));
    }
}

void hri_json_double(hri_json *j, const char *key, double value) {
    if (j->status == HR_OK) {
        add(j, key, isfinite(value) ? json_real(value) : json_null());
    }
}

void hri_json_bool(hri_json *j, const char *key, bool value) {
    if (j->status == HR_OK) {
        add(j, key, json_boolean(value));
    }
}

void hri_json_null(hri_json *j, const char *key) {
    if (j->status == HR_OK) {
        add(j, key, json_null());
    }
}

hr_status hri_json_status(const hri_json *j) {
    return j->status == HR_OK && j->depth != 1 ? HR_E_INVALID : j->status;
}

hr_status hri_json_print(const hri_json *j, unsigned indent, char **out) {
    const hr_status status = hri_json_status(j);
    if (status != HR_OK) {
        return status;
    }
    const size_t flags = JSON_INDENT(indent) | (indent ? 0 : JSON_COMPACT);
    const size_t bytes = json_dumpb(j->open[0], NULL, 0, flags);
    char *text = bytes ? hri_malloc(bytes + 1) : NULL;
    if (!text || json_dumpb(j->open[0], text, bytes, flags) != bytes) {
        hri_free(text);
        return HR_E_NOMEM_HOST;
    }
    text[bytes] = '\0';
    *out = text;
    return HR_OK;
}

/* ---- reading ---- */

/* The byte at which brackets go deeper than max_depth, or `bytes`; *values counts what will be built. */
static size_t too_deep_at(const char *text, size_t bytes, unsigned max_depth, size_t *values) {
    unsigned depth = 0;
    *values = 1;
    bool in_string = false;
    for (size_t i = 0; i < bytes; i++) {
        const char c = text[i];
        if (in_string) {
            i += c == '\\';
            in_string = c != '"';
        } else if (c == '"') {
            in_string = true;
        } else if (c == ',') {
            ++*values;
        } else if (c == '[' || c == '{') {
            ++*values;
            if (++depth > max_depth) {
                return i;
            }
        } else if ((c == ']' || c == '}') && depth) {
            depth--;
        }
    }
    return bytes;
}

static int line_of(const char *text, size_t at) {
    int line = 1;
    for (size_t i = 0; i < at; i++) {
        line += text[i] == '\n';
    }
    return line;
}

static hri_json_limits with_defaults(const hri_json_limits *limits) {
    hri_json_limits l = limits ? *limits : (hri_json_limits){0};
    l.max_bytes = l.max_bytes ? l.max_bytes : (size_t)64 << 20;
    l.max_depth = l.max_depth ? l.max_depth : 32;
    l.max_values = l.max_values ? l.max_values : 1000000;
    return l;
}

hr_status hri_json_parse(const char *text, size_t bytes, const hri_json_limits *limits,
                         json_t **out, hri_prose *why) {
    const hri_json_limits l = with_defaults(limits);
    if (bytes > l.max_bytes) {
        return hri_prose_set(why, HR_E_RANGE, "%zu bytes, more than the %zu allowed", bytes,
                             l.max_bytes);
    }
    size_t values = 0;
    const size_t deep = too_deep_at(text, bytes, l.max_depth, &values);
    if (deep < bytes) {
        return hri_prose_set(why, HR_E_RANGE, "line %d: nested deeper than %u levels",
                             line_of(text, deep), l.max_depth);
    }
    if (values > l.max_values) {
        return hri_prose_set(why, HR_E_RANGE, "%zu values, more than the %zu allowed", values,
                             l.max_values);
    }
    json_error_t error;
    json_t *value = json_loadb(text, bytes, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
    if (value) {
        *out = value;
        return HR_OK;
    }
    if (json_error_code(&error) == json_error_out_of_memory) {
        return hri_prose_set(why, HR_E_NOMEM_HOST, "out of memory");
    }
    return hri_prose_set(why, HR_E_FORMAT, "line %d, column %d: %s", error.line, error.column,
                         error.text);
}

hr_status hri_json_load(const char *path, const hri_json_limits *limits, json_t **out,
                        hri_prose *why) {
    const hri_json_limits l = with_defaults(limits);
    char *text;
    size_t bytes;
    hr_status status = hri_file_read(path, l.max_bytes, &text, &bytes, why);
    if (status != HR_OK) {
        return status;
    }
    hri_prose inner = {""};
    status = hri_json_parse(text, bytes, &l, out, &inner);
    hri_free(text);
    return status == HR_OK ? HR_OK : hri_prose_set(why, status, "%s: %s", path, inner.text);
}

/* The member, or the status and sentence for why there is none of this kind. */
static hr_status member(const json_t *object, const char *key, int fits, const char *kind,
                        hri_prose *why) {
    if (!json_object_get(object, key)) {
        return hri_prose_set(why, HR_E_NOT_FOUND, "\"%s\" is missing", key);
    }
    return fits ? HR_OK : hri_prose_set(why, HR_E_FORMAT, "\"%s\" is not %s", key, kind);
}

hr_status hri_json_get_u64(const json_t *object, const char *key, uint64_t *out, hri_prose *why) {
    const json_t *value = json_object_get(object, key);
    hr_status status = member(object, key, json_is_integer(value), "an integer", why);
    if (status == HR_OK && json_integer_value(value) < 0) {
        status = hri_prose_set(why, HR_E_RANGE, "\"%s\" is negative", key);
    }
    if (status == HR_OK) {
        *out = (uint64_t)json_integer_value(value);
    }
    return status;
}

hr_status hri_json_get_double(const json_t *object, const char *key, double *out, hri_prose *why) {
    const json_t *value = json_object_get(object, key);
    const hr_status status = member(object, key, json_is_number(value), "a number", why);
    if (status == HR_OK) {
        *out = json_number_value(value);
    }
    return status;
}

hr_status hri_json_get_bool(const json_t *object, const char *key, bool *out, hri_prose *why) {
    const json_t *value = json_object_get(object, key);
    const hr_status status = member(object, key, json_is_boolean(value), "true or false", why);
    if (status == HR_OK) {
        *out = json_is_true(value);
    }
    return status;
}

hr_status hri_json_get_string(const json_t *object, const char *key, const char **out,
                              hri_prose *why) {
    const json_t *value = json_object_get(object, key);
    const hr_status status = member(object, key, json_is_string(value), "a text", why);
    if (status == HR_OK) {
        *out = json_string_value(value);
    }
    return status;
}
