/* global_avg_pool_i8(x, x_scale, x_zero, y_scale, y_zero): the mean of each channel over an image of bytes, as bytes.
 *
 *   x u8 (N, H, W, C)   y u8 (N, C) = rint(sum of (x - x_zero) times x_scale / y_scale / (H W)) + y_zero
 *
 * Sums are whole numbers, exact. */
#include "ops/common/launch.h"
#include "ops/common/quantized.h"
#include "ops/common/requantize.h"

enum { BLOCK = 64, PLACES_MAX = 1 << 22 }; /* sums stay below 2^31 */

static hr_status global_avg_pool_i8_infer(hri_infer *c) {
    const hr_shape *x = &c->in[0].shape;
    if (c->in[0].type != HR_TYPE_U8 || x->rank != 4) {
        return hri_infer_fail(c, "the input must be u8, (N, H, W, C)");
    }
    if (!hri_is_range(c, 1) || !hri_is_range(c, 3)) {
        return hri_infer_fail(c, "scales must be f32 scalars and zero points u8 scalars");
    }
    const int64_t places = x->dim[1] * x->dim[2];
    if (places == 0 || places > PLACES_MAX) {
        return hri_infer_fail(c, "the image must have 1 to %d places", PLACES_MAX);
    }
    c->out[0] = (hr_meta){HR_TYPE_U8, {.rank = 2, .dim = {x->dim[0], x->dim[3]}}};
    return HR_OK;
}

/* Range over samples and blocks of channels. */
static void run_blocks(void *arg, uint64_t begin, uint64_t end, uint32_t worker) {
    const hri_call *c = arg;
    const hr_shape *s = &c->sig->in[0].shape;
    const int64_t places = s->dim[1] * s->dim[2], channels = s->dim[3];
    const int64_t blocks = (channels + BLOCK - 1) / BLOCK;
    const int32_t x_zero = hri_zero_at(c, 2), zero = hri_zero_at(c, 4);
    const float unit = hri_scale_at(c, 1) / hri_scale_at(c, 3), by = unit / (float)places;
    (void)worker;
    for (int64_t r = (int64_t)begin; r < (int64_t)end; r++) {
        const int64_t n = r / blocks, first = r % blocks * BLOCK;
        const int64_t count = channels - first < BLOCK ? channels - first : BLOCK;
        int32_t sum[BLOCK] = {0};
        for (int64_t i = 0; i < places; i++) {
            const uint8_t *x = (const uint8_t *)c->in[0] + (n * places + i) * channels + first;
            for (int64_t k = 0; k < count; k++) {
                sum[k] += x[k];
            }
        }
        uint8_t *y = (uint8_t *)c->out[0] + n * channels + first;
        for (int64_t k = 0; k < count; k++) {
            const int32_t whole = sum[k] - x_zero * (int32_t)places;
            y[k] = hri_requantize(whole, by, -(float)zero, zero);
        }
    }
}

static hr_status global_avg_pool_i8_host(const hri_call *c) {
    hri_call call = *c;
    const hr_shape *s = &c->sig->in[0].shape;
    hri_threads_range(c->threads, (uint64_t)(s->dim[0] * ((s->dim[3] + BLOCK - 1) / BLOCK)), 1,
                      run_blocks, &call);
    return HR_OK;
}

HRI_CU(bytes_i8);

static hr_status global_avg_pool_i8_cuda(const hri_gpu_call *c) {
    const hr_shape *s = &c->sig->in[0].shape;
    int64_t count = s->dim[0] * s->dim[3], channels = s->dim[3], places = s->dim[1] * s->dim[2];
    hr_addr in[5], y = c->out[0];
    for (int i = 0; i < 5; i++) {
        in[i] = c->in[i];
    }
    return count
               ? hri_gpu_launch(c->gpu, &hri_cu_bytes_i8, "", "global_avg_pool_i8",
                                &(hri_gpu_grid){.x = hri_launch_blocks(count, 256), .threads = 256},
                                HRI_GPU_ARGS(&in[0], &in[1], &in[2], &in[3], &in[4], &y, &count,
                                             &channels, &places))
               : HR_OK;
}

#define RANGES " f32[] u8[] f32[] u8[]"

static const hri_case global_avg_pool_i8_cases[] = {
    {"some", "u8[3,7,5,33]" RANGES, .low = 0.01, .high = 0.03, .ids = 256, .batched = 1},
    {"blocks", "u8[2,4,4,130]" RANGES, .low = 0.01, .high = 0.03, .ids = 256},
    {"one place", "u8[2,1,1,5]" RANGES, .low = 0.5, .high = 3, .ids = 256},
    {"no images", "u8[0,3,3,5]" RANGES, .low = 0.5, .high = 3},
    {"no places", "u8[2,0,3,5]" RANGES, .flags = HRI_CASE_BAD},
    {"real", "f32[2,3,3,5]" RANGES, .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_global_avg_pool_i8 = {
    .name = "global_avg_pool_i8",
    .formula = "y = mean of (x - zx), times sx / sy, plus zy, bytes",
    .in_min = 5,
    .in_max = 5,
    .out_count = 1,
    .infer = global_avg_pool_i8_infer,
    .host = {.run = global_avg_pool_i8_host},
    .cases = HRI_CASES(global_avg_pool_i8_cases),
};

const hri_kernel hri_kernel_cuda_global_avg_pool_i8 = {.launch = global_avg_pool_i8_cuda};
