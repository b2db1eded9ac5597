/* Where the time goes between the start of the process and the end of the first step: parts in order, told by --json as
 * "startup_seconds" and in the log at level debug. */
#ifndef HRI_SHOW_STARTUP_H
#define HRI_SHOW_STARTUP_H

#include <stdint.h>
#include "base/json.h"
#include "job/together.h"

enum { HRI_STARTUP_PARTS = 16 };

typedef struct hri_startup {
    uint64_t begin_ns, last_ns, end_ns; /* end: 0 until it is over */
    uint32_t count;
    struct {
        const char *name; /* a static text */
        uint64_t ns;
    } parts[HRI_STARTUP_PARTS];
} hri_startup;

void hri_startup_begin(hri_startup *s);
/* What went by since the last mark belongs to that part, less `other_ns` that were told apart.  Nothing after the end. */
void hri_startup_mark(hri_startup *s, const char *name, uint64_t other_ns);
/* A part that was measured by whoever did it. */
void hri_startup_add(hri_startup *s, const char *name, uint64_t ns);
void hri_startup_end(hri_startup *s);
/* What a job tells while it starts; j is NULL while there is none to measure. */
void hri_startup_event(hri_startup *s, const hri_train_job *j, const hr_job_event *e);
/* Planning is over, of all of them. */
void hri_startup_planned(hri_startup *s, const hri_together *t);
/* "startup_seconds": {"total": ..., parts ...}; nothing when it is not over. */
void hri_startup_json(const hri_startup *s, hri_json *json);

#endif
