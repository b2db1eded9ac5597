/* Tables in the text of a checkpoint; see checkpoint_table.h. */
#include "weights/checkpoint_table.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"

/* ---- reading ---- */

typedef struct reading {
    hri_json_stream *s;
    hri_tabular *table;
    hri_prose *why;
} reading;

/* One column while it is read. */
typedef struct column {
    char *name;
    char **values;
    size_t count, room;
    double mean, std;
    int kind; /* -1: none was said */
} column;

static hr_status wrong(const reading *r, const char *what) {
    return hri_prose_set(r->why, HR_E_FORMAT, "\"table\" %s", what);
}

static hr_status copy_text(const reading *r, const hri_json_token *t, char **out) {
    if (t->kind != HRI_JSON_STRING || t->nul || t->cut || t->bytes > HRI_TABULAR_TEXT) {
        return wrong(r, "has a name or value that is not a string, or too long");
    }
    hri_free(*out);
    *out = hri_strdup(t->text);
    return *out ? HR_OK : HR_E_NOMEM_HOST;
}

static hr_status read_real(const reading *r, const hri_json_token *t, double *out) {
    if ((t->kind != HRI_JSON_REAL && t->kind != HRI_JSON_INTEGER) || !isfinite(t->real)) {
        return wrong(r, "has a mean or std that is not a number");
    }
    *out = t->real;
    return HR_OK;
}

static hr_status read_kind(const reading *r, const hri_json_token *t, int *out) {
    for (int k = 0; t->kind == HRI_JSON_STRING && hri_column_kinds[k]; k++) {
        if (!strcmp(t->text, hri_column_kinds[k])) {
            *out = k;
            return HR_OK;
        }
    }
    return wrong(r, "has a column of an unknown kind");
}

static hr_status read_values(reading *r, const hri_json_token *first, column *c) {
    hri_json_token t = *first;
    hr_status status = HR_OK;
    if (t.kind != HRI_JSON_ARRAY || c->count) {
        return wrong(r, "has values that are not a list");
    }
    while (status == HR_OK && (status = hri_json_stream_next(r->s, &t, r->why)) == HR_OK &&
           t.kind != HRI_JSON_ARRAY_END) {
        if (c->count == HRI_TABULAR_VALUES) {
            return wrong(r, "has a column with too many values");
        }
        if (c->count == c->room) {
            c->room = c->room ? 2 * c->room : 16;
            char **more = hri_realloc(c->values, c->room * sizeof *more);
            if (!more) {
                return HR_E_NOMEM_HOST;
            }
            c->values = more;
        }
        c->values[c->count] = NULL;
        status = copy_text(r, &t, &c->values[c->count]);
        c->count += c->values[c->count] != NULL;
    }
    return status;
}

static void drop(column *c) {
    for (size_t i = 0; i < c->count; i++) {
        hri_free(c->values[i]);
    }
    hri_free(c->values);
    hri_free(c->name);
}

static hr_status read_column(reading *r, const hri_json_token *first, hri_column *to) {
    hri_json_token t = *first;
    column c = {.kind = -1, .std = 1};
    hr_status status =
        t.kind == HRI_JSON_OBJECT ? HR_OK : wrong(r, "has a column that is not an object");
    while (status == HR_OK && (status = hri_json_stream_next(r->s, &t, r->why)) == HR_OK &&
           t.kind != HRI_JSON_OBJECT_END) {
        status = !strcmp(t.key, "name")     ? copy_text(r, &t, &c.name)
                 : !strcmp(t.key, "kind")   ? read_kind(r, &t, &c.kind)
                 : !strcmp(t.key, "mean")   ? read_real(r, &t, &c.mean)
                 : !strcmp(t.key, "std")    ? read_real(r, &t, &c.std)
                 : !strcmp(t.key, "values") ? read_values(r, &t, &c)
                                            : hri_json_stream_skip(r->s, &t, r->why);
    }
    const int has_values =
        c.kind != HRI_COLUMN_NUMBER && c.kind != HRI_COLUMN_TEXT && c.kind != HRI_COLUMN_IMAGE;
    if (status == HR_OK && (!c.name || c.kind < 0 || !(c.std > 0) || has_values != (c.count > 0))) {
        status = wrong(r, "has a column without a name or kind, with a std that is not above 0, or "
                          "with values that its kind has not");
    }
    if (status == HR_OK) {
        status =
            hri_column_set(r->table, to, c.name, c.kind, (const char *const *)c.values, c.count);
        to->mean = c.mean;
        to->std = c.std;
        status = status == HR_E_EXISTS || status == HR_E_RANGE
                     ? wrong(r, "has a column with a value that is there twice, or too long")
                     : status;
    }
    drop(&c);
    return status;
}

static hr_status read_columns(reading *r, const hri_json_token *first, hri_column *to,
                              size_t *count) {
    hri_json_token t = *first;
    hr_status status = HR_OK;
    if (t.kind != HRI_JSON_ARRAY || *count) {
        return wrong(r, "has columns that are not a list, or twice");
    }
    while (status == HR_OK && (status = hri_json_stream_next(r->s, &t, r->why)) == HR_OK &&
           t.kind != HRI_JSON_ARRAY_END) {
        status = *count < HRI_TABULAR_COLUMNS ? read_column(r, &t, &to[(*count)++])
                                              : wrong(r, "has too many columns");
    }
    return status;
}

static hr_status read_all(reading *r, const hri_json_token *first) {
    hri_json_token t = *first;
    hri_tabular *x = r->table;
    char *key = NULL;
    hr_status status = t.kind == HRI_JSON_OBJECT ? HR_OK : wrong(r, "is not an object");
    while (status == HR_OK && (status = hri_json_stream_next(r->s, &t, r->why)) == HR_OK &&
           t.kind != HRI_JSON_OBJECT_END) {
        status = !strcmp(t.key, "inputs")    ? read_columns(r, &t, x->inputs, &x->input_count)
                 : !strcmp(t.key, "targets") ? read_columns(r, &t, x->targets, &x->target_count)
                 : !strcmp(t.key, "key")     ? copy_text(r, &t, &key)
                                             : hri_json_stream_skip(r->s, &t, r->why);
    }
    if (status == HR_OK && key) {
        status = hri_tabular_set_key(x, key);
    }
    hri_free(key);
    if (status == HR_OK && ((!x->input_count && !hri_tabular_has_classes(x)) ||
                            hri_tabular_settle(x) != HR_OK)) { /* classes alone: of masks */
        status = wrong(r, "has no inputs, or too many");
    }
    for (size_t i = 0; status == HR_OK && i < x->target_count; i++) {
        const int kind = x->targets[i].kind;
        if (kind != HRI_COLUMN_NUMBER && (kind != HRI_COLUMN_CLASSES || x->target_count > 1)) {
            status = wrong(r, "has a target that is neither a number nor the only classes");
        }
    }
    for (size_t i = 0; status == HR_OK && i < x->input_count; i++) {
        status = x->inputs[i].kind == HRI_COLUMN_CLASSES ? wrong(r, "has classes among its inputs")
                                                         : HR_OK;
    }
    return status;
}

hr_status hri_checkpoint_read_table(hri_json_stream *s, const hri_json_token *first,
                                    hri_tabular **out, hri_prose *why) {
    reading r = {.s = s, .why = why};
    hr_status status = hri_tabular_open(HRI_TABULAR_COLUMNS, HRI_TABULAR_COLUMNS, &r.table);
    if (status != HR_OK) {
        return hri_prose_set(why, status, "out of memory");
    }
    r.table->input_count = r.table->target_count = 0;
    status = read_all(&r, first);
    if (status != HR_OK) {
        hri_tabular_close(r.table);
        return status;
    }
    r.table->fitted = 1;
    *out = r.table;
    return HR_OK;
}

/* ---- writing ---- */

static void put_columns(hri_json *j, const char *key, const hri_column *c, size_t count) {
    hri_json_array(j, key);
    for (size_t i = 0; i < count; i++) {
        hri_json_object(j, NULL);
        hri_json_string(j, "name", c[i].name);
        hri_json_string(j, "kind", hri_column_kinds[c[i].kind]);
        if (c[i].kind == HRI_COLUMN_NUMBER) {
            hri_json_double(j, "mean", c[i].mean);
            hri_json_double(j, "std", c[i].std);
        } else if (c[i].kind != HRI_COLUMN_TEXT && c[i].kind != HRI_COLUMN_IMAGE) {
            hri_json_array(j, "values");
            for (size_t k = 0; k < c[i].value_count; k++) {
                hri_json_string(j, NULL, c[i].values[k]);
            }
            hri_json_end(j);
        }
        hri_json_end(j);
    }
    hri_json_end(j);
}

void hri_checkpoint_put_table(hri_json *j, const hri_tabular *t) {
    hri_json_object(j, "table");
    put_columns(j, "inputs", t->inputs, t->input_count);
    put_columns(j, "targets", t->targets, t->target_count);
    if (t->key) {
        hri_json_string(j, "key", t->key);
    }
    hri_json_end(j);
}
