/* See tablefile.h. */
#include "data/formats/tablefile.h"

#include <string.h>

#include "base/alloc.h"
#include "base/visible.h"

static hr_status add_name(hri_tablefile *t, const char *value, size_t n) {
    char **grown = hri_realloc(t->names, (t->count + 1) * sizeof *grown);
    if (!grown) {
        return HR_E_NOMEM_HOST;
    }
    t->names = grown;
    t->names[t->count] = hri_malloc(n + 1);
    if (!t->names[t->count]) {
        return HR_E_NOMEM_HOST;
    }
    memcpy(t->names[t->count], value, n);
    t->names[t->count++][n] = '\0';
    return HR_OK;
}

/* The names of all columns, which are as many as there are. */
static hr_status take_names(hri_tablefile *t, char *record, uint64_t length, hri_prose *why) {
    char *p = record, *value;
    size_t n;
    hr_status status = HR_OK;
    const char *file = t->records->files.files[0].path;
    if (length >= 2 && (memcmp(record, "\xff\xfe", 2) == 0 || memcmp(record, "\xfe\xff", 2) == 0)) {
        return hri_prose_set(why, HR_E_FORMAT, "%s is UTF-16; convert it to UTF-8", file);
    }
    if (length >= 2 && memcmp(record, "\x1f\x8b", 2) == 0) {
        return hri_prose_set(why, HR_E_FORMAT, "%s is compressed; gunzip it", file);
    }
    const char *cr = length ? memchr(record, '\r', length - 1) : NULL;
    if (cr && cr[1] != '\n' && !memchr(record, '"', (size_t)(cr - record))) {
        return hri_prose_set(why, HR_E_FORMAT,
                             "%s: its lines end in CR alone; convert it: tr '\\r' '\\n'", file);
    }
    if (length >= 3 && memcmp(record, "\xef\xbb\xbf", 3) == 0) {
        p += 3; /* the mark that some programs put before UTF-8 */
    }
    while (status == HR_OK && hri_cell_next(&p, record + length, t->separator, &value, &n)) {
        while (n && value[n - 1] == ' ') {
            n--;
        }
        while (n && *value == ' ') {
            value++;
            n--;
        }
        if (n > HRI_TABULAR_TEXT || t->count == HRI_TABULAR_COLUMNS) {
            return hri_prose_set(why, HR_E_FORMAT,
                                 "%s: more than %d columns, or a longer name than "
                                 "%d bytes",
                                 file, HRI_TABULAR_COLUMNS, HRI_TABULAR_TEXT);
        }
        status = add_name(t, value, n);
        if (status == HR_OK && !hri_columns_is_utf8(t->names[t->count - 1])) {
            return hri_prose_set(
                why, HR_E_FORMAT,
                "%s: the name of column %u, \"%s\", is not UTF-8; convert the file", file, t->count,
                t->names[t->count - 1]);
        }
    }
    return status;
}

enum pass { PASS_NAMES, PASS_LOOK, PASS_COLLECT };

/* Every record that is no header, or the first header alone. */
static hr_status pass_over(hri_tablefile *t, const hri_columns_ask *ask, enum pass pass,
                           char *record, hri_prose *why) {
    hri_cursor at = {0}, from;
    uint64_t length, number = 0;
    hr_status status = HR_OK;
    while (status == HR_OK) {
        status = hri_records_next(t->records, &at, &from, &length, why);
        if (status != HR_OK || length == 0 || (pass != PASS_NAMES && from.offset == 0)) {
            continue;
        }
        const hri_file *file = &t->records->files.files[from.file];
        number++;
        if (length > t->max_bytes) {
            return hri_prose_set(why, HR_E_FORMAT, "%s, record %llu: longer than max_bytes",
                                 file->path, (unsigned long long)number);
        }
        status = hri_filelist_read(file, from.offset, record, length, why);
        if (status == HR_OK && pass == PASS_NAMES) {
            return take_names(t, record, length, why);
        }
        if (status == HR_OK) {
            status = pass == PASS_LOOK ? hri_columns_look(&t->columns, ask, record, length,
                                                          t->separator, number, why)
                                       : hri_columns_collect(&t->columns, ask, record, length,
                                                             t->separator, number, why);
        }
    }
    return status == HR_E_EOF ? HR_OK : status;
}

hr_status hri_tablefile_learn(hri_tablefile *t, const hri_columns_ask *ask,
                              const hri_tabular *given, char *record, hri_prose *why) {
    hr_status status = pass_over(t, ask, PASS_NAMES, record, why);
    if (status == HR_OK && t->count == 0) {
        status = hri_prose_set(why, HR_E_FORMAT, "%s: the file is empty", ask->file);
    }
    if (status == HR_OK) {
        status = hri_columns_find(&t->columns, t->names, t->count, ask, given, why);
    }
    if (status != HR_OK || given) {
        return status;
    }
    status = pass_over(t, ask, PASS_LOOK, record, why);
    status = status == HR_OK ? hri_columns_kinds(&t->columns, ask, why) : status;
    status = status == HR_OK ? pass_over(t, ask, PASS_COLLECT, record, why) : status;
    return status == HR_OK ? hri_columns_settle(&t->columns, ask, why) : status;
}

void hri_tablefile_deinit(hri_tablefile *t) {
    hri_columns_deinit(&t->columns);
    for (uint32_t i = 0; t->names && i < t->count; i++) {
        hri_free(t->names[i]);
    }
    hri_free(t->names);
    *t = (hri_tablefile){0};
}
