/* sqrt(x).  dx = dy / (2 y): the gradient keeps the output. */
#include "ops/common/affine.h"
#include "ops/common/map.h"

HRI_MAP1(sqrt, hri_no_attr, sqrt(a))

static void sqrt_grad(hri_grad *c) {
    const hri_attr_affine half = {.scale = 0.5};
    const hr_value dx = HRI_NODE(c->g, "div", NULL, c->dout[0], c->out[0]);
    c->din[0] = HRI_NODE(c->g, "affine", &half, dx);
}

static const hri_case sqrt_cases[] = {
    {"scalar", "f32[]", .low = 0.3, .high = 3.0},
    {"odd", "f32[7,33]", .low = 0.3, .high = 3.0},
    {"large", "f32[3,20001]", .low = 0.3, .high = 3.0},
    {"empty", "f32[0,3]", .low = 0.3, .high = 3.0},
    {"bf16", "bf16[7,9]", .low = 0.3, .high = 3.0},
    {"f16", "f16[7,9]", .low = 0.3, .high = 3.0},
    {"integers", "i32[3]", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_sqrt = {
    .name = "sqrt",
    .formula = "y = sqrt(x)",
    .in_min = 1,
    .in_max = 1,
    .out_count = 1,
    .infer = hri_infer_same,
    .grad = sqrt_grad,
    .keeps = {{.out = 1}},
    .overwrite = {1},
    .host = {.run = sqrt_host},
    .scalar = &sqrt_scalar,
    .cases = HRI_CASES(sqrt_cases),
};
