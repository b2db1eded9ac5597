/* max_pool_i8(x; kernel, stride, pad): the largest byte of each window; scale and zero point stay those of x.
 *
 *   x u8 (N, H, W, C)   y u8 (N, OH, OW, C)
 *
 * Larger numbers are larger bytes, so nothing is rounded.  Padding never wins. */
#include "ops/common/launch.h"
#include "ops/common/pool.h"

static const hri_field max_pool_i8_fields[] = {HRI_POOL_FIELDS, {0}};

static int geometry(const void *attr, const hr_shape *x, hri_pooling *p) {
    return hri_pool_init(p, attr, x->dim[0], x->dim[1], x->dim[2], x->dim[3]);
}

static hr_status max_pool_i8_infer(hri_infer *c) {
    hri_pooling p;
    if (c->in[0].type != HR_TYPE_U8 || c->in[0].shape.rank != 4) {
        return hri_infer_fail(c, "the input must be u8, (N, H, W, C)");
    }
    if (geometry(c->attr, &c->in[0].shape, &p)) {
        return hri_infer_fail(c, "the window must lie inside the padded input, pad at most half "
                                 "the kernel");
    }
    c->out[0] = hri_pool_meta(HR_TYPE_U8, p.n, p.oh, p.ow, p.channels);
    return HR_OK;
}

typedef struct task {
    hri_pooling p;
    const uint8_t *x;
    uint8_t *y;
} task;

/* Range over rows of the result. */
static void pool_rows(void *arg, uint64_t begin, uint64_t end, uint32_t worker) {
    const task *t = arg;
    const hri_pooling *p = &t->p;
    (void)worker;
    for (int64_t r = (int64_t)begin; r < (int64_t)end; r++) {
        int64_t h0, h1, w0, w1;
        hri_pool_window(r % p->oh, p->kh, p->sh, p->ph, p->h, &h0, &h1);
        for (int64_t j = 0; j < p->ow; j++) {
            uint8_t *restrict to = t->y + (r * p->ow + j) * p->channels;
            hri_pool_window(j, p->kw, p->sw, p->pw, p->w, &w0, &w1);
            for (int64_t k = 0; k < p->channels; k++) {
                to[k] = 0;
            }
            for (int64_t h = h0; h < h1; h++) {
                for (int64_t w = w0; w < w1; w++) {
                    const uint8_t *x = t->x + ((r / p->oh * p->h + h) * p->w + w) * p->channels;
                    for (int64_t k = 0; k < p->channels; k++) {
                        to[k] = x[k] > to[k] ? x[k] : to[k];
                    }
                }
            }
        }
    }
}

static hr_status max_pool_i8_host(const hri_call *c) {
    task t = {.x = c->in[0], .y = c->out[0]};
    if (geometry(c->sig->attr, &c->sig->in[0].shape, &t.p)) {
        return HR_E_SHAPE;
    }
    hri_threads_range(c->threads, (uint64_t)(t.p.n * t.p.oh), hri_pool_chunk(t.p.ow * t.p.channels),
                      pool_rows, &t);
    return HR_OK;
}

static void max_pool_i8_cost(const hri_sig *s, hri_cost *cost) {
    const hri_pool_attr *a = s->attr;
    cost->flops = (double)(hri_pool_number(&a->kernel, 0, 1) * hri_pool_number(&a->kernel, 1, 1)) *
                  (double)hr_shape_count(&s->out[0].shape) / 4;
}

HRI_CU(bytes_i8);

static hr_status max_pool_i8_cuda(const hri_gpu_call *c) {
    hri_pooling p;
    if (geometry(c->sig->attr, &c->sig->in[0].shape, &p)) {
        return HR_E_SHAPE;
    }
    const int64_t count = hr_shape_count(&c->sig->out[0].shape);
    hr_addr x = c->in[0], y = c->out[0];
    return count
               ? hri_gpu_launch(c->gpu, &hri_cu_bytes_i8, "", "max_pool_i8",
                                &(hri_gpu_grid){.x = hri_launch_blocks(count, 256), .threads = 256},
                                HRI_GPU_ARGS(&x, &y, &p))
               : HR_OK;
}

static const hri_case max_pool_i8_cases[] = {
    {"resnet's", "u8[2,9,11,19]", "kernel=3,stride=2,pad=1", .ids = 256, .batched = 1},
    {"two by two", "u8[2,6,8,5]", "kernel=2", .ids = 256},
    {"rectangle", "u8[1,7,9,3]", "kernel=2x3,stride=1x2,pad=1x0", .ids = 256},
    {"ceil", "u8[2,6,7,5]", "kernel=3,stride=2,pad=0x0x1x1", .ids = 256},
    {"no samples", "u8[0,4,4,3]", "kernel=2"},
    {"window too large", "u8[2,4,4,3]", "kernel=5", .flags = HRI_CASE_BAD},
    {"real", "f32[2,4,4,3]", "kernel=2", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_max_pool_i8 = {
    .name = "max_pool_i8",
    .formula = "y = max of x over each window, bytes",
    .in_min = 1,
    .in_max = 1,
    .out_count = 1,
    .fields = max_pool_i8_fields,
    .attr_bytes = sizeof(hri_pool_attr),
    .infer = max_pool_i8_infer,
    .cost = max_pool_i8_cost,
    .host = {.run = max_pool_i8_host},
    .cases = HRI_CASES(max_pool_i8_cases),
};

const hri_kernel hri_kernel_cuda_max_pool_i8 = {.launch = max_pool_i8_cuda};
