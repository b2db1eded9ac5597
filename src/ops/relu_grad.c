/* relu_grad(dy, y) = dy where y > 0, else 0: the gradient of relu. */
#include "ops/common/map.h"

HRI_MAP2_SAME(relu_grad, hri_no_attr, b > 0 ? a : 0)

static const hri_case relu_grad_cases[] = {
    {"odd", "f32[7,33] f32[7,33]"},
    {"empty", "f32[0] f32[0]"},
    {"bf16", "bf16[7,9] bf16[7,9]"},
    {"f16", "f16[7,9] f16[7,9]"},
    {NULL, NULL},
};

const hr_op hr_op_relu_grad = {
    .name = "relu_grad",
    .formula = "dx = y > 0 ? dy : 0",
    .in_min = 2,
    .in_max = 2,
    .out_count = 1,
    .infer = hri_infer_same,
    .overwrite = {3},
    .host = {.run = relu_grad_host},
    .scalar = &relu_grad_scalar,
    .cases = HRI_CASES(relu_grad_cases),
};
