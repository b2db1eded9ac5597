/* The places of all records of a source: see index.h. */
#include "data/formats/index.h"

#include <headroom/bytes.h>
#include "base/alloc.h"
#include "data/pipeline.h"

enum { PIECE = 4096 };

typedef struct place {
    uint64_t a, b;
} place;

static hr_status grow(hri_index *x, hri_stage *s, hri_prose *why) {
    hri_buffer **pieces = hri_realloc(x->pieces, (x->piece_count + 1) * sizeof(hri_buffer *));
    if (!pieces) {
        return HR_E_NOMEM_HOST;
    }
    x->pieces = pieces;
    /* Not hri_memory_buffer: nobody would ever give back what this waits for. */
    const hr_status status = hri_buffer_create(hri_pipeline_pool(s->pipeline), s->account,
                                               PIECE * sizeof(place), &pieces[x->piece_count]);
    if (status == HR_E_LIMIT) {
        char b1[32], b2[32];
        return hri_prose_set(why, status,
                             "index: the positions of %llu records need %s, more than the budget "
                             "of %s has left",
                             (unsigned long long)x->count + 1,
                             hr_bytes_print((x->count + 1) * sizeof(place), b1, sizeof b1),
                             hr_bytes_print(hri_pipeline_budget(s->pipeline), b2, sizeof b2));
    }
    x->piece_count += status == HR_OK;
    return status;
}

hr_status hri_index_add(hri_index *x, hri_stage *s, uint64_t a, uint64_t b, hri_prose *why) {
    if (x->count == x->piece_count * PIECE) {
        const hr_status status = grow(x, s, why);
        if (status != HR_OK) {
            return status;
        }
    }
    ((place *)x->pieces[x->count / PIECE]->data)[x->count % PIECE] = (place){a, b};
    x->count++;
    return HR_OK;
}

void hri_index_get(const hri_index *x, uint64_t i, hri_item *item) {
    const place p = ((const place *)x->pieces[i / PIECE]->data)[i % PIECE];
    item->a = p.a;
    item->b = p.b;
}

void hri_index_deinit(hri_index *x) {
    for (size_t i = 0; i < x->piece_count; i++) {
        hri_buffer_unref(x->pieces[i]);
    }
    hri_free(x->pieces);
    *x = (hri_index){0};
}

hr_status hri_index_fill(hri_index *x, hri_stage *s, hri_prose *why) {
    hr_status status = s->type->start(s, 0);
    while (status == HR_OK) {
        hri_item item;
        status = s->type->next(s, &item);
        if (status == HR_OK) {
            status = hri_index_add(x, s, item.a, item.b, why);
        } else if (status != HR_E_EOF) {
            hr_error error;
            hr_pipeline_error(s->pipeline, &error);
            return hri_prose_set(why, status, "index: %s", error.message);
        }
        if (x->count % 65536 == 0) {
            hri_pipeline_progress(s->pipeline, s, x->count, 0);
        }
    }
    if (status != HR_E_EOF) {
        return status;
    }
    s->place = 0;
    s->spec.count = x->count;
    s->random = true;
    return HR_OK;
}
