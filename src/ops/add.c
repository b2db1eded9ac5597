/* add(a, b) = a + b, with numpy's broadcasting.
 *
 * The gradient keeps nothing: each input gets dy, summed over the dimensions along which it was broadcast.  Gradient
 * accumulation uses this op, so it may lie over either input. */
#include "ops/common/map.h"

HRI_MAP2(add, hri_no_attr, a + b)

static void add_grad(hri_grad *c) {
    for (uint32_t i = 0; i < 2; i++) {
        if (HRI_NEEDS(c, i)) {
            c->din[i] = hri_sum_to(c->g, c->dout[0], c->in[i]);
        }
    }
}

static const hri_case add_cases[] = {
    {"scalar", "f32[] f32[]"},
    {"odd", "f32[7,33] f32[7,33]"},
    {"bias", "f32[5,3,17] f32[17]", .batched = 1},
    {"both ways", "f32[4,1,3] f32[1,5,1]"},
    {"large", "f32[3,5000] f32[3,5000]"},
    {"long bias", "f32[2,40000] f32[40000]"},
    {"empty", "f32[0,3] f32[3]"},
    {"bf16", "bf16[7,9] bf16[9]"},
    {"f16", "f16[7,9] f16[7,1]"},
    {"types differ", "f32[3] f16[3]", .flags = HRI_CASE_BAD},
    {"shapes differ", "f32[3] f32[4]", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_add = {
    .name = "add",
    .formula = "y = a + b",
    .in_min = 2,
    .in_max = 2,
    .out_count = 1,
    .infer = hri_infer_broadcast,
    .grad = add_grad,
    .overwrite = {3},
    .host = {.run = add_host},
    .scalar = &add_scalar,
    .cases = HRI_CASES(add_cases),
};
