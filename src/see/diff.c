/* Matching two recordings; see diff.h. */
#include "see/diff.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "see/group.h"
#include "see/open.h"

const char *hri_see_fate_name(hri_see_fate fate) {
    static const char *const names[HRI_SEE_FATES] = {"same",   "moved", "grew",
                                                     "shrank", "new",   "gone"};
    return names[fate < HRI_SEE_FATES ? fate : HRI_SEE_SAME];
}

double hri_see_growth(const hri_see_change *c) {
    return c->before > 0 ? c->after / c->before - 1 : c->after > 0 ? (double)INFINITY : 0;
}

bool hri_see_diff_over(const hri_see_diff *d, double share) {
    const bool timed = d->step.before > 0 && d->step.after > 0;
    return hri_see_growth(&d->peak) > share || (timed && hri_see_growth(&d->step) > share);
}

hr_status hri_see_share_parse(const char *text, double *out) {
    char *end = NULL;
    const bool digit = (*text >= '0' && *text <= '9') || *text == '.';
    const double percent = digit ? hri_strtod(text, &end) : -1;
    if (!end || end == text || strcmp(end, "%") != 0 || !(percent >= 0 && percent <= 1e6)) {
        return HR_E_INVALID;
    }
    *out = percent / 100;
    return HR_OK;
}

/* ---- rows with names ---- */

/* A list that is being filled: the place of each name in it. */
typedef struct filling {
    hri_see_changes *list;
    hri_arena *arena;
    hri_strmap places;
} filling;

static hr_status put(filling *f, const char *name, double bytes, bool after) {
    uint64_t at = f->list->count;
    if (!hri_strmap_get(&f->places, name, &at)) {
        const hri_see_change fresh = {.name = hri_arena_strdup(f->arena, name)};
        hr_status status =
            fresh.name ? hri_strmap_put(&f->places, fresh.name, at) : HR_E_NOMEM_HOST;
        if (status == HR_OK) {
            status = hri_see_changes_push(f->list, fresh);
        }
        if (status != HR_OK) {
            return status;
        }
    }
    *(after ? &f->list->items[at].after : &f->list->items[at].before) += bytes;
    return HR_OK;
}

static int by_change(const void *a, const void *b) {
    const hri_see_change *x = a, *y = b;
    const double p = fabs(x->after - x->before), q = fabs(y->after - y->before);
    return p != q ? (p > q ? -1 : 1) : strcmp(x->name, y->name);
}

static void sort(hri_see_changes *list) {
    if (list->count) {
        qsort(list->items, list->count, sizeof *list->items, by_change);
    }
}

static hr_status add_parts(hri_see_diff *d) {
    filling f = {.list = &d->parts, .arena = &d->arena};
    hr_status status = HR_OK;
    for (int side = 0; side < 2; side++) {
        const hri_recording *r = side ? d->b : d->a;
        const hri_see_part *part = hri_recording_parts(r);
        for (size_t i = 0; i < r->tables[HRI_SEE_PARTS].count && status == HR_OK; i++) {
            status = put(&f, hri_recording_get_text(r, part[i].name),
                         (double)(r->head.measured_peak_bytes ? part[i].measured_bytes
                                                              : part[i].planned_bytes),
                         side);
        }
    }
    hri_strmap_deinit(&f.places);
    return status;
}

/* Times and, where they are wanted, bytes alive at the peak. */
static hr_status add_groups(hri_see_diff *d, hri_see_by by, hri_see_changes *times,
                            hri_see_changes *bytes) {
    filling t = {.list = times, .arena = &d->arena}, b = {.list = bytes, .arena = &d->arena};
    hr_status status = HR_OK;
    for (int side = 0; side < 2 && status == HR_OK; side++) {
        hri_see_groups g = {.list = {0}};
        status = hri_see_groups_open(side ? d->b : d->a, by, &g);
        for (size_t i = 0; i < g.list.count && status == HR_OK; i++) {
            const hri_see_group *group = &g.list.items[i];
            status = group->ns > 0 ? put(&t, group->name, group->ns, side) : HR_OK;
            if (status == HR_OK && bytes && group->alive_bytes) {
                status = put(&b, group->name, (double)group->alive_bytes, side);
            }
        }
        hri_see_groups_close(&g);
    }
    hri_strmap_deinit(&t.places);
    hri_strmap_deinit(&b.places);
    sort(times);
    if (bytes) {
        sort(bytes);
    }
    return status;
}

/* ---- buffers ---- */

/* Which buffer of A has a name: "category flags name", and which life of it. */
typedef struct matching {
    hri_strmap lives, first; /* how many so far on this side; index + 1 in A of "name#life" */
    unsigned char *taken;    /* by buffer of A */
    hri_text key;
} matching;

/* The key of the next life of a buffer's name. */
static hr_status next_key(matching *m, const hri_recording *r, const hri_see_buffer *b) {
    uint64_t life = 0;
    hri_text_clear(&m->key);
    hri_text_add(&m->key, "%u %u %s", b->category, b->flags & HRI_SEE_PARAMETER_GRADIENT,
                 hri_recording_get_text(r, b->name));
    hr_status status = hri_text_status(&m->key);
    if (status == HR_OK) {
        (void)hri_strmap_get(&m->lives, hri_text_get(&m->key), &life);
        status = hri_strmap_put(&m->lives, hri_text_get(&m->key), life + 1);
    }
    hri_text_add(&m->key, "#%llu", (unsigned long long)life);
    return status == HR_OK ? hri_text_status(&m->key) : status;
}

static hr_status take_a(hri_see_diff *d, matching *m) {
    const hri_see_buffer *b = hri_recording_buffers(d->a);
    hr_status status = HR_OK;
    for (size_t i = 0; i < d->a->tables[HRI_SEE_BUFFERS].count && status == HR_OK; i++) {
        status = next_key(m, d->a, &b[i]);
        if (status == HR_OK) {
            status = hri_strmap_put(&m->first, hri_text_get(&m->key), i);
        }
    }
    return status;
}

static hri_see_fate fate_of(const hri_see_diff *d, const hri_see_buffer *x,
                            const hri_see_buffer *y) {
    const bool always = x->birth == 0 && y->birth == 0 &&
                        x->death == d->a->tables[HRI_SEE_OPS].count &&
                        y->death == d->b->tables[HRI_SEE_OPS].count;
    return y->bytes > x->bytes   ? HRI_SEE_GREW
           : y->bytes < x->bytes ? HRI_SEE_SHRANK
           : y->offset != x->offset || (!always && (y->birth != x->birth || y->death != x->death))
               ? HRI_SEE_MOVED
               : HRI_SEE_SAME;
}

static hr_status add_change(hri_see_diff *d, hri_see_fate fate, const hri_see_buffer *before,
                            const hri_see_buffer *after) {
    d->counts[fate]++;
    return fate == HRI_SEE_SAME ? HR_OK
                                : hri_see_buffer_changes_push(
                                      &d->buffers, (hri_see_buffer_change){fate, before, after});
}

static hr_status take_b(hri_see_diff *d, matching *m) {
    const hri_see_buffer *a = hri_recording_buffers(d->a), *b = hri_recording_buffers(d->b);
    const size_t count = d->b->tables[HRI_SEE_BUFFERS].count;
    hr_status status = HR_OK;
    for (size_t i = 0; i < count && status == HR_OK; i++) {
        uint64_t at = 0;
        status = next_key(m, d->b, &b[i]);
        if (status == HR_OK && hri_strmap_get(&m->first, hri_text_get(&m->key), &at)) {
            m->taken[at] = 1;
            status = add_change(d, fate_of(d, &a[at], &b[i]), &a[at], &b[i]);
        } else if (status == HR_OK) {
            status = add_change(d, HRI_SEE_NEW, NULL, &b[i]);
        }
    }
    for (size_t i = 0; i < d->a->tables[HRI_SEE_BUFFERS].count && status == HR_OK; i++) {
        status = m->taken[i] ? HR_OK : add_change(d, HRI_SEE_GONE, &a[i], NULL);
    }
    return status;
}

static double size_of_change(const hri_see_buffer_change *c) {
    const double before = c->before ? (double)c->before->bytes : 0;
    const double after = c->after ? (double)c->after->bytes : 0;
    return fabs(after - before);
}

static int by_size(const void *a, const void *b) {
    const hri_see_buffer_change *x = a, *y = b;
    const double p = size_of_change(x), q = size_of_change(y);
    const hri_see_buffer *s = x->after ? x->after : x->before, *t = y->after ? y->after : y->before;
    return p != q                   ? (p > q ? -1 : 1)
           : s->bytes != t->bytes   ? (s->bytes > t->bytes ? -1 : 1)
           : s->birth != t->birth   ? (s->birth < t->birth ? -1 : 1)
           : s->offset != t->offset ? (s->offset < t->offset ? -1 : 1)
                                    : 0;
}

static hr_status add_buffers(hri_see_diff *d) {
    matching m = {.taken = hri_calloc(d->a->tables[HRI_SEE_BUFFERS].count + 1, 1)};
    hr_status status = m.taken ? take_a(d, &m) : HR_E_NOMEM_HOST;
    hri_strmap_deinit(&m.lives); /* counted anew on the other side */
    if (status == HR_OK) {
        status = take_b(d, &m);
    }
    if (status == HR_OK && d->buffers.count) {
        qsort(d->buffers.items, d->buffers.count, sizeof *d->buffers.items, by_size);
    }
    hri_strmap_deinit(&m.lives);
    hri_strmap_deinit(&m.first);
    hri_text_deinit(&m.key);
    hri_free(m.taken);
    return status;
}

/* ---- the whole ---- */

static double peak_of(const hri_recording *r) {
    return (double)(r->head.measured_peak_bytes ? r->head.measured_peak_bytes : r->head.peak_bytes);
}

static double step_of(const hri_recording *r) {
    return r->head.measured_step_ns > 0 ? r->head.measured_step_ns : r->head.step_ns;
}

hr_status hri_see_diff_open(const hri_recording *a, const hri_recording *b, hri_see_diff *out) {
    hri_see_diff d = {.a = a,
                      .b = b,
                      .peak = {"peak", peak_of(a), peak_of(b)},
                      .step = {"step time", step_of(a), step_of(b)}};
    hr_status status = add_parts(&d);
    if (status == HR_OK) {
        status = add_groups(&d, HRI_SEE_BY_LAYER, &d.layers, &d.layer_bytes);
    }
    if (status == HR_OK) {
        status = add_groups(&d, HRI_SEE_BY_KIND, &d.kinds, NULL);
    }
    if (status == HR_OK) {
        status = add_buffers(&d);
    }
    if (status != HR_OK) {
        hri_see_diff_close(&d);
        return status;
    }
    *out = d;
    return HR_OK;
}

hr_status hri_see_diff_files(const char *a, const char *b, hri_see_diff *out, hri_prose *why) {
    hri_recording own[2] = {{.truncated = false}, {.truncated = false}};
    hr_status status = hri_see_open(a, &own[0], why);
    if (status == HR_OK) {
        status = hri_see_open(b, &own[1], why);
    }
    if (status == HR_OK) {
        status = hri_see_diff_open(&own[0], &own[1], out);
    }
    if (status != HR_OK) {
        hri_recording_deinit(&own[0]);
        hri_recording_deinit(&own[1]);
        return status;
    }
    memcpy(out->own, own, sizeof own);
    out->a = &out->own[0];
    out->b = &out->own[1];
    return HR_OK;
}

void hri_see_diff_close(hri_see_diff *d) {
    hri_recording_deinit(&d->own[0]);
    hri_recording_deinit(&d->own[1]);
    hri_see_changes_deinit(&d->parts);
    hri_see_changes_deinit(&d->layers);
    hri_see_changes_deinit(&d->kinds);
    hri_see_changes_deinit(&d->layer_bytes);
    hri_see_buffer_changes_deinit(&d->buffers);
    hri_arena_deinit(&d->arena);
}
