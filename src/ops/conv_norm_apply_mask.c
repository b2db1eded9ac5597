/* conv_norm_apply_mask(x, gamma, beta, mean, inv, z, a, w): batch_norm_apply_mask of x = conv2d(a, w), a window of one pixel.
 *
 * y and the mask are those of batch_norm_apply_mask, to the last bit.  a and w are there for the gradient, which is that of both ops
 * in one (conv_norm_grad) and needs no x: all of it flows to a and w, and none to x. */
#include "ops/common/batch_norm.h"
#include "ops/common/conv_norm.h"

static hr_status conv_norm_apply_mask_infer(hri_infer *c) {
    const hr_meta *x = &c->in[0], *a = &c->in[6], *w = &c->in[7];
    const int rank = x->shape.rank;
    c->out[1] = (hr_meta){0};
    const hr_status status = hri_batch_norm_apply_infer(c, 1);
    if (status != HR_OK) {
        return status;
    }
    if (a->type != x->type || w->type != x->type || a->shape.rank != rank || w->shape.rank != 4 ||
        w->shape.dim[0] != 1 || w->shape.dim[1] != 1 ||
        w->shape.dim[2] != a->shape.dim[rank - 1] || w->shape.dim[3] != x->shape.dim[rank - 1]) {
        return hri_infer_fail(c, "expected x (..., N), a (..., K) and w (1, 1, K, N) of one type");
    }
    for (int d = 0; d < rank - 1; d++) {
        if (a->shape.dim[d] != x->shape.dim[d]) {
            return hri_infer_fail(c, "x and a have other rows");
        }
    }
    c->out[1] = hri_batch_norm_mask(x);
    return HR_OK;
}

static void conv_norm_apply_mask_grad(hri_grad *c) {
    const hr_value *in = c->in;
    const hr_value from[6] = {c->dout[0], in[6], in[7], in[1], in[4], c->out[1]};
    static const uint32_t to[] = {6, 7, 1, 2, 5};
    if (!(c->need & (1u << 6 | 1u << 7 | 1u << 1 | 1u << 2 | 1u << 5))) {
        return;
    }
    const hr_value da = hri_node(c->g, "conv_norm_grad", from, 6, NULL);
    for (uint32_t i = 0; i < 5; i++) {
        if (HRI_NEEDS(c, to[i])) {
            c->din[to[i]] = hr_graph_output(c->g, da, i);
        }
    }
}

static void conv_norm_apply_mask_cost(const hri_sig *s, hri_cost *cost) {
    cost->flops = 4.0 * (double)hr_shape_count(&s->in[0].shape);
    cost->bytes = 3.0 * (double)hr_meta_bytes(&s->in[0]) + (double)hr_meta_bytes(&s->out[1]);
}

static hr_status conv_norm_apply_mask_host(const hri_call *c) {
    hri_batch_norm_lines(c, c->sig->in[1].shape.dim[0], c->in[3], c->in[4], c->workspace);
    hri_batch_norm_apply(c, c->workspace, c->in[5], 1);
    return HR_OK;
}

static hr_status conv_norm_apply_mask_cuda(const hri_gpu_call *c) {
    return hri_batch_norm_apply_cuda(c, 1);
}

/* No derivatives by differences: see batch_norm_apply. */
static const hri_case conv_norm_apply_mask_cases[] = {
    {"odd", "f32[3,5,7,19] f32[19] f32[19] f32[19] f32[19] f32[3,5,7,19] f32[3,5,7,4] f32[1,1,4,19]",
     .flags = HRI_CASE_NO_GRAD, .batched = 97},
    {"bytes", "f32[4,3,9,40] f32[40] f32[40] f32[40] f32[40] f32[4,3,9,40] f32[4,3,9,8] f32[1,1,8,40]",
     .flags = HRI_CASE_NO_GRAD},
    {"empty", "f32[0,3] f32[3] f32[3] f32[3] f32[3] f32[0,3] f32[0,2] f32[1,1,2,3]",
     .flags = HRI_CASE_NO_GRAD},
    {"bf16 in packs",
     "bf16[243,64] f32[64] f32[64] f32[64] f32[64] bf16[243,64] bf16[243,16] bf16[1,1,16,64]",
     .flags = HRI_CASE_NO_GRAD},
    {"f16", "f16[5,24] f16[24] f16[24] f32[24] f32[24] f16[5,24] f16[5,6] f16[1,1,6,24]",
     .flags = HRI_CASE_NO_GRAD},
    {"other rows", "f32[5,7] f32[7] f32[7] f32[7] f32[7] f32[5,7] f32[4,3] f32[1,1,3,7]",
     .flags = HRI_CASE_BAD},
    {"another w", "f32[5,7] f32[7] f32[7] f32[7] f32[7] f32[5,7] f32[5,3] f32[1,1,7,3]",
     .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_conv_norm_apply_mask = {
    .name = "conv_norm_apply_mask",
    .formula = "y = max((x - mean) * inv * gamma + beta + z, 0), mask = y > 0; x = a w",
    .in_min = 8,
    .in_max = 8,
    .out_count = 2,
    .infer = conv_norm_apply_mask_infer,
    .grad = conv_norm_apply_mask_grad,
    .no_grad = 25, /* x, mean and inv: the gradient of a and w has what flows through them */
    .keeps = {{.in = 0},
              {.in = 0xd2, .out = 2},
              {.in = 0xd2, .out = 2},
              {.in = 0},
              {.in = 0},
              {.in = 0xd2, .out = 2},
              {.in = 0xd2, .out = 2},
              {.in = 0xd2, .out = 2}},
    .aux = 2,
    .overwrite = {1 | 1 << 5},
    .cost = conv_norm_apply_mask_cost,
    .host = {.run = conv_norm_apply_mask_host, .workspace = hri_batch_norm_apply_workspace},
    .cases = conv_norm_apply_mask_cases,
};

const hri_kernel hri_kernel_cuda_conv_norm_apply_mask = {.launch = conv_norm_apply_mask_cuda};
