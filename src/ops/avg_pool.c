/* avg_pool(x; kernel, stride, pad, without-pad): the mean of each window.
 *
 *   x (N, H, W, C)   y (N, OH, OW, C)
 *
 * Padding counts as zeros in the mean, as torch's default has it; with `without-pad` a window is divided by the places
 * of it that lie inside.  The gradient keeps nothing. */
#include "ops/common/pool.h"

static const hri_field avg_pool_fields[] = {
    HRI_POOL_FIELDS,
    {"without-pad", "exclude padding from the average", offsetof(hri_pool_attr, without_pad),
     HRI_FIELD_BOOL, NULL},
    {0},
};

static hr_status avg_pool_infer(hri_infer *c) {
    const hr_shape *x = &c->in[0].shape;
    hri_pooling p;
    if (!hr_type_is_real(c->in[0].type) || x->rank != 4) {
        return hri_infer_fail(c, "the input must be floating point, (N, H, W, C)");
    }
    if (hri_pool_init(&p, c->attr, x->dim[0], x->dim[1], x->dim[2], x->dim[3])) {
        return hri_infer_fail(c, "the window must lie inside the padded input, pad at most half "
                                 "the kernel");
    }
    c->out[0] = hri_pool_meta(c->in[0].type, p.n, p.oh, p.ow, p.channels);
    return HR_OK;
}

static void avg_pool_grad(hri_grad *c) {
    hri_pool_attr attr = *(const hri_pool_attr *)c->sig->attr;
    attr.height = c->sig->in[0].shape.dim[1];
    attr.width = c->sig->in[0].shape.dim[2];
    c->din[0] = HRI_NODE(c->g, "avg_pool_grad", &attr, c->dout[0]);
}

typedef struct task {
    const hri_call *c;
    hri_pooling p;
    int without_pad;
} task;

static void pool_pixel(const task *t, int64_t b, int64_t i, int64_t j, int64_t c0, int64_t n) {
    const hri_pooling *p = &t->p;
    const hri_call *c = t->c;
    const hr_type type = c->sig->in[0].type;
    const int64_t to = ((b * p->oh + i) * p->ow + j) * p->channels + c0;
    int64_t h0, h1, w0, w1;
    float room[HRI_BLOCK], sum[HRI_BLOCK];
    memset(sum, 0, (size_t)n * sizeof *sum);
    hri_pool_window(i, p->kh, p->sh, p->ph, p->h, &h0, &h1);
    hri_pool_window(j, p->kw, p->sw, p->pw, p->w, &w0, &w1);
    for (int64_t h = h0; h < h1; h++) {
        for (int64_t w = w0; w < w1; w++) {
            const float *x = hri_block_in(type, c->in[0],
                                          ((b * p->h + h) * p->w + w) * p->channels + c0, n, room);
            for (int64_t k = 0; k < n; k++) {
                sum[k] += x[k];
            }
        }
    }
    const float places = (float)(t->without_pad ? (h1 - h0) * (w1 - w0) : p->kh * p->kw);
    float *y = hri_block_out(type, c->out[0], to, room);
    for (int64_t k = 0; k < n; k++) {
        y[k] = sum[k] / places;
    }
    hri_block_put(type, c->out[0], to, n, y);
}

static void avg_pool_rows(void *arg, uint64_t begin, uint64_t end, uint32_t worker) {
    const task *t = arg;
    (void)worker;
    for (int64_t r = (int64_t)begin; r < (int64_t)end; r++) {
        for (int64_t j = 0; j < t->p.ow; j++) {
            for (int64_t c0 = 0; c0 < t->p.channels; c0 += HRI_BLOCK) {
                pool_pixel(t, r / t->p.oh, r % t->p.oh, j, c0,
                           hri_min64(HRI_BLOCK, t->p.channels - c0));
            }
        }
    }
}

static hr_status avg_pool_host(const hri_call *c) {
    const hri_pool_attr *a = c->sig->attr;
    const hr_shape *x = &c->sig->in[0].shape;
    task t = {.c = c, .without_pad = a->without_pad};
    if (hri_pool_init(&t.p, a, x->dim[0], x->dim[1], x->dim[2], x->dim[3])) {
        return HR_E_SHAPE;
    }
    hri_threads_range(c->threads, (uint64_t)(t.p.n * t.p.oh), hri_pool_chunk(t.p.ow * t.p.channels),
                      avg_pool_rows, &t);
    return HR_OK;
}

static void avg_pool_cost(const hri_sig *s, hri_cost *cost) {
    const hri_pool_attr *a = s->attr;
    const double places =
        (double)(hri_pool_number(&a->kernel, 0, 1) * hri_pool_number(&a->kernel, 1, 1));
    cost->flops = places * (double)hr_shape_count(&s->out[0].shape);
}

static const hri_case avg_pool_cases[] = {
    {"padded", "f32[2,9,11,19]", "kernel=3,stride=2,pad=1", .batched = 1},
    {"without pad", "f32[2,9,11,5]", "kernel=3,stride=2,pad=1,without-pad"},
    {"two by two", "f32[2,6,8,300]", "kernel=2"},
    {"rectangle", "f32[1,7,9,3]", "kernel=2x3,stride=1x2,pad=1x0"},
    {"one place", "f32[3,4,4,1]", "kernel=1"},
    {"no samples", "f32[0,4,4,3]", "kernel=2"},
    {"bf16", "bf16[2,9,9,7]", "kernel=3,stride=2,pad=1"},
    {"a long row", "f32[1,1,262149,1]", "kernel=1x3,pad=0x1", .flags = HRI_CASE_NO_GRAD},
    {"f16", "f16[2,9,9,7]", "kernel=3,stride=2,pad=1"},
    {"ceil", "f32[2,6,7,5]", "kernel=3,stride=2,pad=0x0x1x1,without-pad=true"},
    {"padded on four sides", "f32[1,5,6,3]", "kernel=3x2,stride=2x1,pad=0x1x2x0"},
    {"a window of padding alone", "f32[2,4,4,3]", "kernel=2,pad=0x0x2x0", .flags = HRI_CASE_BAD},
    {"window too large", "f32[2,4,4,3]", "kernel=5", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_avg_pool = {
    .name = "avg_pool",
    .formula = "y = mean of x over each window",
    .in_min = 1,
    .in_max = 1,
    .out_count = 1,
    .fields = avg_pool_fields,
    .attr_bytes = sizeof(hri_pool_attr),
    .infer = avg_pool_infer,
    .grad = avg_pool_grad,
    .cost = avg_pool_cost,
    .host = {.run = avg_pool_host},
    .cases = HRI_CASES(avg_pool_cases),
};

const hri_kernel hri_kernel_cuda_avg_pool = {.launch = hri_avg_pool_cuda};
