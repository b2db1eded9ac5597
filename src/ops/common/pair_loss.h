/* Losses of a prediction and a target, element by element, averaged: one expression forward, one backward.
 *
 *   HRI_PAIR_LOSS(name, expression of a and b)       loss () f32 = mean (or sum) over all elements
 *   HRI_PAIR_GRAD(name, expression of a and b)       da = dloss * scale * expression, inputs dloss, a, b
 *
 * Chunks of fixed length are summed in f32 lanes by block and in double by chunk, and the chunks are added in order. */
#ifndef HRI_OPS_COMMON_PAIR_LOSS_H
#define HRI_OPS_COMMON_PAIR_LOSS_H

#include "ops/common/blocks.h"

typedef struct hri_pair_attr {
    bool sum;
} hri_pair_attr;

#define HRI_PAIR_FIELDS                                                                            \
    {"sum", "add the elements instead of averaging", offsetof(hri_pair_attr, sum), HRI_FIELD_BOOL, \
     NULL},                                                                                        \
    {                                                                                              \
        0                                                                                          \
    }

enum { HRI_PAIR_CHUNK = 16384 };

static inline hr_status hri_pair_infer(hri_infer *c) {
    if (!hr_type_is_real(c->in[0].type) || c->in[0].type != c->in[1].type ||
        !hr_shape_same(&c->in[0].shape, &c->in[1].shape)) {
        return hri_infer_fail(
            c, "prediction and target must have the same floating-point type and shape");
    }
    c->out[0] = (hr_meta){.type = HR_TYPE_F32};
    return HR_OK;
}

static inline hr_status hri_pair_grad_infer(hri_infer *c) {
    if (c->in[0].type != HR_TYPE_F32 || c->in[0].shape.rank != 0) {
        return hri_infer_fail(c, "the gradient of the loss must be a scalar f32");
    }
    if (!hr_type_is_real(c->in[1].type) || c->in[1].type != c->in[2].type ||
        !hr_shape_same(&c->in[1].shape, &c->in[2].shape)) {
        return hri_infer_fail(
            c, "prediction and target must have the same floating-point type and shape");
    }
    c->out[0] = c->in[1];
    return HR_OK;
}

static inline hri_samples hri_pair_samples(const hri_sig *s, uint32_t batched) {
    return !batched                                ? HRI_SAMPLES_APART
           : ((const hri_pair_attr *)s->attr)->sum ? HRI_SAMPLES_SUM
                                                   : HRI_SAMPLES_MEAN;
}

/* The scale of a mean knows how many elements there are. */
static inline hri_samples hri_pair_grad_samples(const hri_sig *s, uint32_t batched) {
    (void)batched;
    return ((const hri_pair_attr *)s->attr)->sum ? HRI_SAMPLES_APART : HRI_SAMPLES_MEAN;
}

static inline uint64_t hri_pair_workspace(const hri_sig *s, uint32_t threads) {
    (void)threads;
    return hri_chunk_count((uint64_t)hr_shape_count(&s->in[0].shape), HRI_PAIR_CHUNK) *
           sizeof(double);
}

/* From sums of chunks to the loss; of no elements it is 0. */
static inline void hri_pair_finish(const hri_call *c) {
    const uint64_t n = (uint64_t)hr_shape_count(&c->sig->in[0].shape);
    const double sum = n ? hri_sum(c->workspace, (size_t)hri_chunk_count(n, HRI_PAIR_CHUNK)) : 0.0;
    const int add = ((const hri_pair_attr *)c->sig->attr)->sum || n == 0;
    *(float *)c->out[0] = (float)(add ? sum : sum / (double)n);
}

#define HRI_PAIR_LOSS(NAME, ...)                                                                   \
    static void NAME##_range(void *arg, uint64_t begin, uint64_t end, uint32_t worker) {           \
        const hri_call *call = arg;                                                                \
        const hr_type type = call->sig->in[0].type;                                                \
        double sum = 0.0;                                                                          \
        (void)worker;                                                                              \
        for (int64_t at = (int64_t)begin; at < (int64_t)end; at += HRI_BLOCK) {                    \
            const int64_t n = hri_min64(HRI_BLOCK, (int64_t)end - at);                             \
            float room[2][HRI_BLOCK], lanes[HRI_LANES] = {0}, each[HRI_BLOCK];                     \
            const float *x = hri_block_in(type, call->in[0], at, n, room[0]);                      \
            const float *t = hri_block_in(type, call->in[1], at, n, room[1]);                      \
            for (int64_t k = 0; k < n; k++) {                                                      \
                const float a = x[k], b = t[k];                                                    \
                each[k] = (__VA_ARGS__);                                                           \
            }                                                                                      \
            HRI_LANES_ADD(lanes, n, each[k]);                                                      \
            sum += (double)hri_lanes_sum(lanes);                                                   \
        }                                                                                          \
        ((double *)call->workspace)[begin / HRI_PAIR_CHUNK] = sum;                                 \
    }                                                                                              \
    static hr_status NAME##_host(const hri_call *c) {                                              \
        hri_call call = *c;                                                                        \
        hri_threads_range(c->threads, (uint64_t)hr_shape_count(&c->sig->in[0].shape),              \
                          HRI_PAIR_CHUNK, NAME##_range, &call);                                    \
        hri_pair_finish(c);                                                                        \
        return HR_OK;                                                                              \
    }

#define HRI_PAIR_GRAD(NAME, ...)                                                                   \
    static void NAME##_range(void *arg, uint64_t begin, uint64_t end, uint32_t worker) {           \
        const hri_call *call = arg;                                                                \
        const hr_type type = call->sig->in[1].type;                                                \
        const int add = ((const hri_pair_attr *)call->sig->attr)->sum;                             \
        const double count = add ? 1.0 : (double)hr_shape_count(&call->sig->in[1].shape);          \
        const float scale = (float)((double)*(const float *)call->in[0] / count);                  \
        (void)worker;                                                                              \
        for (int64_t at = (int64_t)begin; at < (int64_t)end; at += HRI_BLOCK) {                    \
            const int64_t n = hri_min64(HRI_BLOCK, (int64_t)end - at);                             \
            float room[3][HRI_BLOCK];                                                              \
            const float *x = hri_block_in(type, call->in[1], at, n, room[0]);                      \
            const float *t = hri_block_in(type, call->in[2], at, n, room[1]);                      \
            float *dx = hri_block_out(type, call->out[0], at, room[2]);                            \
            HRI_IVDEP for (int64_t k = 0; k < n; k++) {                                            \
                const float a = x[k], b = t[k];                                                    \
                dx[k] = scale * (__VA_ARGS__);                                                     \
            }                                                                                      \
            hri_block_put(type, call->out[0], at, n, dx);                                          \
        }                                                                                          \
    }                                                                                              \
    static hr_status NAME##_host(const hri_call *c) {                                              \
        hri_call call = *c;                                                                        \
        hri_threads_range(c->threads, (uint64_t)hr_shape_count(&c->sig->in[1].shape),              \
                          HRI_PAIR_CHUNK, NAME##_range, &call);                                    \
        return HR_OK;                                                                              \
    }

#endif
