/* shuffle(seed=S,buffer=N)  a random order, a new one each epoch.
 *
 * Over a source with random access it is a full shuffle and needs no memory at all: a keyed permutation of the places
 * (base/random.h).  Over a stream it is a buffer of N elements from which one is drawn at random and replaced by the
 * next.  What is buffered are tickets where the input has them (48 bytes each); the elements themselves only when
 * they cannot be loaded again.  N is part of the meaning: the budget never changes it, but refuses it when it cannot
 * hold it.
 *
 * State: of tickets, how many were drawn: pulling tickets again is cheap, so a restore replays the draws.  Of
 * elements, the place of each in the input. */
#include <string.h>
#include "base/alloc.h"
#include "base/hash.h"
#include "data/mark.h"

typedef struct options {
    int64_t seed, buffer;
    bool reshuffle;
} options;

static const hri_field fields[] = {{"seed", "random seed", offsetof(options, seed), HRI_FIELD_INT},
                                   {"buffer", "buffer size in elements, for streams",
                                    offsetof(options, buffer), HRI_FIELD_INT, "10000", .min = 1,
                                    .max = 1e9, .metavar = "N"},
                                   {"reshuffle", "use another order each epoch",
                                    offsetof(options, reshuffle), HRI_FIELD_BOOL, "on"},
                                   {0}};

typedef struct slot {
    hri_item item;
    hri_place place; /* of elements */
} slot;

typedef struct own {
    hri_shuffle order; /* random access */
    bool ordered;      /* `order` is made, for this epoch: */
    uint64_t epoch;
    hri_buffer *memory; /* slots */
    slot *slots;
    uint64_t count, size; /* slots filled; wanted */
    uint64_t drawn;
    bool filled, ended, tickets;
    hri_marker marker;
} own;

static uint64_t epoch_of(const hri_stage *s) {
    return ((const options *)s->options)->reshuffle ? s->epoch : 0;
}

static hr_status open(hri_stage *s, hri_prose *why) {
    own *w = s->own;
    const options *o = s->options;
    if (s->random) {
        return HR_OK;
    }
    w->size = (uint64_t)o->buffer;
    w->tickets = s->spec.load_bytes > 0;
    s->smallest_bytes = hri_pool_round(hri_bytes_mul(w->size, sizeof(slot)));
    if (!w->tickets) {
        const uint64_t held = hri_bytes_mul(hri_bytes_add(w->size, 1), s->spec.item_bytes);
        s->smallest_bytes = hri_bytes_add(s->smallest_bytes, held);
    }
    if (s->smallest_bytes == UINT64_MAX) {
        return hri_prose_set(why, HR_E_RANGE, "buffer: more elements than any machine can hold");
    }
    return HR_OK;
}

static hr_status at(hri_stage *s, uint64_t i, hri_item *out) {
    own *w = s->own;
    if (!w->ordered || w->epoch != epoch_of(s)) {
        w->epoch = epoch_of(s);
        w->order = hri_shuffle_make(s->seed ^ hri_hash_u64(w->epoch >> 32), (uint32_t)w->epoch,
                                    s->spec.count);
        w->ordered = true;
    }
    return hri_stage_at(s->inputs[0], hri_shuffle_at(&w->order, i), out);
}

/* ---- over a stream ---- */

static void stop(hri_stage *s) {
    own *w = s->own;
    for (uint64_t i = 0; i < w->count; i++) {
        hri_item_drop(&w->slots[i].item);
        hri_place_drop(&w->slots[i].place);
    }
    hri_buffer_unref(w->memory);
    hri_marker_clear(&w->marker);
    w->memory = NULL;
    w->slots = NULL;
    w->count = w->drawn = 0;
    w->filled = w->ended = false;
}

static hr_status ensure_slots(hri_stage *s) {
    own *w = s->own;
    if (w->slots) {
        return HR_OK;
    }
    hri_memory memory = hri_stage_memory(s);
    const hr_status status = hri_memory_buffer(&memory, w->size * sizeof(slot), &w->memory);
    if (status == HR_OK) {
        w->slots = w->memory->data;
    }
    return status;
}

/* Pulls the next element into slot `to`. */
static hr_status pull(hri_stage *s, uint64_t to) {
    own *w = s->own;
    slot got = {0};
    const uint64_t claim = w->tickets ? 0 : s->spec.item_bytes;
    hr_status status = claim ? hri_stage_claim(s, claim) : HR_OK;
    if (status != HR_OK) {
        return status;
    }
    if (!w->tickets) {
        status = hri_marker_take(&w->marker, s->inputs[0], &got.place);
    }
    if (status == HR_OK) {
        status = hri_stage_next(s->inputs[0], &got.item);
    }
    if (status == HR_OK && !w->tickets && got.item.element) {
        hri_element_charge_to(got.item.element, s->account, claim);
    } else if (claim) {
        hri_ledger_release(s->account, claim);
    }
    if (status != HR_OK) {
        hri_place_drop(&got.place);
        return status;
    }
    if (w->tickets) {
        hri_item_drop(
            &got.item); /* a loaded one (behind a filter) is loaded again when it is drawn */
    }
    w->slots[to] = got;
    return HR_OK;
}

/* Fills what is missing; HR_OK also at the input's end. */
static hr_status fill(hri_stage *s, bool quiet) {
    own *w = s->own;
    hr_status status = ensure_slots(s);
    while (status == HR_OK && !w->ended && w->count < w->size) {
        status = pull(s, w->count);
        if (status == HR_OK) {
            w->count++;
            if (!quiet && !w->filled && w->count % 4096 == 0) {
                hri_pipeline_progress(s->pipeline, s, w->count, w->size);
            }
        } else if (status == HR_E_EOF) {
            w->ended = true;
            status = HR_OK;
        }
    }
    w->filled = w->filled || status == HR_OK;
    return status;
}

/* Takes a slot by chance; the last one moves into its place. */
static slot draw(hri_stage *s) {
    own *w = s->own;
    hri_random r = hri_random_at(s->seed + (w->drawn >> 32), (uint32_t)epoch_of(s),
                                 HRI_RANDOM_NODE_SHUFFLE, (uint32_t)w->drawn);
    const uint64_t k = hri_random_below(&r, w->count);
    slot taken = w->slots[k];
    w->slots[k] = w->slots[--w->count];
    w->drawn++;
    return taken;
}

static hr_status next(hri_stage *s, hri_item *out) {
    own *w = s->own;
    const hr_status status = fill(s, false);
    if (status != HR_OK) {
        return status;
    }
    if (w->count == 0) {
        return HR_E_EOF;
    }
    slot taken = draw(s);
    hri_place_drop(&taken.place);
    *out = taken.item;
    return HR_OK;
}

static void save(hri_stage *s, hri_state *state) {
    own *w = s->own;
    hri_state_put(state, w->drawn);
    if (w->tickets) {
        return;
    }
    hri_state_put(state, w->count);
    hri_state_put(state, w->ended);
    for (uint64_t i = 0; i < w->count; i++) {
        hri_place_save(&w->slots[i].place, state);
    }
    hri_place now;
    if (hri_marker_look(&w->marker, s->inputs[0], &now) == HR_OK) {
        hri_place_save(&now, state);
        hri_place_drop(&now);
    } else {
        state->failed = true;
    }
}

/* Draws as before from the epoch's start on; nothing is loaded on the way. */
static hr_status replay(hri_stage *s, uint64_t drawn) {
    own *w = s->own;
    hr_status status = hri_stage_start(s->inputs[0], s->epoch);
    while (status == HR_OK && w->drawn < drawn) {
        status = fill(s, true);
        if (status == HR_OK && w->count == 0) {
            status = HR_E_FORMAT;
        }
        if (status == HR_OK) {
            draw(s);
        }
    }
    return status;
}

static hr_status restore(hri_stage *s, hri_state *r) {
    own *w = s->own;
    const uint64_t drawn = hri_state_get(r);
    if (w->tickets) {
        return r->failed ? HR_E_FORMAT : replay(s, drawn);
    }
    const uint64_t count = hri_state_get(r);
    const bool ended = hri_state_get(r) != 0;
    if (r->failed || count > w->size) {
        return HR_E_FORMAT;
    }
    hr_status status = ensure_slots(s);
    for (uint64_t i = 0; status == HR_OK && i < count; i++) {
        status = hri_place_restore(s->inputs[0], r);
        hri_marker_clear(&w->marker);
        if (status == HR_OK) {
            status = pull(s, i);
        }
        w->count += status == HR_OK;
    }
    if (status == HR_OK) {
        status = hri_place_restore(s->inputs[0], r);
    }
    hri_marker_clear(&w->marker);
    w->drawn = drawn;
    w->ended = ended;
    w->filled = true;
    return status == HR_E_EOF ? HR_E_FORMAT : status;
}

const hri_stage_type hri_stage_type_shuffle = {
    .name = "shuffle",
    .help = "shuffle elements, differently each epoch",
    .main = "buffer",
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
