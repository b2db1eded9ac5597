/* batch_norm_inference(x, gamma, beta, mean, var; eps): each channel by statistics that are given.
 *
 *   y = (x - mean) / sqrt(var + eps) * gamma + beta
 *
 * For evaluation, and for training with statistics that stand still: no sample touches another.  No gradient flows to
 * mean and var.  The gradient for x keeps no activation at all. */
#include "ops/common/batch_norm.h"

#include <math.h>

#include "graph/graph.h"
#include "ops/common/batch_norm_parts.h"

static hr_status batch_norm_inference_infer(hri_infer *c) {
    const hr_shape *x = &c->in[0].shape;
    const int64_t channels = x->rank ? x->dim[x->rank - 1] : 0;
    if (!hr_type_is_real(c->in[0].type) || x->rank < 2) {
        return hri_infer_fail(c, "the input must be floating point, (..., C)");
    }
    for (uint32_t i = 1; i < 5; i++) {
        if (!hri_is_vector(&c->in[i], channels)) {
            return hri_infer_fail(c, "gamma, beta, mean and var must be (C), floating point");
        }
    }
    c->out[0] = c->in[0];
    return HR_OK;
}

/* The same op serves its gradients: scaling is y without shift, and xhat is y with gamma 1 and beta 0. */
static void batch_norm_inference_grad(hri_grad *c) {
    const hri_sig *s = c->sig;
    const hr_shape *vector = &s->in[1].shape;
    const hr_value zero = hr_graph_fill(c->g, HR_TYPE_F32, *vector, 0.0);
    for (uint32_t i = 1; i < 3; i++) {
        if (HRI_NEEDS(c, i) && s->in[i].type != s->in[0].type) {
            hri_graph_fail(c->g, HR_E_UNSUPPORTED,
                           "batch_norm_inference: gradients of gamma and beta need the type of x");
            return;
        }
    }
    if (HRI_NEEDS(c, 0)) {
        c->din[0] = HRI_NODE(c->g, "batch_norm_inference", s->attr, c->dout[0], c->in[1], zero,
                             zero, c->in[4]);
    }
    if (HRI_NEEDS(c, 1)) {
        const hr_value one = hr_graph_fill(c->g, HR_TYPE_F32, *vector, 1.0);
        const hr_value xhat = HRI_NODE(c->g, "batch_norm_inference", s->attr, c->in[0], one, zero,
                                       c->in[3], c->in[4]);
        c->din[1] = hri_sum_to(c->g, HRI_NODE(c->g, "mul", NULL, c->dout[0], xhat), c->in[1]);
    }
    if (HRI_NEEDS(c, 2)) {
        c->din[2] = hri_sum_to(c->g, c->dout[0], c->in[2]);
    }
}

static uint64_t batch_norm_inference_workspace(const hri_sig *s, uint32_t threads) {
    (void)threads;
    return 2 * (uint64_t)s->in[1].shape.dim[0] * sizeof(float);
}

static hr_status batch_norm_inference_host(const hri_call *c) {
    const hri_batch_norm_attr *attr = c->sig->attr;
    const int64_t channels = c->sig->in[1].shape.dim[0];
    float *scale = c->workspace;
    for (int64_t k = 0; k < channels; k++) {
        float at[4];
        for (uint32_t i = 0; i < 4; i++) {
            at[i] = hri_real_at(c->sig->in[i + 1].type, c->in[i + 1], k);
        }
        const float inv = (float)(1.0 / sqrt((double)at[3] + attr->eps));
        const hri_bn_line line = hri_bn_line_of(at[0], at[1], at[2], inv);
        scale[k] = line.a;
        scale[channels + k] = line.b;
    }
    hri_batch_norm_apply(c, scale, NULL, 0);
    return HR_OK;
}

static void batch_norm_inference_cost(const hri_sig *s, hri_cost *cost) {
    cost->flops = 2.0 * (double)hr_shape_count(&s->in[0].shape);
}

static const hri_case batch_norm_inference_cases[] = {
    {"odd", "f32[3,5,19] f32[19] f32[19] f32[19] f32[19]", .low = 0.1, .high = 2, .batched = 1},
    {"wide", "f32[2,2,300] f32[300] f32[300] f32[300] f32[300]", "eps=0.1", .low = 0.1, .high = 2},
    {"empty", "f32[0,3] f32[3] f32[3] f32[3] f32[3]", .low = 0.1, .high = 2},
    {"bf16", "bf16[5,7] bf16[7] bf16[7] f32[7] f32[7]", .low = 0.1, .high = 2},
    {"f16", "f16[5,7] f16[7] f16[7] f32[7] f32[7]", .low = 0.1, .high = 2},
    {"mean of another width", "f32[5,7] f32[7] f32[7] f32[6] f32[7]", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_batch_norm_inference = {
    .name = "batch_norm_inference",
    .formula = "y = (x - mean) / sqrt(var + eps) * gamma + beta",
    .in_min = 5,
    .in_max = 5,
    .out_count = 1,
    .fields = hri_batch_norm_fields,
    .attr_bytes = sizeof(hri_batch_norm_attr),
    .infer = batch_norm_inference_infer,
    .grad = batch_norm_inference_grad,
    .no_grad = 24,
    .keeps = {{.in = 18}, {.in = 27}, {.in = 0}},
    .overwrite = {1},
    .cost = batch_norm_inference_cost,
    .host = {.run = batch_norm_inference_host, .workspace = batch_norm_inference_workspace},
    .cases = HRI_CASES(batch_norm_inference_cases),
};

const hri_kernel hri_kernel_cuda_batch_norm_inference = {
    .launch = hri_batch_norm_inference_cuda,
    .launch_workspace = hri_batch_norm_inference_cuda_workspace,
};
