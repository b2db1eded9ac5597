/* A growable array, one typed set of functions a use:
 *
 *   HRI_VECTOR(hri_ids, uint32_t)          in a header or a .c file: the type hri_ids and its functions
 *
 *   hri_ids ids = {0};                     empty; owns nothing yet
 *   status = hri_ids_push(&ids, 7);        HR_OK or HR_E_NOMEM_HOST, then unchanged
 *   for (size_t i = 0; i < ids.count; i++) use(ids.items[i]);
 *   hri_ids_deinit(&ids);
 *
 * items[0..count) are in use; growing may move them, so keep indexes, not pointers.
 *   NAME_reserve(v, n)        room for n items in all; afterwards pushes up to n cannot fail
 *   NAME_push(v, item)        appends one item
 *   NAME_append(v, from, n)   appends n items; `from` must not lie in the vector
 *   NAME_resize(v, n)         n items; new ones are zeroed
 *   NAME_remove(v, i)         takes item i out and closes the gap, in order
 *   NAME_clear(v)             no items, memory kept;   NAME_deinit(v)  memory freed, empty again
 * Threads: one at a time. */
#ifndef HRI_BASE_VECTOR_H
#define HRI_BASE_VECTOR_H

#include <stddef.h>
#include <string.h>
#include <headroom/status.h>
#include "base/alloc.h"

/* Grows *items to hold `wanted` items at least, in steps of half as much again so that n pushes cost
 * O(n).  HR_E_NOMEM_HOST also when wanted * item_bytes overflows; all is as before then. */
HR_MUST_CHECK hr_status hri_vector_grow(void **items, size_t *capacity, size_t wanted,
                                        size_t item_bytes);

#define HRI_VECTOR_FN __attribute__((unused)) static inline

#define HRI_VECTOR(NAME, T)                                                                        \
    typedef struct NAME {                                                                          \
        T *items;                                                                                  \
        size_t count, capacity;                                                                    \
    } NAME;                                                                                        \
    HR_MUST_CHECK HRI_VECTOR_FN hr_status NAME##_reserve(NAME *v, size_t wanted) {                 \
        if (wanted <= v->capacity) {                                                               \
            return HR_OK;                                                                          \
        }                                                                                          \
        void *items = v->items;                                                                    \
        const hr_status status = hri_vector_grow(&items, &v->capacity, wanted, sizeof(T));         \
        v->items = (T *)items;                                                                     \
        return status;                                                                             \
    }                                                                                              \
    HR_MUST_CHECK HRI_VECTOR_FN hr_status NAME##_push(NAME *v, T item) {                           \
        const hr_status status = NAME##_reserve(v, v->count + 1);                                  \
        if (status == HR_OK) {                                                                     \
            v->items[v->count++] = item;                                                           \
        }                                                                                          \
        return status;                                                                             \
    }                                                                                              \
    HR_MUST_CHECK HRI_VECTOR_FN hr_status NAME##_append(NAME *v, const T *from, size_t n) {        \
        if (n == 0) {                                                                              \
            return HR_OK;                                                                          \
        }                                                                                          \
        const hr_status status =                                                                   \
            v->count + n < n ? HR_E_NOMEM_HOST : NAME##_reserve(v, v->count + n);                  \
        if (status == HR_OK) {                                                                     \
            memcpy(v->items + v->count, from, n * sizeof(T));                                      \
            v->count += n;                                                                         \
        }                                                                                          \
        return status;                                                                             \
    }                                                                                              \
    HR_MUST_CHECK HRI_VECTOR_FN hr_status NAME##_resize(NAME *v, size_t n) {                       \
        const hr_status status = NAME##_reserve(v, n);                                             \
        if (status == HR_OK) {                                                                     \
            if (n > v->count) {                                                                    \
                memset((void *)(v->items + v->count), 0, (n - v->count) * sizeof(T));              \
            }                                                                                      \
            v->count = n;                                                                          \
        }                                                                                          \
        return status;                                                                             \
    }                                                                                              \
    HRI_VECTOR_FN void NAME##_remove(NAME *v, size_t at) {                                         \
        memmove((void *)(v->items + at), v->items + at + 1, (v->count - at - 1) * sizeof(T));      \
        v->count--;                                                                                \
    }                                                                                              \
    HRI_VECTOR_FN void NAME##_clear(NAME *v) {                                                     \
        v->count = 0;                                                                              \
    }                                                                                              \
    HRI_VECTOR_FN void NAME##_deinit(NAME *v) {                                                    \
        hri_free(v->items);                                                                        \
        *v = (NAME){0};                                                                            \
    }

#endif
