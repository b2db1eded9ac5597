/* sub(a, b) = a - b, with numpy's broadcasting.  The gradient keeps nothing. */
#include "ops/common/affine.h"
#include "ops/common/map.h"

HRI_MAP2(sub, hri_no_attr, a - b)

static void sub_grad(hri_grad *c) {
    if (HRI_NEEDS(c, 0)) {
        c->din[0] = hri_sum_to(c->g, c->dout[0], c->in[0]);
    }
    if (HRI_NEEDS(c, 1)) { /* negated after the sum, where there is less to do */
        const hri_attr_affine minus = {.scale = -1.0};
        c->din[1] = HRI_NODE(c->g, "affine", &minus, hri_sum_to(c->g, c->dout[0], c->in[1]));
    }
}

static const hri_case sub_cases[] = {
    {"scalar", "f32[] f32[]"},
    {"odd", "f32[7,33] f32[7,33]"},
    {"large", "f32[3,20001] f32[3,20001]"},
    {"empty", "f32[0,3] f32[0,3]"},
    {"bf16", "bf16[7,9] bf16[7,9]"},
    {"f16", "f16[7,9] f16[7,9]"},
    {"row", "f32[5,3,17] f32[17]"},
    {"both ways", "f32[4,1,3] f32[1,5,1]"},
    {"shapes differ", "f32[3] f32[4]", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_sub = {
    .name = "sub",
    .formula = "y = a - b",
    .in_min = 2,
    .in_max = 2,
    .out_count = 1,
    .infer = hri_infer_broadcast,
    .grad = sub_grad,
    .overwrite = {3},
    .host = {.run = sub_host},
    .scalar = &sub_scalar,
    .cases = HRI_CASES(sub_cases),
};
