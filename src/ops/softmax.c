/* softmax(x; axis): exp(x) over its sum along a dimension.
 *
 *   y = exp(x - max) / sum exp(x - max)
 *
 * The gradient keeps the output alone. */
#include "ops/common/softmax.h"

static void softmax_grad(hri_grad *c) {
    c->din[0] = HRI_NODE(c->g, "softmax_grad", c->sig->attr, c->dout[0], c->out[0]);
}

static hr_status softmax_host(const hri_call *c) {
    return hri_softmax_run(c, 0);
}

static hr_status softmax_cuda(const hri_gpu_call *c) {
    return hri_softmax_cuda(c, 0);
}

static const hri_case softmax_cases[] = {
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
    {"bf16 in packs", "bf16[9,1024]", .flags = HRI_CASE_NO_GRAD},
    {"longer than a warp's registers", "f16[3,2048]", .flags = HRI_CASE_NO_GRAD},
    {"longer than a block's registers", "f32[2,9001]", .flags = HRI_CASE_NO_GRAD},
    {"axis out of range", "f32[7,33]", "axis=2", .flags = HRI_CASE_BAD},
    {"a scalar", "f32[]", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_softmax = {
    .name = "softmax",
    .formula = "y = exp(x) / sum exp(x)",
    .in_min = 1,
    .in_max = 1,
    .out_count = 1,
    .fields = hri_softmax_fields,
    .attr_bytes = sizeof(hri_softmax_attr),
    .infer = hri_softmax_infer,
    .grad = softmax_grad,
    .keeps = {{.out = 1}},
    .overwrite = {1},
    .samples = hri_softmax_samples,
    .cost = hri_softmax_cost,
    .host = {.run = softmax_host},
    .cases = HRI_CASES(softmax_cases),
};

const hri_kernel hri_kernel_cuda_softmax = {.launch = softmax_cuda};
