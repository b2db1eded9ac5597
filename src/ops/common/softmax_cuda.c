/* The launches of softmax and log_softmax on a GPU (src/ops/cuda/softmax.cu): rows in the registers of a warp or of a
 * block up to 8,192 numbers, longer ones read again, columns where the dimension is not the last. */
#include "ops/common/softmax.h"

#include "ops/common/gpu.h"

HRI_CU(softmax);

enum { THREADS = 256, HELD = 32 };

typedef struct cut {
    int64_t outer, length, inner;
    hri_gpu_grid grid;
    char defines[128];
} cut;

static cut cut_of(const hri_gpu_call *c, int logs) {
    const hr_meta *x = &c->sig->in[0];
    const int64_t given = ((const hri_softmax_attr *)c->sig->attr)->axis;
    const int axis = (int)(given < 0 ? given + x->shape.rank : given);
    cut k = {.outer = 1, .length = x->shape.dim[axis], .inner = 1};
    for (int d = 0; d < x->shape.rank; d++) {
        k.outer *= d < axis ? x->shape.dim[d] : 1;
        k.inner *= d > axis ? x->shape.dim[d] : 1;
    }
    const int rows = k.inner == 1;
    const int pack = rows ? hri_gpu_pack(x->type, k.length) : 1;
    const int64_t packs = k.length / pack;
    const int row = hri_gpu_up(packs, 32) * pack <= HELD ? 32 : THREADS;
    const int keep = hri_gpu_up(packs, row) * pack <= HELD ? (int)hri_gpu_up(packs, row) : 0;
    const int64_t blocks =
        rows ? hri_gpu_up(k.outer, THREADS / row) : hri_gpu_up(k.outer * k.inner, THREADS);
    k.grid = (hri_gpu_grid){.x = (uint32_t)blocks, .threads = THREADS};
    snprintf(k.defines, sizeof k.defines, "-DELEM=%s -DPACK=%d -DLOGS=%d -DROW=%d -DKEEP=%d",
             hri_gpu_type(x->type), pack, logs, row, rows ? keep : 1);
    return k;
}

hr_status hri_softmax_cuda(const hri_gpu_call *c, int logs) {
    cut k = cut_of(c, logs);
    hr_addr x = c->in[0], y = c->out[0];
    if (k.outer * k.length * k.inner == 0) {
        return HR_OK;
    }
    return k.inner == 1
               ? hri_gpu_launch(c->gpu, &hri_cu_softmax, k.defines, "softmax_rows", &k.grid,
                                HRI_GPU_ARGS(&x, &y, &k.outer, &k.length))
               : hri_gpu_launch(c->gpu, &hri_cu_softmax, k.defines, "softmax_columns", &k.grid,
                                HRI_GPU_ARGS(&x, &y, &k.outer, &k.length, &k.inner));
}

hr_status hri_softmax_grad_cuda(const hri_gpu_call *c, int logs) {
    cut k = cut_of(c, logs);
    hr_addr dy = c->in[0], y = c->in[1], dx = c->out[0];
    if (k.outer * k.length * k.inner == 0) {
        return HR_OK;
    }
    return k.inner == 1
               ? hri_gpu_launch(c->gpu, &hri_cu_softmax, k.defines, "softmax_rows_grad", &k.grid,
                                HRI_GPU_ARGS(&dy, &y, &dx, &k.outer, &k.length))
               : hri_gpu_launch(c->gpu, &hri_cu_softmax, k.defines, "softmax_columns_grad", &k.grid,
                                HRI_GPU_ARGS(&dy, &y, &dx, &k.outer, &k.length, &k.inner));
}
