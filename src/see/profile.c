/* Running a plan and looking on; see profile.h. */
#include "see/profile.h"

#include <string.h>
#include <unistd.h>
#include <headroom/job.h>

#include "base/file.h"
#include "base/text.h"
#include "fit/planned.h"
#include "job/plan_object.h"
#include "memory/resident.h"
#include "see/from_plan.h"
#include "see/hrp.h"
#include "see/open.h"

typedef struct timed {
    double ns;
    uint64_t held_bytes;
} timed;

/* What is kept while steps run: little, and all of it taken before. */
typedef struct looking {
    uint8_t *what, *graph; /* of each op */
    timed *ops;
    hri_see_step *steps;
    size_t op_count, at;
    uint64_t step_count, wanted;
    uint8_t last_graph; /* the number of the run that ends a step */
    bool host, last;
    uint64_t begin_ns, before_bytes, held_bytes; /* before the arena; the most during steps */
    hri_measured measured;
    hri_planned_probe probe;
} looking;

static void looking_deinit(looking *l) {
    hri_free(l->what);
    hri_free(l->graph);
    hri_free(l->ops);
    hri_free(l->steps);
}

static hr_status looking_init(looking *l, const hri_recording *r, uint64_t steps) {
    const hri_see_op *op = hri_recording_ops(r);
    l->op_count = r->tables[HRI_SEE_OPS].count;
    l->what = hri_calloc(l->op_count + 1, 1);
    l->graph = hri_calloc(l->op_count + 1, 1);
    l->ops = hri_calloc(l->op_count + 1, sizeof *l->ops);
    l->steps = hri_calloc((size_t)steps + 2, sizeof *l->steps);
    l->wanted = steps;
    if (!l->what || !l->graph || !l->ops || !l->steps) {
        return HR_E_NOMEM_HOST;
    }
    for (size_t i = 0; i < l->op_count; i++) {
        l->what[i] = op[i].what;
        l->graph[i] = op[i].graph;
    }
    /* Micro-batches come first, then the last one; evaluation, which no step runs, behind both. */
    l->last_graph = r->head.micro_batches > 1 ? 1 : 0;
    return HR_OK;
}

static uint64_t held_now(looking *l, hri_planned *q) {
    uint64_t now = 0;
    if (l->host) {
        hri_resident_read(&now, NULL);
    } else if (q) {
        hri_planned_measure(q, &l->measured);
        now = l->measured.process_bytes;
    }
    l->held_bytes = now > l->held_bytes ? now : l->held_bytes;
    return now;
}

/* ---- during the call-by-call step ---- */

static void begin_run(void *user, hri_planned_which which) {
    looking *l = user;
    const uint8_t graph = which == HRI_PLANNED_LAST ? l->last_graph : 0;
    l->last = which == HRI_PLANNED_EVALUATION;
    for (l->at = 0; l->at < l->op_count && l->graph[l->at] != graph;) {
        l->at++;
    }
}

static void take_call(void *user, uint32_t node, uint64_t bytes, double ns) {
    looking *l = user;
    (void)node;
    (void)bytes;
    while (l->at < l->op_count && l->what[l->at] == HRI_SEE_WAIT) {
        l->at++;
    }
    if (l->at < l->op_count && !l->last) {
        l->ops[l->at++] = (timed){ns, l->host ? held_now(l, NULL) : 0};
    }
}

static void on_taken(void *user, hri_planned *q) {
    looking *l = user;
    (void)held_now(l, q);
    if (l->wanted == 0) {
        hri_planned_set_probe(q, &l->probe);
    }
}

static void on_step(void *user, hri_planned *q, uint64_t done, float loss, uint64_t begin_ns,
                    uint64_t end_ns) {
    looking *l = user;
    l->begin_ns = l->begin_ns ? l->begin_ns : begin_ns;
    if (l->step_count < l->wanted) {
        l->steps[l->step_count++] = (hri_see_step){.number = done,
                                                   .begin_ns = (double)(begin_ns - l->begin_ns),
                                                   .end_ns = (double)(end_ns - l->begin_ns),
                                                   .loss = loss,
                                                   .held_bytes = held_now(l, q)};
    }
    hri_planned_set_probe(q, done == l->wanted ? &l->probe : NULL);
}

static void on_over(void *user, hri_planned *q) {
    looking *l = user;
    (void)held_now(l, q);
    hri_planned_measure(q, &l->measured);
}

/* ---- afterwards ---- */

static void put_times(const looking *l, hri_recording *r) {
    hri_see_op *op = r->tables[HRI_SEE_OPS].items;
    double at = 0;
    for (size_t i = 0; i < l->op_count && i < r->tables[HRI_SEE_OPS].count; i++) {
        if (l->ops[i].ns > 0) {
            op[i].measured_begin_ns = at;
            op[i].measured_end_ns = at + l->ops[i].ns;
        }
        at += l->ops[i].ns;
        op[i].held_bytes = l->ops[i].held_bytes;
    }
}

static hr_status put_part(hri_recording *r, const char *name, uint8_t category, uint64_t bytes,
                          const char *note) {
    hri_see_part part = {.category = category, .measured_bytes = bytes};
    hr_status status = hri_recording_text(r, name, &part.name);
    if (status == HR_OK) {
        status = hri_recording_text(r, note, &part.note);
    }
    return status == HR_OK && bytes ? hri_recording_add(r, HRI_SEE_PARTS, &part) : status;
}

static bool is_gap(const hri_recording *r, const hri_see_part *part) {
    return !strcmp(hri_recording_get_text(r, part->name), HRI_SEE_GAP);
}

/* Buffers are not measured one by one: they lie in the arena as planned, and it is the arena whose pages are counted.
 * Returns how many of its bytes have an owner. */
static uint64_t put_buffers(hri_recording *r, uint32_t note) {
    hri_see_part *part = r->tables[HRI_SEE_PARTS].items;
    uint64_t buffers = 0;
    for (size_t i = 0; i < r->tables[HRI_SEE_PARTS].count; i++) {
        if (part[i].category != HRI_SEE_RUNTIME && !is_gap(r, &part[i])) {
            part[i].measured_bytes = part[i].planned_bytes;
            part[i].note = note;
            buffers += part[i].planned_bytes;
        }
    }
    return buffers;
}

/* The bytes of a part that was planned, or a new part. */
static hr_status put_into(hri_recording *r, bool runtime, uint64_t bytes) {
    hri_see_part *part = r->tables[HRI_SEE_PARTS].items;
    for (size_t i = 0; i < r->tables[HRI_SEE_PARTS].count; i++) {
        if (runtime ? part[i].category == HRI_SEE_RUNTIME : is_gap(r, &part[i])) {
            part[i].measured_bytes = bytes;
            return HR_OK;
        }
    }
    return runtime ? put_part(r, "runtime", HRI_SEE_RUNTIME, bytes, "the process before the arena")
                   : put_part(r, HRI_SEE_GAP, HRI_SEE_OTHER, bytes, "whole pages");
}

/* runtime + buffers + the rest of the arena + what has no owner + what planning held above that = the peak */
static hr_status put_parts(const looking *l, hri_recording *r) {
    const hri_measured *m = &l->measured;
    const uint64_t peak = m->peak_bytes > l->held_bytes ? m->peak_bytes : l->held_bytes;
    uint32_t note = 0;
    hr_status status =
        hri_recording_text(r, "placed as planned, in an arena that was measured", &note);
    if (status != HR_OK) {
        return status;
    }
    const uint64_t buffers = put_buffers(r, note);
    const uint64_t arena = m->arena_bytes > buffers ? m->arena_bytes : buffers;
    const uint64_t outside = l->held_bytes > arena ? l->held_bytes - arena : 0;
    uint64_t before = l->host ? l->before_bytes : m->runtime_bytes;
    before = before < outside ? before : outside;
    status = put_into(r, false, arena - buffers);
    if (status == HR_OK) {
        status = put_into(r, true, before);
    }
    if (status == HR_OK) {
        status = put_part(r, "unattributed", HRI_SEE_OTHER, outside - before,
                          "appeared during the steps: code that ran for the first time, stacks, "
                          "libraries");
    }
    if (status == HR_OK && peak > arena + outside) {
        status = put_part(r, "before the steps", HRI_SEE_OTHER, peak - arena - outside,
                          "held while planning, above what the steps held");
    }
    r->head.measured_peak_bytes = peak > arena + outside ? peak : arena + outside;
    return status;
}

static hr_status put_all(const looking *l, hri_recording *r) {
    double sum = 0;
    hr_status status = put_parts(l, r);
    for (uint64_t i = 0; i < l->step_count && status == HR_OK; i++) {
        sum += l->steps[i].end_ns - l->steps[i].begin_ns;
        status = hri_recording_add(r, HRI_SEE_STEPS, &l->steps[i]);
    }
    if (status == HR_OK) {
        put_times(l, r);
        r->head.source = "profile";
        r->head.held_by = l->host ? "resident memory of the process" : "NVML, this process";
        r->head.measured_step_ns = l->step_count ? sum / (double)l->step_count : 0;
        status = hri_recording_finish(r);
    }
    return status;
}

static hr_status run(hr_plan *plan, looking *l, hri_why *why) {
    const hri_try_watch watch = {.user = l, .taken = on_taken, .step = on_step, .over = on_over};
    hr_try_result result = {.size = sizeof result};
    l->host = plan->job.engine == NULL;
    l->probe = (hri_planned_probe){.run = begin_run, .each = take_call, .user = l};
    hri_resident_read(&l->before_bytes, NULL);
    return hri_plan_try(plan, l->wanted + 1, NULL, &watch, &result, why);
}

/* The plan as a recording in a file, and what it takes to look on. */
static hr_status prepare(hr_plan *plan, uint64_t steps, const char *scratch, looking *l,
                         hri_prose *prose) {
    hri_recording planned = {.truncated = false};
    hr_status status = hri_recording_from_plan(plan, &planned);
    if (status == HR_OK) {
        status = looking_init(l, &planned, steps);
    }
    if (status == HR_OK) {
        status = hri_hrp_write(&planned, scratch, prose);
    }
    hri_recording_deinit(&planned);
    hri_trim();
    return status;
}

static hr_status profile(hr_plan *plan, uint64_t steps, const char *scratch, hri_recording *out,
                         hri_why *why) {
    looking l = {.at = 0};
    hri_recording r = {.truncated = false};
    hri_prose prose = {0};
    if (!plan->answer.fits) {
        return hri_why_set(why, HR_CAUSE_NO_FIT, HR_E_NO_PLAN, "%s does not fit its budget",
                           plan->job.what);
    }
    hr_status status = prepare(plan, steps, scratch, &l, &prose);
    const bool written = status == HR_OK;
    bool told = false;
    if (status == HR_OK) {
        status = run(plan, &l, why);
        told = status != HR_OK;
    }
    if (status == HR_OK) {
        status = hri_see_open(scratch, &r, &prose);
    }
    if (status == HR_OK) {
        status = put_all(&l, &r);
    }
    if (written) {
        (void)unlink(scratch);
    }
    looking_deinit(&l);
    if (status != HR_OK) {
        hri_recording_deinit(&r);
        return told ? status : hri_why_prose(why, hri_cause_of(status), status, NULL, &prose);
    }
    *out = r;
    return HR_OK;
}

hr_status hri_see_profile(hr_plan *plan, uint64_t steps, const char *beside, hri_recording *out,
                          hri_why *why) {
    hri_text scratch = {0};
    hri_text_add(&scratch, "%s.plan", beside);
    hr_status status = hri_text_status(&scratch);
    status = status == HR_OK
                 ? profile(plan, steps, hri_text_get(&scratch), out, why)
                 : hri_why_prose(why, hri_cause_of(status), status, NULL, &(hri_prose){0});
    hri_text_deinit(&scratch);
    return status;
}
