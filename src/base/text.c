/* Growing by half as much again; see text.h. */
#include "base/text.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/number.h"

static bool reserve(hri_text *t, size_t more) {
    const size_t wanted = t->used + more + 1;
    if (t->failed || wanted < more) {
        t->failed = true;
        return false;
    }
    if (wanted > t->room) {
        const size_t room = wanted + wanted / 2;
        char *chars = hri_realloc(t->chars, room);
        if (!chars) {
            t->failed = true;
            return false;
        }
        t->chars = chars;
        t->room = room;
    }
    return true;
}

void hri_text_bytes(hri_text *t, const char *bytes, size_t count) {
    if (reserve(t, count)) {
        memcpy(t->chars + t->used, bytes, count);
        t->used += count;
        t->chars[t->used] = '\0';
    }
}

void hri_text_vadd(hri_text *t, const char *format, va_list args) {
    va_list again;
    va_copy(again, args);
    const int length = hri_vsnprintf(NULL, 0, format, args);
    if (length < 0) {
        t->failed = true;
    } else if (reserve(t, (size_t)length)) {
        hri_vsnprintf(t->chars + t->used, (size_t)length + 1, format, again);
        t->used += (size_t)length;
    }
    va_end(again);
}

void hri_text_add(hri_text *t, const char *format, ...) {
    va_list args;
    va_start(args, format);
    hri_text_vadd(t, format, args);
    va_end(args);
}

/* What a shell takes as it is, wherever it stands in a word that is not the first of a command. */
static bool is_plain(const char *word) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "@%+=:,./-_";
    return *word && !word[strspn(word, plain)];
}

void hri_text_word(hri_text *t, const char *word) {
    if (is_plain(word)) {
        hri_text_add(t, "%s", word);
        return;
    }
    hri_text_bytes(t, "'", 1);
    for (const char *p = word; *p; p++) {
        if (*p == '\'') {
            hri_text_bytes(t, "'\\''", 4);
        } else {
            hri_text_bytes(t, p, 1);
        }
    }
    hri_text_bytes(t, "'", 1);
}

const char *hri_text_get(const hri_text *t) {
    return t->chars ? t->chars : "";
}

hr_status hri_text_status(const hri_text *t) {
    return t->failed ? HR_E_NOMEM_HOST : HR_OK;
}

void hri_text_clear(hri_text *t) {
    t->used = 0;
    t->failed = false;
    if (t->chars) {
        t->chars[0] = '\0';
    }
}

void hri_text_deinit(hri_text *t) {
    hri_free(t->chars);
    *t = (hri_text){0};
}

int hri_text_cut(char *text, char **words) {
    int count = 0;
    char *out = text;
    for (char *at = text; *at;) {
        at += strspn(at, " \t\n");
        if (!*at) {
            break;
        }
        words[count++] = out;
        char quote = 0;
        for (; *at && (quote || !strchr(" \t\n", *at)); at++) {
            if (quote ? *at == quote : *at == '\'' || *at == '"') {
                quote = quote ? 0 : *at;
            } else {
                at += !quote && *at == '\\' && at[1];
                *out++ = *at;
            }
        }
        if (quote) {
            return -1;
        }
        at += *at != '\0';
        *out++ = '\0';
    }
    return count;
}
