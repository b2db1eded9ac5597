/* Progress on stderr: one line redrawn on a terminal, a plain line now and then in a file.
 *
 * The one idea: a log must stay readable.  On a terminal one line is redrawn, at most ten times a second and never
 * wider than the terminal.  In a file there is no carriage return, no bar and no colour: one whole line a tenth of
 * the way or each 30 s, whichever comes first, and one at the end.
 *
 *   782/782 ━━━━━━━━━━━━━━━━━━━━ 41s 52ms/step - loss: 0.5410
 *
 * A progress belongs to one thread. */
#ifndef HRI_SHOW_PROGRESS_H
#define HRI_SHOW_PROGRESS_H

#include <stdint.h>
#include "base/out.h"
#include "base/term.h"

typedef struct hri_progress {
    hri_out *out; /* usually stderr's */
    const hri_term *term;
    const char *label; /* may be "" */
    uint64_t total, start_ns, shown_ns, shown_tenth;
    int drawn; /* an unfinished line is on the terminal */
} hri_progress;

/* total == 0: the end is unknown, no bar is drawn.  now_ns is any monotonic clock: given, so that tests own time. */
void hri_progress_init(hri_progress *progress, hri_out *out, const hri_term *term,
                       const char *label, uint64_t total, uint64_t now_ns);
/* Columns that a note has beside the count and the times, without a bar; SIZE_MAX: any. */
size_t hri_progress_room(const hri_progress *progress, uint64_t done, uint64_t now_ns);
/* `note` is shown at the end of the line ("loss: 0.5410"); "" for none. */
void hri_progress_step(hri_progress *progress, uint64_t done, const char *note, uint64_t now_ns);
/* Draws the last state and ends the line. */
void hri_progress_end(hri_progress *progress, uint64_t done, const char *note, uint64_t now_ns);
/* Clears a drawn line so that something else may be printed; the next step draws it again. */
void hri_progress_hide(hri_progress *progress);

#endif
