/* stop_gradient(x) = x, through which no gradient flows: torch's detach.  A view: when input and output share their memory
 * there is nothing to do. */
#include "graph/op.h"

#include <string.h>

static hr_status stop_gradient_infer(hri_infer *c) {
    c->out[0] = c->in[0];
    return HR_OK;
}

static hr_status stop_gradient_host(const hri_call *c) {
    if (c->out[0] != c->in[0]) {
        memcpy(c->out[0], c->in[0], hr_meta_bytes(&c->sig->out[0]));
    }
    return HR_OK;
}

static hr_status stop_gradient_cuda(const hri_gpu_call *c) {
    const uint64_t bytes = hr_meta_bytes(&c->sig->out[0]);
    return c->out[0] == c->in[0] || bytes == 0 ? HR_OK
                                               : hri_gpu_copy(c->gpu, c->out[0], c->in[0], bytes);
}

static const hri_case stop_gradient_cases[] = {
    {"odd", "f32[7,33]", .batched = 1},
    {"scalar", "f32[]"},
    {"empty", "f32[0,3]"},
    {"bf16", "bf16[7]"},
    {"f16", "f16[7]"},
    {"integers", "i32[3,4]", .negative = 1},
    {"two inputs", "f32[3] f32[3]", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_stop_gradient = {
    .name = "stop_gradient",
    .formula = "y = x, dx = 0",
    .in_min = 1,
    .in_max = 1,
    .out_count = 1,
    .infer = stop_gradient_infer,
    .no_grad = 1,
    .overwrite = {1},
    .view = 1,
    .host = {.run = stop_gradient_host},
    .cases = HRI_CASES(stop_gradient_cases),
};

const hri_kernel hri_kernel_cuda_stop_gradient = {.launch = stop_gradient_cuda};
