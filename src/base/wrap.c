/* Greedy filling, which is what people expect of a terminal. */
#include "base/wrap.h"

#include <string.h>

/* Columns of the first `bytes` of text. */
static size_t columns_of(const char *text, size_t bytes) {
    size_t columns = 0;
    for (size_t i = 0; i < bytes; i++) {
        columns += ((unsigned char)text[i] & 0xc0) != 0x80;
    }
    return columns;
}

void hri_wrap(hri_out *out, const char *text, size_t width, size_t indent, size_t column) {
    int fresh = 1; /* no word is on the line yet */
    for (;;) {
        int newlines = 0;
        for (; *text == ' ' || *text == '\n'; text++) {
            newlines += *text == '\n';
        }
        const size_t bytes = strcspn(text, " \n");
        if (!bytes) {
            return;
        }
        const size_t columns = columns_of(text, bytes);
        const int paragraph = !fresh && newlines > 1;
        if (paragraph || (!fresh && column + 1 + columns > width)) {
            hri_out_text(out, paragraph ? "\n\n" : "\n");
            hri_out_pad(out, indent);
            column = indent;
            fresh = 1;
        }
        hri_out_text(out, fresh ? "" : " ");
        hri_out_bytes(out, text, bytes);
        column += columns + !fresh;
        fresh = 0;
        text += bytes;
    }
}
