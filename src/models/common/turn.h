/* The layout of convolution weights in files and in memory.
 *
 * A persistent value of four dimensions is a convolution's weight, (KH, KW, C, O) in memory and (O, C, KH, KW) in files;
 * everything else lies alike in both. */
#ifndef HRI_MODELS_COMMON_TURN_H
#define HRI_MODELS_COMMON_TURN_H

#include <headroom/graph.h>

static inline hr_shape hri_turn_shape(const hr_shape *memory) {
    if (memory->rank != 4) {
        return *memory;
    }
    const int64_t *d = memory->dim;
    return hr_shape_from(4, (const int64_t[]){d[3], d[2], d[0], d[1]});
}

/* Where element `i` of the file lies in memory. */
static inline int64_t hri_turn_index(const hr_shape *memory, int64_t i) {
    if (memory->rank != 4) {
        return i;
    }
    const int64_t kw = memory->dim[1], kh = memory->dim[0], c = memory->dim[2], o = memory->dim[3];
    const int64_t s = i % kw, r = i / kw % kh, k = i / kw / kh % c;
    return ((r * kw + s) * c + k) * o + i / kw / kh / c;
}

#endif
