/* Growth of vectors, once for all types. */
#include "base/vector.h"

#include <stdint.h>

hr_status hri_vector_grow(void **items, size_t *capacity, size_t wanted, size_t item_bytes) {
    if (wanted <= *capacity) {
        return HR_OK;
    }
    size_t grown = *capacity + *capacity / 2;
    grown = grown < wanted ? wanted : grown;
    grown = grown < 8 ? 8 : grown;
    if (grown > PTRDIFF_MAX / item_bytes) {
        return HR_E_NOMEM_HOST;
    }
    void *moved = hri_realloc(*items, grown * item_bytes);
    if (!moved) {
        return HR_E_NOMEM_HOST;
    }
    *items = moved;
    *capacity = grown;
    return HR_OK;
}
