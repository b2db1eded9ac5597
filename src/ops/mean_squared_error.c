/* mean_squared_error(a, b; sum): loss = mean of (a - b)^2 over all elements, f32.
 *
 * With `sum` the squares are added, not averaged.  The gradient keeps both inputs; the one for b is the one for a with
 * the two exchanged. */
#include "ops/common/pair_loss_cuda.h"

static const hri_field mean_squared_error_fields[] = {HRI_PAIR_FIELDS};

HRI_PAIR_LOSS(mean_squared_error, (a - b) * (a - b))

static void mean_squared_error_grad(hri_grad *c) {
    if (HRI_NEEDS(c, 0)) {
        c->din[0] =
            HRI_NODE(c->g, "mean_squared_error_grad", c->sig->attr, c->dout[0], c->in[0], c->in[1]);
    }
    if (HRI_NEEDS(c, 1)) {
        c->din[1] =
            HRI_NODE(c->g, "mean_squared_error_grad", c->sig->attr, c->dout[0], c->in[1], c->in[0]);
    }
}

static void mean_squared_error_cost(const hri_sig *s, hri_cost *cost) {
    cost->flops = 4.0 * (double)hr_shape_count(&s->in[0].shape);
}

static hr_status mean_squared_error_cuda(const hri_gpu_call *c) {
    return hri_pair_launch(c, "mean_squared_error");
}

static const hri_case mean_squared_error_cases[] = {
    {"odd", "f32[7,33] f32[7,33]", .batched = 3},
    {"sum", "f32[7,33] f32[7,33]", "sum"},
    {"many", "f32[40001] f32[40001]", .flags = HRI_CASE_NO_GRAD},
    {"one number", "f32[] f32[]"},
    {"large", "f32[40] f32[40]", .low = -50, .high = 50},
    {"empty", "f32[0,5] f32[0,5]"},
    {"bf16", "bf16[7,33] bf16[7,33]"},
    {"f16", "f16[7,33] f16[7,33]"},
    {"many, bf16", "bf16[20000] bf16[20000]"},
    {"many, f16", "f16[9001] f16[9001]", "sum"},
    {"two shapes", "f32[7,33] f32[7]", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_mean_squared_error = {
    .name = "mean_squared_error",
    .formula = "loss = mean((a - b)^2)",
    .in_min = 2,
    .in_max = 2,
    .out_count = 1,
    .fields = mean_squared_error_fields,
    .attr_bytes = sizeof(hri_pair_attr),
    .infer = hri_pair_infer,
    .grad = mean_squared_error_grad,
    .keeps = {{.in = 3}, {.in = 3}},
    .samples = hri_pair_samples,
    .cost = mean_squared_error_cost,
    .host = {.run = mean_squared_error_host, .workspace = hri_pair_workspace},
    .cases = HRI_CASES(mean_squared_error_cases),
};

const hri_kernel hri_kernel_cuda_mean_squared_error = {
    .launch = mean_squared_error_cuda,
    .launch_workspace = hri_pair_cuda_workspace,
};
