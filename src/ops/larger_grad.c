/* larger_grad(dy, a, b) = dy where a > b, half of it where a = b, else 0: what the larger of two gets.  The gradient of
 * maximum, and of minimum with the two exchanged. */
#include "ops/common/map.h"

HRI_MAP3(larger_grad, hri_no_attr, b > c ? a : (b == c ? (T)0.5 * a : (T)0))

static const hri_case larger_grad_cases[] = {
    {"scalar", "f32[] f32[] f32[]"},
    {"odd", "f32[7,33] f32[7,33] f32[7,33]"},
    {"large", "f32[3,20001] f32[3,20001] f32[3,20001]"},
    {"broadcast", "f32[4,5,3] f32[1,5,1] f32[3]"},
    {"empty", "f32[0,3] f32[3] f32[]"},
    {"bf16", "bf16[7,9] bf16[9] bf16[7,9]"},
    {"f16", "f16[7,9] f16[7,9] f16[7,1]"},
    {"shapes differ", "f32[3] f32[4] f32[3]", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_larger_grad = {
    .name = "larger_grad",
    .formula = "da = a > b ? dy : a == b ? dy / 2 : 0",
    .in_min = 3,
    .in_max = 3,
    .out_count = 1,
    .infer = hri_infer_broadcast,
    .overwrite = {7},
    .host = {.run = larger_grad_host},
    .scalar = &larger_grad_scalar,
    .cases = HRI_CASES(larger_grad_cases),
};
