/* Insertion-ordered hash maps: a dense array of entries and a table of indexes into it.
 *
 * The table uses linear probing and is at most half full; a removed entry keeps its place and
 * its slot (marked dead) until the next rebuild, so probe chains and the order of the rest stay whole.
 * A rebuild closes the gaps and doubles the table only when live entries need it: a map of steady puts
 * and removes does not grow.  All memory for a put is found before anything changes.
 *
 * Number and text keys share the machine; the typed front at the end keeps them apart. */
#include "base/map.h"

#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"

struct hri_map_entry {
    uint64_t hash;
    uint64_t value;
    union {
        uint64_t number;
        char *text; /* owned, NUL at the end */
    } key;
    uint32_t length; /* of the text */
    bool dead;
};

typedef struct map_key {
    uint64_t hash, number;
    const char *text; /* NULL: a number */
    size_t length;
} map_key;

enum { FEWEST_SLOTS = 16, MOST_ENTRIES = 0x7fffffff };

static map_key number_key(uint64_t number) {
    return (map_key){.hash = hri_hash_u64(number), .number = number};
}

static map_key text_key(const char *text, size_t length) {
    return (map_key){.hash = hri_hash_bytes(text, length, 0), .text = text, .length = length};
}

static bool same_key(const hri_map_entry *e, const map_key *key) {
    if (e->dead || e->hash != key->hash) {
        return false;
    }
    return key->text ? e->length == key->length && !memcmp(e->key.text, key->text, key->length)
                     : e->key.number == key->number;
}

/* The entry of a key or NULL. */
static hri_map_entry *find(const hri_map *map, const map_key *key) {
    if (!map->slot_count) {
        return NULL;
    }
    const size_t mask = map->slot_count - 1;
    for (size_t at = key->hash & mask; map->slots[at]; at = (at + 1) & mask) {
        hri_map_entry *e = &map->entries[map->slots[at] - 1];
        if (same_key(e, key)) {
            return e;
        }
    }
    return NULL;
}

static void put_slot(uint32_t *slots, size_t slot_count, uint64_t hash, size_t entry) {
    size_t at = hash & (slot_count - 1);
    while (slots[at]) {
        at = (at + 1) & (slot_count - 1);
    }
    slots[at] = (uint32_t)entry + 1;
}

/* Makes room for one more entry: new arrays with the live entries, gaps closed. */
static hr_status rebuild(hri_map *map) {
    if (map->count >= MOST_ENTRIES) {
        return HR_E_NOMEM_HOST;
    }
    size_t slot_count = FEWEST_SLOTS;
    while (slot_count / 2 < map->count + map->count / 2 + 1) {
        slot_count *= 2;
    }
    const size_t capacity = slot_count / 2;
    hri_map_entry *entries = hri_calloc(capacity, sizeof *entries);
    uint32_t *slots = hri_calloc(slot_count, sizeof *slots);
    if (!entries || !slots) {
        hri_free(entries);
        hri_free(slots);
        return HR_E_NOMEM_HOST;
    }
    size_t used = 0;
    for (size_t i = 0; i < map->used; i++) {
        if (!map->entries[i].dead) {
            entries[used] = map->entries[i];
            put_slot(slots, slot_count, entries[used].hash, used);
            used++;
        }
    }
    hri_free(map->entries);
    hri_free(map->slots);
    *map = (hri_map){entries, slots, used, used, capacity, slot_count};
    return HR_OK;
}

static hr_status put(hri_map *map, const map_key *key, uint64_t value) {
    hri_map_entry *there = find(map, key);
    if (there) {
        there->value = value;
        return HR_OK;
    }
    if (key->length > UINT32_MAX) {
        return HR_E_NOMEM_HOST;
    }
    char *text = NULL;
    if (key->text) {
        text = hri_malloc(key->length + 1);
        if (!text) {
            return HR_E_NOMEM_HOST;
        }
        memcpy(text, key->text, key->length);
        text[key->length] = '\0';
    }
    if (map->used == map->capacity && rebuild(map) != HR_OK) {
        hri_free(text);
        return HR_E_NOMEM_HOST;
    }
    hri_map_entry *e = &map->entries[map->used];
    *e = (hri_map_entry){.hash = key->hash, .value = value, .length = (uint32_t)key->length};
    if (text) {
        e->key.text = text;
    } else {
        e->key.number = key->number;
    }
    put_slot(map->slots, map->slot_count, e->hash, map->used);
    map->used++;
    map->count++;
    return HR_OK;
}

static bool get(const hri_map *map, const map_key *key, uint64_t *out) {
    const hri_map_entry *e = find(map, key);
    if (e && out) {
        *out = e->value;
    }
    return e != NULL;
}

static bool remove_key(hri_map *map, const map_key *key) {
    hri_map_entry *e = find(map, key);
    if (!e) {
        return false;
    }
    if (key->text) {
        hri_free(e->key.text);
    }
    e->dead = true;
    map->count--;
    return true;
}

static const hri_map_entry *next(const hri_map *map, size_t *at) {
    while (*at < map->used) {
        const hri_map_entry *e = &map->entries[(*at)++];
        if (!e->dead) {
            return e;
        }
    }
    return NULL;
}

static void deinit(hri_map *map) {
    hri_free(map->entries);
    hri_free(map->slots);
    *map = (hri_map){0};
}

hr_status hri_intmap_put(hri_intmap *map, uint64_t key, uint64_t value) {
    const map_key k = number_key(key);
    return put(&map->map, &k, value);
}

bool hri_intmap_get(const hri_intmap *map, uint64_t key, uint64_t *out) {
    const map_key k = number_key(key);
    return get(&map->map, &k, out);
}

bool hri_intmap_remove(hri_intmap *map, uint64_t key) {
    const map_key k = number_key(key);
    return remove_key(&map->map, &k);
}

bool hri_intmap_next(const hri_intmap *map, size_t *at, uint64_t *key, uint64_t *value) {
    const hri_map_entry *e = next(&map->map, at);
    if (e && key) {
        *key = e->key.number;
    }
    if (e && value) {
        *value = e->value;
    }
    return e != NULL;
}

size_t hri_intmap_count(const hri_intmap *map) {
    return map->map.count;
}

void hri_intmap_deinit(hri_intmap *map) {
    deinit(&map->map);
}

hr_status hri_strmap_put(hri_strmap *map, const char *key, uint64_t value) {
    const map_key k = text_key(key, strlen(key));
    return put(&map->map, &k, value);
}

bool hri_strmap_get_n(const hri_strmap *map, const char *key, size_t length, uint64_t *out) {
    const map_key k = text_key(key, length);
    return get(&map->map, &k, out);
}

bool hri_strmap_get(const hri_strmap *map, const char *key, uint64_t *out) {
    return hri_strmap_get_n(map, key, strlen(key), out);
}

bool hri_strmap_remove(hri_strmap *map, const char *key) {
    const map_key k = text_key(key, strlen(key));
    return remove_key(&map->map, &k);
}

bool hri_strmap_next(const hri_strmap *map, size_t *at, const char **key, uint64_t *value) {
    const hri_map_entry *e = next(&map->map, at);
    if (e && key) {
        *key = e->key.text;
    }
    if (e && value) {
        *value = e->value;
    }
    return e != NULL;
}

size_t hri_strmap_count(const hri_strmap *map) {
    return map->map.count;
}

void hri_strmap_deinit(hri_strmap *map) {
    size_t at = 0;
    for (const hri_map_entry *e; (e = next(&map->map, &at));) {
        hri_free(e->key.text);
    }
    deinit(&map->map);
}
