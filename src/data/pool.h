/* Buffers: counted pieces of memory, each charged to an account of the ledger.
 *
 * The one idea: large buffers are mapped pages of our own, kept for reuse in lists by size class, so that nothing of
 * them stays behind in malloc's arenas; and what is in use plus what lies idle is never more than the budget: idle
 * pages go back to the system before new ones are mapped.  So the resident set follows the ledger.
 *
 * Small buffers (below 32 KiB) come from malloc: a shuffle of a hundred thousand small elements must not need as
 * many mappings.  The charge is the size after rounding: what the buffer really takes.
 *
 * The pool is counted too: elements in the user's hands may outlive the pipeline.  Any thread. */
#ifndef HRI_DATA_POOL_H
#define HRI_DATA_POOL_H

#include <stdatomic.h>
#include <stdint.h>
#include <headroom/status.h>
#include "data/ledger.h"

struct hr_lease;
typedef struct hri_buffer_pool hri_buffer_pool;

typedef struct hri_buffer {
    _Atomic uint32_t refs;
    uint32_t size_class; /* UINT32_MAX: from malloc */
    bool handed;         /* counted in account->handed */
    hri_buffer_pool *pool;
    hri_account *account;
    uint64_t bytes; /* charged */
    void *data;     /* aligned to 64 bytes */
    struct hri_buffer *next;
} hri_buffer;

HR_MUST_CHECK hr_status hri_pool_create(uint64_t budget, hri_buffer_pool **out);
/* The memory is that of this lease, which becomes the pool's and is released with its last buffer.  Before any buffer. */
void hri_pool_adopt(hri_buffer_pool *pool, struct hr_lease *lease);
/* The guarantees are known: from now on they are the least that the lease may be asked for. */
void hri_pool_settle(hri_buffer_pool *pool);
/* What the lease is asked to shrink to is given back as far as it can be now: idle pages, and room that nobody was
 * promised.  Cheap when nothing is asked. */
void hri_pool_answer(hri_buffer_pool *pool);
/* Gives the creator's reference back. */
void hri_pool_unref(hri_buffer_pool *pool);
hri_ledger *hri_pool_ledger(hri_buffer_pool *pool);
/* Unmaps what lies idle. */
void hri_pool_trim(hri_buffer_pool *pool);
/* Bytes of mapped pages, in use and idle. */
uint64_t hri_pool_mapped_bytes(hri_buffer_pool *pool);

/* What a buffer for `bytes` is charged; UINT64_MAX when it is too large for any machine. */
uint64_t hri_pool_round(uint64_t bytes);
/* The same for several at once, without overflow. */
uint64_t hri_bytes_add(uint64_t a, uint64_t b);
uint64_t hri_bytes_mul(uint64_t a, uint64_t b);

/* A buffer with one reference.  HR_E_LIMIT when the ledger refuses (it never waits here), HR_E_NOMEM_HOST when the
 * system does.  The contents are undefined. */
HR_MUST_CHECK hr_status hri_buffer_create(hri_buffer_pool *pool, hri_account *account,
                                          uint64_t bytes, hri_buffer **out);
hri_buffer *hri_buffer_ref(hri_buffer *buffer);
/* NULL is allowed. */
void hri_buffer_unref(hri_buffer *buffer);

#endif
