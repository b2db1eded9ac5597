/* shard(count=N,index=K)  every Nth element, from the Kth on: what one of N processes works on.  Put it before the
 * shuffle for disjoint files, behind it for disjoint samples of each epoch. */
#include "data/stage.h"

typedef struct options {
    int64_t count, index;
} options;

static const hri_field fields[] = {{"count", "number of shards", offsetof(options, count),
                                    HRI_FIELD_INT, "1", .min = 1, .max = 1e6},
                                   {"index", "index of the shard, from 0", offsetof(options, index),
                                    HRI_FIELD_INT, "0", .min = 0, .max = 1e6},
                                   {0}};

static hr_status open(hri_stage *s, hri_prose *why) {
    const options *o = s->options;
    if (o->index >= o->count) {
        return hri_prose_set(why, HR_E_RANGE, "index: %lld is not less than count (%lld)",
                             (long long)o->index, (long long)o->count);
    }
    if (s->spec.count != HR_COUNT_UNKNOWN) {
        const uint64_t n = (uint64_t)o->count, k = (uint64_t)o->index;
        s->spec.count = s->spec.count > k ? (s->spec.count - k - 1) / n + 1 : 0;
    }
    return HR_OK;
}

static hr_status at(hri_stage *s, uint64_t i, hri_item *out) {
    const options *o = s->options;
    return hri_stage_at(s->inputs[0], i * (uint64_t)o->count + (uint64_t)o->index, out);
}

/* place counts the input's elements. */
static hr_status next(hri_stage *s, hri_item *out) {
    const options *o = s->options;
    for (;;) {
        const hr_status status = hri_stage_next(s->inputs[0], out);
        if (status != HR_OK) {
            return status;
        }
        if (s->place++ % (uint64_t)o->count == (uint64_t)o->index) {
            return HR_OK;
        }
        hri_item_drop(out);
    }
}

const hri_stage_type hri_stage_type_shard = {
    .name = "shard",
    .help = "keep every Nth element, for one of N processes",
    .main = "count",
    .fields = fields,
    .options_bytes = sizeof(options),
    .inputs = 1,
    .open = open,
    .at = at,
    .next = next,
};
