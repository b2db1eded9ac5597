/* Many paths in little memory: see pathlist.h. */
#include "data/formats/pathlist.h"

#include <stdio.h>
#include <string.h>
#include <headroom/bytes.h>
#include "base/alloc.h"
#include "data/pipeline.h"

enum {
    PIECE = 16 << 10,
    STARTS = PIECE / sizeof(uint32_t),
    FOLDER_PIECE = 4 << 10,
};

typedef struct folder {
    uint64_t first; /* file */
    uint32_t start;
} folder;

enum { FOLDERS = FOLDER_PIECE / sizeof(folder) };

/* One more piece, or from now on none. */
static hr_status grow(hri_pathlist *list, hri_pieces *p, uint64_t bytes) {
    list->wanted_bytes += hri_pool_round(bytes);
    if (list->counting) {
        return HR_OK;
    }
    hri_buffer **items = hri_realloc(p->items, (p->count + 1) * sizeof(hri_buffer *));
    if (!items) {
        return HR_E_NOMEM_HOST;
    }
    p->items = items;
    hri_stage *s = list->stage;
    const hr_status status =
        hri_buffer_create(hri_pipeline_pool(s->pipeline), s->account, bytes, &items[p->count]);
    p->count += status == HR_OK;
    list->counting = status == HR_E_LIMIT;
    return list->counting ? HR_OK : status;
}

static char *text_at(const hri_pathlist *list, uint32_t start) {
    return (char *)list->text.items[start / PIECE]->data + start % PIECE;
}

static uint32_t *start_of(const hri_pathlist *list, uint64_t i) {
    return (uint32_t *)list->starts.items[i / STARTS]->data + i % STARTS;
}

static folder *folder_of(const hri_pathlist *list, uint64_t k) {
    return (folder *)list->folders.items[k / FOLDERS]->data + k % FOLDERS;
}

static hr_status put_text(hri_pathlist *list, const char *text, uint32_t *start) {
    const size_t bytes = strlen(text) + 1;
    const uint64_t left = (PIECE - list->text_used % PIECE) % PIECE;
    hr_status status = HR_OK;
    if (bytes > PIECE) {
        return HR_E_RANGE;
    }
    if (bytes > left) {
        list->text_used += left;
        status = grow(list, &list->text, PIECE);
    }
    if (status == HR_OK && list->text_used > UINT32_MAX - PIECE) {
        return HR_E_RANGE;
    }
    if (status == HR_OK) {
        *start = (uint32_t)list->text_used;
        list->text_used += bytes;
        if (!list->counting) {
            memcpy(text_at(list, *start), text, bytes);
        }
    }
    return status;
}

hr_status hri_pathlist_enter(hri_pathlist *list, const char *path) {
    uint32_t start = 0;
    hr_status status = put_text(list, path, &start);
    if (status == HR_OK && list->folder_count % FOLDERS == 0) {
        status = grow(list, &list->folders, FOLDER_PIECE);
    }
    if (status == HR_OK) {
        if (!list->counting) {
            *folder_of(list, list->folder_count) = (folder){list->count, start};
        }
        list->folder_count++;
    }
    return status;
}

hr_status hri_pathlist_add(hri_pathlist *list, const char *name) {
    uint32_t start = 0;
    hr_status status = put_text(list, name, &start);
    if (status == HR_OK && list->count % STARTS == 0) {
        status = grow(list, &list->starts, PIECE);
    }
    if (status == HR_OK) {
        if (!list->counting) {
            *start_of(list, list->count) = start;
        }
        list->count++;
    }
    return status;
}

static bool is_before(const hri_pathlist *list, uint64_t a, uint64_t b) {
    return strcmp(text_at(list, *start_of(list, a)), text_at(list, *start_of(list, b))) < 0;
}

static void swap(const hri_pathlist *list, uint64_t a, uint64_t b) {
    uint32_t *x = start_of(list, a), *y = start_of(list, b), kept = *x;
    *x = *y;
    *y = kept;
}

/* Lets file k of the heap [first, first + n) sink to its place. */
static void sink(const hri_pathlist *list, uint64_t first, uint64_t n, uint64_t k) {
    for (uint64_t child; (child = 2 * k + 1) < n; k = child) {
        child += child + 1 < n && is_before(list, first + child, first + child + 1);
        if (!is_before(list, first + k, first + child)) {
            return;
        }
        swap(list, first + k, first + child);
    }
}

/* A heap sort: in place, where qsort would take as much memory again. */
void hri_pathlist_sort(hri_pathlist *list, uint64_t first) {
    const uint64_t n = list->counting ? 0 : list->count - first;
    for (uint64_t k = n / 2; k-- > 0;) {
        sink(list, first, n, k);
    }
    for (uint64_t end = n; end-- > 1;) {
        swap(list, first, first + end);
        sink(list, first, end, 0);
    }
}

hr_status hri_pathlist_check(const hri_pathlist *list, hri_prose *why) {
    char b1[32], b2[32];
    return list->counting
               ? hri_prose_set(
                     why, HR_E_LIMIT,
                     "the names of %llu files need %s, more than the budget of %s has left",
                     (unsigned long long)list->count,
                     hr_bytes_print(list->wanted_bytes, b1, sizeof b1),
                     hr_bytes_print(hri_pipeline_budget(list->stage->pipeline), b2, sizeof b2))
               : HR_OK;
}

static void drop(hri_pieces *p) {
    for (size_t i = 0; i < p->count; i++) {
        hri_buffer_unref(p->items[i]);
    }
    hri_free(p->items);
    *p = (hri_pieces){0};
}

void hri_pathlist_deinit(hri_pathlist *list) {
    drop(&list->text);
    drop(&list->starts);
    drop(&list->folders);
    *list = (hri_pathlist){0};
}

const char *hri_pathlist_name(const hri_pathlist *list, uint64_t i) {
    return text_at(list, *start_of(list, i));
}

size_t hri_pathlist_print(const hri_pathlist *list, uint64_t i, char *buf, size_t size) {
    uint64_t low = 0,
             high = list->folder_count; /* the last folder whose first file is not behind i */
    while (high - low > 1) {
        const uint64_t middle = (low + high) / 2;
        if (folder_of(list, middle)->first <= i) {
            low = middle;
        } else {
            high = middle;
        }
    }
    const char *path = text_at(list, folder_of(list, low)->start);
    const int n =
        snprintf(buf, size, "%s%s%s", path, path[0] ? "/" : "", hri_pathlist_name(list, i));
    return n > 0 ? (size_t)n : 0;
}
