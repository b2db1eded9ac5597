/* Accounts: who holds what, by category and by owner, always on.
 *
 * Each block is booked once when it is made and once when it goes: a few additions.  Owners are names turned into
 * small numbers once, so that booking never looks at text.  Callers hold the heap's lock. */
#ifndef HRI_MEMORY_ACCOUNT_H
#define HRI_MEMORY_ACCOUNT_H

#include <stddef.h>
#include <stdint.h>
#include <headroom/memory.h>

typedef struct hri_account_owner {
    char name[48];
    hr_usage usage;
    uint64_t live_bytes[HR_CATEGORY_COUNT];
    uint64_t live_blocks[HR_CATEGORY_COUNT];
} hri_account_owner;

typedef struct hri_accounts {
    hr_usage total;
    hr_usage category[HR_CATEGORY_COUNT];
    hri_account_owner *owners;
    uint32_t owner_count, owner_capacity;
    uint32_t *slots; /* hash table of owner index + 1, open addressing */
    uint32_t slot_count;
} hri_accounts;

/* Makes the owner 0, "unnamed".  HR_E_NOMEM_HOST. */
HR_MUST_CHECK hr_status hri_account_init(hri_accounts *account);
void hri_account_deinit(hri_accounts *account);

/* HR_E_INVALID for an empty or too long name; HR_E_NOMEM_HOST. */
HR_MUST_CHECK hr_status hri_account_owner_get(hri_accounts *account, const char *name,
                                              hr_owner *out);
void hri_account_add(hri_accounts *account, uint32_t owner, uint32_t category, uint64_t live_bytes,
                     uint64_t held_bytes);
void hri_account_remove(hri_accounts *account, uint32_t owner, uint32_t category,
                        uint64_t live_bytes, uint64_t held_bytes);
void hri_account_reset_peaks(hri_accounts *account);
/* The largest holders, by (owner, category), into error->holders. */
void hri_account_top(const hri_accounts *account, hr_error *error);

#endif
