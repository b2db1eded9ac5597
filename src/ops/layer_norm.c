/* layer_norm(x, gamma, beta; eps): normalises each row along the last dimension.
 *
 *   x (..., D)   gamma, beta (D)   y like x   mean, inv (...) f32
 *   y = (x - mean) * inv * gamma + beta,   inv = 1 / sqrt(var + eps)
 *
 * The gradient keeps x and two numbers a row. */
#include "ops/common/norm.h"

static const hri_field layer_norm_fields[] = {HRI_NORM_EPS, {0}};

static hr_status layer_norm_infer(hri_infer *c) {
    hr_shape rows = c->in[0].shape;
    if (!hr_type_is_real(c->in[0].type) || rows.rank < 1 || rows.dim[rows.rank - 1] < 1) {
        return hri_infer_fail(c, "the input must be floating point, (..., D), D at least 1");
    }
    rows.dim[--rows.rank] = 0;
    return hri_norm_infer(c, &rows, 0);
}

static void layer_norm_grad(hri_grad *c) {
    hri_norm_set_grads(c, HRI_NODE(c->g, "layer_norm_grad", NULL, c->dout[0], c->in[0], c->in[1],
                                   c->out[1], c->out[2]));
}

static hr_status layer_norm_host(const hri_call *c) {
    const hri_norm v = hri_norm_rows(&c->sig->in[0].shape, 0);
    hri_norm_run(&v, c, ((const hri_norm_attr *)c->sig->attr)->eps);
    return HR_OK;
}

static hr_status layer_norm_cuda(const hri_gpu_call *c) {
    const hri_norm v = hri_norm_rows(&c->sig->in[0].shape, 0);
    return hri_norm_cuda(&v, c, ((const hri_norm_attr *)c->sig->attr)->eps);
}

static const hri_case layer_norm_cases[] = {
    {"odd", "f32[7,33] f32[33] f32[33]", .batched = 1},
    {"wide", "f32[3,5,770] f32[770] f32[770]"},
    {"one wide", "f32[4,1] f32[1] f32[1]", "eps=0.1"},
    {"one row", "f32[19] f32[19] f32[19]"},
    {"far from zero", "f32[5,40] f32[40] f32[40]", .low = 1000, .high = 1001, .tolerance = 1e-2,
     .flags = HRI_CASE_NO_GRAD},
    {"no rows", "f32[0,5] f32[5] f32[5]"},
    {"bf16", "bf16[7,33] f32[33] f32[33]"},
    {"f16", "f16[7,33] f16[33] f16[33]"},
    {"bf16 in packs", "bf16[19,768] f32[768] bf16[768]"},
    {"wider than a warp's registers", "f32[3,3000] f32[3000] f32[3000]", .flags = HRI_CASE_NO_GRAD},
    {"wider than a block's registers", "f16[2,9001] f32[9001] f32[9001]",
     .flags = HRI_CASE_NO_GRAD},
    {"gamma of another width", "f32[7,33] f32[32] f32[33]", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_layer_norm = {
    .name = "layer_norm",
    .formula = "y = (x - mean) / sqrt(var + eps) * gamma + beta, by row",
    .in_min = 3,
    .in_max = 3,
    .out_count = 3,
    .fields = layer_norm_fields,
    .attr_bytes = sizeof(hri_norm_attr),
    .infer = layer_norm_infer,
    .grad = layer_norm_grad,
    .keeps = {{.in = 3, .out = 6}, {.in = 3, .out = 6}, {.in = 3, .out = 6}},
    .aux = 6,
    .overwrite = {1},
    .cost = hri_norm_cost,
    .host = {.run = layer_norm_host},
    .cases = HRI_CASES(layer_norm_cases),
};

static hr_status layer_norm_sum_cuda(const hri_gpu_call *c, hr_addr a, hr_addr b) {
    const hri_norm v = hri_norm_rows(&c->sig->in[0].shape, 0);
    return hri_norm_sum_cuda(&v, c, ((const hri_norm_attr *)c->sig->attr)->eps, a, b);
}

const hri_kernel hri_kernel_cuda_layer_norm = {.launch = layer_norm_cuda,
                                               .launch_sum = layer_norm_sum_cuda};
