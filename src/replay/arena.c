/* The range of a replay: lifetimes become offsets once, and requests get theirs in order.
 *
 * `parts` lists what lives in the range by offset.  A planned offset is given out only if its part is free, so a program
 * that keeps something longer than it was recorded to cannot have it overwritten. */
#include <string.h>

#include "replay/replay_int.h"

#include "base/alloc.h"
#include "plan/pack.h"

enum { PACK_EFFORT = 200, PACK_SLACK = 64 }; /* good enough: a 64th above the bound */

/* The stream that requests the most bytes. */
static uint64_t main_stream(const hri_requests *requests) {
    uint64_t best = requests->items[0].stream, best_bytes = 0;
    for (size_t i = 0; i < requests->count; i++) {
        const uint64_t stream = requests->items[i].stream;
        uint64_t bytes = 0;
        for (size_t k = 0; k < i && bytes == 0; k++) {
            bytes = requests->items[k].stream == stream; /* counted already */
        }
        if (bytes > 0) {
            continue;
        }
        for (size_t k = i; k < requests->count; k++) {
            bytes += requests->items[k].stream == stream ? requests->items[k].bytes : 0;
        }
        if (bytes > best_bytes) {
            best = stream;
            best_bytes = bytes;
        }
    }
    return best;
}

/* What of the recordings lies in the range: `buffers` and `which` have room for all.  The count of them. */
static size_t buffers_of(const hri_tape *a, const hri_tape *b, uint64_t stream,
                         hri_pack_buffer *buffers, uint32_t *which) {
    size_t count = 0;
    for (size_t i = 0; i < a->requests.count; i++) {
        const hri_request *x = &a->requests.items[i], *y = &b->requests.items[i];
        if (x->stream != stream || x->end == HRI_REPLAY_CARRIED || y->end == HRI_REPLAY_CARRIED) {
            continue;
        }
        which[count] = (uint32_t)i;
        buffers[count++] = (hri_pack_buffer){
            .lower = (int64_t)i, .upper = x->end > y->end ? x->end : y->end, .bytes = x->bytes};
    }
    return count;
}

/* The most bytes that live at one moment. */
static uint64_t bound_of(const hri_pack_buffer *buffers, size_t count, size_t moments,
                         int64_t *change) {
    uint64_t bound = 0;
    int64_t live = 0;
    for (size_t i = 0; i < count; i++) {
        change[buffers[i].lower] += (int64_t)buffers[i].bytes;
        change[buffers[i].upper] -= (int64_t)buffers[i].bytes;
    }
    for (size_t i = 0; i < moments; i++) {
        live += change[i];
        bound = (uint64_t)live > bound ? (uint64_t)live : bound;
    }
    return bound;
}

typedef struct packing {
    hri_pack_buffer *buffers;
    uint32_t *which;
    uint64_t *offsets;
    int64_t *change;
    size_t count;
    uint64_t bound, height;
} packing;

static void packing_deinit(packing *p) {
    hri_free(p->buffers);
    hri_free(p->which);
    hri_free(p->offsets);
    hri_free(p->change);
}

/* On failure the caller deinits all the same. */
static hr_status packing_make(packing *p, const hri_tape *a, const hri_tape *b, uint64_t stream) {
    const size_t most = a->requests.count;
    p->buffers = hri_calloc(most, sizeof *p->buffers);
    p->which = hri_calloc(most, sizeof *p->which);
    p->offsets = hri_calloc(most, sizeof *p->offsets);
    p->change = hri_calloc(most + 1, sizeof *p->change);
    if (!p->buffers || !p->which || !p->offsets || !p->change) {
        return HR_E_NOMEM_HOST;
    }
    p->count = buffers_of(a, b, stream, p->buffers, p->which);
    if (p->count == 0) {
        return HR_OK;
    }
    p->bound = bound_of(p->buffers, p->count, most + 1, p->change);
    const hri_pack_options options = {.align = HRI_REPLAY_ALIGN,
                                      .capacity = p->bound + p->bound / PACK_SLACK,
                                      .effort = PACK_EFFORT};
    hri_pack_result result;
    size_t bad[2];
    const hr_status status = hri_pack(p->buffers, p->count, &options, p->offsets, &result);
    if (status != HR_OK) {
        return status;
    }
    p->height = result.height;
    return hri_pack_check(p->buffers, p->count, HRI_REPLAY_ALIGN, p->offsets, p->height, bad)
               ? HR_OK
               : HR_E_INTERNAL;
}

static hr_status range_open(hr_replay *replay, uint64_t bytes, hr_range **out) {
    hr_range *range;
    hr_status status = hr_range_create(replay->logical, bytes, HR_CATEGORY_ACTIVATIONS, 0, &range);
    if (status != HR_OK) {
        return status;
    }
    status = hr_range_resize(range, bytes);
    if (status != HR_OK) {
        const hr_status destroyed = hr_range_destroy(range);
        return destroyed == HR_OK ? status : destroyed;
    }
    *out = range;
    return HR_OK;
}

hr_status hri_range_open(hr_replay *replay, uint64_t bytes) {
    return range_open(replay, bytes, &replay->range);
}

/* What nobody uses goes back to the device, if it can: what is in use from now on is known. */
static hr_status range_for(hr_replay *replay, const packing *p) {
    hr_status status = hri_replay_flush(replay);
    if (status == HR_OK) {
        status = range_open(replay, p->height, &replay->range);
    }
    uint64_t freed;
    if (status == HR_OK) {
        hri_replay_note(replay, hr_logical_trim(replay->logical, &freed));
    }
    return status;
}

hr_status hri_arena_open(hr_replay *replay, const hri_tape *a, const hri_tape *b) {
    packing p = {0};
    const uint64_t stream = main_stream(&a->requests);
    hri_requests_clear(&replay->plan);
    hr_status status = hri_requests_append(&replay->plan, a->requests.items, a->requests.count);
    if (status == HR_OK) {
        status = packing_make(&p, a, b, stream);
    }
    if (status == HR_OK) {
        status = hri_taken_reserve(&replay->parts, p.count);
    }
    if (status == HR_OK && p.count > 0) {
        status = range_for(replay, &p);
    }
    if (status == HR_OK && replay->range) {
        for (size_t i = 0; i < p.count; i++) {
            replay->plan.items[p.which[i]].offset = p.offsets[i];
        }
        replay->main_stream = stream;
        replay->stats.arena_bytes = p.height;
        replay->stats.bound_bytes = p.bound;
        replay->stats.requests = replay->plan.count;
    }
    packing_deinit(&p);
    return status == HR_OK && !replay->range ? HR_E_NOT_FOUND : status;
}

hr_status hri_arena_close(hr_replay *replay) {
    hr_status status = hri_replay_flush(replay);
    if (status == HR_OK) {
        status = hr_range_destroy(replay->range);
    }
    if (status == HR_OK) {
        replay->range = NULL;
        replay->stats.arena_bytes = replay->stats.bound_bytes = replay->stats.requests = 0;
    }
    return status;
}

/* ---- parts ---- */

/* Where a part at `offset` is, or would be. */
static size_t find_part(const hri_taken *parts, uint64_t offset) {
    size_t low = 0, high = parts->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (parts->items[middle].offset < offset) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* false when something lives there, or there is no memory to note it. */
static bool take_part(hri_taken *parts, uint64_t offset, uint64_t bytes) {
    const size_t at = find_part(parts, offset);
    const hri_piece *items = parts->items;
    if ((at > 0 && items[at - 1].offset + items[at - 1].bytes > offset) ||
        (at < parts->count && items[at].offset < offset + bytes) ||
        hri_taken_reserve(parts, parts->count + 1) != HR_OK) {
        return false;
    }
    memmove(parts->items + at + 1, parts->items + at, (parts->count - at) * sizeof *parts->items);
    parts->items[at] = (hri_piece){.offset = offset, .bytes = bytes};
    parts->count++;
    return true;
}

bool hri_arena_take(hr_replay *replay, uint64_t offset, uint64_t bytes) {
    return take_part(&replay->parts, offset, bytes);
}

void hri_arena_free(hr_replay *replay, uint64_t offset) {
    hri_taken_remove(&replay->parts, find_part(&replay->parts, offset));
}

static void miss(hr_replay *replay, uint64_t count) {
    replay->stats.missed += count;
    replay->missed = true;
}

bool hri_arena_next(hr_replay *replay, uint64_t bytes, uint64_t stream, uint64_t *offset) {
    const hri_requests *plan = &replay->plan;
    const size_t most = replay->cursor + HRI_REPLAY_LOOK;
    size_t at = replay->cursor;
    while (at < plan->count && at < most &&
           (plan->items[at].bytes != bytes || plan->items[at].stream != stream)) {
        at++;
    }
    if (replay->cursor >= plan->count) {
        replay->stats.extra++;
        return false;
    }
    if (at >= plan->count || at >= most) {
        miss(replay, 1);
        return false;
    }
    if (at > replay->cursor) {
        miss(replay, at - replay->cursor);
    }
    replay->cursor = at + 1;
    if (plan->items[at].offset == HRI_REPLAY_NOWHERE) {
        return false;
    }
    if (!take_part(&replay->parts, plan->items[at].offset, bytes)) {
        miss(replay, 1);
        return false;
    }
    replay->stats.served++;
    *offset = plan->items[at].offset;
    return true;
}

/* From the top, where the plan's buffers are the fewest. */
bool hri_arena_gap(hr_replay *replay, uint64_t bytes, uint64_t *offset) {
    uint64_t upper = replay->stats.arena_bytes;
    for (size_t i = replay->parts.count;; i--) {
        const uint64_t lower =
            i > 0 ? replay->parts.items[i - 1].offset + replay->parts.items[i - 1].bytes : 0;
        if (upper >= lower + bytes) {
            if (!take_part(&replay->parts, upper - bytes, bytes)) {
                return false;
            }
            replay->stats.overflow++;
            *offset = upper - bytes;
            return true;
        }
        if (i == 0) {
            return false;
        }
        upper = replay->parts.items[i - 1].offset;
    }
}
