/* Replays: requests of a program that repeats itself, served at planned offsets (headroom/replay.h). */
#include "replay/replay_int.h"

#include "base/alloc.h"
#include "base/grow.h"
#include "device/device.h"

uint64_t hri_replay_round(uint64_t bytes) {
    return (bytes + HRI_REPLAY_ALIGN - 1) / HRI_REPLAY_ALIGN * HRI_REPLAY_ALIGN;
}

hr_status hr_replay_create(hr_logical *logical, const hr_replay_options *options, hr_replay **out) {
    hr_replay_options o = {.size = sizeof o};
    const hr_status status = options ? hri_take(&o, sizeof o, options) : HR_OK;
    if (status != HR_OK) {
        return status;
    }
    hr_replay *replay = hri_calloc(1, sizeof *replay);
    if (!replay) {
        return HR_E_NOMEM_HOST;
    }
    if (pthread_mutex_init(&replay->mutex, NULL) != 0) {
        hri_free(replay);
        return HR_E_NOMEM_HOST;
    }
    replay->logical = logical;
    replay->sync = o.sync;
    replay->sync_user = o.sync_user;
    *out = replay;
    return HR_OK;
}

void hr_replay_destroy(hr_replay *replay) {
    if (!replay) {
        return;
    }
    /* A device that does not answer any more cannot be waited for; its memory is given back all the same. */
    hri_replay_note(replay, hri_replay_flush(replay));
    uint64_t slot;
    for (size_t at = 0; hri_intmap_next(&replay->at, &at, NULL, &slot);) {
        if (!replay->lives.items[slot].in_range) {
            hri_replay_note(replay,
                            hr_block_free(replay->logical, &replay->lives.items[slot].block));
        }
    }
    if (replay->range) {
        hri_replay_note(replay, hr_range_destroy(replay->range));
    }
    hri_lives_deinit(&replay->lives);
    hri_numbers_deinit(&replay->unused);
    hri_intmap_deinit(&replay->at);
    hri_parkings_deinit(&replay->waiting);
    hri_requests_deinit(&replay->now.requests);
    hri_requests_deinit(&replay->last.requests);
    hri_requests_deinit(&replay->plan);
    hri_taken_deinit(&replay->parts);
    hri_laid_deinit(replay);
    pthread_mutex_destroy(&replay->mutex);
    hri_free(replay);
}

/* ---- steps ---- */

/* The end of a recorded step: with one like it before, it becomes a plan. */
static hr_status end_recorded(hr_replay *replay) {
    hr_status status = HR_OK;
    replay->stats.recorded++;
    if (hri_tape_same(&replay->now, &replay->last)) {
        status = hri_arena_open(replay, &replay->now, &replay->last);
        if (status == HR_OK) {
            replay->stats.planned = 1;
            replay->stats.plans++;
        } else if (status == HR_E_LIMIT || status == HR_E_NOMEM_DEVICE ||
                   status == HR_E_NOT_FOUND || status == HR_E_NOMEM_HOST) {
            replay->stats.unplanned++; /* it goes on with blocks, under the same limit */
            status = HR_OK;
        }
    }
    const hri_tape last = replay->last;
    replay->last = replay->now;
    replay->now = last;
    hri_tape_clear(&replay->now);
    return status;
}

/* The end of a planned step: two in a row that differed are another program. */
static hr_status end_planned(hr_replay *replay) {
    const bool differed = replay->missed || replay->cursor < replay->plan.count;
    replay->missed_steps = differed ? replay->missed_steps + 1 : 0;
    if (replay->missed_steps < 2 || replay->parts.count > 0) {
        return HR_OK;
    }
    const hr_status status = hri_arena_close(replay);
    if (status == HR_OK) {
        replay->stats.planned = 0;
        replay->missed_steps = 0;
        hri_tape_clear(&replay->now);
        hri_tape_clear(&replay->last);
    }
    return status;
}

static hr_status end_step(hr_replay *replay) {
    if (replay->stats.steps == 0) {
        hri_tape_clear(&replay->now);
        return HR_OK;
    }
    return replay->stats.planned ? end_planned(replay) : end_recorded(replay);
}

hr_status hr_replay_step(hr_replay *replay) {
    hr_status status = HR_OK;
    pthread_mutex_lock(&replay->mutex);
    if (replay->laid.mode == HRI_LAID_NOT) {
        status = end_step(replay);
        replay->cursor = 0;
    }
    replay->stats.steps++;
    replay->missed = false;
    status = status == HR_OK ? replay->failed : status;
    replay->failed = HR_OK;
    pthread_mutex_unlock(&replay->mutex);
    return status;
}

/* ---- requests ---- */

static hr_status new_slot(hr_replay *replay, uint32_t *out) {
    if (replay->unused.count > 0) {
        *out = replay->unused.items[--replay->unused.count];
        return HR_OK;
    }
    /* Room for all of them among the unused, so that freeing cannot fail. */
    hr_status status = hri_numbers_reserve(&replay->unused, replay->lives.count + 1);
    if (status == HR_OK) {
        status = hri_lives_push(&replay->lives, (hri_live){0});
    }
    if (status == HR_OK) {
        *out = (uint32_t)(replay->lives.count - 1);
    }
    return status;
}

static void give_slot(hr_replay *replay, uint32_t slot) {
    replay->unused.items[replay->unused.count++] = slot;
}

/* Memory for a request, planned or not. */
static hr_status serve(hr_replay *replay, uint64_t bytes, uint64_t stream, hri_live *live) {
    uint64_t offset;
    const bool laid = replay->laid.mode != HRI_LAID_NOT;
    if (hri_laid_serves(replay)) {
        return hri_laid_serve(replay, bytes, stream, live);
    }
    if (replay->range && !laid && !replay->laid.paused &&
        hri_arena_next(replay, bytes, stream, &offset)) {
        live->in_range = true;
        live->offset = offset;
        return HR_OK;
    }
    const hr_status status = hri_blocks_alloc(replay, bytes, stream, &live->block);
    if (status == HR_OK || !replay->range ||
        (status != HR_E_LIMIT && status != HR_E_NOMEM_DEVICE)) {
        return status;
    }
    if (laid && (replay->laid.mode != HRI_LAID_DONE || replay->laid.claimed ||
                 stream != replay->main_stream)) {
        return status; /* the range is the graph's alone */
    }
    if (stream != replay->main_stream) {
        const hr_status synced = hri_replay_flush(replay);
        if (synced != HR_OK) {
            return synced;
        }
    }
    if (!hri_arena_gap(replay, bytes, &offset)) {
        return status;
    }
    live->in_range = true;
    live->offset = offset;
    return HR_OK;
}

static void take_back(hr_replay *replay, const hri_live *live) {
    if (live->sketched) {
        hri_laid_freed(replay, live);
    } else if (live->in_range) {
        hri_arena_free(replay, live->offset);
    } else {
        hri_blocks_free(replay, &live->block, live->bytes, live->stream);
    }
}

static hr_status alloc_locked(hr_replay *replay, uint64_t bytes, uint64_t stream, hr_addr *out) {
    uint32_t slot;
    hr_status status = new_slot(replay, &slot);
    if (status != HR_OK) {
        return status;
    }
    hri_live live = {.bytes = bytes, .stream = stream, .step = replay->stats.steps};
    status = serve(replay, bytes, stream, &live);
    if (status != HR_OK) {
        give_slot(replay, slot);
        return status;
    }
    const hr_addr at = live.in_range ? hr_range_addr(replay->range) + live.offset : live.block.addr;
    status = hri_intmap_put(&replay->at, at, slot);
    if (status != HR_OK) {
        take_back(replay, &live);
        give_slot(replay, slot);
        return status;
    }
    if (!live.sketched) {
        live.index = replay->range || replay->stats.steps == 0 || replay->laid.paused
                         ? HRI_REPLAY_CARRIED
                         : hri_tape_add(&replay->now, bytes, stream);
    }
    replay->lives.items[slot] = live;
    replay->stats.live_bytes += bytes;
    if (replay->stats.live_bytes > replay->stats.peak_bytes) {
        replay->stats.peak_bytes = replay->stats.live_bytes;
    }
    *out = at;
    return HR_OK;
}

hr_status hr_replay_alloc(hr_replay *replay, uint64_t bytes, uint64_t stream, hr_addr *out) {
    if (bytes == 0) {
        *out = 0;
        return HR_OK;
    }
    if (bytes > UINT64_C(1) << 56) {
        return hri_fail(replay->logical->device->ctx, HR_E_RANGE, "a request of %llu bytes",
                        (unsigned long long)bytes);
    }
    pthread_mutex_lock(&replay->mutex);
    const hr_status status = alloc_locked(replay, hri_replay_round(bytes), stream, out);
    if (status != HR_OK) {
        replay->stats.refused++;
    }
    pthread_mutex_unlock(&replay->mutex);
    if (status == HR_E_INVALID) {
        return hri_fail(replay->logical->device->ctx, status,
                        "a request of %llu bytes is not the one that was sketched there",
                        (unsigned long long)bytes);
    }
    if (status == HR_E_DEVICE || status == HR_E_NOMEM_HOST) {
        return hri_fail(replay->logical->device->ctx, status, "a request of %llu bytes on %s: %s",
                        (unsigned long long)bytes, replay->logical->name, hr_status_text(status));
    }
    return status;
}

static hr_status free_locked(hr_replay *replay, hr_addr at) {
    uint64_t slot;
    if (!hri_intmap_get(&replay->at, at, &slot)) {
        return HR_E_INVALID;
    }
    const hri_live *live = &replay->lives.items[slot];
    if (live->shared && replay->sync && !hri_laid_capturing(replay)) {
        const hr_status status = hri_replay_flush(replay);
        if (status != HR_OK) {
            return status;
        }
    }
    if (!live->sketched && live->index != HRI_REPLAY_CARRIED && live->step == replay->stats.steps &&
        !replay->range) {
        replay->now.requests.items[live->index].end = (uint32_t)replay->now.requests.count;
    }
    replay->stats.live_bytes -= live->bytes;
    (void)hri_intmap_remove(&replay->at, at);
    take_back(replay, live);
    give_slot(replay, (uint32_t)slot);
    return HR_OK;
}

hr_status hr_replay_free(hr_replay *replay, hr_addr at) {
    if (at == 0) {
        return HR_OK;
    }
    pthread_mutex_lock(&replay->mutex);
    const hr_status status = free_locked(replay, at);
    pthread_mutex_unlock(&replay->mutex);
    return status;
}

hr_status hr_replay_share(hr_replay *replay, hr_addr at) {
    uint64_t slot;
    pthread_mutex_lock(&replay->mutex);
    const bool found = hri_intmap_get(&replay->at, at, &slot);
    if (found) {
        replay->lives.items[slot].shared = true;
    }
    pthread_mutex_unlock(&replay->mutex);
    return found ? HR_OK : HR_E_INVALID;
}

hr_status hr_replay_trim(hr_replay *replay) {
    uint64_t freed;
    pthread_mutex_lock(&replay->mutex);
    hr_status status = hri_replay_flush(replay);
    if (status == HR_OK) {
        status = hr_logical_trim(replay->logical, &freed);
    }
    pthread_mutex_unlock(&replay->mutex);
    return status;
}

hr_status hr_replay_get_stats(hr_replay *replay, hr_replay_stats *out) {
    pthread_mutex_lock(&replay->mutex);
    const hr_replay_stats stats = replay->stats;
    pthread_mutex_unlock(&replay->mutex);
    return hri_give(out, &stats, sizeof stats);
}

void hr_replay_reset_peak(hr_replay *replay) {
    pthread_mutex_lock(&replay->mutex);
    replay->stats.peak_bytes = replay->stats.live_bytes;
    pthread_mutex_unlock(&replay->mutex);
}
