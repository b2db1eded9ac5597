/* One formatted sentence.  Texts of users and files go into it, so control characters become '?': a sentence may be
 * printed to a terminal as it is. */
#include "base/prose.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

static int is_inside_character(char c) {
    return ((unsigned char)c & 0xc0) == 0x80; /* of UTF-8 */
}

/* Of a sentence that is too long the middle goes: the thing (a path) stands at its beginning, the reason at its end. */
static void keep_both_ends(hri_prose *why, const char *format, va_list args, size_t length) {
    static const char mark[] = "...";
    char *whole = hri_malloc(length + 1);
    if (!whole) {
        return; /* the beginning stands there already */
    }
    vsnprintf(whole, length + 1, format, args);
    const size_t kept = sizeof why->text - 1 - (sizeof mark - 1);
    size_t head = kept / 3, tail = kept - head;
    while (head > 0 && is_inside_character(whole[head])) {
        head--;
    }
    while (tail > 0 && is_inside_character(whole[length - tail])) {
        tail--;
    }
    memcpy(why->text, whole, head);
    memcpy(why->text + head, mark, sizeof mark - 1);
    memcpy(why->text + head + sizeof mark - 1, whole + length - tail, tail + 1);
    hri_free(whole);
}

hr_status hri_prose_set(hri_prose *why, hr_status status, const char *format, ...) {
    if (why) {
        va_list args, again;
        va_start(args, format);
        va_copy(again, args);
        const int length = vsnprintf(why->text, sizeof why->text, format, args);
        if (length >= (int)sizeof why->text) {
            keep_both_ends(why, format, again, (size_t)length);
        }
        va_end(again);
        va_end(args);
        for (char *p = why->text; *p; p++) {
            *p = (unsigned char)*p < ' ' || *p == 0x7f ? '?' : *p;
        }
    }
    return status;
}
