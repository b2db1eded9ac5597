/* power_grad(dy, x; exponent) = dy * exponent * x^(exponent - 1): the gradient of power in one pass. */
#include "ops/common/map.h"
#include "ops/common/power.h"

static const hri_field power_grad_fields[] = {
    {"exponent", "the power", offsetof(hri_attr_power, exponent), HRI_FIELD_DOUBLE, "2"},
    {0},
};

HRI_MAP2_SAME(power_grad, hri_attr_power,
              p->exponent == 2.0   ? a * ((T)2 * b)
              : p->exponent == 3.0 ? a * ((T)3 * b * b)
              : p->exponent == 0.0 ? (T)0
                                   : a * (T)p->exponent * pow(b, (T)(p->exponent - 1.0)))

static void power_grad_cost(const hri_sig *s, hri_cost *cost) {
    cost->flops = 22.0 * (double)hr_shape_count(&s->out[0].shape);
}

static const hri_case power_grad_cases[] = {
    {"scalar", "f32[] f32[]"},
    {"odd", "f32[7,33] f32[7,33]"},
    {"large", "f32[3,20001] f32[3,20001]"},
    {"empty", "f32[0,3] f32[0,3]"},
    {"bf16", "bf16[7,9] bf16[7,9]"},
    {"f16", "f16[7,9] f16[7,9]"},
    {"cube", "f32[7,9] f32[7,9]", "exponent=3"},
    {"zero", "f32[7,9] f32[7,9]", "exponent=0"},
    {"fraction", "f32[7,9] f32[7,9]", "exponent=1.7", .low = 0.3, .high = 3.0},
    {"shapes differ", "f32[3] f32[4]", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_power_grad = {
    .name = "power_grad",
    .formula = "dx = dy * exponent * x^(exponent - 1)",
    .in_min = 2,
    .in_max = 2,
    .out_count = 1,
    .fields = power_grad_fields,
    .attr_bytes = sizeof(hri_attr_power),
    .infer = hri_infer_same,
    .overwrite = {3},
    .cost = power_grad_cost,
    .host = {.run = power_grad_host},
    .scalar = &power_grad_scalar,
    .cases = HRI_CASES(power_grad_cases),
};
