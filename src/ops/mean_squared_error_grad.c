/* mean_squared_error_grad(dloss, a, b; sum): da = dloss * 2 (a - b) / n.  May lie over either. */
#include "ops/common/pair_loss_cuda.h"

static const hri_field mean_squared_error_grad_fields[] = {HRI_PAIR_FIELDS};

HRI_PAIR_GRAD(mean_squared_error_grad, 2.0f * (a - b))

static void mean_squared_error_grad_cost(const hri_sig *s, hri_cost *cost) {
    cost->flops = 4.0 * (double)hr_shape_count(&s->in[1].shape);
}

static hr_status mean_squared_error_grad_cuda(const hri_gpu_call *c) {
    return hri_pair_grad_launch(c, "mean_squared_error");
}

static const hri_case mean_squared_error_grad_cases[] = {
    {"odd", "f32[] f32[7,33] f32[7,33]"},
    {"sum", "f32[] f32[7,33] f32[7,33]", "sum", .batched = 6},
    {"many", "f32[] f32[40001] f32[40001]"},
    {"empty", "f32[] f32[0,5] f32[0,5]"},
    {"bf16", "f32[] bf16[7,33] bf16[7,33]"},
    {"f16", "f32[] f16[7,33] f16[7,33]", "sum"},
    {"many, bf16", "f32[] bf16[20000] bf16[20000]"},
    {"many, f16", "f32[] f16[9001] f16[9001]"},
    {"two types", "f32[] f32[7] f16[7]", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_mean_squared_error_grad = {
    .name = "mean_squared_error_grad",
    .formula = "da = dloss * 2 (a - b) / n",
    .in_min = 3,
    .in_max = 3,
    .out_count = 1,
    .fields = mean_squared_error_grad_fields,
    .attr_bytes = sizeof(hri_pair_attr),
    .infer = hri_pair_grad_infer,
    .overwrite = {6},
    .samples = hri_pair_grad_samples,
    .cost = mean_squared_error_grad_cost,
    .host = {.run = mean_squared_error_grad_host},
    .cases = HRI_CASES(mean_squared_error_grad_cases),
};

const hri_kernel hri_kernel_cuda_mean_squared_error_grad = {.launch = mean_squared_error_grad_cuda};
