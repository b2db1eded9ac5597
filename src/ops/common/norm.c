/* Forward and backward of norm.h. */
#include "ops/common/norm.h"

#include <math.h>
#include <stdio.h>

#include "ops/common/blocks.h"

enum { PARTS_MAX = 32 };

hri_norm hri_norm_rows(const hr_shape *x, int rms) {
    const int64_t k = x->rank ? x->dim[x->rank - 1] : 1;
    return (hri_norm){.n = k ? hr_shape_count(x) / k : 0, .s = 1, .g = 1, .k = k, .rms = rms};
}

hri_norm hri_norm_groups(const hr_shape *x, int64_t groups) {
    const int64_t channels = x->dim[x->rank - 1];
    hri_norm v = {.n = x->dim[0], .s = 1, .g = groups, .k = channels / groups};
    for (int d = 1; d < x->rank - 1; d++) {
        v.s *= x->dim[d];
    }
    return v;
}

hr_status hri_norm_infer(hri_infer *c, const hr_shape *stats, int rms) {
    const hr_shape *x = &c->in[0].shape;
    const int64_t channels = x->dim[x->rank - 1];
    for (uint32_t i = 1; i < c->in_count; i++) {
        if (!hri_is_vector(&c->in[i], channels)) {
            return hri_infer_fail(
                c, "gamma and beta must be floating point, as long as the last dimension");
        }
    }
    c->out[0] = c->in[0];
    c->out[1] = (hr_meta){HR_TYPE_F32, *stats};
    if (!rms) {
        c->out[2] = c->out[1];
    }
    return HR_OK;
}

hr_status hri_norm_grad_infer(hri_infer *c, int64_t stats, int rms) {
    const hr_shape *x = &c->in[1].shape;
    if (!hr_type_is_real(c->in[1].type) || c->in[0].type != c->in[1].type ||
        !hr_shape_same(&c->in[0].shape, x)) {
        return hri_infer_fail(c, "dy and x must have the same floating-point type and shape");
    }
    if (!hri_is_vector(&c->in[2], x->dim[x->rank - 1])) {
        return hri_infer_fail(c, "gamma must be floating point, as long as the last dimension");
    }
    for (uint32_t i = 3; i < c->in_count; i++) {
        if (c->in[i].type != HR_TYPE_F32 || hr_shape_count(&c->in[i].shape) != stats) {
            return hri_infer_fail(c, "the statistics must be f32, %lld of them", (long long)stats);
        }
    }
    c->out[0] = c->in[1];
    c->out[1] = c->in[2];
    if (!rms) {
        c->out[2] = c->in[2];
    }
    return HR_OK;
}

void hri_norm_set_grads(hri_grad *c, hr_value dx) {
    for (uint32_t i = 0; i < c->sig->in_count; i++) {
        if (HRI_NEEDS(c, i)) {
            /* The op gives the gradients of gamma and beta in gamma's type. */
            const hr_value d = hr_graph_output(c->g, dx, i);
            const int32_t type = c->sig->in[i].type;
            char to[32];
            snprintf(to, sizeof to, "to=%s", hr_type_name((hr_type)type));
            c->din[i] = d == HR_NONE || hr_graph_meta(c->g, d).type == type
                            ? d
                            : hr_graph_node(c->g, "cast", &d, 1, to);
        }
    }
}

void hri_norm_cost(const hri_sig *s, hri_cost *cost) {
    cost->flops = 7.0 * (double)hr_shape_count(&s->in[0].shape);
}

void hri_norm_grad_cost(const hri_sig *s, hri_cost *cost) {
    cost->flops = 14.0 * (double)hr_shape_count(&s->in[1].shape);
}

hri_samples hri_norm_grad_samples(const hri_sig *s, uint32_t batched) {
    (void)s;
    return batched ? HRI_SAMPLES_SUM : HRI_SAMPLES_APART;
}

typedef struct task {
    const hri_norm *v;
    const hri_call *c;
    double eps;
    int64_t parts, part;
    float *partial; /* (parts, 2, G K) */
} task;

/* The runs of one group: calls BODY with at (element), n and c0 (channel of gamma). */
#define EACH_RUN(V, I, G, BODY)                                                                    \
    for (int64_t run_s = 0; run_s < (V)->s; run_s++) {                                             \
        for (int64_t run_k = 0; run_k < (V)->k; run_k += HRI_BLOCK) {                              \
            const int64_t n = hri_min64(HRI_BLOCK, (V)->k - run_k), c0 = (G) * (V)->k + run_k;     \
            const int64_t at = ((I) * (V)->s + run_s) * (V)->g * (V)->k + c0;                      \
            BODY                                                                                   \
        }                                                                                          \
    }

static void norm_group(const task *t, int64_t i, int64_t g) {
    const hri_norm *v = t->v;
    const hri_call *c = t->c;
    const hri_sig *s = c->sig;
    const hr_type type = s->in[0].type;
    const double count = (double)(v->s * v->k);
    float room[4][HRI_BLOCK];
    double sum = 0.0, squares = 0.0;
    if (!v->rms) {
        EACH_RUN(v, i, g, {
            const float *x = hri_block_in(type, c->in[0], at, n, room[0]);
            float lanes[HRI_LANES] = {0};
            HRI_LANES_ADD(lanes, n, x[k]);
            sum += (double)hri_lanes_sum(lanes);
        })
    }
    const float mean = (float)(sum / count);
    EACH_RUN(v, i, g, {
        const float *x = hri_block_in(type, c->in[0], at, n, room[0]);
        float lanes[HRI_LANES] = {0};
        HRI_LANES_ADD(lanes, n, (x[k] - mean) * (x[k] - mean));
        squares += (double)hri_lanes_sum(lanes);
    })
    const float inv = (float)(1.0 / sqrt(squares / count + t->eps));
    EACH_RUN(v, i, g, {
        const float *x = hri_block_in(type, c->in[0], at, n, room[0]);
        const float *gamma = hri_block_in(s->in[1].type, c->in[1], c0, n, room[1]);
        float *y = hri_block_out(type, c->out[0], at, room[3]);
        if (v->rms) {
            HRI_IVDEP for (int64_t k = 0; k < n; k++) {
                y[k] = x[k] * inv * gamma[k];
            }
        } else {
            const float *beta = hri_block_in(s->in[2].type, c->in[2], c0, n, room[2]);
            HRI_IVDEP for (int64_t k = 0; k < n; k++) {
                y[k] = (x[k] - mean) * inv * gamma[k] + beta[k];
            }
        }
        hri_block_put(type, c->out[0], at, n, y);
    })
    if (!v->rms) {
        ((float *)c->out[1])[i * v->g + g] = mean;
    }
    ((float *)c->out[v->rms ? 1 : 2])[i * v->g + g] = inv;
}

static void norm_range(void *arg, uint64_t begin, uint64_t end, uint32_t worker) {
    const task *t = arg;
    (void)worker;
    for (int64_t r = (int64_t)begin; r < (int64_t)end; r++) {
        norm_group(t, r / t->v->g, r % t->v->g);
    }
}

void hri_norm_run(const hri_norm *v, const hri_call *c, double eps) {
    task t = {.v = v, .c = c, .eps = eps};
    hri_threads_range(c->threads, (uint64_t)(v->n * v->g), (uint64_t)(8192 / (v->s * v->k + 1) + 1),
                      norm_range, &t);
}

/* ---- backward ---- */

static int64_t parts_of(const hri_norm *v) {
    const int64_t least = hri_max64(1, 8192 / (v->s * v->g * v->k + 1));
    return hri_min64(PARTS_MAX, (v->n + least - 1) / least);
}

uint64_t hri_norm_grad_workspace(const hri_norm *v) {
    return (uint64_t)(parts_of(v) * 2 * v->g * v->k) * sizeof(float);
}

static void grad_group(const task *t, int64_t i, int64_t g, float *dgamma, float *dbeta) {
    const hri_norm *v = t->v;
    const hri_call *c = t->c;
    const hri_sig *s = c->sig;
    const hr_type type = s->in[1].type;
    const double count = (double)(v->s * v->k);
    const float mean = v->rms ? 0.0f : ((const float *)c->in[3])[i * v->g + g];
    const float inv = ((const float *)c->in[v->rms ? 3 : 4])[i * v->g + g];
    float room[4][HRI_BLOCK];
    double sum = 0.0, product = 0.0;
    EACH_RUN(v, i, g, {
        const float *dy = hri_block_in(type, c->in[0], at, n, room[0]);
        const float *x = hri_block_in(type, c->in[1], at, n, room[1]);
        const float *gamma = hri_block_in(s->in[2].type, c->in[2], c0, n, room[2]);
        float lanes[HRI_LANES] = {0};
        float products[HRI_LANES] = {0};
        HRI_LANES_ADD(lanes, n, dy[k] * gamma[k]);
        HRI_LANES_ADD(products, n, dy[k] * gamma[k] * ((x[k] - mean) * inv));
        sum += (double)hri_lanes_sum(lanes);
        product += (double)hri_lanes_sum(products);
        for (int64_t k = 0; k < n; k++) {
            dgamma[c0 + k] += dy[k] * ((x[k] - mean) * inv);
            dbeta[c0 + k] += dy[k];
        }
    })
    const float shift = v->rms ? 0.0f : (float)(sum / count), slope = (float)(product / count);
    EACH_RUN(v, i, g, {
        const float *dy = hri_block_in(type, c->in[0], at, n, room[0]);
        const float *x = hri_block_in(type, c->in[1], at, n, room[1]);
        const float *gamma = hri_block_in(s->in[2].type, c->in[2], c0, n, room[2]);
        float *dx = hri_block_out(type, c->out[0], at, room[3]);
        HRI_IVDEP for (int64_t k = 0; k < n; k++) {
            dx[k] = inv * (dy[k] * gamma[k] - shift - (x[k] - mean) * inv * slope);
        }
        hri_block_put(type, c->out[0], at, n, dx);
    })
}

static void grad_part(void *arg, uint32_t part, uint32_t worker) {
    const task *t = arg;
    const int64_t channels = t->v->g * t->v->k;
    float *dgamma = t->partial + part * 2 * channels;
    (void)worker;
    memset(dgamma, 0, (size_t)(2 * channels) * sizeof *dgamma);
    const int64_t first = part * t->part, end = hri_min64(first + t->part, t->v->n);
    for (int64_t i = first; i < end; i++) {
        for (int64_t g = 0; g < t->v->g; g++) {
            grad_group(t, i, g, dgamma, dgamma + channels);
        }
    }
}

void hri_norm_grad_run(const hri_norm *v, const hri_call *c) {
    task t = {.v = v, .c = c, .parts = parts_of(v), .partial = c->workspace};
    const int64_t channels = v->g * v->k;
    t.part = t.parts ? (v->n + t.parts - 1) / t.parts : 0;
    hri_threads_run(c->threads, (uint32_t)t.parts, grad_part, &t);
    for (int64_t k = 0; k < channels; k++) {
        double dgamma = 0.0, dbeta = 0.0;
        for (int64_t p = 0; p < t.parts; p++) {
            dgamma += (double)t.partial[p * 2 * channels + k];
            dbeta += (double)t.partial[(p * 2 + 1) * channels + k];
        }
        hri_real_put(c->sig->out[1].type, c->out[1], k, (float)dgamma);
        if (!v->rms) {
            hri_real_put(c->sig->out[2].type, c->out[2], k, (float)dbeta);
        }
    }
}
