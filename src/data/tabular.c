/* Columns and their numbers; see tabular.h. */
#include "data/tabular.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"

enum { WIDTH_MOST = 1 << 20 };

const char *const hri_column_kinds[] = {"number", "onehot", "ids", "classes",
                                        "text",   "image",  NULL};

hr_status hri_tabular_open(size_t inputs, size_t targets, hri_tabular **out) {
    if (inputs > HRI_TABULAR_COLUMNS || targets > HRI_TABULAR_COLUMNS) {
        return HR_E_RANGE;
    }
    hri_tabular *t = hri_calloc(1, sizeof *t);
    if (!t) {
        return HR_E_NOMEM_HOST;
    }
    t->inputs = hri_calloc(inputs ? inputs : 1, sizeof *t->inputs);
    t->targets = hri_calloc(targets ? targets : 1, sizeof *t->targets);
    t->input_count = inputs;
    t->target_count = targets;
    if (!t->inputs || !t->targets) {
        hri_tabular_close(t);
        return HR_E_NOMEM_HOST;
    }
    *out = t;
    return HR_OK;
}

static void close_columns(hri_column *c, size_t count) {
    for (size_t i = 0; c && i < count; i++) {
        hri_strmap_deinit(&c[i].places);
    }
    hri_free(c);
}

void hri_tabular_close(hri_tabular *t) {
    if (t) {
        close_columns(t->inputs, t->input_count);
        close_columns(t->targets, t->target_count);
        hri_arena_deinit(&t->texts);
        hri_free(t);
    }
}

static hr_status keep(hri_tabular *t, const char *text, const char **out) {
    if (strlen(text) > HRI_TABULAR_TEXT) {
        return HR_E_RANGE;
    }
    *out = hri_arena_strdup(&t->texts, text);
    return *out ? HR_OK : HR_E_NOMEM_HOST;
}

hr_status hri_column_set(hri_tabular *t, hri_column *c, const char *name, int kind,
                         const char *const *values, size_t count) {
    if (count > HRI_TABULAR_VALUES || kind < 0 || kind >= HRI_COLUMN_KINDS) {
        return HR_E_RANGE;
    }
    hri_column made = {.kind = kind, .std = 1, .missing = c->missing};
    const char **kept = HRI_ARENA_ARRAY(&t->texts, const char *, count ? count : 1);
    hr_status status = kept ? keep(t, name, &made.name) : HR_E_NOMEM_HOST;
    for (size_t i = 0; i < count && status == HR_OK; i++) {
        uint64_t before;
        status = keep(t, values[i], &kept[i]);
        if (status == HR_OK && hri_strmap_get(&made.places, kept[i], &before)) {
            status = HR_E_EXISTS;
        }
        if (status == HR_OK) {
            status = hri_strmap_put(&made.places, kept[i], i);
        }
    }
    if (status != HR_OK) {
        hri_strmap_deinit(&made.places);
        return status;
    }
    made.values = kept;
    made.value_count = count;
    hri_strmap_deinit(&c->places);
    *c = made;
    return HR_OK;
}

hr_status hri_tabular_set_key(hri_tabular *t, const char *name) {
    return keep(t, name, &t->key);
}

hr_status hri_tabular_settle(hri_tabular *t) {
    uint64_t at = 0;
    for (size_t i = 0; i < t->input_count; i++) {
        hri_column *c = &t->inputs[i];
        c->first = at;
        at += c->kind == HRI_COLUMN_ONEHOT ? c->value_count : 1;
        const int whole = c->kind == HRI_COLUMN_TEXT || c->kind == HRI_COLUMN_IMAGE;
        at -= whole ? 1 : 0;
        if (whole && t->input_count != 1) {
            return HR_E_RANGE;
        }
    }
    if (at > WIDTH_MOST) {
        return HR_E_RANGE;
    }
    t->width = at;
    for (size_t i = 0; i < t->target_count; i++) {
        t->targets[i].first = i;
    }
    return HR_OK;
}

int hri_tabular_has_classes(const hri_tabular *t) {
    return t->target_count == 1 && t->targets[0].kind == HRI_COLUMN_CLASSES;
}

int hri_tabular_is_text(const hri_tabular *t) {
    return t->input_count == 1 && t->inputs[0].kind == HRI_COLUMN_TEXT;
}

int hri_tabular_is_image(const hri_tabular *t) {
    return t->input_count == 1 && t->inputs[0].kind == HRI_COLUMN_IMAGE;
}

int hri_tabular_has_numbers(const hri_tabular *t) {
    return !hri_tabular_is_text(t) && !hri_tabular_is_image(t);
}

int64_t hri_column_class(const hri_column *c, const char *text) {
    uint64_t place;
    return text && hri_strmap_get(&c->places, text, &place) ? (int64_t)place : -1;
}

void hri_column_encode(const hri_column *c, double number, const char *text, float *row) {
    float *to = row + c->first;
    const int64_t place = c->kind == HRI_COLUMN_NUMBER ? -1 : hri_column_class(c, text);
    switch (c->kind) {
    case HRI_COLUMN_NUMBER:
        *to = (float)((number - c->mean) / c->std);
        break;
    case HRI_COLUMN_ONEHOT:
        for (size_t i = 0; i < c->value_count; i++) {
            to[i] = (int64_t)i == place ? 1.0f : 0.0f;
        }
        break;
    default:
        *to = (float)(place + 1);
        break;
    }
}
