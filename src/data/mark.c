/* Marks: see mark.h. */
#include "data/mark.h"

#include <string.h>
#include "base/alloc.h"

enum { SMALL_STATE = 1024 }; /* a state this size may be kept for every element */

static void drop_mark(hri_mark *mark) {
    if (mark && atomic_fetch_sub(&mark->refs, 1) == 1) {
        hri_free(mark);
    }
}

void hri_place_drop(hri_place *place) {
    drop_mark(place->mark);
    place->mark = NULL;
}

void hri_marker_clear(hri_marker *m) {
    drop_mark(m->last);
    *m = (hri_marker){0};
}

hr_status hri_marker_look(hri_marker *m, hri_stage *input, hri_place *out) {
    if (!m->last || m->pulls * SMALL_STATE >= m->last->bytes) {
        hri_state w = {0};
        hri_stage_save(input, &w);
        hr_status status = hri_state_status(&w);
        hri_mark *mark = status == HR_OK ? hri_malloc(sizeof *mark + w.count) : NULL;
        if (!mark) {
            hri_state_deinit(&w);
            return status == HR_OK ? HR_E_NOMEM_HOST : status;
        }
        atomic_init(&mark->refs, 1);
        mark->bytes = w.count;
        memcpy(mark->data, w.data, w.count);
        hri_state_deinit(&w);
        drop_mark(m->last);
        m->last = mark;
        m->pulls = 0;
    }
    atomic_fetch_add(&m->last->refs, 1);
    *out = (hri_place){m->last, m->pulls};
    return HR_OK;
}

hr_status hri_marker_take(hri_marker *m, hri_stage *input, hri_place *out) {
    const hr_status status = hri_marker_look(m, input, out);
    if (status == HR_OK) {
        m->pulls++;
    }
    return status;
}

void hri_place_save(const hri_place *place, hri_state *w) {
    if (!place->mark) { /* there was no memory for it */
        w->failed = true;
        return;
    }
    hri_state_put(w, place->skip);
    hri_state_put_blob(w, place->mark->data, place->mark->bytes);
}

hr_status hri_place_restore(hri_stage *input, hri_state *r) {
    const uint64_t skip = hri_state_get(r);
    hri_state blob = hri_state_get_blob(r);
    hr_status status = hri_state_status(&blob);
    if (status == HR_OK) {
        status = hri_stage_restore(input, &blob);
    }
    for (uint64_t i = 0; status == HR_OK && i < skip; i++) {
        hri_item item = {0};
        status = hri_stage_next(input, &item);
        if (status == HR_OK) {
            hri_item_drop(&item);
        } else if (status == HR_E_EOF) {
            return HR_OK; /* the pull that found the end was counted too */
        } else if (status != HR_E_CANCELLED) {
            status = HR_OK; /* a bad element is passed over again */
        }
    }
    return status;
}
