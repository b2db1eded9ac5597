/* depthwise_i8(x, w, w_scale, bias, x_scale, x_zero [, y_scale, y_zero]; stride, pad, dilation, groups, relu): a convolution of
 * bytes in which each channel has its own window.
 *
 *   x u8 (N, H, W, C)   w i8 (KH, KW, 1, C)   w_scale, bias f32 (C)   y u8 (N, OH, OW, C), or f32 without y_scale
 *
 * The arithmetic is that of conv2d_i8.  A task has some rows of the result; sums of a block of channels stay on the stack,
 * and the loop over them is what the compiler makes vectors of. */
#include <string.h>

#include "ops/common/conv_codes.h"
#include "ops/common/quantized.h"
#include "ops/common/requantize.h"

static hr_status depthwise_i8_infer(hri_infer *c) {
    hri_conv v;
    const hr_status status = hri_conv_codes_infer_i8(c, &v);
    return status != HR_OK || (v.cg == 1 && v.og == 1)
               ? status
               : hri_infer_fail(c, "each of the %lld channels must be a group by itself",
                                (long long)v.c);
}

static void depthwise_i8_cost(const hri_sig *s, hri_cost *cost) {
    const hri_conv v = hri_conv_codes_of(s);
    cost->flops = hri_conv_flops(&v) / 2;
}

/* ---- on the host ---- */

enum { BLOCK = 64 };

typedef struct work {
    const hri_call *c;
    hri_conv v;
    int bytes, relu;
    float x_scale, y_scale;
    int32_t x_zero, y_zero;
} work;

/* Channels first .. first + count of one result; what is outside the image is x_zero, so it adds nothing. */
static void sum_up(const work *k, int64_t n, int64_t oy, int64_t ox, int64_t first, int64_t count,
                   int32_t *sum) {
    const hri_conv *v = &k->v;
    const int16_t zero = (int16_t)k->x_zero;
    memset(sum, 0, BLOCK * sizeof *sum);
    for (int64_t r = 0; r < v->kh; r++) {
        const int64_t y = oy * v->sh - v->ph + r * v->dh;
        for (int64_t s = 0; s < v->kw && y >= 0 && y < v->h; s++) {
            const int64_t x = ox * v->sw - v->pw + s * v->dw;
            if (x < 0 || x >= v->w) {
                continue;
            }
            const uint8_t *from =
                (const uint8_t *)k->c->in[0] + ((n * v->h + y) * v->w + x) * v->c + first;
            const int8_t *by = (const int8_t *)k->c->in[1] + (r * v->kw + s) * v->c + first;
            for (int64_t q = 0; q < count; q++) {
                sum[q] += (int32_t)(int16_t)(from[q] - zero) * by[q];
            }
        }
    }
}

/* Channels first .. first + count of a row of the result. */
static void run_block(const work *k, int64_t n, int64_t oy, int64_t first, int64_t count) {
    const hri_conv *v = &k->v;
    const float *scale = (const float *)k->c->in[2] + first;
    const float *bias = (const float *)k->c->in[3] + first;
    float by[BLOCK];
    int32_t add[BLOCK], sum[BLOCK];
    for (int64_t q = 0; q < count; q++) {
        const float unit = k->x_scale * scale[q];
        add[q] = k->bytes ? hri_quantize_bias(bias[q], unit) : 0;
        by[q] = k->bytes ? unit / k->y_scale : unit;
    }
    const float low = k->relu ? 0.0f : -(float)k->y_zero;
    for (int64_t ox = 0; ox < v->ow; ox++) {
        const int64_t at = ((n * v->oh + oy) * v->ow + ox) * v->c + first;
        sum_up(k, n, oy, ox, first, count, sum);
        for (int64_t q = 0; q < count && k->bytes; q++) {
            ((uint8_t *)k->c->out[0])[at + q] =
                hri_requantize(sum[q] + add[q], by[q], low, k->y_zero);
        }
        for (int64_t q = 0; q < count && !k->bytes; q++) {
            const float product = (float)sum[q] * by[q];
            const float y = product + bias[q];
            ((float *)k->c->out[0])[at + q] = k->relu && !(y > 0.0f) ? 0.0f : y;
        }
    }
}

static void run_rows(void *arg, uint64_t begin, uint64_t end, uint32_t worker) {
    const work *k = arg;
    (void)worker;
    for (uint64_t i = begin; i < end; i++) {
        for (int64_t c = 0; c < k->v.c; c += BLOCK) {
            run_block(k, (int64_t)i / k->v.oh, (int64_t)i % k->v.oh, c,
                      k->v.c - c < BLOCK ? k->v.c - c : BLOCK);
        }
    }
}

static hr_status depthwise_i8_host(const hri_call *c) {
    const int bytes = c->sig->in_count > 6;
    work k = {.c = c,
              .v = hri_conv_codes_of(c->sig),
              .bytes = bytes,
              .relu = hri_conv_codes_relu(c->sig),
              .x_scale = hri_scale_at(c, 4),
              .x_zero = hri_zero_at(c, 5),
              .y_scale = bytes ? hri_scale_at(c, 6) : 1.0f,
              .y_zero = bytes ? hri_zero_at(c, 7) : 0};
    hri_threads_range(c->threads, (uint64_t)(k.v.n * k.v.oh), 4, run_rows, &k);
    return HR_OK;
}

/* ---- on a GPU ---- */

#define TO_U8   " f32[] u8[] f32[] u8[]"
#define TO_REAL " f32[] u8[]"
#define SMALL   .low = 0.001, .high = 0.002, .ids = 256

static const hri_case depthwise_i8_cases[] = {
    {"one pixel", "u8[1,1,1,1] i8[1,1,1,1] f32[1] f32[1]" TO_U8, .low = 0.01, .high = 0.02,
     .ids = 256},
    {"3x3", "u8[2,6,5,9] i8[3,3,1,9] f32[9] f32[9]" TO_U8, "pad=1,groups=9", SMALL, .batched = 1},
    {"3x3, relu", "u8[2,6,5,70] i8[3,3,1,70] f32[70] f32[70]" TO_U8, "pad=1,groups=70,relu", SMALL},
    {"stride", "u8[2,9,8,33] i8[3,3,1,33] f32[33] f32[33]" TO_U8, "stride=2,pad=1,groups=33",
     SMALL},
    {"real", "u8[2,6,5,17] i8[3,3,1,17] f32[17] f32[17]" TO_REAL, "pad=1,groups=17", SMALL,
     .batched = 1},
    {"real, relu", "u8[2,6,5,4] i8[5,5,1,4] f32[4] f32[4]" TO_REAL, "groups=4,pad=2,relu", SMALL},
    {"dilation", "u8[1,11,9,2] i8[3,2,1,2] f32[2] f32[2]" TO_U8,
     "dilation=2,stride=3x2,pad=2x1,groups=2", SMALL},
    {"padded after", "u8[2,6,5,3] i8[3,3,1,3] f32[3] f32[3]" TO_U8, "stride=2,pad=0x0x1x1,groups=3",
     SMALL},
    {"no images", "u8[0,4,4,3] i8[3,3,1,3] f32[3] f32[3]" TO_U8, "groups=3", SMALL},
    {"one group", "u8[1,5,5,8] i8[3,3,8,4] f32[4] f32[4]" TO_U8, .flags = HRI_CASE_BAD},
    {"two a group", "u8[1,5,5,8] i8[3,3,1,16] f32[16] f32[16]" TO_U8, "groups=8",
     .flags = HRI_CASE_BAD},
    {"no zero point", "u8[1,5,5,3] i8[3,3,1,3] f32[3] f32[3] f32[] u8[] f32[]", "groups=3",
     .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_depthwise_i8 = {
    .name = "depthwise_i8",
    .formula = "y = (sum (x - zx) w + bias / (sx sw)) sx sw / sy + zy, bytes",
    .in_min = 6,
    .in_max = 8,
    .out_count = 1,
    .fields = hri_conv_codes_fields,
    .attr_bytes = sizeof(hri_conv_codes_attr),
    .infer = depthwise_i8_infer,
    .cost = depthwise_i8_cost,
    .host = {.run = depthwise_i8_host},
    .cases = HRI_CASES(depthwise_i8_cases),
};

const hri_kernel hri_kernel_cuda_depthwise_i8 = {
    .launch = hri_conv_codes_cuda,
    .launch_workspace = hri_conv_codes_cuda_workspace,
};
