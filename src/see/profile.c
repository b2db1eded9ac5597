/* Running a plan and looking on; see profile.h. */
#include "see/profile.h"

#include <headroom/job.h>

#include "job/plan_object.h"
#include "see/watch.h"

typedef struct profiling {
    hri_see_watch *watch;
    uint64_t steps; /* as usual; one more op by op */
} profiling;

static void on_taken(void *user, hri_planned *planned) {
    const profiling *p = user;
    hri_see_watch_taken(p->watch, planned);
    hri_planned_set_probe(planned, p->steps ? NULL : hri_see_watch_probe(p->watch));
}

static void on_step(void *user, hri_planned *planned, uint64_t done, float loss, uint64_t begin_ns,
                    uint64_t end_ns) {
    const profiling *p = user;
    if (done <= p->steps) {
        const hri_see_step step = {.number = done,
                                   .begin_ns = (double)begin_ns,
                                   .end_ns = (double)end_ns,
                                   .loss = (double)loss};
        hri_see_watch_step(p->watch, planned, &step);
    }
    hri_planned_set_probe(planned, done == p->steps ? hri_see_watch_probe(p->watch) : NULL);
}

static void on_over(void *user, hri_planned *planned) {
    const profiling *p = user;
    hri_see_watch_over(p->watch, planned);
}

hr_status hri_see_profile(hr_plan *plan, uint64_t steps, const char *beside, hri_recording *out,
                          hri_why *why) {
    profiling p = {.steps = steps};
    hri_prose prose = {0};
    hr_try_result result = {.size = sizeof result};
    const hri_try_watch watch = {.user = &p, .taken = on_taken, .step = on_step, .over = on_over};
    if (!plan->answer.fits) {
        return hri_why_set(why, HR_CAUSE_NO_FIT, HR_E_NO_PLAN, "%s does not fit its budget",
                           plan->job.what);
    }
    hr_status status = hri_see_watch_open(plan, steps, beside, &p.watch, &prose);
    bool told = false;
    if (status == HR_OK) {
        status = hri_plan_try(plan, steps + 1, NULL, &watch, &result, why);
        told = status != HR_OK;
    }
    if (status == HR_OK) {
        status = hri_see_watch_finish(p.watch, out, &prose);
    }
    hri_see_watch_close(p.watch);
    return status == HR_OK || told ? status
                                   : hri_why_prose(why, hri_cause_of(status), status, NULL, &prose);
}
