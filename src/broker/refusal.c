/* See refusal.h. */
#include "broker/refusal.h"

#include <string.h>

int hri_refusal_check(const hri_refusal *r, size_t bytes) {
    if (bytes != sizeof *r || r->magic != HRI_REFUSAL_MAGIC || r->bytes != sizeof *r ||
        r->count > HRI_REFUSAL_ROWS || r->verb >= HRI_VERB_END_ || r->said >= HRI_SAID_END_ ||
        !memchr(r->name, '\0', sizeof r->name) || !hri_wire_check(&r->device, sizeof r->device)) {
        return 0;
    }
    for (uint32_t i = 0; i < r->count; i++) {
        if (!hri_wire_check(&r->rows[i], sizeof r->rows[i])) {
            return 0;
        }
    }
    return 1;
}
