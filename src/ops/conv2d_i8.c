/* conv2d_i8(x, w, w_scale, bias, x_scale, x_zero [, y_scale, y_zero]; stride, pad, dilation, groups, relu): convolution of
 * bytes.
 *
 *   x u8 (N, H, W, C)   w i8 (KH, KW, C / groups, O)   w_scale, bias f32 (O)   y u8 (N, OH, OW, O), or f32 without y_scale
 *   sum = sum of (x - x_zero) w + rint(bias / (x_scale w_scale))       whole numbers, exact
 *   y   = sum x_scale w_scale / y_scale + y_zero, rounded and held     with relu not below y_zero
 *
 * What is outside the image is x_zero.  common/gemm_i8.h says how it is computed: rows of patches are copied, in runs of a
 * whole row of the window where its pixels lie side by side.  Groups of few outputs are joined to products of 32 columns with
 * zeros in between.  Groups of single channels are better summed by depthwise_i8. */
#include <string.h>

#include "ops/common/conv_codes.h"
#include "ops/common/gemm_i8.h"
#include "ops/common/quantized.h"
#include "ops/common/requantize.h"

static hr_status conv2d_i8_infer(hri_infer *c) {
    hri_conv v;
    return hri_conv_codes_infer_i8(c, &v);
}

static void conv2d_i8_cost(const hri_sig *s, hri_cost *cost) {
    const hri_conv v = hri_conv_codes_of(s);
    cost->flops = hri_conv_flops(&v) / 3; /* about as much faster than f32 */
}

/* ---- rows of patches ---- */

/* One group of the channels; all of them without groups. */
typedef struct part {
    hri_conv v;
    int64_t first; /* channel */
} part;

/* `count` pixels side by side from column x on of row y of image n; beyond the edges lies `zero`. */
static uint8_t *copy_run(const part *k, const uint8_t *image, int64_t n, int64_t y, int64_t x,
                         int64_t count, int zero, uint8_t *to) {
    const hri_conv *v = &k->v;
    const size_t bytes = (size_t)(count * v->cg);
    if (y < 0 || y >= v->h || x + count <= 0 || x >= v->w) {
        memset(to, zero, bytes);
        return to + bytes;
    }
    const int64_t left = x < 0 ? -x : 0, right = x + count > v->w ? x + count - v->w : 0;
    const uint8_t *from = image + ((n * v->h + y) * v->w + x + left) * v->c + k->first;
    if (left | right) {
        memset(to, zero, bytes);
    }
    memcpy(to + left * v->cg, from, (size_t)((count - left - right) * v->cg));
    return to + bytes;
}

static void copy_rows(const hri_gemm_i8 *g, int64_t first, int64_t count, uint8_t *to, int64_t ld) {
    const part *k = g->ctx;
    const hri_conv *v = &k->v;
    const int64_t run = v->dw == 1 && v->groups == 1 ? v->kw : 1;
    int64_t ox = first % v->ow, oy = first / v->ow % v->oh, n = first / v->ow / v->oh;
    for (int64_t i = 0; i < count; i++, to += ld) {
        uint8_t *at = to;
        for (int64_t r = 0; r < v->kh; r++) {
            for (int64_t s = 0; s < v->kw; s += run) {
                at = copy_run(k, g->a, n, oy * v->sh - v->ph + r * v->dh,
                              ox * v->sw - v->pw + s * v->dw, run, g->a_zero, at);
            }
        }
        if (++ox == v->ow) {
            ox = 0;
            oy = oy + 1 < v->oh ? oy + 1 : 0;
            n += oy == 0;
        }
    }
}

static int is_plain(const hri_conv *v) {
    return v->kh == 1 && v->kw == 1 && v->sh == 1 && v->sw == 1 && v->ph == 0 && v->pw == 0 &&
           v->ph_after == 0 && v->pw_after == 0 && v->groups == 1;
}

/* Weights (KH KW CG, OG) of one joined group, zeros between its own groups. */
static uint64_t weight_bytes(const hri_conv *own, const hri_conv *v) {
    return own->groups == 1 ? 0 : (uint64_t)(v->kh * v->kw * v->cg * v->og + 63) / 64 * 64;
}

static void take_weights(const hri_conv *own, const hri_conv *v, int64_t group, const int8_t *w,
                         int8_t *to) {
    memset(to, 0, (size_t)(v->kh * v->kw * v->cg * v->og));
    for (int64_t k = 0; k < v->kh * v->kw * v->cg; k++) {
        const int64_t tap = k / v->cg, channel = k % v->cg, among = channel / own->cg;
        const int8_t *from = w + (tap * own->cg + channel % own->cg) * v->o + group * v->og;
        memcpy(to + k * v->og + among * own->og, from + among * own->og, (size_t)own->og);
    }
}

/* ---- on the host ---- */

static uint64_t conv2d_i8_workspace(const hri_sig *s, uint32_t threads) {
    const hri_conv own = hri_conv_codes_of(s), v = hri_conv_joined(&own);
    return hri_gemm_i8_workspace(v.n * v.oh * v.ow, v.og, v.kh * v.kw * v.cg, !is_plain(&v),
                                 threads) +
           weight_bytes(&own, &v);
}

static hr_status conv2d_i8_host(const hri_call *c) {
    const hri_conv own = hri_conv_codes_of(c->sig);
    part k = {.v = hri_conv_joined(&own)};
    const hri_conv *v = &k.v;
    const int bytes = c->sig->in_count > 6;
    const uint64_t taken = weight_bytes(&own, v);
    int8_t *weights = taken ? c->workspace : NULL;
    for (int64_t group = 0; group < v->groups; group++) {
        const int64_t o = group * v->og;
        const hri_gemm_i8 g = {
            .m = v->n * v->oh * v->ow,
            .n = v->og,
            .k = v->kh * v->kw * v->cg,
            .rows = is_plain(v) ? NULL : copy_rows,
            .ctx = &k,
            .a = c->in[0],
            .b = weights ? weights : c->in[1],
            .scale = (const float *)c->in[2] + o,
            .bias = (const float *)c->in[3] + o,
            .a_scale = hri_scale_at(c, 4),
            .a_zero = hri_zero_at(c, 5),
            .c_scale = bytes ? hri_scale_at(c, 6) : 1.0f,
            .c_zero = bytes ? hri_zero_at(c, 7) : 0,
            .relu = hri_conv_codes_relu(c->sig),
            .c = bytes ? (uint8_t *)c->out[0] + o : NULL,
            .real = bytes ? NULL : (float *)c->out[0] + o,
            .ldc = v->o,
        };
        k.first = group * v->cg;
        if (weights) {
            take_weights(&own, v, group, c->in[1], weights);
        }
        hri_gemm_i8_run(&g, c->threads, (char *)c->workspace + taken);
    }
    return HR_OK;
}

#define TO_U8   " f32[] u8[] f32[] u8[]"
#define TO_REAL " f32[] u8[]"
#define SMALL   .low = 0.001, .high = 0.002, .ids = 256
#define TINY    .low = 0.0001, .high = 0.0003, .ids = 256

static const hri_case conv2d_i8_cases[] = {
    {"one pixel", "u8[1,1,1,1] i8[1,1,1,1] f32[1] f32[1]" TO_U8, .low = 0.01, .high = 0.02,
     .ids = 256},
    {"1x1", "u8[2,5,4,8] i8[1,1,8,9] f32[9] f32[9]" TO_U8, SMALL, .batched = 1},
    {"1x1, odd", "u8[2,5,4,7] i8[1,1,7,33] f32[33] f32[33]" TO_U8, "relu", SMALL, .batched = 1},
    {"3x3", "u8[2,6,5,4] i8[3,3,4,40] f32[40] f32[40]" TO_U8, "pad=1", SMALL, .batched = 1},
    {"3x3, relu", "u8[2,6,5,4] i8[3,3,4,70] f32[70] f32[70]" TO_U8, "pad=1,relu", SMALL},
    {"real", "u8[2,6,5,4] i8[3,3,4,17] f32[17] f32[17]" TO_REAL, "pad=1", SMALL, .batched = 1},
    {"real, relu", "u8[2,6,5,4] i8[3,3,4,33] f32[33] f32[33]" TO_REAL, "relu", SMALL},
    {"stem", "u8[1,17,19,3] i8[7,7,3,16] f32[16] f32[16]" TO_U8, "stride=2,pad=3", TINY},
    {"stride", "u8[2,9,8,3] i8[3,3,3,5] f32[5] f32[5]" TO_U8, "stride=2,pad=1", SMALL},
    {"dilation", "u8[1,11,9,2] i8[3,2,2,3] f32[3] f32[3]" TO_U8, "dilation=2,stride=3x2,pad=2x1",
     SMALL},
    {"padded after", "u8[2,6,5,3] i8[3,3,3,4] f32[4] f32[4]" TO_U8, "stride=2,pad=0x0x1x1", SMALL},
    {"many rows", "u8[2,17,15,8] i8[3,3,8,35] f32[35] f32[35]" TO_U8, "pad=1", TINY},
    {"wide blocks", "u8[1,65,64,1] i8[1,1,1,66] f32[66] f32[66]" TO_U8, SMALL},
    {"deep", "u8[1,3,3,512] i8[3,3,512,9] f32[9] f32[9]" TO_U8, "pad=1", TINY},
    {"wide", "u8[1,5,4,64] i8[3,3,64,72] f32[72] f32[72]" TO_U8, "pad=1", TINY},
    {"wide, real", "u8[2,5,4,32] i8[3,3,32,130] f32[130] f32[130]" TO_REAL, "pad=1,stride=2", TINY},
    {"wide, 48 channels", "u8[2,9,9,48] i8[3,3,48,64] f32[64] f32[64]" TO_U8, "pad=2,dilation=2",
     TINY},
    {"groups", "u8[2,6,5,8] i8[3,3,2,12] f32[12] f32[12]" TO_U8, "pad=1,groups=4", SMALL,
     .batched = 1},
    {"groups, real", "u8[2,6,5,6] i8[3,3,3,10] f32[10] f32[10]" TO_REAL, "groups=2,relu", SMALL},
    {"32 groups of 4", "u8[1,5,6,128] i8[3,3,4,128] f32[128] f32[128]" TO_U8,
     "pad=1,groups=32,stride=2", TINY},
    {"wide groups", "u8[1,4,5,96] i8[3,3,48,80] f32[80] f32[80]" TO_U8, "pad=1,groups=2", TINY},
    {"1x1 groups", "u8[2,4,3,12] i8[1,1,4,33] f32[33] f32[33]" TO_U8, "groups=3", SMALL},
    {"single channels", "u8[2,6,5,6] i8[3,3,1,12] f32[12] f32[12]" TO_U8, "groups=6,pad=1", SMALL},
    {"no images", "u8[0,4,4,3] i8[3,3,3,5] f32[5] f32[5]" TO_U8, SMALL},
    {"unsigned weights", "u8[1,5,5,8] u8[3,3,8,4] f32[4] f32[4]" TO_U8, .flags = HRI_CASE_BAD},
    {"no zero point", "u8[1,5,5,8] i8[3,3,8,4] f32[4] f32[4] f32[] u8[] f32[]",
     .flags = HRI_CASE_BAD},
    {"one scale", "u8[1,5,5,8] i8[3,3,8,4] f32[1] f32[4]" TO_U8, .flags = HRI_CASE_BAD},
    {"too deep", "u8[1,5,5,4000] i8[3,3,4000,4] f32[4] f32[4]" TO_U8, .flags = HRI_CASE_BAD},
    {"groups do not divide", "u8[1,5,5,8] i8[3,3,2,9] f32[9] f32[9]" TO_U8, "groups=4",
     .flags = HRI_CASE_BAD},
    {"channels differ", "u8[1,5,5,8] i8[3,3,7,4] f32[4] f32[4]" TO_U8, .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_conv2d_i8 = {
    .name = "conv2d_i8",
    .formula = "y = (sum (x - zx) w + bias / (sx sw)) sx sw / sy + zy, bytes",
    .in_min = 6,
    .in_max = 8,
    .out_count = 1,
    .fields = hri_conv_codes_fields,
    .attr_bytes = sizeof(hri_conv_codes_attr),
    .infer = conv2d_i8_infer,
    .cost = conv2d_i8_cost,
    .host = {.run = conv2d_i8_host, .workspace = conv2d_i8_workspace},
    .cases = HRI_CASES(conv2d_i8_cases),
};

const hri_kernel hri_kernel_cuda_conv2d_i8 = {
    .launch = hri_conv_codes_cuda,
    .launch_workspace = hri_conv_codes_cuda_workspace,
};
