/* batch_norm_relu_grad(dy, x, gamma, mean, inv, beta) -> dx, dgamma, dbeta: as batch_norm_grad, with dy let through
 * where y was positive.  dx may lie over dy or x. */
#include "ops/common/batch_norm.h"

static hr_status batch_norm_relu_grad_infer(hri_infer *c) {
    if (c->in[5].shape.rank != 1 || !hr_shape_same(&c->in[5].shape, &c->in[2].shape)) {
        return hri_infer_fail(c, "beta must have the shape of gamma");
    }
    const hr_status status = hri_batch_norm_grad_infer(c);
    c->out[2] = c->in[5];
    return status;
}

static hr_status batch_norm_relu_grad_host(const hri_call *c) {
    return hri_batch_norm_grad_run(c, HRI_BN_FROM_X);
}

static hr_status batch_norm_relu_grad_cuda(const hri_gpu_call *c) {
    return hri_batch_norm_grad_cuda(c, HRI_BN_FROM_X);
}

static const hri_case batch_norm_relu_grad_cases[] = {
    {"odd", "f32[3,5,19] f32[3,5,19] f32[19] f32[19] f32[19] f32[19]"},
    {"many rows", "f32[4001,35] f32[4001,35] f32[35] f32[35] f32[35] f32[35]", .tolerance = 1e-4},
    {"empty", "f32[0,3] f32[0,3] f32[3] f32[3] f32[3] f32[3]"},
    {"bf16", "bf16[30,17] bf16[30,17] f32[17] f32[17] f32[17] f32[17]"},
    {"f16", "f16[30,17] f16[30,17] f16[17] f32[17] f32[17] f16[17]"},
    {"bf16 in packs", "bf16[243,64] bf16[243,64] f32[64] f32[64] f32[64] f32[64]"},
    {"two shapes", "f32[3,5] f32[4,5] f32[5] f32[5] f32[5] f32[5]", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_batch_norm_relu_grad = {
    .name = "batch_norm_relu_grad",
    .formula = "d = y > 0 ? dy : 0; dx = gamma inv (d - mean(d) - xhat mean(d xhat))",
    .in_min = 6,
    .in_max = 6,
    .out_count = 3,
    .infer = batch_norm_relu_grad_infer,
    .overwrite = {3},
    .samples = hri_batch_norm_samples,
    .cost = hri_batch_norm_grad_cost,
    .host = {.run = batch_norm_relu_grad_host, .workspace = hri_batch_norm_grad_workspace},
    .cases = HRI_CASES(batch_norm_relu_grad_cases),
};

const hri_kernel hri_kernel_cuda_batch_norm_relu_grad = {
    .launch = batch_norm_relu_grad_cuda,
    .launch_workspace = hri_batch_norm_grad_cuda_workspace,
    .beside = "batch_norm_apply",
    .launch_beside = hri_batch_norm_relu_grad_beside_cuda,
};
