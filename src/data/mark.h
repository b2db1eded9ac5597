/* Marks: where the input of a stage stood before each element that was pulled ahead.
 *
 * A stage that pulls ahead (workers, prefetch, a shuffle buffer) must be able to say, at any moment, "the next element
 * I will hand out is the one my input gives from *here*".  A place is a saved state of the input and a number of
 * elements to pull and drop after restoring it.  States are small as a rule (a few numbers a stage) and then every
 * element has a mark of its own; when they are large (a shuffle buffer above), marks are taken every so many pulls
 * and shared, so that they cost about as much as a small one would. */
#ifndef HRI_DATA_MARK_H
#define HRI_DATA_MARK_H

#include <stdatomic.h>
#include "data/stage.h"

typedef struct hri_mark {
    _Atomic uint32_t refs;
    size_t bytes;
    unsigned char data[];
} hri_mark;

typedef struct hri_place {
    hri_mark *mark;
    uint64_t skip;
} hri_place;

typedef struct hri_marker {
    hri_mark *last;
    uint64_t pulls; /* since `last` was taken */
} hri_marker;

/* The place of the element that the next pull from `input` gives.  To be called before every pull, by its thread. */
HR_MUST_CHECK hr_status hri_marker_take(hri_marker *m, hri_stage *input, hri_place *out);
/* The same without a pull to follow. */
HR_MUST_CHECK hr_status hri_marker_look(hri_marker *m, hri_stage *input, hri_place *out);
void hri_marker_clear(hri_marker *m);
void hri_place_drop(hri_place *place);

void hri_place_save(const hri_place *place, hri_state *w);
/* Restores `input` to a saved place and drops what is to be skipped. */
HR_MUST_CHECK hr_status hri_place_restore(hri_stage *input, hri_state *r);

#endif
