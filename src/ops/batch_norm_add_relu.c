/* batch_norm_add_relu(x, gamma, beta, z; eps): the end of a residual block in one pass over memory.
 *
 *   y = max(0, (x - mean) * inv * gamma + beta + z)
 *
 * The gradient keeps x, two vectors and y (for its sign): the next layer keeps y anyway, and z may go.  y may lie over
 * x or z. */
#include "ops/common/batch_norm.h"

static void batch_norm_add_relu_grad(hri_grad *c) {
    const hr_value dx = HRI_NODE(c->g, "batch_norm_add_relu_grad", NULL, c->dout[0], c->in[0],
                                 c->in[1], c->out[1], c->out[2], c->out[0]);
    for (uint32_t i = 0; i < 4; i++) {
        if (HRI_NEEDS(c, i)) {
            c->din[i] = hr_graph_output(c->g, dx, i);
        }
    }
}

static hr_status batch_norm_add_relu_host(const hri_call *c) {
    return hri_batch_norm_run(c, 1, 1);
}

static hr_status batch_norm_add_relu_cuda(const hri_gpu_call *c) {
    return hri_batch_norm_cuda(c, 1, 1);
}

static const hri_case batch_norm_add_relu_cases[] = {
    {"odd", "f32[3,5,7,19] f32[19] f32[19] f32[3,5,7,19]"},
    {"many rows", "f32[4,33,29,35] f32[35] f32[35] f32[4,33,29,35]", .flags = HRI_CASE_NO_GRAD},
    {"bf16", "bf16[3,4,4,17] f32[17] f32[17] bf16[3,4,4,17]"},
    {"f16", "f16[3,4,4,17] f16[17] f16[17] f16[3,4,4,17]"},
    {"bf16 in packs", "bf16[3,9,9,64] f32[64] f32[64] bf16[3,9,9,64]", .flags = HRI_CASE_NO_GRAD},
    {"another shape", "f32[3,5] f32[5] f32[5] f32[2,5]", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_batch_norm_add_relu = {
    .name = "batch_norm_add_relu",
    .formula = "y = relu((x - mean) / sqrt(var + eps) * gamma + beta + z)",
    .in_min = 4,
    .in_max = 4,
    .out_count = 3,
    .fields = hri_batch_norm_fields,
    .attr_bytes = sizeof(hri_batch_norm_attr),
    .infer = hri_batch_norm_infer,
    .grad = batch_norm_add_relu_grad,
    .keeps = {{.in = 3, .out = 7}, {.in = 3, .out = 7}, {.in = 3, .out = 7}, {.in = 3, .out = 7}},
    .aux = 6,
    .overwrite = {9},
    .samples = hri_batch_norm_samples,
    .cost = hri_batch_norm_cost,
    .host = {.run = batch_norm_add_relu_host, .workspace = hri_batch_norm_workspace},
    .cases = HRI_CASES(batch_norm_add_relu_cases),
};

const hri_kernel hri_kernel_cuda_batch_norm_add_relu = {
    .launch = batch_norm_add_relu_cuda,
    .launch_workspace = hri_batch_norm_cuda_workspace,
};
