/* The two passes of batch_norm.h, backward.
 *
 *   d = dy where the relu let it through   dbeta = sum d   dgamma = inv * sum d (x - mean)
 *   dx = gamma inv (d - dbeta / M - (x - mean) inv dgamma / M)                                  dz = d */
#include "ops/common/batch_norm.h"

#include "ops/common/batch_norm_parts.h"

hr_status hri_batch_norm_grad_infer(hri_infer *c) {
    const hr_shape *x = &c->in[1].shape;
    const int64_t channels = x->rank ? x->dim[x->rank - 1] : 0;
    if (c->in[0].type != c->in[1].type || !hr_shape_same(&c->in[0].shape, x)) {
        return hri_infer_fail(c, "dy and x must have the same type and shape");
    }
    if (!hr_type_is_real(c->in[1].type) || x->rank < 2 || !hri_is_vector(&c->in[2], channels) ||
        !hri_is_vector(&c->in[3], channels) || !hri_is_vector(&c->in[4], channels) ||
        c->in[3].type != HR_TYPE_F32 || c->in[4].type != HR_TYPE_F32) {
        return hri_infer_fail(c, "expected x (..., C), gamma (C), and f32 mean (C), inv (C)");
    }
    c->out[0] = c->in[1];
    c->out[1] = c->out[2] = c->in[2];
    return HR_OK;
}

void hri_batch_norm_grad_cost(const hri_sig *s, hri_cost *cost) {
    cost->flops = 9.0 * (double)hr_shape_count(&s->in[1].shape);
    const int mask = s->in_count > 5 && s->in[5].type == HR_TYPE_U8;
    cost->bytes = (mask                   ? 6.0
                   : s->op->out_count > 3 ? 8.0
                                          : 5.0) *
                  (double)hr_meta_bytes(&s->in[1]);
    cost->bytes += mask ? (double)hr_meta_bytes(&s->in[5]) : 0.0;
}

/* (parts, 2, C) sums, then six numbers a channel for the second pass. */
uint64_t hri_batch_norm_grad_workspace(const hri_sig *s, uint32_t threads) {
    const hri_bn_parts p = hri_bn_parts_of(&s->in[1].shape);
    (void)threads;
    return (uint64_t)((p.parts * 2 + 6) * p.channels) * sizeof(float);
}

/* What the second pass knows of a channel: (LINES, C). */
enum { LINE_A, LINE_B, LINE_DY, LINE_X, LINE_MEAN, LINE_CONST };

typedef struct grad_task {
    const hri_call *c;
    hri_bn_parts p;
    float *sums;  /* (parts, 2, C) */
    float *lines; /* (6, C) */
    hri_batch_norm_sign sign;
} grad_task;

/* Where the bits of a row of channels lie; a sample begins with a byte of its own. */
typedef struct bits {
    const uint8_t *sample;
    int64_t first; /* of the sample's elements */
    int64_t each, bytes;
} bits;

static bits bits_at(const grad_task *t, int64_t row) {
    const hri_sig *s = t->c->sig;
    const int64_t at = row * t->p.channels;
    bits b = {.each = hr_shape_count(&s->in[1].shape) / hri_max64(s->in[1].shape.dim[0], 1)};
    b.bytes = t->sign == HRI_BN_FROM_MASK ? s->in[5].shape.dim[1] : 0;
    if (b.bytes && b.each) {
        b.sample = (const uint8_t *)t->c->in[5] + at / b.each * b.bytes;
        b.first = at % b.each;
    }
    return b;
}

static void bits_next(bits *b, int64_t channels) {
    b->first += channels;
    if (b->first >= b->each) {
        b->first -= b->each;
        b->sample += b->bytes;
    }
}

typedef int32_t eight_bits __attribute__((vector_size(32)));
typedef float eight __attribute__((vector_size(32), aligned(4), may_alias));

/* Bits as numbers that are positive or not: `n` of the row of channels, from number c0 on. */
static void read_bits(const bits *b, int64_t c0, int64_t n, float *out) {
    const eight_bits numbers = {0, 1, 2, 3, 4, 5, 6, 7};
    const int64_t first = b->first + c0;
    const uint8_t *byte = b->sample + first / 8;
    int64_t k = 0;
    for (; first % 8 == 0 && k + 8 <= n; k += 8) {
        *(eight *)(out + k) = __builtin_convertvector((*byte++ >> numbers) & 1, eight);
    }
    for (; k < n; k++) {
        out[k] = (float)(b->sample[(first + k) / 8] >> (first + k) % 8 & 1);
    }
}

typedef struct tiles {
    hri_bn_tile dy, x, y;
} tiles;

/* `sign` is a constant at each call, so that the loop has no branch. */
static inline __attribute__((always_inline)) void add_tile(const tiles *t, int64_t rows,
                                                           const float (*line)[HRI_BN_TILE],
                                                           float *sum, float *product,
                                                           hri_batch_norm_sign sign) {
    const hri_vec zero = {0};
    hri_vec s[HRI_BN_TILE / HRI_VEC] = {{0}}, q[HRI_BN_TILE / HRI_VEC] = {{0}};
    hri_vec a[HRI_BN_TILE / HRI_VEC], b[HRI_BN_TILE / HRI_VEC], mean[HRI_BN_TILE / HRI_VEC];
    for (int v = 0; v < HRI_BN_TILE / HRI_VEC; v++) {
        a[v] = hri_vec_load(line[LINE_A] + HRI_VEC * v);
        b[v] = hri_vec_load(line[LINE_B] + HRI_VEC * v);
        mean[v] = hri_vec_load(line[LINE_MEAN] + HRI_VEC * v);
    }
    for (int64_t i = 0; i < rows; i++) {
        for (int v = 0; v < HRI_BN_TILE / HRI_VEC; v++) {
            const hri_vec x = hri_vec_load(t->x.at + i * t->x.stride + HRI_VEC * v);
            hri_vec d = hri_vec_load(t->dy.at + i * t->dy.stride + HRI_VEC * v);
            if (sign == HRI_BN_FROM_Y) {
                d = hri_vec_pick(hri_vec_load(t->y.at + i * t->y.stride + HRI_VEC * v) > zero, d,
                                 zero);
            } else if (sign == HRI_BN_FROM_X) {
                d = hri_vec_pick(hri_bn_at_vec(x, a[v], b[v]) > zero, d, zero);
            }
            s[v] += d;
            q[v] += d * (x - mean[v]);
        }
    }
    for (int k = 0; k < HRI_BN_TILE; k++) {
        sum[k] += s[k / HRI_VEC][k % HRI_VEC];
        product[k] += q[k / HRI_VEC][k % HRI_VEC];
    }
}

static void sum_part(void *arg, uint32_t part, uint32_t worker) {
    const grad_task *t = arg;
    const hri_bn_parts *p = &t->p;
    const hr_type type = t->c->sig->in[1].type;
    const int64_t first = part * p->part_rows, end = hri_min64(first + p->part_rows, p->rows);
    float *out = t->sums + part * 2 * p->channels;
    (void)worker;
    for (int64_t c0 = 0; c0 < p->channels; c0 += HRI_BN_TILE) {
        const int64_t width = hri_min64(HRI_BN_TILE, p->channels - c0);
        float line[LINE_CONST + 1][HRI_BN_TILE] = {{0}};
        float sum[HRI_BN_TILE] = {0}, product[HRI_BN_TILE] = {0};
        float room[3][HRI_BN_ROWS * HRI_BN_TILE];
        bits mask = bits_at(t, first);
        for (int l = 0; l <= LINE_CONST; l++) {
            memcpy(line[l], t->lines + l * p->channels + c0, (size_t)width * sizeof(float));
        }
        for (int64_t i = first; i < end; i += HRI_BN_ROWS) {
            const int64_t rows = hri_min64(HRI_BN_ROWS, end - i), at = i * p->channels + c0;
            tiles in;
            in.dy = hri_bn_tile_in(type, t->c->in[0], at, p->channels, rows, width, room[0]);
            in.x = hri_bn_tile_in(type, t->c->in[1], at, p->channels, rows, width, room[1]);
            in.y = in.x;
            if (t->sign == HRI_BN_FROM_MASK) {
                if (width < HRI_BN_TILE) {
                    memset(room[2], 0, sizeof room[2]);
                }
                for (int64_t r = 0; r < rows; r++) {
                    read_bits(&mask, c0, width, room[2] + r * HRI_BN_TILE);
                    bits_next(&mask, p->channels);
                }
                in.y = (hri_bn_tile){room[2], HRI_BN_TILE};
                add_tile(&in, rows, line, sum, product, HRI_BN_FROM_Y);
            } else if (t->sign == HRI_BN_FROM_Y) {
                in.y = hri_bn_tile_in(type, t->c->in[5], at, p->channels, rows, width, room[2]);
                add_tile(&in, rows, line, sum, product, HRI_BN_FROM_Y);
            } else if (t->sign == HRI_BN_FROM_X) {
                add_tile(&in, rows, line, sum, product, HRI_BN_FROM_X);
            } else {
                add_tile(&in, rows, line, sum, product, HRI_BN_PLAIN);
            }
        }
        memcpy(out + c0, sum, (size_t)width * sizeof *sum);
        memcpy(out + p->channels + c0, product, (size_t)width * sizeof *product);
    }
}

/* What the first pass needs of each channel. */
static void set_lines(const grad_task *t) {
    const hri_call *c = t->c;
    const int64_t channels = t->p.channels;
    for (int64_t k = 0; k < channels; k++) {
        const float mean = ((const float *)c->in[3])[k], inv = ((const float *)c->in[4])[k];
        const float beta =
            t->sign == HRI_BN_FROM_X ? hri_real_at(c->sig->in[5].type, c->in[5], k) : 0.0f;
        const hri_bn_line line =
            hri_bn_line_of(hri_real_at(c->sig->in[2].type, c->in[2], k), beta, mean, inv);
        t->lines[LINE_A * channels + k] = line.a;
        t->lines[LINE_B * channels + k] = line.b;
        t->lines[LINE_MEAN * channels + k] = mean;
        t->lines[LINE_DY * channels + k] = t->lines[LINE_X * channels + k] = 0.0f;
        t->lines[LINE_CONST * channels + k] = 0.0f;
    }
}

/* The sums of all parts, in order; gradients of gamma and beta; what the second pass needs. */
static void join_parts(const grad_task *t) {
    const hri_call *c = t->c;
    const int64_t channels = t->p.channels;
    for (int64_t k = 0; k < channels; k++) {
        double sum = 0.0, product = 0.0;
        for (int64_t q = 0; q < t->p.parts; q++) {
            sum += (double)t->sums[q * 2 * channels + k];
            product += (double)t->sums[(q * 2 + 1) * channels + k];
        }
        const double inv = (double)((const float *)c->in[4])[k], m = (double)t->p.rows;
        const double scale = (double)hri_real_at(c->sig->in[2].type, c->in[2], k) * inv;
        hri_real_put(c->sig->out[1].type, c->out[1], k, (float)(product * inv));
        hri_real_put(c->sig->out[2].type, c->out[2], k, (float)sum);
        t->lines[LINE_DY * channels + k] = (float)scale;
        t->lines[LINE_X * channels + k] = m > 0 ? (float)(-scale * inv * inv * product / m) : 0.0f;
        t->lines[LINE_CONST * channels + k] = m > 0 ? (float)(-scale * sum / m) : 0.0f;
    }
}

static inline __attribute__((always_inline)) void dx_block(const float *dy, const float *x,
                                                           const float *y, const float *line,
                                                           int64_t channels, int64_t n, float *dx,
                                                           float *dz, hri_batch_norm_sign sign) {
    const float *a = line + LINE_A * channels, *b = line + LINE_B * channels;
    const float *by_dy = line + LINE_DY * channels, *by_x = line + LINE_X * channels;
    const float *mean = line + LINE_MEAN * channels, *constant = line + LINE_CONST * channels;
    HRI_IVDEP for (int64_t k = 0; k < n; k++) {
        const float v = x[k], whole = dy[k]; /* loaded whether or not it passes: no branch */
        const float seen = sign == HRI_BN_FROM_Y ? y[k] : hri_bn_at(v, a[k], b[k]);
        const float d = sign == HRI_BN_PLAIN || seen > 0.0f ? whole : 0.0f;
        if (sign == HRI_BN_FROM_Y) {
            dz[k] = d;
        }
        dx[k] = by_dy[k] * d + (by_x[k] * (v - mean[k]) + constant[k]);
    }
}

static void dx_rows(void *arg, uint64_t begin, uint64_t end, uint32_t worker) {
    const grad_task *t = arg;
    const hri_call *c = t->c;
    const hr_type type = c->sig->in[1].type;
    const int64_t channels = t->p.channels;
    bits mask = bits_at(t, (int64_t)begin);
    (void)worker;
    for (int64_t i = (int64_t)begin; i < (int64_t)end; i++, bits_next(&mask, channels)) {
        for (int64_t c0 = 0; c0 < channels; c0 += HRI_BLOCK) {
            const int64_t n = hri_min64(HRI_BLOCK, channels - c0), at = i * channels + c0;
            float room[5][HRI_BLOCK];
            const float *dy = hri_block_in(type, c->in[0], at, n, room[0]);
            const float *x = hri_block_in(type, c->in[1], at, n, room[1]);
            const float *line = t->lines + c0;
            float *dx = hri_block_out(type, c->out[0], at, room[2]);
            if (t->sign >= HRI_BN_FROM_Y) {
                const int by_bits = t->sign == HRI_BN_FROM_MASK;
                if (by_bits) {
                    read_bits(&mask, c0, n, room[3]);
                }
                const float *y = by_bits ? room[3] : hri_block_in(type, c->in[5], at, n, room[3]);
                float *dz = hri_block_out(type, c->out[3], at, room[4]);
                dx_block(dy, x, y, line, channels, n, dx, dz, HRI_BN_FROM_Y);
                hri_block_put(type, c->out[3], at, n, dz);
            } else if (t->sign == HRI_BN_FROM_X) {
                dx_block(dy, x, x, line, channels, n, dx, NULL, HRI_BN_FROM_X);
            } else {
                dx_block(dy, x, x, line, channels, n, dx, NULL, HRI_BN_PLAIN);
            }
            hri_block_put(type, c->out[0], at, n, dx);
        }
    }
}

hr_status hri_batch_norm_grad_run(const hri_call *c, hri_batch_norm_sign sign) {
    grad_task t = {.c = c, .p = hri_bn_parts_of(&c->sig->in[1].shape), .sign = sign};
    t.sums = c->workspace;
    t.lines = t.sums + t.p.parts * 2 * t.p.channels;
    set_lines(&t);
    hri_threads_run(c->threads, (uint32_t)t.p.parts, sum_part, &t);
    join_parts(&t);
    hri_threads_range(c->threads, (uint64_t)t.p.rows, (uint64_t)(32768 / (t.p.channels + 1) + 1),
                      dx_rows, &t);
    return HR_OK;
}
