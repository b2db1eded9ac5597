/* avg_pool_grad(dy; kernel, stride, pad, without-pad, height, width): each place of x gets its share of the windows that
 * hold it.
 *
 *   dy (N, OH, OW, C)   dx (N, height, width, C) */
#include "ops/common/pool.h"

static const hri_field avg_pool_grad_fields[] = {
    HRI_POOL_FIELDS,
    HRI_POOL_GRAD_FIELDS,
    {"without-pad", "exclude padding from the average", offsetof(hri_pool_attr, without_pad),
     HRI_FIELD_BOOL, NULL},
    {0},
};

static hr_status avg_pool_grad_infer(hri_infer *c) {
    const hri_pool_attr *a = c->attr;
    const hr_shape *dy = &c->in[0].shape;
    hri_pooling p;
    if (!hr_type_is_real(c->in[0].type) || dy->rank != 4) {
        return hri_infer_fail(c, "expected dy (N, OH, OW, C), floating point");
    }
    if (hri_pool_init(&p, a, dy->dim[0], a->height, a->width, dy->dim[3]) || p.oh != dy->dim[1] ||
        p.ow != dy->dim[2]) {
        return hri_infer_fail(c, "the windows do not give dy's height and width");
    }
    c->out[0] = hri_pool_meta(c->in[0].type, p.n, p.h, p.w, p.channels);
    return HR_OK;
}

typedef struct task {
    const hri_call *c;
    hri_pooling p;
    int without_pad;
} task;

static float share(const task *t, int64_t i, int64_t j) {
    const hri_pooling *p = &t->p;
    int64_t h0, h1, w0, w1;
    hri_pool_window(i, p->kh, p->sh, p->ph, p->h, &h0, &h1);
    hri_pool_window(j, p->kw, p->sw, p->pw, p->w, &w0, &w1);
    return 1.0f / (float)(t->without_pad ? (h1 - h0) * (w1 - w0) : p->kh * p->kw);
}

static void grad_pixel(const task *t, int64_t b, int64_t h, int64_t w, int64_t c0, int64_t n) {
    const hri_pooling *p = &t->p;
    const hri_call *c = t->c;
    const hr_type type = c->sig->in[0].type;
    const int64_t to = ((b * p->h + h) * p->w + w) * p->channels + c0;
    int64_t i0, i1, j0, j1;
    float room[HRI_BLOCK], sum[HRI_BLOCK];
    memset(sum, 0, (size_t)n * sizeof *sum);
    hri_pool_owners(h, p->kh, p->sh, p->ph, p->oh, &i0, &i1);
    hri_pool_owners(w, p->kw, p->sw, p->pw, p->ow, &j0, &j1);
    for (int64_t i = i0; i < i1; i++) {
        for (int64_t j = j0; j < j1; j++) {
            const float scale = share(t, i, j);
            const float *dy = hri_block_in(
                type, c->in[0], ((b * p->oh + i) * p->ow + j) * p->channels + c0, n, room);
            for (int64_t k = 0; k < n; k++) {
                sum[k] += dy[k] * scale;
            }
        }
    }
    float *dx = hri_block_out(type, c->out[0], to, room);
    memcpy(dx, sum, (size_t)n * sizeof *dx);
    hri_block_put(type, c->out[0], to, n, dx);
}

static void avg_pool_grad_rows(void *arg, uint64_t begin, uint64_t end, uint32_t worker) {
    const task *t = arg;
    (void)worker;
    for (int64_t r = (int64_t)begin; r < (int64_t)end; r++) {
        const int64_t b = r / t->p.h, h = r % t->p.h;
        for (int64_t w = 0; w < t->p.w; w++) {
            for (int64_t c0 = 0; c0 < t->p.channels; c0 += HRI_BLOCK) {
                grad_pixel(t, b, h, w, c0, hri_min64(HRI_BLOCK, t->p.channels - c0));
            }
        }
    }
}

static hr_status avg_pool_grad_host(const hri_call *c) {
    const hri_pool_attr *a = c->sig->attr;
    const hr_shape *dx = &c->sig->out[0].shape;
    task t = {.c = c, .without_pad = a->without_pad};
    if (hri_pool_init(&t.p, a, dx->dim[0], dx->dim[1], dx->dim[2], dx->dim[3])) {
        return HR_E_SHAPE;
    }
    hri_threads_range(c->threads, (uint64_t)(t.p.n * t.p.h), hri_pool_chunk(t.p.w * t.p.channels),
                      avg_pool_grad_rows, &t);
    return HR_OK;
}

static void avg_pool_grad_cost(const hri_sig *s, hri_cost *cost) {
    cost->flops = 4.0 * (double)hr_shape_count(&s->out[0].shape);
}

static const hri_case avg_pool_grad_cases[] = {
    {"padded", "f32[2,5,6,19]", "kernel=3,stride=2,pad=1,height=9,width=11", .batched = 1},
    {"without pad", "f32[2,5,6,19]", "kernel=3,stride=2,pad=1,height=9,width=11,without-pad"},
    {"rectangle", "f32[1,8,4,3]", "kernel=2x3,stride=1x2,pad=1x0,height=7,width=9"},
    {"wide", "f32[1,2,2,300]", "kernel=2,height=5,width=4"},
    {"no samples", "f32[0,2,2,3]", "kernel=2,height=4,width=4"},
    {"bf16", "bf16[2,5,5,7]", "kernel=3,stride=2,pad=1,height=9,width=9"},
    {"f16", "f16[2,5,5,7]", "kernel=3,stride=2,pad=1,height=9,width=9"},
    {"another height", "f32[2,5,5,7]", "kernel=3,stride=2,pad=1,height=12,width=9",
     .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_avg_pool_grad = {
    .name = "avg_pool_grad",
    .formula = "dx = sum of dy / places over the windows that hold x",
    .in_min = 1,
    .in_max = 1,
    .out_count = 1,
    .fields = avg_pool_grad_fields,
    .attr_bytes = sizeof(hri_pool_attr),
    .infer = avg_pool_grad_infer,
    .cost = avg_pool_grad_cost,
    .host = {.run = avg_pool_grad_host},
    .cases = HRI_CASES(avg_pool_grad_cases),
};

const hri_kernel hri_kernel_cuda_avg_pool_grad = {.launch = hri_avg_pool_grad_cuda};
