/* `headroom top`: the lines of a view as text, as JSON, and live on a screen. */
#ifndef HRI_SHOW_TOP_H
#define HRI_SHOW_TOP_H

#include <stdio.h>
#include "base/json.h"
#include "base/out.h"
#include "base/term.h"
#include "govern/view.h"

HR_MUST_CHECK hr_status hri_top_text(const hri_watch_view *v, hri_out *out, const hri_term *term);
/* One object a line into an array that is open. */
void hri_top_json(const hri_watch_view *v, hri_json *json);
/* Until 'q'.  HR_E_UNSUPPORTED: no ncurses, or a terminal that it does not know; nothing was drawn.  The locale must be set
 * (setlocale) for anything but ASCII. */
HR_MUST_CHECK hr_status hri_top_screen(hri_watch_view *v, hri_link *link, int utf8, FILE *out,
                                       FILE *in, hri_prose *why);

#endif
