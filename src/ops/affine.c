/* affine(x; scale, shift) = scale * x + shift: negation, means, schedules.  The gradient keeps nothing. */
#include "ops/common/affine.h"
#include "ops/common/map.h"

static const hri_field affine_fields[] = {
    {"scale", "the factor", offsetof(hri_attr_affine, scale), HRI_FIELD_DOUBLE, "1"},
    {"shift", "addend", offsetof(hri_attr_affine, shift), HRI_FIELD_DOUBLE, "0"},
    {0},
};

HRI_MAP1(affine, hri_attr_affine, (T)p->scale *a + (T)p->shift)

static void affine_grad(hri_grad *c) {
    const hri_attr_affine slope = {.scale = ((const hri_attr_affine *)c->sig->attr)->scale};
    c->din[0] = HRI_NODE(c->g, "affine", &slope, c->dout[0]);
}

static void affine_cost(const hri_sig *s, hri_cost *cost) {
    cost->flops = 2.0 * (double)hr_shape_count(&s->out[0].shape);
}

static const hri_case affine_cases[] = {
    {"scalar", "f32[]"},
    {"odd", "f32[7,33]"},
    {"large", "f32[3,20001]"},
    {"empty", "f32[0,3]"},
    {"bf16", "bf16[7,9]"},
    {"f16", "f16[7,9]"},
    {"scale", "f32[7,9]", "scale=-2.5"},
    {"shift", "f32[7,9]", "shift=3"},
    {"both", "f32[7,9]", "scale=0.1,shift=-1"},
    {"integers", "i32[3]", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_affine = {
    .name = "affine",
    .formula = "y = scale * x + shift",
    .in_min = 1,
    .in_max = 1,
    .out_count = 1,
    .fields = affine_fields,
    .attr_bytes = sizeof(hri_attr_affine),
    .infer = hri_infer_same,
    .grad = affine_grad,
    .overwrite = {1},
    .cost = affine_cost,
    .host = {.run = affine_host},
    .scalar = &affine_scalar,
    .cases = HRI_CASES(affine_cases),
};
