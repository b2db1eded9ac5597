/* callback  a source of the user's (hr_pipeline_callback).  With a count it has random access: any element may be
 * asked for at any time, from several threads.  Without, it is a stream: elements are made in order, in the pulling
 * thread, and a resume makes those before it once more. */
#include <stdio.h>
#include "data/pipeline.h"

#include "base/grow.h"

typedef struct own {
    hr_source_fn *fn;
    void *user;
    uint64_t count, output_bytes;
    hri_spec declared;
    bool ended;
} own;

static hr_status open(hri_stage *s, hri_prose *why) {
    const own *w = s->own;
    if (!w->fn) {
        return hri_prose_set(why, HR_E_INVALID, "needs a function; use hr_pipeline_callback");
    }
    s->spec = w->declared;
    s->spec.count = w->count;
    s->spec.item_bytes = w->output_bytes;
    s->random = w->count != HR_COUNT_UNKNOWN;
    s->spec.load_bytes = s->random ? w->output_bytes : 0;
    s->smallest_bytes = s->random ? 0 : w->output_bytes;
    return HR_OK;
}

static hr_status at(hri_stage *s, uint64_t i, hri_item *out) {
    *out = (hri_item){.source = s, .a = i, .epoch = s->epoch, .index = i};
    return HR_OK;
}

static hr_status load(hri_stage *s, const hri_item *item, hr_emit *emit) {
    const own *w = s->own;
    return w->fn(w->user, item->epoch, item->a, emit);
}

static hr_status start(hri_stage *s, uint64_t epoch) {
    (void)epoch;
    ((own *)s->own)->ended = false;
    return HR_OK;
}

static hr_status next(hri_stage *s, hri_item *out) {
    own *w = s->own;
    for (;;) {
        if (w->ended) {
            return HR_E_EOF;
        }
        hri_item item = {.source = s, .a = s->place, .epoch = s->epoch, .index = s->place};
        hr_element *e;
        hr_status status = hri_stage_take(s, &item, &e);
        if (status == HR_E_EOF || status == HR_E_CANCELLED) {
            w->ended = status == HR_E_EOF;
            return status;
        }
        s->place++;
        if (status == HR_OK) {
            *out = (hri_item){.element = e, .epoch = item.epoch, .index = item.index};
            return HR_OK;
        }
        if (status != HR_E_AGAIN) {
            return status;
        }
    }
}

/* The function may be counting on being called from the start. */
static hr_status restore(hri_stage *s, hri_state *r) {
    (void)r;
    own *w = s->own;
    const uint64_t to = s->place;
    s->place = 0;
    w->ended = false;
    while (s->place < to) {
        hri_item item = {0};
        const hr_status status = next(s, &item);
        if (status == HR_E_EOF || status == HR_E_CANCELLED) {
            return status == HR_E_EOF ? HR_E_FORMAT : status;
        }
        hri_item_drop(&item);
    }
    return HR_OK;
}

static void save(hri_stage *s, hri_state *w) {
    (void)s;
    (void)w;
}

static void name_of(hri_stage *s, const hri_item *item, char *buf, size_t size) {
    snprintf(buf, size, "element %llu of %s", (unsigned long long)item->a, s->name);
}

const hri_stage_type hri_stage_type_callback = {
    .name = "callback",
    .help = "custom source (C API only)",
    .own_bytes = sizeof(own),
    .open = open,
    .start = start,
    .at = at,
    .load = load,
    .next = next,
    .save = save,
    .restore = restore,
    .name_of = name_of,
};

hr_status hr_pipeline_callback(hr_pipeline *p, hr_source_fn *fn, void *user, uint64_t count,
                               const hr_map_options *options) {
    hr_map_options own_options = {.size = sizeof own_options};
    const hr_map_options *o = &own_options;
    hr_status status = options ? hri_take(&own_options, sizeof own_options, options) : HR_OK;
    if (status == HR_OK && (!fn || o->output_count > HR_FIELD_MAX)) {
        status = HR_E_INVALID;
    }
    if (status != HR_OK) {
        return hri_pipeline_fail(p, status, "callback: missing function or invalid options");
    }
    hri_stage *s;
    status = hri_pipeline_chain(p, &hri_stage_type_callback, o->name, &s);
    if (status != HR_OK) {
        return status;
    }
    own *w = s->own;
    w->fn = fn;
    w->user = user;
    w->count = count;
    for (size_t i = 0; status == HR_OK && i < o->output_count; i++) {
        status = hri_spec_put(&w->declared, o->names[i], o->outputs[i]);
    }
    uint64_t exact = 1 << 20;
    hri_spec_exact(&w->declared, &exact);
    w->output_bytes =
        o->output_bytes ? hri_bytes_add(hri_pool_round(o->output_bytes), 4096) : exact;
    return status;
}
