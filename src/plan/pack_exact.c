/* Exact packing: is there a packing of height C?  Depth-first search with inference.
 *
 * The one idea is a normal form.  Every packing can be pushed down until each buffer rests on the bottom or on another
 * one, and its buffers listed by rising offset; ties are listed by a fixed preorder.  So it is enough to build packings
 * in that order, putting each next buffer at the lowest place that those below allow (its `low`).  What prunes:
 *   order       no buffer is put lower than the last one was
 *   room        in each section, everything still to come lies above both the last offset and the section's floor:
 *               floor + what is left must not exceed C
 *   dominance   a buffer that could sit under the candidate without touching it goes first
 *   no hat      a buffer with nothing left to lie above it cannot be the reason of a failure: its siblings are not tried
 *   parts       when no buffer left crosses some moment, both sides are solved apart
 *
 * Recursion is one level a buffer; the caller keeps problems small. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "plan/pack_int.h"

typedef struct undo {
    uint32_t index;
    uint64_t value;
} undo;

typedef struct exact {
    const hri_pack_problem *p;
    uint64_t capacity;
    uint64_t nodes_left;
    int gave_up;
    uint32_t *rank;      /* (count): place in the preorder */
    uint64_t *low;       /* (count): the lowest offset still possible, for those not placed */
    uint64_t *offset;    /* (count) */
    uint64_t *floor;     /* (sections): the end of the highest placed */
    uint64_t *left;      /* (sections): bytes not placed yet */
    uint64_t *rest_low;  /* (sections): scratch, the least low of those not placed */
    uint32_t *neighbors; /* lists of overlapping items, one after another */
    uint32_t *first;     /* (count + 1): where each list begins */
    uint8_t *placed;     /* (count) */
    undo *trail;         /* values of low to put back */
    size_t trail_count, trail_capacity;
    uint32_t *stack; /* lists of items, a level each */
    size_t stack_count, stack_capacity;
    uint64_t *saved; /* floors to put back, a level each */
    size_t saved_count, saved_capacity;
    size_t neighbor_count;
    hr_status status;
} exact;

/* May the lists grow to so many items?  What would take more memory than all of it may is given up. */
static int may_grow(exact *e, size_t trail, size_t stack, size_t saved) {
    const size_t bytes = e->neighbor_count * sizeof *e->neighbors + trail * sizeof *e->trail +
                         stack * sizeof *e->stack + saved * sizeof *e->saved;
    e->gave_up |= bytes > HRI_PACK_EXACT_BYTES;
    return !e->gave_up;
}

static int push_trail(exact *e, uint32_t index) {
    if (e->trail_count == e->trail_capacity) {
        const size_t capacity = e->trail_capacity ? e->trail_capacity * 2 : 1024;
        if (!may_grow(e, capacity, e->stack_capacity, e->saved_capacity)) {
            return 0;
        }
        undo *trail = hri_realloc(e->trail, capacity * sizeof *trail);
        if (!trail) {
            e->status = HR_E_NOMEM_HOST;
            return 0;
        }
        e->trail = trail;
        e->trail_capacity = capacity;
    }
    e->trail[e->trail_count++] = (undo){index, e->low[index]};
    return 1;
}

/* Room for `count` more on the stack of lists; lists are named by position, since the stack moves as it grows. */
static int push_list(exact *e, size_t count, size_t *at) {
    if (e->stack_count + count > e->stack_capacity) {
        const size_t capacity = (e->stack_count + count) * 2;
        if (!may_grow(e, e->trail_capacity, capacity, e->saved_capacity)) {
            return 0;
        }
        uint32_t *stack = hri_realloc(e->stack, capacity * sizeof *stack);
        if (!stack) {
            e->status = HR_E_NOMEM_HOST;
            return 0;
        }
        e->stack = stack;
        e->stack_capacity = capacity;
    }
    *at = e->stack_count;
    e->stack_count += count;
    return 1;
}

/* Puts `id` at its low: floors, what is left, and the lows of those that must lie above it. */
static int put(exact *e, uint32_t id) {
    const hri_pack_item *item = &e->p->items[id];
    const uint64_t end = e->low[id] + item->size;
    e->offset[id] = e->low[id];
    e->placed[id] = 1;
    for (uint32_t s = item->begin; s < item->end; s++) {
        e->floor[s] = end; /* rising order: never lower than before */
        e->left[s] -= item->size;
    }
    for (uint32_t n = e->first[id]; n < e->first[id + 1]; n++) {
        const uint32_t other = e->neighbors[n];
        if (!e->placed[other] && e->low[other] < end) {
            if (!push_trail(e, other)) {
                return 0;
            }
            e->low[other] = end;
        }
    }
    return 1;
}

/* The sections that the items of a list cover. */
static void span_of(const exact *e, const uint32_t *list, uint32_t count, uint32_t *begin,
                    uint32_t *end) {
    *begin = UINT32_MAX;
    *end = 0;
    for (uint32_t i = 0; i < count; i++) {
        const hri_pack_item *item = &e->p->items[list[i]];
        *begin = item->begin < *begin ? item->begin : *begin;
        *end = item->end > *end ? item->end : *end;
    }
}

static int save_floors(exact *e, uint32_t begin, uint32_t end) {
    const size_t count = end - begin;
    if (e->saved_count + count > e->saved_capacity) {
        const size_t capacity = (e->saved_count + count) * 2;
        if (!may_grow(e, e->trail_capacity, e->stack_capacity, capacity)) {
            return 0;
        }
        uint64_t *saved = hri_realloc(e->saved, capacity * sizeof *saved);
        if (!saved) {
            e->status = HR_E_NOMEM_HOST;
            return 0;
        }
        e->saved = saved;
        e->saved_capacity = capacity;
    }
    memcpy(e->saved + e->saved_count, e->floor + begin, count * sizeof *e->saved);
    e->saved_count += count;
    return 1;
}

/* Undoes all that happened to the items of the list since the marks: a part that was solved before another failed
 * included. */
static void take_back(exact *e, size_t list_at, uint32_t count, size_t trail_mark,
                      const uint64_t *floors, uint32_t begin, uint32_t end) {
    while (e->trail_count > trail_mark) {
        e->trail_count--;
        e->low[e->trail[e->trail_count].index] = e->trail[e->trail_count].value;
    }
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t id = e->stack[list_at + i];
        if (e->placed[id]) {
            e->placed[id] = 0;
            for (uint32_t s = e->p->items[id].begin; s < e->p->items[id].end; s++) {
                e->left[s] += e->p->items[id].size;
            }
        }
    }
    memcpy(e->floor + begin, floors, (end - begin) * sizeof *floors);
}

/* Whether what is left can fit above `least` in every section of the part. */
static int has_room(exact *e, const uint32_t *list, uint32_t count, uint64_t least) {
    uint32_t begin, end;
    span_of(e, list, count, &begin, &end);
    for (uint32_t s = begin; s < end; s++) {
        e->rest_low[s] = UINT64_MAX;
    }
    for (uint32_t i = 0; i < count; i++) {
        const hri_pack_item *item = &e->p->items[list[i]];
        const uint64_t low = e->low[list[i]] > least ? e->low[list[i]] : least;
        if (low + item->size > e->capacity) {
            return 0;
        }
        for (uint32_t s = item->begin; s < item->end; s++) {
            e->rest_low[s] = low < e->rest_low[s] ? low : e->rest_low[s];
        }
    }
    for (uint32_t s = begin; s < end; s++) {
        if (e->rest_low[s] != UINT64_MAX) {
            const uint64_t base = e->floor[s] > e->rest_low[s] ? e->floor[s] : e->rest_low[s];
            if (base + e->left[s] > e->capacity) {
                return 0;
            }
        }
    }
    return 1;
}

static int has_hat(const exact *e, uint32_t id) {
    for (uint32_t n = e->first[id]; n < e->first[id + 1]; n++) {
        if (!e->placed[e->neighbors[n]]) {
            return 1;
        }
    }
    return 0;
}

static int search(exact *e, size_t list_at, uint32_t count, uint64_t last, uint32_t last_rank);

/* Solves the parts between moments that nothing left crosses.  The list is ordered by begin. */
static int search_parts(exact *e, size_t list_at, uint32_t count, uint64_t last,
                        uint32_t last_rank) {
    uint32_t from = 0;
    while (from < count) {
        uint32_t to = from, end = 0;
        do {
            const hri_pack_item *item = &e->p->items[e->stack[list_at + to]];
            end = item->end > end ? item->end : end;
            to++;
        } while (to < count && e->p->items[e->stack[list_at + to]].begin < end);
        if (!search(e, list_at + from, to - from, last, last_rank)) {
            return 0;
        }
        from = to;
    }
    return 1;
}

/* The candidates of a node by (low, rank), worked out one after another: the first often does. */
static uint32_t next_candidate(const exact *e, size_t list_at, uint32_t count, uint64_t after_low,
                               uint32_t after_rank, uint64_t below) {
    uint32_t best = UINT32_MAX;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t id = e->stack[list_at + i];
        const uint64_t low = e->low[id];
        if (low >= below || low < after_low ||
            (low == after_low && e->rank[id] <= after_rank && after_rank != UINT32_MAX)) {
            continue;
        }
        if (best == UINT32_MAX || low < e->low[best] ||
            (low == e->low[best] && e->rank[id] < e->rank[best])) {
            best = id;
        }
    }
    return best;
}

static int try_candidate(exact *e, uint32_t id, size_t list_at, uint32_t count) {
    const size_t trail_mark = e->trail_count, stack_mark = e->stack_count;
    const size_t saved_mark = e->saved_count;
    size_t rest_at;
    uint32_t begin, end;
    span_of(e, e->stack + list_at, count, &begin, &end);
    if (!save_floors(e, begin, end)) {
        return 0;
    }
    int found = 0;
    if (put(e, id) && push_list(e, count - 1, &rest_at)) {
        for (uint32_t i = 0, k = 0; i < count; i++) {
            if (e->stack[list_at + i] != id) {
                e->stack[rest_at + k++] = e->stack[list_at + i];
            }
        }
        found = has_room(e, e->stack + rest_at, count - 1, e->offset[id]) &&
                search_parts(e, rest_at, count - 1, e->offset[id], e->rank[id]);
        e->stack_count = stack_mark;
    }
    if (!found) {
        take_back(e, list_at, count, trail_mark, e->saved + saved_mark, begin, end);
    }
    e->saved_count = saved_mark;
    return found;
}

static int search(exact *e, size_t list_at, uint32_t count, uint64_t last, uint32_t last_rank) {
    if (count == 0) {
        return 1;
    }
    uint64_t below = UINT64_MAX;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t id = e->stack[list_at + i];
        const uint64_t end = e->low[id] + e->p->items[id].size;
        /* one that was passed over waits to be raised: it cannot go under anything now */
        const int passed_over =
            e->low[id] < last ||
            (e->low[id] == last && last_rank != UINT32_MAX && e->rank[id] <= last_rank);
        below = !passed_over && end < below ? end : below;
    }
    uint64_t after_low = last;
    uint32_t after_rank = last_rank;
    for (;;) {
        const uint32_t id = next_candidate(e, list_at, count, after_low, after_rank, below);
        if (id == UINT32_MAX) {
            return 0;
        }
        if (e->nodes_left == 0) {
            e->gave_up = 1;
            return 0;
        }
        e->nodes_left--;
        after_low = e->low[id];
        after_rank = e->rank[id];
        if (try_candidate(e, id, list_at, count)) {
            return 1;
        }
        if (e->gave_up || e->status != HR_OK || !has_hat(e, id)) {
            return 0;
        }
    }
}

/* ---- set-up ---- */

typedef struct ranked {
    double a, b, c;
    uint32_t item;
} ranked;

static int by_rank(const void *x, const void *y) {
    const ranked *p = x, *q = y;
    if (p->a != q->a) {
        return p->a < q->a ? 1 : -1;
    }
    if (p->b != q->b) {
        return p->b < q->b ? 1 : -1;
    }
    if (p->c != q->c) {
        return p->c < q->c ? 1 : -1;
    }
    return p->item < q->item ? -1 : p->item > q->item;
}

/* Preorders over width (life), area and total (the most alive around it): which is good differs by problem. */
static hr_status rank_items(exact *e, uint32_t preorder) {
    const hri_pack_problem *p = e->p;
    ranked *list = hri_malloc(p->count * sizeof *list);
    if (!list) {
        return HR_E_NOMEM_HOST;
    }
    for (uint32_t i = 0; i < p->count; i++) {
        const double width = p->items[i].end - p->items[i].begin;
        const double area = width * (double)p->items[i].size, total = (double)p->items[i].total;
        list[i] = preorder == 0   ? (ranked){area, total, width, i}
                  : preorder == 1 ? (ranked){total, width, area, i}
                  : preorder == 2 ? (ranked){width, area, total, i}
                                  : (ranked){total, area, width, i};
    }
    qsort(list, p->count, sizeof *list, by_rank);
    for (uint32_t i = 0; i < p->count; i++) {
        e->rank[list[i].item] = i;
    }
    hri_free(list);
    return HR_OK;
}

static hr_status list_neighbors(exact *e) {
    const hri_pack_problem *p = e->p;
    for (int pass = 0; pass < 2; pass++) {
        uint32_t at = 0;
        for (uint32_t i = 0; i < p->count; i++) {
            e->first[i] = at;
            for (uint32_t k = 0; k < p->count; k++) {
                if (k != i && hri_pack_overlap(&p->items[i], &p->items[k])) {
                    if (pass) {
                        e->neighbors[at] = k;
                    }
                    at++;
                }
            }
        }
        e->first[p->count] = at;
        if (!pass) {
            e->neighbor_count = at;
            if (!may_grow(e, 0, 0, 0)) {
                return HR_OK;
            }
            e->neighbors = hri_malloc(((size_t)at + 1) * sizeof *e->neighbors);
            if (!e->neighbors) {
                return HR_E_NOMEM_HOST;
            }
        }
    }
    return HR_OK;
}

static void exact_deinit(exact *e) {
    hri_free(e->rank);
    hri_free(e->low);
    hri_free(e->offset);
    hri_free(e->floor);
    hri_free(e->left);
    hri_free(e->rest_low);
    hri_free(e->neighbors);
    hri_free(e->first);
    hri_free(e->placed);
    hri_free(e->trail);
    hri_free(e->stack);
    hri_free(e->saved);
}

static hr_status exact_init(exact *e, uint32_t preorder) {
    const hri_pack_problem *p = e->p;
    const size_t n = p->count, m = p->sections;
    e->rank = hri_calloc(n, sizeof *e->rank);
    e->low = hri_calloc(n, sizeof *e->low);
    e->offset = hri_calloc(n, sizeof *e->offset);
    e->floor = hri_calloc(m, sizeof *e->floor);
    e->left = hri_calloc(m, sizeof *e->left);
    e->rest_low = hri_calloc(m, sizeof *e->rest_low);
    e->first = hri_calloc(n + 1, sizeof *e->first);
    e->placed = hri_calloc(n, sizeof *e->placed);
    if (!e->rank || !e->low || !e->offset || !e->floor || !e->left || !e->rest_low || !e->first ||
        !e->placed) {
        return HR_E_NOMEM_HOST;
    }
    memcpy(e->left, p->live, m * sizeof *e->left);
    const hr_status status = list_neighbors(e);
    return status == HR_OK ? rank_items(e, preorder) : status;
}

hr_status hri_pack_exact(const hri_pack_problem *p, uint64_t capacity, uint32_t preorder,
                         uint64_t nodes, uint64_t *offsets, hri_pack_verdict *verdict) {
    exact e = {.p = p, .capacity = capacity, .nodes_left = nodes};
    if (p->lower_bound > capacity) {
        *verdict = HRI_PACK_NONE;
        return HR_OK;
    }
    hr_status status = exact_init(&e, preorder);
    size_t list_at;
    if (status == HR_OK && (e.gave_up || !push_list(&e, p->count, &list_at))) {
        status = e.status;
        *verdict = HRI_PACK_GAVE_UP;
    } else if (status == HR_OK) {
        for (uint32_t i = 0; i < p->count; i++) {
            e.stack[list_at + i] = i; /* items are ordered by begin */
        }
        const int found = search_parts(&e, list_at, p->count, 0, UINT32_MAX);
        status = e.status;
        if (found) {
            memcpy(offsets, e.offset, p->count * sizeof *offsets);
        }
        *verdict = found ? HRI_PACK_FOUND : e.gave_up ? HRI_PACK_GAVE_UP : HRI_PACK_NONE;
    }
    exact_deinit(&e);
    return status;
}
