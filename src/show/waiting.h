/* A line that shows that something long is under way: "planning resnet50 ... 12 s", on a terminal only.
 *
 * Nothing is drawn in the first second, and nothing ever into a file or a pipe.  A thread of its own draws it, so that the
 * work need not know about it.  What is printed meanwhile hides the line first (hri_say_error and its sisters do). */
#ifndef HRI_SHOW_WAITING_H
#define HRI_SHOW_WAITING_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include "base/term.h"

typedef struct hri_waiting {
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t stop;
    bool runs, over, drawn;
    const hri_term *term;
    const char *what; /* a text that lives as long */
    uint64_t begun_ns;
} hri_waiting;

/* Does nothing when `term` (of stderr) is no terminal, or no thread can be had. */
void hri_waiting_start(hri_waiting *w, const hri_term *term, const char *what);
/* Takes the line away until it is drawn again. */
void hri_waiting_hide(hri_waiting *w);
/* A zeroed one, or one that was stopped, is allowed. */
void hri_waiting_stop(hri_waiting *w);

#endif
