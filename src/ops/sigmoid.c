/* sigmoid(x) = 1 / (1 + e^-x).  The gradient keeps the output. */
#include "ops/common/map.h"
#include "ops/common/vmath.h"

HRI_MAP1(sigmoid, hri_no_attr, (T)1 / ((T)1 + exp(-a)))

static void sigmoid_grad(hri_grad *c) {
    c->din[0] = HRI_NODE(c->g, "sigmoid_grad", NULL, c->dout[0], c->out[0]);
}

static void sigmoid_cost(const hri_sig *s, hri_cost *cost) {
    cost->flops = 12.0 * (double)hr_shape_count(&s->out[0].shape);
}

static const hri_case sigmoid_cases[] = {
    {"scalar", "f32[]"},
    {"odd", "f32[7,33]"},
    {"large", "f32[3,20001]"},
    {"empty", "f32[0,3]"},
    {"bf16", "bf16[7,9]"},
    {"f16", "f16[7,9]"},
    {"wide range", "f32[7,33]", .low = -20, .high = 20},
    {"integers", "i32[3]", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_sigmoid = {
    .name = "sigmoid",
    .formula = "y = 1 / (1 + e^-x)",
    .in_min = 1,
    .in_max = 1,
    .out_count = 1,
    .infer = hri_infer_same,
    .grad = sigmoid_grad,
    .keeps = {{.out = 1}},
    .overwrite = {1},
    .cost = sigmoid_cost,
    .host = {.run = sigmoid_host},
    .scalar = &sigmoid_scalar,
    .cases = HRI_CASES(sigmoid_cases),
};
