/* cross_entropy_soft(x, t; smoothing, sum): cross entropy of scores with probabilities as targets.
 *
 *   x, t (..., C)   loss ()   lse (...) f32
 *   loss = mean over rows of sum_c t'_c (lse - x_c),   t' = (1 - s) t + s / C
 *
 * The targets of a row need not add up to 1.  With `sum` the rows are added, not averaged.  The gradient keeps x, t and
 * one number a row, and may lie over x; none flows to the targets. */
#include "ops/common/blocks.h"
#include "ops/common/row_loss_cuda.h"
#include "ops/common/vmath.h"

#include <math.h>

typedef struct cross_entropy_attr {
    double smoothing;
    bool sum;
} cross_entropy_attr;

static const hri_field cross_entropy_soft_fields[] = {
    {"smoothing", "label smoothing", offsetof(cross_entropy_attr, smoothing), HRI_FIELD_DOUBLE, "0",
     .min = 0, .max = 1},
    {"sum", "add the rows instead of averaging", offsetof(cross_entropy_attr, sum), HRI_FIELD_BOOL,
     NULL},
    {0},
};

static hr_status cross_entropy_soft_infer(hri_infer *c) {
    hr_shape rows = c->in[0].shape;
    if (!hr_type_is_real(c->in[0].type) || c->in[0].type != c->in[1].type || rows.rank < 1 ||
        !hr_shape_same(&rows, &c->in[1].shape)) {
        return hri_infer_fail(
            c, "scores and targets must have the same floating-point type and shape, (..., C)");
    }
    if (rows.dim[rows.rank - 1] < 1) {
        return hri_infer_fail(c, "there are no classes");
    }
    rows.dim[--rows.rank] = 0;
    c->out[0] = (hr_meta){.type = HR_TYPE_F32};
    c->out[1] = (hr_meta){HR_TYPE_F32, rows};
    return HR_OK;
}

static void cross_entropy_soft_grad(hri_grad *c) {
    if (HRI_NEEDS(c, 0)) {
        c->din[0] = HRI_NODE(c->g, "cross_entropy_soft_grad", c->sig->attr, c->dout[0], c->in[0],
                             c->in[1], c->out[1]);
    }
}

static hri_samples cross_entropy_soft_samples(const hri_sig *s, uint32_t batched) {
    const cross_entropy_attr *p = s->attr;
    return !batched ? HRI_SAMPLES_APART : p->sum ? HRI_SAMPLES_SUM : HRI_SAMPLES_MEAN;
}

static void cross_entropy_soft_cost(const hri_sig *s, hri_cost *cost) {
    cost->flops = 10.0 * (double)hr_shape_count(&s->in[0].shape);
}

/* A loss for each row, added up in order afterwards. */
static uint64_t cross_entropy_soft_workspace(const hri_sig *s, uint32_t threads) {
    (void)threads;
    return (uint64_t)hr_shape_count(&s->out[1].shape) * sizeof(double);
}

static double row_loss(const hri_call *c, int64_t row, int64_t width) {
    const hr_type type = c->sig->in[0].type;
    const float even =
        (float)(((const cross_entropy_attr *)c->sig->attr)->smoothing / (double)width);
    const float own = (float)(1.0 - ((const cross_entropy_attr *)c->sig->attr)->smoothing);
    float room[2][HRI_BLOCK], most = -INFINITY;
    double sum = 0.0, weights = 0.0, product = 0.0;
    for (int64_t k0 = 0; k0 < width; k0 += HRI_BLOCK) {
        const int64_t n = hri_min64(HRI_BLOCK, width - k0);
        const float *x = hri_block_in(type, c->in[0], row * width + k0, n, room[0]);
        most = hri_block_max(x, n, most);
    }
    for (int64_t k0 = 0; k0 < width; k0 += HRI_BLOCK) {
        const int64_t n = hri_min64(HRI_BLOCK, width - k0);
        const float *x = hri_block_in(type, c->in[0], row * width + k0, n, room[0]);
        const float *t = hri_block_in(type, c->in[1], row * width + k0, n, room[1]);
        float exps[HRI_LANES] = {0}, targets[HRI_LANES] = {0}, products[HRI_LANES] = {0};
        HRI_LANES_ADD(exps, n, hri_exp(x[k] - most));
        HRI_LANES_ADD(targets, n, own * t[k] + even);
        HRI_LANES_ADD(products, n, (own * t[k] + even) * (x[k] - most));
        sum += (double)hri_lanes_sum(exps);
        weights += (double)hri_lanes_sum(targets);
        product += (double)hri_lanes_sum(products);
    }
    ((float *)c->out[1])[row] = (float)((double)most + log(sum));
    return weights * log(sum) - product;
}

static void cross_entropy_soft_rows(void *arg, uint64_t begin, uint64_t end, uint32_t worker) {
    const hri_call *c = arg;
    const hr_shape *x = &c->sig->in[0].shape;
    (void)worker;
    for (int64_t i = (int64_t)begin; i < (int64_t)end; i++) {
        ((double *)c->workspace)[i] = row_loss(c, i, x->dim[x->rank - 1]);
    }
}

static hr_status cross_entropy_soft_host(const hri_call *c) {
    const cross_entropy_attr *p = c->sig->attr;
    const hr_shape *x = &c->sig->in[0].shape;
    const int64_t rows = hr_shape_count(&c->sig->out[1].shape);
    hri_call call = *c;
    hri_threads_range(c->threads, (uint64_t)rows, (uint64_t)(8192 / x->dim[x->rank - 1] + 1),
                      cross_entropy_soft_rows, &call);
    const double sum = rows ? hri_sum(c->workspace, (size_t)rows) : 0.0;
    *(float *)c->out[0] = (float)(p->sum || !rows ? sum : sum / (double)rows);
    return HR_OK;
}

static uint64_t cross_entropy_soft_cuda_workspace(const hri_sig *s, hri_gpu *gpu,
                                                  uint32_t variant) {
    (void)gpu;
    (void)variant;
    return (uint64_t)hr_shape_count(&s->out[1].shape) * sizeof(float);
}

static hr_status cross_entropy_soft_cuda(const hri_gpu_call *c) {
    const cross_entropy_attr *p = c->sig->attr;
    const hr_shape *shape = &c->sig->in[0].shape;
    const hri_row_loss r = hri_row_loss_of(&c->sig->in[0], c->in[0] | c->in[1]);
    int64_t rows = hr_shape_count(&c->sig->out[1].shape), width = shape->dim[shape->rank - 1];
    hr_addr x = c->in[0], t = c->in[1], loss = c->out[0], lse = c->out[1], each = c->workspace;
    float smoothing = (float)p->smoothing;
    uint32_t add = p->sum;
    const hr_status status =
        hri_gpu_launch(c->gpu, &hri_cu_cross_entropy, r.defines.text, "rows_of_targets", &r.grid,
                       HRI_GPU_ARGS(&x, &t, &lse, &each, &rows, &width, &smoothing));
    return status != HR_OK
               ? status
               : hri_gpu_launch(c->gpu, &hri_cu_cross_entropy, r.defines.text, "finish_targets",
                                &r.one, HRI_GPU_ARGS(&each, &loss, &rows, &add));
}

static const hri_case cross_entropy_soft_cases[] = {
    {"odd", "f32[7,33] f32[7,33]", .low = 0, .high = 1, .batched = 3},
    {"smoothing", "f32[5,10] f32[5,10]", "smoothing=0.1", .low = 0, .high = 1},
    {"sum over a sequence", "f32[2,3,10] f32[2,3,10]", "sum", .low = 0, .high = 1, .batched = 3},
    {"many classes", "f32[3,1003] f32[3,1003]", .low = 0, .high = 1, .flags = HRI_CASE_NO_GRAD},
    {"one class", "f32[3,1] f32[3,1]", .low = 0, .high = 1},
    {"no rows", "f32[0,10] f32[0,10]"},
    {"bf16", "bf16[7,10] bf16[7,10]", .low = 0, .high = 1},
    {"f16", "f16[7,10] f16[7,10]", .low = 0, .high = 1},
    {"many classes, bf16", "bf16[3,2051] bf16[3,2051]", .low = 0, .high = 1},
    {"many classes, f16", "f16[3,1032] f16[3,1032]", "smoothing=0.1", .low = 0, .high = 1},
    {"two shapes", "f32[7,10] f32[6,10]", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_cross_entropy_soft = {
    .name = "cross_entropy_soft",
    .formula = "loss = mean(sum t (logsumexp(x) - x))",
    .in_min = 2,
    .in_max = 2,
    .out_count = 2,
    .fields = cross_entropy_soft_fields,
    .attr_bytes = sizeof(cross_entropy_attr),
    .infer = cross_entropy_soft_infer,
    .grad = cross_entropy_soft_grad,
    .no_grad = 2,
    .keeps = {{.in = 3, .out = 2}, {.in = 0}},
    .aux = 2,
    .samples = cross_entropy_soft_samples,
    .cost = cross_entropy_soft_cost,
    .host = {.run = cross_entropy_soft_host, .workspace = cross_entropy_soft_workspace},
    .cases = HRI_CASES(cross_entropy_soft_cases),
};

const hri_kernel hri_kernel_cuda_cross_entropy_soft = {
    .launch = cross_entropy_soft_cuda,
    .launch_workspace = cross_entropy_soft_cuda_workspace,
};
