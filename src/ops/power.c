/* power(x; exponent) = x^exponent, with pow's rules for negative x, zeros and infinities.  Squares, cubes and inverses
 * do not go through pow.  The gradient keeps x. */
#include "ops/common/map.h"
#include "ops/common/power.h"

static const hri_field power_fields[] = {
    {"exponent", "the power", offsetof(hri_attr_power, exponent), HRI_FIELD_DOUBLE, "2"},
    {0},
};

HRI_MAP1(power, hri_attr_power,
         p->exponent == 2.0    ? a * a
         : p->exponent == 3.0  ? a * a * a
         : p->exponent == -1.0 ? (T)1 / a
                               : pow(a, (T)p->exponent))

static void power_grad(hri_grad *c) {
    c->din[0] = HRI_NODE(c->g, "power_grad", c->sig->attr, c->dout[0], c->in[0]);
}

static void power_cost(const hri_sig *s, hri_cost *cost) {
    cost->flops = 20.0 * (double)hr_shape_count(&s->out[0].shape);
}

static const hri_case power_cases[] = {
    {"scalar", "f32[]"},
    {"odd", "f32[7,33]"},
    {"large", "f32[3,20001]"},
    {"empty", "f32[0,3]"},
    {"bf16", "bf16[7,9]"},
    {"f16", "f16[7,9]"},
    {"cube", "f32[7,9]", "exponent=3"},
    {"inverse", "f32[7,9]", "exponent=-1", .low = 0.3, .high = 3.0},
    {"fraction", "f32[7,9]", "exponent=1.7", .low = 0.3, .high = 3.0},
    {"negative fraction", "f32[7,9]", "exponent=-0.5", .low = 0.3, .high = 3.0},
    {"zero", "f32[7,9]", "exponent=0", .low = 0.3, .high = 3.0},
    {"fraction, bf16", "bf16[9]", "exponent=0.3", .low = 0.3, .high = 3.0},
    {"integers", "i32[3]", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_power = {
    .name = "power",
    .formula = "y = x^exponent",
    .in_min = 1,
    .in_max = 1,
    .out_count = 1,
    .fields = power_fields,
    .attr_bytes = sizeof(hri_attr_power),
    .infer = hri_infer_same,
    .grad = power_grad,
    .keeps = {{.in = 1}},
    .overwrite = {1},
    .cost = power_cost,
    .host = {.run = power_host},
    .scalar = &power_scalar,
    .cases = HRI_CASES(power_cases),
};
