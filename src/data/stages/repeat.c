/* repeat(N)  the input N times over, each time as an epoch of its own (shuffles differ, random choices too);
 * repeat alone never ends.  An input without elements ends it at once. */
#include "data/stage.h"

typedef struct options {
    int64_t count;
} options;

typedef struct own {
    uint64_t given; /* elements in this round */
} own;

static const hri_field fields[] = {{"count", "number of repetitions; 0: forever",
                                    offsetof(options, count), HRI_FIELD_INT, "0", .min = 0,
                                    .max = 4e9, .metavar = "N"},
                                   {0}};

static uint64_t rounds(const hri_stage *s) {
    const int64_t count = ((const options *)s->options)->count;
    return count ? (uint64_t)count : (uint64_t)1 << 32;
}

static hr_status open(hri_stage *s, hri_prose *why) {
    (void)why;
    const int64_t count = ((const options *)s->options)->count;
    if (s->spec.count != HR_COUNT_UNKNOWN) {
        s->spec.count = count == 0 && s->spec.count > 0
                            ? HR_COUNT_UNKNOWN
                            : hri_bytes_mul(s->spec.count, (uint64_t)count);
    }
    return HR_OK;
}

static hr_status start(hri_stage *s, uint64_t epoch) {
    ((own *)s->own)->given = 0;
    return hri_stage_start(s->inputs[0], epoch * rounds(s));
}

/* place counts rounds. */
static hr_status next(hri_stage *s, hri_item *out) {
    own *w = s->own;
    for (;;) {
        hr_status status = hri_stage_next(s->inputs[0], out);
        if (status != HR_E_EOF) {
            w->given += status == HR_OK;
            return status;
        }
        if (w->given == 0 || s->place + 1 >= rounds(s)) {
            return HR_E_EOF;
        }
        status = hri_stage_start(s->inputs[0], s->epoch * rounds(s) + s->place + 1);
        if (status != HR_OK) {
            return status;
        }
        s->place++;
        w->given = 0;
    }
}

static void save(hri_stage *s, hri_state *w) {
    hri_state_put(w, ((own *)s->own)->given);
    hri_stage_save(s->inputs[0], w);
}

static hr_status restore(hri_stage *s, hri_state *r) {
    ((own *)s->own)->given = hri_state_get(r);
    return hri_stage_restore(s->inputs[0], r);
}

const hri_stage_type hri_stage_type_repeat = {
    .name = "repeat",
    .help = "repeat the input, N times or forever",
    .main = "count",
    .fields = fields,
    .options_bytes = sizeof(options),
    .own_bytes = sizeof(own),
    .inputs = 1,
    .open = open,
    .start = start,
    .next = next,
    .save = save,
    .restore = restore,
};
