/* quantize_f8(x, scale): y = x / scale as codes of 8-bit floats, rounded to the nearest (even on ties), at most 448.
 *
 *   x f32 (...)   scale f32 ()   y u8 (...)
 *
 * common/float8.h has the codes. */
#include "ops/common/float8.h"
#include "ops/common/launch.h"
#include "ops/common/quantized.h"

static hr_status quantize_f8_infer(hri_infer *c) {
    if (c->in[0].type != HR_TYPE_F32 || c->in[1].type != HR_TYPE_F32 || c->in[1].shape.rank != 0) {
        return hri_infer_fail(c, "the inputs must be f32 and an f32 scalar");
    }
    c->out[0] = (hr_meta){HR_TYPE_U8, c->in[0].shape};
    return HR_OK;
}

static void quantize_f8_range(void *arg, uint64_t begin, uint64_t end, uint32_t worker) {
    const hri_call *c = arg;
    const float scale = hri_scale_at(c, 1);
    const float *x = c->in[0];
    uint8_t *restrict y = c->out[0];
    (void)worker;
    for (uint64_t i = begin; i < end; i++) {
        y[i] = hri_to_f8(x[i] / scale);
    }
}

static hr_status quantize_f8_host(const hri_call *c) {
    hri_call call = *c;
    hri_threads_range(c->threads, (uint64_t)hr_shape_count(&c->sig->in[0].shape), 16384,
                      quantize_f8_range, &call);
    return HR_OK;
}

HRI_CU(bytes_i8);

static hr_status quantize_f8_cuda(const hri_gpu_call *c) {
    int64_t count = hr_shape_count(&c->sig->in[0].shape);
    hr_addr x = c->in[0], scale = c->in[1], y = c->out[0];
    return count ? hri_gpu_launch(
                       c->gpu, &hri_cu_bytes_i8, "", "quantize_f8",
                       &(hri_gpu_grid){.x = hri_launch_blocks(count, 1024), .threads = 256},
                       HRI_GPU_ARGS(&x, &scale, &y, &count))
                 : HR_OK;
}

static const hri_case quantize_f8_cases[] = {
    {"some", "f32[7,33] f32[]", .low = -1, .high = 1, .batched = 1},
    {"saturated", "f32[3,5001] f32[]", .low = 0.001, .high = 0.9},
    {"one number", "f32[] f32[]", .low = 0.1, .high = 2},
    {"nothing", "f32[0,3] f32[]", .low = 0.1, .high = 1},
    {"a scale for each", "f32[3] f32[3]", .flags = HRI_CASE_BAD},
    {"bytes", "u8[3] f32[]", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_quantize_f8 = {
    .name = "quantize_f8",
    .formula = "y = x / scale, as codes of 8-bit floats",
    .in_min = 2,
    .in_max = 2,
    .out_count = 1,
    .infer = quantize_f8_infer,
    .host = {.run = quantize_f8_host},
    .cases = HRI_CASES(quantize_f8_cases),
};

const hri_kernel hri_kernel_cuda_quantize_f8 = {.launch = quantize_f8_cuda};
