/* update_factor(sum [, scale]; clip) -> factor, norm: what the updates multiply their gradients by.
 *
 *   norm   = sqrt(sum) / scale                        sum: of the squares of all gradients, times scale^2
 *   factor = min(1, clip / (norm + 1e-6)) / scale     clip 0: no clipping; torch's clip_grad_norm_
 *   factor = 0 when norm is not finite                the updates then leave everything as it is
 *
 * All are scalars f32; scale is the loss scale.  One place decides for all weights, so a step is done or skipped as a
 * whole. */
#include <math.h>

#include "ops/common/launch.h"

typedef struct update_factor_attr {
    double clip;
} update_factor_attr;

static const hri_field update_factor_fields[] = {
    {"clip", "largest norm; 0: any", offsetof(update_factor_attr, clip), HRI_FIELD_DOUBLE, "0",
     .min = 0, .max = 1e30},
    {0},
};

static hr_status update_factor_host(const hri_call *c) {
    const double clip = ((const update_factor_attr *)c->sig->attr)->clip;
    const double scale = c->sig->in_count > 1 ? (double)*(const float *)c->in[1] : 1.0;
    const double norm = sqrt((double)*(const float *)c->in[0]) / scale;
    const double limit = clip > 0.0 ? clip / (norm + 1e-6) : 1.0;
    *(float *)c->out[0] = isfinite(norm) ? (float)((limit < 1.0 ? limit : 1.0) / scale) : 0.0f;
    *(float *)c->out[1] = (float)norm;
    return HR_OK;
}

HRI_CU(square_sum);

static hr_status update_factor_cuda(const hri_gpu_call *c) {
    hr_addr sum = c->in[0], scale = c->sig->in_count > 1 ? c->in[1] : 0;
    hr_addr factor = c->out[0], norm = c->out[1];
    double clip = ((const update_factor_attr *)c->sig->attr)->clip;
    return hri_gpu_launch(c->gpu, &hri_cu_square_sum, NULL, "update_factor",
                          &(hri_gpu_grid){.x = 1, .threads = 32},
                          HRI_GPU_ARGS(&sum, &scale, &factor, &norm, &clip));
}

static hr_status update_factor_infer(hri_infer *c) {
    for (uint32_t i = 0; i < c->in_count; i++) {
        if (c->in[i].type != HR_TYPE_F32 || c->in[i].shape.rank != 0) {
            return hri_infer_fail(c, "input %u must be a scalar f32", i);
        }
    }
    c->out[0] = c->out[1] = (hr_meta){.type = HR_TYPE_F32};
    return HR_OK;
}

static hri_samples update_factor_samples(const hri_sig *s, uint32_t batched) {
    (void)s;
    return batched ? HRI_SAMPLES_COUPLED : HRI_SAMPLES_APART;
}

static const hri_case update_factor_cases[] = {
    {"no clipping", "f32[]", .low = 4, .high = 5, .flags = HRI_CASE_NO_GRAD},
    {"clipped", "f32[]", "clip=0.5", .low = 4, .high = 5, .flags = HRI_CASE_NO_GRAD},
    {"below the limit", "f32[]", "clip=3", .low = 4, .high = 5, .flags = HRI_CASE_NO_GRAD},
    {"scaled", "f32[] f32[]", "clip=0.5", .low = 4, .high = 5, .flags = HRI_CASE_NO_GRAD},
    {"not finite", "f32[]", "clip=0.5", .low = -5, .high = -4, .flags = HRI_CASE_NO_GRAD},
    {"a vector", "f32[1]", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_update_factor = {
    .name = "update_factor",
    .formula = "factor = min(1, clip / norm) / scale, 0 if not finite; norm = sqrt(sum) / scale",
    .in_min = 1,
    .in_max = 2,
    .out_count = 2,
    .fields = update_factor_fields,
    .attr_bytes = sizeof(update_factor_attr),
    .infer = update_factor_infer,
    .samples = update_factor_samples,
    .host = {.run = update_factor_host},
    .cases = HRI_CASES(update_factor_cases),
};

const hri_kernel hri_kernel_cuda_update_factor = {.launch = update_factor_cuda};
