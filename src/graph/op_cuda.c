/* An op on a GPU: its own launches, a kernel made from its scalar expression, or for a view a copy of its bytes. */
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

hr_status hri_op_launch(const hri_gpu_call *c) {
    const hr_op *op = c->sig->op;
    if (op->cuda) {
        return op->cuda(c);
    }
    if (op->scalar) {
        return launch_scalar(c);
    }
    if (op->view) {
        return c->in[0] == c->out[0]
                   ? HR_OK
                   : hri_gpu_copy(c->gpu, c->out[0], c->in[0], hr_meta_bytes(&c->sig->out[0]));
    }
    return HR_E_UNSUPPORTED;
}

uint64_t hri_op_launch_workspace(const hri_sig *s, hri_gpu *gpu, uint32_t variant) {
    return s->op->cuda_workspace ? s->op->cuda_workspace(s, gpu, variant) : 0;
}
