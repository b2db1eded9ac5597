/* See split.h. */
#include "data/text/split.h"

#include <string.h>

#include "base/text.h"

enum { MATCH_LIMIT = 10000000, HEAP_KIB = 65536, PATTERN_MAX = 16384 };

const char *const hri_text_split_gpt2 =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

#define SPACE "\\p{Z}\\x{09}-\\x{0d}\\x{85}"

/* \s and \S as White_Space. */
static void translate(const char *pattern, hri_text *out) {
    int inside = 0; /* of [...] */
    for (const char *p = pattern; *p; p++) {
        if (*p == '\\' && p[1]) {
            p++;
            if (*p == 's') {
                hri_text_add(out, inside ? SPACE : "[" SPACE "]");
            } else if (*p == 'S' && !inside) {
                hri_text_add(out, "[^" SPACE "]");
            } else {
                hri_text_bytes(out, p - 1, 2);
            }
            continue;
        }
        inside = *p == '[' ? 1 : *p == ']' ? 0 : inside;
        hri_text_bytes(out, p, 1);
    }
}

static hr_status compile(hri_text_split *s, const char *pattern, hri_prose *why) {
    int error = 0;
    size_t at = 0;
    s->code = s->pcre2.pcre2_compile_8((const uint8_t *)pattern, strlen(pattern),
                                       HRI_PCRE2_UTF | HRI_PCRE2_UCP | HRI_PCRE2_NEVER_BACKSLASH_C |
                                           HRI_PCRE2_MATCH_INVALID_UTF,
                                       &error, &at, NULL);
    if (!s->code) {
        uint8_t reason[160] = "";
        (void)s->pcre2.pcre2_get_error_message_8(error, reason, sizeof reason);
        return hri_prose_set(why, HR_E_FORMAT, "its pattern cannot be read: %s at byte %zu",
                             (const char *)reason, at);
    }
    (void)s->pcre2.pcre2_jit_compile_8(s->code, HRI_PCRE2_JIT_COMPLETE); /* slower without */
    s->data = s->pcre2.pcre2_match_data_create_from_pattern_8(s->code, NULL);
    s->context = s->pcre2.pcre2_match_context_create_8(NULL);
    if (!s->data || !s->context) {
        return HR_E_NOMEM_HOST;
    }
    (void)s->pcre2.pcre2_set_match_limit_8(s->context, MATCH_LIMIT);
    (void)s->pcre2.pcre2_set_heap_limit_8(s->context, HEAP_KIB);
    return HR_OK;
}

hr_status hri_text_split_open(const char *pattern, hri_text_split *out, hri_prose *why) {
    hri_text_split s = {0};
    hri_text text = {0};
    if (strlen(pattern) > PATTERN_MAX) {
        return hri_prose_set(why, HR_E_RANGE, "its pattern is longer than %d bytes", PATTERN_MAX);
    }
    if (!hri_pcre2_load(&s.pcre2)) {
        return hri_prose_set(why, HR_E_UNSUPPORTED,
                             "tokenizers need PCRE2 (libpcre2-8.so.0), which is not installed");
    }
    translate(pattern, &text);
    hr_status status = hri_text_status(&text);
    status = status == HR_OK ? compile(&s, hri_text_get(&text), why) : status;
    hri_text_deinit(&text);
    if (status != HR_OK) {
        hri_text_split_close(&s);
        return status;
    }
    *out = s;
    return HR_OK;
}

void hri_text_split_close(hri_text_split *s) {
    if (s->pcre2.library) {
        s->pcre2.pcre2_match_context_free_8(s->context);
        s->pcre2.pcre2_match_data_free_8(s->data);
        s->pcre2.pcre2_code_free_8(s->code);
    }
    hri_pcre2_unload(&s->pcre2);
    *s = (hri_text_split){0};
}

hr_status hri_text_split_run(const hri_text_split *s, const char *text, size_t bytes,
                             hri_piece_fn *fn, void *user, hri_prose *why) {
    const size_t *found = s->pcre2.pcre2_get_ovector_pointer_8(s->data);
    size_t at = 0, from = 0; /* what was given; where to look */
    hr_status status = HR_OK;
    while (status == HR_OK && from < bytes) {
        const int n = s->pcre2.pcre2_match_8(s->code, (const uint8_t *)text, bytes, from, 0,
                                             s->data, s->context);
        if (n == HRI_PCRE2_NOMATCH) {
            break;
        }
        if (n < 0) {
            return hri_prose_set(why, HR_E_LIMIT, "its pattern takes too long on the text");
        }
        const size_t begin = found[0], end = found[1];
        if (end <= begin) { /* an empty one */
            from = begin + 1;
            continue;
        }
        status = begin > at ? fn(user, text + at, begin - at) : HR_OK;
        status = status == HR_OK ? fn(user, text + begin, end - begin) : status;
        at = from = end;
    }
    return status == HR_OK && at < bytes ? fn(user, text + at, bytes - at) : status;
}
