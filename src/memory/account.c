/* See account.h.  The hash table keeps only indices; names lie in the owner records. */
#include "memory/account.h"

#include <string.h>

#include "base/alloc.h"

static const char *const category_names[] = {
#define CATEGORY_NAME(NAME, TEXT) TEXT,
    HR_CATEGORY_MAP(CATEGORY_NAME)
#undef CATEGORY_NAME
};

const char *hr_category_name(hr_category category) {
    return (unsigned)category < HR_CATEGORY_COUNT ? category_names[category] : "unknown";
}

hr_status hri_account_init(hri_accounts *account) {
    memset(account, 0, sizeof *account);
    hr_owner unnamed;
    return hri_account_owner_get(account, "unnamed", &unnamed);
}

void hri_account_deinit(hri_accounts *account) {
    hri_free(account->owners);
    hri_free(account->slots);
    memset(account, 0, sizeof *account);
}

static uint32_t hash_name(const char *name) {
    uint32_t hash = 2166136261u; /* FNV-1a */
    for (; *name; name++) {
        hash = (hash ^ (unsigned char)*name) * 16777619u;
    }
    return hash;
}

/* The slot of `name`, or the empty slot where it would go.  slot_count is a power of two and never full. */
static uint32_t *find_slot(const hri_accounts *account, const char *name) {
    uint32_t at = hash_name(name);
    for (;; at++) {
        uint32_t *slot = &account->slots[at & (account->slot_count - 1)];
        if (*slot == 0 || strcmp(account->owners[*slot - 1].name, name) == 0) {
            return slot;
        }
    }
}

static hr_status make_room(hri_accounts *account) {
    if (account->owner_count < account->owner_capacity) {
        return HR_OK;
    }
    const uint32_t capacity = account->owner_capacity ? account->owner_capacity * 2 : 16;
    hri_account_owner *owners = hri_realloc(account->owners, capacity * sizeof *owners);
    if (!owners) {
        return HR_E_NOMEM_HOST;
    }
    account->owners = owners;
    uint32_t *slots = hri_calloc(capacity * 2, sizeof *slots);
    if (!slots) {
        return HR_E_NOMEM_HOST;
    }
    hri_free(account->slots);
    account->slots = slots;
    account->slot_count = capacity * 2;
    account->owner_capacity = capacity;
    for (uint32_t i = 0; i < account->owner_count; i++) {
        *find_slot(account, account->owners[i].name) = i + 1;
    }
    return HR_OK;
}

hr_status hri_account_owner_get(hri_accounts *account, const char *name, hr_owner *out) {
    const size_t length = name ? strlen(name) : 0;
    if (length == 0 || length >= sizeof account->owners->name) {
        return HR_E_INVALID;
    }
    if (account->slots) {
        const uint32_t found = *find_slot(account, name);
        if (found) {
            *out = found - 1;
            return HR_OK;
        }
    }
    const hr_status status = make_room(account);
    if (status != HR_OK) {
        return status;
    }
    uint32_t *slot = find_slot(account, name);
    hri_account_owner *owner = &account->owners[account->owner_count];
    memset(owner, 0, sizeof *owner);
    memcpy(owner->name, name, length + 1);
    *out = account->owner_count++;
    *slot = account->owner_count;
    return HR_OK;
}

static void usage_add(hr_usage *usage, uint64_t live_bytes, uint64_t held_bytes) {
    usage->live_bytes += live_bytes;
    usage->held_bytes += held_bytes;
    usage->blocks++;
    if (usage->live_bytes > usage->peak_bytes) {
        usage->peak_bytes = usage->live_bytes;
    }
}

static void usage_remove(hr_usage *usage, uint64_t live_bytes, uint64_t held_bytes) {
    usage->live_bytes -= live_bytes;
    usage->held_bytes -= held_bytes;
    usage->blocks--;
}

void hri_account_add(hri_accounts *account, uint32_t owner, uint32_t category, uint64_t live_bytes,
                     uint64_t held_bytes) {
    hri_account_owner *record = &account->owners[owner];
    usage_add(&account->total, live_bytes, held_bytes);
    usage_add(&account->category[category], live_bytes, held_bytes);
    usage_add(&record->usage, live_bytes, held_bytes);
    record->live_bytes[category] += live_bytes;
    record->live_blocks[category]++;
}

void hri_account_remove(hri_accounts *account, uint32_t owner, uint32_t category,
                        uint64_t live_bytes, uint64_t held_bytes) {
    hri_account_owner *record = &account->owners[owner];
    usage_remove(&account->total, live_bytes, held_bytes);
    usage_remove(&account->category[category], live_bytes, held_bytes);
    usage_remove(&record->usage, live_bytes, held_bytes);
    record->live_bytes[category] -= live_bytes;
    record->live_blocks[category]--;
}

void hri_account_reset_peaks(hri_accounts *account) {
    account->total.peak_bytes = account->total.live_bytes;
    for (int c = 0; c < HR_CATEGORY_COUNT; c++) {
        account->category[c].peak_bytes = account->category[c].live_bytes;
    }
    for (uint32_t i = 0; i < account->owner_count; i++) {
        account->owners[i].usage.peak_bytes = account->owners[i].usage.live_bytes;
    }
}

static void insert_holder(hr_error *error, const hri_account_owner *owner, int category) {
    const uint64_t bytes = owner->live_bytes[category];
    uint32_t at = error->holder_count;
    if (at == HR_ERROR_HOLDERS) {
        if (bytes <= error->holders[at - 1].bytes) {
            return;
        }
        at--;
    } else {
        error->holder_count++;
    }
    for (; at > 0 && error->holders[at - 1].bytes < bytes; at--) {
        error->holders[at] = error->holders[at - 1];
    }
    hr_holder *holder = &error->holders[at];
    memcpy(holder->owner, owner->name, sizeof holder->owner);
    strncpy(holder->category, category_names[category], sizeof holder->category - 1);
    holder->category[sizeof holder->category - 1] = '\0';
    holder->bytes = bytes;
    holder->blocks = owner->live_blocks[category];
}

void hri_account_top(const hri_accounts *account, hr_error *error) {
    error->holder_count = 0;
    for (uint32_t i = 0; i < account->owner_count; i++) {
        if (account->owners[i].usage.live_bytes == 0) {
            continue;
        }
        for (int c = 0; c < HR_CATEGORY_COUNT; c++) {
            if (account->owners[i].live_bytes[c] > 0) {
                insert_holder(error, &account->owners[i], c);
            }
        }
    }
}
