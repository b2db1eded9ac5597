/* maximum(a, b) = the larger of the two, NaN kept, with numpy's broadcasting.  The gradient goes to the larger one, and half of it
 * to each of two equal ones, as torch has it; it keeps both. */
#include "ops/common/map.h"

HRI_MAP2(maximum, hri_no_attr, a > b || a != a ? a : b)

static void maximum_grad(hri_grad *c) {
    for (uint32_t i = 0; i < 2; i++) {
        if (HRI_NEEDS(c, i)) {
            c->din[i] = hri_sum_to(
                c->g, HRI_NODE(c->g, "larger_grad", NULL, c->dout[0], c->in[i], c->in[1 - i]),
                c->in[i]);
        }
    }
}

static const hri_case maximum_cases[] = {
    {"scalar", "f32[] f32[]"},
    {"odd", "f32[7,33] f32[7,33]"},
    {"by a scalar", "f32[5,3] f32[]"},
    {"both ways", "f32[4,1,3] f32[1,5,1]"},
    {"empty", "f32[0,3] f32[3]"},
    {"bf16", "bf16[7,9] bf16[9]"},
    {"f16", "f16[7,9] f16[7,1]"},
    {"large", "f32[3,20001] f32[3,20001]"},
    {"shapes differ", "f32[3] f32[4]", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_maximum = {
    .name = "maximum",
    .formula = "y = a > b ? a : b",
    .in_min = 2,
    .in_max = 2,
    .out_count = 1,
    .infer = hri_infer_broadcast,
    .grad = maximum_grad,
    .keeps = {{.in = 3}, {.in = 3}},
    .overwrite = {3},
    .host = {.run = maximum_host},
    .scalar = &maximum_scalar,
    .cases = maximum_cases,
};
