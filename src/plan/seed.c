/* Recursive cutting of the forward part: see seed.h. */
#include "plan/seed.h"

#include <string.h>

#include "base/alloc.h"

enum { LEVELS = HRI_GAP_MOST - 1 };

typedef struct cutter {
    hri_schedule *s;
    uint32_t end;     /* the position of the first backward op */
    uint64_t *cross;  /* by position t: bytes made before t that forward ops from t on read */
    uint64_t *made;   /* by position: bytes made before it */
    uint8_t *level;   /* by value: the pass from which on it is kept */
    uint8_t *crosses; /* by value: it crosses a cut */
    uint64_t leaf_bytes, small_bytes;
} cutter;

/* The last forward op that reads v, as a position; 0: none. */
static uint32_t last_forward_use(const cutter *h, uint32_t v) {
    const hri_problem_value *value = &h->s->p->values[v];
    uint32_t last = 0;
    for (uint32_t i = 0; i < value->use_count; i++) {
        const uint32_t at = h->s->use_at[value->use_first + i];
        last = at < h->end && at > last ? at : last;
    }
    return last;
}

static void count_bytes(cutter *h) {
    const hri_problem *p = h->s->p;
    for (uint32_t t = 0; t < h->end; t++) {
        const hri_problem_op *op = &p->ops[h->s->order[t]];
        for (uint32_t k = 0; k < op->out_count; k++) {
            const uint32_t v = op->out[k].value;
            if (h->s->fixed[v]) {
                continue;
            }
            const uint32_t last = last_forward_use(h, v);
            h->made[t + 1] += p->values[v].room_bytes;
            for (uint32_t i = t + 1; i <= last; i++) {
                h->cross[i] += p->values[v].room_bytes;
            }
        }
        h->made[t + 1] += h->made[t];
    }
}

/* The right part's share of the bytes, for c checkpoints and pieces of leaf_bytes: c / (c + r) for the least r passes
 * that serve all pieces. */
static double right_share(const cutter *h, uint32_t a, uint32_t b, uint32_t c) {
    const double pieces =
        (double)(h->made[b] - h->made[a]) / (double)(h->leaf_bytes ? h->leaf_bytes : 1);
    double served = 1;
    uint32_t r = 0;
    while (served < pieces && r < LEVELS) {
        r++;
        served *= (double)(c + r) / r;
    }
    return (double)c / (double)(c + (r ? r : 1));
}

/* Near the place that leaves `right` bytes on the right, where least crosses. */
static uint32_t find_cut(const cutter *h, uint32_t a, uint32_t b, double right) {
    const double all = (double)(h->made[b] - h->made[a]);
    uint32_t best = 0, nearest = 0;
    double distance = 0;
    for (uint32_t t = a + 1; t < b; t++) {
        const double off = (double)(h->made[b] - h->made[t]) - right;
        const double far = off < 0 ? -off : off;
        if (nearest == 0 || far < distance) {
            nearest = t;
            distance = far;
        }
        if (far <= 0.15 * all && (best == 0 || h->cross[t] < h->cross[best])) {
            best = t;
        }
    }
    return best ? best : nearest;
}

/* Marks the values that ops of [a, b) make: those that cross the cut at t, or (t == b) all of them. */
static void mark(cutter *h, uint32_t a, uint32_t b, uint32_t t, uint8_t level) {
    for (uint32_t i = a; i < (t < b ? t : b); i++) {
        const hri_problem_op *op = &h->s->p->ops[h->s->order[i]];
        for (uint32_t k = 0; k < op->out_count; k++) {
            const uint32_t v = op->out[k].value;
            const int crosses = t < b && last_forward_use(h, v) >= t;
            if (crosses || t == b) {
                h->level[v] = level < h->level[v] ? level : h->level[v];
                h->crosses[v] |= (uint8_t)crosses;
            }
        }
    }
}

static void cut(cutter *h, uint32_t a, uint32_t b, uint8_t level, uint32_t c) {
    while (level < LEVELS && b - a > 1 && h->made[b] - h->made[a] > h->leaf_bytes) {
        const double all = (double)(h->made[b] - h->made[a]);
        const double right = c ? all * right_share(h, a, b, c) : (double)h->leaf_bytes;
        const uint32_t t = find_cut(h, a, b, right);
        if (t == 0) {
            break;
        }
        if (c) {
            mark(h, a, b, t, level);
            cut(h, t, b, level, c - 1); /* c falls, so this ends */
        } else {
            mark(h, t, b, b, level);
        }
        b = t;
        level++;
    }
    mark(h, a, b, b, level);
}

static void set_gaps(cutter *h) {
    hri_schedule *s = h->s;
    for (uint32_t v = 0; v < s->p->value_count; v++) {
        const hri_problem_value *value = &s->p->values[v];
        if (!hri_schedule_can_drop(s, v) || s->position[value->producer] >= h->end ||
            value->room_bytes <= h->small_bytes) {
            continue;
        }
        uint32_t k = 0;
        while (k < value->use_count && s->use_at[value->use_first + k] < h->end) {
            k++;
        }
        const int tail = k == value->use_count;
        s->gaps[hri_gap_of(s->p, v, k)] = tail && !h->crosses[v] ? HRI_GAP_MOST : h->level[v];
    }
}

hr_status hri_seed_nested(hri_schedule *s, uint32_t checkpoints, uint64_t leaf_bytes,
                          uint64_t small_bytes) {
    cutter h = {
        .s = s, .end = s->p->op_count, .leaf_bytes = leaf_bytes, .small_bytes = small_bytes};
    for (uint32_t t = s->p->op_count; t-- > 0;) {
        h.end = s->p->ops[s->order[t]].phase == HRI_PROBLEM_BACKWARD ? t : h.end;
    }
    h.cross = hri_calloc((size_t)h.end + 2, sizeof *h.cross);
    h.made = hri_calloc((size_t)h.end + 2, sizeof *h.made);
    h.level = hri_malloc((size_t)s->p->value_count + 1);
    h.crosses = hri_calloc((size_t)s->p->value_count + 1, 1);
    const hr_status status = h.cross && h.made && h.level && h.crosses ? HR_OK : HR_E_NOMEM_HOST;
    if (status == HR_OK) {
        memset(h.level, LEVELS + 1, s->p->value_count);
        count_bytes(&h);
        cut(&h, 0, h.end, 0, checkpoints);
        set_gaps(&h);
    }
    hri_free(h.cross);
    hri_free(h.made);
    hri_free(h.level);
    hri_free(h.crosses);
    return status;
}
