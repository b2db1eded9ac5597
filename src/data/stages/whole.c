/* whole(N)  whole groups of N elements: what is left over at the end of an epoch, fewer than N, is left out.
 *
 * A training needs it whose batch may be cut into parts: no part may begin before the batch is known to be whole.  Where
 * places are known it is arithmetic.  Of a stream one group is pulled before its first element goes on: tickets where the
 * input has them, the elements themselves only when they cannot be loaded again.
 *
 * State: where the group begins in the input, and how many of it went on. */
#include "data/mark.h"
#include "data/pipeline.h"

typedef struct options {
    int64_t count;
} options;

static const hri_field fields[] = {{"count", "elements per group", offsetof(options, count),
                                    HRI_FIELD_INT, "1", .min = 1, .max = 1e9, .metavar = "N"},
                                   {0}};

typedef struct own {
    hri_buffer *memory; /* items */
    hri_item *items;
    uint64_t size, count, at; /* of a group; pulled; handed on */
    bool tickets, ended;
    hri_place begin; /* of the group, in the input */
    hri_marker marker;
} own;

static hr_status open(hri_stage *s, hri_prose *why) {
    own *w = s->own;
    w->size = (uint64_t)((const options *)s->options)->count;
    if (s->spec.count != HR_COUNT_UNKNOWN) {
        s->pipeline->left_over = s->spec.count % w->size;
        s->spec.count -= s->spec.count % w->size;
    }
    if (s->random) {
        return HR_OK;
    }
    w->tickets = s->spec.load_bytes > 0;
    s->smallest_bytes = hri_pool_round(hri_bytes_mul(w->size, sizeof(hri_item)));
    if (!w->tickets) {
        const uint64_t held = hri_bytes_mul(hri_bytes_add(w->size, 1), s->spec.item_bytes);
        s->smallest_bytes = hri_bytes_add(s->smallest_bytes, held);
    }
    return s->smallest_bytes == UINT64_MAX
               ? hri_prose_set(why, HR_E_RANGE, "count: more elements than any machine can hold")
               : HR_OK;
}

static hr_status at(hri_stage *s, uint64_t i, hri_item *out) {
    return hri_stage_at(s->inputs[0], i, out);
}

static void drop_group(own *w) {
    for (; w->at < w->count; w->at++) {
        hri_item_drop(&w->items[w->at]);
    }
    hri_place_drop(&w->begin);
    w->at = w->count = 0;
}

static void stop(hri_stage *s) {
    own *w = s->own;
    drop_group(w);
    hri_buffer_unref(w->memory);
    hri_marker_clear(&w->marker);
    w->memory = NULL;
    w->items = NULL;
    w->ended = false;
}

static hr_status pull(hri_stage *s, hri_item *out) {
    const own *w = s->own;
    const uint64_t claim = w->tickets ? 0 : s->spec.item_bytes;
    hr_status status = claim ? hri_stage_claim(s, claim) : HR_OK;
    if (status != HR_OK) {
        return status;
    }
    hri_item item = {0};
    status = hri_stage_next(s->inputs[0], &item);
    if (status == HR_OK && claim && item.element) {
        hri_element_charge_to(item.element, s->account, claim);
    } else if (claim) {
        hri_ledger_release(s->account, claim);
    }
    if (status == HR_OK) {
        if (w->tickets) {
            hri_item_drop(&item); /* a loaded one (behind a filter) is loaded again in its turn */
        }
        *out = item;
    }
    return status;
}

/* Pulls what is missing of the group; a failure belongs to one element, and the next call goes on behind it. */
static hr_status fill(hri_stage *s) {
    own *w = s->own;
    hr_status status = HR_OK;
    if (w->ended) {
        return HR_E_EOF;
    }
    if (!w->items) {
        hri_memory memory = hri_stage_memory(s);
        status = hri_memory_buffer(&memory, w->size * sizeof(hri_item), &w->memory);
        w->items = status == HR_OK ? w->memory->data : NULL;
    }
    if (status == HR_OK && !w->begin.mark) {
        status = hri_marker_look(&w->marker, s->inputs[0], &w->begin);
    }
    while (status == HR_OK && w->count < w->size) {
        status = pull(s, &w->items[w->count]);
        w->marker.pulls++;
        w->count += status == HR_OK;
    }
    if (status == HR_E_EOF) {
        s->pipeline->left_over = w->count;
        drop_group(w);
        w->ended = true;
    }
    return status;
}

static hr_status next(hri_stage *s, hri_item *out) {
    own *w = s->own;
    if (w->count == w->size && w->at == w->count) {
        drop_group(w);
    }
    const hr_status status = w->count < w->size ? fill(s) : HR_OK;
    if (status == HR_OK) {
        *out = w->items[w->at++];
    }
    return status;
}

static void save(hri_stage *s, hri_state *state) {
    own *w = s->own;
    const bool inside = w->begin.mark && !(w->count == w->size && w->at == w->count);
    hri_place now = {0};
    hri_state_put(state, inside ? w->at : 0);
    hri_state_put(state, w->ended);
    if (inside) {
        hri_place_save(&w->begin, state);
    } else if (hri_marker_look(&w->marker, s->inputs[0], &now) == HR_OK) {
        hri_place_save(&now, state);
        hri_place_drop(&now);
    } else {
        state->failed = true;
    }
}

static hr_status restore(hri_stage *s, hri_state *r) {
    own *w = s->own;
    const uint64_t handed = hri_state_get(r);
    const bool ended = hri_state_get(r) != 0;
    if (r->failed || handed > w->size) {
        return HR_E_FORMAT;
    }
    hr_status status = hri_place_restore(s->inputs[0], r);
    hri_marker_clear(&w->marker);
    w->ended = ended;
    while (status == HR_OK && handed && w->count < w->size) {
        const uint64_t pulls = w->marker.pulls;
        status = fill(s);
        if (status == HR_E_EOF) {
            return HR_E_FORMAT;
        }
        if (status != HR_E_CANCELLED && status != HR_E_NOMEM_HOST && w->marker.pulls > pulls) {
            status = HR_OK; /* a bad element is passed over again */
        }
    }
    while (status == HR_OK && w->at < handed) {
        hri_item_drop(&w->items[w->at++]);
    }
    return status;
}

const hri_stage_type hri_stage_type_whole = {
    .name = "whole",
    .help = "complete groups of N elements; the rest of an epoch is dropped",
    .main = "count",
    .fields = fields,
    .options_bytes = sizeof(options),
    .own_bytes = sizeof(own),
    .inputs = 1,
    .open = open,
    .at = at,
    .next = next,
    .stop = stop,
    .close = stop,
    .save = save,
    .restore = restore,
};
