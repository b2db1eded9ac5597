/* div(a, b) = a / b, with numpy's broadcasting.
 *
 *   da = dy / b      db = -dy * y / b, summed to b's shape
 *
 * Both read b; the second reads the output instead of a, so the op may lie over a. */
#include "ops/common/affine.h"
#include "ops/common/map.h"

HRI_MAP2(div, hri_no_attr, a / b)

static void div_grad(hri_grad *c) {
    const hr_value part = HRI_NODE(c->g, "div", NULL, c->dout[0], c->in[1]);
    if (HRI_NEEDS(c, 0)) {
        c->din[0] = hri_sum_to(c->g, part, c->in[0]);
    }
    if (HRI_NEEDS(c, 1)) {
        const hri_attr_affine minus = {.scale = -1.0};
        const hr_value whole = HRI_NODE(c->g, "mul", NULL, part, c->out[0]);
        c->din[1] = HRI_NODE(c->g, "affine", &minus, hri_sum_to(c->g, whole, c->in[1]));
    }
}

static const hri_case div_cases[] = {
    {"scalar", "f32[] f32[]", .low = 0.5, .high = 2.0},
    {"odd", "f32[7,33] f32[7,33]", .low = 0.5, .high = 2.0},
    {"large", "f32[3,20001] f32[3,20001]", .low = 0.5, .high = 2.0},
    {"empty", "f32[0,3] f32[0,3]", .low = 0.5, .high = 2.0},
    {"bf16", "bf16[7,9] bf16[7,9]", .low = 0.5, .high = 2.0},
    {"f16", "f16[7,9] f16[7,9]", .low = 0.5, .high = 2.0},
    {"row", "f32[5,3,17] f32[17]", .low = 0.5, .high = 2.0},
    {"both ways", "f32[4,1,3] f32[1,5,1]", .low = 0.5, .high = 2.0},
    {"shapes differ", "f32[3] f32[4]", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_div = {
    .name = "div",
    .formula = "y = a / b",
    .in_min = 2,
    .in_max = 2,
    .out_count = 1,
    .infer = hri_infer_broadcast,
    .grad = div_grad,
    .keeps = {{.in = 2}, {.in = 2, .out = 1}},
    .overwrite = {3},
    .host = {.run = div_host},
    .scalar = &div_scalar,
    .cases = HRI_CASES(div_cases),
};
