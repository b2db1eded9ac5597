/* rsqrt(x) = 1 / sqrt(x).  The gradient keeps the output. */
#include "ops/common/map.h"

HRI_MAP1(rsqrt, hri_no_attr, (T)1 / sqrt(a))

static void rsqrt_grad(hri_grad *c) {
    c->din[0] = HRI_NODE(c->g, "rsqrt_grad", NULL, c->dout[0], c->out[0]);
}

static void rsqrt_cost(const hri_sig *s, hri_cost *cost) {
    cost->flops = 2.0 * (double)hr_shape_count(&s->out[0].shape);
}

static const hri_case rsqrt_cases[] = {
    {"scalar", "f32[]", .low = 0.3, .high = 3.0},
    {"odd", "f32[7,33]", .low = 0.3, .high = 3.0},
    {"large", "f32[3,20001]", .low = 0.3, .high = 3.0},
    {"empty", "f32[0,3]", .low = 0.3, .high = 3.0},
    {"bf16", "bf16[7,9]", .low = 0.3, .high = 3.0},
    {"f16", "f16[7,9]", .low = 0.3, .high = 3.0},
    {"integers", "i32[3]", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_rsqrt = {
    .name = "rsqrt",
    .formula = "y = 1 / sqrt(x)",
    .in_min = 1,
    .in_max = 1,
    .out_count = 1,
    .infer = hri_infer_same,
    .grad = rsqrt_grad,
    .keeps = {{.out = 1}},
    .overwrite = {1},
    .cost = rsqrt_cost,
    .host = {.run = rsqrt_host},
    .scalar = &rsqrt_scalar,
    .cases = HRI_CASES(rsqrt_cases),
};
