/* Words broken into lines. */
#ifndef HRI_BASE_WRAP_H
#define HRI_BASE_WRAP_H

#include <stddef.h>
#include "base/out.h"

/* Prints text so that no line passes `width` columns (a longer word stands alone), further lines behind `indent`
 * spaces.  The cursor stands at `column`, where a word may begin.  An empty line in the text stays one; other blanks
 * are places to break.  No newline at the end. */
void hri_wrap(hri_out *out, const char *text, size_t width, size_t indent, size_t column);

#endif
