/* batch_norm_apply_mask(x, gamma, beta, mean, inv, z): batch_norm_apply with z and relu, and one bit an element that says
 * where y > 0.
 *
 *   y     like x
 *   mask  u8 (N, (M + 7) / 8) for x (N, M...): bit k % 8 of byte k / 8 is element k of a sample
 *
 * The gradient reads the mask, 1/16 of y in bf16, and y is kept only for who reads it otherwise.  Behind some convolutions it is that of
 * both (conv_norm.h), and x is not kept either.  Bits of y are those of
 * batch_norm_apply, and of the gradient too. */
#include "ops/common/batch_norm.h"
#include "ops/common/conv_norm.h"

static hr_status batch_norm_apply_mask_infer(hri_infer *c) {
    c->out[1] = (hr_meta){0};
    const hr_status status = hri_batch_norm_apply_infer(c, 1);
    if (status == HR_OK) {
        c->out[1] = hri_batch_norm_mask(&c->in[0]);
    }
    return status;
}

static void batch_norm_apply_mask_grad(hri_grad *c) {
    const hr_value *in = c->in;
    const hr_value from[6] = {c->dout[0], in[0], in[1], in[3], in[4], c->out[1]};
    static const uint32_t to[] = {0, 1, 2, 5};
    if (!HRI_NEEDS(c, 0) && !HRI_NEEDS(c, 1) && !HRI_NEEDS(c, 2) && !HRI_NEEDS(c, 5)) {
        return;
    }
    if (hri_conv_norm_fold(c)) {
        return;
    }
    const hr_value dx = hri_node(c->g, "batch_norm_mask_grad", from, 6, NULL);
    for (uint32_t i = 0; i < 4; i++) {
        if (HRI_NEEDS(c, to[i])) {
            c->din[to[i]] = hr_graph_output(c->g, dx, i);
        }
    }
}

static void batch_norm_apply_mask_cost(const hri_sig *s, hri_cost *cost) {
    cost->flops = 4.0 * (double)hr_shape_count(&s->in[0].shape);
}

static hr_status batch_norm_apply_mask_host(const hri_call *c) {
    hri_batch_norm_lines(c, c->sig->in[1].shape.dim[0], c->in[3], c->in[4], c->workspace);
    hri_batch_norm_apply(c, c->workspace, c->in[5], 1);
    return HR_OK;
}

static hr_status batch_norm_apply_mask_cuda(const hri_gpu_call *c) {
    return hri_batch_norm_apply_cuda(c, 1);
}

/* No derivatives by differences: see batch_norm_apply. */
static const hri_case batch_norm_apply_mask_cases[] = {
    {"odd", "f32[3,5,7,19] f32[19] f32[19] f32[19] f32[19] f32[3,5,7,19]",
     .flags = HRI_CASE_NO_GRAD, .batched = 33},
    {"bytes", "f32[4,3,29,40] f32[40] f32[40] f32[40] f32[40] f32[4,3,29,40]",
     .flags = HRI_CASE_NO_GRAD},
    {"half bytes", "f32[5,3,12] f32[12] f32[12] f32[12] f32[12] f32[5,3,12]",
     .flags = HRI_CASE_NO_GRAD},
    {"wide", "f32[2,2,304] f32[304] f32[304] f32[304] f32[304] f32[2,2,304]",
     .flags = HRI_CASE_NO_GRAD, .batched = 33},
    {"empty", "f32[0,3] f32[3] f32[3] f32[3] f32[3] f32[0,3]", .flags = HRI_CASE_NO_GRAD},
    {"bf16", "bf16[5,7] f32[7] f32[7] f32[7] f32[7] bf16[5,7]", .flags = HRI_CASE_NO_GRAD},
    {"bf16 in packs", "bf16[243,64] f32[64] f32[64] f32[64] f32[64] bf16[243,64]",
     .flags = HRI_CASE_NO_GRAD},
    {"f16", "f16[5,24] f16[24] f16[24] f32[24] f32[24] f16[5,24]", .flags = HRI_CASE_NO_GRAD},
    {"z of another shape", "f32[5,7] f32[7] f32[7] f32[7] f32[7] f32[7,5]", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_batch_norm_apply_mask = {
    .name = "batch_norm_apply_mask",
    .formula = "y = max((x - mean) * inv * gamma + beta + z, 0), mask = y > 0",
    .in_min = 6,
    .in_max = 6,
    .out_count = 2,
    .infer = batch_norm_apply_mask_infer,
    .grad = batch_norm_apply_mask_grad,
    .no_grad = 24, /* the gradient of x has what flows through the moments */
    .keeps = {{.in = 27, .out = 2},
              {.in = 27, .out = 2},
              {.in = 27, .out = 2},
              {.in = 0},
              {.in = 0},
              {.in = 27, .out = 2}},
    .aux = 2,
    .overwrite = {1 | 1 << 5},
    .cost = batch_norm_apply_mask_cost,
    .host = {.run = batch_norm_apply_mask_host, .workspace = hri_batch_norm_apply_workspace},
    .cases = HRI_CASES(batch_norm_apply_mask_cases),
};

const hri_kernel hri_kernel_cuda_batch_norm_apply_mask = {.launch = batch_norm_apply_mask_cuda};
