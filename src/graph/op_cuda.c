/* The kernels of CUDA: those that stand in src/ops (hri_kernel_cuda_<op>, listed by the build; their text is in src/ops/cuda),
 * else one made from the op's scalar expression, else for a view a copy of its bytes. */
#include "graph/op.h"

static hr_status launch_scalar(const hri_gpu_call *c) {
    hri_chain_operand operands[3];
    hri_chain_step step = {.sig = c->sig, .out = c->out[0]};
    const uint32_t count = c->sig->op->scalar->arity;
    for (uint32_t i = 0; i < count; i++) {
        operands[i] = (hri_chain_operand){c->in[i], &c->sig->in[i]};
        step.in[i] = (int32_t)i;
    }
    return hri_chain_launch(c->gpu, operands, count, &step, 1);
}

static hr_status launch_view(const hri_gpu_call *c) {
    return c->in[0] == c->out[0]
               ? HR_OK
               : hri_gpu_copy(c->gpu, c->out[0], c->in[0], hr_meta_bytes(&c->sig->out[0]));
}

const hri_kernel hri_kernel_scalar = {.launch = launch_scalar};
static const hri_kernel view_kernel = {.launch = launch_view};

static const hri_kernel *made_kernel(const hri_sig *s) {
    return s->op->scalar ? &hri_kernel_scalar : s->op->view ? &view_kernel : NULL;
}

extern const hri_kernel_entry hri_kernels_cuda_list[];
const hri_kernels hri_kernels_cuda = {.entries = hri_kernels_cuda_list, .general = made_kernel};
