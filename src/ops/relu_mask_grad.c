/* relu_mask_grad(dy, mask) = dy where the bit is set, else 0: the gradient of relu_mask. */
#include "ops/common/launch.h"
#include "ops/common/rows.h"

static hr_status relu_mask_grad_infer(hri_infer *c) {
    const hr_shape *dy = &c->in[0].shape, *mask = &c->in[1].shape;
    int64_t each = 1;
    for (int d = 1; d < dy->rank; d++) {
        each *= dy->dim[d];
    }
    if (!hr_type_is_real(c->in[0].type) || c->in[1].type != HR_TYPE_U8) {
        return hri_infer_fail(c, "the gradient must be floating point, the mask u8");
    }
    if (mask->rank != 2 || mask->dim[0] != (dy->rank ? dy->dim[0] : 1) ||
        mask->dim[1] != each / 8 + !!(each % 8)) {
        return hri_infer_fail(c, "the mask is not of the gradient's shape");
    }
    c->out[0] = c->in[0];
    return HR_OK;
}

#define BYTE(S, ZERO)                                                                              \
    {                                                                                              \
        const S *x = (const S *)c->in[0] + at;                                                     \
        S *y = (S *)c->out[0] + at;                                                                \
        for (int64_t k = 0; k < n; k++) {                                                          \
            y[k] = bits >> k & 1u ? x[k] : ZERO;                                                   \
        }                                                                                          \
    }

/* Range over bytes of the mask. */
static void relu_mask_grad_range(void *arg, uint64_t begin, uint64_t end, uint32_t worker) {
    const hri_call *c = arg;
    const int64_t row_bytes = c->sig->in[1].shape.dim[1];
    const int64_t each = hr_shape_count(&c->sig->in[0].shape) / c->sig->in[1].shape.dim[0];
    (void)worker;
    for (int64_t i = (int64_t)begin; i < (int64_t)end; i++) {
        const int64_t first = i % row_bytes * 8, at = i / row_bytes * each + first;
        const int64_t n = each - first < 8 ? each - first : 8;
        const unsigned bits = ((const uint8_t *)c->in[1])[i];
        if (hr_type_bytes(c->sig->in[0].type) == 4) {
            BYTE(float, 0.0f)
        } else {
            BYTE(uint16_t, 0) /* 0 has no bits in bf16 and f16 */
        }
    }
}

static hr_status relu_mask_grad_host(const hri_call *c) {
    hri_call call = *c;
    hri_threads_range(c->threads, (uint64_t)hr_shape_count(&c->sig->in[1].shape), 4096,
                      relu_mask_grad_range, &call);
    return HR_OK;
}

HRI_CU(relu_mask);

static hr_status relu_mask_grad_cuda(const hri_gpu_call *c) {
    enum { THREADS = 256 };
    const hr_shape *shape = &c->sig->in[1].shape;
    hr_addr x = c->in[0], y = c->out[0], mask = c->in[1];
    int64_t bytes = hr_shape_count(shape), row_bytes = shape->dim[1];
    if (bytes == 0) {
        return HR_OK;
    }
    int64_t each = hr_shape_count(&c->sig->in[0].shape) / shape->dim[0];
    uint32_t wide = each % 8 == 0 && hri_launch_wide(x | y);
    return hri_gpu_launch(
        c->gpu, &hri_cu_relu_mask, hri_launch_t(c->sig->in[0].type, 1).text, "relu_mask_grad",
        &(hri_gpu_grid){.x = hri_launch_blocks(bytes, THREADS), .threads = THREADS},
        HRI_GPU_ARGS(&x, &mask, &y, &bytes, &row_bytes, &each, &wide));
}

static const hri_case relu_mask_grad_cases[] = {
    {"scalar", "f32[] u8[1,1]", .ids = 256},
    {"odd", "f32[7,33] u8[7,5]", .ids = 256, .batched = 3},
    {"bytes", "f32[5,16] u8[5,2]", .ids = 256},
    {"images", "f32[2,3,5,7] u8[2,14]", .ids = 256},
    {"large", "f32[3,40001] u8[3,5001]", .ids = 256},
    {"empty", "f32[0,3] u8[0,1]"},
    {"bf16", "bf16[7,9] u8[7,2]", .ids = 256},
    {"f16", "f16[7,9] u8[7,2]", .ids = 256},
    {"wide, bf16", "bf16[6,64] u8[6,8]", .ids = 256},
    {"wide, f16", "f16[3,2,520] u8[3,130]", .ids = 256},
    {"mask of another shape", "f32[7,9] u8[7,1]", .flags = HRI_CASE_BAD},
    {"mask of another type", "f32[7,9] i32[7,2]", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_relu_mask_grad = {
    .name = "relu_mask_grad",
    .formula = "dx = mask ? dy : 0",
    .in_min = 2,
    .in_max = 2,
    .out_count = 1,
    .infer = relu_mask_grad_infer,
    .overwrite = {1},
    .host = {.run = relu_mask_grad_host},
    .cases = HRI_CASES(relu_mask_grad_cases),
};

const hri_kernel hri_kernel_cuda_relu_mask_grad = {.launch = relu_mask_grad_cuda};
