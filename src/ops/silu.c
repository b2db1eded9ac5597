/* silu(x) = x / (1 + e^-x), also called swish.  The function is not monotone, so the gradient keeps x. */
#include "ops/common/map.h"
#include "ops/common/vmath.h"

HRI_MAP1(silu, hri_no_attr, a / ((T)1 + exp(-a)))

static void silu_grad(hri_grad *c) {
    c->din[0] = HRI_NODE(c->g, "silu_grad", NULL, c->dout[0], c->in[0]);
}

static void silu_cost(const hri_sig *s, hri_cost *cost) {
    cost->flops = 12.0 * (double)hr_shape_count(&s->out[0].shape);
}

static const hri_case silu_cases[] = {
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

const hr_op hr_op_silu = {
    .name = "silu",
    .formula = "y = x * sigmoid(x)",
    .in_min = 1,
    .in_max = 1,
    .out_count = 1,
    .infer = hri_infer_same,
    .grad = silu_grad,
    .keeps = {{.in = 1}},
    .overwrite = {1},
    .cost = silu_cost,
    .host = {.run = silu_host},
    .scalar = &silu_scalar,
    .cases = HRI_CASES(silu_cases),
};
