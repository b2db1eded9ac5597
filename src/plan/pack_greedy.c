/* Greedy packing: put buffers down one by one, in an order that knows something of the problem.
 *
 * No order is safe on all problems, so there is a portfolio.  The decisive one for training steps is "those alive at
 * the peak first": they must all lie side by side anyway, and everything else fits into the gaps they leave. */
#include <stdlib.h>
#include <string.h>

#include "plan/pack_int.h"

/* Larger keys first; ties by position, so that the order is the same everywhere. */
static int by_key(const void *a, const void *b) {
    const hri_pack_key *x = a, *y = b;
    if (x->at_peak != y->at_peak) {
        return y->at_peak - x->at_peak;
    }
    if (x->first != y->first) {
        return x->first < y->first ? 1 : -1;
    }
    if (x->second != y->second) {
        return x->second < y->second ? 1 : -1;
    }
    return x->item < y->item ? -1 : x->item > y->item;
}

static void set_key(const hri_pack_item *item, uint32_t rule, hri_pack_key *k) {
    const double size = (double)item->size, life = item->end - item->begin;
    const double total = (double)item->total;
    switch (rule) {
    case 0:
        k->first = size, k->second = life;
        return;
    case 1:
        k->first = life, k->second = size;
        return;
    case 2:
        k->first = size * life, k->second = size;
        return;
    case 3:
        k->first = -(double)item->begin, k->second = size;
        return;
    case 4:
        k->first = total, k->second = size;
        return;
    default:
        k->first = total, k->second = life;
        return;
    }
}

/* Orders 0 to 5 are the rules; 6 to 11 the same with those alive at the peak in front. */
void hri_pack_order(const hri_pack_problem *p, uint32_t which, hri_pack_key *keys,
                    uint32_t *order) {
    for (uint32_t i = 0; i < p->count; i++) {
        const hri_pack_item *item = &p->items[i];
        keys[i].item = i;
        keys[i].at_peak = which >= 6 && item->begin <= p->peak && p->peak < item->end;
        set_key(item, which % 6, &keys[i]);
    }
    qsort(keys, p->count, sizeof *keys, by_key);
    for (uint32_t i = 0; i < p->count; i++) {
        order[i] = keys[i].item;
    }
}

/* The placed items lie in `placed` by rising offset.  The gaps that matter are those between items that live together
 * with the new one: walk them upwards, with `top` the highest end so far. */
static uint64_t find_offset(const hri_pack_problem *p, const uint64_t *offsets,
                            const uint32_t *placed, uint32_t count, const hri_pack_item *item,
                            hri_pack_fit fit) {
    uint64_t top = 0, best = UINT64_MAX, best_gap = UINT64_MAX;
    for (uint32_t i = 0; i < count; i++) {
        const hri_pack_item *other = &p->items[placed[i]];
        if (!hri_pack_overlap(item, other)) {
            continue;
        }
        const uint64_t at = offsets[placed[i]];
        if (at > top && at - top >= item->size && at - top < best_gap) {
            best = top;
            best_gap = at - top;
            if (fit == HRI_PACK_LOWEST) {
                return best;
            }
        }
        const uint64_t end = at + other->size;
        top = end > top ? end : top;
    }
    return best != UINT64_MAX ? best : top;
}

static void insert_by_offset(const uint64_t *offsets, uint32_t *placed, uint32_t count,
                             uint32_t item) {
    uint32_t low = 0, high = count;
    while (low < high) {
        const uint32_t middle = (low + high) / 2;
        if (offsets[placed[middle]] <= offsets[item]) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    memmove(placed + low + 1, placed + low, (count - low) * sizeof *placed);
    placed[low] = item;
}

uint64_t hri_pack_place(const hri_pack_problem *p, const uint32_t *order, uint32_t start,
                        hri_pack_fit fit, uint64_t stop, uint64_t *offsets, uint32_t *placed) {
    uint64_t height = 0;
    for (uint32_t i = 0; i < start; i++) {
        const uint64_t end = offsets[order[i]] + p->items[order[i]].size;
        height = end > height ? end : height;
    }
    for (uint32_t i = start; i < p->count; i++) {
        const uint32_t id = order[i];
        offsets[id] = find_offset(p, offsets, placed, i, &p->items[id], fit);
        const uint64_t end = offsets[id] + p->items[id].size;
        if (end >= stop) {
            return UINT64_MAX;
        }
        height = end > height ? end : height;
        insert_by_offset(offsets, placed, i, id);
    }
    return height;
}
