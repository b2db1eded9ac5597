/* add_i8(a, b, a_scale, a_zero, b_scale, b_zero, y_scale, y_zero; relu): the sum of two values of bytes, as bytes.
 *
 *   a, b u8 (...)   y u8 (...) = rint((a - a_zero) a_scale / y_scale + (b - b_zero) b_scale / y_scale) + y_zero
 *
 * No broadcasting: both have one shape.  With relu the result is not below y_zero. */
#include <string.h>

#include "ops/common/launch.h"
#include "ops/common/quantized.h"
#include "ops/common/requantize.h"

typedef struct add_i8_attr {
    bool relu;
} add_i8_attr;

static const hri_field add_i8_fields[] = {
    {"relu", "negative results become 0", offsetof(add_i8_attr, relu), HRI_FIELD_BOOL, NULL},
    {0},
};

static hr_status add_i8_infer(hri_infer *c) {
    if (c->in[0].type != HR_TYPE_U8 || c->in[1].type != HR_TYPE_U8 ||
        !hr_shape_same(&c->in[0].shape, &c->in[1].shape)) {
        return hri_infer_fail(c, "both inputs must be u8 and have one shape");
    }
    if (!hri_is_range(c, 2) || !hri_is_range(c, 4) || !hri_is_range(c, 6)) {
        return hri_infer_fail(c, "scales must be f32 scalars and zero points u8 scalars");
    }
    c->out[0] = c->in[0];
    return HR_OK;
}

static void add_i8_range(void *arg, uint64_t begin, uint64_t end, uint32_t worker) {
    const hri_call *c = arg;
    const uint8_t *a = c->in[0], *b = c->in[1];
    uint8_t *y = c->out[0];
    const float by_a = hri_scale_at(c, 2) / hri_scale_at(c, 6);
    const float by_b = hri_scale_at(c, 4) / hri_scale_at(c, 6);
    const int32_t za = hri_zero_at(c, 3), zb = hri_zero_at(c, 5), zero = hri_zero_at(c, 7);
    const float high = 255.0f - (float)zero;
    const float low = ((const add_i8_attr *)c->sig->attr)->relu ? 0.0f : -(float)zero;
    (void)worker;
    /* y may be a or b: element by element, each read before it is written */
    _Pragma("GCC ivdep") for (uint64_t i = begin; i < end; i++) {
        const float p = (float)(a[i] - za) * by_a, q = (float)(b[i] - zb) * by_b;
        y[i] = (uint8_t)(hri_nearest(hri_held(p + q, low, high)) + zero);
    }
}

static hr_status add_i8_host(const hri_call *c) {
    hri_call call = *c;
    hri_threads_range(c->threads, (uint64_t)hr_shape_count(&c->sig->in[0].shape), 16384,
                      add_i8_range, &call);
    return HR_OK;
}

HRI_CU(bytes_i8);

static hr_status add_i8_cuda(const hri_gpu_call *c) {
    int64_t count = hr_shape_count(&c->sig->in[0].shape);
    uint32_t relu = ((const add_i8_attr *)c->sig->attr)->relu;
    hr_addr in[8], y = c->out[0];
    memcpy(in, c->in, sizeof in);
    return count ? hri_gpu_launch(
                       c->gpu, &hri_cu_bytes_i8, "", "add_i8",
                       &(hri_gpu_grid){.x = hri_launch_blocks(count, 1024), .threads = 256},
                       HRI_GPU_ARGS(&in[0], &in[1], &in[2], &in[3], &in[4], &in[5], &in[6], &in[7],
                                    &y, &count, &relu))
                 : HR_OK;
}

#define RANGES " f32[] u8[] f32[] u8[] f32[] u8[]"

static const hri_case add_i8_cases[] = {
    {"some", "u8[7,33] u8[7,33]" RANGES, .low = 0.01, .high = 0.03, .ids = 256, .batched = 3},
    {"relu", "u8[3,5001] u8[3,5001]" RANGES, "relu", .low = 0.5, .high = 3, .ids = 256},
    {"nothing", "u8[0,3] u8[0,3]" RANGES, .low = 0.5, .high = 3},
    {"shapes differ", "u8[3] u8[1]" RANGES, .flags = HRI_CASE_BAD},
    {"signed", "i8[3] i8[3]" RANGES, .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_add_i8 = {
    .name = "add_i8",
    .formula = "y = ((a - za) sa + (b - zb) sb) / sy + zy, bytes",
    .in_min = 8,
    .in_max = 8,
    .out_count = 1,
    .fields = add_i8_fields,
    .attr_bytes = sizeof(add_i8_attr),
    .infer = add_i8_infer,
    .overwrite = {3},
    .host = {.run = add_i8_host},
    .cases = HRI_CASES(add_i8_cases),
};

const hri_kernel hri_kernel_cuda_add_i8 = {.launch = add_i8_cuda};
