/* limit(BYTES)  elements until their data adds up to BYTES in an epoch: take, counted in bytes.  The element that would
 * go over ends the epoch. */
#include "data/stage.h"

typedef struct options {
    uint64_t bytes;
} options;

static const hri_field fields[] = {{"bytes", "largest amount of data per epoch",
                                    offsetof(options, bytes), HRI_FIELD_BYTES, "1GiB",
                                    .metavar = "SIZE"},
                                   {0}};

static hr_status open(hri_stage *s, hri_prose *why) {
    (void)why;
    s->smallest_bytes = s->spec.load_bytes;
    s->spec.count = HR_COUNT_UNKNOWN;
    return HR_OK;
}

/* place counts bytes; UINT64_MAX: the epoch has ended. */
static hr_status next(hri_stage *s, hri_item *out) {
    const options *o = s->options;
    while (s->place != UINT64_MAX) {
        hri_item item = {0};
        hr_status status = hri_stage_next(s->inputs[0], &item);
        hr_element *e = NULL;
        if (status == HR_OK) {
            status = hri_stage_take(s, &item, &e);
        }
        if (status == HR_E_AGAIN) {
            continue;
        }
        if (status != HR_OK) {
            return status;
        }
        const uint64_t bytes = hri_element_bytes(e);
        if (bytes > o->bytes || s->place > o->bytes - bytes) {
            hr_element_unref(e);
            s->place = UINT64_MAX;
            break;
        }
        s->place += bytes;
        item.element = e;
        *out = item;
        return HR_OK;
    }
    return HR_E_EOF;
}

const hri_stage_type hri_stage_type_limit = {
    .name = "limit",
    .help = "keep elements up to a total size",
    .main = "bytes",
    .fields = fields,
    .options_bytes = sizeof(options),
    .inputs = 1,
    .open = open,
    .next = next,
};
