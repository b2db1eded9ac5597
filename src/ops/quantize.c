/* quantize(x, scale, zero): y = x / scale + zero as bytes, rounded to the nearest (even on ties), held in 0 .. 255.
 *
 *   x f32 (...)   scale f32 ()   zero u8 ()   y u8 (...)
 *
 * NaN becomes 0.  common/requantize.h has the rounding. */
#include "ops/common/launch.h"
#include "ops/common/quantized.h"
#include "ops/common/requantize.h"

static hr_status quantize_infer(hri_infer *c) {
    if (c->in[0].type != HR_TYPE_F32 || !hri_is_range(c, 1)) {
        return hri_infer_fail(c, "the inputs must be f32, an f32 scalar and a u8 scalar");
    }
    c->out[0] = (hr_meta){HR_TYPE_U8, c->in[0].shape};
    return HR_OK;
}

static void quantize_range(void *arg, uint64_t begin, uint64_t end, uint32_t worker) {
    const hri_call *c = arg;
    const float scale = hri_scale_at(c, 1);
    const int32_t zero = hri_zero_at(c, 2);
    const float *x = c->in[0];
    uint8_t *restrict y = c->out[0];
    (void)worker;
    for (uint64_t i = begin; i < end; i++) {
        y[i] = hri_quantize(x[i], scale, zero);
    }
}

static hr_status quantize_host(const hri_call *c) {
    hri_call call = *c;
    hri_threads_range(c->threads, (uint64_t)hr_shape_count(&c->sig->in[0].shape), 16384,
                      quantize_range, &call);
    return HR_OK;
}

HRI_CU(bytes_i8);

static hr_status quantize_cuda(const hri_gpu_call *c) {
    int64_t count = hr_shape_count(&c->sig->in[0].shape);
    hr_addr x = c->in[0], scale = c->in[1], zero = c->in[2], y = c->out[0];
    return count ? hri_gpu_launch(
                       c->gpu, &hri_cu_bytes_i8, "", "quantize",
                       &(hri_gpu_grid){.x = hri_launch_blocks(count, 1024), .threads = 256},
                       HRI_GPU_ARGS(&x, &scale, &zero, &y, &count))
                 : HR_OK;
}

static const hri_case quantize_cases[] = {
    {"some", "f32[7,33] f32[] u8[]", .low = 0.01, .high = 1, .ids = 256, .batched = 1},
    {"small scale", "f32[3,5001] f32[] u8[]", .low = 0.001, .high = 0.2, .ids = 256},
    {"one number", "f32[] f32[] u8[]", .low = 0.1, .high = 2},
    {"nothing", "f32[0,3] f32[] u8[]", .low = 0.1, .high = 1},
    {"a scale for each", "f32[3] f32[3] u8[]", .flags = HRI_CASE_BAD},
    {"bytes", "u8[3] f32[] u8[]", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_quantize = {
    .name = "quantize",
    .formula = "y = x / scale + zero, as bytes",
    .in_min = 3,
    .in_max = 3,
    .out_count = 1,
    .infer = quantize_infer,
    .host = {.run = quantize_host},
    .cases = HRI_CASES(quantize_cases),
};

const hri_kernel hri_kernel_cuda_quantize = {.launch = quantize_cuda};
