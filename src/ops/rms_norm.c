/* rms_norm(x, gamma; eps): divides each row along the last dimension by its root mean square.
 *
 *   x (..., D)   gamma (D)   y like x   inv (...) f32
 *   y = x * inv * gamma,   inv = 1 / sqrt(mean(x^2) + eps)
 *
 * The gradient keeps x and one number a row. */
#include "ops/common/norm.h"

static const hri_field rms_norm_fields[] = {HRI_NORM_EPS, {0}};

static hr_status rms_norm_infer(hri_infer *c) {
    hr_shape rows = c->in[0].shape;
    if (!hr_type_is_real(c->in[0].type) || rows.rank < 1 || rows.dim[rows.rank - 1] < 1) {
        return hri_infer_fail(c, "the input must be floating point, (..., D), D at least 1");
    }
    rows.dim[--rows.rank] = 0;
    return hri_norm_infer(c, &rows, 1);
}

static void rms_norm_grad(hri_grad *c) {
    hri_norm_set_grads(
        c, HRI_NODE(c->g, "rms_norm_grad", NULL, c->dout[0], c->in[0], c->in[1], c->out[1]));
}

static hr_status rms_norm_host(const hri_call *c) {
    const hri_norm v = hri_norm_rows(&c->sig->in[0].shape, 1);
    hri_norm_run(&v, c, ((const hri_norm_attr *)c->sig->attr)->eps);
    return HR_OK;
}

static hr_status rms_norm_cuda(const hri_gpu_call *c) {
    const hri_norm v = hri_norm_rows(&c->sig->in[0].shape, 1);
    return hri_norm_cuda(&v, c, ((const hri_norm_attr *)c->sig->attr)->eps);
}

static const hri_case rms_norm_cases[] = {
    {"odd", "f32[7,33] f32[33]", .batched = 1},
    {"wide", "f32[3,5,770] f32[770]"},
    {"one wide", "f32[4,1] f32[1]", "eps=0.1"},
    {"one row", "f32[19] f32[19]"},
    {"no rows", "f32[0,5] f32[5]"},
    {"bf16", "bf16[7,33] f32[33]"},
    {"f16", "f16[7,33] f16[33]"},
    {"gamma of another width", "f32[7,33] f32[32]", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_rms_norm = {
    .name = "rms_norm",
    .formula = "y = x / sqrt(mean(x^2) + eps) * gamma, by row",
    .in_min = 2,
    .in_max = 2,
    .out_count = 2,
    .fields = rms_norm_fields,
    .attr_bytes = sizeof(hri_norm_attr),
    .infer = rms_norm_infer,
    .grad = rms_norm_grad,
    .keeps = {{.in = 3, .out = 2}, {.in = 3, .out = 2}},
    .aux = 2,
    .overwrite = {1},
    .cost = hri_norm_cost,
    .host = {.run = rms_norm_host},
    .cases = HRI_CASES(rms_norm_cases),
};

static hr_status rms_norm_sum_cuda(const hri_gpu_call *c, hr_addr a, hr_addr b) {
    const hri_norm v = hri_norm_rows(&c->sig->in[0].shape, 1);
    return hri_norm_sum_cuda(&v, c, ((const hri_norm_attr *)c->sig->attr)->eps, a, b);
}

const hri_kernel hri_kernel_cuda_rms_norm = {.launch = rms_norm_cuda,
                                             .launch_sum = rms_norm_sum_cuda};
