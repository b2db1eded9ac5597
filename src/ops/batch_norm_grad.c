/* batch_norm_grad(dy, x, gamma, mean, inv) -> dx, dgamma, dbeta: the gradients of batch_norm in two passes.  dx may lie
 * over dy or x. */
#include "ops/common/batch_norm.h"

static hr_status batch_norm_grad_host(const hri_call *c) {
    return hri_batch_norm_grad_run(c, HRI_BN_PLAIN);
}

static hr_status batch_norm_grad_cuda(const hri_gpu_call *c) {
    return hri_batch_norm_grad_cuda(c, HRI_BN_PLAIN);
}

static const hri_case batch_norm_grad_cases[] = {
    {"odd", "f32[3,5,19] f32[3,5,19] f32[19] f32[19] f32[19]"},
    {"many rows", "f32[4001,35] f32[4001,35] f32[35] f32[35] f32[35]", .tolerance = 1e-4},
    {"wide", "f32[9,300] f32[9,300] f32[300] f32[300] f32[300]"},
    {"empty", "f32[0,3] f32[0,3] f32[3] f32[3] f32[3]"},
    {"bf16", "bf16[30,17] bf16[30,17] f32[17] f32[17] f32[17]"},
    {"f16", "f16[30,17] f16[30,17] f16[17] f32[17] f32[17]"},
    {"bf16 in packs", "bf16[243,64] bf16[243,64] f32[64] f32[64] f32[64]"},
    {"two shapes", "f32[3,5] f32[4,5] f32[5] f32[5] f32[5]", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_batch_norm_grad = {
    .name = "batch_norm_grad",
    .formula = "dx = gamma inv (dy - mean(dy) - xhat mean(dy xhat))",
    .in_min = 5,
    .in_max = 5,
    .out_count = 3,
    .infer = hri_batch_norm_grad_infer,
    .overwrite = {3},
    .samples = hri_batch_norm_samples,
    .cost = hri_batch_norm_grad_cost,
    .host = {.run = batch_norm_grad_host, .workspace = hri_batch_norm_grad_workspace},
    .cases = HRI_CASES(batch_norm_grad_cases),
};

const hri_kernel hri_kernel_cuda_batch_norm_grad = {
    .launch = batch_norm_grad_cuda,
    .launch_workspace = hri_batch_norm_grad_cuda_workspace,
};
