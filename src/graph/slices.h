/* How a tensor is cut between ranks: slices of whole chunks, one a rank, by elements in row-major order.
 *
 * All slices of a tensor have one size, so that graphs and plans are equal on all ranks; the last ones may have elements
 * beyond the end of the tensor, which are zeros, or have nothing else.  Slices end at the chunks in which square_sum adds,
 * so that a sum over slices can be that over the whole, to the bit.  A tensor of which every rank would hold all of it
 * is not cut. */
#ifndef HRI_GRAPH_SLICES_H
#define HRI_GRAPH_SLICES_H

#include <stdint.h>

enum { HRI_SLICE_CHUNK = 1024 };

/* Elements of a slice; `count`: the tensor is not cut. */
static inline int64_t hri_slice_count(int64_t count, int64_t ranks) {
    const int64_t chunks = (count + HRI_SLICE_CHUNK - 1) / HRI_SLICE_CHUNK;
    const int64_t slice = (chunks + ranks - 1) / ranks * HRI_SLICE_CHUNK;
    return slice < count ? slice : count;
}

/* How many elements of the tensor are in the slice of `rank`; the others of it are zeros. */
static inline int64_t hri_slice_filled(int64_t count, int64_t slice, int64_t rank) {
    const int64_t left = slice < count ? count - rank * slice : count;
    return left < 0 ? 0 : left < slice ? left : slice;
}

#endif
