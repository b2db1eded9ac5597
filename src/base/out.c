/* The buffer of out.h.  Long prints go around the buffer's size by formatting into the heap. */
#include "base/out.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/alloc.h"
#include "base/number.h"
#include "base/visible.h"

void hri_out_init(hri_out *out, int fd) {
    out->fd = fd;
    out->sink = NULL;
    out->error = 0;
    out->used = 0;
    out->width = out->column = out->spaces = out->word_used = out->word_columns = 0;
    out->escape = false;
}

void hri_out_init_sink(hri_out *out, hri_out_sink *sink, void *user) {
    hri_out_init(out, -1);
    out->sink = sink;
    out->sink_user = user;
}

void hri_out_failed(hri_out *out, int error) {
    out->error = out->error ? out->error : error;
}

static void write_all(hri_out *out, const char *bytes, size_t count) {
    if (out->sink && count && !out->error) {
        out->error = out->sink(out->sink_user, bytes, count);
        return;
    }
    while (count && !out->error) {
        const ssize_t done = write(out->fd, bytes, count);
        if (done < 0 && errno == EINTR) {
            continue;
        }
        if (done < 0) {
            out->error = errno;
            return;
        }
        bytes += done;
        count -= (size_t)done;
    }
}

static void put(hri_out *out, const char *bytes, size_t count) {
    if (count > sizeof out->buf - out->used) {
        write_all(out, out->buf, out->used);
        out->used = 0;
    }
    if (count > sizeof out->buf) {
        write_all(out, bytes, count);
        return;
    }
    memcpy(out->buf + out->used, bytes, count);
    out->used += count;
}

/* ---- lines that are broken between words ---- */

static void put_word(hri_out *out) {
    const bool first = out->column == 0;
    if (!out->word_used) {
        return;
    }
    if (!first && out->word_columns && out->column + out->spaces + out->word_columns > out->width) {
        put(out, "\n  ", 3);
        out->column = 2;
        out->spaces = 0;
    }
    for (; out->spaces; out->spaces--, out->column++) {
        put(out, " ", 1);
    }
    put(out, out->word, out->word_used);
    out->column += out->word_columns;
    out->word_used = out->word_columns = 0;
}

static void put_wrapped(hri_out *out, char c) {
    if (c == '\n') {
        put_word(out);
        put(out, "\n", 1);
        out->column = out->spaces = 0;
        return;
    }
    if (c == ' ' && !out->escape) {
        put_word(out);
        out->spaces++;
        return;
    }
    if (out->word_used == sizeof out->word) {
        put_word(out);
    }
    out->word[out->word_used++] = c;
    if (c == '\033') {
        out->escape = true;
    } else if (out->escape) {
        out->escape = !((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'));
    } else {
        out->word_columns += ((unsigned char)c & 0xc0) != 0x80;
    }
}

void hri_out_flush(hri_out *out) {
    put_word(out);
    write_all(out, out->buf, out->used);
    out->used = 0;
}

void hri_out_bytes(hri_out *out, const char *bytes, size_t count) {
    if (!out->width) {
        put(out, bytes, count);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        put_wrapped(out, bytes[i]);
    }
}

void hri_out_text(hri_out *out, const char *text) {
    hri_out_bytes(out, text, strlen(text));
}

/* What was formatted holds texts of others; our own sequences go through hri_out_text. */
static void put_shown(hri_out *out, const char *text) {
    const size_t need = hri_visible_lines_need(text);
    if (!need) {
        hri_out_text(out, text);
        return;
    }
    char *shown = hri_malloc(need);
    if (!shown) {
        hri_out_failed(out, ENOMEM);
        return;
    }
    hri_out_text(out, hri_visible_lines(text, shown, need));
    hri_free(shown);
}

void hri_out_printf(hri_out *out, const char *format, ...) {
    char small[512];
    va_list args;
    va_start(args, format);
    const int length = hri_vsnprintf(small, sizeof small, format, args);
    va_end(args);
    if (length < 0) {
        hri_out_failed(out, EILSEQ);
        return;
    }
    if ((size_t)length < sizeof small) {
        put_shown(out, small);
        return;
    }
    char *large = hri_malloc((size_t)length + 1);
    if (!large) {
        hri_out_failed(out, ENOMEM);
        return;
    }
    va_start(args, format);
    hri_vsnprintf(large, (size_t)length + 1, format, args);
    va_end(args);
    put_shown(out, large);
    hri_free(large);
}

void hri_out_pad(hri_out *out, size_t count) {
    while (count--) {
        hri_out_bytes(out, " ", 1);
    }
}
