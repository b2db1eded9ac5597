/* relu(a) = max(a, 0), NaN kept.  The slope is known from the output alone, so the gradient keeps y and the op may
 * lie over its input. */
#include "ops/common/map.h"

HRI_MAP1(relu, hri_no_attr, a < 0 ? 0 : a)

static void relu_grad(hri_grad *c) {
    c->din[0] = HRI_NODE(c->g, "relu_grad", NULL, c->dout[0], c->out[0]);
}

static const hri_case relu_cases[] = {
    {"scalar", "f32[]"},
    {"odd", "f32[7,33]"},
    {"positive", "f32[5]", .low = 0.5, .high = 2.0},
    {"large", "f32[3,20001]"},
    {"empty", "f32[0]"},
    {"bf16", "bf16[7,9]"},
    {"f16", "f16[7,9]"},
    {"integers", "i32[3]", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_relu = {
    .name = "relu",
    .formula = "y = max(a, 0)",
    .in_min = 1,
    .in_max = 1,
    .out_count = 1,
    .infer = hri_infer_same,
    .grad = relu_grad,
    .keeps = {{.out = 1}},
    .overwrite = {1},
    .host = {.run = relu_host},
    .scalar = &relu_scalar,
    .cases = HRI_CASES(relu_cases),
};
