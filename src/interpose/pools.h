/* Pools of stream-ordered memory: what costs is what a pool has reserved of the device, not what is asked of it.
 *
 * Programs ask their pools thousands of times a step, and almost always the pool has what they want.  So nobody looks at a pool at
 * each call.  A part of the lease is set *ahead* of what pools are charged with, and calls are let through while all of them
 * together cannot have made pools grow by more than that:
 *
 *     charged + ahead <= lease      and      growth since the last look <= risk of the calls since then + base <= ahead
 *
 * A request's risk is twice its bytes, or, above half a chunk, what it is in whole chunks.  A pool takes a new chunk of the device
 * only when none of its free ranges is large enough: each chunk that it took since the last look, but for the last, was filled with
 * requests until one no longer fitted, and these with that one are more than the chunk.  `base` is for the chunk that is open at
 * the end, for every pool.  A look asks the driver what each pool has reserved, charges the difference to what was set ahead, and
 * begins anew.  A pool that is found to have grown by more than the bound says gets a larger chunk; when the lease has no room
 * for anything ahead, calls are made one at a time with what they may cost taken before and the pool looked at behind each
 * (*exact*).
 *
 * The way through takes no lock and makes no call: `begun` and `ended` count the risk of calls that went through and that came
 * back, and a call goes through when `begun` with its own is at most `until`, which is `ended` as it was before the last look, plus
 * what is ahead, less base. */
#ifndef HRI_INTERPOSE_POOLS_H
#define HRI_INTERPOSE_POOLS_H

#include "interpose/govern.h"

typedef struct hri_pool_turn {
    bool exact;     /* the call is alone: `pools` is held until hri_pool_settle */
    uint64_t bytes; /* its risk; exact: what was taken for it */
} hri_pool_turn;

/* The device that a pool's memory lies on, if calls of it may be let through; else -1.  No lock. */
int hri_pool_known(CUmemoryPool pool);
/* Lets a call through that asks the device's pools for `bytes`, and the current pool when `current`; false: take a turn. */
bool hri_pool_pass(int device, bool current, uint64_t bytes, hri_pool_turn *out);
/* Takes what the pool may grow by.  `current`: it is the device's current one.  Who is not patient is refused without a record, and
 * without waiting.  CUDA_SUCCESS: hri_pool_settle follows.  Else hri_pool_refused. */
CUresult hri_pool_take(int device, CUmemoryPool pool, bool current, uint64_t bytes, hri_hook call,
                       bool patient, hri_pool_turn *out);
void hri_pool_refused(void);
/* Behind the driver's call.  CUDA_ERROR_OUT_OF_MEMORY: the pool has grown by more than anybody granted; the caller gives back. */
CUresult hri_pool_settle(int device, CUmemoryPool pool, const hri_pool_turn *turn, hri_hook call);

/* The device's current pool is another one from now on. */
void hri_pool_changed(int device);
/* It goes: nothing is let through to it.  Under lock. */
void hri_pool_forget(int device, CUmemoryPool pool);

/* Reads what pools really hold; what they no longer do is given back.  trim: makes idle memory go first.  drop: what is ahead goes
 * back to the lease. */
void hri_pools_settle(int device, bool trim, bool drop);
/* What the pool at the host does not use goes back. */
void hri_host_pool_trim(int device);

uint64_t hri_pool_attribute(CUmemoryPool pool, int which);

#endif
