/* Broadcasting: up to three inputs seen through the shape of the output.
 *
 * Neighbouring dimensions that every input walks in the same way are merged, so that equal shapes become one long
 * row, and what is left has a last dimension along which each input either moves by one or stands still. */
#ifndef HRI_OPS_COMMON_WALK_H
#define HRI_OPS_COMMON_WALK_H

#include "graph/op.h"

enum { HRI_WALK_IN = 3 };

typedef struct hri_walk {
    int rank; /* 1 at least */
    uint32_t in_count;
    int64_t count; /* elements of the output */
    int64_t dim[HR_RANK_MAX];
    int64_t stride[HRI_WALK_IN][HR_RANK_MAX]; /* in elements; 0: stands still */
} hri_walk;

/* Shapes that the broadcasting rule has accepted. */
void hri_walk_init(hri_walk *w, const hr_shape *out, const hr_meta *in, uint32_t in_count);

/* Where element `at` of the output lies: its column in its row, and the offset of the row in each input.  Returns how
 * many elements are left in the row. */
int64_t hri_walk_at(const hri_walk *w, int64_t at, int64_t offset[HRI_WALK_IN]);

#endif
