/* Coarse packing: where a few hundred large buffers make the height and a thousand small ones fill a fraction of a
 * percent, exact search over all of them drowns in the small ones.  So the large ones are packed alone, and the small
 * ones go into the gaps, largest first. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "plan/pack_int.h"

enum { LARGE_MOST = 600, HEIGHTS = 4 };

/* The problem of the large ones; sections are those of the whole. */
typedef struct large {
    hri_pack_problem p;
    uint64_t *offsets;
} large;

static void large_deinit(large *l) {
    hri_free(l->p.items);
    hri_free(l->p.source);
    hri_free(l->p.live);
    hri_free(l->offsets);
}

static hr_status large_init(large *l, const hri_pack_problem *p, uint64_t least) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < p->count; i++) {
        count += p->items[i].size >= least;
    }
    l->p.count = count;
    l->p.sections = p->sections;
    if (count == 0 || count == p->count || count > LARGE_MOST) {
        return HR_OK;
    }
    l->p.items = hri_calloc(count, sizeof *l->p.items);
    l->p.source = hri_calloc(count, sizeof *l->p.source);
    l->p.live = hri_calloc((size_t)p->sections + 1, sizeof *l->p.live);
    l->offsets = hri_calloc(count, sizeof *l->offsets);
    if (!l->p.items || !l->p.source || !l->p.live || !l->offsets) {
        return HR_E_NOMEM_HOST;
    }
    for (uint32_t i = 0, n = 0; i < p->count; i++) {
        if (p->items[i].size >= least) {
            l->p.source[n] = i;
            l->p.items[n] = p->items[i];
            l->p.items[n++].total = 0;
            for (uint32_t s = p->items[i].begin; s < p->items[i].end; s++) {
                l->p.live[s] += p->items[i].size;
            }
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        hri_pack_item *item = &l->p.items[i];
        for (uint32_t s = item->begin; s < item->end; s++) {
            item->total = l->p.live[s] > item->total ? l->p.live[s] : item->total;
        }
        l->p.lower_bound = item->total > l->p.lower_bound ? item->total : l->p.lower_bound;
    }
    return HR_OK;
}

/* The bound first, then a little more room each time: one part in 1,024, 256, 64. */
static hr_status pack_large(large *l, uint64_t nodes, uint64_t stop, int *found) {
    *found = 0;
    for (uint32_t h = 0; h < HEIGHTS && !*found; h++) {
        const uint64_t height = l->p.lower_bound + (h ? l->p.lower_bound >> (12 - 2 * h) : 0);
        if (height >= stop) {
            return HR_OK;
        }
        hri_pack_verdict verdict;
        uint64_t share = nodes / HEIGHTS + 1;
        const hr_status status =
            hri_pack_exact(&l->p, height, HRI_PACK_EXACT_BYTES, &share, l->offsets, &verdict);
        if (status != HR_OK) {
            return status;
        }
        *found = verdict == HRI_PACK_FOUND;
    }
    return HR_OK;
}

typedef struct sized {
    uint64_t key;
    uint32_t item;
} sized;

static int larger_first(const void *a, const void *b) {
    const sized *x = a, *y = b;
    if (x->key != y->key) {
        return x->key < y->key ? 1 : -1;
    }
    return x->item < y->item ? -1 : x->item > y->item;
}

/* Large ones by rising offset into `placed`, then the small ones by falling size. */
static hr_status place_small(const hri_pack_problem *p, const large *l, uint64_t stop,
                             uint64_t *offsets, uint32_t *order, uint32_t *placed,
                             uint64_t *height) {
    const uint32_t count = l->p.count;
    sized *list = hri_malloc(p->count * sizeof *list);
    uint8_t *is_large = hri_calloc(p->count, sizeof *is_large);
    if (!list || !is_large) {
        hri_free(list);
        hri_free(is_large);
        return HR_E_NOMEM_HOST;
    }
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t id = l->p.source[i];
        is_large[id] = 1;
        offsets[id] = l->offsets[i];
        list[i] = (sized){UINT64_MAX - l->offsets[i], id};
    }
    qsort(list, count, sizeof *list, larger_first);
    for (uint32_t i = 0, n = count; i < p->count; i++) {
        if (!is_large[i]) {
            list[n++] = (sized){p->items[i].size, i};
        }
    }
    qsort(list + count, p->count - count, sizeof *list, larger_first);
    for (uint32_t i = 0; i < p->count; i++) {
        order[i] = list[i].item;
        placed[i] = i < count ? list[i].item : 0;
    }
    hri_free(list);
    hri_free(is_large);
    *height = hri_pack_place(p, order, count, HRI_PACK_TIGHTEST, stop, offsets, placed);
    return HR_OK;
}

hr_status hri_pack_coarse(const hri_pack_problem *p, uint64_t least, uint64_t nodes, uint64_t stop,
                          uint64_t *offsets, uint32_t *order, uint32_t *placed, uint64_t *height) {
    large l = {.offsets = NULL};
    int found = 0;
    *height = UINT64_MAX;
    hr_status status = large_init(&l, p, least);
    if (status == HR_OK && l.offsets) {
        status = pack_large(&l, nodes, stop, &found);
    }
    if (status == HR_OK && found) {
        status = place_small(p, &l, stop, offsets, order, placed, height);
    }
    large_deinit(&l);
    return status;
}
