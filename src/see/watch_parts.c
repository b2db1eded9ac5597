/* What was alive in the arena, op by op, and the parts that the outside's number is the sum of; see watch.h.
 *
 *   host   categories in use + the rest of the arena + the process before the arena + what grew since, by what it lies in
 *          + what has no owner + what was held at another moment = the kernel's peak of the resident set
 *   GPU    categories in use + the rest of the arena + runtime + what has no owner = NVML's number for the process */
#include <string.h>

#include "see/from_plan.h"
#include "see/watch_int.h"

/* ---- in the arena ---- */

static hr_status find_lives(const hri_see_watch *w, hri_see_lives *lives) {
    hr_status status = HR_OK;
    for (size_t g = 0; g < w->graph_count && status == HR_OK; g++) {
        const hri_see_ran *ran = &w->graphs[g];
        if (ran->touched && ran->first_touch < ran->end_touch) {
            status = hri_see_alive(w->touches + ran->first_touch, ran->end_touch - ran->first_touch,
                                   ran->end_op, lives);
        }
    }
    return status;
}

/* Only for ops that ran: a graph of evaluation has none. */
static hr_status put_live(const hri_see_watch *w, const hri_see_lives *lives, hri_recording *r) {
    const size_t count = r->tables[HRI_SEE_OPS].count;
    hri_see_op *op = r->tables[HRI_SEE_OPS].items;
    uint64_t *live = hri_calloc(count + 1, sizeof *live);
    if (!live) {
        return HR_E_NOMEM_HOST;
    }
    for (size_t i = 0; i < lives->count; i++) {
        const hri_see_life *l = &lives->items[i];
        live[l->birth] += l->bytes;
        live[l->death < count ? l->death : count] -= l->bytes; /* wraps back */
    }
    for (size_t i = 1; i < count; i++) {
        live[i] += live[i - 1];
    }
    for (size_t g = 0; g < w->graph_count; g++) {
        for (size_t i = w->graphs[g].first_op; w->graphs[g].touched && i < w->graphs[g].end_op;
             i++) {
            op[i].live_bytes = live[i];
        }
    }
    hri_free(live);
    return HR_OK;
}

/* The planned buffer that a life at this op is; NULL: none. */
static const hri_see_buffer *owner(const hri_recording *r, const hri_see_life *l, uint32_t op) {
    const hri_see_buffer *b = hri_recording_buffers(r);
    for (size_t i = 0; i < r->tables[HRI_SEE_BUFFERS].count && b[i].birth <= op; i++) {
        if (b[i].death > op && b[i].offset <= l->at &&
            l->at + l->bytes <= b[i].offset + b[i].bytes) {
            return &b[i];
        }
    }
    return NULL;
}

/* ---- parts ---- */

static hr_status put_part(hri_recording *r, const char *name, uint8_t category, uint64_t bytes,
                          const char *note) {
    hri_see_part part = {.category = category, .measured_bytes = bytes};
    if (!bytes) {
        return HR_OK;
    }
    hr_status status = hri_recording_text(r, name, &part.name);
    if (status == HR_OK) {
        status = hri_recording_text(r, note, &part.note);
    }
    return status == HR_OK ? hri_recording_add(r, HRI_SEE_PARTS, &part) : status;
}

static bool is_gap(const hri_recording *r, const hri_see_part *part) {
    return !strcmp(hri_recording_get_text(r, part->name), HRI_SEE_GAP);
}

/* What categories had at the peak, by what kernels were given; returns their sum. */
static hr_status put_categories(const hri_see_lives *lives, hri_recording *r, uint64_t *sum) {
    uint64_t bytes[HRI_SEE_CATEGORIES] = {0};
    const uint32_t peak = (uint32_t)r->head.peak_op;
    *sum = 0;
    for (size_t i = 0; i < lives->count; i++) {
        const hri_see_life *l = &lives->items[i];
        if (l->birth <= peak && peak < l->death) {
            const hri_see_buffer *b = owner(r, l, peak);
            bytes[b ? b->category : HRI_SEE_OTHER] += l->bytes;
            *sum += l->bytes;
        }
    }
    hri_see_part *part = r->tables[HRI_SEE_PARTS].items;
    for (size_t i = 0; i < r->tables[HRI_SEE_PARTS].count; i++) {
        if (part[i].category != HRI_SEE_RUNTIME && !is_gap(r, &part[i])) {
            part[i].measured_bytes = bytes[part[i].category];
            bytes[part[i].category] = 0;
        }
    }
    hr_status status = HR_OK;
    for (uint8_t c = HRI_SEE_PARAMETERS; c < HRI_SEE_CATEGORIES && status == HR_OK; c++) {
        status = put_part(r, c == HRI_SEE_OTHER ? "not planned" : hri_see_category_name(c), c,
                          bytes[c], "touched by an op, but in no planned buffer");
    }
    return status;
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
                   : put_part(r, HRI_SEE_GAP, HRI_SEE_OTHER, bytes,
                              "gaps between buffers, rounding up, and whole pages");
}

static uint64_t grown(uint64_t before, uint64_t after) {
    return after > before ? after - before : 0;
}

/* What the process grew by while it trained, by what it lies in. */
static hr_status put_growth(const hri_see_watch *w, hri_recording *r, uint64_t *sum) {
    const hri_resident_kinds *b = &w->before, *a = &w->after;
    const struct {
        const char *name, *note;
        uint64_t bytes;
    } rows[] = {{"code and files",
                 "pages of the program and its libraries that were used for the first "
                 "time",
                 grown(b->files_bytes, a->files_bytes)},
                {"heap", "records of the run: calls, names, what looks on",
                 grown(b->heap_bytes, a->heap_bytes)},
                {"stacks and library data", "threads, and what libraries allocated",
                 grown(b->anonymous_bytes + b->stack_bytes, a->anonymous_bytes + a->stack_bytes)}};
    hr_status status = HR_OK;
    *sum = 0;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0] && status == HR_OK; i++) {
        *sum += rows[i].bytes;
        status = put_part(r, rows[i].name, HRI_SEE_RUNTIME, rows[i].bytes, rows[i].note);
    }
    return status;
}

/* Everything but the arena: what was there before, what came since, what nobody owns. */
static hr_status put_outside(const hri_see_watch *w, hri_recording *r, uint64_t outside) {
    const hri_resident_kinds *b = &w->before, *a = &w->after;
    const uint64_t then = b->files_bytes + b->heap_bytes + b->anonymous_bytes + b->stack_bytes;
    const uint64_t now = a->files_bytes + a->heap_bytes + a->anonymous_bytes + a->stack_bytes;
    uint64_t came = 0, known;
    hr_status status = w->host ? put_growth(w, r, &came) : HR_OK;
    known = w->host ? (now > came ? now - came : then) : w->measured.runtime_bytes;
    known = known < outside - (came < outside ? came : outside) ? known : outside - came;
    if (status == HR_OK) {
        status = put_into(r, true, known);
    }
    return status == HR_OK ? put_part(r, "unattributed", HRI_SEE_OTHER, outside - known - came,
                                      "of the process while it trained, with no owner known")
                           : status;
}

static hr_status put_parts(const hri_see_watch *w, const hri_see_lives *lives, hri_recording *r) {
    const hri_measured *m = &w->measured;
    const hri_resident_kinds *a = &w->after;
    uint64_t buffers = 0;
    hr_status status = put_categories(lives, r, &buffers);
    if (status != HR_OK) {
        return status;
    }
    const uint64_t pages = grown(w->before.pages_bytes, a->pages_bytes);
    const uint64_t arena = w->host && pages ? pages : m->arena_bytes;
    const uint64_t other = w->host && pages > m->arena_bytes ? pages - m->arena_bytes : 0;
    const uint64_t all = a->files_bytes + a->heap_bytes + a->stack_bytes + a->anonymous_bytes;
    uint64_t held = w->host ? all + arena : w->held_bytes;
    held = held > arena ? held : arena;
    uint64_t peak = m->peak_bytes > w->held_bytes ? m->peak_bytes : w->held_bytes;
    peak = peak > held ? peak : held;
    status = put_into(r, false, grown(buffers, arena - other));
    if (status == HR_OK) {
        status = put_part(r, "offloaded", HRI_SEE_OTHER, other, "in memory outside the arena");
    }
    if (status == HR_OK) {
        status = put_outside(w, r, held - arena);
    }
    if (status == HR_OK) {
        status = put_part(r, w->peak_before >= peak ? "before the steps" : "at another moment",
                          HRI_SEE_OTHER, peak - held,
                          w->peak_before >= peak ? "held while planning, above what the steps held"
                                                 : "the kernel's peak, above what was held when "
                                                   "the last step was over");
    }
    r->head.measured_peak_bytes = peak;
    return status;
}

hr_status hri_see_watch_measured(const hri_see_watch *w, hri_recording *r) {
    hri_see_lives lives = {0};
    hr_status status = find_lives(w, &lives);
    if (status == HR_OK) {
        status = put_live(w, &lives, r);
    }
    if (status == HR_OK) {
        status = put_parts(w, &lives, r);
    }
    hri_see_lives_deinit(&lives);
    return status;
}
