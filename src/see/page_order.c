/* A counting sort, stable, so that births stay in order; see page_order.h. */
#include "see/page_order.h"

#include "base/alloc.h"

enum { OCTAVES = 32, AGAIN = HRI_SEE_CATEGORIES, KEYS = (HRI_SEE_CATEGORIES + 1) * OCTAVES };

/* As sort() of data.js has it. */
static size_t key_of(const hri_see_buffer *b) {
    const bool again = b->category == HRI_SEE_ACTIVATIONS && (b->flags & HRI_SEE_RECOMPUTED);
    const uint32_t length = b->death > b->birth ? b->death - b->birth : 1;
    return (size_t)(again ? AGAIN : b->category) * OCTAVES + 31u - (uint32_t)__builtin_clz(length);
}

hr_status hri_see_page_order(const hri_recording *r, hri_see_buffer **out) {
    const size_t count = r->tables[HRI_SEE_BUFFERS].count;
    const hri_see_buffer *b = hri_recording_buffers(r);
    size_t start[KEYS + 1] = {0};
    hri_see_buffer *sorted = count ? hri_malloc(count * sizeof *sorted) : NULL;
    if (count && !sorted) {
        return HR_E_NOMEM_HOST;
    }
    for (size_t i = 0; i < count; i++) {
        start[key_of(&b[i]) + 1]++;
    }
    for (size_t k = 0; k < KEYS; k++) {
        start[k + 1] += start[k];
    }
    for (size_t i = 0; i < count; i++) {
        sorted[start[key_of(&b[i])]++] = b[i];
    }
    *out = sorted;
    return HR_OK;
}
