/* Memory of steps that a graph replays: laid once, for good (headroom/replay.h, "laid steps").
 *
 * A graph has its addresses inside.  So its requests are made twice, by one thread: first sketched, which only writes them
 * down (nothing runs, so their addresses may overlap), then laid at the offsets that packing gave them.  Afterwards nobody
 * requests them any more: a step claims the whole range, and what leaves the graph is placed where the graph writes it. */
#include "replay/replay_int.h"

#include "device/device.h"

static bool mine(const hr_replay *replay) {
    return pthread_equal(replay->laid.thread, pthread_self()) != 0;
}

bool hri_laid_serves(const hr_replay *replay) {
    const hri_laid *l = &replay->laid;
    return !l->paused && mine(replay) &&
           (hri_laid_capturing(replay) || l->placed < l->places.count);
}

bool hri_laid_capturing(const hr_replay *replay) {
    return replay->laid.mode == HRI_LAID_SKETCH || replay->laid.mode == HRI_LAID_LAY;
}

/* An address that nothing live has; what it points to is used by nobody. */
static hr_status sketch(hr_replay *replay, uint64_t bytes, uint64_t stream, hri_live *live) {
    hri_laid *l = &replay->laid;
    const uint64_t room = hr_range_bytes(replay->range);
    uint64_t slot;
    if (bytes > room) {
        return HR_E_LIMIT;
    }
    l->next = l->next + bytes <= room ? l->next : 0;
    while (hri_intmap_get(&replay->at, hr_range_addr(replay->range) + l->next, &slot)) {
        l->next += HRI_REPLAY_ALIGN;
        if (l->next + bytes > room) {
            return HR_E_LIMIT;
        }
    }
    live->index = hri_tape_add(&l->tape, bytes, stream);
    if (live->index == HRI_REPLAY_CARRIED) {
        return HR_E_NOMEM_HOST;
    }
    live->sketched = live->in_range = true;
    live->offset = l->next;
    l->next += bytes;
    return HR_OK;
}

hr_status hri_laid_serve(hr_replay *replay, uint64_t bytes, uint64_t stream, hri_live *live) {
    hri_laid *l = &replay->laid;
    uint64_t offset;
    if (l->mode == HRI_LAID_SKETCH) {
        return sketch(replay, bytes, stream, live);
    }
    if (l->mode == HRI_LAID_LAY) {
        if (replay->cursor >= replay->plan.count ||
            replay->plan.items[replay->cursor].bytes != bytes) {
            return HR_E_INVALID;
        }
        offset = replay->plan.items[replay->cursor++].offset;
    } else {
        offset = l->places.items[l->placed++];
    }
    if (!hri_arena_take(replay, offset, bytes)) {
        return HR_E_INVALID;
    }
    live->in_range = true;
    live->offset = offset;
    return HR_OK;
}

void hri_laid_freed(hr_replay *replay, const hri_live *live) {
    hri_tape *tape = &replay->laid.tape;
    if (live->index < tape->requests.count) {
        tape->requests.items[live->index].end = (uint32_t)tape->requests.count;
    }
}

void hri_laid_deinit(hr_replay *replay) {
    hri_requests_deinit(&replay->laid.tape.requests);
    hri_places_deinit(&replay->laid.places);
}

/* ---- calls ---- */

void hr_replay_pause(hr_replay *replay, int on) {
    pthread_mutex_lock(&replay->mutex);
    replay->laid.paused = on != 0;
    pthread_mutex_unlock(&replay->mutex);
}

static hr_status begin_sketch(hr_replay *replay, uint64_t bytes) {
    hri_laid *l = &replay->laid;
    if (l->mode != HRI_LAID_NOT || replay->parts.count > 0) {
        return HR_E_BUSY;
    }
    hr_status status = replay->range ? hri_arena_close(replay) : hri_replay_flush(replay);
    if (status == HR_OK) {
        replay->stats.planned = 0;
        status = hri_range_open(replay, bytes);
    }
    if (status == HR_OK) {
        hri_tape_clear(&l->tape);
        l->next = 0;
        l->thread = pthread_self();
        l->mode = HRI_LAID_SKETCH;
    }
    return status;
}

hr_status hr_replay_sketch(hr_replay *replay, uint64_t bytes) {
    pthread_mutex_lock(&replay->mutex);
    const hr_status status = begin_sketch(replay, bytes);
    pthread_mutex_unlock(&replay->mutex);
    return status;
}

static hr_status begin_lay(hr_replay *replay) {
    hri_laid *l = &replay->laid;
    if (l->mode != HRI_LAID_SKETCH) {
        return HR_E_INVALID;
    }
    for (size_t i = 0; i < l->tape.requests.count; i++) {
        if (l->tape.requests.items[i].end == HRI_REPLAY_CARRIED ||
            l->tape.requests.items[i].stream != l->tape.requests.items[0].stream) {
            return HR_E_BUSY; /* it stays, or belongs to another order of execution */
        }
    }
    if (l->tape.requests.count == 0) {
        return HR_E_NOT_FOUND;
    }
    hr_status status = hri_arena_close(replay); /* nothing ran in it: every size may follow */
    if (status != HR_OK) {
        return status;
    }
    status = hri_arena_open(replay, &l->tape, &l->tape);
    replay->cursor = 0;
    l->mode = status == HR_OK ? HRI_LAID_LAY : HRI_LAID_NOT;
    return status;
}

hr_status hr_replay_lay(hr_replay *replay) {
    pthread_mutex_lock(&replay->mutex);
    const hr_status status = begin_lay(replay);
    pthread_mutex_unlock(&replay->mutex);
    return status;
}

hr_status hr_replay_laid(hr_replay *replay) {
    pthread_mutex_lock(&replay->mutex);
    hri_laid *l = &replay->laid;
    const bool whole =
        l->mode == HRI_LAID_LAY && replay->cursor == replay->plan.count && replay->parts.count == 0;
    if (whole) {
        l->mode = HRI_LAID_DONE;
        replay->stats.planned = 1;
        replay->stats.plans++;
    }
    pthread_mutex_unlock(&replay->mutex);
    return whole ? HR_OK : HR_E_BUSY;
}

hr_status hr_replay_unlay(hr_replay *replay) {
    hr_status status = HR_OK;
    pthread_mutex_lock(&replay->mutex);
    hri_laid *l = &replay->laid;
    bool sketched = false;
    for (size_t i = 0; l->mode == HRI_LAID_SKETCH && i < l->tape.requests.count; i++) {
        sketched = sketched || l->tape.requests.items[i].end == HRI_REPLAY_CARRIED;
    }
    if (l->mode == HRI_LAID_NOT) {
        status = HR_OK;
    } else if (replay->parts.count > 0 || sketched) {
        status = HR_E_BUSY;
    } else {
        status = replay->range ? hri_arena_close(replay) : HR_OK;
    }
    if (status == HR_OK) {
        replay->stats.planned = l->mode == HRI_LAID_NOT ? replay->stats.planned : 0;
        l->mode = HRI_LAID_NOT;
        l->claimed = false;
        l->placed = l->places.count;
    }
    pthread_mutex_unlock(&replay->mutex);
    return status;
}

hr_status hr_replay_claim(hr_replay *replay, uint64_t stream) {
    hr_status status = HR_OK;
    pthread_mutex_lock(&replay->mutex);
    if (replay->laid.mode != HRI_LAID_DONE) {
        status = HR_E_INVALID;
    } else if (replay->parts.count > 0 || replay->laid.claimed) {
        status = HR_E_BUSY;
    } else {
        replay->laid.claimed = true;
        replay->main_stream = stream;
    }
    pthread_mutex_unlock(&replay->mutex);
    return status;
}

static hr_status offset_of(const hr_replay *replay, hr_addr at, uint64_t *out) {
    const hr_addr from = hr_range_addr(replay->range);
    if (at < from || at - from >= replay->stats.arena_bytes || at % HRI_REPLAY_ALIGN != 0) {
        return HR_E_RANGE;
    }
    *out = at - from;
    return HR_OK;
}

hr_status hr_replay_place(hr_replay *replay, const hr_addr *at, size_t count) {
    pthread_mutex_lock(&replay->mutex);
    hri_laid *l = &replay->laid;
    hr_status status = l->mode == HRI_LAID_DONE ? HR_OK : HR_E_INVALID;
    hri_places_clear(&l->places);
    l->placed = 0;
    for (size_t i = 0; status == HR_OK && i < count; i++) {
        uint64_t offset = 0;
        status = offset_of(replay, at[i], &offset);
        if (status == HR_OK) {
            status = hri_places_push(&l->places, offset);
        }
    }
    if (status != HR_OK) {
        hri_places_clear(&l->places);
    }
    l->thread = pthread_self();
    pthread_mutex_unlock(&replay->mutex);
    return status;
}

void hr_replay_release(hr_replay *replay) {
    pthread_mutex_lock(&replay->mutex);
    replay->laid.claimed = false;
    hri_places_clear(&replay->laid.places);
    replay->laid.placed = 0;
    pthread_mutex_unlock(&replay->mutex);
}
