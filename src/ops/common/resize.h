/* Where the pixels of a resized image come from, along one side, with half-pixel centres (align_corners false), or with the
 * corners of both images on one another (align_corners true).
 *
 *   nearest:   source = floor(o * in / out)
 *   bilinear:  source = max(0, (o + 0.5) * in / out - 0.5), between its two neighbours
 *   corners:   source = o * (in - 1) / (out - 1), between its two neighbours
 *
 * The same rule in f32 as torch computes it, so that ties fall alike.  Forward and backward ask this one function. */
#ifndef HRI_OPS_COMMON_RESIZE_H
#define HRI_OPS_COMMON_RESIZE_H

#include "ops/common/blocks.h"

enum { HRI_RESIZE_NEAREST, HRI_RESIZE_BILINEAR, HRI_RESIZE_CORNERS };

typedef struct hri_resize_attr {
    int64_t height, width; /* of the result */
    int mode;
} hri_resize_attr;

extern const hri_field hri_resize_fields[];

/* On a GPU. */
hr_status hri_resize_cuda(const hri_gpu_call *c);
hr_status hri_resize_grad_cuda(const hri_gpu_call *c);

typedef struct hri_resize_source {
    int64_t low, high;
    float weight; /* of high; low has 1 - weight */
} hri_resize_source;

static inline hri_resize_source hri_resize_at(int mode, int64_t o, int64_t in, int64_t out) {
    const float scale = (float)in / (float)out;
    hri_resize_source s;
    if (mode == HRI_RESIZE_NEAREST) {
        s.low = hri_min64((int64_t)((float)o * scale), in - 1);
        s.high = s.low;
        s.weight = 0.0f;
        return s;
    }
    const float between = out > 1 ? (float)(in - 1) / (float)(out - 1) : 0.0f;
    const float at =
        mode == HRI_RESIZE_CORNERS ? (float)o * between : ((float)o + 0.5f) * scale - 0.5f;
    const float source = at > 0.0f ? at : 0.0f;
    s.low = hri_min64((int64_t)source, in - 1);
    s.high = hri_min64(s.low + 1, in - 1);
    s.weight = source - (float)s.low;
    return s;
}

/* What input pixel i gives to output pixel o. */
static inline float hri_resize_share(int mode, int64_t o, int64_t i, int64_t in, int64_t out) {
    const hri_resize_source s = hri_resize_at(mode, o, in, out);
    return (s.low == i ? 1.0f - s.weight : 0.0f) + (s.high == i ? s.weight : 0.0f);
}

/* The outputs that input pixel i may reach: [begin, end), a little wide. */
static inline void hri_resize_reach(int64_t i, int64_t in, int64_t out, int64_t *begin,
                                    int64_t *end) {
    const double scale = (double)out / (double)in;
    *begin = hri_max64((int64_t)((double)(i - 1) * scale) - 2, 0);
    *end = hri_min64((int64_t)((double)(i + 2) * scale) + 3, out);
}

#endif
