/* max_pool(x; kernel, stride, pad): the largest value of each window.
 *
 *   x (N, H, W, C)   y (N, OH, OW, C)   index (N, OH, OW, C) u8: which place of the window, row by row
 *
 * The first of equal values wins; a NaN wins over numbers, as in torch.  Padding never wins.  A window has at most 256
 * places.  The gradient keeps the indices, one byte an output, and neither x nor y. */
#include <math.h>

#include "ops/common/pool.h"

static const hri_field max_pool_fields[] = {HRI_POOL_FIELDS, {0}};

static hr_status max_pool_infer(hri_infer *c) {
    const hr_shape *x = &c->in[0].shape;
    hri_pooling p;
    if (!hr_type_is_real(c->in[0].type) || x->rank != 4) {
        return hri_infer_fail(c, "the input must be floating point, (N, H, W, C)");
    }
    if (hri_pool_init(&p, c->attr, x->dim[0], x->dim[1], x->dim[2], x->dim[3])) {
        return hri_infer_fail(c, "the window must lie inside the padded input, pad at most half "
                                 "the kernel");
    }
    if (p.kh * p.kw > 256) {
        return hri_infer_fail(c, "the window has more than 256 places");
    }
    c->out[0] = hri_pool_meta(c->in[0].type, p.n, p.oh, p.ow, p.channels);
    c->out[1] = hri_pool_meta(HR_TYPE_U8, p.n, p.oh, p.ow, p.channels);
    return HR_OK;
}

static void max_pool_grad(hri_grad *c) {
    hri_pool_attr attr = *(const hri_pool_attr *)c->sig->attr;
    attr.height = c->sig->in[0].shape.dim[1];
    attr.width = c->sig->in[0].shape.dim[2];
    c->din[0] = HRI_NODE(c->g, "max_pool_grad", &attr, c->dout[0], c->out[1]);
}

typedef struct task {
    const hri_call *c;
    hri_pooling p;
} task;

/* One output pixel, one block of channels.  Codes are counted in f32, so that all lanes are alike. */
static void pool_pixel(const task *t, int64_t b, int64_t i, int64_t j, int64_t c0, int64_t n) {
    const hri_pooling *p = &t->p;
    const hri_call *c = t->c;
    const hr_type type = c->sig->in[0].type;
    const int64_t to = ((b * p->oh + i) * p->ow + j) * p->channels + c0;
    int64_t h0, h1, w0, w1;
    float most[HRI_BLOCK], room[HRI_BLOCK];
    int32_t code[HRI_BLOCK];
    uint8_t *index = (uint8_t *)c->out[1] + to;
    hri_pool_window(i, p->kh, p->sh, p->ph, p->h, &h0, &h1);
    hri_pool_window(j, p->kw, p->sw, p->pw, p->w, &w0, &w1);
    for (int64_t h = h0; h < h1; h++) {
        for (int64_t w = w0; w < w1; w++) {
            const float *x = hri_block_in(type, c->in[0],
                                          ((b * p->h + h) * p->w + w) * p->channels + c0, n, room);
            const int32_t at = (int32_t)((h - i * p->sh + p->ph) * p->kw + w - j * p->sw + p->pw);
            if (h == h0 && w == w0) {
                for (int64_t k = 0; k < n; k++) {
                    most[k] = x[k];
                    code[k] = at;
                }
                continue;
            }
            for (int64_t k = 0; k < n; k++) {
                const int wins = (x[k] > most[k]) | (x[k] != x[k]);
                code[k] = wins ? at : code[k];
                most[k] = wins ? x[k] : most[k];
            }
        }
    }
    float *y = hri_block_out(type, c->out[0], to, room);
    for (int64_t k = 0; k < n; k++) {
        y[k] = most[k];
        index[k] = (uint8_t)code[k];
    }
    hri_block_put(type, c->out[0], to, n, y);
}

/* The windows of n channels, 2 x 2, all four places at once. */
static inline __attribute__((always_inline)) void
pool_2x2(const float *x, int64_t right, int64_t below, int64_t n, float *y, uint8_t *index) {
    HRI_IVDEP for (int64_t k = 0; k < n; k++) {
        const float b = x[right + k], c = x[below + k], d = x[below + right + k];
        float most = x[k];
        int32_t code = 0;
        code = (b > most) | (b != b) ? 1 : code;
        most = code == 1 ? b : most;
        code = (c > most) | (c != c) ? 2 : code;
        most = code == 2 ? c : most;
        code = (d > most) | (d != d) ? 3 : code;
        y[k] = code == 3 ? d : most;
        index[k] = (uint8_t)code;
    }
}

/* The same of eight: what is written beyond the channels is written again, rightly, by the next window. */
static inline void pool_few(const float *x, int64_t right, int64_t below, float *y,
                            uint8_t *index) {
    hri_pool_numbers most, b, c, d;
    memcpy(&most, x, sizeof most);
    memcpy(&b, x + right, sizeof b);
    memcpy(&c, x + below, sizeof c);
    memcpy(&d, x + below + right, sizeof d);
    hri_pool_masks wins = (b > most) | (b != b), code = wins & 1;
    most = HRI_POOL_PICK(wins, b, most);
    wins = (c > most) | (c != c);
    code = (wins & 2) | (~wins & code);
    most = HRI_POOL_PICK(wins, c, most);
    wins = (d > most) | (d != d);
    code = (wins & 3) | (~wins & code);
    most = HRI_POOL_PICK(wins, d, most);
    const hri_pool_codes codes = __builtin_convertvector(code, hri_pool_codes);
    memcpy(y, &most, sizeof most);
    memcpy(index, &codes, sizeof codes);
}

/* The usual windows, side by side: one output row of f32. */
static void pool_row_2x2(const task *t, int64_t r) {
    const hri_pooling *p = &t->p;
    const int64_t n = p->channels, row = p->w * n, to = r * p->ow * n;
    const float *x = (const float *)t->c->in[0] + (r / p->oh * p->h + r % p->oh * 2) * row;
    float *y = (float *)t->c->out[0] + to;
    uint8_t *index = (uint8_t *)t->c->out[1] + to;
    for (int64_t j = 0; j < p->ow; j++, x += 2 * n, y += n, index += n) {
        if (!hri_pool_is_few(n, (p->ow - j) * n)) {
            pool_2x2(x, n, row, n, y, index);
            continue;
        }
        for (int64_t k = 0; k < n; k += HRI_POOL_FEW) {
            pool_few(x + k, n, row, y + k, index + k);
        }
    }
}

static void max_pool_rows(void *arg, uint64_t begin, uint64_t end, uint32_t worker) {
    const task *t = arg;
    (void)worker;
    for (int64_t r = (int64_t)begin; r < (int64_t)end; r++) {
        if (hri_pool_is_2x2(&t->p) && t->c->sig->in[0].type == HR_TYPE_F32) {
            pool_row_2x2(t, r);
            continue;
        }
        for (int64_t j = 0; j < t->p.ow; j++) {
            for (int64_t c0 = 0; c0 < t->p.channels; c0 += HRI_BLOCK) {
                pool_pixel(t, r / t->p.oh, r % t->p.oh, j, c0,
                           hri_min64(HRI_BLOCK, t->p.channels - c0));
            }
        }
    }
}

static hr_status max_pool_host(const hri_call *c) {
    const hr_shape *x = &c->sig->in[0].shape;
    task t = {.c = c};
    if (hri_pool_init(&t.p, c->sig->attr, x->dim[0], x->dim[1], x->dim[2], x->dim[3])) {
        return HR_E_SHAPE;
    }
    hri_threads_range(c->threads, (uint64_t)(t.p.n * t.p.oh), hri_pool_chunk(t.p.ow * t.p.channels),
                      max_pool_rows, &t);
    return HR_OK;
}

static void max_pool_cost(const hri_sig *s, hri_cost *cost) {
    const hri_pool_attr *a = s->attr;
    const double places =
        (double)(hri_pool_number(&a->kernel, 0, 1) * hri_pool_number(&a->kernel, 1, 1));
    cost->flops = places * (double)hr_shape_count(&s->out[0].shape);
}

static const hri_case max_pool_cases[] = {
    {"resnet's", "f32[2,9,11,19]", "kernel=3,stride=2,pad=1", .batched = 1},
    {"two by two, odd", "f32[2,7,9,6]", "kernel=2", .batched = 1},
    {"two by two", "f32[2,6,8,5]", "kernel=2"},
    {"rectangle", "f32[1,7,9,3]", "kernel=2x3,stride=1x2,pad=1x0"},
    {"one place", "f32[3,4,4,1]", "kernel=1"},
    {"whole image", "f32[2,5,5,300]", "kernel=5"},
    {"no samples", "f32[0,4,4,3]", "kernel=2"},
    {"bf16", "bf16[2,9,9,7]", "kernel=3,stride=2,pad=1"},
    {"f16", "f16[2,9,9,7]", "kernel=3,stride=2,pad=1"},
    {"ceil", "f32[2,6,7,5]", "kernel=3,stride=2,pad=0x0x1x1"},
    {"padded on four sides", "f32[1,5,6,3]", "kernel=3x2,stride=2x1,pad=0x1x2x0"},
    {"a window of padding alone", "f32[2,4,4,3]", "kernel=2,pad=0x0x2x0", .flags = HRI_CASE_BAD},
    {"window too large", "f32[2,4,4,3]", "kernel=5", .flags = HRI_CASE_BAD},
    {"pad too large", "f32[2,4,4,3]", "kernel=2,pad=2", .flags = HRI_CASE_BAD},
    {"no kernel", "f32[2,4,4,3]", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_max_pool = {
    .name = "max_pool",
    .formula = "y = max of x over each window",
    .in_min = 1,
    .in_max = 1,
    .out_count = 2,
    .fields = max_pool_fields,
    .attr_bytes = sizeof(hri_pool_attr),
    .infer = max_pool_infer,
    .grad = max_pool_grad,
    .keeps = {{.out = 2}},
    .aux = 2,
    .cost = max_pool_cost,
    .host = {.run = max_pool_host},
    .cases = HRI_CASES(max_pool_cases),
};

const hri_kernel hri_kernel_cuda_max_pool = {.launch = hri_max_pool_cuda};
