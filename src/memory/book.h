/* The ledger's own structs, between budget.c (pools, listings) and lease.c (leases and the queue); see budget.h. */
#ifndef HRI_MEMORY_BOOK_H
#define HRI_MEMORY_BOOK_H

#include <pthread.h>

#include "memory/budget.h"

enum { HRI_BOOK_NAME = 48 };

typedef struct hri_book_pool {
    char name[HRI_BOOK_NAME];
    struct hri_book_pool *outer, *next;
    uint64_t limit_bytes, granted_bytes, held_bytes, peak_bytes; /* inner pools included */
    hr_lease *runtime;                                           /* NULL: nobody has entered */
    uint32_t entered;
} hri_book_pool;

struct hr_lease {
    hri_book *book;
    hri_book_pool *pool;
    hr_lease *prev, *next; /* of all leases, oldest first */
    char name[HRI_BOOK_NAME];
    uint64_t granted_bytes, held_bytes, least_bytes;
    uint64_t asked_bytes; /* HR_UNKNOWN: not asked */
    uint64_t since_ns;    /* > 0: it waits since then, and has nothing yet */
    hr_shrink_fn *on_shrink;
    void *shrink_user;
    int told, calling; /* on_shrink knows of the last request; it runs now */
    int solid;         /* what it holds is there, byte for byte: no part of the runtime */
};

struct hri_book {
    pthread_mutex_t mutex;
    pthread_cond_t
        moved; /* something was given back, a limit rose, the queue moved on, a call ended */
    hri_book_pool *pools, *last_pool;
    hr_lease *first, *last; /* granted ones and, behind them in the order of asking, waiting ones */
};

/* All with the lock held. */
hri_book_pool *hri_book_find(const hri_book *book, const char *name);
/* Does p lie in `outer`, or is it that? */
int hri_book_lies_in(const hri_book_pool *p, const hri_book_pool *outer);
/* What a lease of the pool could get now, and the tightest limit on a single one. */
uint64_t hri_book_free(const hri_book_pool *p);
uint64_t hri_book_limit(const hri_book_pool *p);
void hri_book_add_granted(hri_book_pool *p, uint64_t more, uint64_t less);
void hri_book_add_held(hri_book_pool *p, uint64_t more, uint64_t less);
/* Asks holders of the pool for so many bytes, the one furthest above its minimum first.  at_once: only those with a
 * callback.  all: nobody where the sum would not be enough.  Then hri_book_tell. */
void hri_book_ask_for(hri_book *book, const hri_book_pool *p, uint64_t bytes, int at_once, int all);
/* Calls on_shrink of those that were asked and not told; lets the lock go meanwhile. */
void hri_book_tell(hri_book *book);

#endif
