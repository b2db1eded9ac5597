/* Which steps of a run are looked at, and when; see train.h. */
#include "see/train.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "job/plan_object.h"
#include "see/hrp.h"

enum { MOST_STEPS = 100000 };

struct hri_see_train {
    hri_see_watch *watch;
    char *path;
    uint64_t first, last;
    bool over;
};

hr_status hri_see_train_steps(const char *text, uint64_t *first, uint64_t *last) {
    uint64_t from = 0, to = 0;
    int end = 0, whole = 0;
    const bool digit = text[0] >= '0' && text[0] <= '9';
    if (digit && sscanf(text, "%18" SCNu64 "%n-%18" SCNu64 "%n", &from, &end, &to, &whole) == 1) {
        to = from;
        whole = end;
    }
    if (!digit || !whole || text[whole] || from < 1 || to < from || to - from >= MOST_STEPS) {
        return HR_E_INVALID;
    }
    *first = from;
    *last = to;
    return HR_OK;
}

hr_status hri_see_train_open(hr_plan *plan, const char *path, const char *steps,
                             hri_see_train **out, hri_prose *why) {
    hri_see_train *t = hri_calloc(1, sizeof *t);
    if (!t) {
        return HR_E_NOMEM_HOST;
    }
    hr_status status = hri_see_train_steps(steps, &t->first, &t->last);
    if (status == HR_OK) {
        t->path = hri_strdup(path);
        status = t->path ? HR_OK : HR_E_NOMEM_HOST;
    }
    if (status == HR_OK) {
        status = hri_see_watch_open(plan, t->last - t->first + 1, path, &t->watch, why);
    }
    if (status != HR_OK) {
        hri_see_train_close(t);
        return status;
    }
    hri_see_watch_range(t->watch, t->first, plan->job.engine ? t->first : t->last);
    *out = t;
    return HR_OK;
}

/* On a GPU a step is told while the next one runs, so the probe knows its steps by itself. */
void hri_see_train_event(hri_see_train *t, hri_planned *planned, const hr_job_event *e) {
    const hr_numbers *n = e->numbers;
    if (!n || t->over) {
        return;
    }
    if (e->kind == HR_EVENT_STARTED) {
        hri_see_watch_taken(t->watch, planned);
        hri_planned_set_probe(planned, hri_see_watch_probe(t->watch));
    } else if (e->kind == HR_EVENT_STEP && n->step >= t->first) {
        const double now = (double)hri_clock_ns();
        const hri_see_step step = {.number = n->step,
                                   .begin_ns = now - n->seconds * 1e9,
                                   .end_ns = now,
                                   .wait_ns = n->wait_seconds * 1e9,
                                   .loss = n->loss};
        if (n->step <= t->last) {
            hri_see_watch_step(t->watch, planned, &step);
        }
        if (n->step >= t->last) {
            t->over = true;
            hri_planned_set_probe(planned, NULL);
            hri_see_watch_over(t->watch, planned);
        }
    }
}

size_t hri_see_train_timed(const hri_see_train *t) {
    return hri_see_watch_timed(t->watch);
}

hr_status hri_see_train_write(hri_see_train *t, hri_prose *why) {
    hri_recording r = {.truncated = false};
    hr_status status = hri_see_watch_finish(t->watch, &r, why);
    if (status == HR_OK) {
        status = hri_hrp_write(&r, t->path, why);
    }
    hri_recording_deinit(&r);
    return status;
}

void hri_see_train_close(hri_see_train *t) {
    if (t) {
        hri_see_watch_close(t->watch);
        hri_free(t->path);
        hri_free(t);
    }
}
