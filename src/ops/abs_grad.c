/* abs_grad(dy, x) = dy * sign(x): the gradient of abs. */
#include "ops/common/map.h"

HRI_MAP2_SAME(abs_grad, hri_no_attr, b > 0 ? a : (b < 0 ? -a : (T)0))

static const hri_case abs_grad_cases[] = {
    {"scalar", "f32[] f32[]"},
    {"odd", "f32[7,33] f32[7,33]"},
    {"large", "f32[3,20001] f32[3,20001]"},
    {"empty", "f32[0,3] f32[0,3]"},
    {"bf16", "bf16[7,9] bf16[7,9]"},
    {"f16", "f16[7,9] f16[7,9]"},
    {"shapes differ", "f32[3] f32[4]", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_abs_grad = {
    .name = "abs_grad",
    .formula = "dx = dy * sign(x)",
    .in_min = 2,
    .in_max = 2,
    .out_count = 1,
    .infer = hri_infer_same,
    .overwrite = {3},
    .host = {.run = abs_grad_host},
    .scalar = &abs_grad_scalar,
    .cases = HRI_CASES(abs_grad_cases),
};
