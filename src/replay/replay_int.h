/* The objects of a replay, as its own files see them.
 *
 * record.c   what a step requested, and whether two steps were the same     arena.c   offsets: packed, given out, freed
 * blocks.c   blocks of the logical device, with those that wait             replay.c  the calls
 * laid.c     steps that a graph replays                                     torch.c   PyTorch's allocator over it
 *
 * One lock, replay->mutex, is held by every call; the heap's lock is taken inside it. */
#ifndef HRI_REPLAY_INT_H
#define HRI_REPLAY_INT_H

#include <pthread.h>
#include <stdbool.h>
#include <headroom/replay.h>
#include "base/map.h"
#include "base/vector.h"

enum {
    HRI_REPLAY_ALIGN = 512, /* of sizes and offsets, as PyTorch's own allocator has it */
    HRI_REPLAY_LOOK = 64,   /* how many planned requests a step may skip to find its place again */
    HRI_REPLAY_WAITING = 1024,    /* freed blocks that wait, at most */
    HRI_REPLAY_REQUESTS = 1 << 20 /* of one step that are recorded, at most */
};

#define HRI_REPLAY_NOWHERE UINT64_MAX /* as an offset: a block */
#define HRI_REPLAY_CARRIED UINT32_MAX /* as an end: outlives its step */

/* One request of a step.  It lives from request `index` (its place in the recording) until before request `end`. */
typedef struct hri_request {
    uint64_t bytes, stream, offset;
    uint32_t end;
    uint32_t unused;
} hri_request;
HRI_VECTOR(hri_requests, hri_request)

typedef struct hri_tape {
    hri_requests requests;
    bool broken; /* too long, or no memory for it */
} hri_tape;

/* Something live.  In a block: block.handle is set; in the range: offset is. */
typedef struct hri_live {
    hr_block block;
    uint64_t bytes, stream, offset;
    uint64_t step; /* in which it was requested */
    uint32_t index;
    bool in_range, shared;
    bool
        sketched; /* of a step that is being sketched: `index` is in its tape, and the memory is nobody's */
} hri_live;
HRI_VECTOR(hri_lives, hri_live)
HRI_VECTOR(hri_numbers, uint32_t)

/* A freed block: nobody but its stream may have it before a sync. */
typedef struct hri_parked {
    hr_block block;
    uint64_t bytes, stream;
} hri_parked;
HRI_VECTOR(hri_parkings, hri_parked)

/* A live part of the range, in the order of offsets. */
typedef struct hri_piece {
    uint64_t offset, bytes;
} hri_piece;
HRI_VECTOR(hri_taken, hri_piece)
HRI_VECTOR(hri_places, uint64_t)

typedef enum hri_laid_mode {
    HRI_LAID_NOT,    /* requests are recorded or planned, step by step */
    HRI_LAID_SKETCH, /* `thread` requests what a graph needs, and nothing runs */
    HRI_LAID_LAY,    /* it does so again, at the offsets of the graph */
    HRI_LAID_DONE    /* the range is the graph's */
} hri_laid_mode;

typedef struct hri_laid {
    hri_laid_mode mode;
    pthread_t thread;  /* that captures, or that places */
    hri_tape tape;     /* what was sketched */
    uint64_t next;     /* where the next sketched request lies */
    hri_places places; /* offsets of the next requests of `thread`; `placed` of them are served */
    size_t placed;
    bool claimed; /* by a step: nothing that is not placed may lie in the range */
    bool paused;  /* requests are neither recorded nor planned */
} hri_laid;

struct hr_replay {
    pthread_mutex_t mutex;
    hr_logical *logical;
    hr_replay_sync_fn *sync;
    void *sync_user;
    hri_lives lives; /* slots; those in `unused` are free */
    hri_numbers unused;
    hri_intmap at; /* address to slot */
    hri_parkings waiting;
    hri_tape now, last;
    hri_requests plan;
    hri_taken parts;
    hr_range *range;      /* NULL while recording */
    uint64_t main_stream; /* whose requests lie in the range */
    size_t cursor;        /* the next planned request of this step */
    bool missed;          /* something in this step */
    int missed_steps;     /* in a row */
    hri_laid laid;
    hr_status failed; /* the first thing that could not be given back; the next step says so */
    hr_replay_stats stats;
};

static inline void hri_replay_note(hr_replay *replay, hr_status status) {
    replay->failed = replay->failed == HR_OK ? status : replay->failed;
}

uint64_t hri_replay_round(uint64_t bytes);
/* Waits for the device, and gives the blocks that wait to the heap. */
HR_MUST_CHECK hr_status hri_replay_flush(hr_replay *replay);

/* record.c */
void hri_tape_clear(hri_tape *recording);
/* The number of the request, or HRI_REPLAY_CARRIED when it is not recorded. */
uint32_t hri_tape_add(hri_tape *recording, uint64_t bytes, uint64_t stream);
/* Sizes, order and streams are equal. */
bool hri_tape_same(const hri_tape *a, const hri_tape *b);

/* arena.c */
/* Makes a plan of two equal recordings and the range for it.  On failure nothing has changed but that nothing waits. */
HR_MUST_CHECK hr_status hri_arena_open(hr_replay *replay, const hri_tape *a, const hri_tape *b);
/* Gives the range back; nothing lives in it. */
HR_MUST_CHECK hr_status hri_arena_close(hr_replay *replay);
/* The planned offset of the next request of the step: true, and the part is taken. */
bool hri_arena_next(hr_replay *replay, uint64_t bytes, uint64_t stream, uint64_t *offset);
/* A free part for a request that is not planned. */
bool hri_arena_gap(hr_replay *replay, uint64_t bytes, uint64_t *offset);
/* This part, if nothing lives there. */
bool hri_arena_take(hr_replay *replay, uint64_t offset, uint64_t bytes);
/* A range of so many bytes, without offsets. */
HR_MUST_CHECK hr_status hri_range_open(hr_replay *replay, uint64_t bytes);
void hri_arena_free(hr_replay *replay, uint64_t offset);

/* laid.c */
/* Whether this request of the calling thread belongs to a graph, and its memory; HR_E_INVALID when it is not the one that was sketched. */
bool hri_laid_serves(const hr_replay *replay);
HR_MUST_CHECK hr_status hri_laid_serve(hr_replay *replay, uint64_t bytes, uint64_t stream,
                                       hri_live *live);
void hri_laid_freed(hr_replay *replay, const hri_live *live);
/* A graph is being captured: the device must not be waited for. */
bool hri_laid_capturing(const hr_replay *replay);
void hri_laid_deinit(hr_replay *replay);

/* blocks.c */
HR_MUST_CHECK hr_status hri_blocks_alloc(hr_replay *replay, uint64_t bytes, uint64_t stream,
                                         hr_block *out);
/* The block waits.  If there is no memory for that, the device is waited for. */
void hri_blocks_free(hr_replay *replay, const hr_block *block, uint64_t bytes, uint64_t stream);

#endif
