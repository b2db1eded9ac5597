/* From records to rows, and what columns are; see columns.h. */
#include "data/formats/columns_int.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/prose.h"
#include "base/visible.h"

enum { ONEHOT_MOST = 256 };

/* ---- looking ---- */

static void trim(char **value, size_t *length) {
    while (*length && (**value == ' ' || **value == '\t')) {
        ++*value;
        --*length;
    }
    while (*length && ((*value)[*length - 1] == ' ' || (*value)[*length - 1] == '\t')) {
        --*length;
    }
}

static hr_status wrong_count(uint32_t have, uint32_t want, hri_prose *why) {
    return hri_prose_set(why, HR_E_FORMAT, "%s than %u values", have < want ? "fewer" : "more",
                         want);
}

typedef hr_status cell_fn(void *user, int32_t role, char *value, size_t length, hri_prose *why);

static hr_status each_cell(const hri_columns *c, char *record, size_t length, char separator,
                           cell_fn *fn, void *user, hri_prose *why) {
    char *p = record, *end = record + length, *value;
    size_t n;
    uint32_t i = 0;
    hr_status status =
        hri_cells_closed(record, length) ? HR_OK : hri_prose_set(why, HR_E_FORMAT, HRI_CELLS_OPEN);
    for (; status == HR_OK && i < c->count && hri_cell_next(&p, end, separator, &value, &n); i++) {
        if (c->roles[i] >= 0) {
            trim(&value, &n);
            status = fn(user, c->roles[i], value, n, why);
        }
    }
    if (status == HR_OK && (i < c->count || p <= end)) {
        status = wrong_count(i < c->count ? i : c->count + 1, c->count, why);
    }
    return status;
}

static hr_status read_weight(char *value, size_t n, float *out, hri_prose *why) {
    double real = (double)NAN;
    int64_t whole;
    const bool missing = hri_cell_is_missing(value, n);
    const bool text = !missing && hri_cell_read(value, n, &real, &whole) == HRI_CELL_TEXT;
    if (missing || text || !(real >= 0 && real <= HRI_WEIGHT_MOST)) {
        return hri_prose_set(why, HR_E_FORMAT, "the weight %s%.*s%s is %s; weights are 0 to %g",
                             missing ? "" : "\"",
                             missing ? 0 : (int)(n < HRI_COLUMNS_SHOWN ? n : HRI_COLUMNS_SHOWN),
                             value, missing ? "of this row" : "\"",
                             missing    ? "missing"
                             : real < 0 ? "negative"
                             : text     ? "not a number"
                                        : "out of range",
                             HRI_WEIGHT_MOST);
    }
    *out = (float)real;
    return HR_OK;
}

typedef struct looking {
    hri_columns *c;
    const hri_columns_ask *ask;
    uint64_t number;
} looking;

/* 0,5 or -12,25: a number as some countries write it. */
static bool has_decimal_comma(const char *value, size_t n) {
    size_t commas = 0, digits = 0;
    for (size_t i = 0; i < n; i++) {
        commas += value[i] == ',';
        digits += value[i] >= '0' && value[i] <= '9';
    }
    const bool sign = n && (*value == '-' || *value == '+');
    return commas == 1 && digits + 1 + sign == n && digits > 1 && value[n - 1] != ',';
}

/* Samples are of f32. */
static bool fits_f32(double real) {
    return fabs(real) <= (double)FLT_MAX;
}

static hr_status look_at(void *user, int32_t role, char *value, size_t n, hri_prose *why) {
    looking *l = user;
    float weight;
    if (role >= (int32_t)l->c->sum_count) { /* the key, or the weight */
        return role == HRI_COLUMNS_WEIGHT ? read_weight(value, n, &weight, why) : HR_OK;
    }
    hri_columns_sums *s = &l->c->sums[role];
    double real;
    int64_t whole;
    if (s->text) {
        return HR_OK;
    }
    if (hri_cell_is_missing(value, n)) {
        s->missing++;
        return HR_OK;
    }
    const hri_cell_kind kind = hri_cell_read(value, n, &real, &whole);
    if (kind == HRI_CELL_TEXT) {
        s->commas += has_decimal_comma(value, n);
        if (!s->texts++) {
            s->odd = l->number;
            snprintf(s->odd_text, sizeof s->odd_text, "%.*s",
                     (int)(n < HRI_COLUMNS_SHOWN ? n : HRI_COLUMNS_SHOWN), value);
        }
        return HR_OK;
    }
    if (!fits_f32(real) && !s->forced) {
        return hri_prose_set(why, HR_E_FORMAT, "%s, record %llu: \"%.*s\" in column \"%s\" is %s",
                             l->ask->file, (unsigned long long)l->number,
                             (int)(n < HRI_COLUMNS_SHOWN ? n : HRI_COLUMNS_SHOWN), value, s->name,
                             isfinite(real) ? "too large (3.4e38 at most)" : "not finite");
    }
    s->whole = s->whole && kind == HRI_CELL_WHOLE;
    if (s->whole) {
        s->least = !s->numbers || whole < s->least ? whole : s->least;
        s->most = !s->numbers || whole > s->most ? whole : s->most;
    }
    s->numbers++;
    return HR_OK;
}

hr_status hri_columns_look(hri_columns *c, const hri_columns_ask *ask, char *record, size_t length,
                           char separator, uint64_t number, hri_prose *why) {
    looking l = {c, ask, number};
    hri_prose reason = {""};
    const hr_status status = each_cell(c, record, length, separator, look_at, &l, &reason);
    return status == HR_E_FORMAT && !strstr(reason.text, "record")
               ? hri_prose_set(why, status, "%s, record %llu: %s", ask->file,
                               (unsigned long long)number, reason.text)
           : status != HR_OK ? hri_prose_set(why, status, "%s", reason.text)
                             : HR_OK;
}

static uint32_t input_count(const hri_columns *c) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < c->count; i++) {
        n += c->roles[i] >= 0;
    }
    return n - c->has_key - c->has_weight; /* with targets */
}

static hr_status not_a_number(const hri_columns_ask *ask, const hri_columns_sums *s, bool target,
                              hri_prose *why) {
    return hri_prose_set(why, HR_E_FORMAT,
                         "%s, record %llu: \"%s\" in column \"%s\" is not a number, but %llu other "
                         "cells are; %s",
                         ask->file, (unsigned long long)s->odd, s->odd_text, s->name,
                         (unsigned long long)s->numbers,
                         target ? "task=classes takes them all as classes"
                                : "categories=NAME takes the column as a category");
}

static hr_status settle_kind(const hri_columns_ask *ask, hri_columns_sums *s, bool target,
                             bool single, hri_prose *why) {
    const bool mostly = s->numbers && s->texts <= s->numbers / 10;
    const bool category = s->forced || (target && ask->task == HRI_COLUMNS_CLASSES);
    if (s->text) {
        return HR_OK;
    }
    if (!s->numbers && !s->texts) {
        return hri_prose_set(why, HR_E_FORMAT, "%s: column \"%s\" has no values", ask->file,
                             s->name);
    }
    if (s->commas && s->commas >= s->texts - s->texts / 10 && !category) {
        return hri_prose_set(why, HR_E_FORMAT,
                             "%s, record %llu: \"%s\" in column \"%s\" has a decimal comma; write "
                             "numbers with a point%s",
                             ask->file, (unsigned long long)s->odd, s->odd_text, s->name,
                             target ? "" : ", or name the column in categories=");
    }
    if (!target && ask->no_missing && s->missing) {
        return hri_prose_set(why, HR_E_FORMAT,
                             "%s: %llu value%s of column \"%s\" %s missing; missing=mean puts the "
                             "mean of the training samples there",
                             ask->file, (unsigned long long)s->missing, hri_plural(s->missing),
                             s->name, s->missing == 1 ? "is" : "are");
    }
    if (s->texts && !category && (mostly || (target && ask->task == HRI_COLUMNS_NUMBERS))) {
        return not_a_number(ask, s, target, why);
    }
    s->category = category || s->texts > 0;
    /* few different whole numbers are classes: how many there are is seen when they are collected */
    s->category |= target && single && ask->task == HRI_COLUMNS_AUTO && s->whole;
    if (target && !single && s->category) {
        return hri_prose_set(why, HR_E_INVALID,
                             "%s: several columns of y must be numbers, but \"%s\" is not",
                             ask->file, s->name);
    }
    return HR_OK;
}

hr_status hri_columns_kinds(hri_columns *c, const hri_columns_ask *ask, hri_prose *why) {
    const uint32_t targets = c->target_count;
    hr_status status = HR_OK;
    for (uint32_t i = 0; i < c->sum_count && status == HR_OK; i++) {
        status = settle_kind(ask, &c->sums[i], i + targets >= c->sum_count, targets == 1, why);
    }
    c->has_range = status == HR_OK && targets > 1 && ask->task == HRI_COLUMNS_AUTO;
    for (uint32_t i = c->sum_count - targets; c->has_range && i < c->sum_count; i++) {
        const hri_columns_sums *s = &c->sums[i];
        c->least = !c->cells || s->least < c->least ? s->least : c->least;
        c->most = !c->cells || s->most > c->most ? s->most : c->most;
        c->cells += s->numbers + s->missing;
        c->missing += s->missing;
        c->has_range = s->whole;
    }
    return status;
}

bool hri_columns_has_flags(const hri_columns *c) {
    return c->has_range && c->least >= 0 && c->most <= 1;
}

/* ---- values of categories ---- */

/* A value as text: whole numbers in one form, so that 1 and 01 are the same. */
static hr_status value_text(const char *value, size_t n, char *out, size_t size) {
    double real;
    int64_t whole;
    if (n >= size) {
        return HR_E_RANGE;
    }
    if (hri_cell_read(value, n, &real, &whole) == HRI_CELL_WHOLE) {
        snprintf(out, size, "%lld", (long long)whole);
    } else {
        memcpy(out, value, n);
        out[n] = '\0';
    }
    return HR_OK;
}

bool hri_columns_is_utf8(const char *text) {
    while (*text) {
        const size_t n = hri_utf8_length(text);
        if (!n) {
            return false;
        }
        text += n;
    }
    return true;
}

static hr_status collect(void *user, int32_t role, char *value, size_t n, hri_prose *why) {
    looking *l = user;
    char text[HRI_TABULAR_TEXT + 1];
    uint64_t there;
    if (role >= (int32_t)l->c->sum_count || !l->c->sums[role].category ||
        l->c->sums[role].too_many || hri_cell_is_missing(value, n)) {
        return HR_OK;
    }
    hri_columns_sums *s = &l->c->sums[role];
    if (value_text(value, n, text, sizeof text) != HR_OK) {
        return hri_prose_set(why, HR_E_RANGE,
                             "%s: a value of column \"%s\" is longer than %d bytes", l->ask->file,
                             s->name, HRI_TABULAR_TEXT);
    }
    if (hri_strmap_get(&s->values, text, &there)) {
        return HR_OK;
    }
    if (!hri_columns_is_utf8(text)) {
        return hri_prose_set(
            why, HR_E_FORMAT,
            "%s, record %llu: \"%.40s\" in column \"%s\" is not UTF-8; convert the "
            "file",
            l->ask->file, (unsigned long long)l->number, text, s->name);
    }
    s->too_many = s->values.map.count == HRI_TABULAR_VALUES;
    return s->too_many ? HR_OK : hri_strmap_put(&s->values, text, 0);
}

hr_status hri_columns_collect(hri_columns *c, const hri_columns_ask *ask, char *record,
                              size_t length, char separator, uint64_t number, hri_prose *why) {
    looking l = {c, ask, number};
    return each_cell(c, record, length, separator, collect, &l, why);
}

static int by_text(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int by_number(const void *a, const void *b) {
    const long long x = strtoll(*(const char *const *)a, NULL, 10),
                    y = strtoll(*(const char *const *)b, NULL, 10);
    return (x > y) - (x < y);
}

static hr_status set_category(hri_tabular *t, hri_column *to, hri_columns_sums *s, int kind) {
    const size_t count = s->values.map.count;
    const char **list = hri_malloc((count ? count : 1) * sizeof *list);
    if (!list) {
        return HR_E_NOMEM_HOST;
    }
    size_t at = 0, n = 0;
    const char *text;
    uint64_t none;
    while (hri_strmap_next(&s->values, &at, &text, &none)) {
        list[n++] = text;
    }
    qsort(list, n, sizeof *list, s->texts || !s->whole ? by_text : by_number);
    const hr_status status = hri_column_set(t, to, s->name, kind, list, n);
    hri_free(list);
    return status;
}

static hr_status settle_one(hri_tabular *t, const hri_columns_ask *ask, uint32_t i,
                            hri_columns_sums *s, hri_prose *why) {
    const bool target = i >= t->input_count;
    hri_column *to = target ? &t->targets[i - t->input_count] : &t->inputs[i];
    const size_t values = s->values.map.count;
    const bool guessed = target && ask->task == HRI_COLUMNS_AUTO && !s->texts && !s->forced;
    hr_status status;
    if (s->text) {
        status = hri_column_set(t, to, s->name, ask->whole, NULL, 0);
    } else if (!s->category || (guessed && (s->too_many || values > HRI_TABULAR_CLASSES))) {
        status = hri_column_set(t, to, s->name, HRI_COLUMN_NUMBER, NULL, 0);
    } else if (s->too_many) {
        return hri_prose_set(why, HR_E_RANGE,
                             "%s: column \"%s\" has more than %d different values, too many for a "
                             "category; leave it out of %s",
                             ask->file, s->name, HRI_TABULAR_VALUES, target ? "y" : "x");
    } else if (!target && !s->as_ids && values > ONEHOT_MOST) {
        return hri_prose_set(why, HR_E_RANGE,
                             "%s: column \"%s\" has %zu different values, too many for an input "
                             "each; use ids=%s, or leave it out of x",
                             ask->file, s->name, values, s->name);
    } else {
        status = set_category(t, to, s,
                              target      ? HRI_COLUMN_CLASSES
                              : s->as_ids ? HRI_COLUMN_IDS
                                          : HRI_COLUMN_ONEHOT);
    }
    to->missing = s->missing;
    return status;
}

hr_status hri_columns_settle(hri_columns *c, const hri_columns_ask *ask, hri_prose *why) {
    const uint32_t targets = c->target_count;
    hri_tabular *t = NULL;
    hr_status status = hri_tabular_open(input_count(c) - targets, targets, &t);
    if (status == HR_OK && ask->key) {
        status = hri_tabular_set_key(t, ask->key);
    }
    for (uint32_t i = 0; i < c->sum_count && status == HR_OK; i++) {
        status = settle_one(t, ask, i, &c->sums[i], why);
    }
    status = status == HR_OK ? hri_tabular_settle(t) : status;
    if (status != HR_OK) {
        hri_tabular_close(t);
        return status;
    }
    c->table = c->own = t;
    return HR_OK;
}

/* ---- rows ---- */

typedef struct encoding {
    const hri_columns *c;
    hri_columns_row_out *out;
} encoding;

static hr_status encode(void *user, int32_t role, char *value, size_t n, hri_prose *why) {
    encoding *e = user;
    const hri_tabular *t = e->c->table;
    const size_t at = (size_t)role;
    char text[HRI_TABULAR_TEXT + 1];
    if (role == HRI_COLUMNS_WEIGHT) {
        return read_weight(value, n, &e->out->weight, why);
    }
    if (at == t->input_count + t->target_count) {
        e->out->key = value;
        e->out->key_bytes = n;
        return HR_OK;
    }
    const bool target = at >= t->input_count, missing = hri_cell_is_missing(value, n);
    const hri_column *c = target ? &t->targets[at - t->input_count] : &t->inputs[at];
    double real = (double)NAN;
    int64_t whole;
    if (c->kind == HRI_COLUMN_TEXT || c->kind == HRI_COLUMN_IMAGE) {
        e->out->text = value;
        e->out->text_bytes = n;
        return HR_OK;
    }
    if (c->kind == HRI_COLUMN_NUMBER) {
        const hri_cell_kind kind = missing ? HRI_CELL_REAL : hri_cell_read(value, n, &real, &whole);
        if (kind == HRI_CELL_TEXT || (!missing && !fits_f32(real))) {
            return hri_prose_set(why, HR_E_FORMAT, "\"%.*s\" in column \"%s\" is not a number",
                                 (int)(n < HRI_COLUMNS_SHOWN ? n : HRI_COLUMNS_SHOWN), value,
                                 c->name);
        }
        hri_column_encode(c, missing ? (double)NAN : real, NULL, target ? e->out->y : e->out->x);
        return HR_OK;
    }
    const bool known = !missing && value_text(value, n, text, sizeof text) == HR_OK;
    if (!target) {
        hri_column_encode(c, 0, known ? text : NULL, e->out->x);
        return HR_OK;
    }
    e->out->class_id = known ? hri_column_class(c, text) : -1;
    return missing || e->out->class_id >= 0
               ? HR_OK
               : hri_prose_set(why, HR_E_INVALID,
                               "\"%.*s\" in column \"%s\" is none of the %zu classes",
                               (int)(n < HRI_COLUMNS_SHOWN ? n : HRI_COLUMNS_SHOWN), value, c->name,
                               c->value_count);
}

hr_status hri_columns_row(const hri_columns *c, char *record, size_t length, char separator,
                          hri_columns_row_out *out, hri_prose *why) {
    encoding e = {c, out};
    out->class_id = -1;
    out->key = NULL;
    out->text = NULL;
    out->key_bytes = out->text_bytes = 0;
    out->weight = 1;
    const hr_status status = each_cell(c, record, length, separator, encode, &e, why);
    for (uint64_t i = 0; status == HR_OK && c->table->fitted && i < c->table->width; i++) {
        out->x[i] = isnan(out->x[i]) ? 0.0f : out->x[i]; /* the mean */
    }
    return status;
}

static hr_status take_cell(void *user, int32_t role, char *value, size_t n, hri_prose *why) {
    hri_columns_row_out *out = user;
    (void)why;
    if (role == 0) {
        out->text = value;
        out->text_bytes = n;
    }
    return HR_OK;
}

bool hri_columns_cell(const hri_columns *c, char *record, size_t length, char separator,
                      hri_columns_row_out *out) {
    hri_prose why = {""};
    return each_cell(c, record, length, separator, take_cell, out, &why) == HR_OK && out->text;
}

void hri_columns_deinit(hri_columns *c) {
    for (uint32_t i = 0; c->sums && i < c->sum_count; i++) {
        hri_free(c->sums[i].name);
        hri_strmap_deinit(&c->sums[i].values);
    }
    hri_free(c->sums);
    hri_free(c->roles);
    hri_tabular_close(c->own);
    *c = (hri_columns){0};
}
