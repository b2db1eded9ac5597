/* where(mask, a, b) = a where the mask is not 0, else b, with numpy's broadcasting.  The mask has the type of a and b
 * (compare makes such masks); no gradient flows to it.  The gradients for a and b keep the mask alone. */
#include "ops/common/map.h"

HRI_MAP3(where, hri_no_attr, a != 0 ? b : c)

static void where_grad(hri_grad *c) {
    const hr_value zero = hr_graph_fill(c->g, c->sig->out[0].type, hr_shape_0(), 0.0);
    if (HRI_NEEDS(c, 1)) {
        c->din[1] =
            hri_sum_to(c->g, HRI_NODE(c->g, "where", NULL, c->in[0], c->dout[0], zero), c->in[1]);
    }
    if (HRI_NEEDS(c, 2)) {
        c->din[2] =
            hri_sum_to(c->g, HRI_NODE(c->g, "where", NULL, c->in[0], zero, c->dout[0]), c->in[2]);
    }
}

static const hri_case where_cases[] = {
    {"scalar", "f32[] f32[] f32[]"},
    {"odd", "f32[7,33] f32[7,33] f32[7,33]"},
    {"zeros and ones", "f32[7,33] f32[7,33] f32[7,33]", .low = 0, .high = 1},
    {"large", "f32[3,20001] f32[3,20001] f32[3,20001]"},
    {"mask a row", "f32[33] f32[7,33] f32[7,33]"},
    {"mask a column", "f32[7,1] f32[7,33] f32[]"},
    {"three ways", "f32[4,1,1] f32[1,5,1] f32[1,1,3]"},
    {"empty", "f32[0,3] f32[3] f32[]"},
    {"bf16", "bf16[7,9] bf16[9] bf16[7,1]"},
    {"f16", "f16[7,9] f16[7,9] f16[]"},
    {"shapes differ", "f32[3] f32[4] f32[3]", .flags = HRI_CASE_BAD},
    {"types differ", "u8[3] f32[3] f32[3]", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_where = {
    .name = "where",
    .formula = "y = mask != 0 ? a : b",
    .in_min = 3,
    .in_max = 3,
    .out_count = 1,
    .infer = hri_infer_broadcast,
    .grad = where_grad,
    .keeps = {{0}, {.in = 1}, {.in = 1}},
    .no_grad = 1,
    .overwrite = {7},
    .host = {.run = where_host},
    .scalar = &where_scalar,
    .cases = HRI_CASES(where_cases),
};
