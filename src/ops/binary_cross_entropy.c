/* binary_cross_entropy(x, t; sum): of logits x and targets t from 0 to 1.
 *
 *   loss = mean of max(x, 0) - x t + log(1 + exp(-|x|)) over all elements, f32
 *
 * which is -t log(sigmoid x) - (1 - t) log(1 - sigmoid x) without overflow.  The gradient keeps both inputs; none flows
 * to the targets. */
#include <math.h>

#include "ops/common/vmath.h"
#include "ops/common/pair_loss_cuda.h"

static const hri_field binary_cross_entropy_fields[] = {HRI_PAIR_FIELDS};

HRI_PAIR_LOSS(binary_cross_entropy, (a > 0.0f ? a : 0.0f) - a * b + log1pf(hri_exp(-fabsf(a))))

static void binary_cross_entropy_grad(hri_grad *c) {
    if (HRI_NEEDS(c, 0)) {
        c->din[0] = HRI_NODE(c->g, "binary_cross_entropy_grad", c->sig->attr, c->dout[0], c->in[0],
                             c->in[1]);
    }
}

static void binary_cross_entropy_cost(const hri_sig *s, hri_cost *cost) {
    cost->flops = 4.0 * (double)hr_shape_count(&s->in[0].shape);
}

static hr_status binary_cross_entropy_cuda(const hri_gpu_call *c) {
    return hri_pair_launch(c, "binary_cross_entropy");
}

static const hri_case binary_cross_entropy_cases[] = {
    {"odd", "f32[7,33] f32[7,33]", .batched = 3},
    {"sum", "f32[7,33] f32[7,33]", "sum"},
    {"many", "f32[40001] f32[40001]", .flags = HRI_CASE_NO_GRAD},
    {"one number", "f32[] f32[]"},
    {"large", "f32[40] f32[40]", .low = -50, .high = 50},
    {"empty", "f32[0,5] f32[0,5]"},
    {"bf16", "bf16[7,33] bf16[7,33]"},
    {"f16", "f16[7,33] f16[7,33]"},
    {"many, bf16", "bf16[20000] bf16[20000]"},
    {"many, f16", "f16[9001] f16[9001]", "sum"},
    {"two shapes", "f32[7,33] f32[7]", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_binary_cross_entropy = {
    .name = "binary_cross_entropy",
    .formula = "loss = mean(max(x, 0) - x t + log(1 + exp(-|x|)))",
    .in_min = 2,
    .in_max = 2,
    .out_count = 1,
    .fields = binary_cross_entropy_fields,
    .attr_bytes = sizeof(hri_pair_attr),
    .infer = hri_pair_infer,
    .grad = binary_cross_entropy_grad,
    .no_grad = 2,
    .keeps = {{.in = 3}, {.in = 0}},
    .samples = hri_pair_samples,
    .cost = binary_cross_entropy_cost,
    .host = {.run = binary_cross_entropy_host, .workspace = hri_pair_workspace},
    .cases = HRI_CASES(binary_cross_entropy_cases),
};

const hri_kernel hri_kernel_cuda_binary_cross_entropy = {
    .launch = binary_cross_entropy_cuda,
    .launch_workspace = hri_pair_cuda_workspace,
};
