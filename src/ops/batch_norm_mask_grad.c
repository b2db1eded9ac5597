/* batch_norm_mask_grad(dy, x, gamma, mean, inv, mask) -> dx, dgamma, dbeta, dz: as batch_norm_add_relu_grad, with dy let
 * through where the bit is set.  dx may lie over x, dz over dy. */
#include "ops/common/batch_norm.h"

static hr_status batch_norm_mask_grad_infer(hri_infer *c) {
    const hr_status status = hri_batch_norm_grad_infer(c);
    if (status != HR_OK) {
        return status;
    }
    const hr_meta mask = hri_batch_norm_mask(&c->in[1]);
    if (c->in[5].type != mask.type || !hr_shape_same(&c->in[5].shape, &mask.shape)) {
        return hri_infer_fail(c, "the mask is not u8 of the input's shape, eight elements a byte");
    }
    c->out[3] = c->in[1];
    return HR_OK;
}

static hr_status batch_norm_mask_grad_host(const hri_call *c) {
    return hri_batch_norm_grad_run(c, HRI_BN_FROM_MASK);
}

static hr_status batch_norm_mask_grad_cuda(const hri_gpu_call *c) {
    return hri_batch_norm_grad_cuda(c, HRI_BN_FROM_MASK);
}

static hr_status batch_norm_mask_grad_sum_cuda(const hri_gpu_call *c, hr_addr a, hr_addr b) {
    return hri_batch_norm_grad_sum_cuda(c, HRI_BN_FROM_MASK, a, b);
}

static const hri_case batch_norm_mask_grad_cases[] = {
    {"odd", "f32[3,5,19] f32[3,5,19] f32[19] f32[19] f32[19] u8[3,12]"},
    {"many rows", "f32[4001,35] f32[4001,35] f32[35] f32[35] f32[35] u8[4001,5]",
     .tolerance = 1e-4},
    {"bytes", "f32[30,3,40] f32[30,3,40] f32[40] f32[40] f32[40] u8[30,15]"},
    {"half bytes", "f32[30,3,12] f32[30,3,12] f32[12] f32[12] f32[12] u8[30,5]"},
    {"empty", "f32[0,3] f32[0,3] f32[3] f32[3] f32[3] u8[0,1]"},
    {"bf16", "bf16[30,17] bf16[30,17] f32[17] f32[17] f32[17] u8[30,3]"},
    {"f16", "f16[30,17] f16[30,17] f16[17] f32[17] f32[17] u8[30,3]"},
    {"bf16 in packs", "bf16[243,64] bf16[243,64] f32[64] f32[64] f32[64] u8[243,8]"},
    {"mask of y", "f32[3,5] f32[3,5] f32[5] f32[5] f32[5] f32[3,5]", .flags = HRI_CASE_BAD},
    {"two shapes", "f32[3,5] f32[3,5] f32[5] f32[5] f32[5] u8[3,2]", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_batch_norm_mask_grad = {
    .name = "batch_norm_mask_grad",
    .formula = "dz = mask ? dy : 0; dx = gamma inv (dz - mean(dz) - xhat mean(dz xhat))",
    .in_min = 6,
    .in_max = 6,
    .out_count = 4,
    .infer = batch_norm_mask_grad_infer,
    .overwrite = {2, 0, 0, 1},
    .samples = hri_batch_norm_samples,
    .cost = hri_batch_norm_grad_cost,
    .host = {.run = batch_norm_mask_grad_host, .workspace = hri_batch_norm_grad_workspace},
    .cases = HRI_CASES(batch_norm_mask_grad_cases),
};

const hri_kernel hri_kernel_cuda_batch_norm_mask_grad = {
    .launch = batch_norm_mask_grad_cuda,
    .launch_workspace = hri_batch_norm_grad_cuda_workspace,
    .launch_sum = batch_norm_mask_grad_sum_cuda,
};
