/* One formatted sentence.  Texts of users and files go into it, so whatever does not print is shown as \xNN: a sentence
 * may be printed to a terminal as it is. */
#include "base/prose.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/number.h"
#include "base/visible.h"

enum { SHORT = sizeof((hri_prose *)0)->text };

static int is_inside_character(char c) {
    return ((unsigned char)c & 0xc0) == 0x80; /* of UTF-8 */
}

/* Of a sentence that is too long the middle goes: the thing (a path) stands at its beginning, the reason at its end. */
static void keep_both_ends(char *text, const char *whole, size_t length) {
    static const char mark[] = "...";
    const size_t kept = SHORT - 1 - (sizeof mark - 1);
    size_t head = kept / 3, tail = kept - head;
    while (head > 0 && is_inside_character(whole[head])) {
        head--;
    }
    while (tail > 0 && is_inside_character(whole[length - tail])) {
        tail--;
    }
    memcpy(text, whole, head);
    memcpy(text + head, mark, sizeof mark - 1);
    memcpy(text + head + sizeof mark - 1, whole + length - tail, tail + 1);
}

/* A raw sentence as it is shown. */
static void put(hri_prose *why, const char *raw, size_t length) {
    char few[4 * SHORT];
    char *many = length < SHORT ? NULL : hri_malloc(4 * length + 1);
    char *shown = many ? many : few; /* without memory the beginning is all there is */
    hri_visible(raw, shown, many ? 4 * length + 1 : sizeof few);
    const size_t bytes = strlen(shown);
    if (bytes < SHORT) {
        memcpy(why->text, shown, bytes + 1);
    } else {
        keep_both_ends(why->text, shown, bytes);
    }
    hri_free(many);
}

void hri_prose_set_args(hri_prose *why, const char *format, va_list args) {
    char few[SHORT], *many = NULL;
    va_list again;
    va_copy(again, args);
    const int length = hri_vsnprintf(few, sizeof few, format, args);
    if (length >= (int)sizeof few && (many = hri_malloc((size_t)length + 1)) != NULL) {
        hri_vsnprintf(many, (size_t)length + 1, format, again);
    }
    put(why, many ? many : few, many ? (size_t)length : strlen(few));
    hri_free(many);
    va_end(again);
}

hr_status hri_prose_set(hri_prose *why, hr_status status, const char *format, ...) {
    if (why) {
        va_list args;
        va_start(args, format);
        hri_prose_set_args(why, format, args);
        va_end(args);
    }
    return status;
}
