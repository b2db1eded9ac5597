/* What the process has of the driver: pointers, handles, arrays, pools, by kind and key.  Open addressing, linear probing;
 * removal closes the gap.  Not locked: the owner's lock is held. */
#ifndef HRI_INTERPOSE_TABLE_H
#define HRI_INTERPOSE_TABLE_H

#include <stddef.h>
#include <stdint.h>

typedef enum hri_kind {
    HRI_KIND_NONE = 0,
    HRI_KIND_MEMORY, /* cuMemAlloc: key address, a bytes asked, b its context (hri_context_now) */
    HRI_KIND_BLOCK, /* a 2 MiB block that plain memory shares: key address / 2 MiB, a count of users */
    HRI_KIND_MANAGED, /* not charged: the driver moves it */
    HRI_KIND_ARRAY,   /* bytes as charged, b its context */
    HRI_KIND_POOL,    /* bytes: reserved, as charged */
    HRI_KIND_HANDLE, /* cuMemCreate: a references, b mappings; of a spilled one the key is a number of ours */
    HRI_KIND_MAPPING, /* key address, a handle, b bytes */
    HRI_KIND_SPILL, /* what stands behind a number of ours: a the driver's handle, b bytes, c hri_spill_flags */
    HRI_KIND_SPILLED, /* cuMemAlloc served by the host: a bytes asked, b bytes, c its handle or 0 (pinned) */
    HRI_KIND_FREED,     /* such memory that the program freed while a stream captured */
    HRI_KIND_HOST_POOL, /* a pool of the program's own at the host: the device's memory is not in it */
    HRI_KIND_IPC,       /* memory of another process: not charged */
    HRI_KIND_CONTEXT    /* of cuCtxCreate: its device */
} hri_kind;

typedef struct hri_held_entry {
    uint64_t key;
    uint64_t bytes; /* charged to the device */
    uint64_t a, b, c;
    int32_t device;
    uint32_t kind; /* HRI_KIND_NONE: empty */
} hri_held_entry;

enum { HRI_HELD_FILTER = 4096 };

typedef struct hri_held_table {
    hri_held_entry *entries;
    size_t count, room; /* room: a power of two, or 0 */
    uint16_t plain
        [HRI_HELD_FILTER]; /* how many addresses of memory and managed memory fall here; atomic */
} hri_held_table;

/* NULL when it is not there.  The pointer lives until the next add or remove. */
hri_held_entry *hri_held_find(const hri_held_table *table, hri_kind kind, uint64_t key);
/* Makes sure that `more` entries can be added without failing; 0 or -1. */
int hri_held_reserve(hri_held_table *table, size_t more);
/* Adds or replaces.  Room was reserved, or NULL may come back. */
hri_held_entry *hri_held_add(hri_held_table *table, hri_held_entry entry);
void hri_held_remove(hri_held_table *table, hri_held_entry *entry);
/* False: no entry of HRI_KIND_MEMORY or HRI_KIND_MANAGED has this key.  The only question that needs no lock. */
int hri_held_may_be_plain(const hri_held_table *table, uint64_t key);
void hri_held_clear(hri_held_table *table);

#endif
