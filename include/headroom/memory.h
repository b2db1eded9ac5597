/* Memory of a logical device: blocks for dynamic use, ranges for plans, accounts of who holds what.
 *
 * held   physical bytes taken from the device: whole pages
 * live   bytes of them in use by blocks and ranges
 * limit  never exceeded by held, not by one byte, whatever the number of threads
 *
 * A block never moves.  Small blocks share pages; a large one has its own pages, which need not be adjacent: if there are
 * enough free pages, the request succeeds.
 *
 * Threads: any thread, for everything here. */
#ifndef HEADROOM_MEMORY_H
#define HEADROOM_MEMORY_H

#include <stddef.h>
#include <stdint.h>
#include <headroom/device.h>
#include <headroom/status.h>

HR_BEGIN_DECLS

/* X(NAME, "name") */
#define HR_CATEGORY_MAP(X)                                                                         \
    X(OTHER, "other")                                                                              \
    X(WEIGHTS, "weights")                                                                          \
    X(GRADIENTS, "gradients")                                                                      \
    X(OPTIMIZER, "optimizer")                                                                      \
    X(ACTIVATIONS, "activations")                                                                  \
    X(WORKSPACE, "workspace")                                                                      \
    X(INPUT, "input")

typedef enum hr_category {
#define HR_CATEGORY_ENUM(NAME, TEXT) HR_CATEGORY_##NAME,
    HR_CATEGORY_MAP(HR_CATEGORY_ENUM)
#undef HR_CATEGORY_ENUM
        HR_CATEGORY_COUNT
} hr_category;

enum { HR_CATEGORY_MAX = 16 }; /* places for categories in hr_stats */

HR_API const char *hr_category_name(hr_category category);

/* Who a block belongs to.  0 is "unnamed".  Ask once, keep the number. */
typedef uint32_t hr_owner;
/* Finds or makes the owner of that name (1 to 47 bytes).  Owners live as long as the logical device. */
HR_API HR_MUST_CHECK hr_status hr_owner_get(hr_logical *logical, const char *name, hr_owner *out);

/* A block is a value: copy it freely, free it once. */
typedef struct hr_block {
    hr_addr addr;
    uint64_t bytes;  /* as requested */
    uint64_t handle; /* private; a freed handle is recognised */
} hr_block;

/* addr is a multiple of 256 and, for blocks larger than half a page, of the page size.
 * bytes == 0 is HR_E_INVALID.  HR_E_LIMIT if the limit does not allow it, HR_E_NOMEM_DEVICE if the device itself
 * is full, HR_E_NOMEM_HOST if the host is out of memory for bookkeeping: hr_ctx_error() has the whole account. */
HR_API HR_MUST_CHECK hr_status hr_block_alloc(hr_logical *logical, uint64_t bytes,
                                              hr_category category, hr_owner owner, hr_block *out);
/* HR_E_INVALID for a block that is not live here (freed twice, of another device). */
HR_API HR_MUST_CHECK hr_status hr_block_free(hr_logical *logical, const hr_block *block);

/* A range: addresses that stay the same while their memory grows, shrinks or is shared.  A plan's arena is one. */
typedef struct hr_range hr_range;

/* Reserves addresses for up to `reserve_bytes`; allocates no memory yet. */
HR_API HR_MUST_CHECK hr_status hr_range_create(hr_logical *logical, uint64_t reserve_bytes,
                                               hr_category category, hr_owner owner,
                                               hr_range **out);
/* Frees everything.  HR_E_BUSY while another range shares its pages. */
HR_API HR_MUST_CHECK hr_status hr_range_destroy(hr_range *range);
/* Makes the first `bytes` usable (rounded up to whole pages).  What stays keeps its contents.  HR_E_RANGE over the
 * reserve; HR_E_BUSY when shrinking below what another range shares. */
HR_API HR_MUST_CHECK hr_status hr_range_resize(hr_range *range, uint64_t bytes);
/* Makes a second address for the first `bytes` of `of`'s pages: no new memory is held.  On the host a page mapped
 * twice counts twice in the resident set, so prefer one address there. */
HR_API HR_MUST_CHECK hr_status hr_range_share(hr_range *of, uint64_t bytes, hr_range **out);
HR_API hr_addr hr_range_addr(const hr_range *range);
HR_API uint64_t hr_range_bytes(const hr_range *range);

/* ---- accounts ---- */

typedef struct hr_usage {
    uint64_t live_bytes; /* as requested */
    uint64_t peak_bytes; /* the most that live_bytes has been */
    uint64_t held_bytes; /* what those blocks occupy, rounding included */
    uint64_t blocks;
} hr_usage;

typedef struct hr_stats {
    size_t size; /* set by the caller to sizeof(hr_stats) */
    uint64_t limit_bytes;
    uint64_t held_bytes, held_peak_bytes;
    uint64_t live_bytes, live_peak_bytes;
    uint64_t idle_bytes;         /* held, in no use: what trim would give back */
    uint64_t free_bytes;         /* limit minus pages in use: what could still be served in pages */
    uint64_t largest_free_bytes; /* the largest single block that would be served now */
    uint64_t blocks, ranges;
    uint64_t allocs, frees, refusals; /* since the start */
    uint64_t maps;                    /* pages mapped since the start: the slow path, counted */
    int32_t growth;                   /* hr_growth */
    uint32_t idle_trim_ms;
    uint32_t owner_count;
    uint32_t reserved;
    hr_usage category[HR_CATEGORY_MAX];
} hr_stats;

/* Fails only for a size that was forgotten. */
HR_API hr_status hr_logical_get_stats(hr_logical *logical, hr_stats *out);

/* Usage of one owner; name may be NULL, else it gets at most name_size bytes with a NUL.  HR_E_NOT_FOUND beyond
 * owner_count. */
HR_API HR_MUST_CHECK hr_status hr_owner_get_usage(hr_logical *logical, hr_owner owner,
                                                  hr_usage *out, char *name, size_t name_size);
/* Sets every peak of the logical device to what is live and held now. */
HR_API void hr_logical_reset_peaks(hr_logical *logical);

/* Walks every invariant of the heap, the pages, the accounts: HR_OK, or HR_E_INTERNAL with the first one broken in
 * the error.  Slow; for tests and for doubt. */
HR_API HR_MUST_CHECK hr_status hr_logical_check(hr_logical *logical);

HR_END_DECLS
#endif
