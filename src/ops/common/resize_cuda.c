/* The launches of resize and its gradient on a GPU (src/ops/cuda/resize.cu). */
#include "ops/common/gpu.h"
#include "ops/common/resize.h"

HRI_CU(resize);

/* `small` has the sizes of resize's input, `large` those of its output; `to` is the one that is written. */
static hr_status launch(const hri_gpu_call *c, const char *kernel, const hr_shape *small,
                        const hr_shape *large, const hr_shape *to) {
    enum { THREADS = 256 };
    const hr_type type = c->sig->in[0].type;
    const int bilinear = ((const hri_resize_attr *)c->sig->attr)->mode; /* as the kernel counts */
    hr_addr in = c->in[0], out = c->out[0];
    int32_t h = (int32_t)small->dim[1], w = (int32_t)small->dim[2], channels = (int32_t)to->dim[3];
    int32_t oh = (int32_t)large->dim[1], ow = (int32_t)large->dim[2];
    char defines[96];
    if (hr_shape_count(to) == 0) {
        return HR_OK;
    }
    const int pack = hri_gpu_pack(type, channels);
    const hri_gpu_grid grid = hri_gpu_rows(
        to->dim[0] * to->dim[1], hri_gpu_up(to->dim[2] * (channels / pack), THREADS), THREADS);
    snprintf(defines, sizeof defines, "-DELEM=%s -DPACK=%d -DBILINEAR=%d", hri_gpu_type(type), pack,
             bilinear);
    return hri_gpu_launch(c->gpu, &hri_cu_resize, defines, kernel, &grid,
                          HRI_GPU_ARGS(&in, &out, &h, &w, &oh, &ow, &channels));
}

hr_status hri_resize_cuda(const hri_gpu_call *c) {
    return launch(c, "resize", &c->sig->in[0].shape, &c->sig->out[0].shape, &c->sig->out[0].shape);
}

hr_status hri_resize_grad_cuda(const hri_gpu_call *c) {
    return launch(c, "resize_grad", &c->sig->out[0].shape, &c->sig->in[0].shape,
                  &c->sig->out[0].shape);
}
