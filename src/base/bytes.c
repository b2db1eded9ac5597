/* Byte sizes: text to an exact number of bytes and back.
 *
 * A number is read as decimal digits with a point somewhere, and is never a double: 0.1GiB and 1e-1GiB are
 * the same bytes, 18446744073709551615 is read exactly, and the locale has no say.
 *
 * The product of the number and its unit is taken digit by digit, whole part and fraction apart.  The fraction
 * goes from its last digit to its first: with m the unit, floor((d1*m + floor((d2*m + ...) / 10)) / 10) is the
 * exact floor of 0.d1d2...*m, since a floor inside of a floor of integers changes nothing.  So texts of any
 * length and any exponent cost no more than their length, and never lose a byte. */
#include "base/bytes_up.h"

#include <headroom/bytes.h>

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

__extension__ typedef unsigned __int128 u128;

/* Digits d[0] d[1] ... with the point in front of d[point]; point may lie outside of them. */
typedef struct decimal {
    const char *text; /* the digits, with one '.' among them perhaps */
    size_t dot;       /* its index, or SIZE_MAX */
    int64_t count;    /* of digits */
    int64_t point;
} decimal;

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static char lower(char c) {
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static const char *skip_spaces(const char *p) {
    return p + strspn(p, " \t");
}

static unsigned digit(const decimal *d, int64_t at) {
    if (at < 0 || at >= d->count) {
        return 0;
    }
    return (unsigned)(d->text[(size_t)at + ((size_t)at >= d->dot)] - '0');
}

/* Reads digits, point and exponent at *p and moves *p behind them. */
static bool read_decimal(const char **p, decimal *d) {
    const char *at = *p;
    *d = (decimal){.text = at, .dot = SIZE_MAX};
    for (; is_digit(*at) || (*at == '.' && d->dot == SIZE_MAX); at++) {
        if (*at == '.') {
            d->dot = (size_t)(at - d->text);
        } else {
            d->count++;
        }
    }
    if (d->count == 0) {
        return false;
    }
    d->point = d->dot == SIZE_MAX ? d->count : (int64_t)d->dot;
    if (lower(*at) == 'e') {
        at++;
        const bool minus = *at == '-';
        at += *at == '-' || *at == '+';
        if (!is_digit(*at)) {
            return false;
        }
        int64_t exponent = 0;
        for (; is_digit(*at); at++) {
            exponent = exponent < INT64_MAX / 100 ? exponent * 10 + (*at - '0') : exponent;
        }
        d->point += minus ? -exponent : exponent;
    }
    *p = at;
    return true;
}

/* floor(d * unit); false when that is over 64 bits. */
static bool multiply(const decimal *d, uint64_t unit, uint64_t *out) {
    u128 whole = 0;
    for (int64_t at = 0; at < d->point && (at < d->count || whole); at++) {
        whole = whole * 10 + digit(d, at);
        if (whole * unit > UINT64_MAX) {
            return false;
        }
    }
    u128 fraction = 0;
    int64_t at = d->count;
    while (at > d->point && (at > 0 || fraction)) {
        at--;
        fraction = ((u128)digit(d, at) * unit + fraction) / 10;
    }
    const u128 bytes = whole * unit + fraction;
    if (bytes > UINT64_MAX) {
        return false;
    }
    *out = (uint64_t)bytes;
    return true;
}

/* Whether d is above 100, exactly. */
static bool above_hundred(const decimal *d) {
    uint64_t whole;
    if (!multiply(d, 1, &whole) || whole > 100) {
        return true;
    }
    for (int64_t at = d->point < 0 ? 0 : d->point; at < d->count && whole == 100; at++) {
        if (digit(d, at)) {
            return true;
        }
    }
    return false;
}

/* The factor of a unit with or without spaces behind it; 0: not a unit. */
static uint64_t unit_of(const char *text) {
    static const char letters[] = "kmgtp";
    const char first = lower(*text);
    const char *letter = first ? strchr(letters, first) : NULL;
    const char *rest = letter ? text + 1 : text;
    unsigned base = 1024;
    if (letter && lower(rest[0]) == 'i' && lower(rest[1]) == 'b') {
        rest += 2;
    } else if (lower(rest[0]) == 'b') {
        base = 1000;
        rest++;
    }
    if (*skip_spaces(rest)) {
        return 0;
    }
    uint64_t factor = 1;
    for (const char *l = letters; letter && l <= letter; l++) {
        factor *= base;
    }
    return factor;
}

hr_status hr_bytes_parse(const char *text, uint64_t whole, uint64_t *out) {
    decimal d;
    if (!text || !out) {
        return HR_E_INVALID;
    }
    const char *p = skip_spaces(text);
    if (!read_decimal(&p, &d)) {
        return HR_E_INVALID;
    }
    p = skip_spaces(p);
    if (*p == '%') {
        if (whole == 0 || *skip_spaces(p + 1)) {
            return HR_E_INVALID;
        }
        if (above_hundred(&d)) {
            return HR_E_RANGE;
        }
        d.point -= 2;
        return multiply(&d, whole, out) ? HR_OK : HR_E_RANGE;
    }
    const uint64_t unit = unit_of(p);
    if (!unit) {
        return HR_E_INVALID;
    }
    return multiply(&d, unit, out) ? HR_OK : HR_E_RANGE;
}

/* bytes / unit * scale, rounded to the nearest or up. */
static uint64_t scaled(uint64_t bytes, uint64_t unit, unsigned scale, bool up) {
    return (uint64_t)(((u128)bytes * scale + (up ? unit - 1 : unit / 2)) / unit);
}

static const char *print(uint64_t bytes, bool up, char *buf, size_t size) {
    static const char *const names[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    enum { LAST = sizeof names / sizeof names[0] - 1 };
    int at = 0;
    uint64_t unit = 1;
    while (at < LAST && bytes / unit >= 1024) {
        unit *= 1024;
        at++;
    }
    /* 1023.9 KiB is 1.00 MiB: rounding must not bring a unit to 1024. */
    if (at < LAST && bytes % unit && scaled(bytes, unit, 1, up) >= 1024) {
        unit *= 1024;
        at++;
    }
    const unsigned long long hundredths = scaled(bytes, unit, 100, up),
                             tenths = scaled(bytes, unit, 10, up);
    if (bytes % unit == 0 || tenths >= 1000) {
        snprintf(buf, size, "%llu %s", (unsigned long long)scaled(bytes, unit, 1, up), names[at]);
    } else if (hundredths >= 1000) {
        snprintf(buf, size, "%llu.%llu %s", tenths / 10, tenths % 10, names[at]);
    } else {
        snprintf(buf, size, "%llu.%02llu %s", hundredths / 100, hundredths % 100, names[at]);
    }
    return buf;
}

const char *hr_bytes_print(uint64_t bytes, char *buf, size_t size) {
    return print(bytes, false, buf, size);
}

const char *hri_bytes_print_up(uint64_t bytes, char *buf, size_t size) {
    return print(bytes, true, buf, size);
}
