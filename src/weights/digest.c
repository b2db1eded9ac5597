/* See digest.h. */
#include "weights/digest.h"

#include "base/alloc.h"
#include "base/hash.h"
#include "weights/checkpoint.h"

enum { SMALL = 16 << 10 };

static hr_status digest_value(const hr_graph *g, const hri_values *from, hr_value v, void *band,
                              uint64_t band_bytes, uint64_t *out) {
    const uint64_t bytes = hr_meta_bytes(&g->values[v].meta);
    hri_hasher h;
    hri_hasher_init(&h, 0);
    hri_hasher_add_string(&h, g->values[v].name);
    hr_status status = HR_OK;
    for (uint64_t at = 0; at < bytes && status == HR_OK; at += band_bytes) {
        const uint64_t here = bytes - at < band_bytes ? bytes - at : band_bytes;
        status = from->get(from->user, v, at, band, here);
        if (status == HR_OK) {
            hri_hasher_add(&h, band, here);
        }
    }
    *out = hri_hash_u64(hri_hasher_get(&h).lo);
    return status;
}

hr_status hri_values_digest(const hr_graph *g, const hri_values *from, uint64_t *out) {
    unsigned char small[SMALL], *large = NULL;
    uint64_t sum = 0, one = 0;
    hr_status status = HR_OK;
    if (from->buffer_bytes > SMALL) {
        large = hri_malloc(from->buffer_bytes);
    }
    for (hr_value v = 1; v < g->value_count && status == HR_OK; v++) {
        const hr_keep keep = hri_keep_of(g, v);
        if (keep != HR_KEEP_MODEL && keep != HR_KEEP_OPTIMIZER) {
            continue;
        }
        status = digest_value(g, from, v, large ? large : small, large ? from->buffer_bytes : SMALL,
                              &one);
        sum += one; /* of well mixed numbers: their order does not matter */
    }
    hri_free(large);
    if (status == HR_OK) {
        *out = sum;
    }
    return status;
}
