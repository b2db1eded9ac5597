/* conv_norm_grad(dy, a, w, gamma, inv [, mask]) -> da, dw, dgamma, dbeta, dz: the gradient of a 1 x 1 convolution x = a w and the batch
 * norm behind it, without x (common/conv_norm.h).  The mean is that of x.  With a mask dy is let through where the bit is set, and dz, which may
 * lie over dy, is what is; without one dz has no elements. */
#include "ops/common/batch_norm.h"
#include "ops/common/blocks.h"
#include "ops/common/conv_norm.h"

static int is_channels(const hr_meta *m, int64_t n) {
    return hr_type_is_real(m->type) && m->shape.rank == 1 && m->shape.dim[0] == n;
}

static hr_status conv_norm_grad_infer(hri_infer *c) {
    const hr_meta *dy = &c->in[HRI_CN_DY], *a = &c->in[HRI_CN_A], *w = &c->in[HRI_CN_W];
    const int rank = dy->shape.rank;
    if (!hr_type_is_real(dy->type) || a->type != dy->type || w->type != dy->type) {
        return hri_infer_fail(c, "dy, a and w must have the same floating-point type");
    }
    if (rank < 2 || a->shape.rank != rank || w->shape.rank != 4 || w->shape.dim[0] != 1 ||
        w->shape.dim[1] != 1 || w->shape.dim[2] != a->shape.dim[rank - 1] ||
        w->shape.dim[3] != dy->shape.dim[rank - 1]) {
        return hri_infer_fail(c, "expected dy (..., N), a (..., K) and w (1, 1, K, N)");
    }
    for (int d = 0; d < rank - 1; d++) {
        if (a->shape.dim[d] != dy->shape.dim[d]) {
            return hri_infer_fail(c, "dy and a have other rows");
        }
    }
    const int64_t n = w->shape.dim[3];
    const hr_meta mask = hri_batch_norm_mask(dy);
    if (!is_channels(&c->in[HRI_CN_GAMMA], n) || !is_channels(&c->in[HRI_CN_INV], n) ||
        c->in[HRI_CN_INV].type != HR_TYPE_F32) {
        return hri_infer_fail(c, "expected gamma (N) and f32 inv (N)");
    }
    const int masked = c->in_count > HRI_CN_MASK;
    if (masked && (c->in[HRI_CN_MASK].type != mask.type ||
                   !hr_shape_same(&c->in[HRI_CN_MASK].shape, &mask.shape))) {
        return hri_infer_fail(c, "the mask is not u8 of dy's shape, eight elements a byte");
    }
    c->out[HRI_CN_DA] = *a;
    c->out[HRI_CN_DW] = *w;
    c->out[HRI_CN_DGAMMA] = c->out[HRI_CN_DBETA] = c->in[HRI_CN_GAMMA];
    c->out[HRI_CN_DZ] = masked ? *dy : (hr_meta){dy->type, hr_shape_1(0)};
    return HR_OK;
}

static void conv_norm_grad_cost(const hri_sig *s, hri_cost *cost) {
    const hri_conv_norm v = hri_conv_norm_of(s);
    const double rows = (double)v.rows, k = (double)v.k, n = (double)v.n;
    cost->flops = 4.0 * rows * k * (n + k) + 4.0 * k * k * n;
    cost->bytes = (v.masked ? 4.0 : 3.0) * (double)hr_meta_bytes(&s->in[HRI_CN_DY]) +
                  7.0 * (double)hr_meta_bytes(&s->in[HRI_CN_A]);
    cost->bytes += v.masked ? (double)hr_meta_bytes(&s->in[HRI_CN_MASK]) : 0.0;
}

static const hri_case conv_norm_grad_cases[] = {
    {"odd", "f32[3,5,2,19] f32[3,5,2,7] f32[1,1,7,19] f32[19] f32[19] u8[3,24]", .tolerance = 1e-4},
    {"a block", "f32[2,9,8,64] f32[2,9,8,16] f32[1,1,16,64] f32[64] f32[64] u8[2,576]",
     .tolerance = 1e-4},
    {"many rows", "f32[4001,36] f32[4001,9] f32[1,1,9,36] f32[36] f32[36] u8[4001,5]",
     .tolerance = 1e-3},
    {"several tiles", "f32[70,152] f32[70,75] f32[1,1,75,152] f32[152] f32[152] u8[70,19]",
     .tolerance = 1e-4},
    {"one", "f32[4,1] f32[4,1] f32[1,1,1,1] f32[1] f32[1] u8[4,1]", .tolerance = 1e-4},
    {"empty", "f32[0,6] f32[0,3] f32[1,1,3,6] f32[6] f32[6] u8[0,1]"},
    {"bf16", "bf16[30,17] bf16[30,5] bf16[1,1,5,17] f32[17] f32[17] u8[30,3]", .tolerance = 2e-2},
    {"f16", "f16[30,17] f16[30,5] f16[1,1,5,17] f16[17] f32[17] u8[30,3]", .tolerance = 2e-2},
    {"bf16 in packs", "bf16[3,81,64] bf16[3,81,16] bf16[1,1,16,64] f32[64] f32[64] u8[3,648]",
     .tolerance = 2e-2},
    {"no mask", "f32[2,9,8,64] f32[2,9,8,16] f32[1,1,16,64] f32[64] f32[64]", .tolerance = 1e-4},
    {"no mask, odd, bf16", "bf16[30,17] bf16[30,5] bf16[1,1,5,17] f32[17] f32[17]",
     .tolerance = 2e-2},
    {"no mask, empty", "f32[0,6] f32[0,3] f32[1,1,3,6] f32[6] f32[6]"},
    {"all sums in one pass",
     "bf16[3,25,256] bf16[3,25,64] bf16[1,1,64,256] f32[256] f32[256] u8[3,800]", .tolerance = 2e-2,
     .flags = HRI_CASE_AS_IS},
    {"all sums in one pass, several turns",
     "bf16[4301,256] bf16[4301,64] bf16[1,1,64,256] f32[256] f32[256] u8[4301,32]",
     .tolerance = 2e-2, .flags = HRI_CASE_AS_IS},
    {"all sums in one pass, in slices",
     "bf16[77,512] bf16[77,128] bf16[1,1,128,512] f32[512] f32[512] u8[77,64]", .tolerance = 2e-2,
     .flags = HRI_CASE_AS_IS},
    {"all sums in one pass, no mask, f16",
     "f16[40,256] f16[40,64] f16[1,1,64,256] f32[256] f32[256]", .tolerance = 2e-2,
     .flags = HRI_CASE_AS_IS},
    {"rows differ", "f32[4,6] f32[5,3] f32[1,1,3,6] f32[6] f32[6] u8[4,1]", .flags = HRI_CASE_BAD},
    {"mask of y", "f32[4,6] f32[4,3] f32[1,1,3,6] f32[6] f32[6] f32[4,6]", .flags = HRI_CASE_BAD},
    {"window of three", "f32[4,6] f32[4,3] f32[3,3,3,6] f32[6] f32[6] u8[4,1]",
     .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_conv_norm_grad = {
    .name = "conv_norm_grad",
    .formula = "dz = mask ? dy : 0; dx = gamma inv (dz - mean(dz) - xhat mean(dz xhat)), x = a w; "
               "da = dx w', dw = a' dx",
    .in_min = 5,
    .in_max = 6,
    .out_count = 5,
    .infer = conv_norm_grad_infer,
    .overwrite = {0, 0, 0, 0, 1},
    .samples = hri_batch_norm_samples,
    .cost = conv_norm_grad_cost,
    .host = {.run = hri_conv_norm_run, .workspace = hri_conv_norm_workspace},
    .cases = HRI_CASES(conv_norm_grad_cases),
};

const hri_kernel hri_kernel_cuda_conv_norm_grad = {
    .launch = hri_conv_norm_cuda,
    .launch_workspace = hri_conv_norm_cuda_workspace,
    .launch_sum = hri_conv_norm_sum_cuda,
};
