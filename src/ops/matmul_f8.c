/* matmul_f8(x, w, w_scale, bias, x_scale; transpose-b, relu): a linear layer of 8-bit floats.
 *
 *   x u8 (..., K)   w u8 (K, N), or (N, K) with transpose-b   w_scale, bias f32 (N)   x_scale f32 ()   y f32 (..., N)
 *
 * The arithmetic is that of conv2d_f8. */
#include "ops/common/product_f8.h"
#include "ops/common/product_i8.h"

typedef struct matmul_f8_attr {
    bool turned, relu;
} matmul_f8_attr;

static const hri_field matmul_f8_fields[] = {
    {"transpose-b", "the weights are (N, K)", offsetof(matmul_f8_attr, turned), HRI_FIELD_BOOL,
     NULL},
    {"relu", "negative results become 0", offsetof(matmul_f8_attr, relu), HRI_FIELD_BOOL, NULL},
    {0},
};

static hri_conv as_conv(const hri_sig *s) {
    const hr_shape *x = &s->in[0].shape;
    const int turned = ((const matmul_f8_attr *)s->attr)->turned;
    const int64_t k = x->dim[x->rank - 1], o = s->in[1].shape.dim[turned ? 0 : 1];
    int64_t m = 1;
    for (int d = 0; d + 1 < x->rank; d++) {
        m *= x->dim[d];
    }
    return (hri_conv){.n = m,
                      .h = 1,
                      .w = 1,
                      .c = k,
                      .oh = 1,
                      .ow = 1,
                      .o = o,
                      .kh = 1,
                      .kw = 1,
                      .sh = 1,
                      .sw = 1,
                      .dh = 1,
                      .dw = 1,
                      .groups = 1,
                      .cg = k,
                      .og = o};
}

static hr_status matmul_f8_infer(hri_infer *c) {
    const hr_shape *x = &c->in[0].shape, *w = &c->in[1].shape;
    const int turned = ((const matmul_f8_attr *)c->attr)->turned;
    if (x->rank < 1 || w->rank != 2 || w->dim[turned ? 1 : 0] != x->dim[x->rank - 1]) {
        return hri_infer_fail(c, "the last dimension of x must be that of the weights");
    }
    const int64_t n = w->dim[turned ? 0 : 1];
    const hr_status status = hri_product_f8_infer(c, n);
    if (status == HR_OK) {
        c->out[0] = (hr_meta){HR_TYPE_F32, *x};
        c->out[0].shape.dim[x->rank - 1] = n;
    }
    return status;
}

static void matmul_f8_cost(const hri_sig *s, hri_cost *cost) {
    const hri_conv v = as_conv(s);
    cost->flops = hri_conv_flops(&v);
}

static uint64_t matmul_f8_workspace(const hri_sig *s, uint32_t threads) {
    const hri_conv v = as_conv(s);
    return hri_product_f8_workspace(&v, threads);
}

static hr_status matmul_f8_host(const hri_call *c) {
    const hri_conv v = as_conv(c->sig);
    const matmul_f8_attr *attr = c->sig->attr;
    hri_product_f8_host(&v, attr->turned, attr->relu, c);
    return HR_OK;
}

static uint64_t matmul_f8_cuda_workspace(const hri_sig *s, hri_gpu *gpu, uint32_t variant) {
    const hri_conv v = as_conv(s);
    (void)gpu;
    (void)variant;
    return hri_product_i8_workspace(&v);
}

static hr_status matmul_f8_cuda(const hri_gpu_call *c) {
    const hri_conv v = as_conv(c->sig);
    const matmul_f8_attr *attr = c->sig->attr;
    return hri_product_i8_cuda(&v, attr->turned, attr->relu, c);
}

#define CODES .low = 0.001, .high = 0.002, .ids = 127, .tolerance = 1e-3

static const hri_case matmul_f8_cases[] = {
    {"one product", "u8[1,1] u8[1,1] f32[1] f32[1] f32[]", CODES},
    {"linear", "u8[3,21] u8[33,21] f32[33] f32[33] f32[]", "transpose-b", CODES, .batched = 1},
    {"(K, N), relu", "u8[2,5,64] u8[64,40] f32[40] f32[40] f32[]", "relu", CODES, .batched = 1},
    {"a vector", "u8[70] u8[70,3] f32[3] f32[3] f32[]", CODES},
    {"no rows", "u8[0,7] u8[7,3] f32[3] f32[3] f32[]", CODES},
    {"no depth", "u8[2,0] u8[0,3] f32[3] f32[3] f32[]", CODES},
    {"depth differs", "u8[2,7] u8[6,3] f32[3] f32[3] f32[]", .flags = HRI_CASE_BAD},
    {"real input", "f32[2,7] u8[7,3] f32[3] f32[3] f32[]", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_matmul_f8 = {
    .name = "matmul_f8",
    .formula = "y = sx sw sum x w + bias, x and w codes of 8-bit floats",
    .in_min = 5,
    .in_max = 5,
    .out_count = 1,
    .fields = matmul_f8_fields,
    .attr_bytes = sizeof(matmul_f8_attr),
    .infer = matmul_f8_infer,
    .cost = matmul_f8_cost,
    .host = {.run = matmul_f8_host, .workspace = matmul_f8_workspace},
    .cases = HRI_CASES(matmul_f8_cases),
};

const hri_kernel hri_kernel_cuda_matmul_f8 = {
    .launch = matmul_f8_cuda,
    .launch_workspace = matmul_f8_cuda_workspace,
};
