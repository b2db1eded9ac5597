/* binary_cross_entropy_grad(dloss, x, t; sum): dx = dloss * (sigmoid(x) - t) / n.  May lie over either. */
#include "ops/common/vmath.h"
#include "ops/common/pair_loss_cuda.h"

static const hri_field binary_cross_entropy_grad_fields[] = {HRI_PAIR_FIELDS};

HRI_PAIR_GRAD(binary_cross_entropy_grad, 1.0f / (1.0f + hri_exp(-a)) - b)

static void binary_cross_entropy_grad_cost(const hri_sig *s, hri_cost *cost) {
    cost->flops = 4.0 * (double)hr_shape_count(&s->in[1].shape);
}

static hr_status binary_cross_entropy_grad_cuda(const hri_gpu_call *c) {
    return hri_pair_grad_launch(c, "binary_cross_entropy");
}

static const hri_case binary_cross_entropy_grad_cases[] = {
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

const hr_op hr_op_binary_cross_entropy_grad = {
    .name = "binary_cross_entropy_grad",
    .formula = "dx = dloss * (sigmoid(x) - t) / n",
    .in_min = 3,
    .in_max = 3,
    .out_count = 1,
    .fields = binary_cross_entropy_grad_fields,
    .attr_bytes = sizeof(hri_pair_attr),
    .infer = hri_pair_grad_infer,
    .overwrite = {6},
    .samples = hri_pair_grad_samples,
    .cost = binary_cross_entropy_grad_cost,
    .host = {.run = binary_cross_entropy_grad_host},
    .cases = HRI_CASES(binary_cross_entropy_grad_cases),
};

const hri_kernel hri_kernel_cuda_binary_cross_entropy_grad = {.launch =
                                                                  binary_cross_entropy_grad_cuda};
