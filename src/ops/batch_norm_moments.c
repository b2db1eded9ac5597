/* batch_norm_moments(x; eps) -> mean, inv: the first half of batch_norm, one pass over x.
 *
 *   mean_c = mean of x over all but the last dimension   inv_c = 1 / sqrt(var_c + eps)
 *
 * batch_norm_apply is the second half.  Apart from one another, the two let a planner make y again from x with the
 * statistics that it has kept (a few bytes), in two passes over memory instead of three.  No gradient flows through
 * here: that of batch_norm_apply is the gradient of both halves. */
#include "ops/common/batch_norm.h"

#include "ops/common/batch_norm_parts.h"

static hr_status batch_norm_moments_infer(hri_infer *c) {
    const hr_shape *x = &c->in[0].shape;
    const int64_t channels = x->rank ? x->dim[x->rank - 1] : 0;
    if (!hr_type_is_real(c->in[0].type) || x->rank < 2) {
        return hri_infer_fail(c, "expected x (..., C) of a floating-point type");
    }
    if (channels && hr_shape_count(x) == 0) {
        return hri_infer_fail(c, "there is no row to take the mean of");
    }
    c->out[0] = c->out[1] = (hr_meta){HR_TYPE_F32, hr_shape_from(1, &channels)};
    return HR_OK;
}

static void batch_norm_moments_cost(const hri_sig *s, hri_cost *cost) {
    cost->flops = 3.0 * (double)hr_shape_count(&s->in[0].shape);
}

static hr_status batch_norm_moments_host(const hri_call *c) {
    const hri_batch_norm_attr *attr = c->sig->attr;
    hri_batch_norm_moments(c, attr->eps, c->out[0], c->out[1]);
    return HR_OK;
}

static const hri_case batch_norm_moments_cases[] = {
    {"odd", "f32[3,5,7,19]"},
    {"many rows", "f32[4,33,29,35]", "eps=0.01"},
    {"a large mean", "f32[1000,3]", .low = 1000, .high = 1001},
    {"bf16", "bf16[3,4,4,17]"},
    {"f16", "f16[3,4,4,17]"},
    {"no rows", "f32[0,5]", .flags = HRI_CASE_BAD},
    {"integers", "i32[3,5]", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_batch_norm_moments = {
    .name = "batch_norm_moments",
    .formula = "mean = mean(x); inv = 1 / sqrt(var(x) + eps)",
    .in_min = 1,
    .in_max = 1,
    .out_count = 2,
    .fields = hri_batch_norm_fields,
    .attr_bytes = sizeof(hri_batch_norm_attr),
    .infer = batch_norm_moments_infer,
    .samples = hri_batch_norm_samples,
    .cost = batch_norm_moments_cost,
    .host = {.run = batch_norm_moments_host, .workspace = hri_batch_norm_workspace},
    .cases = HRI_CASES(batch_norm_moments_cases),
};

const hri_kernel hri_kernel_cuda_batch_norm_moments = {
    .launch = hri_batch_norm_moments_cuda,
    .launch_workspace = hri_batch_norm_cuda_workspace,
};
