/* take(N)  the first N elements of each epoch. */
#include "data/stage.h"

typedef struct options {
    int64_t count;
} options;

static const hri_field fields[] = {{"count", "largest number of elements per epoch",
                                    offsetof(options, count), HRI_FIELD_INT, "1", .min = 0,
                                    .max = 9e15, .metavar = "N"},
                                   {0}};

static hr_status open(hri_stage *s, hri_prose *why) {
    (void)why;
    const uint64_t count = (uint64_t)((const options *)s->options)->count;
    if (s->spec.count != HR_COUNT_UNKNOWN && s->spec.count > count) {
        s->spec.count = count;
    }
    return HR_OK;
}

static hr_status at(hri_stage *s, uint64_t i, hri_item *out) {
    return hri_stage_at(s->inputs[0], i, out);
}

static hr_status next(hri_stage *s, hri_item *out) {
    if (s->place >= (uint64_t)((const options *)s->options)->count) {
        return HR_E_EOF;
    }
    const hr_status status = hri_stage_next(s->inputs[0], out);
    s->place += status == HR_OK;
    return status;
}

const hri_stage_type hri_stage_type_take = {
    .name = "take",
    .help = "keep the first N elements",
    .main = "count",
    .fields = fields,
    .options_bytes = sizeof(options),
    .inputs = 1,
    .open = open,
    .at = at,
    .next = next,
};
