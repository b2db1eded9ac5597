/* What the optimizer updates share.
 *
 * Inputs are (w, g, scalars..., states... [, factor]); outputs are the new w and the new states, which lie over the old
 * ones.  w, g and the states have one shape; each may have a real type of its own, and the arithmetic is f32.  Scalars
 * are f32: the learning rate first, so that a schedule needs no new graph.  g may have rows of as many elements as w has: then it
 * is the last of them.
 *
 * `factor` multiplies every gradient: clipping, the loss scale.  A factor of 0, or one that is not finite, means "skip
 * this step": nothing is touched.
 *
 * Small states.  With a stream, states of f32 weights may be bf16, rounded at random so that the mean is right, or 8 bit
 * (codes.h): u8 of hri_codes_bytes(elements) in place of the shape of w.  The weight is moved by the states as computed, which
 * are rounded then.  What is drawn depends on seed, step, stream and element alone: one word for each element of w, its low
 * half for the first state, the high half for the second. */
#ifndef HRI_OPS_COMMON_UPDATE_H
#define HRI_OPS_COMMON_UPDATE_H

#include "graph/op.h"

enum { HRI_UPDATE_BLOCK = 1024, HRI_UPDATE_STATES = 2, HRI_UPDATE_CONSTANTS = 8 };
#define HRI_UPDATE_SAMPLE 0xffffffffu /* of the draws: no sample of a batch has it */

/* Of an op with states, in its attributes. */
typedef struct hri_update_small {
    int64_t stream; /* 0: states are rounded to the nearest, and none is 8 bit */
    int64_t
        ranks; /* w is this rank's slice (graph/slices.h) of a tensor of so many ranks; 1: it is whole */
} hri_update_small;

#define HRI_UPDATE_SMALL_FIELDS(STRUCT)                                                            \
    {"stream",                                                                                     \
     "random numbers by which small states are rounded; 0: to the nearest",                        \
     offsetof(STRUCT, small.stream),                                                               \
     HRI_FIELD_INT,                                                                                \
     "0",                                                                                          \
     .min = 0,                                                                                     \
     .max = 2147483647},                                                                           \
    {                                                                                              \
        "ranks", "ranks that have a slice each of the tensor", offsetof(STRUCT, small.ranks),      \
            HRI_FIELD_INT, "1", .min = 1, .max = 65536                                             \
    }

typedef struct hri_update {
    const void *attr;
    float rate;
    float scalar; /* the second one, where there is one */
    float factor; /* 1 when the input is left out */
} hri_update;

/* One block: updates w[0..n) and the states in place; the gradient is u->factor * g[i]. */
typedef void hri_update_fn(const hri_update *u, uint64_t n, float *w, const float *g, float *s0,
                           float *s1);

typedef struct hri_update_rule {
    const char *name; /* of the struct in update.cu */
    uint32_t scalars, states;
    uint32_t positive; /* bit k: state k is never negative */
    size_t small_at;   /* where in the attributes the hri_update_small is; 0: there is none */
    hri_update_fn *block;
    /* For the kernel on a GPU; NULL: none. */
    void (*constants)(const void *attr, float c[HRI_UPDATE_CONSTANTS], float *decay);
} hri_update_rule;

static inline hri_update_small hri_update_small_of(const hri_update_rule *rule, const void *attr) {
    return rule->small_at
               ? *(const hri_update_small *)(const void *)((const char *)attr + rule->small_at)
               : (hri_update_small){0, 1};
}

/* The host kernel. */
HR_MUST_CHECK hr_status hri_update_run(const hri_call *c, const hri_update_rule *rule);
/* The shape rule; sets all outputs. */
HR_MUST_CHECK hr_status hri_update_infer(hri_infer *c, const hri_update_rule *rule);

/* Elements of g before the row that counts. */
static inline int64_t hri_update_skip(const hri_sig *s) {
    const int64_t n = hr_shape_count(&s->in[0].shape);
    return hr_shape_count(&s->in[1].shape) - n;
}

/* `flops` an element of w. */
static inline void hri_update_cost(const hri_sig *s, hri_cost *cost, double flops) {
    cost->flops = flops * (double)hr_shape_count(&s->in[0].shape);
}

#endif
