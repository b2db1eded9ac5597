/* exp(x) = e^x.  The output is its own slope: the gradient keeps it. */
#include "ops/common/map.h"
#include "ops/common/vmath.h"

HRI_MAP1(exp, hri_no_attr, exp(a))

static void exp_grad(hri_grad *c) {
    c->din[0] = HRI_NODE(c->g, "mul", NULL, c->dout[0], c->out[0]);
}

static void exp_cost(const hri_sig *s, hri_cost *cost) {
    cost->flops = 12.0 * (double)hr_shape_count(&s->out[0].shape);
}

static const hri_case exp_cases[] = {
    {"scalar", "f32[]"},
    {"odd", "f32[7,33]"},
    {"large", "f32[3,20001]"},
    {"empty", "f32[0,3]"},
    {"bf16", "bf16[7,9]"},
    {"f16", "f16[7,9]"},
    {"wide range", "f32[7,33]", .low = -80, .high = 10},
    {"integers", "i32[3]", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_exp = {
    .name = "exp",
    .formula = "y = e^x",
    .in_min = 1,
    .in_max = 1,
    .out_count = 1,
    .infer = hri_infer_same,
    .grad = exp_grad,
    .keeps = {{.out = 1}},
    .overwrite = {1},
    .cost = exp_cost,
    .host = {.run = exp_host},
    .scalar = &exp_scalar,
    .cases = HRI_CASES(exp_cases),
};
