/* What is noted while steps run; see watch.h. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "job/plan_object.h"
#include "see/from_plan.h"
#include "see/hrp.h"
#include "see/open.h"
#include "see/watch_int.h"

/* ---- memory, from outside ---- */

/* A number of pages in one short file that stays open: cheap enough to be asked after every op. */
static uint64_t resident_now(const hri_see_watch *w) {
    char text[64];
    unsigned long long size, resident;
    const ssize_t got = w->statm >= 0 ? pread(w->statm, text, sizeof text - 1, 0) : 0;
    text[got > 0 ? got : 0] = '\0';
    return sscanf(text, "%llu %llu", &size, &resident) == 2 ? (uint64_t)resident * w->page_bytes
                                                            : 0;
}

static uint64_t held_now(hri_see_watch *w, hri_planned *planned) {
    uint64_t now = 0;
    if (w->host) {
        now = resident_now(w);
    } else if (planned) {
        hri_planned_measure(planned, &w->measured);
        now = w->measured.process_bytes;
    }
    w->held_bytes = now > w->held_bytes ? now : w->held_bytes;
    return now;
}

/* ---- during a step whose ops are timed ---- */

static void begin_run(void *user, hri_planned_which which) {
    hri_see_watch *w = user;
    w->graph = which == HRI_PLANNED_LAST ? w->last_graph : 0;
    w->skip = w->graph >= w->graph_count;
    w->at = w->skip ? w->op_count : w->graphs[w->graph].first_op;
}

static void take_call(void *user, uint32_t node, uint64_t bytes, double ns, uint32_t together) {
    hri_see_watch *w = user;
    (void)node;
    (void)bytes;
    (void)together;
    while (w->at < w->op_count && w->what[w->at] == HRI_SEE_WAIT) {
        w->at++;
    }
    if (w->at < w->op_count && !w->skip) {
        hri_see_timed *op = &w->ops[w->at++];
        const uint64_t held = w->host ? held_now(w, NULL) : 0;
        op->ns += ns;
        op->runs++;
        op->held_bytes = held > op->held_bytes ? held : op->held_bytes;
    }
}

/* Once per graph: every run of it has the same calls. */
static void take_touch(void *user, int64_t call, hri_touch_how how, uint64_t at, uint64_t bytes) {
    hri_see_watch *w = user;
    if (w->skip || w->graphs[w->graph].touched) {
        return;
    }
    hri_see_ran *g = &w->graphs[w->graph];
    const uint64_t op = call == HRI_TOUCH_AFTER ? g->end_op - 1 : g->first_op + (uint64_t)call;
    if (g->first_touch == SIZE_MAX) {
        g->first_touch = w->touch_count;
    }
    if (w->touch_count < w->touch_room) {
        w->touches[w->touch_count++] =
            (hri_see_touch){.at = at, .bytes = bytes, .op = (uint32_t)op, .how = (uint8_t)how};
    }
    g->end_touch = w->touch_count;
}

static void end_run(void *user) {
    hri_see_watch *w = user;
    if (!w->skip) {
        w->graphs[w->graph].touched = true;
    }
}

const hri_planned_probe *hri_see_watch_probe(hri_see_watch *w) {
    return &w->probe;
}

void hri_see_watch_range(hri_see_watch *w, uint64_t first, uint64_t last) {
    w->probe.first_step = first;
    w->probe.last_step = last;
}

size_t hri_see_watch_timed(const hri_see_watch *w) {
    size_t count = 0;
    for (size_t i = 0; i < w->op_count; i++) {
        count += w->ops[i].runs > 0;
    }
    return count;
}

/* ---- around the steps ---- */

void hri_see_watch_taken(hri_see_watch *w, hri_planned *planned) {
    (void)held_now(w, planned);
}

void hri_see_watch_step(hri_see_watch *w, hri_planned *planned, const hri_see_step *step) {
    w->begin_ns = w->begin_ns ? w->begin_ns : (uint64_t)step->begin_ns;
    if (w->step_count < w->step_room) {
        hri_see_step *s = &w->steps[w->step_count++];
        *s = *step;
        s->begin_ns -= (double)w->begin_ns;
        s->end_ns -= (double)w->begin_ns;
        s->held_bytes = held_now(w, planned);
    }
}

void hri_see_watch_over(hri_see_watch *w, hri_planned *planned) {
    (void)held_now(w, planned);
    hri_planned_measure(planned, &w->measured);
    if (w->host) {
        hri_resident_read_kinds(&w->after);
    }
}

/* ---- before ---- */

static hr_status find_graphs(hri_see_watch *w, const hri_recording *r) {
    const hri_see_op *op = hri_recording_ops(r);
    for (size_t i = 0; i < w->op_count; i++) {
        w->what[i] = op[i].what;
        if (op[i].graph < HRI_SEE_GRAPHS) {
            hri_see_ran *g = &w->graphs[op[i].graph];
            if (op[i].graph >= w->graph_count) {
                *g = (hri_see_ran){.first_op = (uint32_t)i, .first_touch = SIZE_MAX};
                w->graph_count = op[i].graph + (size_t)1;
            }
            g->end_op = (uint32_t)i + 1;
        }
    }
    /* Micro-batches come first, then the last one; evaluation, which no step runs, behind both. */
    w->last_graph = r->head.micro_batches > 1 ? 1 : 0;
    return HR_OK;
}

static size_t most_touches(const hr_plan *plan) {
    size_t count = 1;
    const hri_problem *problem;
    const hri_plan *p;
    for (size_t g = 0; (p = hri_plan_of(plan, g, &problem)) != NULL; g++) {
        count += (size_t)p->operand_count + p->step_count + 2 * (size_t)problem->value_count;
    }
    return count;
}

static hr_status take_room(hri_see_watch *w, const hr_plan *plan, const hri_recording *r,
                           uint64_t steps) {
    w->op_count = r->tables[HRI_SEE_OPS].count;
    w->touch_room = most_touches(plan);
    w->step_room = steps;
    w->what = hri_calloc(w->op_count + 1, 1);
    w->ops = hri_calloc(w->op_count + 1, sizeof *w->ops);
    w->steps = hri_calloc((size_t)steps + 1, sizeof *w->steps);
    w->touches = hri_calloc(w->touch_room, sizeof *w->touches);
    return w->what && w->ops && w->steps && w->touches ? find_graphs(w, r) : HR_E_NOMEM_HOST;
}

static hr_status record_plan(hri_see_watch *w, hr_plan *plan, uint64_t steps, hri_prose *why) {
    hri_recording planned = {.truncated = false};
    hr_status status = hri_recording_from_plan(plan, &planned);
    if (status == HR_OK) {
        status = take_room(w, plan, &planned, steps);
    }
    if (status == HR_OK) {
        status = hri_hrp_write(&planned, w->scratch, why);
        w->written = status == HR_OK;
    }
    hri_recording_deinit(&planned);
    hri_trim();
    return status;
}

static hr_status name_scratch(hri_see_watch *w, const char *beside) {
    hri_text text = {0};
    hri_text_add(&text, "%s.plan", beside);
    hr_status status = hri_text_status(&text);
    if (status == HR_OK) {
        w->scratch = hri_strdup(hri_text_get(&text));
        status = w->scratch ? HR_OK : HR_E_NOMEM_HOST;
    }
    hri_text_deinit(&text);
    return status;
}

hr_status hri_see_watch_open(hr_plan *plan, uint64_t steps, const char *beside, hri_see_watch **out,
                             hri_prose *why) {
    hri_see_watch *w = hri_calloc(1, sizeof *w);
    if (!w) {
        return HR_E_NOMEM_HOST;
    }
    w->statm = -1;
    w->host = plan->job.engine == NULL;
    w->probe = (hri_planned_probe){
        .run = begin_run, .each = take_call, .touch = take_touch, .end = end_run, .user = w};
    hr_status status = name_scratch(w, beside);
    if (status == HR_OK) {
        status = record_plan(w, plan, steps, why);
    }
    if (status != HR_OK) {
        hri_see_watch_close(w);
        return status;
    }
    if (w->host) {
        const long page = sysconf(_SC_PAGESIZE);
        w->page_bytes = page > 0 ? (uint64_t)page : 4096;
        w->statm = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
        hri_resident_read_kinds(&w->before);
    }
    hri_resident_read(NULL, &w->peak_before);
    *out = w;
    return HR_OK;
}

/* ---- afterwards ---- */

static void put_times(const hri_see_watch *w, hri_recording *r) {
    hri_see_op *op = r->tables[HRI_SEE_OPS].items;
    double at = 0;
    for (size_t i = 0; i < w->op_count && i < r->tables[HRI_SEE_OPS].count; i++) {
        const hri_see_timed *t = &w->ops[i];
        const double ns = t->runs ? t->ns / t->runs : 0;
        if (ns > 0) {
            op[i].measured_begin_ns = at;
            op[i].measured_end_ns = at + ns;
        }
        at += ns;
        op[i].held_bytes = t->held_bytes;
    }
}

static hr_status put_all(const hri_see_watch *w, hri_recording *r) {
    double sum = 0;
    put_times(w, r);
    hr_status status = hri_see_watch_measured(w, r);
    for (uint64_t i = 0; i < w->step_count && status == HR_OK; i++) {
        sum += w->steps[i].end_ns - w->steps[i].begin_ns;
        status = hri_recording_add(r, HRI_SEE_STEPS, &w->steps[i]);
    }
    if (status == HR_OK) {
        r->head.source = "profile";
        r->head.held_by = w->host ? "resident memory of the process" : "NVML, this process";
        r->head.measured_step_ns = w->step_count ? sum / (double)w->step_count : 0;
        status = hri_recording_finish(r);
    }
    return status;
}

hr_status hri_see_watch_finish(hri_see_watch *w, hri_recording *out, hri_prose *why) {
    hri_recording r = {.truncated = false};
    hr_status status = hri_see_open(w->scratch, &r, why);
    if (status == HR_OK) {
        status = put_all(w, &r);
    }
    if (status != HR_OK) {
        hri_recording_deinit(&r);
        return status;
    }
    *out = r;
    return HR_OK;
}

void hri_see_watch_close(hri_see_watch *w) {
    if (!w) {
        return;
    }
    if (w->written) {
        (void)unlink(w->scratch);
    }
    if (w->statm >= 0) {
        (void)close(w->statm);
    }
    hri_free(w->scratch);
    hri_free(w->what);
    hri_free(w->ops);
    hri_free(w->steps);
    hri_free(w->touches);
    hri_free(w);
}
