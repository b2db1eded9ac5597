/* batch_norm_relu(x, gamma, beta; eps): batch_norm and relu in the same pass over memory.
 *
 *   y = max(0, (x - mean) * inv * gamma + beta)
 *
 * The gradient keeps x and two vectors: it finds the sign of y again from x, gamma and beta, with the operations that
 * made it, so y itself may go. */
#include "ops/common/batch_norm.h"

static void batch_norm_relu_grad(hri_grad *c) {
    const hr_value dx = HRI_NODE(c->g, "batch_norm_relu_grad", NULL, c->dout[0], c->in[0], c->in[1],
                                 c->out[1], c->out[2], c->in[2]);
    for (uint32_t i = 0; i < 3; i++) {
        if (HRI_NEEDS(c, i)) {
            c->din[i] = hr_graph_output(c->g, dx, i);
        }
    }
}

static hr_status batch_norm_relu_host(const hri_call *c) {
    return hri_batch_norm_run(c, 1, 0);
}

static hr_status batch_norm_relu_cuda(const hri_gpu_call *c) {
    return hri_batch_norm_cuda(c, 1, 0);
}

static const hri_case batch_norm_relu_cases[] = {
    {"odd", "f32[3,5,7,19] f32[19] f32[19]"},
    {"many rows", "f32[4,33,29,35] f32[35] f32[35]", .flags = HRI_CASE_NO_GRAD},
    {"one channel", "f32[6,3,1] f32[1] f32[1]", "eps=0.01"},
    {"bf16", "bf16[3,4,4,17] f32[17] f32[17]"},
    {"f16", "f16[3,4,4,17] f16[17] f16[17]"},
    {"integers", "i32[3,5] f32[5] f32[5]", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_batch_norm_relu = {
    .name = "batch_norm_relu",
    .formula = "y = relu((x - mean) / sqrt(var + eps) * gamma + beta)",
    .in_min = 3,
    .in_max = 3,
    .out_count = 3,
    .fields = hri_batch_norm_fields,
    .attr_bytes = sizeof(hri_batch_norm_attr),
    .infer = hri_batch_norm_infer,
    .grad = batch_norm_relu_grad,
    .keeps = {{.in = 7, .out = 6}, {.in = 7, .out = 6}, {.in = 7, .out = 6}},
    .aux = 6,
    .overwrite = {1},
    .samples = hri_batch_norm_samples,
    .cost = hri_batch_norm_cost,
    .host = {.run = batch_norm_relu_host, .workspace = hri_batch_norm_workspace},
    .cases = HRI_CASES(batch_norm_relu_cases),
};

const hri_kernel hri_kernel_cuda_batch_norm_relu = {
    .launch = batch_norm_relu_cuda,
    .launch_workspace = hri_batch_norm_cuda_workspace,
};
