/* Lifetimes from accesses, and how they compare with a plan's; see alive.h. */
#include "see/alive.h"

#include <stdlib.h>

/* A range that holds something; they do not overlap, and are sorted by address. */
typedef struct open_range {
    uint64_t at, bytes;
    uint32_t birth, last;
    uint32_t read_by; /* the op that read it last */
    uint8_t keep;
} open_range;

HRI_VECTOR(open_ranges, open_range)

typedef struct tracing {
    open_ranges open;
    hri_see_lives *lives;
} tracing;

/* The first range that ends behind `at`. */
static size_t first_behind(const tracing *t, uint64_t at) {
    size_t from = 0, to = t->open.count;
    while (from < to) {
        const size_t middle = from + (to - from) / 2;
        const open_range *o = &t->open.items[middle];
        if (o->at + o->bytes <= at) {
            from = middle + 1;
        } else {
            to = middle;
        }
    }
    return from;
}

static hr_status insert(tracing *t, size_t place, open_range item) {
    const hr_status status = open_ranges_push(&t->open, item);
    if (status == HR_OK) {
        open_range *at = t->open.items + place;
        memmove(at + 1, at, (t->open.count - 1 - place) * sizeof *at);
        *at = item;
    }
    return status;
}

static hr_status end_life(tracing *t, const open_range *o, uint32_t death) {
    const hri_see_life life = {o->at, o->bytes, o->birth, death};
    return death > o->birth ? hri_see_lives_push(t->lives, life) : HR_OK;
}

static bool is_known(const tracing *t, uint64_t at, uint64_t bytes) {
    for (size_t i = 0; i < t->lives->count; i++) {
        const hri_see_life *l = &t->lives->items[i];
        if (l->death == UINT32_MAX && l->at == at && l->bytes == bytes) {
            return true;
        }
    }
    return false;
}

/* Two values may share persistent bytes: a parameter under two names. */
static hr_status keep(tracing *t, const hri_see_touch *x) {
    const size_t place = first_behind(t, x->at);
    if (place < t->open.count && t->open.items[place].at < x->at + x->bytes) {
        return HR_OK;
    }
    hr_status status = insert(t, place, (open_range){.at = x->at, .bytes = x->bytes, .keep = 1});
    if (status == HR_OK && !is_known(t, x->at, x->bytes)) {
        status = hri_see_lives_push(t->lives, (hri_see_life){x->at, x->bytes, 0, UINT32_MAX});
    }
    return status;
}

static void read_range(tracing *t, const hri_see_touch *x) {
    for (size_t i = first_behind(t, x->at);
         i < t->open.count && t->open.items[i].at < x->at + x->bytes; i++) {
        t->open.items[i].last = x->op;
        t->open.items[i].read_by = x->op;
    }
}

/* What lay there is over: with the op before when this op overwrites what it reads, else when it was last read. */
static hr_status write_range(tracing *t, const hri_see_touch *x) {
    const size_t place = first_behind(t, x->at);
    hr_status status = HR_OK;
    while (place < t->open.count && t->open.items[place].at < x->at + x->bytes && status == HR_OK) {
        const open_range o = t->open.items[place];
        if (o.keep || (o.birth == x->op && o.at == x->at && o.bytes == x->bytes)) {
            return HR_OK;
        }
        const bool in_place = o.read_by == x->op && o.birth != x->op;
        status = end_life(t, &o, in_place ? x->op : o.last + 1);
        open_ranges_remove(&t->open, place);
    }
    const open_range item = {x->at, x->bytes, x->op, x->op, UINT32_MAX, 0};
    return status == HR_OK ? insert(t, place, item) : status;
}

hr_status hri_see_alive(const hri_see_touch *touches, size_t count, uint32_t end_op,
                        hri_see_lives *lives) {
    tracing t = {.lives = lives};
    hr_status status = HR_OK;
    for (size_t i = 0; i < count && status == HR_OK; i++) {
        const hri_see_touch *x = &touches[i];
        switch ((hri_touch_how)x->how) {
        case HRI_TOUCH_KEEP:
            status = keep(&t, x);
            break;
        case HRI_TOUCH_READ:
            read_range(&t, x);
            break;
        case HRI_TOUCH_WRITE:
            status = write_range(&t, x);
            break;
        }
    }
    for (size_t i = 0; i < t.open.count && status == HR_OK; i++) {
        const open_range *o = &t.open.items[i];
        status = o->keep ? HR_OK : end_life(&t, o, o->last + 1 < end_op ? o->last + 1 : end_op);
    }
    open_ranges_deinit(&t.open);
    return status;
}

/* ---- beside the plan ---- */

hr_status hri_see_agree(const hri_recording *r, hri_see_agreement *out) {
    const size_t count = r->tables[HRI_SEE_OPS].count;
    const hri_see_op *op = hri_recording_ops(r);
    const hri_see_buffer *b = hri_recording_buffers(r);
    hri_see_agreement a = {.ops = 0};
    uint64_t *planned = hri_calloc(count + 1, sizeof *planned);
    if (!planned) {
        return HR_E_NOMEM_HOST;
    }
    for (size_t i = 0; i < r->tables[HRI_SEE_BUFFERS].count; i++) {
        const uint64_t bytes = b[i].asked_bytes ? b[i].asked_bytes : b[i].bytes;
        planned[b[i].birth] += bytes;
        planned[b[i].death] -= bytes; /* wraps back */
    }
    for (size_t i = 0; i < count; i++) {
        planned[i] += i ? planned[i - 1] : 0;
        if (!op[i].live_bytes) {
            continue;
        }
        const bool equal = planned[i] == op[i].live_bytes;
        const bool all = a.equal == a.ops;
        if ((!equal && all) || (equal && all && planned[i] > a.planned_bytes)) {
            a.first_different = i;
            a.planned_bytes = planned[i];
            a.measured_bytes = op[i].live_bytes;
        }
        a.ops++;
        a.equal += equal;
    }
    hri_free(planned);
    *out = a;
    return HR_OK;
}
