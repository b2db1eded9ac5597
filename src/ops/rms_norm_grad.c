/* rms_norm_grad(dy, x, gamma, inv) -> dx, dgamma.  dx may lie over dy or x. */
#include "ops/common/norm.h"

static hr_status rms_norm_grad_infer(hri_infer *c) {
    if (c->in[1].shape.rank < 1) {
        return hri_infer_fail(c, "x must be (..., D)");
    }
    return hri_norm_grad_infer(c, hri_norm_rows(&c->in[1].shape, 1).n, 1);
}

static uint64_t rms_norm_grad_workspace(const hri_sig *s, uint32_t threads) {
    const hri_norm v = hri_norm_rows(&s->in[1].shape, 1);
    (void)threads;
    return hri_norm_grad_workspace(&v);
}

static hr_status rms_norm_grad_host(const hri_call *c) {
    const hri_norm v = hri_norm_rows(&c->sig->in[1].shape, 1);
    hri_norm_grad_run(&v, c);
    return HR_OK;
}

static uint64_t rms_norm_grad_cuda_workspace(const hri_sig *s, hri_gpu *gpu, uint32_t variant) {
    const hri_norm v = hri_norm_rows(&s->in[1].shape, 1);
    (void)gpu;
    (void)variant;
    return hri_norm_grad_cuda_workspace(&v, s->in[1].type);
}

static hr_status rms_norm_grad_cuda(const hri_gpu_call *c) {
    const hri_norm v = hri_norm_rows(&c->sig->in[1].shape, 1);
    return hri_norm_grad_cuda(&v, c);
}

static const hri_case rms_norm_grad_cases[] = {
    {"odd", "f32[7,33] f32[7,33] f32[33] f32[7]"},
    {"many rows", "f32[1001,35] f32[1001,35] f32[35] f32[1001]", .tolerance = 1e-4},
    {"wide", "f32[3,5,770] f32[3,5,770] f32[770] f32[3,5]"},
    {"no rows", "f32[0,5] f32[0,5] f32[5] f32[0]"},
    {"bf16", "bf16[7,33] bf16[7,33] f32[33] f32[7]"},
    {"f16", "f16[7,33] f16[7,33] f16[33] f32[7]"},
    {"bf16 in packs", "bf16[70,768] bf16[70,768] f32[768] f32[70]"},
    {"too few statistics", "f32[7,33] f32[7,33] f32[33] f32[6]", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_rms_norm_grad = {
    .name = "rms_norm_grad",
    .formula = "dx = inv (dy gamma - xhat mean(dy gamma xhat)), by row",
    .in_min = 4,
    .in_max = 4,
    .out_count = 2,
    .infer = rms_norm_grad_infer,
    .overwrite = {3},
    .samples = hri_norm_grad_samples,
    .cost = hri_norm_grad_cost,
    .host = {.run = rms_norm_grad_host, .workspace = rms_norm_grad_workspace},
    .cases = HRI_CASES(rms_norm_grad_cases),
};

static hr_status rms_norm_grad_added_cuda(const hri_gpu_call *c, hr_addr other, hr_addr to,
                                          const hri_gpu_call *again) {
    const hri_norm v = hri_norm_rows(&c->sig->in[1].shape, 1);
    return again ? HR_E_UNSUPPORTED : hri_norm_grad_added_cuda(&v, c, other, to, NULL);
}

const hri_kernel hri_kernel_cuda_rms_norm_grad = {
    .launch = rms_norm_grad_cuda,
    .launch_added = rms_norm_grad_added_cuda,
    .launch_workspace = rms_norm_grad_cuda_workspace,
};
