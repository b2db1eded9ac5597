/* One walk over the text: each character is copied or shown byte by byte. */
#include "base/visible.h"

#include <stdint.h>
#include <string.h>

/* The character at p and its code; 0: no UTF-8.  A NUL inside ends it, because it is no continuation. */
static size_t decode(const unsigned char *p, uint32_t *code) {
    static const struct {
        unsigned char mask, lead;
        uint32_t least;
    } forms[] = {{0x80, 0x00, 0}, {0xe0, 0xc0, 0x80}, {0xf0, 0xe0, 0x800}, {0xf8, 0xf0, 0x10000}};
    for (size_t n = 0; n < 4; n++) {
        if ((p[0] & forms[n].mask) != forms[n].lead) {
            continue;
        }
        uint32_t c = p[0] & (unsigned char)~forms[n].mask;
        for (size_t i = 1; i <= n; i++) {
            if ((p[i] & 0xc0) != 0x80) {
                return 0;
            }
            c = c << 6 | (p[i] & 0x3f);
        }
        *code = c;
        const int surrogate = c >= 0xd800 && c <= 0xdfff;
        return c < forms[n].least || c > 0x10ffff || surrogate ? 0 : n + 1;
    }
    return 0;
}

size_t hri_utf8_length(const char *p) {
    uint32_t code;
    return decode((const unsigned char *)p, &code);
}

size_t hri_utf8_valid(const char *text, size_t bytes) {
    size_t at = 0;
    while (at < bytes) {
        char last[5] = "";
        const size_t left = bytes - at;
        const char *p = left < 4 ? memcpy(last, text + at, left) : text + at;
        const size_t n = hri_utf8_length(p);
        if (n == 0 || n > left) {
            break;
        }
        at += n;
    }
    return at;
}

size_t hri_utf8_cut(const char *text, size_t bytes) {
    size_t end = bytes;
    for (int i = 0; i < 3 && end > 0 && ((unsigned char)text[end - 1] & 0xc0) == 0x80; i++) {
        end--;
    }
    return end > 0 && (unsigned char)text[end - 1] >= 0xc0 ? end - 1 : bytes;
}

static int prints(uint32_t code) {
    static const struct {
        uint32_t first, last;
    } hidden[] = {
        {0x00, 0x1f},       {0x7f, 0x9f},     /* C0, DEL, C1 */
        {0x61c, 0x61c},     {0x200e, 0x200f}, /* marks of direction */
        {0x2028, 0x202e}, /* ends of lines and paragraphs, embeddings, overrides */
        {0x2066, 0x2069}, /* isolates */
        {0xfeff, 0xfeff},   {0xfff9, 0xfffb}, /* byte order mark, annotations */
        {0xe0000, 0xe007f},                   /* tags */
    };
    for (size_t i = 0; i < sizeof hidden / sizeof hidden[0]; i++) {
        if (code >= hidden[i].first && code <= hidden[i].last) {
            return 0;
        }
    }
    return 1;
}

/* The character at p as it is shown, into `to`; *taken: bytes of it.  Returns how many were put. */
static size_t show(const char *p, int lines, char to[17], size_t *taken) {
    static const char digits[] = "0123456789abcdef";
    uint32_t code = 0;
    const size_t length = decode((const unsigned char *)p, &code);
    *taken = length ? length : 1;
    if (length && (prints(code) || (lines && code == '\n'))) {
        memcpy(to, p, length);
        return length;
    }
    for (size_t i = 0; i < *taken; i++) {
        const unsigned char byte = (unsigned char)p[i];
        const char shown[4] = {'\\', 'x', digits[byte >> 4], digits[byte & 15]};
        memcpy(to + 4 * i, shown, 4);
    }
    return 4 * *taken;
}

size_t hri_visible_next(const char *p, char to[17], size_t *taken) {
    return show(p, 0, to, taken);
}

static const char *copy(const char *text, int lines, char *buf, size_t size) {
    size_t used = 0, taken;
    char piece[17];
    for (const char *p = text; size && *p; p += taken) {
        const size_t put = show(p, lines, piece, &taken);
        if (used + put + 1 > size) {
            break;
        }
        memcpy(buf + used, piece, put);
        used += put;
    }
    if (size) {
        buf[used] = '\0';
    }
    return buf;
}

const char *hri_visible(const char *text, char *buf, size_t size) {
    return copy(text, 0, buf, size);
}

const char *hri_visible_lines(const char *text, char *buf, size_t size) {
    return copy(text, 1, buf, size);
}

size_t hri_visible_lines_need(const char *text) {
    size_t need = 1, taken, changed = 0;
    char piece[17];
    for (const char *p = text; *p; p += taken) {
        const size_t put = show(p, 1, piece, &taken);
        changed |= put != taken;
        need += put;
    }
    return changed ? need : 0;
}
