/* See typed.h. */
#include "data/formats/typed.h"

#include <stdio.h>
#include <string.h>

#include "data/formats/cells.h"

enum { LOOK = 1000 };

/* Names from the first record. */
static hr_status take_names(hri_typed *t, const hri_typed_ask *ask, char *record, uint64_t length,
                            hri_prose *why) {
    char *p = record, *value;
    size_t n;
    if (ask->header && length >= 3 && memcmp(record, "\xef\xbb\xbf", 3) == 0) {
        p += 3; /* the mark that some programs put before UTF-8 */
    }
    while (hri_cell_next(&p, record + length, t->separator, &value, &n)) {
        if (t->count == HR_FIELD_MAX) {
            return hri_prose_set(why, HR_E_FORMAT, "%s: more than %d columns",
                                 ask->records->files.files[0].path, HR_FIELD_MAX);
        }
        hri_typed_column *c = &t->columns[t->count];
        if (ask->header && n > 0) {
            snprintf(c->name, sizeof c->name, "%.*s", (int)(n < 31 ? n : 31), value);
        } else {
            snprintf(c->name, sizeof c->name, "c%u", t->count);
        }
        c->type = HR_TYPE_I64;
        t->count++;
    }
    return HR_OK;
}

/* The types that the user gives, once the names are known. */
static hr_status take_types(hri_typed *t, const hri_list *types, hri_prose *why) {
    static const struct {
        const char *name;
        hr_type type;
    } known[] = {{"i64", HR_TYPE_I64}, {"f32", HR_TYPE_F32}, {"text", HR_TYPE_U8}};
    for (size_t i = 0; i < types->count; i++) {
        const char *text = types->items[i], *colon = strrchr(text, ':');
        const size_t n = colon ? (size_t)(colon - text) : 0;
        size_t k = 0;
        uint32_t c = 0;
        while (colon && k < 3 && strcmp(colon + 1, known[k].name) != 0) {
            k++;
        }
        if (!colon || k == 3) {
            return hri_prose_set(why, HR_E_INVALID, "types: \"%s\" is not NAME:i64, :f32 or :text",
                                 text);
        }
        while (c < t->count &&
               (strlen(t->columns[c].name) != n || memcmp(t->columns[c].name, text, n) != 0)) {
            c++;
        }
        if (c == t->count) {
            return hri_prose_set(why, HR_E_NOT_FOUND, "types: unknown column \"%.*s\"", (int)n,
                                 text);
        }
        t->columns[c].type = known[k].type;
        t->columns[c].given = true;
    }
    return HR_OK;
}

static void widen(hri_typed *t, char *record, uint64_t length) {
    char *p = record, *value;
    size_t n;
    for (uint32_t i = 0;
         i < t->count && hri_cell_next(&p, record + length, t->separator, &value, &n); i++) {
        double real;
        int64_t whole;
        const int kind = hri_cell_read(value, n, &real, &whole);
        hr_type *type = &t->columns[i].type;
        if (t->columns[i].given) {
            continue;
        }
        if (kind == 2) {
            *type = HR_TYPE_U8;
        } else if (kind == 1 && *type == HR_TYPE_I64) {
            *type = HR_TYPE_F32;
        }
    }
}

static hr_status read_record(const hri_typed_ask *ask, hri_cursor from, uint64_t length, char *to,
                             hri_prose *why) {
    return hri_filelist_read(&ask->records->files.files[from.file], from.offset, to, length, why);
}

/* Names and types given, of the first record. */
static hr_status take_first(hri_typed *t, const hri_typed_ask *ask, hri_cursor from,
                            uint64_t length, char *record, hri_prose *why) {
    if (ask->header && from.offset > 0) {
        return hri_prose_set(
            why, HR_E_FORMAT,
            "%s: the first record should have the column names, but is empty or too long",
            ask->records->files.files[from.file].path);
    }
    hr_status status = take_names(t, ask, record, length, why);
    if (status == HR_OK) {
        status = take_types(t, ask->types, why);
    }
    return status == HR_OK && !ask->header
               ? read_record(ask, from, length, record, why) /* unquoting changed it */
               : status;
}

hr_status hri_typed_learn(hri_typed *t, const hri_typed_ask *ask, char *record, hri_prose *why) {
    hr_status status = HR_OK;
    hri_cursor at = {0}, from;
    uint64_t length;
    for (int i = 0; status == HR_OK && i < LOOK; i++) {
        status = hri_records_next(ask->records, &at, &from, &length, why);
        if (status == HR_OK && (length == 0 || length > ask->max_bytes)) {
            continue;
        }
        if (status == HR_OK) {
            status = read_record(ask, from, length, record, why);
        }
        if (status == HR_OK && t->count == 0) {
            status = take_first(t, ask, from, length, record, why);
        }
        if (status == HR_OK && !(ask->header && from.offset == 0)) {
            widen(t, record, length);
        }
    }
    status = status == HR_E_EOF ? HR_OK : status;
    return status == HR_OK && t->count == 0
               ? hri_prose_set(why, HR_E_FORMAT, "%s: the file is empty",
                               ask->records->files.files[0].path)
               : status;
}

static hr_status emit_value(hr_emit *emit, const hri_typed_column *c, const char *value, size_t n) {
    double real;
    int64_t whole;
    void *data;
    hr_meta m = {.type = c->type};
    const int kind =
        c->type == HR_TYPE_U8 ? HRI_CELL_TEXT : (int)hri_cell_read(value, n, &real, &whole);
    if (c->type != HR_TYPE_U8 && (kind == 2 || (kind == 1 && c->type == HR_TYPE_I64))) {
        return hri_emit_fail(emit, HR_E_FORMAT, "\"%.*s\" is not a valid %s for column \"%s\"",
                             (int)(n < 40 ? n : 40), value,
                             c->type == HR_TYPE_I64 ? "integer" : "number", c->name);
    }
    if (c->type == HR_TYPE_U8) {
        m.shape = (hr_shape){.rank = 1, .dim = {(int64_t)n}};
    }
    const hr_status status = hr_emit_field(emit, c->name, &m, &data);
    if (status != HR_OK) {
        return status;
    }
    if (c->type == HR_TYPE_U8) {
        memcpy(data, value, n);
    } else if (c->type == HR_TYPE_F32) {
        *(float *)data = (float)real;
    } else {
        *(int64_t *)data = whole;
    }
    return HR_OK;
}

hr_status hri_typed_emit(const hri_typed *t, char *record, uint64_t length, hr_emit *emit) {
    char *p = record, *end = p + length, *value;
    size_t n;
    uint32_t i = 0;
    hr_status status =
        hri_cells_closed(record, length) ? HR_OK : hri_emit_fail(emit, HR_E_FORMAT, HRI_CELLS_OPEN);
    for (; status == HR_OK && i < t->count && hri_cell_next(&p, end, t->separator, &value, &n);
         i++) {
        status = emit_value(emit, &t->columns[i], value, n);
    }
    return status == HR_OK && (i < t->count || p <= end)
               ? hri_emit_fail(emit, HR_E_FORMAT, "%s than %u values",
                               i < t->count ? "fewer" : "more", t->count)
               : status;
}
