/* abs(x) = |x|.  The gradient keeps x; at 0 it is 0. */
#include "ops/common/map.h"

HRI_MAP1(abs, hri_no_attr, fabs(a))

static void abs_grad(hri_grad *c) {
    c->din[0] = HRI_NODE(c->g, "abs_grad", NULL, c->dout[0], c->in[0]);
}

static const hri_case abs_cases[] = {
    {"scalar", "f32[]"},
    {"odd", "f32[7,33]"},
    {"large", "f32[3,20001]"},
    {"empty", "f32[0,3]"},
    {"bf16", "bf16[7,9]"},
    {"f16", "f16[7,9]"},
    {"negative", "f32[9]", .low = -2, .high = -1},
    {"integers", "i32[3]", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_abs = {
    .name = "abs",
    .formula = "y = |x|",
    .in_min = 1,
    .in_max = 1,
    .out_count = 1,
    .infer = hri_infer_same,
    .grad = abs_grad,
    .keeps = {{.in = 1}},
    .overwrite = {1},
    .host = {.run = abs_host},
    .scalar = &abs_scalar,
    .cases = HRI_CASES(abs_cases),
};
