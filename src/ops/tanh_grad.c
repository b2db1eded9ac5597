/* tanh_grad(dy, y) = dy * (1 - y^2): the gradient of tanh, from its output. */
#include "ops/common/map.h"

HRI_MAP2_SAME(tanh_grad, hri_no_attr, a *((T)1 - b * b))

static void tanh_grad_cost(const hri_sig *s, hri_cost *cost) {
    cost->flops = 3.0 * (double)hr_shape_count(&s->out[0].shape);
}

static const hri_case tanh_grad_cases[] = {
    {"scalar", "f32[] f32[]"},
    {"odd", "f32[7,33] f32[7,33]"},
    {"large", "f32[3,20001] f32[3,20001]"},
    {"empty", "f32[0,3] f32[0,3]"},
    {"bf16", "bf16[7,9] bf16[7,9]"},
    {"f16", "f16[7,9] f16[7,9]"},
    {"shapes differ", "f32[3] f32[4]", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_tanh_grad = {
    .name = "tanh_grad",
    .formula = "dx = dy * (1 - y^2)",
    .in_min = 2,
    .in_max = 2,
    .out_count = 1,
    .infer = hri_infer_same,
    .overwrite = {3},
    .cost = tanh_grad_cost,
    .host = {.run = tanh_grad_host},
    .scalar = &tanh_grad_scalar,
    .cases = HRI_CASES(tanh_grad_cases),
};
