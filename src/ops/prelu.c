/* prelu(x, slope) = x where x > 0, else slope * x, with numpy's broadcasting: a slope (C) is one a channel.  The gradient
 * for x keeps x and the slope, that for the slope keeps x. */
#include "ops/common/clip.h"
#include "ops/common/map.h"

HRI_MAP2(prelu, hri_no_attr, a > 0 ? a : b * a)

static void prelu_grad(hri_grad *c) {
    if (HRI_NEEDS(c, 0)) {
        c->din[0] = hri_sum_to(
            c->g, HRI_NODE(c->g, "prelu_grad", NULL, c->dout[0], c->in[0], c->in[1]), c->in[0]);
    }
    if (HRI_NEEDS(c, 1)) { /* x where it is below 0 */
        const hri_attr_clip below = {.low = -INFINITY, .high = 0.0};
        c->din[1] = hri_sum_to(
            c->g, HRI_NODE(c->g, "mul", NULL, c->dout[0], HRI_NODE(c->g, "clip", &below, c->in[0])),
            c->in[1]);
    }
}

static const hri_case prelu_cases[] = {
    {"scalar", "f32[] f32[]"},
    {"a slope a channel", "f32[7,33] f32[33]"},
    {"one slope", "f32[2,3,5] f32[1]"},
    {"large", "f32[3,20001] f32[20001]"},
    {"empty", "f32[0,3] f32[3]"},
    {"bf16", "bf16[7,9] bf16[9]"},
    {"f16", "f16[7,9] f16[9]"},
    {"shapes differ", "f32[3] f32[4]", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_prelu = {
    .name = "prelu",
    .formula = "y = x > 0 ? x : slope * x",
    .in_min = 2,
    .in_max = 2,
    .out_count = 1,
    .infer = hri_infer_broadcast,
    .grad = prelu_grad,
    .keeps = {{.in = 3}, {.in = 1}},
    .overwrite = {3},
    .host = {.run = prelu_host},
    .scalar = &prelu_scalar,
    .cases = HRI_CASES(prelu_cases),
};
