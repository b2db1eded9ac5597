/* matmul_i8(x, w, w_scale, bias, x_scale, x_zero [, y_scale, y_zero]; transpose-b, relu): a linear layer of bytes.
 *
 *   x u8 (..., K)   w i8 (K, N), or (N, K) with transpose-b   w_scale, bias f32 (N)   y u8 (..., N), or f32 without y_scale
 *
 * The arithmetic is that of conv2d_i8. */
#include "ops/common/gemm_i8.h"
#include "ops/common/product_i8.h"
#include "ops/common/quantized.h"
#include "ops/common/requantize.h"

typedef struct matmul_i8_attr {
    bool turned, relu;
} matmul_i8_attr;

static const hri_field matmul_i8_fields[] = {
    {"transpose-b", "the weights are (N, K)", offsetof(matmul_i8_attr, turned), HRI_FIELD_BOOL,
     NULL},
    {"relu", "negative results become 0", offsetof(matmul_i8_attr, relu), HRI_FIELD_BOOL, NULL},
    {0},
};

typedef struct sizes {
    int64_t m, n, k;
} sizes;

static sizes sizes_of(const hri_sig *s) {
    const hr_shape *x = &s->in[0].shape;
    const int turned = ((const matmul_i8_attr *)s->attr)->turned;
    const int64_t k = x->dim[x->rank - 1];
    int64_t m = 1;
    for (int d = 0; d + 1 < x->rank; d++) {
        m *= x->dim[d];
    }
    return (sizes){m, s->in[1].shape.dim[turned ? 0 : 1], k};
}

static hr_status matmul_i8_infer(hri_infer *c) {
    const hr_shape *x = &c->in[0].shape, *w = &c->in[1].shape;
    const int turned = ((const matmul_i8_attr *)c->attr)->turned;
    if (c->in[0].type != HR_TYPE_U8 || c->in[1].type != HR_TYPE_I8 || c->in_count == 7) {
        return hri_infer_fail(c,
                              "the input must be u8, the weights i8, and a result has both scale "
                              "and zero point or neither");
    }
    if (x->rank < 1 || w->rank != 2 || w->dim[turned ? 1 : 0] != x->dim[x->rank - 1]) {
        return hri_infer_fail(c, "the last dimension of x must be that of the weights");
    }
    const int64_t n = w->dim[turned ? 0 : 1];
    const hr_status status = hri_quantized_infer(c, n, x->dim[x->rank - 1]);
    if (status != HR_OK) {
        return status;
    }
    c->out[0] = (hr_meta){c->in_count > 6 ? HR_TYPE_U8 : HR_TYPE_F32, *x};
    c->out[0].shape.dim[x->rank - 1] = n;
    return HR_OK;
}

static void matmul_i8_cost(const hri_sig *s, hri_cost *cost) {
    const sizes z = sizes_of(s);
    cost->flops = 2.0 * (double)z.m * (double)z.n * (double)z.k / 3;
}

static uint64_t matmul_i8_workspace(const hri_sig *s, uint32_t threads) {
    const sizes z = sizes_of(s);
    return hri_gemm_i8_workspace(z.m, z.n, z.k, 0, threads);
}

static hr_status matmul_i8_host(const hri_call *c) {
    const sizes z = sizes_of(c->sig);
    const matmul_i8_attr *attr = c->sig->attr;
    const int bytes = c->sig->in_count > 6;
    const hri_gemm_i8 g = {
        .m = z.m,
        .n = z.n,
        .k = z.k,
        .a = c->in[0],
        .b = c->in[1],
        .b_turned = attr->turned,
        .scale = c->in[2],
        .bias = c->in[3],
        .a_scale = hri_scale_at(c, 4),
        .a_zero = hri_zero_at(c, 5),
        .c_scale = bytes ? hri_scale_at(c, 6) : 1.0f,
        .c_zero = bytes ? hri_zero_at(c, 7) : 0,
        .relu = attr->relu,
        .c = bytes ? c->out[0] : NULL,
        .real = bytes ? NULL : c->out[0],
    };
    hri_gemm_i8_run(&g, c->threads, c->workspace);
    return HR_OK;
}

static hri_conv as_conv(const hri_sig *s) {
    const sizes z = sizes_of(s);
    return (hri_conv){z.m, 1, 1, z.k, 1, 1, z.n, 1, 1, 1, 1, 0, 0, 1, 1, 1, 0, 0, z.k, z.n};
}

static uint64_t matmul_i8_cuda_workspace(const hri_sig *s, hri_gpu *gpu, uint32_t variant) {
    const hri_conv v = as_conv(s);
    (void)gpu;
    (void)variant;
    return hri_product_i8_workspace(&v);
}

static hr_status matmul_i8_cuda(const hri_gpu_call *c) {
    const hri_conv v = as_conv(c->sig);
    const matmul_i8_attr *attr = c->sig->attr;
    return hri_product_i8_cuda(&v, attr->turned, attr->relu, c);
}

#define TO_U8   " f32[] u8[] f32[] u8[]"
#define TO_REAL " f32[] u8[]"
#define SMALL   .low = 0.001, .high = 0.002, .ids = 256

static const hri_case matmul_i8_cases[] = {
    {"one product", "u8[1,1] i8[1,1] f32[1] f32[1]" TO_U8, .low = 0.01, .high = 0.02, .ids = 256},
    {"linear", "u8[3,21] i8[33,21] f32[33] f32[33]" TO_U8, "transpose-b", SMALL, .batched = 1},
    {"linear, whole fours", "u8[13,64] i8[33,64] f32[33] f32[33]" TO_U8, "transpose-b,relu", SMALL,
     .batched = 1},
    {"real", "u8[3,21] i8[10,21] f32[10] f32[10]" TO_REAL, "transpose-b", SMALL, .batched = 1},
    {"(K, N)", "u8[2,5,12] i8[12,40] f32[40] f32[40]" TO_U8, SMALL, .batched = 1},
    {"(K, N), odd, real", "u8[2,5,13] i8[13,31] f32[31] f32[31]" TO_REAL, "relu", SMALL},
    {"a vector", "u8[70] i8[70,3] f32[3] f32[3]" TO_U8, SMALL},
    {"no rows", "u8[0,7] i8[7,3] f32[3] f32[3]" TO_U8, SMALL},
    {"no depth", "u8[2,0] i8[0,3] f32[3] f32[3]" TO_U8, SMALL},
    {"depth differs", "u8[2,7] i8[6,3] f32[3] f32[3]" TO_U8, .flags = HRI_CASE_BAD},
    {"too deep", "u8[1,40000] i8[40000,1] f32[1] f32[1]" TO_U8, .flags = HRI_CASE_BAD},
    {"real input", "f32[2,7] i8[7,3] f32[3] f32[3]" TO_U8, .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_matmul_i8 = {
    .name = "matmul_i8",
    .formula = "y = (sum (x - zx) w + bias / (sx sw)) sx sw / sy + zy, bytes",
    .in_min = 6,
    .in_max = 8,
    .out_count = 1,
    .fields = matmul_i8_fields,
    .attr_bytes = sizeof(matmul_i8_attr),
    .infer = matmul_i8_infer,
    .cost = matmul_i8_cost,
    .host = {.run = matmul_i8_host, .workspace = matmul_i8_workspace},
    .cases = HRI_CASES(matmul_i8_cases),
};

const hri_kernel hri_kernel_cuda_matmul_i8 = {
    .launch = matmul_i8_cuda,
    .launch_workspace = matmul_i8_cuda_workspace,
};
