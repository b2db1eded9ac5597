/* What other people's programs have of the device beside handles: plain memory, arrays, memory of pools, by address. */
#ifndef FAKECUDA_PIECES_H
#define FAKECUDA_PIECES_H

#include "fake.h"

enum { PLAIN, PAGE, PART, ARRAY, POOLED, MANAGED, IPC, NODE };

typedef struct piece {
    struct piece *next;
    uint64_t at, bytes; /* bytes: physical, 0 for a part of a page */
    CUmemGenericAllocationHandle handle;
    struct CUctx_st *context; /* it dies with it; NULL: it does not */
    struct piece *page;       /* of small memory */
    uint64_t used, users;
    CUmemoryPool pool;   /* an address of a pool: bytes are what it uses there */
    struct chunk *chunk; /* in which it lies, from `used` on */
    int kind;
} piece;

/* None of these under the lock. */
piece *fake_piece_add(piece p);
/* Takes the piece out; a copy, kind -1 when there is none.  `kinds`: a bit each. */
piece fake_piece_take(uint64_t at, uint64_t kinds);
/* The current context, or why there is none. */
CUresult fake_current_now(struct CUctx_st **out);
/* An address that means nothing but itself. */
uint64_t fake_fresh_address(uint64_t bytes);
/* pool.c: memory of a pool or of a graph's node goes. */
void fake_pool_free(const piece *p);

static inline uint64_t fake_up(uint64_t bytes, uint64_t unit) {
    return (bytes + unit - 1) / unit * unit;
}

#endif
