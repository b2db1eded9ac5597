/* conv2d_f8(x, w, w_scale, bias, x_scale; stride, pad, dilation, groups, relu): convolution of 8-bit floats.
 *
 *   x u8 (N, H, W, C)   w u8 (KH, KW, C / groups, O)   w_scale, bias f32 (O)   x_scale f32 ()   y f32 (N, OH, OW, O)
 *   y = sum of x w, times x_scale w_scale, plus bias     codes of common/float8.h; sums are f32
 *
 * On a GPU codes are multiplied by tensor cores (common/product_i8.h), on the host they are decoded (common/product_f8.h). */
#include "ops/common/conv_codes.h"
#include "ops/common/product_f8.h"

static hr_status conv2d_f8_infer(hri_infer *c) {
    hri_conv v;
    hr_status status = hri_conv_codes_make(c, &v);
    status = status == HR_OK ? hri_product_f8_infer(c, v.o) : status;
    if (status == HR_OK) {
        c->out[0] = (hr_meta){HR_TYPE_F32, hri_conv_out(&v)};
    }
    return status;
}

static void conv2d_f8_cost(const hri_sig *s, hri_cost *cost) {
    const hri_conv v = hri_conv_codes_of(s);
    cost->flops = hri_conv_flops(&v);
}

static uint64_t conv2d_f8_workspace(const hri_sig *s, uint32_t threads) {
    const hri_conv v = hri_conv_codes_of(s);
    return hri_product_f8_workspace(&v, threads);
}

static hr_status conv2d_f8_host(const hri_call *c) {
    const hri_conv v = hri_conv_codes_of(c->sig);
    hri_product_f8_host(&v, 0, hri_conv_codes_relu(c->sig), c);
    return HR_OK;
}

/* Codes 0 .. 126: no NaN.  Tensor cores add with fewer bits than f32 has. */
#define CODES .low = 0.001, .high = 0.002, .ids = 127, .tolerance = 1e-3

static const hri_case conv2d_f8_cases[] = {
    {"one pixel", "u8[1,1,1,1] u8[1,1,1,1] f32[1] f32[1] f32[]", CODES},
    {"1x1", "u8[2,5,4,8] u8[1,1,8,9] f32[9] f32[9] f32[]", CODES, .batched = 1},
    {"3x3", "u8[2,6,5,4] u8[3,3,4,40] f32[40] f32[40] f32[]", "pad=1", CODES, .batched = 1},
    {"wide, relu", "u8[2,5,4,32] u8[3,3,32,70] f32[70] f32[70] f32[]", "pad=1,stride=2,relu",
     CODES},
    {"stem", "u8[1,17,19,3] u8[7,7,3,16] f32[16] f32[16] f32[]", "stride=2,pad=3", CODES},
    {"dilation", "u8[1,11,9,2] u8[3,2,2,3] f32[3] f32[3] f32[]", "dilation=2,stride=3x2,pad=2x1",
     CODES},
    {"groups", "u8[2,6,5,8] u8[3,3,2,12] f32[12] f32[12] f32[]", "pad=1,groups=4", CODES,
     .batched = 1},
    {"single channels", "u8[2,6,5,6] u8[3,3,1,6] f32[6] f32[6] f32[]", "groups=6,pad=1", CODES},
    {"no images", "u8[0,4,4,3] u8[3,3,3,5] f32[5] f32[5] f32[]", CODES},
    {"weights of i8", "u8[1,5,5,8] i8[3,3,8,4] f32[4] f32[4] f32[]", .flags = HRI_CASE_BAD},
    {"one scale", "u8[1,5,5,8] u8[3,3,8,4] f32[1] f32[4] f32[]", .flags = HRI_CASE_BAD},
    {"channels differ", "u8[1,5,5,8] u8[3,3,7,4] f32[4] f32[4] f32[]", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_conv2d_f8 = {
    .name = "conv2d_f8",
    .formula = "y = sx sw sum x w + bias, x and w codes of 8-bit floats",
    .in_min = 5,
    .in_max = 5,
    .out_count = 1,
    .fields = hri_conv_codes_fields,
    .attr_bytes = sizeof(hri_conv_codes_attr),
    .infer = conv2d_f8_infer,
    .cost = conv2d_f8_cost,
    .host = {.run = conv2d_f8_host, .workspace = conv2d_f8_workspace},
    .cases = HRI_CASES(conv2d_f8_cases),
};

const hri_kernel hri_kernel_cuda_conv2d_f8 = {
    .launch = hri_conv_codes_cuda,
    .launch_workspace = hri_conv_codes_cuda_workspace,
};
