/* The two passes of batch_norm.h, forward. */
#include "ops/common/batch_norm.h"

#include <math.h>

#include "ops/common/batch_norm_parts.h"

const hri_field hri_batch_norm_fields[] = {
    {"eps", "added to the variance", offsetof(hri_batch_norm_attr, eps), HRI_FIELD_DOUBLE, "1e-5",
     .min = 0, .max = 1},
    {0},
};

hr_status hri_batch_norm_infer(hri_infer *c) {
    const hr_shape *x = &c->in[0].shape;
    const int64_t channels = x->rank ? x->dim[x->rank - 1] : 0;
    if (!hr_type_is_real(c->in[0].type)) {
        return hri_infer_fail(c, "the input is %s, not a floating-point type",
                              hr_type_name(c->in[0].type));
    }
    if (x->rank < 2 || !hri_is_vector(&c->in[1], channels) || !hri_is_vector(&c->in[2], channels)) {
        return hri_infer_fail(c, "expected x (..., C), gamma (C), beta (C)");
    }
    if (c->in_count > 3 && (c->in[3].type != c->in[0].type || !hr_shape_same(&c->in[3].shape, x))) {
        return hri_infer_fail(c, "the addend must have the type and shape of the input");
    }
    if (channels && hr_shape_count(x) == 0) {
        return hri_infer_fail(c, "there is no row to take the mean of");
    }
    c->out[0] = c->in[0];
    c->out[1] = c->out[2] = (hr_meta){HR_TYPE_F32, hr_shape_from(1, &channels)};
    return HR_OK;
}

hr_status hri_batch_norm_apply_infer(hri_infer *c, int relu) {
    const hr_shape *x = &c->in[0].shape;
    const int64_t channels = x->rank ? x->dim[x->rank - 1] : 0;
    if (!hr_type_is_real(c->in[0].type) || x->rank < 2) {
        return hri_infer_fail(c, "expected x (..., C) of a floating-point type");
    }
    for (uint32_t i = 1; i < 5; i++) {
        if (!hri_is_vector(&c->in[i], channels) || (i > 2 && c->in[i].type != HR_TYPE_F32)) {
            return hri_infer_fail(c, "gamma, beta, mean and inv must be (C), the last two f32");
        }
    }
    if (c->in_count > 5 &&
        (c->in[5].type != c->in[0].type || !hr_shape_same(&c->in[5].shape, x) || !relu)) {
        return hri_infer_fail(
            c, "the addend must have the type and shape of the input, and needs relu");
    }
    c->out[0] = c->in[0];
    return HR_OK;
}

uint64_t hri_batch_norm_apply_workspace(const hri_sig *s, uint32_t threads) {
    (void)threads;
    return (uint64_t)s->in[1].shape.dim[0] * 2 * sizeof(float);
}

hr_meta hri_batch_norm_mask(const hr_meta *x) {
    int64_t each = 1;
    for (int d = 1; d < x->shape.rank; d++) {
        each *= x->shape.dim[d];
    }
    return (hr_meta){HR_TYPE_U8, {.rank = 2, .dim = {x->shape.dim[0], each / 8 + !!(each % 8)}}};
}

hri_samples hri_batch_norm_samples(const hri_sig *s, uint32_t batched) {
    (void)s;
    return batched ? HRI_SAMPLES_COUPLED : HRI_SAMPLES_APART;
}

void hri_batch_norm_cost(const hri_sig *s, hri_cost *cost) {
    cost->flops = 6.0 * (double)hr_shape_count(&s->in[0].shape);
    cost->bytes = (s->in_count > 3 ? 4.0 : 3.0) * (double)hr_meta_bytes(&s->in[0]);
}

/* For each part: the shift, the sum and the sum of squares of each channel; then scale and shift. */
uint64_t hri_batch_norm_workspace(const hri_sig *s, uint32_t threads) {
    const hri_bn_parts p = hri_bn_parts_of(&s->in[0].shape);
    (void)threads;
    return (uint64_t)((p.parts * 3 + 2) * p.channels) * sizeof(float);
}

typedef struct stats_task {
    const hri_call *c;
    hri_bn_parts p;
    float *sums; /* (parts, 3, C) */
    float *mean, *inv;
    double eps;
} stats_task;

/* Sums of one block of rows and one tile of channels. */
static void add_tile(const hri_bn_tile *x, int64_t rows, const float *shift, float *sum,
                     float *squares) {
    hri_vec s[HRI_BN_TILE / HRI_VEC] = {{0}}, q[HRI_BN_TILE / HRI_VEC] = {{0}};
    for (int64_t i = 0; i < rows; i++) {
        for (int v = 0; v < HRI_BN_TILE / HRI_VEC; v++) {
            const hri_vec d = hri_vec_load(x->at + i * x->stride + HRI_VEC * v) -
                              hri_vec_load(shift + HRI_VEC * v);
            s[v] += d;
            q[v] += d * d;
        }
    }
    for (int k = 0; k < HRI_BN_TILE; k++) {
        sum[k] += s[k / HRI_VEC][k % HRI_VEC];
        squares[k] += q[k / HRI_VEC][k % HRI_VEC];
    }
}

static void sum_part(void *arg, uint32_t part, uint32_t worker) {
    const stats_task *t = arg;
    const hri_bn_parts *p = &t->p;
    const hr_type type = t->c->sig->in[0].type;
    const int64_t first = part * p->part_rows, end = hri_min64(first + p->part_rows, p->rows);
    float *out = t->sums + part * 3 * p->channels;
    (void)worker;
    for (int64_t c0 = 0; c0 < p->channels; c0 += HRI_BN_TILE) {
        const int64_t width = hri_min64(HRI_BN_TILE, p->channels - c0);
        float shift[HRI_BN_TILE] = {0}, sum[HRI_BN_TILE] = {0}, squares[HRI_BN_TILE] = {0};
        float room[HRI_BN_ROWS * HRI_BN_TILE];
        for (int64_t k = 0; k < width; k++) {
            shift[k] = hri_real_at(type, t->c->in[0], first * p->channels + c0 + k);
        }
        for (int64_t i = first; i < end; i += HRI_BN_ROWS) {
            const int64_t rows = hri_min64(HRI_BN_ROWS, end - i);
            const hri_bn_tile x = hri_bn_tile_in(type, t->c->in[0], i * p->channels + c0,
                                                 p->channels, rows, width, room);
            add_tile(&x, rows, shift, sum, squares);
        }
        for (int64_t k = 0; k < width; k++) {
            out[c0 + k] = shift[k];
            out[p->channels + c0 + k] = sum[k];
            out[2 * p->channels + c0 + k] = squares[k];
        }
    }
}

/* Range over channels: joins the parts. */
static void join_parts(void *arg, uint64_t begin, uint64_t end, uint32_t worker) {
    const stats_task *t = arg;
    const hri_bn_parts *p = &t->p;
    (void)worker;
    for (int64_t k = (int64_t)begin; k < (int64_t)end; k++) {
        double n = 0.0, mean = 0.0, m2 = 0.0;
        for (int64_t q = 0; q < p->parts; q++) {
            const float *in = t->sums + q * 3 * p->channels + k;
            const double more = (double)hri_min64(p->part_rows, p->rows - q * p->part_rows);
            const double sum = (double)in[p->channels], part = (double)in[0] + sum / more;
            const double d = part - mean;
            m2 += (double)in[2 * p->channels] - sum * sum / more + d * d * n * more / (n + more);
            mean += d * more / (n + more);
            n += more;
        }
        const double var = m2 > 0.0 ? m2 / n : m2 * 0.0; /* a NaN stays one */
        t->mean[k] = (float)mean;
        t->inv[k] = (float)(1.0 / sqrt(var + t->eps));
    }
}

void hri_batch_norm_moments(const hri_call *c, double eps, float *mean, float *inv) {
    stats_task t = {.c = c,
                    .p = hri_bn_parts_of(&c->sig->in[0].shape),
                    .sums = c->workspace,
                    .mean = mean,
                    .inv = inv,
                    .eps = eps};
    hri_threads_run(c->threads, (uint32_t)t.p.parts, sum_part, &t);
    hri_threads_range(c->threads, (uint64_t)t.p.channels, 64, join_parts, &t);
}

void hri_batch_norm_lines(const hri_call *c, int64_t channels, const float *mean, const float *inv,
                          float *scale) {
    for (int64_t k = 0; k < channels; k++) {
        const hri_bn_line line =
            hri_bn_line_of(hri_real_at(c->sig->in[1].type, c->in[1], k),
                           hri_real_at(c->sig->in[2].type, c->in[2], k), mean[k], inv[k]);
        scale[k] = line.a;
        scale[channels + k] = line.b;
    }
}

/* Where y is positive, as stored: `count` bytes of the mask (N, row) from `first` on, of samples of `each` elements. */
static void put_mask(hr_type type, const void *y, uint8_t *mask, int64_t first, int64_t count,
                     int64_t each) {
    const int64_t row = each / 8 + !!(each % 8);
    for (int64_t i = first; i < first + count; i++) {
        float room[8];
        const int64_t from = i % row * 8, n = hri_min64(8, each - from);
        const float *at = hri_block_in(type, y, i / row * each + from, n, room);
        unsigned bits = 0;
        for (int64_t k = 0; k < n; k++) {
            bits |= (unsigned)(at[k] > 0.0f) << k;
        }
        mask[i] = (uint8_t)bits;
    }
}

typedef struct apply_task {
    const hri_call *c;
    const float *scale;
    const void *z;
    uint8_t *mask; /* where rows are whole bytes of it; NULL: it is not made here */
    int64_t channels;
    int relu;
} apply_task;

/* Range over bytes of the mask, of rows that are no whole bytes. */
static void mask_bytes(void *arg, uint64_t begin, uint64_t end, uint32_t worker) {
    const hri_call *c = arg;
    (void)worker;
    put_mask(c->sig->in[0].type, c->out[0], c->out[1], (int64_t)begin, (int64_t)(end - begin),
             hr_shape_count(&c->sig->in[0].shape) / c->sig->in[0].shape.dim[0]);
}

static void apply_rows(void *arg, uint64_t begin, uint64_t end, uint32_t worker) {
    const apply_task *t = arg;
    const hr_type type = t->c->sig->in[0].type;
    const float low = t->relu ? 0.0f : -INFINITY;
    (void)worker;
    for (int64_t i = (int64_t)begin; i < (int64_t)end; i++) {
        for (int64_t c0 = 0; c0 < t->channels; c0 += HRI_BLOCK) {
            const int64_t n = hri_min64(HRI_BLOCK, t->channels - c0), at = i * t->channels + c0;
            float room[3][HRI_BLOCK];
            const float *x = hri_block_in(type, t->c->in[0], at, n, room[0]);
            const float *a = t->scale + c0, *b = t->scale + t->channels + c0;
            float *y = hri_block_out(type, t->c->out[0], at, room[1]);
            if (t->z) {
                const float *z = hri_block_in(type, t->z, at, n, room[2]);
                HRI_IVDEP for (int64_t k = 0; k < n; k++) {
                    const float v = hri_bn_at(x[k], a[k], b[k]) + z[k];
                    y[k] = v < low ? low : v;
                }
            } else {
                HRI_IVDEP for (int64_t k = 0; k < n; k++) {
                    const float v = hri_bn_at(x[k], a[k], b[k]);
                    y[k] = v < low ? low : v;
                }
            }
            hri_block_put(type, t->c->out[0], at, n, y);
            if (t->mask) {
                put_mask(type, t->c->out[0], t->mask, at / 8, n / 8, 8);
            }
        }
    }
}

void hri_batch_norm_apply(const hri_call *c, const float *scale, const void *z, int relu) {
    const hri_bn_parts p = hri_bn_parts_of(&c->sig->in[0].shape);
    uint8_t *mask = c->sig->out_count == 2 ? c->out[1] : NULL;
    const int inside = mask && p.channels % 8 == 0;
    apply_task t = {c, scale, z, inside ? mask : NULL, p.channels, relu};
    hri_threads_range(c->threads, (uint64_t)p.rows, (uint64_t)(32768 / (p.channels + 1) + 1),
                      apply_rows, &t);
    if (mask && !inside) {
        hri_call call = *c;
        hri_threads_range(c->threads, (uint64_t)hr_shape_count(&c->sig->out[1].shape), 4096,
                          mask_bytes, &call);
    }
}

hr_status hri_batch_norm_run(const hri_call *c, int relu, int add) {
    const hri_batch_norm_attr *attr = c->sig->attr;
    const hri_bn_parts p = hri_bn_parts_of(&c->sig->in[0].shape);
    float *scale = (float *)c->workspace + p.parts * 3 * p.channels;
    hri_batch_norm_moments(c, attr->eps, c->out[1], c->out[2]);
    hri_batch_norm_lines(c, p.channels, c->out[1], c->out[2], scale);
    hri_batch_norm_apply(c, scale, add ? c->in[3] : NULL, relu);
    return HR_OK;
}
