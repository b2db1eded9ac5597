/* Windows over (N, H, W, C), for pooling and its gradients.
 *
 * Outputs are gathered: each output pixel, forward or backward, looks at the windows or places that concern it, for a
 * block of channels at a time.  So nothing is added into from two sides, any cut is safe, and sums are f32 in every
 * stored type. */
#ifndef HRI_OPS_COMMON_POOL_H
#define HRI_OPS_COMMON_POOL_H

#include "ops/common/blocks.h"

typedef struct hri_pool_attr {
    /* One number for both ways, or height and width; the pad may be four: top, left, bottom, right. */
    hri_dims kernel, stride, pad;
    int64_t height, width; /* of the input, for gradients */
    bool without_pad;      /* averages: padding does not count */
} hri_pool_attr;

#define HRI_POOL_FIELDS                                                                            \
    {"kernel", "height and width of the window", offsetof(hri_pool_attr, kernel), HRI_FIELD_DIMS,  \
     NULL},                                                                                        \
        {"stride", "none: the kernel", offsetof(hri_pool_attr, stride), HRI_FIELD_DIMS, NULL}, {   \
        "pad", "on every side; four numbers: top, left, bottom, right",                            \
            offsetof(hri_pool_attr, pad), HRI_FIELD_DIMS, NULL                                     \
    }
#define HRI_POOL_GRAD_FIELDS                                                                       \
    {"height", "of the input", offsetof(hri_pool_attr, height), HRI_FIELD_INT, "0",                \
     .min = 0, .max = 9e18},                                                                       \
    {                                                                                              \
        "width", "of the input", offsetof(hri_pool_attr, width), HRI_FIELD_INT, "0", .min = 0,     \
                                                                                     .max = 9e18   \
    }

typedef struct hri_pooling {
    int64_t n, h, w, channels; /* input */
    int64_t oh, ow;            /* output */
    int64_t kh, kw, sh, sw, ph, pw;
} hri_pooling;

static inline int64_t hri_pool_number(const hri_dims *d, int i, int64_t none) {
    return d->count == 0 ? none : d->at[d->count > 1 ? i : 0];
}

/* The geometry for an input of (N, h, w, C); 0 when it makes sense. */
static inline int hri_pool_init(hri_pooling *p, const hri_pool_attr *a, int64_t n, int64_t h,
                                int64_t w, int64_t channels) {
    *p = (hri_pooling){.n = n, .h = h, .w = w, .channels = channels};
    p->kh = hri_pool_number(&a->kernel, 0, 0);
    p->kw = hri_pool_number(&a->kernel, 1, 0);
    p->sh = hri_pool_number(&a->stride, 0, p->kh);
    p->sw = hri_pool_number(&a->stride, 1, p->kw);
    p->ph = hri_pool_number(&a->pad, 0, 0);
    p->pw = hri_pool_number(&a->pad, 1, 0);
    const int four = a->pad.count == 4;
    const int64_t bottom = four ? a->pad.at[2] : p->ph, right = four ? a->pad.at[3] : p->pw;
    /* A window that lay in the padding alone would have no maximum. */
    const int64_t most_h = four ? p->kh - 1 : p->kh / 2, most_w = four ? p->kw - 1 : p->kw / 2;
    if (a->pad.count == 3 || a->pad.count > 4 || p->kh < 1 || p->kw < 1 || p->kh > 65535 ||
        p->kw > 65535 || p->sh < 1 || p->sw < 1 || p->ph < 0 || p->pw < 0 || p->ph > most_h ||
        p->pw > most_w || bottom < 0 || right < 0 || bottom > 65535 || right > 65535 ||
        p->kh > h + p->ph + bottom || p->kw > w + p->pw + right) {
        return -1;
    }
    p->oh = (h + p->ph + bottom - p->kh) / p->sh + 1;
    p->ow = (w + p->pw + right - p->kw) / p->sw + 1;
    return four && ((p->oh - 1) * p->sh - p->ph >= h || (p->ow - 1) * p->sw - p->pw >= w) ? -1 : 0;
}

/* The part of the window of output o that lies in [0, size). */
static inline void hri_pool_window(int64_t o, int64_t kernel, int64_t stride, int64_t pad,
                                   int64_t size, int64_t *begin, int64_t *end) {
    *begin = hri_max64(o * stride - pad, 0);
    *end = hri_min64(o * stride - pad + kernel, size);
}

/* a / b, neither negative.  On many processors 32 bits are divided several times as fast as 64, and few images need more. */
static inline int64_t hri_pool_divide(int64_t a, int64_t b) {
    return (a | b) >> 32 ? a / b : (int64_t)((uint32_t)a / (uint32_t)b);
}

/* The outputs whose windows hold input place i. */
static inline void hri_pool_owners(int64_t i, int64_t kernel, int64_t stride, int64_t pad,
                                   int64_t outputs, int64_t *begin, int64_t *end) {
    const int64_t first = i + pad - kernel + 1;
    *begin = first > 0 ? hri_pool_divide(first + stride - 1, stride) : 0;
    *end = hri_min64(hri_pool_divide(i + pad, stride) + 1, outputs);
}

/* Windows of 2 x 2 side by side, none of them in the padding: most pools there are, with loops of their own. */
static inline int hri_pool_is_2x2(const hri_pooling *p) {
    return p->kh == 2 && p->kw == 2 && p->sh == 2 && p->sw == 2 && p->ph == 0 && p->pw == 0 &&
           p->oh <= p->h / 2 && p->ow <= p->w / 2;
}

static inline hr_meta hri_pool_meta(hr_type type, int64_t n, int64_t h, int64_t w, int64_t c) {
    return (hr_meta){type, {.rank = 4, .dim = {n, h, w, c}}};
}

/* On a GPU. */
hr_status hri_max_pool_cuda(const hri_gpu_call *c);
hr_status hri_avg_pool_cuda(const hri_gpu_call *c);
hr_status hri_max_pool_grad_cuda(const hri_gpu_call *c);
hr_status hri_avg_pool_grad_cuda(const hri_gpu_call *c);
hr_status hri_global_avg_pool_cuda(const hri_gpu_call *c);

/* Rows of pixels a task. */
static inline uint64_t hri_pool_chunk(int64_t row) {
    return (uint64_t)(16384 / (row + 1) + 1);
}

/* Eight channels at once, for images of few channels: numbers, masks, codes. */
enum { HRI_POOL_FEW = 8 };
typedef float hri_pool_numbers __attribute__((vector_size(32)));
typedef int32_t hri_pool_masks __attribute__((vector_size(32)));
typedef uint8_t hri_pool_codes __attribute__((vector_size(8)));
/* Whether windows of n channels are few ones: the processor has such vectors, and `left` numbers of the row are left, so that whole
 * vectors of the last channels stay inside. */
static inline int hri_pool_is_few(int64_t n, int64_t left) {
    const int64_t vector = HRI_VEC;
    return vector >= HRI_POOL_FEW && n <= 2 * HRI_POOL_FEW &&
           left >= (n + HRI_POOL_FEW - 1) / HRI_POOL_FEW * HRI_POOL_FEW;
}
#define HRI_POOL_PICK(MASK, YES, NO)                                                               \
    ((hri_pool_numbers)(((hri_pool_masks)(YES) & (MASK)) | ((hri_pool_masks)(NO) & ~(MASK))))

#endif
