/* cross_entropy_soft_grad(dloss, x, t, lse; smoothing, sum): the gradient of cross_entropy_soft for its scores.
 *
 *   dx = scale * (exp(x - lse) * sum_c t'_c - t'),   scale = dloss / rows,   t' = (1 - s) t + s / C
 *
 * May lie over x or t: a row is read for its sum before it is written. */
#include "ops/common/blocks.h"
#include "ops/common/row_loss_cuda.h"
#include "ops/common/vmath.h"

typedef struct cross_entropy_attr {
    double smoothing;
    bool sum;
} cross_entropy_attr;

static const hri_field cross_entropy_soft_grad_fields[] = {
    {"smoothing", "label smoothing", offsetof(cross_entropy_attr, smoothing), HRI_FIELD_DOUBLE, "0",
     .min = 0, .max = 1},
    {"sum", "the rows were added", offsetof(cross_entropy_attr, sum), HRI_FIELD_BOOL, NULL},
    {0},
};

static hr_status cross_entropy_soft_grad_infer(hri_infer *c) {
    hr_shape rows = c->in[1].shape;
    if (c->in[0].type != HR_TYPE_F32 || c->in[0].shape.rank != 0) {
        return hri_infer_fail(c, "the gradient of the loss must be a scalar f32");
    }
    if (!hr_type_is_real(c->in[1].type) || c->in[1].type != c->in[2].type || rows.rank < 1 ||
        !hr_shape_same(&rows, &c->in[2].shape)) {
        return hri_infer_fail(
            c, "scores and targets must have the same floating-point type and shape, (..., C)");
    }
    rows.dim[--rows.rank] = 0;
    if (c->in[3].type != HR_TYPE_F32 || !hr_shape_same(&rows, &c->in[3].shape)) {
        return hri_infer_fail(c, "lse must be f32, one per row");
    }
    c->out[0] = c->in[1];
    return HR_OK;
}

static void cross_entropy_soft_grad_rows(void *arg, uint64_t begin, uint64_t end, uint32_t worker) {
    const hri_call *c = arg;
    const cross_entropy_attr *p = c->sig->attr;
    const hr_shape *s = &c->sig->in[1].shape;
    const hr_type type = c->sig->in[1].type;
    const int64_t width = s->dim[s->rank - 1];
    const double rows = p->sum ? 1.0 : (double)hr_shape_count(&c->sig->in[3].shape);
    const float scale = (float)((double)*(const float *)c->in[0] / rows);
    const float even = (float)(p->smoothing / (double)width), own = (float)(1.0 - p->smoothing);
    (void)worker;
    for (int64_t i = (int64_t)begin; i < (int64_t)end; i++) {
        const float lse = ((const float *)c->in[3])[i];
        float room[3][HRI_BLOCK];
        double total = 0.0;
        for (int64_t k0 = 0; k0 < width; k0 += HRI_BLOCK) {
            const int64_t n = hri_min64(HRI_BLOCK, width - k0);
            const float *t = hri_block_in(type, c->in[2], i * width + k0, n, room[0]);
            float lanes[HRI_LANES] = {0};
            HRI_LANES_ADD(lanes, n, own * t[k] + even);
            total += (double)hri_lanes_sum(lanes);
        }
        const float weight = (float)total;
        for (int64_t k0 = 0; k0 < width; k0 += HRI_BLOCK) {
            const int64_t n = hri_min64(HRI_BLOCK, width - k0), at = i * width + k0;
            const float *x = hri_block_in(type, c->in[1], at, n, room[0]);
            const float *t = hri_block_in(type, c->in[2], at, n, room[1]);
            float *dx = hri_block_out(type, c->out[0], at, room[2]);
            HRI_IVDEP for (int64_t k = 0; k < n; k++) {
                dx[k] = scale * (hri_exp(x[k] - lse) * weight - (own * t[k] + even));
            }
            hri_block_put(type, c->out[0], at, n, dx);
        }
    }
}

static hr_status cross_entropy_soft_grad_host(const hri_call *c) {
    const hr_shape *s = &c->sig->in[1].shape;
    hri_call call = *c;
    hri_threads_range(c->threads, (uint64_t)hr_shape_count(&c->sig->in[3].shape),
                      (uint64_t)(8192 / (s->dim[s->rank - 1] + 1) + 1),
                      cross_entropy_soft_grad_rows, &call);
    return HR_OK;
}

static hr_status cross_entropy_soft_grad_cuda(const hri_gpu_call *c) {
    const cross_entropy_attr *p = c->sig->attr;
    const hr_shape *shape = &c->sig->in[1].shape;
    const hri_row_loss r = hri_row_loss_of(&c->sig->in[1], c->in[1] | c->in[2] | c->out[0]);
    int64_t rows = hr_shape_count(&c->sig->in[3].shape), width = shape->dim[shape->rank - 1];
    hr_addr dloss = c->in[0], x = c->in[1], t = c->in[2], lse = c->in[3], dx = c->out[0];
    float smoothing = (float)p->smoothing;
    uint32_t add = p->sum;
    return hri_gpu_launch(c->gpu, &hri_cu_cross_entropy, r.defines.text, "grad_of_targets", &r.grid,
                          HRI_GPU_ARGS(&dloss, &x, &t, &lse, &dx, &rows, &width, &smoothing, &add));
}

/* The scale of a mean knows how many rows there are. */
static hri_samples cross_entropy_soft_grad_samples(const hri_sig *s, uint32_t batched) {
    (void)batched;
    return ((const cross_entropy_attr *)s->attr)->sum ? HRI_SAMPLES_APART : HRI_SAMPLES_MEAN;
}

static void cross_entropy_soft_grad_cost(const hri_sig *s, hri_cost *cost) {
    cost->flops = 10.0 * (double)hr_shape_count(&s->in[1].shape);
}

static const hri_case cross_entropy_soft_grad_cases[] = {
    {"odd", "f32[] f32[7,33] f32[7,33] f32[7]"},
    {"smoothing", "f32[] f32[5,10] f32[5,10] f32[5]", "smoothing=0.1,sum", .batched = 14},
    {"many classes", "f32[] f32[3,1003] f32[3,1003] f32[3]"},
    {"no rows", "f32[] f32[0,10] f32[0,10] f32[0]"},
    {"bf16", "f32[] bf16[7,10] bf16[7,10] f32[7]"},
    {"f16", "f32[] f16[7,10] f16[7,10] f32[7]"},
    {"many classes, bf16", "f32[] bf16[3,2051] bf16[3,2051] f32[3]"},
    {"many classes, f16", "f32[] f16[3,1032] f16[3,1032] f32[3]", "smoothing=0.1"},
    {"too few rows", "f32[] f32[7,10] f32[7,10] f32[6]", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_cross_entropy_soft_grad = {
    .name = "cross_entropy_soft_grad",
    .formula = "dx = dloss / n * (softmax(x) sum(t) - t)",
    .in_min = 4,
    .in_max = 4,
    .out_count = 1,
    .fields = cross_entropy_soft_grad_fields,
    .attr_bytes = sizeof(cross_entropy_attr),
    .infer = cross_entropy_soft_grad_infer,
    .overwrite = {6},
    .samples = cross_entropy_soft_grad_samples,
    .cost = cross_entropy_soft_grad_cost,
    .host = {.run = cross_entropy_soft_grad_host},
    .cases = HRI_CASES(cross_entropy_soft_grad_cases),
};

const hri_kernel hri_kernel_cuda_cross_entropy_soft_grad = {.launch = cross_entropy_soft_grad_cuda};
