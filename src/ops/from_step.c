/* from_step(x; step): ones from step `step` on, zeros before; like x.  For what changes in the course of a run. */
#include "ops/common/launch.h"

typedef struct from_step_attr {
    int64_t step;
} from_step_attr;

static const hri_field from_step_fields[] = {
    {"step", "first step of ones", offsetof(from_step_attr, step), HRI_FIELD_INT, "0", .min = 0,
     .max = 4294967295.0},
    {0},
};

static hr_status from_step_infer(hri_infer *c) {
    if (c->in[0].type != HR_TYPE_F32) {
        return hri_infer_fail(c, "the input is %s, not f32", hr_type_name(c->in[0].type));
    }
    c->out[0] = c->in[0];
    return HR_OK;
}

static hr_status from_step_host(const hri_call *c) {
    const from_step_attr *p = c->sig->attr;
    float *y = c->out[0];
    for (int64_t i = 0, n = hr_shape_count(&c->sig->in[0].shape); i < n; i++) {
        y[i] = (int64_t)c->step >= p->step ? 1.0f : 0.0f;
    }
    return HR_OK;
}

HRI_CU(fake_quantize);

static hr_status from_step_cuda(const hri_gpu_call *c) {
    const from_step_attr *p = c->sig->attr;
    hr_addr y = c->out[0], control = c->control;
    int64_t count = hr_shape_count(&c->sig->in[0].shape), step = p->step;
    return count
               ? hri_gpu_launch(c->gpu, &hri_cu_fake_quantize, "", "from_step",
                                &(hri_gpu_grid){.x = hri_launch_blocks(count, 256), .threads = 256},
                                HRI_GPU_ARGS(&y, &control, &count, &step))
               : HR_OK;
}

static const hri_case from_step_cases[] = {
    {"from the beginning", "f32[7,33]"},
    {"not yet", "f32[5]", "step=1000000"},
    {"nothing", "f32[0,3]"},
    {"integers", "i32[3]", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_from_step = {
    .name = "from_step",
    .formula = "y = this step >= step",
    .in_min = 1,
    .in_max = 1,
    .out_count = 1,
    .fields = from_step_fields,
    .attr_bytes = sizeof(from_step_attr),
    .infer = from_step_infer,
    .no_grad = 1,
    .random = 1, /* reads the number of the step */
    .host = {.run = from_step_host},
    .cases = HRI_CASES(from_step_cases),
};

const hri_kernel hri_kernel_cuda_from_step = {.launch = from_step_cuda};
