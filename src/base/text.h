/* A text that grows: for what users type, which no fixed buffer may cut.
 *
 *   hri_text t = {0};
 *   hri_text_add(&t, " --%s", name);           as printf
 *   hri_text_word(&t, value);                  quoted for a shell where it must be
 *   if (hri_text_status(&t) != HR_OK) ...      one check at the end: HR_E_NOMEM_HOST after any failure
 *   use(hri_text_get(&t));
 *   hri_text_deinit(&t);
 *
 * After a failure nothing more is added, and what is there is whole words of earlier calls.  Threads: one at a time. */
#ifndef HRI_BASE_TEXT_H
#define HRI_BASE_TEXT_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <headroom/status.h>

typedef struct hri_text {
    char *chars; /* owned; NULL while it is empty */
    size_t used, room;
    bool failed;
} hri_text;

void hri_text_add(hri_text *t, const char *format, ...) HR_PRINTF(2, 3);
void hri_text_vadd(hri_text *t, const char *format, va_list args);
void hri_text_bytes(hri_text *t, const char *bytes, size_t count);
/* One word of a command line: in single quotes when a POSIX shell would read it differently without them. */
void hri_text_word(hri_text *t, const char *word);
/* Cuts a text into words, in place; 'single' and "double" quotes hold one together.  words: room for one in every two
 * letters.  -1: a quote is not closed. */
int hri_text_cut(char *text, char **words);
/* Never NULL. */
const char *hri_text_get(const hri_text *t);
HR_MUST_CHECK hr_status hri_text_status(const hri_text *t);
/* Empty again, memory kept. */
void hri_text_clear(hri_text *t);
void hri_text_deinit(hri_text *t);

#endif
