/* Hash maps from a number or a text to a 64-bit value (an id, an index, a pointer as uintptr_t).
 *
 *   hri_strmap names = {0};
 *   status = hri_strmap_put(&names, "conv1", 7);
 *   uint64_t id;
 *   if (hri_strmap_get(&names, "conv1", &id)) ...
 *   for (size_t at = 0; hri_strmap_next(&names, &at, &name, &id);) ...
 *   hri_strmap_deinit(&names);
 *
 * The one idea: entries lie in an array in the order they were first put, and open addressing finds
 * indexes into it.  So iteration is in insertion order on every machine, and removing an entry leaves
 * the order of the others.  Putting a key that is there replaces its value and keeps its place.
 * A zeroed map is empty and valid.  At most 2^31 entries.  Threads: one at a time; many may read. */
#ifndef HRI_BASE_MAP_H
#define HRI_BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <headroom/status.h>

typedef struct hri_map_entry hri_map_entry;

typedef struct hri_map {
    hri_map_entry *entries; /* in insertion order, removed ones still in place */
    uint32_t *slots;        /* entry index + 1, or 0: free */
    size_t count;           /* live entries */
    size_t used;            /* entries in place, removed ones included */
    size_t capacity;        /* of entries */
    size_t slot_count;      /* a power of two, or 0 */
} hri_map;

/* Two types over one machine, so that a number never meets a text. */
typedef struct hri_intmap {
    hri_map map;
} hri_intmap;
typedef struct hri_strmap {
    hri_map map;
} hri_strmap;

/* put: HR_E_NOMEM_HOST, then nothing has changed.  get: false when the key is not there, *out is then
 * untouched (out may be NULL).  remove: false when it was not there.  next: walks from *at == 0;
 * key and value may be NULL.  During a walk, entries may be removed and values replaced, but no new
 * key may be put. */
HR_MUST_CHECK hr_status hri_intmap_put(hri_intmap *map, uint64_t key, uint64_t value);
bool hri_intmap_get(const hri_intmap *map, uint64_t key, uint64_t *out);
bool hri_intmap_remove(hri_intmap *map, uint64_t key);
bool hri_intmap_next(const hri_intmap *map, size_t *at, uint64_t *key, uint64_t *value);
size_t hri_intmap_count(const hri_intmap *map);
void hri_intmap_deinit(hri_intmap *map);

/* The map copies its texts; keys that `next` shows live until they are removed.  The _n form takes the
 * first `length` bytes of `key`. */
HR_MUST_CHECK hr_status hri_strmap_put(hri_strmap *map, const char *key, uint64_t value);
bool hri_strmap_get(const hri_strmap *map, const char *key, uint64_t *out);
bool hri_strmap_get_n(const hri_strmap *map, const char *key, size_t length, uint64_t *out);
bool hri_strmap_remove(hri_strmap *map, const char *key);
bool hri_strmap_next(const hri_strmap *map, size_t *at, const char **key, uint64_t *value);
size_t hri_strmap_count(const hri_strmap *map);
void hri_strmap_deinit(hri_strmap *map);

#endif
