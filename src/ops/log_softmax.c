/* log_softmax(x; axis): the logarithm of softmax, without ever taking that of a small number.
 *
 *   y = x - max - log sum exp(x - max)
 *
 * The gradient keeps the output alone. */
#include "ops/common/softmax.h"

static void log_softmax_grad(hri_grad *c) {
    c->din[0] = HRI_NODE(c->g, "log_softmax_grad", c->sig->attr, c->dout[0], c->out[0]);
}

static hr_status log_softmax_host(const hri_call *c) {
    return hri_softmax_run(c, 1);
}

static hr_status log_softmax_cuda(const hri_gpu_call *c) {
    return hri_softmax_cuda(c, 1);
}

static const hri_case log_softmax_cases[] = {
    {"odd", "f32[7,33]", .batched = 1},
    {"first dimension", "f32[7,33]", "axis=0"},
    {"middle", "f32[3,5,70]", "axis=1"},
    {"long rows", "f32[3,1003]"},
    {"one wide", "f32[4,1]"},
    {"large", "f32[4,10]", .low = -90, .high = 90, .grad_tolerance = 1e-2},
    {"no rows", "f32[0,5]"},
    {"nothing to sum", "f32[5,0]"},
    {"bf16", "bf16[7,33]"},
    {"f16", "f16[7,33]", "axis=0"},
    {"axis out of range", "f32[7,33]", "axis=2", .flags = HRI_CASE_BAD},
    {"a scalar", "f32[]", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_log_softmax = {
    .name = "log_softmax",
    .formula = "y = x - log sum exp(x)",
    .in_min = 1,
    .in_max = 1,
    .out_count = 1,
    .fields = hri_softmax_fields,
    .attr_bytes = sizeof(hri_softmax_attr),
    .infer = hri_softmax_infer,
    .grad = log_softmax_grad,
    .keeps = {{.out = 1}},
    .overwrite = {1},
    .samples = hri_softmax_samples,
    .cost = hri_softmax_cost,
    .host = {.run = log_softmax_host},
    .cases = HRI_CASES(log_softmax_cases),
};

const hri_kernel hri_kernel_cuda_log_softmax = {.launch = log_softmax_cuda};
