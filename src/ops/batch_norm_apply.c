/* batch_norm_apply(x, gamma, beta, mean, inv [, z]; relu): the second half of batch_norm, with its first half's numbers.
 *
 *   y = (x - mean) * inv * gamma + beta [+ z] [relu]
 *
 * mean and inv are those of this x (batch_norm_moments), and the gradient counts on it: it is the gradient of both
 * halves, and so not the derivative of this formula alone.  z goes with relu only.  With z the gradient reads y;
 * a step that is trained has batch_norm_apply_mask in its place (passes/common/masks.c).  Bits are those of batch_norm,
 * batch_norm_relu and batch_norm_add_relu. */
#include "ops/common/batch_norm.h"

#include "ops/common/batch_norm_parts.h"
#include "ops/common/conv_norm.h"

static const hri_field batch_norm_apply_fields[] = {
    {"relu", "apply ReLU", offsetof(hri_batch_norm_apply_attr, relu), HRI_FIELD_BOOL, NULL},
    {0},
};

static int has_relu(const void *attr) {
    return ((const hri_batch_norm_apply_attr *)attr)->relu;
}

static hr_status batch_norm_apply_infer(hri_infer *c) {
    return hri_batch_norm_apply_infer(c, has_relu(c->attr));
}

static void batch_norm_apply_grad(hri_grad *c) {
    const hr_value *in = c->in;
    const int relu = has_relu(c->sig->attr), add = c->sig->in_count > 5;
    hr_value from[6] = {c->dout[0], in[0], in[1], in[3], in[4], add ? c->out[0] : in[2]};
    const char *op = add    ? "batch_norm_add_relu_grad"
                     : relu ? "batch_norm_relu_grad"
                            : "batch_norm_grad";
    if (!HRI_NEEDS(c, 0) && !HRI_NEEDS(c, 1) && !HRI_NEEDS(c, 2) && !HRI_NEEDS(c, 5)) {
        return;
    }
    if (!relu && hri_conv_norm_fold(c)) {
        return;
    }
    const hr_value dx = hri_node(c->g, op, from, relu ? 6 : 5, NULL);
    static const uint32_t to[] = {0, 1, 2, 5};
    for (uint32_t i = 0; i < (add ? 4u : 3u); i++) {
        if (HRI_NEEDS(c, to[i])) {
            c->din[to[i]] = hr_graph_output(c->g, dx, i);
        }
    }
}

static void batch_norm_apply_cost(const hri_sig *s, hri_cost *cost) {
    cost->flops = 3.0 * (double)hr_shape_count(&s->in[0].shape);
}

static hr_status batch_norm_apply_host(const hri_call *c) {
    const hri_sig *s = c->sig;
    hri_batch_norm_lines(c, s->in[1].shape.dim[0], c->in[3], c->in[4], c->workspace);
    hri_batch_norm_apply(c, c->workspace, s->in_count > 5 ? c->in[5] : NULL, has_relu(s->attr));
    return HR_OK;
}

static hr_status batch_norm_apply_cuda(const hri_gpu_call *c) {
    return hri_batch_norm_apply_cuda(c, has_relu(c->sig->attr));
}

/* No derivatives by differences: see above. */
static const hri_case batch_norm_apply_cases[] = {
    {"odd", "f32[3,5,7,19] f32[19] f32[19] f32[19] f32[19]", .flags = HRI_CASE_NO_GRAD,
     .batched = 1},
    {"relu", "f32[4,33,29,35] f32[35] f32[35] f32[35] f32[35]", "relu", .flags = HRI_CASE_NO_GRAD},
    {"wide", "f32[2,2,300] f32[300] f32[300] f32[300] f32[300] f32[2,2,300]", "relu",
     .flags = HRI_CASE_NO_GRAD, .batched = 33},
    {"empty", "f32[0,3] f32[3] f32[3] f32[3] f32[3]", .flags = HRI_CASE_NO_GRAD},
    {"bf16", "bf16[5,7] f32[7] f32[7] f32[7] f32[7]", "relu", .flags = HRI_CASE_NO_GRAD},
    {"f16", "f16[5,7] f16[7] f16[7] f32[7] f32[7]", .flags = HRI_CASE_NO_GRAD},
    {"z without relu", "f32[5,7] f32[7] f32[7] f32[7] f32[7] f32[5,7]", .flags = HRI_CASE_BAD},
    {"mean of another width", "f32[5,7] f32[7] f32[7] f32[6] f32[7]", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_batch_norm_apply = {
    .name = "batch_norm_apply",
    .formula = "y = (x - mean) * inv * gamma + beta [+ z] [relu]",
    .in_min = 5,
    .in_max = 6,
    .out_count = 1,
    .fields = batch_norm_apply_fields,
    .attr_bytes = sizeof(hri_batch_norm_apply_attr),
    .infer = batch_norm_apply_infer,
    .grad = batch_norm_apply_grad,
    .no_grad = 24, /* the gradient of x has what flows through the moments */
    .keeps = {{.in = 31, .out = 1},
              {.in = 31, .out = 1},
              {.in = 31, .out = 1},
              {.in = 0},
              {.in = 0},
              {.in = 31, .out = 1}},
    .overwrite = {1 | 1 << 5},
    .cost = batch_norm_apply_cost,
    .host = {.run = batch_norm_apply_host, .workspace = hri_batch_norm_apply_workspace},
    .cases = HRI_CASES(batch_norm_apply_cases),
};

const hri_kernel hri_kernel_cuda_batch_norm_apply = {.launch = batch_norm_apply_cuda};
