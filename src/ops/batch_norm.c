/* batch_norm(x, gamma, beta; eps): normalises each channel over all samples and places, in training.
 *
 *   x (..., C)   gamma, beta (C)   y like x   mean, inv (C) f32
 *   y = (x - mean) * inv * gamma + beta,   inv = 1 / sqrt(var + eps), var with M in the denominator
 *
 * It couples the samples of a batch.  The gradient keeps x and two vectors, not y.  The running statistics are moved
 * by batch_norm_stats, apart, so that this op may be recomputed; batch_norm_inference reads them. */
#include "ops/common/batch_norm.h"

static void batch_norm_grad(hri_grad *c) {
    const hr_value dx = HRI_NODE(c->g, "batch_norm_grad", NULL, c->dout[0], c->in[0], c->in[1],
                                 c->out[1], c->out[2]);
    for (uint32_t i = 0; i < 3; i++) {
        if (HRI_NEEDS(c, i)) {
            c->din[i] = hr_graph_output(c->g, dx, i);
        }
    }
}

static hr_status batch_norm_host(const hri_call *c) {
    return hri_batch_norm_run(c, 0, 0);
}

static hr_status batch_norm_cuda(const hri_gpu_call *c) {
    return hri_batch_norm_cuda(c, 0, 0);
}

static const hri_case batch_norm_cases[] = {
    {"odd", "f32[3,5,7,19] f32[19] f32[19]"},
    {"many rows", "f32[4,33,29,35] f32[35] f32[35]", .flags = HRI_CASE_NO_GRAD},
    {"one channel", "f32[6,3,1] f32[1] f32[1]", "eps=0.01"},
    {"one row", "f32[1,1,1,5] f32[5] f32[5]", .flags = HRI_CASE_NO_GRAD, .tolerance = 1e-4},
    {"wide", "f32[9,300] f32[300] f32[300]"},
    {"far from zero", "f32[7,9,18] f32[18] f32[18]", .low = 1000, .high = 1010, .tolerance = 2e-4,
     .flags = HRI_CASE_NO_GRAD},
    {"no channels", "f32[4,0] f32[0] f32[0]"},
    {"bf16", "bf16[3,4,4,17] f32[17] f32[17]"},
    {"f16", "f16[3,4,4,17] f16[17] f16[17]"},
    {"bf16 in packs", "bf16[3,9,9,64] f32[64] f32[64]", .flags = HRI_CASE_NO_GRAD},
    {"f16, many channels", "f16[33,520] f32[520] f32[520]", .flags = HRI_CASE_NO_GRAD},
    {"gamma of another width", "f32[3,5] f32[4] f32[5]", .flags = HRI_CASE_BAD},
    {"no rows", "f32[0,5] f32[5] f32[5]", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_batch_norm = {
    .name = "batch_norm",
    .formula = "y = (x - mean) / sqrt(var + eps) * gamma + beta",
    .in_min = 3,
    .in_max = 3,
    .out_count = 3,
    .fields = hri_batch_norm_fields,
    .attr_bytes = sizeof(hri_batch_norm_attr),
    .infer = hri_batch_norm_infer,
    .grad = batch_norm_grad,
    .keeps = {{.in = 3, .out = 6}, {.in = 3, .out = 6}, {.in = 3, .out = 6}},
    .aux = 6,
    .overwrite = {1},
    .samples = hri_batch_norm_samples,
    .cost = hri_batch_norm_cost,
    .host = {.run = batch_norm_host, .workspace = hri_batch_norm_workspace},
    .cases = HRI_CASES(batch_norm_cases),
};

const hri_kernel hri_kernel_cuda_batch_norm = {
    .launch = batch_norm_cuda,
    .launch_workspace = hri_batch_norm_cuda_workspace,
};
