/* From a snapshot's trace to a recording; see torch.h. */
#include "see/torch.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "base/pickle.h"
#include "see/places.h"

enum { FRAMES = 8 };

typedef struct reading {
    hri_pickle p;
    hri_recording r;
    hri_intmap open;   /* address -> number of its buffer + 1, while it lives */
    hri_intmap frames; /* number of a list of frames -> texts, name << 32 | source */
    hri_see_places places;
    hri_text text;
    size_t device;
    double first_us;
} reading;

bool hri_torch_is(const void *bytes, size_t count) {
    const unsigned char *b = bytes;
    return count > 1 && b[0] == 0x80 && b[1] >= 2 && b[1] <= 5;
}

/* ---- texts ---- */

static void add_frame(reading *d, const hri_pickled *frame) {
    const hri_pickled *file = hri_pickle_get(&d->p, frame, "filename");
    const hri_pickled *name = hri_pickle_get(&d->p, frame, "name");
    const unsigned long long line = hri_pickle_u64(hri_pickle_get(&d->p, frame, "line"));
    if (file && file->kind == HRI_PICKLE_TEXT) {
        hri_text_bytes(&d->text, file->as.text, file->count < 4096 ? file->count : 4096);
        hri_text_add(&d->text, ":%llu ", line);
    }
    if (name && name->kind == HRI_PICKLE_TEXT) {
        hri_text_bytes(&d->text, name->as.text, name->count < 4096 ? name->count : 4096);
    }
}

static bool is_python(const reading *d, const hri_pickled *frame) {
    const hri_pickled *file = hri_pickle_get(&d->p, frame, "filename");
    return file && file->kind == HRI_PICKLE_TEXT && file->count > 3 &&
           !memcmp(file->as.text + file->count - 3, ".py", 3);
}

static hr_status take_text(reading *d, uint32_t *out) {
    const hr_status status = hri_text_status(&d->text);
    return status == HR_OK ? hri_recording_text(&d->r, hri_text_get(&d->text), out) : status;
}

/* The innermost Python line as a name, the first frames as the source. */
static hr_status read_frames(reading *d, const hri_pickled *list, uint32_t *name,
                             uint32_t *source) {
    const hri_pickle_items items = hri_pickle_list(&d->p, list);
    uint64_t known;
    size_t first = 0;
    hr_status status;
    if (items.count && hri_intmap_get(&d->frames, list->as.number, &known)) {
        *name = (uint32_t)(known >> 32);
        *source = (uint32_t)known;
        return HR_OK;
    }
    while (first < items.count && !is_python(d, &items.items[first])) {
        first++;
    }
    hri_text_clear(&d->text);
    if (items.count) {
        add_frame(d, &items.items[first < items.count ? first : 0]);
    }
    if (!d->text.used) {
        hri_text_add(&d->text, "allocation");
    }
    status = take_text(d, name);
    hri_text_clear(&d->text);
    for (size_t i = 0; i < items.count && i < FRAMES; i++) {
        hri_text_add(&d->text, i ? "; " : "");
        add_frame(d, &items.items[i]);
    }
    if (status == HR_OK) {
        status = take_text(d, source);
    }
    return status == HR_OK && items.count
               ? hri_intmap_put(&d->frames, list->as.number, (uint64_t)*name << 32 | *source)
               : status;
}

/* ---- events ---- */

static hri_see_buffer *buffer_at(reading *d, uint64_t i) {
    return &((hri_see_buffer *)d->r.tables[HRI_SEE_BUFFERS].items)[i];
}

static hr_status begin(reading *d, uint64_t address, uint64_t bytes, uint32_t name, uint32_t source,
                       uint32_t birth) {
    const hri_see_buffer b = {.name = name,
                              .source = source,
                              .category = HRI_SEE_OTHER,
                              .offset = address,
                              .bytes = bytes,
                              .birth = birth,
                              .death = UINT32_MAX};
    hr_status status = hri_see_places_add(&d->places, address, bytes);
    if (status == HR_OK) {
        status = hri_recording_add(&d->r, HRI_SEE_BUFFERS, &b);
    }
    return status == HR_OK ? hri_intmap_put(&d->open, address, d->r.tables[HRI_SEE_BUFFERS].count)
                           : status;
}

static hr_status end(reading *d, uint64_t address, uint64_t bytes, uint32_t name, uint32_t source) {
    const uint32_t now = (uint32_t)d->r.tables[HRI_SEE_OPS].count;
    uint64_t number;
    hr_status status = HR_OK;
    if (!hri_intmap_get(&d->open, address, &number)) { /* older than the history */
        status = bytes ? begin(d, address, bytes, name, source, 0) : HR_OK;
        number = d->r.tables[HRI_SEE_BUFFERS].count;
    }
    if (status == HR_OK && number) {
        buffer_at(d, number - 1)->death = now;
        (void)hri_intmap_remove(&d->open, address);
    }
    return status;
}

static hr_status add_op(reading *d, const hri_pickled *event, uint32_t name, bool alloc,
                        uint64_t bytes) {
    const double us = (double)hri_pickle_u64(hri_pickle_get(&d->p, event, "time_us"));
    hri_see_op op = {
        .name = name, .what = (uint8_t)(alloc ? HRI_SEE_ALLOC : HRI_SEE_FREE), .bytes = bytes};
    if (us > 0) {
        d->first_us = d->first_us > 0 ? d->first_us : us;
        op.begin_ns = us > d->first_us ? (us - d->first_us) * 1e3 : 0;
        op.end_ns = op.begin_ns;
        d->r.head.step_ns = op.end_ns > d->r.head.step_ns ? op.end_ns : d->r.head.step_ns;
    }
    const hr_status status = hri_recording_text(&d->r, alloc ? "alloc" : "free", &op.kind);
    return status == HR_OK ? hri_recording_add(&d->r, HRI_SEE_OPS, &op) : status;
}

static hr_status add_event(reading *d, const hri_pickled *event) {
    const hri_pickled *action = hri_pickle_get(&d->p, event, "action");
    const uint64_t address = hri_pickle_u64(hri_pickle_get(&d->p, event, "addr"));
    const uint64_t bytes = hri_pickle_u64(hri_pickle_get(&d->p, event, "size"));
    const bool alloc = hri_pickle_is(action, "alloc");
    uint32_t name = 0, source = 0;
    if (!alloc && !hri_pickle_is(action, "free_completed") && !hri_pickle_is(action, "free")) {
        return hri_pickle_is(action, "segment_alloc") || hri_pickle_is(action, "segment_map")
                   ? hri_see_places_add(&d->places, address, bytes)
                   : HR_OK;
    }
    if (d->r.tables[HRI_SEE_OPS].count >= UINT32_MAX - 2) {
        return HR_E_RANGE;
    }
    hr_status status = read_frames(d, hri_pickle_get(&d->p, event, "frames"), &name, &source);
    if (status == HR_OK) {
        status =
            alloc ? begin(d, address, bytes, name, source, (uint32_t)d->r.tables[HRI_SEE_OPS].count)
                  : end(d, address, bytes, name, source);
    }
    return status == HR_OK ? add_op(d, event, name, alloc, bytes) : status;
}

/* What lives at the end and was not seen to be born: older than the history. */
static hr_status add_block(reading *d, const hri_pickled *block, uint64_t at) {
    const hri_pickled *state = hri_pickle_get(&d->p, block, "state");
    const uint64_t bytes = hri_pickle_u64(hri_pickle_get(&d->p, block, "size"));
    uint32_t name = 0, source = 0;
    uint64_t number;
    if (!hri_pickle_is(state, "active_allocated") && !hri_pickle_is(state, "active_pending_free") &&
        !hri_pickle_is(state, "active_awaiting_free")) {
        return HR_OK;
    }
    const uint64_t asked = hri_pickle_u64(hri_pickle_get(&d->p, block, "requested_size"));
    if (hri_intmap_get(&d->open, at, &number)) {
        buffer_at(d, number - 1)->asked_bytes = asked;
        return HR_OK;
    }
    const hr_status status = read_frames(d, hri_pickle_get(&d->p, block, "frames"), &name, &source);
    return status == HR_OK && bytes ? begin(d, at, bytes, name, source, 0) : status;
}

static hr_status add_segments(reading *d) {
    const hri_pickle_items segments =
        hri_pickle_list(&d->p, hri_pickle_get(&d->p, &d->p.root, "segments"));
    hr_status status = HR_OK;
    for (size_t i = 0; i < segments.count && status == HR_OK; i++) {
        const hri_pickled *s = &segments.items[i];
        const hri_pickle_items blocks = hri_pickle_list(&d->p, hri_pickle_get(&d->p, s, "blocks"));
        uint64_t at = hri_pickle_u64(hri_pickle_get(&d->p, s, "address"));
        if (hri_pickle_u64(hri_pickle_get(&d->p, s, "device")) != d->device) {
            continue;
        }
        status = hri_see_places_add(&d->places, at,
                                    hri_pickle_u64(hri_pickle_get(&d->p, s, "total_size")));
        for (size_t k = 0; k < blocks.count && status == HR_OK; k++) {
            const hri_pickled *address = hri_pickle_get(&d->p, &blocks.items[k], "address");
            at = address ? hri_pickle_u64(address) : at;
            status = add_block(d, &blocks.items[k], at);
            at += hri_pickle_u64(hri_pickle_get(&d->p, &blocks.items[k], "size"));
        }
    }
    return status;
}

static hr_status add_trace(reading *d) {
    const hri_pickle_items devices =
        hri_pickle_list(&d->p, hri_pickle_get(&d->p, &d->p.root, "device_traces"));
    size_t most = 0;
    for (size_t i = 0; i < devices.count; i++) {
        const size_t count = hri_pickle_list(&d->p, &devices.items[i]).count;
        d->device = count > most ? i : d->device;
        most = count > most ? count : most;
    }
    const hri_pickle_items events = most ? hri_pickle_list(&d->p, &devices.items[d->device])
                                         : (hri_pickle_items){.items = NULL};
    hr_status status = HR_OK;
    for (size_t i = 0; i < events.count && status == HR_OK; i++) {
        status = add_event(d, &events.items[i]);
    }
    return status;
}

/* A snapshot without history still has its segments: one moment. */
static hr_status add_moment(reading *d) {
    hri_see_op op = {.what = HRI_SEE_ALLOC};
    const hr_status status = hri_recording_text(&d->r, "snapshot", &op.name);
    return status == HR_OK && !d->r.tables[HRI_SEE_OPS].count
               ? hri_recording_add(&d->r, HRI_SEE_OPS, &op)
               : status;
}

static hr_status put_head(reading *d) {
    char device[32];
    snprintf(device, sizeof device, "cuda:%zu", d->device);
    d->r.head.source = "pytorch";
    d->r.head.note = d->p.truncated ? "The file was truncated: this is what it has. Allocations of "
                                      "a PyTorch memory snapshot; its allocator's cache, the CUDA "
                                      "context and libraries are not in it."
                                    : "Allocations of a PyTorch memory snapshot; its allocator's "
                                      "cache, the CUDA context and libraries are not in it.";
    return hri_recording_keep(&d->r, device, &d->r.head.device);
}

static hr_status put_part(reading *d) {
    hri_see_part part = {.category = HRI_SEE_OTHER, .planned_bytes = d->r.head.peak_bytes};
    const hr_status status = hri_recording_text(&d->r, "allocated", &part.name);
    return status == HR_OK ? hri_recording_add(&d->r, HRI_SEE_PARTS, &part) : status;
}

static hr_status read_all(reading *d) {
    hr_status status = add_trace(d);
    /* Of a history that was cut, nobody knows what in the segments was born in the part that is missing. */
    if (status == HR_OK && (!d->p.truncated || !d->r.tables[HRI_SEE_OPS].count)) {
        status = add_segments(d);
    }
    if (status == HR_OK) {
        status = add_moment(d);
    }
    if (status != HR_OK) {
        return status;
    }
    hri_see_places_pack(&d->places);
    for (size_t i = 0; i < d->r.tables[HRI_SEE_BUFFERS].count; i++) {
        hri_see_buffer *b = buffer_at(d, i);
        b->offset = hri_see_places_find(&d->places, b->offset);
    }
    d->r.truncated = d->p.truncated;
    status = put_head(d);
    if (status == HR_OK) {
        status = hri_recording_finish(&d->r);
    }
    return status == HR_OK ? put_part(d) : status;
}

hr_status hri_torch_decode(const void *bytes, size_t count, hri_recording *out, hri_prose *why) {
    reading d = {.device = 0};
    hr_status status = hri_pickle_read(bytes, count, &d.p, why);
    if (status == HR_OK && !hri_pickle_get(&d.p, &d.p.root, "device_traces") &&
        !hri_pickle_get(&d.p, &d.p.root, "segments")) {
        status = hri_prose_set(why, HR_E_FORMAT,
                               "a pickle, but not a PyTorch memory snapshot (it has neither "
                               "device_traces nor segments)");
    }
    if (status == HR_OK) {
        status = read_all(&d);
    }
    hri_pickle_deinit(&d.p);
    hri_intmap_deinit(&d.open);
    hri_intmap_deinit(&d.frames);
    hri_see_places_deinit(&d.places);
    hri_text_deinit(&d.text);
    if (status != HR_OK) {
        hri_recording_deinit(&d.r);
        return status;
    }
    *out = d.r;
    return HR_OK;
}
