/* softmax_grad(dy, y; axis): dx = y (dy - sum y dy).  May lie over either. */
#include "ops/common/softmax.h"

static hr_status softmax_grad_host(const hri_call *c) {
    return hri_softmax_grad_run(c, 0);
}

static hr_status softmax_grad_cuda(const hri_gpu_call *c) {
    return hri_softmax_grad_cuda(c, 0);
}

static const hri_case softmax_grad_cases[] = {
    {"odd", "f32[7,33] f32[7,33]", .batched = 3},
    {"first dimension", "f32[7,33] f32[7,33]", "axis=0"},
    {"middle", "f32[3,5,70] f32[3,5,70]", "axis=1"},
    {"long rows", "f32[3,1003] f32[3,1003]"},
    {"no rows", "f32[0,5] f32[0,5]"},
    {"bf16", "bf16[7,33] bf16[7,33]"},
    {"f16", "f16[7,33] f16[7,33]", "axis=0"},
    {"bf16 in packs", "bf16[9,1024] bf16[9,1024]"},
    {"longer than a block's registers", "f32[2,9001] f32[2,9001]"},
    {"two shapes", "f32[7,33] f32[7,32]", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_softmax_grad = {
    .name = "softmax_grad",
    .formula = "dx = y (dy - sum y dy)",
    .in_min = 2,
    .in_max = 2,
    .out_count = 1,
    .fields = hri_softmax_fields,
    .attr_bytes = sizeof(hri_softmax_attr),
    .infer = hri_softmax_infer,
    .overwrite = {3},
    .samples = hri_softmax_samples,
    .cost = hri_softmax_cost,
    .host = {.run = softmax_grad_host},
    .cases = HRI_CASES(softmax_grad_cases),
};

const hri_kernel hri_kernel_cuda_softmax_grad = {.launch = softmax_grad_cuda};
