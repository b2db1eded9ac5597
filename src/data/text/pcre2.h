/* PCRE2, found at run time: one table of the functions that splitting text calls, with our own declarations.
 *
 * Only tokenizers of files need it; a machine without it has text as bytes.  Patterns come from files, so matching has
 * bounds (hri_text_split). */
#ifndef HRI_DATA_TEXT_PCRE2_H
#define HRI_DATA_TEXT_PCRE2_H

#include <stddef.h>
#include <stdint.h>

typedef struct hri_pcre2 {
    void *library;
    void *(*pcre2_compile_8)(const uint8_t *pattern, size_t length, uint32_t options, int *error,
                             size_t *offset, void *context);
    void (*pcre2_code_free_8)(void *code);
    int (*pcre2_jit_compile_8)(void *code, uint32_t options);
    void *(*pcre2_match_data_create_from_pattern_8)(const void *code, void *context);
    void (*pcre2_match_data_free_8)(void *data);
    void *(*pcre2_match_context_create_8)(void *context);
    void (*pcre2_match_context_free_8)(void *context);
    int (*pcre2_set_match_limit_8)(void *context, uint32_t limit);
    int (*pcre2_set_heap_limit_8)(void *context, uint32_t kib);
    int (*pcre2_match_8)(const void *code, const uint8_t *text, size_t length, size_t start,
                         uint32_t options, void *data, void *context);
    size_t *(*pcre2_get_ovector_pointer_8)(void *data);
    int (*pcre2_get_error_message_8)(int error, uint8_t *buffer, size_t size);
} hri_pcre2;

enum {
    HRI_PCRE2_UCP = 0x00020000,
    HRI_PCRE2_UTF = 0x00080000,
    HRI_PCRE2_NEVER_BACKSLASH_C = 0x00100000,
    HRI_PCRE2_MATCH_INVALID_UTF = 0x04000000,
    HRI_PCRE2_JIT_COMPLETE = 1,
    HRI_PCRE2_NOMATCH = -1
};

/* 1, or 0 when the library or one of the functions is missing. */
int hri_pcre2_load(hri_pcre2 *p);
void hri_pcre2_unload(hri_pcre2 *p);

#endif
