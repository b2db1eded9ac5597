/* Texts for any batch: N in place of numbers.
 *
 * A model builds graphs for one batch each.  Built for two batches, the texts differ in numbers alone, and each of these
 * is a line through two points, a N + b.  So nothing has to know which dimension of what is the batch. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "graph/text.h"

static int is_digit(char c) {
    return c >= '0' && c <= '9';
}

/* ---- one text of two ---- */

static hr_status unlike(size_t line, hri_prose *why) {
    return hri_prose_set(why, HR_E_UNSUPPORTED,
                         "line %zu: its size is not proportional to the batch", line);
}

/* The integer that begins at text[at]; *end is behind it.  0: there is none, or it is part of another number or word. */
static int integer_at(const hri_chars *text, size_t at, int64_t *out, size_t *end) {
    const char before = at ? text->items[at - 1] : ' ';
    char digits[24];
    size_t n = 0;
    while (at + n < text->count && is_digit(text->items[at + n]) && n < sizeof digits - 1) {
        digits[n] = text->items[at + n];
        n++;
    }
    const char after = at + n < text->count ? text->items[at + n] : '\n';
    if (!n || n > 18 || !strchr(" =x,[", before) || !strchr(" x,]}\n", after)) {
        return 0;
    }
    digits[n] = '\0';
    *out = strtoll(digits, NULL, 10);
    *end = at + n;
    return 1;
}

static hr_status append_line(int64_t a, int64_t b, hri_chars *out) {
    char text[64];
    const int n = a == 1 ? snprintf(text, sizeof text, "N")
                         : snprintf(text, sizeof text, "%lldN", (long long)a);
    const int m = b ? snprintf(text + n, sizeof text - (size_t)n, "%+lld", (long long)b) : 0;
    return hri_chars_append(out, text, (size_t)(n + m));
}

hr_status hri_graph_text_join(const hri_chars *first, int64_t first_batch, const hri_chars *second,
                              int64_t second_batch, hri_chars *out, hri_prose *why) {
    const int64_t apart = second_batch - first_batch;
    size_t i = 0, k = 0, line = 1;
    hr_status status = HR_OK;
    while (status == HR_OK && i < first->count && k < second->count) {
        if (first->items[i] == second->items[k]) {
            line += first->items[i] == '\n';
            status = hri_chars_push(out, first->items[i]);
            i++;
            k++;
            continue;
        }
        while (i && k && is_digit(first->items[i - 1])) { /* back to where the number begins */
            i--;
            k--;
            out->count--;
        }
        int64_t a, b;
        if (!integer_at(first, i, &a, &i) || !integer_at(second, k, &b, &k) || (b - a) % apart ||
            (b - a) / apart <= 0) {
            return unlike(line, why);
        }
        const int64_t slope = (b - a) / apart;
        status = append_line(slope, a - slope * first_batch, out);
    }
    if (status == HR_OK && (i < first->count || k < second->count)) {
        return unlike(line, why);
    }
    return status;
}

/* ---- plain lines ---- */

/* "4N+1" at from[at]: 1, with the number that it is for this batch and its end. */
static int term_at(const char *from, size_t bytes, size_t at, int64_t batch, int64_t *out,
                   size_t *end) {
    int64_t a = 0, b = 0;
    size_t p = at;
    while (p < bytes && is_digit(from[p]) && p - at < 12) {
        a = a * 10 + (from[p++] - '0');
    }
    a = p == at ? 1 : a;
    if (p >= bytes || from[p] != 'N') {
        return 0;
    }
    p++;
    if (p + 1 < bytes && (from[p] == '+' || from[p] == '-') && is_digit(from[p + 1])) {
        const int minus = from[p++] == '-';
        const size_t begin = p;
        while (p < bytes && is_digit(from[p]) && p - begin < 12) {
            b = b * 10 + (from[p++] - '0');
        }
        b = minus ? -b : b;
    }
    int64_t product;
    if (__builtin_mul_overflow(a, batch, &product) || __builtin_add_overflow(product, b, out)) {
        return 0;
    }
    *end = p;
    return 1;
}

/* One line without its end into t->copy. */
static hr_status expand(hri_graph_text *t, const char *from, size_t bytes, int64_t batch,
                        hri_prose *why) {
    int quoted = 0;
    hr_status status = HR_OK;
    hri_chars_clear(&t->copy);
    for (size_t i = 0; i < bytes && status == HR_OK;) {
        const char c = from[i], before = i ? from[i - 1] : ' ';
        int64_t number;
        size_t end;
        if (!c) {
            return hri_prose_set(why, HR_E_FORMAT, "line %zu: contains a NUL", t->line);
        }
        if (!quoted && (c == 'N' || is_digit(c)) && strchr(" =x,[", before) &&
            term_at(from, bytes, i, batch, &number, &end)) {
            char text[24];
            if (batch <= 0) {
                return hri_prose_set(why, HR_E_FORMAT, "line %zu: N is used without a batch",
                                     t->line);
            }
            const int n = snprintf(text, sizeof text, "%lld", (long long)number);
            status = hri_chars_append(&t->copy, text, (size_t)n);
            i = end;
            continue;
        }
        if (quoted && c == '\\' && i + 1 < bytes) { /* an escaped quote does not end it */
            status = hri_chars_push(&t->copy, c);
            i++;
        } else {
            quoted ^= c == '"';
        }
        status = status == HR_OK ? hri_chars_push(&t->copy, from[i]) : status;
        i++;
    }
    if (status == HR_OK) {
        status = hri_chars_push(&t->copy, '\0');
    }
    return status;
}

hr_status hri_graph_text_next(hri_graph_text *t, int64_t batch, hri_prose *why) {
    while (t->at < t->end) {
        const char *from = t->at;
        const char *newline = memchr(from, '\n', (size_t)(t->end - from));
        size_t bytes = (size_t)((newline ? newline : t->end) - from);
        t->at = newline ? newline + 1 : t->end;
        t->line++;
        if (bytes && from[bytes - 1] == '\r') {
            bytes--;
        }
        if (bytes > HRI_GRAPH_TEXT_LINE) {
            return hri_prose_set(why, HR_E_FORMAT, "line %zu: %zu bytes is too long for a line",
                                 t->line, bytes);
        }
        if (bytes && from[0] != '#') {
            return expand(t, from, bytes, batch, why);
        }
    }
    return HR_E_EOF;
}
