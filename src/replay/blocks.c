/* Blocks of the logical device for what has no planned offset.
 *
 * A freed block waits: work that was given to its stream may still use it, and the heap might take its pages to another
 * address.  The same stream may have it again at once, in its full size.  All others get it after a sync, which happens
 * when the heap has nothing else to give or too much waits. */
#include "replay/replay_int.h"

hr_status hri_replay_flush(hr_replay *replay) {
    if (replay->sync) {
        replay->stats.syncs++;
        if (replay->sync(replay->sync_user) != 0) {
            return HR_E_DEVICE;
        }
    }
    hr_status status = HR_OK;
    for (size_t i = 0; i < replay->waiting.count; i++) {
        const hr_status freed = hr_block_free(replay->logical, &replay->waiting.items[i].block);
        status = status == HR_OK ? freed : status;
    }
    hri_parkings_clear(&replay->waiting);
    replay->stats.waiting_bytes = 0;
    return status;
}

/* The newest one that waits in this size, for this stream. */
static bool take_waiting(hr_replay *replay, uint64_t bytes, uint64_t stream, hr_block *out) {
    for (size_t i = replay->waiting.count; i-- > 0;) {
        const hri_parked *w = &replay->waiting.items[i];
        if (w->bytes == bytes && w->stream == stream) {
            *out = w->block;
            hri_parkings_remove(&replay->waiting, i);
            replay->stats.waiting_bytes -= bytes;
            return true;
        }
    }
    return false;
}

hr_status hri_blocks_alloc(hr_replay *replay, uint64_t bytes, uint64_t stream, hr_block *out) {
    if (take_waiting(replay, bytes, stream, out)) {
        replay->stats.block_bytes += bytes;
        return HR_OK;
    }
    hr_status status = hr_block_alloc(replay->logical, bytes, HR_CATEGORY_OTHER, 0, out);
    if ((status == HR_E_LIMIT || status == HR_E_NOMEM_DEVICE) && replay->waiting.count > 0 &&
        !hri_laid_capturing(replay)) {
        status = hri_replay_flush(replay);
        if (status == HR_OK) {
            status = hr_block_alloc(replay->logical, bytes, HR_CATEGORY_OTHER, 0, out);
        }
    }
    if (status == HR_OK) {
        replay->stats.block_bytes += bytes;
    }
    return status;
}

/* More than a quarter of what lives is more than a cache needs. */
static bool too_many(const hr_replay *replay) {
    if (hri_laid_capturing(replay)) {
        return false;
    }
    return replay->waiting.count >= HRI_REPLAY_WAITING ||
           replay->stats.waiting_bytes >
               (UINT64_C(64) << 20) +
                   (replay->stats.live_bytes +
                    (replay->laid.mode == HRI_LAID_DONE ? replay->stats.arena_bytes : 0)) /
                       4;
}

void hri_blocks_free(hr_replay *replay, const hr_block *block, uint64_t bytes, uint64_t stream) {
    const hri_parked w = {.block = *block, .bytes = bytes, .stream = stream};
    replay->stats.block_bytes -= bytes;
    if (hri_parkings_push(&replay->waiting, w) == HR_OK) {
        replay->stats.waiting_bytes += bytes;
        if (too_many(replay)) {
            hri_replay_note(replay, hri_replay_flush(replay));
        }
    } else {
        const hr_status status = hri_replay_flush(replay);
        hri_replay_note(replay, status != HR_OK ? status : hr_block_free(replay->logical, block));
    }
}
