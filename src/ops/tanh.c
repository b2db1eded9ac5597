/* tanh(x).  The gradient keeps the output. */
#include "ops/common/map.h"
#include "ops/common/vmath.h"

HRI_MAP1(tanh, hri_no_attr, tanh(a))

static void tanh_grad(hri_grad *c) {
    c->din[0] = HRI_NODE(c->g, "tanh_grad", NULL, c->dout[0], c->out[0]);
}

static void tanh_cost(const hri_sig *s, hri_cost *cost) {
    cost->flops = 20.0 * (double)hr_shape_count(&s->out[0].shape);
}

static const hri_case tanh_cases[] = {
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

const hr_op hr_op_tanh = {
    .name = "tanh",
    .formula = "y = tanh(x)",
    .in_min = 1,
    .in_max = 1,
    .out_count = 1,
    .infer = hri_infer_same,
    .grad = tanh_grad,
    .keeps = {{.out = 1}},
    .overwrite = {1},
    .cost = tanh_cost,
    .host = {.run = tanh_host},
    .scalar = &tanh_scalar,
    .cases = HRI_CASES(tanh_cases),
};
