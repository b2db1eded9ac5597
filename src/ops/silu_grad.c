/* silu_grad(dy, x) = dy * s * (1 + x * (1 - s)) with s = sigmoid(x): the gradient of silu in one pass. */
#include "ops/common/map.h"
#include "ops/common/vmath.h"

HRI_MAP2_SAME(silu_grad, hri_no_attr,
              a / ((T)1 + exp(-b)) * ((T)1 + b * ((T)1 - (T)1 / ((T)1 + exp(-b)))))

static void silu_grad_cost(const hri_sig *s, hri_cost *cost) {
    cost->flops = 18.0 * (double)hr_shape_count(&s->out[0].shape);
}

static const hri_case silu_grad_cases[] = {
    {"scalar", "f32[] f32[]"},
    {"odd", "f32[7,33] f32[7,33]"},
    {"large", "f32[3,20001] f32[3,20001]"},
    {"empty", "f32[0,3] f32[0,3]"},
    {"bf16", "bf16[7,9] bf16[7,9]"},
    {"f16", "f16[7,9] f16[7,9]"},
    {"wide range", "f32[7,33] f32[7,33]", .low = -20, .high = 20},
    {"shapes differ", "f32[3] f32[4]", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_silu_grad = {
    .name = "silu_grad",
    .formula = "dx = dy * s * (1 + x * (1 - s)), s = sigmoid(x)",
    .in_min = 2,
    .in_max = 2,
    .out_count = 1,
    .infer = hri_infer_same,
    .overwrite = {3},
    .cost = silu_grad_cost,
    .host = {.run = silu_grad_host},
    .scalar = &silu_grad_scalar,
    .cases = HRI_CASES(silu_grad_cases),
};
