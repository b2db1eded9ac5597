/* Text in pieces; see lines.h. */
#include "see/lines.h"

#include <stdio.h>
#include <string.h>

#include "base/visible.h"

enum { ENOUGH = 1 << 16 };

static void flush(hri_see_lines *l) {
    if (l->status == HR_OK) {
        l->status = hri_text_status(&l->text);
    }
    if (l->status == HR_OK && l->text.used) {
        l->status = hri_writer_write(&l->writer, l->text.chars, l->text.used, l->why);
    }
    hri_text_clear(&l->text);
}

void hri_see_lines_open(hri_see_lines *l, const char *path, hri_prose *why) {
    *l = (hri_see_lines){.writer = {.fd = -1}, .why = why};
    l->status = hri_writer_open(&l->writer, path, why);
}

void hri_see_lines_add(hri_see_lines *l, const char *format, ...) {
    va_list args;
    if (l->status != HR_OK) {
        return;
    }
    va_start(args, format);
    hri_text_vadd(&l->text, format, args);
    va_end(args);
    if (l->text.used >= ENOUGH || l->text.failed) {
        flush(l);
    }
}

void hri_see_lines_json(hri_see_lines *l, const char *text) {
    hri_see_lines_add(l, "\"");
    while (*text && l->status == HR_OK) {
        const unsigned char c = (unsigned char)*text;
        const size_t length = hri_utf8_length(text);
        if (c == '"' || c == '\\') {
            hri_see_lines_add(l, "\\%c", c);
        } else if (c < 0x20 || c == 0x7f) {
            hri_see_lines_add(l, "\\u%04x", c);
        } else if (length) {
            hri_see_lines_add(l, "%.*s", (int)length, text);
        } else {
            hri_see_lines_add(l, "?");
        }
        text += length ? length : 1;
    }
    hri_see_lines_add(l, "\"");
}

void hri_see_lines_csv(hri_see_lines *l, const char *text) {
    const bool formula = text[0] && strchr("=+-@\t\r", text[0]);
    if (!formula && !strpbrk(text, ",\"\r\n")) {
        hri_see_lines_add(l, "%s", text);
        return;
    }
    hri_see_lines_add(l, formula ? "\"'" : "\"");
    for (; *text; text++) {
        hri_see_lines_add(l, *text == '"' ? "\"\"" : "%c", *text);
    }
    hri_see_lines_add(l, "\"");
}

hr_status hri_see_lines_close(hri_see_lines *l) {
    flush(l);
    if (l->status == HR_OK) {
        l->status = hri_writer_commit(&l->writer, l->why);
    }
    hri_writer_abandon(&l->writer);
    hri_text_deinit(&l->text);
    return l->status;
}
