/* The tuner.  Ten times a second at most, in the user's thread, it looks at what each stage with threads or a queue
 * did since the last look, and moves its numbers by a step, up or down, inside the budget:
 *
 *   busy   = time spent working / (threads x time passed)         how much of the threads was used
 *   wait   = time its consumer waited for it / time passed
 *
 *   threads: wait > 5 % and busy > 70 %: half as many more          they are all at work and it is not enough
 *            wait < 1 % and busy < 50 %: one less                   the same would be done by fewer
 *   queue:   the user waited > 5 % and some of it was burst (the producer was not busy all the time): one deeper
 *            nobody waited: one shallower, as what is buffered is not used
 *
 * More threads are only tried when an element more would fit the budget now; when the ledger refuses one all the
 * same, the workers themselves go down by one at once (workers.c).  Numbers that the user gave are left alone. */
#include "data/pipeline.h"

#include "data/workers.h"

enum { LOOK_NS = 100000000 };

static void tune_threads(hri_stage *s, double wait, double busy) {
    const uint32_t now = s->parallel;
    uint32_t next = now;
    if (wait > 0.05 && busy > 0.7 && hri_ledger_could(s->extra, s->smallest_bytes)) {
        next = now + (now + 1) / 2;
    } else if (wait < 0.01 && busy < 0.5 && now > 1) {
        next = now - 1;
    }
    next = next > s->parallel_max ? s->parallel_max : next;
    if (next != now) {
        s->parallel = next;
        hri_workers_retune(s->workers);
        hri_pipeline_log(s->pipeline, HR_LOG_DEBUG, "%s: %u threads -> %u", s->name, now, next);
    }
}

static void tune_depth(hri_stage *s, double wait, double busy) {
    const uint32_t now = s->depth;
    uint32_t next = now;
    if (wait > 0.05 && busy < 0.95 && hri_ledger_could(s->account, s->spec.item_bytes)) {
        next = now + 1;
    } else if (wait < 0.001 && now > 1) {
        next = now - 1;
    }
    next = next > s->depth_max ? s->depth_max : next;
    if (next != now) {
        s->depth = next;
        hri_pipeline_log(s->pipeline, HR_LOG_DEBUG, "%s: %u elements -> %u", s->name, now, next);
    }
}

void hri_pipeline_tune(hr_pipeline *p, uint64_t now_ns) {
    if (p->tuned_ns == 0) {
        p->tuned_ns = now_ns;
    }
    const uint64_t passed = now_ns - p->tuned_ns;
    if (passed < LOOK_NS) {
        return;
    }
    for (uint32_t i = 0; i < p->stage_count; i++) {
        hri_stage *s = p->stages[i];
        uint64_t *before = &p->tuned[3 * i];
        const uint64_t busy_ns = s->workers ? s->work_ns : s->busy_ns, wait_ns = s->wait_ns;
        const double wait = (double)(wait_ns - before[1]) / (double)passed;
        const double worked = (double)(busy_ns - before[0]) / (double)passed;
        if (s->workers && !s->fixed_parallel) {
            tune_threads(s, wait, worked / (double)s->parallel);
        } else if (s->depth && !s->fixed_depth) {
            tune_depth(s, wait, worked);
        }
        before[0] = busy_ns;
        before[1] = wait_ns;
    }
    p->tuned_ns = now_ns;
}
