/* An op on a GPU: its own launches, or a kernel made from its scalar expression. */
#include "graph/op.h"

hr_status hri_op_launch(const hri_gpu_call *c) {
    const hr_op *op = c->sig->op;
    return op->cuda ? op->cuda(c) : HR_E_UNSUPPORTED;
}

uint64_t hri_op_launch_workspace(const hri_sig *s, hri_gpu *gpu, uint32_t variant) {
    return s->op->cuda_workspace ? s->op->cuda_workspace(s, gpu, variant) : 0;
}
