/* The ledger under headroom/budget.h: pools with limits, leases, waiting requests.  It knows no device and asks nobody how
 * much memory there is: whoever makes a pool says its limit, whoever enters one says what the process has of it.
 *
 * One lock for all of it: every call is short, and a lease moves only between steps.  Waiting requests of a pool are
 * served in the order in which they came, so a large one is not starved by small ones.  A pool may lie in another
 * (pinned memory in the host's): its leases then count in both. */
#ifndef HRI_MEMORY_BUDGET_H
#define HRI_MEMORY_BUDGET_H

#include <headroom/budget.h>

typedef struct hri_book hri_book;

HR_MUST_CHECK hr_status hri_book_create(hri_book **out);
HR_MUST_CHECK hr_status hri_book_destroy(hri_book *book); /* HR_E_BUSY; NULL is allowed */

/* A pool, inside another one or (NULL) by itself.  Again for a pool that is there: nothing changes.  HR_E_NOT_FOUND: no
 * such outer pool; HR_E_INVALID: a name of no or more than 47 bytes. */
HR_MUST_CHECK hr_status hri_book_add_pool(hri_book *book, const char *name, const char *outer,
                                          uint64_t limit_bytes);
int hri_book_has_pool(hri_book *book, const char *name);

HR_MUST_CHECK hr_status hri_book_set_limit(hri_book *book, const char *pool, uint64_t limit_bytes);
HR_MUST_CHECK hr_status hri_book_get_pool(hri_book *book, size_t index, hr_pool_info *out);
HR_MUST_CHECK hr_status hri_book_request(hri_book *book, const hr_lease_options *o, hr_lease **out,
                                         hr_error *why);
HR_MUST_CHECK hr_status hri_book_get_lease(hri_book *book, const char *pool, size_t index,
                                           hr_lease_info *out);
HR_MUST_CHECK hr_status hri_book_ask(hri_book *book, const char *pool, const char *name,
                                     uint64_t bytes);
HR_MUST_CHECK hr_status hri_book_check(hri_book *book);

/* What the process has of a pool's memory now, whatever it is for.  Of that, what no solid lease holds is the pool's lease
 * "runtime", which grows to cover it and goes when as many have left as have entered.  Never waits: HR_E_LIMIT, HR_E_AGAIN
 * as a request.  A solid lease is one whose held bytes are part of what the process has. */
HR_MUST_CHECK hr_status hri_book_enter(hri_book *book, const char *pool, uint64_t process_bytes,
                                       hr_error *why);
void hri_book_leave(hri_book *book, const char *pool);
/* The lease "runtime" as it is. */
uint64_t hri_book_runtime(hri_book *book, const char *pool);
/* What entering would add to the runtime. */
uint64_t hri_book_uncovered(hri_book *book, const char *pool, uint64_t process_bytes);
void hri_lease_set_solid(hr_lease *lease);

#endif
