/* The reader of json_stream.h: a byte at a time out of a window, with a stack of brackets in one number. */
#include "base/json_stream.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "base/number.h"
#include "base/visible.h"

enum { WINDOW = 4096, NUMBER = 128, END = -1 };

/* Bytes of one text, as many as are kept. */
typedef struct text {
    char *at;
    size_t used, room, most;
} text;

struct hri_json_stream {
    hri_json_stream_options o;
    uint64_t objects;  /* bit d: what is open at depth d + 1 is an object */
    unsigned depth;    /* open brackets */
    int started, over; /* the root has begun; it has ended */
    int first;         /* no member of the innermost bracket has been read */
    int ended;         /* the source has */
    uint64_t taken;    /* bytes of the document, those in the window too */
    unsigned line, column;
    text key, value;
    size_t at, used;
    unsigned char window[WINDOW];
};

hr_status hri_json_stream_open(const hri_json_stream_options *o, hri_json_stream **out,
                               hri_prose *why) {
    hri_json_stream *s = hri_calloc(1, sizeof *s);
    if (!s) {
        return hri_prose_set(why, HR_E_NOMEM_HOST, "out of memory while reading JSON");
    }
    s->o = *o;
    s->o.max_bytes = o->max_bytes ? o->max_bytes : UINT64_C(64) << 20;
    s->o.max_depth = o->max_depth ? o->max_depth : 32;
    s->o.max_depth = s->o.max_depth < 64 ? s->o.max_depth : 64;
    s->key.most = o->max_key ? o->max_key : 1024;
    s->value.most = o->max_text ? o->max_text : 4096;
    s->line = 1;
    *out = s;
    return HR_OK;
}

void hri_json_stream_close(hri_json_stream *s) {
    if (s) {
        hri_free(s->key.at);
        hri_free(s->value.at);
        hri_free(s);
    }
}

/* ---- bytes ---- */

static hr_status wrong(const hri_json_stream *s, hri_prose *why, const char *what) {
    return hri_prose_set(why, HR_E_FORMAT, "line %u, column %u: %s", s->line, s->column, what);
}

static hr_status fill(hri_json_stream *s, hri_prose *why) {
    size_t got = 0;
    const hr_status status = s->o.read(s->o.user, s->window, WINDOW, &got, why);
    if (status != HR_OK) {
        return status;
    }
    s->at = 0;
    s->used = got;
    s->taken += got;
    s->ended = got == 0;
    return s->taken <= s->o.max_bytes
               ? HR_OK
               : hri_prose_set(why, HR_E_RANGE, "longer than the allowed %llu bytes",
                               (unsigned long long)s->o.max_bytes);
}

/* The next byte, or END, without taking it. */
static hr_status peek(hri_json_stream *s, int *out, hri_prose *why) {
    if (s->at == s->used && !s->ended) {
        const hr_status status = fill(s, why);
        if (status != HR_OK) {
            return status;
        }
    }
    *out = s->at < s->used ? s->window[s->at] : END;
    return HR_OK;
}

static void take(hri_json_stream *s) {
    const int newline = s->window[s->at++] == '\n';
    s->line += newline ? 1 : 0;
    s->column = newline ? 0 : s->column + 1;
}

static hr_status next_byte(hri_json_stream *s, int *out, hri_prose *why) {
    const hr_status status = peek(s, out, why);
    if (status == HR_OK && *out != END) {
        take(s);
    }
    return status;
}

static hr_status past_spaces(hri_json_stream *s, int *out, hri_prose *why) {
    hr_status status;
    while ((status = peek(s, out, why)) == HR_OK &&
           (*out == ' ' || *out == '\t' || *out == '\n' || *out == '\r')) {
        take(s);
    }
    return status;
}

/* ---- strings ---- */

/* Keeps them while there is room; 0: no memory. */
static int keep(text *t, const char *bytes, size_t count, int *cut) {
    if (*cut || count > t->most - t->used) {
        *cut = 1;
        return 1;
    }
    if (t->used + count + 1 > t->room) {
        size_t room = t->room ? t->room * 2 : 64;
        room = room < t->used + count + 1 ? t->used + count + 1 : room;
        room = room > t->most + 1 ? t->most + 1 : room;
        char *more = hri_realloc(t->at, room);
        if (!more) {
            return 0;
        }
        t->at = more;
        t->room = room;
    }
    memcpy(t->at + t->used, bytes, count);
    t->used += count;
    return 1;
}

static hr_status read_hex(hri_json_stream *s, uint32_t *out, hri_prose *why) {
    uint32_t x = 0;
    for (int i = 0; i < 4; i++) {
        int c;
        const hr_status status = next_byte(s, &c, why);
        if (status != HR_OK) {
            return status;
        }
        const int digit = c >= '0' && c <= '9'   ? c - '0'
                          : c >= 'a' && c <= 'f' ? c - 'a' + 10
                          : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                                 : -1;
        if (digit < 0) {
            return wrong(s, why, "\\u must be followed by four hexadecimal digits");
        }
        x = x << 4 | (uint32_t)digit;
    }
    *out = x;
    return HR_OK;
}

/* What stands behind "\u": one number, or the two halves of a pair. */
static hr_status read_unicode(hri_json_stream *s, uint32_t *out, hri_prose *why) {
    uint32_t high = 0, low = 0;
    int a = 0, b = 0;
    hr_status status = read_hex(s, &high, why);
    *out = high;
    if (status != HR_OK || high < 0xd800 || high > 0xdfff) {
        return status;
    }
    status = high < 0xdc00 ? next_byte(s, &a, why) : HR_OK;
    if (status == HR_OK && a == '\\') {
        status = next_byte(s, &b, why);
    }
    if (status == HR_OK && b == 'u') {
        status = read_hex(s, &low, why);
    }
    if (status != HR_OK) {
        return status;
    }
    if (low < 0xdc00 || low > 0xdfff) {
        return wrong(s, why, "unpaired surrogate");
    }
    *out = 0x10000 + ((high - 0xd800) << 10 | (low - 0xdc00));
    return HR_OK;
}

static size_t encode(uint32_t code, char out[4]) {
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    const size_t n = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = n - 1; i > 0; i--, code >>= 6) {
        out[i] = (char)(0x80 | (code & 0x3f));
    }
    out[0] = (char)((n == 2 ? 0xc0u : n == 3 ? 0xe0u : 0xf0u) | code);
    return n;
}

static hr_status read_escape(hri_json_stream *s, char out[4], size_t *count, int *nul,
                             hri_prose *why) {
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    int c;
    hr_status status = next_byte(s, &c, why);
    if (status != HR_OK) {
        return status;
    }
    const char *known = c > 0 ? strchr(from, c) : NULL;
    if (known) {
        out[0] = to[known - from];
        *count = 1;
        return HR_OK;
    }
    if (c != 'u') {
        return wrong(s, why, "invalid escape sequence");
    }
    uint32_t code;
    status = read_unicode(s, &code, why);
    if (status == HR_OK) {
        *nul |= code == 0;
        *count = encode(code, out);
    }
    return status;
}

/* The UTF-8 character that begins with c, whole. */
static hr_status read_character(hri_json_stream *s, int c, char out[5], size_t *count,
                                hri_prose *why) {
    const size_t n = c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
    memset(out, 0, 5);
    out[0] = (char)c;
    for (size_t i = 1; i < n; i++) {
        const hr_status status = peek(s, &c, why);
        if (status != HR_OK) {
            return status;
        }
        if (c == END || (c & 0xc0) != 0x80) {
            return wrong(s, why, "string is not valid UTF-8");
        }
        out[i] = (char)c;
        take(s);
    }
    *count = n;
    return hri_utf8_length(out) == n ? HR_OK : wrong(s, why, "string is not valid UTF-8");
}

/* Behind the opening quote, to the closing one. */
static hr_status read_string(hri_json_stream *s, text *t, int *cut, int *nul, hri_prose *why) {
    t->used = 0;
    *cut = *nul = 0;
    for (;;) {
        char piece[5];
        size_t count = 0;
        int c;
        hr_status status = next_byte(s, &c, why);
        if (status != HR_OK) {
            return status;
        }
        if (c == '"') {
            int never = 0;
            t->most++; /* the NUL's own place */
            const int kept = keep(t, "", 1, &never);
            t->most--;
            t->used--;
            return kept ? HR_OK
                        : hri_prose_set(why, HR_E_NOMEM_HOST, "out of memory while reading JSON");
        }
        if (c == END) {
            return wrong(s, why, "the document ends inside a string");
        }
        if (c < 0x20) {
            return wrong(s, why, "control character inside a string");
        }
        status = c == '\\' ? read_escape(s, piece, &count, nul, why)
                           : read_character(s, c, piece, &count, why);
        if (status != HR_OK) {
            return status;
        }
        if (!keep(t, piece, count, cut)) {
            return hri_prose_set(why, HR_E_NOMEM_HOST, "out of memory while reading JSON");
        }
    }
}

/* ---- numbers and words ---- */

/* Is it a number of JSON?  *whole: without a fraction and an exponent. */
static int is_number(const char *p, int *whole) {
    p += *p == '-';
    if (*p == '0') {
        p++;
    } else if (*p >= '1' && *p <= '9') {
        p += strspn(p, "0123456789");
    } else {
        return 0;
    }
    *whole = !*p;
    if (*p == '.') {
        const size_t n = strspn(p + 1, "0123456789");
        p += n + 1;
        if (!n) {
            return 0;
        }
    }
    if (*p == 'e' || *p == 'E') {
        p++;
        p += *p == '+' || *p == '-';
        const size_t n = strspn(p, "0123456789");
        p += n;
        if (!n) {
            return 0;
        }
    }
    return !*p;
}

static hr_status read_number(hri_json_stream *s, hri_json_token *out, hri_prose *why) {
    char number[NUMBER];
    size_t used = 0;
    int c, whole = 0;
    hr_status status;
    while ((status = peek(s, &c, why)) == HR_OK && c > 0 && strchr("+-.0123456789eE", c)) {
        if (used + 1 == sizeof number) {
            return wrong(s, why, "number longer than 127 characters");
        }
        number[used++] = (char)c;
        take(s);
    }
    number[used] = '\0';
    if (status != HR_OK) {
        return status;
    }
    if (!is_number(number, &whole)) {
        return wrong(s, why, "not a number");
    }
    errno = 0;
    out->kind = whole ? HRI_JSON_INTEGER : HRI_JSON_REAL;
    out->integer = whole ? strtoll(number, NULL, 10) : 0;
    if (whole && errno) {
        return wrong(s, why, "integer does not fit in 64 bits");
    }
    out->real = whole ? (double)out->integer : hri_strtod(number, NULL);
    return isfinite(out->real) ? HR_OK : wrong(s, why, "number out of range for a double");
}

static hr_status read_word(hri_json_stream *s, hri_json_token *out, hri_prose *why) {
    static const struct {
        const char *word;
        hri_json_kind kind;
        int value;
    } words[] = {
        {"true", HRI_JSON_BOOL, 1}, {"false", HRI_JSON_BOOL, 0}, {"null", HRI_JSON_NULL, 0}};
    char word[8];
    size_t used = 0;
    int c;
    hr_status status;
    while ((status = peek(s, &c, why)) == HR_OK && c >= 'a' && c <= 'z' && used + 1 < sizeof word) {
        word[used++] = (char)c;
        take(s);
    }
    word[used] = '\0';
    for (size_t i = 0; status == HR_OK && i < sizeof words / sizeof words[0]; i++) {
        if (!strcmp(word, words[i].word)) {
            out->kind = words[i].kind;
            out->integer = words[i].value;
            return HR_OK;
        }
    }
    return status == HR_OK ? wrong(s, why, "missing value") : status;
}

/* ---- structure ---- */

static int in_object(const hri_json_stream *s) {
    return s->depth && (s->objects >> (s->depth - 1) & 1);
}

static hr_status open_bracket(hri_json_stream *s, hri_json_token *out, int object, hri_prose *why) {
    if (s->depth == s->o.max_depth) {
        return hri_prose_set(why, HR_E_RANGE, "line %u: nested deeper than %u levels", s->line,
                             s->o.max_depth);
    }
    const uint64_t bit = UINT64_C(1) << s->depth;
    s->objects = object ? s->objects | bit : s->objects & ~bit;
    s->depth++;
    s->first = 1;
    out->kind = object ? HRI_JSON_OBJECT : HRI_JSON_ARRAY;
    return HR_OK;
}

/* "key":, and the first byte of the value behind it through *c. */
static hr_status read_key(hri_json_stream *s, hri_json_token *out, int *c, hri_prose *why) {
    int cut = 0, nul = 0;
    if (*c != '"') {
        return wrong(s, why, "missing member name");
    }
    take(s);
    hr_status status = read_string(s, &s->key, &cut, &nul, why);
    if (status == HR_OK && cut) {
        status = hri_prose_set(why, HR_E_RANGE, "line %u: name longer than %zu bytes", s->line,
                               s->key.most);
    } else if (status == HR_OK && nul) {
        status = wrong(s, why, "name contains \\u0000");
    }
    if (status == HR_OK) {
        status = past_spaces(s, c, why);
    }
    if (status == HR_OK && *c != ':') {
        status = wrong(s, why, "':' is missing after a name");
    }
    if (status != HR_OK) {
        return status;
    }
    take(s);
    out->key = s->key.at;
    return past_spaces(s, c, why);
}

static hr_status read_value(hri_json_stream *s, hri_json_token *out, int c, hri_prose *why) {
    out->depth = s->depth;
    s->started = 1;
    s->first = 0;
    if (c == '{' || c == '[') {
        take(s);
        return open_bracket(s, out, c == '{', why);
    }
    if (c == '"') {
        take(s);
        const hr_status status = read_string(s, &s->value, &out->cut, &out->nul, why);
        out->kind = HRI_JSON_STRING;
        out->text = s->value.at;
        out->bytes = s->value.used;
        return status;
    }
    return c == '-' || (c >= '0' && c <= '9') ? read_number(s, out, why) : read_word(s, out, why);
}

hr_status hri_json_stream_next(hri_json_stream *s, hri_json_token *out, hri_prose *why) {
    hri_json_token t = {.key = "", .text = ""};
    int c;
    hr_status status = past_spaces(s, &c, why);
    if (status != HR_OK) {
        return status;
    }
    if (!s->depth && s->started) {
        t.kind = HRI_JSON_OVER;
        status = c == END ? HR_OK : wrong(s, why, "unexpected text after the value");
    } else if (s->depth && c == (in_object(s) ? '}' : ']')) {
        take(s);
        t.kind = in_object(s) ? HRI_JSON_OBJECT_END : HRI_JSON_ARRAY_END;
        s->depth--;
        s->first = 0;
        t.depth = s->depth;
    } else {
        if (s->depth && !s->first) {
            if (c != ',') {
                return wrong(s, why, c == END ? "the document ends too early" : "',' is missing");
            }
            take(s);
            status = past_spaces(s, &c, why);
        }
        if (status == HR_OK && in_object(s)) {
            status = read_key(s, &t, &c, why);
        }
        if (status == HR_OK && c == END) {
            status = wrong(s, why, "the document ends too early");
        }
        if (status == HR_OK) {
            status = read_value(s, &t, c, why);
        }
    }
    if (status == HR_OK) {
        *out = t;
    }
    return status;
}

hr_status hri_json_stream_skip(hri_json_stream *s, const hri_json_token *t, hri_prose *why) {
    if (t->kind != HRI_JSON_OBJECT && t->kind != HRI_JSON_ARRAY) {
        return HR_OK;
    }
    const unsigned depth = t->depth;
    hri_json_token inner;
    hr_status status;
    while ((status = hri_json_stream_next(s, &inner, why)) == HR_OK && s->depth > depth) {
    }
    return status;
}

/* ---- sources ---- */

hr_status hri_json_read_memory(void *user, void *to, size_t room, size_t *got, hri_prose *why) {
    hri_json_memory *m = user;
    (void)why;
    *got = m->bytes - m->at < room ? m->bytes - m->at : room;
    if (*got) {
        memcpy(to, m->text + m->at, *got);
    }
    m->at += *got;
    return HR_OK;
}

hr_status hri_json_read_file(void *user, void *to, size_t room, size_t *got, hri_prose *why) {
    hri_json_file *f = user;
    const uint64_t left = f->end - f->at;
    ssize_t done = -1;
    errno = EIO;
    if (!HRI_FAULT(READ)) {
        do {
            done = pread(f->fd, to, left < room ? (size_t)left : room, (off_t)f->at);
        } while (done < 0 && errno == EINTR);
    }
    if (done < 0) {
        char reason[128];
        return hri_prose_set(why, HR_E_IO, "read: %s", strerror_r(errno, reason, sizeof reason));
    }
    f->at += (uint64_t)done;
    *got = (size_t)done;
    return HR_OK;
}
