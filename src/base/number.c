/* See number.h. */
#include "base/number.h"

#include <langinfo.h>
#include <locale.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

/* Nearly always: then there is nothing to do. */
static bool has_point(void) {
    const char *point = nl_langinfo(RADIXCHAR);
    return point[0] == '.' && !point[1];
}

/* The C library keeps this object ready: no memory is taken, and none is freed. */
static locale_t plain(void) {
    return newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

double hri_strtod(const char *text, char **end) {
    const locale_t c = has_point() ? (locale_t)0 : plain();
    if (!c) {
        return strtod(text, end);
    }
    const double number = strtod_l(text, end, c);
    freelocale(c);
    return number;
}

int hri_vsnprintf(char *buf, size_t size, const char *format, va_list args) {
    const locale_t c = has_point() ? (locale_t)0 : plain();
    const locale_t before = c ? uselocale(c) : (locale_t)0;
    const int length = vsnprintf(buf, size, format, args);
    if (c) {
        uselocale(before);
        freelocale(c);
    }
    return length;
}

int hri_snprintf(char *buf, size_t size, const char *format, ...) {
    va_list args;
    va_start(args, format);
    const int length = hri_vsnprintf(buf, size, format, args);
    va_end(args);
    return length;
}
