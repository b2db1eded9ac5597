/* The matrix of attention_masked, one number after the other, for the oracles of the op and of its gradient. */
#ifndef HR_TEST_REF_ATTENTION_H
#define HR_TEST_REF_ATTENTION_H

#include <math.h>
#include "base/random.h"
#include "ref.h"

typedef struct ref_attention {
    const struct {
        double scale;
        bool causal;
        double dropout;
        int64_t node;
    } * p;
    const ref_call *c;
    const double *q, *k, *mask;
    const int64_t *mask_dim;
    int shows;                /* the mask is bytes: 0 hides a key */
    int64_t B, T, S, H, G, D; /* G: heads of k and v */
} ref_attention;

static inline ref_attention ref_attention_of(const ref_call *c, uint32_t q, uint32_t mask) {
    const int64_t *dim = c->sig->in[q].shape.dim;
    ref_attention a = {.p = c->sig->attr, .c = c, .q = c->in[q], .k = c->in[q + 1]};
    a.B = dim[0];
    a.T = dim[1];
    a.H = dim[2];
    a.D = dim[3];
    a.G = c->sig->in[q + 1].shape.dim[2];
    a.S = c->sig->in[q + 1].shape.dim[1];
    if (c->sig->in_count > mask) {
        a.mask = c->in[mask];
        a.mask_dim = c->sig->in[mask].shape.dim;
        a.shows = c->sig->in[mask].type == HR_TYPE_U8;
    }
    return a;
}

static inline int64_t ref_attention_at(const ref_attention *a, int64_t rows, int64_t b, int64_t row,
                                       int64_t h, int64_t d) {
    return ((b * rows + row) * a->H + h) * a->D + d;
}

static inline int64_t ref_attention_key(const ref_attention *a, int64_t b, int64_t s, int64_t h,
                                        int64_t d) {
    return ((b * a->S + s) * a->G + h * a->G / a->H) * a->D + d;
}

#define REF_ATTENTION_FAR -0x1p28

static inline double ref_attention_score(const ref_attention *a, int64_t b, int64_t h, int64_t t,
                                         int64_t s) {
    double sum = 0.0;
    if (a->p->causal && s > t) {
        return -INFINITY;
    }
    for (int64_t d = 0; d < a->D; d++) {
        sum += a->q[ref_attention_at(a, a->T, b, t, h, d)] * a->k[ref_attention_key(a, b, s, h, d)];
    }
    sum *= a->p->scale != 0.0 ? a->p->scale : 1.0 / sqrt((double)a->D);
    if (a->mask) {
        const int64_t *m = a->mask_dim;
        const int64_t at[] = {m[0] > 1 ? b : 0, m[1] > 1 ? h : 0, m[2] > 1 ? t : 0};
        const double x = a->mask[((at[0] * m[1] + at[1]) * m[2] + at[2]) * a->S + s];
        sum += !a->shows ? x : x != 0 ? 0 : -INFINITY;
    }
    return sum < REF_ATTENTION_FAR ? (double)(float)sum : sum; /* as f32 has it */
}

/* The largest score of a query, and the sum of weights relative to that; where it sees nothing minus infinity and 0. */
static inline double ref_attention_sum(const ref_attention *a, int64_t b, int64_t h, int64_t t,
                                       double *sum) {
    double most = -INFINITY;
    *sum = 0.0;
    for (int64_t s = 0; s < a->S; s++) {
        most = fmax(most, ref_attention_score(a, b, h, t, s));
    }
    for (int64_t s = 0; s < a->S && most > -INFINITY; s++) {
        *sum += exp(ref_attention_score(a, b, h, t, s) - most);
    }
    return most;
}

/* The lse of such a query, and whether one is that of a query that sees none but large numbers: src/ops/cuda/attention_stats.cuh. */
static inline double ref_attention_lse(const ref_attention *a, double most, double sum) {
    return most == -INFINITY ? INFINITY
           : !a->mask || a->shows || most > REF_ATTENTION_FAR
               ? most + log(sum)
               : 0x1p100 *
                     (1.875 + (log(sum) - 16 * fmin(log2(most / REF_ATTENTION_FAR), 92)) / 2048);
}
static inline int ref_attention_far(double lse) {
    return lse >= 0x1p100 && lse < 0x1p101;
}

static inline double ref_attention_kept(const ref_attention *a, int64_t b, int64_t h, int64_t t,
                                        int64_t s) {
    const uint32_t node = a->p->node < 0 ? a->c->node : (uint32_t)a->p->node;
    const uint32_t draw = hri_random_u32_of(
        a->c->seed, a->c->step, node, (uint32_t)b,
        (uint64_t)((h * a->T + t) * ((a->S + 3) / 4 * 4) + s)); /* rows of whole draws */
    const double u = (double)(draw >> 8) / 16777216.0;
    return u >= (double)(float)a->p->dropout ? 1.0 / (1.0 - a->p->dropout) : 0.0;
}

#endif
