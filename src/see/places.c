/* Merging ranges; see places.h. */
#include "see/places.h"

#include <stdlib.h>

hr_status hri_see_places_add(hri_see_places *p, uint64_t from, uint64_t bytes) {
    const uint64_t to = bytes > UINT64_MAX - from ? UINT64_MAX : from + bytes;
    return hri_see_places_push(p, (hri_see_place){.from = from, .to = to});
}

static int by_from(const void *a, const void *b) {
    const hri_see_place *x = a, *y = b;
    return x->from != y->from ? (x->from < y->from ? -1 : 1) : 0;
}

void hri_see_places_pack(hri_see_places *p) {
    size_t used = 0;
    uint64_t offset = 0;
    if (p->count) {
        qsort(p->items, p->count, sizeof *p->items, by_from);
    }
    for (size_t i = 0; i < p->count; i++) {
        hri_see_place *last = used ? &p->items[used - 1] : NULL;
        if (last && p->items[i].from <= last->to) {
            last->to = p->items[i].to > last->to ? p->items[i].to : last->to;
        } else {
            p->items[used++] = p->items[i];
        }
    }
    p->count = used;
    for (size_t i = 0; i < used; i++) {
        p->items[i].offset = offset;
        offset += p->items[i].to - p->items[i].from; /* cannot exceed the address space */
    }
}

uint64_t hri_see_places_find(const hri_see_places *p, uint64_t address) {
    size_t low = 0, high = p->count;
    while (low < high) {
        const size_t mid = low + (high - low) / 2;
        if (p->items[mid].from <= address) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    return low ? p->items[low - 1].offset + (address - p->items[low - 1].from) : address;
}
