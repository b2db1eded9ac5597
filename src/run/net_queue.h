/* A queue of exchanges: one thread that makes them one after the other, beside what is computed.
 *
 *   hri_net_queue_start(q, &call, run);     returns at once; calls are made in the order of their starts
 *   hri_net_queue_wait(q, 1);               the first one since hri_net_queue_begin is over
 *
 * The bytes of a call belong to the queue until it was waited for; the plan's checker has seen to that.  Whatever the wire
 * is, its calls come from this thread while a plan runs and from the caller's otherwise, never from both.  When one fails, those behind
 * it are not made and fail with it.
 *
 * Threads: start and wait come from one thread. */
#ifndef HRI_RUN_NET_QUEUE_H
#define HRI_RUN_NET_QUEUE_H

#include "graph/op.h"

typedef struct hri_net_queue hri_net_queue;

/* HR_E_NOMEM_HOST: no memory, or no thread.  `most` calls are under way at once. */
HR_MUST_CHECK hr_status hri_net_queue_open(uint32_t most, hri_net_queue **out);
/* Nothing may be under way.  NULL is allowed. */
void hri_net_queue_close(hri_net_queue *q);
/* Counts from here, and forgets failures. */
void hri_net_queue_begin(hri_net_queue *q);
/* The call is copied; what it points to stays.  More than `most`: waits for the first. */
void hri_net_queue_start(hri_net_queue *q, const hri_call *call, hri_run_fn *run);
/* Until so many of them are over: the status of the first that failed. */
HR_MUST_CHECK hr_status hri_net_queue_wait(hri_net_queue *q, uint64_t count);
/* Until all are over, whatever became of them. */
void hri_net_queue_drain(hri_net_queue *q);

#endif
