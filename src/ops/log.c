/* log(x), the natural logarithm: -inf of 0, NaN of a negative number.  The gradient keeps the input. */
#include "ops/common/map.h"
#include "ops/common/vmath.h"

HRI_MAP1(log, hri_no_attr, log(a))

static void log_grad(hri_grad *c) {
    c->din[0] = HRI_NODE(c->g, "div", NULL, c->dout[0], c->in[0]);
}

static void log_cost(const hri_sig *s, hri_cost *cost) {
    cost->flops = 15.0 * (double)hr_shape_count(&s->out[0].shape);
}

static const hri_case log_cases[] = {
    {"scalar", "f32[]", .low = 0.3, .high = 3.0},
    {"odd", "f32[7,33]", .low = 0.3, .high = 3.0},
    {"large", "f32[3,20001]", .low = 0.3, .high = 3.0},
    {"empty", "f32[0,3]", .low = 0.3, .high = 3.0},
    {"bf16", "bf16[7,9]", .low = 0.3, .high = 3.0},
    {"f16", "f16[7,9]", .low = 0.3, .high = 3.0},
    {"wide range", "f32[7,33]", .low = 0.1, .high = 1e6},
    {"integers", "i32[3]", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_log = {
    .name = "log",
    .formula = "y = log(x)",
    .in_min = 1,
    .in_max = 1,
    .out_count = 1,
    .infer = hri_infer_same,
    .grad = log_grad,
    .keeps = {{.in = 1}},
    .overwrite = {1},
    .cost = log_cost,
    .host = {.run = log_host},
    .scalar = &log_scalar,
    .cases = HRI_CASES(log_cases),
};
