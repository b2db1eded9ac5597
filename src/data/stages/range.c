/* range:N  the numbers 0 .. N-1 as i64 "value".  The smallest source there is: for tests, and for pipelines whose first
 * stage makes the elements itself from a number. */
#include "data/stage.h"

typedef struct options {
    int64_t count;
} options;

static const hri_field fields[] = {{"count", "count", offsetof(options, count), HRI_FIELD_INT,
                                    "1000", .min = 0, .max = 9e15, .metavar = "N"},
                                   {0}};

static hr_status open(hri_stage *s, hri_prose *why) {
    (void)why;
    const options *o = s->options;
    s->spec.count = (uint64_t)o->count;
    s->spec.item_bytes = s->spec.load_bytes = hri_pool_round(8);
    return hri_spec_put(&s->spec, "value", (hr_meta){.type = HR_TYPE_I64});
}

static hr_status at(hri_stage *s, uint64_t i, hri_item *out) {
    *out = (hri_item){.source = s, .a = i, .epoch = s->epoch, .index = i};
    return HR_OK;
}

static hr_status load(hri_stage *s, const hri_item *item, hr_emit *emit) {
    (void)s;
    void *data;
    const hr_meta meta = {.type = HR_TYPE_I64};
    const hr_status status = hr_emit_field(emit, "value", &meta, &data);
    if (status == HR_OK) {
        *(int64_t *)data = (int64_t)item->a;
    }
    return status;
}

const hri_stage_type hri_stage_type_range = {
    .name = "range",
    .help = "integers from 0 to N-1",
    .main = "count",
    .fields = fields,
    .options_bytes = sizeof(options),
    .open = open,
    .at = at,
    .load = load,
};
