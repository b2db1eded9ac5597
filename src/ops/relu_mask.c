/* relu_mask(x) = relu(x), and one bit an element that says where x > 0.
 *
 *   y     like x
 *   mask  u8 (N, (M + 7) / 8) for x (N, M...): bit k % 8 of byte k / 8 is element k of a sample
 *
 * For places where nothing else keeps y: the gradient reads the mask alone, 1/32 of y in f32.  Where y is kept anyway
 * (the next op is a product), relu is the better choice.  NaN stays NaN, and its bit is 0. */
#include "ops/common/launch.h"
#include "ops/common/rows.h"

static hr_status relu_mask_infer(hri_infer *c) {
    const hr_shape *x = &c->in[0].shape;
    if (!hr_type_is_real(c->in[0].type)) {
        return hri_infer_fail(c, "the input is %s, not a floating-point type",
                              hr_type_name(c->in[0].type));
    }
    int64_t each = 1;
    for (int d = 1; d < x->rank; d++) {
        each *= x->dim[d];
    }
    c->out[0] = c->in[0];
    c->out[1] = (hr_meta){HR_TYPE_U8,
                          {.rank = 2, .dim = {x->rank ? x->dim[0] : 1, each / 8 + !!(each % 8)}}};
    return HR_OK;
}

static void relu_mask_grad(hri_grad *c) {
    c->din[0] = HRI_NODE(c->g, "relu_mask_grad", NULL, c->dout[0], c->out[1]);
}

#define BYTE(S, LOAD, ZERO)                                                                        \
    {                                                                                              \
        const S *x = (const S *)c->in[0] + at;                                                     \
        S *y = (S *)c->out[0] + at;                                                                \
        for (int64_t k = 0; k < n; k++) {                                                          \
            const float v = LOAD(x[k]);                                                            \
            bits |= (unsigned)(v > 0.0f) << k;                                                     \
            y[k] = v < 0.0f ? ZERO : x[k];                                                         \
        }                                                                                          \
    }
#define SAME(X) (X)

/* Range over bytes of the mask. */
static void relu_mask_range(void *arg, uint64_t begin, uint64_t end, uint32_t worker) {
    const hri_call *c = arg;
    const int64_t row_bytes = c->sig->out[1].shape.dim[1];
    const int64_t each = hr_shape_count(&c->sig->in[0].shape) / c->sig->out[1].shape.dim[0];
    (void)worker;
    for (int64_t i = (int64_t)begin; i < (int64_t)end; i++) {
        const int64_t first = i % row_bytes * 8, at = i / row_bytes * each + first;
        const int64_t n = each - first < 8 ? each - first : 8;
        unsigned bits = 0;
        switch (c->sig->in[0].type) {
        case HR_TYPE_F32:
            BYTE(float, SAME, 0.0f)
            break;
        case HR_TYPE_BF16:
            BYTE(hri_bf16, hri_from_bf16, (hri_bf16){0})
            break;
        default:
            BYTE(hri_f16, hri_from_f16, (hri_f16){0})
        }
        ((uint8_t *)c->out[1])[i] = (uint8_t)bits;
    }
}

static hr_status relu_mask_host(const hri_call *c) {
    hri_call call = *c;
    hri_threads_range(c->threads, (uint64_t)hr_shape_count(&c->sig->out[1].shape), 4096,
                      relu_mask_range, &call);
    return HR_OK;
}

HRI_CU(relu_mask);

static hr_status relu_mask_cuda(const hri_gpu_call *c) {
    enum { THREADS = 256 };
    const hr_shape *shape = &c->sig->out[1].shape;
    hr_addr x = c->in[0], y = c->out[0], mask = c->out[1];
    int64_t bytes = hr_shape_count(shape), row_bytes = shape->dim[1];
    if (bytes == 0) {
        return HR_OK;
    }
    int64_t each = hr_shape_count(&c->sig->in[0].shape) / shape->dim[0];
    uint32_t wide = each % 8 == 0 && hri_launch_wide(x | y);
    return hri_gpu_launch(
        c->gpu, &hri_cu_relu_mask, hri_launch_t(c->sig->in[0].type, 1).text, "relu_mask",
        &(hri_gpu_grid){.x = hri_launch_blocks(bytes, THREADS), .threads = THREADS},
        HRI_GPU_ARGS(&x, &y, &mask, &bytes, &row_bytes, &each, &wide));
}

static const hri_case relu_mask_cases[] = {
    {"scalar", "f32[]"},
    {"odd", "f32[7,33]", .batched = 1},
    {"bytes", "f32[5,16]"},
    {"images", "f32[2,3,5,7]"},
    {"numbers", "f32[9]"},
    {"large", "f32[3,40001]"},
    {"empty", "f32[0,3]"},
    {"no columns", "f32[3,0]"},
    {"bf16", "bf16[7,9]"},
    {"f16", "f16[7,9]"},
    {"wide, bf16", "bf16[6,64]"},
    {"wide, f16", "f16[3,2,520]"},
    {"integers", "i32[3]", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_relu_mask = {
    .name = "relu_mask",
    .formula = "y = max(x, 0), mask = x > 0",
    .in_min = 1,
    .in_max = 1,
    .out_count = 2,
    .infer = relu_mask_infer,
    .grad = relu_mask_grad,
    .keeps = {{.out = 2}},
    .aux = 2,
    .overwrite = {1},
    .host = {.run = relu_mask_host},
    .cases = HRI_CASES(relu_mask_cases),
};

const hri_kernel hri_kernel_cuda_relu_mask = {.launch = relu_mask_cuda};
