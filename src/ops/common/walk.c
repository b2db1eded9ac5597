/* Merging dimensions and finding rows; see walk.h. */
#include "ops/common/walk.h"

/* The stride of input `i` along output dimension d: 0 where it is broadcast. */
static int64_t stride_of(const hr_shape *out, const hr_shape *in, int d) {
    const int at = d - (out->rank - in->rank);
    if (at < 0 || in->dim[at] == 1) {
        return 0;
    }
    int64_t stride = 1;
    for (int k = at + 1; k < in->rank; k++) {
        stride *= in->dim[k];
    }
    return stride;
}

void hri_walk_init(hri_walk *w, const hr_shape *out, const hr_meta *in, uint32_t in_count) {
    *w = (hri_walk){.in_count = in_count, .count = hr_shape_count(out)};
    for (int d = 0; d < out->rank; d++) {
        if (out->dim[d] == 1) {
            continue;
        }
        const int last = w->rank - 1;
        int merge = w->rank > 0;
        int64_t stride[HRI_WALK_IN] = {0};
        for (uint32_t i = 0; i < in_count; i++) {
            stride[i] = stride_of(out, &in[i].shape, d);
            merge &= last >= 0 && w->stride[i][last] == stride[i] * out->dim[d];
        }
        const int to = merge ? last : w->rank++;
        w->dim[to] = merge ? w->dim[to] * out->dim[d] : out->dim[d];
        for (uint32_t i = 0; i < in_count; i++) {
            w->stride[i][to] = stride[i];
        }
    }
    if (w->rank == 0) {
        w->dim[w->rank++] = 1;
    }
}

int64_t hri_walk_at(const hri_walk *w, int64_t at, int64_t offset[HRI_WALK_IN]) {
    const int last = w->rank - 1;
    const int64_t column = at % w->dim[last];
    for (uint32_t i = 0; i < w->in_count; i++) {
        offset[i] = column * w->stride[i][last];
    }
    int64_t row = at / w->dim[last];
    for (int d = last - 1; d >= 0; d--) {
        const int64_t index = row % w->dim[d];
        row /= w->dim[d];
        for (uint32_t i = 0; i < w->in_count; i++) {
            offset[i] += index * w->stride[i][d];
        }
    }
    return w->dim[last] - column;
}
