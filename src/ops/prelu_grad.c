/* prelu_grad(dy, x, slope) = dy where x > 0, else slope * dy: the gradient of prelu for x. */
#include "ops/common/map.h"

HRI_MAP3(prelu_grad, hri_no_attr, b > 0 ? a : c * a)

static const hri_case prelu_grad_cases[] = {
    {"scalar", "f32[] f32[] f32[]"},
    {"odd", "f32[7,33] f32[7,33] f32[33]"},
    {"large", "f32[3,20001] f32[3,20001] f32[1]"},
    {"empty", "f32[0,3] f32[0,3] f32[3]"},
    {"bf16", "bf16[7,9] bf16[7,9] bf16[9]"},
    {"f16", "f16[7,9] f16[7,9] f16[9]"},
    {"shapes differ", "f32[3] f32[4] f32[3]", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_prelu_grad = {
    .name = "prelu_grad",
    .formula = "dx = x > 0 ? dy : slope * dy",
    .in_min = 3,
    .in_max = 3,
    .out_count = 1,
    .infer = hri_infer_broadcast,
    .overwrite = {7},
    .host = {.run = prelu_grad_host},
    .scalar = &prelu_grad_scalar,
    .cases = HRI_CASES(prelu_grad_cases),
};
