/* The pool.  Size classes are multiples of 4 KiB in eight steps to the doubling, so rounding costs an eighth at most
 * and a buffer freed by one picture serves the next of about its size. */
#include "data/pool.h"

#include <malloc.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <headroom/budget.h>
#include "base/alloc.h"
#include "base/fault.h"

enum { PAGE_SHIFT = 12, SMALL_BYTES = 32 << 10, CLASS_COUNT = 8 * 36, FROM_MALLOC = -1 };

struct hri_buffer_pool {
    hri_ledger ledger;
    hr_lease *lease; /* NULL: nobody was asked */
    _Atomic uint64_t refs;
    pthread_mutex_t mutex;
    uint64_t mapped;       /* in use and idle */
    _Atomic uint64_t idle; /* written under the mutex */
    hri_buffer *lists[CLASS_COUNT];
};

uint64_t hri_bytes_add(uint64_t a, uint64_t b) {
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

uint64_t hri_bytes_mul(uint64_t a, uint64_t b) {
    return a != 0 && b > UINT64_MAX / a ? UINT64_MAX : a * b;
}

/* The class of a size of at least SMALL_BYTES, and the bytes of that class. */
static uint32_t class_of(uint64_t bytes, uint64_t *rounded) {
    const uint64_t pages = (bytes + (1u << PAGE_SHIFT) - 1) >> PAGE_SHIFT; /* >= 8 */
    const unsigned top = 63 - (unsigned)__builtin_clzll(pages);            /* >= 3 */
    const unsigned shift = top - 3;
    uint64_t step = (pages + (1ull << shift) - 1) >> shift; /* 8 .. 16 */
    unsigned octave = shift;
    if (step == 16) {
        step = 8;
        octave++;
    }
    *rounded = (step << octave) << PAGE_SHIFT;
    return octave * 8 + (uint32_t)(step - 8);
}

uint64_t hri_pool_round(uint64_t bytes) {
    if (bytes < SMALL_BYTES) {
        return (bytes + 63) / 64 * 64 + (uint64_t)(bytes == 0) * 64;
    }
    if (bytes >> 46) {
        return UINT64_MAX;
    }
    uint64_t rounded;
    class_of(bytes, &rounded);
    return rounded;
}

hr_status hri_pool_create(uint64_t budget, hri_buffer_pool **out) {
    hri_buffer_pool *pool = hri_calloc(1, sizeof *pool);
    if (!pool) {
        return HR_E_NOMEM_HOST;
    }
    const hr_status status = hri_ledger_init(&pool->ledger, budget);
    if (status != HR_OK) {
        hri_free(pool);
        return status;
    }
    pthread_mutex_init(&pool->mutex, NULL);
    atomic_init(&pool->refs, 1);
    *out = pool;
    return HR_OK;
}

hri_ledger *hri_pool_ledger(hri_buffer_pool *pool) {
    return &pool->ledger;
}

/* Under the mutex: unmaps idle buffers, the largest first, until at most `keep` bytes lie idle. */
static void trim_to(hri_buffer_pool *pool, uint64_t keep) {
    for (int c = CLASS_COUNT - 1; c >= 0 && pool->idle > keep; c--) {
        while (pool->lists[c] && pool->idle > keep) {
            hri_buffer *b = pool->lists[c];
            pool->lists[c] = b->next;
            pool->mapped -= b->bytes;
            pool->idle -= b->bytes;
            munmap(b->data, b->bytes);
            hri_free(b);
        }
    }
}

/* After a charge: what lies idle must fit beside what is held. */
static void trim_idle(hri_buffer_pool *pool) {
    const hri_ledger_view v = hri_ledger_look(&pool->ledger);
    const uint64_t keep = v.budget - v.held;
    if (pool->idle > keep) {
        pthread_mutex_lock(&pool->mutex);
        trim_to(pool, keep);
        pthread_mutex_unlock(&pool->mutex);
    }
}

void hri_pool_trim(hri_buffer_pool *pool) {
    pthread_mutex_lock(&pool->mutex);
    trim_to(pool, 0);
    pthread_mutex_unlock(&pool->mutex);
    malloc_trim(1 << 20);
}

uint64_t hri_pool_mapped_bytes(hri_buffer_pool *pool) {
    pthread_mutex_lock(&pool->mutex);
    const uint64_t mapped = pool->mapped;
    pthread_mutex_unlock(&pool->mutex);
    return mapped;
}

void hri_pool_unref(hri_buffer_pool *pool) {
    if (!pool || atomic_fetch_sub(&pool->refs, 1) != 1) {
        return;
    }
    trim_to(pool, 0);
    pthread_mutex_destroy(&pool->mutex);
    hri_ledger_deinit(&pool->ledger);
    hr_lease_release(pool->lease);
    hri_free(pool);
}

void hri_pool_adopt(hri_buffer_pool *pool, hr_lease *lease) {
    pool->lease = lease;
}

void hri_pool_settle(hri_buffer_pool *pool) {
    if (pool->lease) {
        hr_lease_decline(pool->lease, hri_ledger_look(&pool->ledger).guarantees);
    }
}

void hri_pool_answer(hri_buffer_pool *pool) {
    const uint64_t asked = pool->lease ? hr_lease_asked(pool->lease) : HR_UNKNOWN;
    if (asked == HR_UNKNOWN) {
        return;
    }
    const uint64_t least = hri_ledger_look(&pool->ledger).guarantees;
    const uint64_t target = asked > least ? asked : least;
    const uint64_t now = hri_ledger_shrink(&pool->ledger, target);
    trim_idle(pool);
    /* What is promised to us is what we may hold: less of both cannot be refused. */
    (void)!hr_lease_hold(pool->lease, now);
    (void)!hr_lease_resize(pool->lease, now);
    if (now == target && target > asked) {
        hr_lease_decline(pool->lease, least);
    }
}

/* Pages for a class, from the idle list or from the system. */
static hri_buffer *take_pages(hri_buffer_pool *pool, uint32_t size_class, uint64_t rounded) {
    pthread_mutex_lock(&pool->mutex);
    hri_buffer *b = pool->lists[size_class];
    if (b) {
        pool->lists[size_class] = b->next;
        pool->idle -= rounded;
        pthread_mutex_unlock(&pool->mutex);
        return b;
    }
    pool->mapped += rounded;
    pthread_mutex_unlock(&pool->mutex);
    trim_idle(pool);
    void *data = MAP_FAILED;
    b = hri_calloc(1, sizeof *b);
    if (b && !HRI_FAULT(MAP)) {
        data = mmap(NULL, rounded, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    }
    if (data == MAP_FAILED) {
        hri_free(b);
        pthread_mutex_lock(&pool->mutex);
        pool->mapped -= rounded;
        pthread_mutex_unlock(&pool->mutex);
        return NULL;
    }
    b->data = data;
    return b;
}

/* The head lies in front of the data in one piece of malloc's. */
static hri_buffer *take_small(uint64_t rounded) {
    enum { HEAD = (sizeof(hri_buffer) + 63) / 64 * 64 };
    char *raw = hri_malloc((size_t)rounded + HEAD + 64);
    if (!raw) {
        return NULL;
    }
    hri_buffer *b = (hri_buffer *)(void *)raw;
    b->data = (void *)(((uintptr_t)raw + HEAD + 63) & ~(uintptr_t)63);
    return b;
}

hr_status hri_buffer_create(hri_buffer_pool *pool, hri_account *account, uint64_t bytes,
                            hri_buffer **out) {
    const uint64_t rounded = hri_pool_round(bytes);
    if (!hri_ledger_try(account, rounded)) {
        return HR_E_LIMIT;
    }
    uint32_t size_class = (uint32_t)FROM_MALLOC;
    hri_buffer *b;
    if (bytes < SMALL_BYTES) {
        b = take_small(rounded);
        trim_idle(pool);
    } else {
        uint64_t same;
        size_class = class_of(bytes, &same);
        b = take_pages(pool, size_class, rounded);
    }
    if (!b) {
        hri_ledger_release(account, rounded);
        return HR_E_NOMEM_HOST;
    }
    atomic_init(&b->refs, 1);
    b->size_class = size_class;
    b->handed = false;
    b->pool = pool;
    b->account = account;
    b->bytes = rounded;
    b->next = NULL;
    atomic_fetch_add(&pool->refs, 1);
    *out = b;
    return HR_OK;
}

hri_buffer *hri_buffer_ref(hri_buffer *buffer) {
    atomic_fetch_add(&buffer->refs, 1);
    return buffer;
}

void hri_buffer_unref(hri_buffer *buffer) {
    if (!buffer || atomic_fetch_sub(&buffer->refs, 1) != 1) {
        return;
    }
    hri_buffer_pool *pool = buffer->pool;
    hri_account *account = buffer->account;
    const uint64_t bytes = buffer->bytes;
    if (buffer->handed) {
        hri_ledger_hand(account, -(int64_t)bytes);
    }
    if (buffer->size_class == (uint32_t)FROM_MALLOC) {
        hri_free(buffer);
    } else {
        pthread_mutex_lock(&pool->mutex);
        buffer->next = pool->lists[buffer->size_class];
        pool->lists[buffer->size_class] = buffer;
        pool->idle += bytes;
        pthread_mutex_unlock(&pool->mutex);
    }
    hri_ledger_release(account, bytes);
    hri_pool_unref(pool);
}
