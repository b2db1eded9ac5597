/* fake_quantize(x, range): x as it is after being bytes, and one bit an element that says where x was within their range.
 *
 *   x f32 (N, M...)   range f32 (2): scale and zero point (range_scale); a scale of 0 or less: y = x
 *   y = scale (held(nearest(x / scale), -zero, 255 - zero))     mask u8 (N, (M + 7) / 8), as in relu_mask
 *
 * The rounding is that of quantize and dequantize (common/requantize.h).  The gradient passes where the bit is set and is 0 elsewhere: rounding
 * counts as the identity (straight through).  NaN becomes the lower bound, and its bit is 0. */
#include "ops/common/launch.h"
#include "ops/common/requantize.h"

static hr_status fake_quantize_infer(hri_infer *c) {
    const hr_shape *x = &c->in[0].shape, *range = &c->in[1].shape;
    if (c->in[0].type != HR_TYPE_F32 || c->in[1].type != HR_TYPE_F32 || range->rank != 1 ||
        range->dim[0] != 2) {
        return hri_infer_fail(c, "the inputs must be f32, the second one of two numbers");
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

static void fake_quantize_grad(hri_grad *c) {
    if (HRI_NEEDS(c, 0)) {
        c->din[0] = HRI_NODE(c->g, "relu_mask_grad", NULL, c->dout[0], c->out[1]);
    }
}

/* Range over bytes of the mask. */
static void fake_quantize_range(void *arg, uint64_t begin, uint64_t end, uint32_t worker) {
    const hri_call *c = arg;
    const int64_t row_bytes = c->sig->out[1].shape.dim[1];
    const int64_t each = hr_shape_count(&c->sig->in[0].shape) / c->sig->out[1].shape.dim[0];
    const float scale = ((const float *)c->in[1])[0];
    const int32_t zero = hri_nearest(hri_held(((const float *)c->in[1])[1], 0.0f, 255.0f));
    const float low = -(float)zero, high = 255.0f - (float)zero;
    (void)worker;
    for (int64_t i = (int64_t)begin; i < (int64_t)end; i++) {
        const int64_t first = i % row_bytes * 8, at = i / row_bytes * each + first;
        const int64_t n = each - first < 8 ? each - first : 8;
        const float *x = (const float *)c->in[0] + at;
        float *y = (float *)c->out[0] + at;
        unsigned bits = 0;
        for (int64_t k = 0; k < n; k++) {
            const float by = scale > 0.0f ? x[k] / scale : 0.0f;
            bits |= (unsigned)(by >= low && by <= high) << k;
            y[k] =
                scale > 0.0f ? hri_dequantize(hri_quantize(x[k], scale, zero), scale, zero) : x[k];
        }
        ((uint8_t *)c->out[1])[i] = (uint8_t)bits;
    }
}

static hr_status fake_quantize_host(const hri_call *c) {
    hri_call call = *c;
    hri_threads_range(c->threads, (uint64_t)hr_shape_count(&c->sig->out[1].shape), 4096,
                      fake_quantize_range, &call);
    return HR_OK;
}

HRI_CU(fake_quantize);

static hr_status fake_quantize_cuda(const hri_gpu_call *c) {
    enum { THREADS = 256 };
    const hr_shape *shape = &c->sig->out[1].shape;
    hr_addr x = c->in[0], range = c->in[1], y = c->out[0], mask = c->out[1];
    int64_t bytes = hr_shape_count(shape), row_bytes = shape->dim[1];
    if (bytes == 0) {
        return HR_OK;
    }
    int64_t each = hr_shape_count(&c->sig->in[0].shape) / shape->dim[0];
    return hri_gpu_launch(
        c->gpu, &hri_cu_fake_quantize, "", "fake_quantize",
        &(hri_gpu_grid){.x = hri_launch_blocks(bytes, THREADS), .threads = THREADS},
        HRI_GPU_ARGS(&x, &range, &y, &mask, &bytes, &row_bytes, &each));
}

static void fake_quantize_cost(const hri_sig *s, hri_cost *cost) {
    cost->flops = 6.0 * (double)hr_shape_count(&s->in[0].shape);
}

static const hri_case fake_quantize_cases[] = {
    {"some", "f32[7,33] f32[2]", .low = 0.01, .high = 1, .flags = HRI_CASE_NO_GRAD, .batched = 1},
    {"many", "f32[3,5,1001] f32[2]", .low = -0.2, .high = 300, .flags = HRI_CASE_NO_GRAD},
    {"in packs", "f32[9,64] f32[2]", .low = 0.001, .high = 0.02, .flags = HRI_CASE_NO_GRAD},
    {"not yet", "f32[5,9] f32[2]", .low = -1, .high = -0.1},
    {"one number", "f32[] f32[2]", .low = 0.1, .high = 2, .flags = HRI_CASE_NO_GRAD},
    {"nothing", "f32[0,3] f32[2]", .low = 0.1, .high = 1},
    {"three numbers", "f32[3] f32[3]", .flags = HRI_CASE_BAD},
    {"small type", "bf16[3] f32[2]", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_fake_quantize = {
    .name = "fake_quantize",
    .formula = "y = scale round(x / scale), within 256 steps",
    .in_min = 2,
    .in_max = 2,
    .out_count = 2,
    .infer = fake_quantize_infer,
    .grad = fake_quantize_grad,
    .keeps = {{.out = 2}},
    .aux = 2,
    .no_grad = 2,
    .overwrite = {1},
    .cost = fake_quantize_cost,
    .host = {.run = fake_quantize_host},
    .cases = HRI_CASES(fake_quantize_cases),
};

const hri_kernel hri_kernel_cuda_fake_quantize = {.launch = fake_quantize_cuda};
