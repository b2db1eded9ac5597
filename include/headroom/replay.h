/* Memory for a program that makes the same requests in every step: a training loop of PyTorch, for example.
 *
 *   hr_replay_create(logical, NULL, &replay);
 *   for (;;) {
 *       hr_replay_step(replay);
 *       hr_replay_alloc(replay, bytes, stream, &at); ... hr_replay_free(replay, at); ...
 *   }
 *
 * All memory comes from one logical device, so its limit holds, whatever the program requests.  The first steps are
 * recorded and served with blocks.  When two in a row have made the same requests, everything that lived within one step
 * is packed by its lifetimes into one range, and from then on the nth request of a step is served at its planned
 * offset.  What outlives a step (parameters, results that the program keeps) stays in blocks.
 *
 * A request that does not match the recording is counted and served with a block, or in a part of the range that is free;
 * it is refused when there is neither.  An offset is given out only while nothing lives there, so steps that differ cost
 * time, never correctness.  Two such steps in a row, and recording starts over.
 *
 * Freed memory is reused in the order of its stream: what one stream freed is given to another, or moved to another
 * address, only after `sync`.
 *
 * Threads: any thread, for everything but destroy. */
#ifndef HEADROOM_REPLAY_H
#define HEADROOM_REPLAY_H

#include <stddef.h>
#include <stdint.h>
#include <headroom/memory.h>
#include <headroom/status.h>

HR_BEGIN_DECLS

typedef struct hr_replay hr_replay;

/* Waits until the device has completed everything that was given to it; 0 is success.  Must not call back. */
typedef int hr_replay_sync_fn(void *user);

/* Zero means the default in every field.  Set `size` to sizeof(hr_replay_options). */
typedef struct hr_replay_options {
    size_t size;
    hr_replay_sync_fn *sync; /* NULL: work is never still running when memory is freed */
    void *sync_user;
} hr_replay_options;

/* `logical` must outlive it, and should serve nothing else.  options may be NULL. */
HR_API HR_MUST_CHECK hr_status hr_replay_create(hr_logical *logical,
                                                const hr_replay_options *options, hr_replay **out);
/* Frees everything, what is live included.  NULL is allowed. */
HR_API void hr_replay_destroy(hr_replay *replay);

/* A step begins here, and the one before ends.  HR_E_DEVICE if the device could not be waited for, now or in that step. */
HR_API HR_MUST_CHECK hr_status hr_replay_step(hr_replay *replay);

/* A multiple of 256; 0 for 0 bytes.  `stream` is any number that names an order of execution.  HR_E_LIMIT,
 * HR_E_NOMEM_DEVICE, HR_E_NOMEM_HOST as hr_block_alloc, with the account in hr_ctx_error; HR_E_DEVICE if `sync` failed. */
HR_API HR_MUST_CHECK hr_status hr_replay_alloc(hr_replay *replay, uint64_t bytes, uint64_t stream,
                                               hr_addr *out);
/* HR_E_INVALID for an address that is not live here; 0 is allowed. */
HR_API HR_MUST_CHECK hr_status hr_replay_free(hr_replay *replay, hr_addr at);
/* Another stream uses this memory too: freeing it waits for the device. */
HR_API HR_MUST_CHECK hr_status hr_replay_share(hr_replay *replay, hr_addr at);
/* Waits for the device and gives back what is not in use. */
HR_API HR_MUST_CHECK hr_status hr_replay_trim(hr_replay *replay);

typedef struct hr_replay_stats {
    size_t size;          /* set by the caller to sizeof(hr_replay_stats) */
    uint64_t planned;     /* 1: requests have planned offsets */
    uint64_t steps;       /* begun */
    uint64_t recorded;    /* of these, served with blocks and recorded */
    uint64_t requests;    /* of one step, as planned */
    uint64_t arena_bytes; /* of the range; 0 while recording */
    uint64_t bound_bytes; /* the most that lives in it at one moment: no packing is smaller */
    uint64_t live_bytes;  /* in use, as requested */
    uint64_t peak_bytes;  /* the most of it since hr_replay_reset_peak */
    uint64_t block_bytes; /* live in blocks, beside the range */
    uint64_t
        waiting_bytes; /* of freed blocks that wait for a sync or for a request of the same size */
    uint64_t served;   /* requests served at their planned offsets */
    uint64_t missed;   /* requests that differed from the plan in size, order or lifetime */
    uint64_t extra;    /* requests after the last planned one of a step */
    uint64_t overflow; /* of missed and extra ones, served in free parts of the range */
    uint64_t refused;  /* requests refused */
    uint64_t syncs;    /* waits for the device */
    uint64_t plans, unplanned; /* how often a recording became a plan, or had no room as one */
} hr_replay_stats;

/* Fails only for a size that was forgotten. */
HR_API hr_status hr_replay_get_stats(hr_replay *replay, hr_replay_stats *out);
/* From now on peak_bytes counts from what is live. */
HR_API void hr_replay_reset_peak(hr_replay *replay);

/* ---- laid steps ----
 *
 * A CUDA graph has its addresses inside, so a step that is replayed as graphs has its memory laid once, for good:
 *
 *   hr_replay_sketch(replay, bytes);   this thread captures the graphs, and throws them away
 *   hr_replay_lay(replay);             it captures them again: the same requests, now at packed offsets
 *   hr_replay_laid(replay);            the range is the graphs'
 *   for (;;) {
 *       hr_replay_claim(replay, stream);  ...launch...  hr_replay_place(replay, at, count);  ...requests...  hr_replay_release(replay);
 *   }
 *
 * While a thread sketches, the addresses that it gets may overlap: capturing runs nothing, so nothing may be read or written
 * there.  What lives when both captures have ended must have been freed.  Requests of other threads, and of this one when
 * the range is laid, are served with blocks; in free parts of the range only while no step claims it.  Steps are not recorded or planned
 * until hr_replay_unlay. */

/* on: requests are served with blocks and are part of no recording, sketch or layout, as preparations are.  0: as before. */
HR_API void hr_replay_pause(hr_replay *replay, int on);
/* Begins to sketch in a range of `bytes`, at least the largest request.  A plan that exists is given up.  HR_E_BUSY while
 * something lives at a planned offset; HR_E_LIMIT and the others as hr_replay_alloc. */
HR_API HR_MUST_CHECK hr_status hr_replay_sketch(hr_replay *replay, uint64_t bytes);
/* Ends the sketch, packs it, and begins to lay: this thread's requests must be the same again, else hr_replay_alloc is
 * HR_E_INVALID.  HR_E_BUSY when something that was sketched lives still, HR_E_NOT_FOUND when nothing was requested. */
HR_API HR_MUST_CHECK hr_status hr_replay_lay(hr_replay *replay);
/* Ends it.  HR_E_BUSY when something lives still or was not requested again. */
HR_API HR_MUST_CHECK hr_status hr_replay_laid(hr_replay *replay);
/* Gives the range back, from any of these states.  HR_E_BUSY while something lives in it. */
HR_API HR_MUST_CHECK hr_status hr_replay_unlay(hr_replay *replay);
/* The graphs may write to the whole range from here on, in the order of `stream`.  HR_E_BUSY while something lives there or
 * another step has it; HR_E_INVALID when nothing is laid. */
HR_API HR_MUST_CHECK hr_status hr_replay_claim(hr_replay *replay, uint64_t stream);
/* The next `count` requests of this thread are what the graphs write at these addresses; each is HR_E_INVALID where something
 * lives.  HR_E_RANGE for an address outside of the range. */
HR_API HR_MUST_CHECK hr_status hr_replay_place(hr_replay *replay, const hr_addr *at, size_t count);
/* Ends the claim.  What was placed lives until it is freed. */
HR_API void hr_replay_release(hr_replay *replay);

/* ---- PyTorch's pluggable allocator ----
 *
 * torch.cuda.memory.CUDAPluggableAllocator("libheadroom.so", "hr_torch_alloc", "hr_torch_free").  Its functions have no
 * argument for an object, so there is one table for the process: a replay for each device.  Everything here may be called
 * from any thread. */

enum { HR_TORCH_DEVICES = 64 };

/* Memory of PyTorch's device `device` comes from `replay` from now on; NULL: from nowhere.  throws: a refusal is a C++
 * exception (std::runtime_error) with the reason, which PyTorch turns into a RuntimeError; else hr_torch_alloc returns
 * NULL, which PyTorch takes for an address.  HR_E_RANGE for a device outside of 0 to 63; HR_E_UNSUPPORTED if throws is
 * set and the process has no C++ library loaded. */
HR_API HR_MUST_CHECK hr_status hr_torch_use(int device, hr_replay *replay, int throws);
HR_API void *hr_torch_alloc(size_t bytes, int device, void *stream);
HR_API void hr_torch_free(void *at, size_t bytes, int device, void *stream);
/* For set_record_stream_fn. */
HR_API void hr_torch_record(void *at, void *stream);
/* For hr_replay_options.sync: waits for CUDA's device of the number `user`, as a pointer; nonzero if there is none or it has
 * failed. */
HR_API int hr_torch_sync(void *user);

HR_END_DECLS
#endif
