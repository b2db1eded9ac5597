/* range_scale(range; begin, keep, evaluate): scale and zero point of a learned range (common/learned_range.h).
 *
 *   range f32 (6)   y f32 (2): scale, zero point; a scale of 0: there is nothing to quantize by yet
 *
 * In training those of this step, from step `begin` on; with `evaluate` those after all steps, if step `begin` was one of them. */
#include "ops/common/learned_range.h"

#include "ops/common/launch.h"

typedef struct range_scale_attr {
    int64_t begin;
    double keep;
    bool evaluate;
} range_scale_attr;

static const hri_field range_scale_fields[] = {
    {"begin", "first step with a scale", offsetof(range_scale_attr, begin), HRI_FIELD_INT, "0",
     .min = 0, .max = 4294967295.0},
    {"keep", "weight of the average before a step", offsetof(range_scale_attr, keep),
     HRI_FIELD_DOUBLE, "0.99", .min = 0, .max = 1},
    {"evaluate", "the range after all steps", offsetof(range_scale_attr, evaluate), HRI_FIELD_BOOL,
     NULL},
    {0},
};

static hr_status range_scale_infer(hri_infer *c) {
    if (c->in[0].type != HR_TYPE_F32 || c->in[0].shape.rank != 1 ||
        c->in[0].shape.dim[0] != HRI_LEARNED_RANGE) {
        return hri_infer_fail(c, "a learned range is f32[%d]", HRI_LEARNED_RANGE);
    }
    c->out[0] = (hr_meta){HR_TYPE_F32, hr_shape_1(2)};
    return HR_OK;
}

static hr_status range_scale_host(const hri_call *c) {
    const range_scale_attr *p = c->sig->attr;
    const float *range = c->in[0];
    float *y = c->out[0], bounds[2] = {0.0f, 0.0f};
    const double step = p->evaluate ? -2.0 : (double)c->step;
    if ((p->evaluate ? hri_learned_step(range) : step) >= (double)p->begin) {
        hri_learned_bounds(range, step, p->keep, bounds);
    }
    hri_learned_scale(bounds, &y[0], &y[1]);
    return HR_OK;
}

HRI_CU(fake_quantize);

static hr_status range_scale_cuda(const hri_gpu_call *c) {
    const range_scale_attr *p = c->sig->attr;
    hr_addr range = c->in[0], y = c->out[0], control = c->control;
    double begin = (double)p->begin, keep = p->keep;
    uint32_t evaluate = p->evaluate;
    return hri_gpu_launch(c->gpu, &hri_cu_fake_quantize, "", "range_scale",
                          &(hri_gpu_grid){.x = 1, .threads = 32},
                          HRI_GPU_ARGS(&range, &y, &control, &begin, &keep, &evaluate));
}

static const hri_case range_scale_cases[] = {
    {"nothing seen", "f32[6]", .low = -2, .high = 0.9},
    {"seen", "f32[6]", .low = 1, .high = 2, .flags = HRI_CASE_NO_GRAD},
    {"below 0", "f32[6]", "keep=0.5", .low = -3, .high = 3, .flags = HRI_CASE_NO_GRAD},
    {"evaluate", "f32[6]", "evaluate", .low = 1, .high = 9, .flags = HRI_CASE_NO_GRAD},
    {"not yet", "f32[6]", "begin=1000000", .low = 1, .high = 2},
    {"too long", "f32[7]", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_range_scale = {
    .name = "range_scale",
    .formula = "y = scale and zero point of the range",
    .in_min = 1,
    .in_max = 1,
    .out_count = 1,
    .fields = range_scale_fields,
    .attr_bytes = sizeof(range_scale_attr),
    .infer = range_scale_infer,
    .aux = 1,
    .no_grad = 1,
    .random = 1, /* reads the number of the step */
    .host = {.run = range_scale_host},
    .cases = HRI_CASES(range_scale_cases),
};

const hri_kernel hri_kernel_cuda_range_scale = {.launch = range_scale_cuda};
