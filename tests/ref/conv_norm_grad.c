/* conv_norm_grad by its definition: the convolution, the gradient of batch norm, and the two gradients of the convolution. */
#include "ref.h"

#include <stdlib.h>

typedef struct sizes {
    int64_t rows, k, n, each;
} sizes;

static double passed(const ref_call *c, const sizes *z, int64_t i) {
    if (c->sig->in_count < 6) {
        return c->in[0][i];
    }
    const int64_t k = i % z->each, row = (z->each + 7) / 8;
    return (int)c->in[5][i / z->each * row + k / 8] >> k % 8 & 1 ? c->in[0][i] : 0.0;
}

/* The gradient for x in channel i; x is what it is made of. */
static void channel(const ref_call *c, const sizes *z, int64_t i, double *x) {
    double mean = 0.0, sum = 0.0, product = 0.0;
    const double inv = c->in[4][i], rows = (double)z->rows;
    for (int64_t r = 0; r < z->rows; r++) {
        x[r] = 0.0;
        for (int64_t k = 0; k < z->k; k++) {
            x[r] += c->in[1][r * z->k + k] * c->in[2][k * z->n + i];
        }
        mean += x[r] / rows;
    }
    for (int64_t r = 0; r < z->rows; r++) {
        const double d = passed(c, z, r * z->n + i);
        sum += d;
        product += d * (x[r] - mean) * inv;
        if (c->sig->in_count > 5) {
            c->out[4][r * z->n + i] = d;
        }
    }
    for (int64_t r = 0; r < z->rows; r++) {
        x[r] = c->in[3][i] * inv *
               (passed(c, z, r * z->n + i) - sum / rows - (x[r] - mean) * inv * product / rows);
    }
    c->out[2][i] = product;
    c->out[3][i] = sum;
}

static void run(const ref_call *c) {
    const hr_shape *w = &c->sig->in[2].shape, *dy = &c->sig->in[0].shape;
    sizes z = {.k = w->dim[2], .n = w->dim[3]};
    z.rows = z.n ? hr_shape_count(dy) / z.n : 0;
    z.each = dy->dim[0] ? z.rows * z.n / dy->dim[0] : 1;
    double *x = calloc((size_t)z.rows + 1, sizeof *x);
    for (int64_t i = 0; x && i < z.rows * z.k; i++) {
        c->out[0][i] = 0.0;
    }
    for (int64_t i = 0; x && i < z.n; i++) {
        channel(c, &z, i, x);
        for (int64_t k = 0; k < z.k; k++) {
            double sum = 0.0;
            for (int64_t r = 0; r < z.rows; r++) {
                c->out[0][r * z.k + k] += x[r] * c->in[2][k * z.n + i];
                sum += c->in[1][r * z.k + k] * x[r];
            }
            c->out[1][k * z.n + i] = sum;
        }
    }
    free(x);
}

const test_ref test_ref_conv_norm_grad = {"conv_norm_grad", run};
