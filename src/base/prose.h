/* A sentence for people, kept by the caller: where functions of this folder say what was wrong.
 *
 *   hri_prose why = {0};
 *   if (hri_options_set(o, "batch", "0", HRI_ORIGIN_FLAG, &why) != HR_OK) ... why.text
 *
 * The status says which kind of failure it was, the prose names the thing and the numbers.  A sentence
 * starts in lower case, ends without a full stop, and holds nothing that does not print: what was in quoted
 * text is shown as \xNN (visible.h). */
#ifndef HRI_BASE_PROSE_H
#define HRI_BASE_PROSE_H

#include <stdarg.h>
#include <stdint.h>
#include <headroom/status.h>

typedef struct hri_prose {
    char text[512]; /* "" while nothing has failed */
} hri_prose;

/* Writes the sentence (one that is too long loses its middle) and returns `status`, so that a failure is one line:
 * return hri_prose_set(why, HR_E_RANGE, "%s: 0 is below 1", name);  `why` may be NULL. */
hr_status hri_prose_set(hri_prose *why, hr_status status, const char *format, ...) HR_PRINTF(3, 4);
/* The same with a list of arguments. */
void hri_prose_set_args(hri_prose *why, const char *format, va_list args) HR_PRINTF(2, 0);

/* What follows a noun that is counted: "%llu sample%s", n, hri_plural(n). */
static inline const char *hri_plural(uint64_t count) {
    return count == 1 ? "" : "s";
}

#endif
