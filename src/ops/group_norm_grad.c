/* group_norm_grad(dy, x, gamma, mean, inv; groups) -> dx, dgamma, dbeta.  dx may lie over dy or x. */
#include "ops/common/norm.h"

static const hri_field group_norm_grad_fields[] = {
    HRI_NORM_EPS,
    {"groups", "of channels", offsetof(hri_norm_attr, groups), HRI_FIELD_INT, "32", .min = 1,
     .max = 1e9},
    {0},
};

static hri_norm view(const hri_sig *s) {
    return hri_norm_groups(&s->in[1].shape, ((const hri_norm_attr *)s->attr)->groups);
}

static hr_status group_norm_grad_infer(hri_infer *c) {
    const hr_shape *x = &c->in[1].shape;
    const int64_t groups = ((const hri_norm_attr *)c->attr)->groups;
    if (x->rank < 2 || x->dim[x->rank - 1] % groups) {
        return hri_infer_fail(c, "%lld groups do not divide the channels", (long long)groups);
    }
    return hri_norm_grad_infer(c, x->dim[0] * groups, 0);
}

static uint64_t group_norm_grad_workspace(const hri_sig *s, uint32_t threads) {
    const hri_norm v = view(s);
    (void)threads;
    return hri_norm_grad_workspace(&v);
}

static hr_status group_norm_grad_host(const hri_call *c) {
    const hri_norm v = view(c->sig);
    hri_norm_grad_run(&v, c);
    return HR_OK;
}

static uint64_t group_norm_grad_cuda_workspace(const hri_sig *s, hri_gpu *gpu, uint32_t variant) {
    const hri_norm v = view(s);
    (void)gpu;
    (void)variant;
    return hri_norm_grad_cuda_workspace(&v, s->in[1].type);
}

static hr_status group_norm_grad_cuda(const hri_gpu_call *c) {
    const hri_norm v = view(c->sig);
    return hri_norm_grad_cuda(&v, c);
}

static const hri_case group_norm_grad_cases[] = {
    {"odd", "f32[3,5,7,21] f32[3,5,7,21] f32[21] f32[3,3] f32[3,3]", "groups=3"},
    {"wide", "f32[2,3,600] f32[2,3,600] f32[600] f32[2,2] f32[2,2]", "groups=2"},
    {"no samples", "f32[0,3,4] f32[0,3,4] f32[4] f32[0,2] f32[0,2]", "groups=2"},
    {"bf16", "bf16[2,4,4,8] bf16[2,4,4,8] f32[8] f32[2,2] f32[2,2]", "groups=2"},
    {"f16", "f16[2,4,4,8] f16[2,4,4,8] f16[8] f32[2,2] f32[2,2]", "groups=2"},
    {"groups that do not divide", "f32[2,8] f32[2,8] f32[8] f32[2,3] f32[2,3]", "groups=3",
     .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_group_norm_grad = {
    .name = "group_norm_grad",
    .formula = "dx = inv (dy gamma - mean(dy gamma) - xhat mean(dy gamma xhat))",
    .in_min = 5,
    .in_max = 5,
    .out_count = 3,
    .fields = group_norm_grad_fields,
    .attr_bytes = sizeof(hri_norm_attr),
    .infer = group_norm_grad_infer,
    .overwrite = {3},
    .samples = hri_norm_grad_samples,
    .cost = hri_norm_grad_cost,
    .host = {.run = group_norm_grad_host, .workspace = group_norm_grad_workspace},
    .cases = HRI_CASES(group_norm_grad_cases),
};

const hri_kernel hri_kernel_cuda_group_norm_grad = {
    .launch = group_norm_grad_cuda,
    .launch_workspace = group_norm_grad_cuda_workspace,
};
