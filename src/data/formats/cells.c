/* Cells; see cells.h. */
#include "data/formats/cells.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/number.h"

bool hri_cells_closed(const char *record, size_t length) {
    bool closed = true;
    for (size_t i = 0; i < length; i++) {
        closed ^= record[i] == '"';
    }
    return closed;
}

bool hri_cell_next(char **p, char *end, char separator, char **value, size_t *length) {
    if (*p > end) {
        return false;
    }
    char *at = *p, *to = *p;
    *value = to;
    if (at < end && *at == '"') {
        for (at++; at < end; at++) {
            if (*at == '"') {
                if (at + 1 < end && at[1] == '"') {
                    at++;
                } else {
                    at++;
                    break;
                }
            }
            *to++ = *at;
        }
        while (at < end && *at != separator) {
            *to++ = *at++;
        }
    } else {
        while (at < end && *at != separator) {
            at++;
        }
        to = at;
    }
    *length = (size_t)(to - *value);
    *p = at < end ? at + 1 : end + 1;
    return true;
}

hri_cell_kind hri_cell_read(const char *value, size_t length, double *real, int64_t *whole) {
    char text[64], *end;
    *real = (double)NAN;
    *whole = 0;
    if (length == 0) {
        return HRI_CELL_WHOLE;
    }
    if (length >= sizeof text) {
        return HRI_CELL_TEXT;
    }
    memcpy(text, value, length);
    text[length] = 0;
    errno = 0;
    *whole = strtoll(text, &end, 10);
    if (*end == 0 && errno == 0 && end != text) {
        *real = (double)*whole;
        return HRI_CELL_WHOLE;
    }
    if (strpbrk(text, "xX(")) { /* 0x1F is an id, and nan(1) nothing that anybody writes */
        return HRI_CELL_TEXT;
    }
    *real = hri_strtod(text, &end);
    while (*end == ' ') {
        end++;
    }
    return *end == 0 && end != text ? HRI_CELL_REAL : HRI_CELL_TEXT;
}

bool hri_cell_is_missing(const char *value, size_t length) {
    static const char *const words[] = {"NA",   "N/A",  "nan",  "NaN", "NAN",
                                        "null", "NULL", "None", "?"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strlen(words[i]) == length && memcmp(words[i], value, length) == 0) {
            return true;
        }
    }
    return length == 0;
}
