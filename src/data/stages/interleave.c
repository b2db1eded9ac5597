/* interleave({A},{B},...,block=N)  N elements of each input in turn, until all have ended. */
#include "data/stage.h"

typedef struct options {
    int64_t block;
} options;

static const hri_field fields[] = {{"block", "consecutive elements per input",
                                    offsetof(options, block), HRI_FIELD_INT, "1", .min = 1,
                                    .max = 1e9, .metavar = "N"},
                                   {0}};

typedef struct own {
    uint64_t ended; /* a bit an input */
    uint64_t input; /* whose turn it is */
    uint64_t given; /* of its block */
} own;

static hr_status open(hri_stage *s, hri_prose *why) {
    if (s->input_count > 64) {
        return hri_prose_set(why, HR_E_RANGE, "%u inputs, more than the 64 allowed",
                             s->input_count);
    }
    for (uint32_t i = 1; i < s->input_count; i++) {
        const hri_spec *in = &s->inputs[i]->spec;
        bool same = in->field_count == s->spec.field_count;
        for (uint32_t k = 0; same && k < in->field_count; k++) {
            const hr_field *f = hri_spec_find(&s->spec, in->fields[k].name);
            same = f && f->meta.type == in->fields[k].meta.type &&
                   hr_shape_same(&f->meta.shape, &in->fields[k].meta.shape);
        }
        if (!same) {
            s->spec.field_count = 0; /* no longer known */
        }
        s->spec.count = s->spec.count == HR_COUNT_UNKNOWN || in->count == HR_COUNT_UNKNOWN
                            ? HR_COUNT_UNKNOWN
                            : s->spec.count + in->count;
        if (in->item_bytes > s->spec.item_bytes) {
            s->spec.item_bytes = in->item_bytes;
        }
        /* Tickets stay tickets only when all inputs have them. */
        s->spec.load_bytes = s->spec.load_bytes == 0 || in->load_bytes == 0 ? 0
                             : in->load_bytes > s->spec.load_bytes          ? in->load_bytes
                                                                            : s->spec.load_bytes;
    }
    if (s->spec.load_bytes == 0) {
        for (uint32_t i = 0; i < s->input_count; i++) {
            const uint64_t load = s->inputs[i]->spec.load_bytes;
            s->smallest_bytes = load > s->smallest_bytes ? load : s->smallest_bytes;
        }
    }
    return HR_OK;
}

static hr_status start(hri_stage *s, uint64_t epoch) {
    *(own *)s->own = (own){0};
    hr_status status = HR_OK;
    for (uint32_t i = 0; status == HR_OK && i < s->input_count; i++) {
        status = hri_stage_start(s->inputs[i], epoch);
    }
    return status;
}

static void pass_on(hri_stage *s, own *w) {
    w->input = (w->input + 1) % s->input_count;
    w->given = 0;
}

static hr_status next(hri_stage *s, hri_item *out) {
    own *w = s->own;
    const uint64_t all = s->input_count == 64 ? UINT64_MAX : ((uint64_t)1 << s->input_count) - 1;
    while (w->ended != all) {
        if (w->ended >> w->input & 1 ||
            w->given == (uint64_t)((const options *)s->options)->block) {
            pass_on(s, w);
            continue;
        }
        hr_status status = hri_stage_next(s->inputs[w->input], out);
        if (status == HR_E_EOF) {
            w->ended |= (uint64_t)1 << w->input;
            continue;
        }
        if (status == HR_OK && s->spec.load_bytes == 0 && !out->element) {
            hr_element *e;
            status = hri_stage_take(s, out, &e);
            if (status == HR_OK) {
                out->element = e;
            } else if (status == HR_E_AGAIN) {
                continue;
            }
        }
        w->given += status == HR_OK;
        return status;
    }
    return HR_E_EOF;
}

static void save(hri_stage *s, hri_state *state) {
    const own *w = s->own;
    hri_state_put(state, w->ended);
    hri_state_put(state, w->input);
    hri_state_put(state, w->given);
    for (uint32_t i = 0; i < s->input_count; i++) {
        hri_stage_save(s->inputs[i], state);
    }
}

static hr_status restore(hri_stage *s, hri_state *r) {
    own *w = s->own;
    w->ended = hri_state_get(r);
    w->input = hri_state_get(r);
    w->given = hri_state_get(r);
    hr_status status = r->failed || w->input >= s->input_count ? HR_E_FORMAT : HR_OK;
    for (uint32_t i = 0; status == HR_OK && i < s->input_count; i++) {
        status = hri_stage_restore(s->inputs[i], r);
    }
    return status;
}

const hri_stage_type hri_stage_type_interleave = {
    .name = "interleave",
    .help = "alternate between several pipelines",
    .fields = fields,
    .options_bytes = sizeof(options),
    .own_bytes = sizeof(own),
    .inputs = UINT32_MAX,
    .open = open,
    .start = start,
    .next = next,
    .save = save,
    .restore = restore,
};
