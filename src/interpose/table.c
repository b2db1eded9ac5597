/* See table.h. */
#include "interpose/table.h"

#include <stdlib.h>

static size_t home(const hri_held_table *table, uint32_t kind, uint64_t key) {
    uint64_t h = (key ^ ((uint64_t)kind << 56)) * 0x9e3779b97f4a7c15u;
    h ^= h >> 29;
    return (size_t)h & (table->room - 1);
}

static size_t filter_of(uint64_t key) {
    return (size_t)((key * 0x9e3779b97f4a7c15u) >> 52) & (HRI_HELD_FILTER - 1);
}

hri_held_entry *hri_held_find(const hri_held_table *table, hri_kind kind, uint64_t key) {
    if (!table->room) {
        return NULL;
    }
    for (size_t i = home(table, kind, key);; i = (i + 1) & (table->room - 1)) {
        hri_held_entry *e = &table->entries[i];
        if (e->kind == HRI_KIND_NONE) {
            return NULL;
        }
        if (e->kind == (uint32_t)kind && e->key == key) {
            return e;
        }
    }
}

static hri_held_entry *place(hri_held_table *table, hri_held_entry entry) {
    size_t i = home(table, entry.kind, entry.key);
    while (table->entries[i].kind != HRI_KIND_NONE) {
        i = (i + 1) & (table->room - 1);
    }
    table->entries[i] = entry;
    return &table->entries[i];
}

/* A counter that is full stays so: it answers "maybe" for ever. */
static void note_plain(hri_held_table *table, const hri_held_entry *e, int more) {
    if (e->kind == HRI_KIND_MEMORY || e->kind == HRI_KIND_MANAGED) {
        uint16_t *counter = &table->plain[filter_of(e->key)];
        const uint16_t now = *counter;
        if (now != UINT16_MAX) {
            __atomic_store_n(counter, (uint16_t)(more ? now + 1 : now - 1), __ATOMIC_RELEASE);
        }
    }
}

int hri_held_may_be_plain(const hri_held_table *table, uint64_t key) {
    return __atomic_load_n(&table->plain[filter_of(key)], __ATOMIC_ACQUIRE) != 0;
}

int hri_held_reserve(hri_held_table *table, size_t more) {
    if ((table->count + more) * 4 <= table->room * 3) {
        return 0;
    }
    size_t room = table->room ? table->room : 256;
    while ((table->count + more) * 4 > room * 3) {
        room *= 2;
    }
    hri_held_entry *old = table->entries, *larger = calloc(room, sizeof *larger);
    const size_t old_room = table->room;
    if (!larger) {
        return -1;
    }
    table->entries = larger;
    table->room = room;
    for (size_t i = 0; i < old_room; i++) {
        if (old[i].kind != HRI_KIND_NONE) {
            place(table, old[i]);
        }
    }
    free(old);
    return 0;
}

hri_held_entry *hri_held_add(hri_held_table *table, hri_held_entry entry) {
    hri_held_entry *old = hri_held_find(table, (hri_kind)entry.kind, entry.key);
    if (old) {
        *old = entry;
        return old;
    }
    if (hri_held_reserve(table, 1) != 0) {
        return NULL;
    }
    table->count++;
    note_plain(table, &entry, 1);
    return place(table, entry);
}

void hri_held_remove(hri_held_table *table, hri_held_entry *entry) {
    const size_t mask = table->room - 1;
    note_plain(table, entry, 0);
    size_t hole = (size_t)(entry - table->entries);
    for (size_t i = (hole + 1) & mask; table->entries[i].kind != HRI_KIND_NONE;
         i = (i + 1) & mask) {
        const size_t wanted = home(table, table->entries[i].kind, table->entries[i].key);
        if (((i - wanted) & mask) >= ((i - hole) & mask)) {
            table->entries[hole] = table->entries[i];
            hole = i;
        }
    }
    table->entries[hole] = (hri_held_entry){0};
    table->count--;
}

void hri_held_clear(hri_held_table *table) {
    free(table->entries);
    *table = (hri_held_table){0};
}
