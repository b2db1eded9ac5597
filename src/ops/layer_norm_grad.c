/* layer_norm_grad(dy, x, gamma, mean, inv) -> dx, dgamma, dbeta.  dx may lie over dy or x. */
#include "ops/common/norm.h"

static hr_status layer_norm_grad_infer(hri_infer *c) {
    if (c->in[1].shape.rank < 1) {
        return hri_infer_fail(c, "x must be (..., D)");
    }
    return hri_norm_grad_infer(c, hri_norm_rows(&c->in[1].shape, 0).n, 0);
}

static uint64_t layer_norm_grad_workspace(const hri_sig *s, uint32_t threads) {
    const hri_norm v = hri_norm_rows(&s->in[1].shape, 0);
    (void)threads;
    return hri_norm_grad_workspace(&v);
}

static hr_status layer_norm_grad_host(const hri_call *c) {
    const hri_norm v = hri_norm_rows(&c->sig->in[1].shape, 0);
    hri_norm_grad_run(&v, c);
    return HR_OK;
}

static uint64_t layer_norm_grad_cuda_workspace(const hri_sig *s, hri_gpu *gpu, uint32_t variant) {
    const hri_norm v = hri_norm_rows(&s->in[1].shape, 0);
    (void)gpu;
    (void)variant;
    return hri_norm_grad_cuda_workspace(&v, s->in[1].type);
}

static hr_status layer_norm_grad_cuda(const hri_gpu_call *c) {
    const hri_norm v = hri_norm_rows(&c->sig->in[1].shape, 0);
    return hri_norm_grad_cuda(&v, c);
}

static const hri_case layer_norm_grad_cases[] = {
    {"odd", "f32[7,33] f32[7,33] f32[33] f32[7] f32[7]"},
    {"many rows", "f32[1001,35] f32[1001,35] f32[35] f32[1001] f32[1001]", .tolerance = 1e-4},
    {"wide", "f32[3,5,770] f32[3,5,770] f32[770] f32[3,5] f32[3,5]"},
    {"no rows", "f32[0,5] f32[0,5] f32[5] f32[0] f32[0]"},
    {"bf16", "bf16[7,33] bf16[7,33] f32[33] f32[7] f32[7]"},
    {"f16", "f16[7,33] f16[7,33] f16[33] f32[7] f32[7]"},
    {"bf16 in packs", "bf16[70,768] bf16[70,768] f32[768] f32[70] f32[70]"},
    {"wider than a warp's registers", "f32[5,3000] f32[5,3000] f32[3000] f32[5] f32[5]"},
    {"wider than a block's registers", "f16[2,9001] f16[2,9001] f32[9001] f32[2] f32[2]"},
    {"too few statistics", "f32[7,33] f32[7,33] f32[33] f32[6] f32[7]", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_layer_norm_grad = {
    .name = "layer_norm_grad",
    .formula = "dx = inv (dy gamma - mean(dy gamma) - xhat mean(dy gamma xhat)), by row",
    .in_min = 5,
    .in_max = 5,
    .out_count = 3,
    .infer = layer_norm_grad_infer,
    .overwrite = {3},
    .samples = hri_norm_grad_samples,
    .cost = hri_norm_grad_cost,
    .host = {.run = layer_norm_grad_host, .workspace = layer_norm_grad_workspace},
    .cases = HRI_CASES(layer_norm_grad_cases),
};

static hr_status layer_norm_grad_added_cuda(const hri_gpu_call *c, hr_addr other, hr_addr to,
                                            const hri_gpu_call *again) {
    const hri_norm v = hri_norm_rows(&c->sig->in[1].shape, 0);
    return hri_norm_grad_added_cuda(&v, c, other, to, again);
}

static hr_status layer_norm_grad_summed_cuda(const hri_gpu_call *c, hr_addr other, hr_addr to,
                                             const hri_gpu_call *again, const hri_gpu_call *total) {
    const hri_norm v = hri_norm_rows(&c->sig->in[1].shape, 0);
    return hri_norm_grad_summed_cuda(&v, c, other, to, again, total);
}

static hr_status layer_norm_grad_beside_cuda(const hri_gpu_call *c, const hri_gpu_call *again) {
    const hri_norm v = hri_norm_rows(&c->sig->in[1].shape, 0);
    return hri_norm_grad_beside_cuda(&v, c, again);
}

const hri_kernel hri_kernel_cuda_layer_norm_grad = {
    .launch = layer_norm_grad_cuda,
    .launch_added = layer_norm_grad_added_cuda,
    .launch_summed = layer_norm_grad_summed_cuda,
    .beside = "layer_norm",
    .launch_beside = layer_norm_grad_beside_cuda,
    .launch_workspace = layer_norm_grad_cuda_workspace,
};
