/* mul(a, b) = a * b, with numpy's broadcasting.  The gradient for one input keeps the other one. */
#include "ops/common/map.h"

HRI_MAP2(mul, hri_no_attr, a *b)

static void mul_grad(hri_grad *c) {
    for (uint32_t i = 0; i < 2; i++) {
        if (HRI_NEEDS(c, i)) {
            c->din[i] =
                hri_sum_to(c->g, HRI_NODE(c->g, "mul", NULL, c->dout[0], c->in[1 - i]), c->in[i]);
        }
    }
}

static const hri_case mul_cases[] = {
    {"scalar", "f32[] f32[]"},         {"odd", "f32[7,33] f32[7,33]"},
    {"by a scalar", "f32[5,3] f32[]"}, {"both ways", "f32[4,1,3] f32[1,5,1]"},
    {"empty", "f32[0,3] f32[3]"},      {"bf16", "bf16[7,9] bf16[9]"},
    {"f16", "f16[7,9] f16[7,1]"},      {NULL, NULL},
};

const hr_op hr_op_mul = {
    .name = "mul",
    .formula = "y = a * b",
    .in_min = 2,
    .in_max = 2,
    .out_count = 1,
    .infer = hri_infer_broadcast,
    .grad = mul_grad,
    .keeps = {{.in = 2}, {.in = 1}},
    .overwrite = {3},
    .host = {.run = mul_host},
    .scalar = &mul_scalar,
    .cases = HRI_CASES(mul_cases),
};
