/* batch_norm_add_relu_grad(dy, x, gamma, mean, inv, y) -> dx, dgamma, dbeta, dz: as batch_norm_grad, with dy let through
 * where y is positive; dz is what was let through.  dx may lie over x, dz over dy or y. */
#include "ops/common/batch_norm.h"

static hr_status batch_norm_add_relu_grad_infer(hri_infer *c) {
    if (c->in[5].type != c->in[1].type || !hr_shape_same(&c->in[5].shape, &c->in[1].shape)) {
        return hri_infer_fail(c, "y must have the type and shape of x");
    }
    const hr_status status = hri_batch_norm_grad_infer(c);
    c->out[3] = c->in[1];
    return status;
}

static hr_status batch_norm_add_relu_grad_host(const hri_call *c) {
    return hri_batch_norm_grad_run(c, HRI_BN_FROM_Y);
}

static hr_status batch_norm_add_relu_grad_cuda(const hri_gpu_call *c) {
    return hri_batch_norm_grad_cuda(c, HRI_BN_FROM_Y);
}

static hr_status batch_norm_add_relu_grad_sum_cuda(const hri_gpu_call *c, hr_addr a, hr_addr b) {
    return hri_batch_norm_grad_sum_cuda(c, HRI_BN_FROM_Y, a, b);
}

static const hri_case batch_norm_add_relu_grad_cases[] = {
    {"odd", "f32[3,5,19] f32[3,5,19] f32[19] f32[19] f32[19] f32[3,5,19]"},
    {"many rows", "f32[4001,35] f32[4001,35] f32[35] f32[35] f32[35] f32[4001,35]",
     .tolerance = 1e-4},
    {"empty", "f32[0,3] f32[0,3] f32[3] f32[3] f32[3] f32[0,3]"},
    {"bf16", "bf16[30,17] bf16[30,17] f32[17] f32[17] f32[17] bf16[30,17]"},
    {"f16", "f16[30,17] f16[30,17] f16[17] f32[17] f32[17] f16[30,17]"},
    {"bf16 in packs", "bf16[243,64] bf16[243,64] f32[64] f32[64] f32[64] bf16[243,64]"},
    {"two shapes", "f32[3,5] f32[3,5] f32[5] f32[5] f32[5] f32[4,5]", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_batch_norm_add_relu_grad = {
    .name = "batch_norm_add_relu_grad",
    .formula = "dz = y > 0 ? dy : 0; dx = gamma inv (dz - mean(dz) - xhat mean(dz xhat))",
    .in_min = 6,
    .in_max = 6,
    .out_count = 4,
    .infer = batch_norm_add_relu_grad_infer,
    .overwrite = {2, 0, 0, 1 | 32},
    .samples = hri_batch_norm_samples,
    .cost = hri_batch_norm_grad_cost,
    .host = {.run = batch_norm_add_relu_grad_host, .workspace = hri_batch_norm_grad_workspace},
    .cases = HRI_CASES(batch_norm_add_relu_grad_cases),
};

const hri_kernel hri_kernel_cuda_batch_norm_add_relu_grad = {
    .launch = batch_norm_add_relu_grad_cuda,
    .launch_workspace = hri_batch_norm_grad_cuda_workspace,
    .launch_sum = batch_norm_add_relu_grad_sum_cuda,
};
