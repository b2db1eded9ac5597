/* matmul_codes(x, codes, scale [, zero] [, bias]; bits, group, depth, back, in-first) = x W^T + bias, with W (N, K) in 8 or 4 bits.
 *
 *   x f32 (..., K)   W (N, K) as common/weight_codes.h has it   bias f32 (N)   y f32 (..., N)
 *   back: y = x W    x f32 (..., N)   y f32 (..., K), which is the gradient for x
 *
 * zero is there with 4 bits alone.  in-first says which way the f32 weight lay and changes nothing.  The arithmetic is f32.  On the host numbers are decoded a panel at a time, where the
 * product packs them; on a GPU into the workspace. */
#include "ops/common/gemm.h"
#include "ops/common/launch.h"
#include "ops/common/weight_codes.h"

typedef struct codes_attr {
    int64_t bits, group, depth;
    bool back, in_first;
} codes_attr;

#define AT(FIELD) offsetof(codes_attr, FIELD)

static const hri_field codes_fields[] = {
    {"bits", "bits of a weight: 8 or 4", AT(bits), HRI_FIELD_INT, "8", .min = 4, .max = 8},
    {"group", "weights with one scale, along the depth", AT(group), HRI_FIELD_INT, "64", .min = 1,
     .max = 1e9},
    {"depth", "K", AT(depth), HRI_FIELD_INT, "1", .min = 0, .max = 1e12},
    {"back", "y = x W", AT(back), HRI_FIELD_BOOL, NULL},
    {"in-first", "the weight that became codes was (K, N)", AT(in_first), HRI_FIELD_BOOL, NULL},
    {0},
};

static uint32_t bias_at(const codes_attr *p) {
    return p->bits == 4 ? 4 : 3;
}

static hr_status codes_infer(hri_infer *c) {
    const codes_attr *p = c->attr;
    const hr_shape *x = &c->in[0].shape, *w = &c->in[1].shape, *s = &c->in[2].shape;
    const int bits = (int)p->bits;
    if (bits != 4 && bits != 8) {
        return hri_infer_fail(c, "weights have 8 or 4 bits, not %d", bits);
    }
    if (c->in_count < bias_at(p) || c->in_count > bias_at(p) + !p->back) {
        return hri_infer_fail(c, "zero points are there with 4 bits alone, a bias not with back");
    }
    if (c->in[0].type != HR_TYPE_F32 || (hr_type)c->in[1].type != hri_weight_code_type(bits) ||
        (hr_type)c->in[2].type != hri_weight_scale_type(bits)) {
        return hri_infer_fail(c, "x must be f32, codes %s and scales %s",
                              hr_type_name(hri_weight_code_type(bits)),
                              hr_type_name(hri_weight_scale_type(bits)));
    }
    const int64_t groups = hri_weight_groups(p->depth, p->group);
    if (w->rank != 2 || s->rank != 2 || w->dim[1] != hri_weight_row_bytes(bits, p->depth) ||
        s->dim[0] != w->dim[0] || s->dim[1] != groups) {
        return hri_infer_fail(c, "codes must be (N, %lld) and scales (N, %lld)",
                              (long long)hri_weight_row_bytes(bits, p->depth), (long long)groups);
    }
    if (bits == 4 &&
        (c->in[3].type != HR_TYPE_U8 || c->in[3].shape.rank != 2 ||
         c->in[3].shape.dim[0] != w->dim[0] || c->in[3].shape.dim[1] != (groups + 1) / 2)) {
        return hri_infer_fail(c, "zero points must be u8 (N, %lld)", (long long)((groups + 1) / 2));
    }
    const int64_t inner = p->back ? w->dim[0] : p->depth;
    if (x->rank < 2 || x->dim[x->rank - 1] != inner) {
        return hri_infer_fail(c, "the last dimension of x must be %lld", (long long)inner);
    }
    const hr_meta *bias = c->in_count > bias_at(p) ? &c->in[bias_at(p)] : NULL;
    if (bias &&
        (bias->type != HR_TYPE_F32 || bias->shape.rank != 1 || bias->shape.dim[0] != w->dim[0])) {
        return hri_infer_fail(c, "the bias must be f32 with %lld elements", (long long)w->dim[0]);
    }
    c->out[0] = c->in[0];
    c->out[0].shape.dim[x->rank - 1] = p->back ? p->depth : w->dim[0];
    return HR_OK;
}

static void codes_grad(hri_grad *c) {
    codes_attr p = *(const codes_attr *)c->sig->attr;
    const uint32_t bias = bias_at(&p);
    if (HRI_NEEDS(c, 0)) {
        const hr_value in[] = {c->dout[0], c->in[1], c->in[2], p.bits == 4 ? c->in[3] : HR_NONE};
        p.back = !p.back;
        c->din[0] = hri_node(c->g, "matmul_codes", in, bias, &p);
    }
    if (c->sig->in_count > bias && HRI_NEEDS(c, bias)) {
        c->din[bias] = hri_sum_to(c->g, c->dout[0], c->in[bias]);
    }
}

typedef struct sizes {
    int64_t m, n, k; /* of the product */
} sizes;

static sizes sizes_of(const hri_sig *s) {
    const codes_attr *p = s->attr;
    const hr_shape *x = &s->in[0].shape;
    const int64_t out = s->in[1].shape.dim[0];
    int64_t m = 1;
    for (int d = 0; d + 1 < x->rank; d++) {
        m *= x->dim[d];
    }
    return (sizes){m, p->back ? p->depth : out, p->back ? out : p->depth};
}

static void codes_cost(const hri_sig *s, hri_cost *cost) {
    const sizes z = sizes_of(s);
    cost->flops = 2.0 * (double)z.m * (double)z.n * (double)z.k;
}

/* ---- on the host ---- */

/* Columns of B are rows of W. */
static void pack_rows(const hri_gemm *g, int64_t batch, int64_t first, int64_t count, int64_t k0,
                      int64_t kc, float *to) {
    float rows[HRI_GEMM_NR * HRI_GEMM_KC];
    (void)batch;
    for (int64_t j = 0; j < count; j += HRI_GEMM_NR, to += kc * HRI_GEMM_NR) {
        const int64_t n = count - j < HRI_GEMM_NR ? count - j : HRI_GEMM_NR;
        for (int64_t r = 0; r < n; r++) {
            hri_weight_decode(g->ctx, first + j + r, k0, kc, rows + r * HRI_GEMM_KC);
        }
        hri_pack_turn(HR_TYPE_F32, rows, 0, HRI_GEMM_KC, n, kc, hri_gemm_width(n), to);
    }
}

/* B is W itself. */
static void pack_back(const hri_gemm *g, int64_t batch, int64_t first, int64_t count, int64_t k0,
                      int64_t kc, float *to) {
    (void)batch;
    for (int64_t k = 0; k < kc; k++) {
        for (int64_t j = 0; j < count; j += HRI_GEMM_NR) {
            const int64_t n = count - j < HRI_GEMM_NR ? count - j : HRI_GEMM_NR;
            const int64_t width = hri_gemm_width(n);
            float *line = to + j * kc + k * width;
            hri_weight_decode(g->ctx, k0 + k, first + j, n, line);
            for (int64_t q = n; q < width; q++) {
                line[q] = 0.0f;
            }
        }
    }
}

static uint64_t codes_workspace(const hri_sig *s, uint32_t threads) {
    const sizes z = sizes_of(s);
    return hri_gemm_workspace(1, z.m, z.n, z.k, threads);
}

static hr_status codes_host(const hri_call *c) {
    const codes_attr *p = c->sig->attr;
    const sizes z = sizes_of(c->sig);
    const uint32_t bias = bias_at(p);
    const hri_weight_codes w = {.out = c->sig->in[1].shape.dim[0],
                                .in = p->depth,
                                .group = p->group,
                                .bits = (int)p->bits,
                                .codes = c->in[1],
                                .scales = c->in[2],
                                .zero = p->bits == 4 ? c->in[3] : NULL};
    const hri_gemm g = {.batch = 1,
                        .m = z.m,
                        .n = z.n,
                        .k = z.k,
                        .pack_a = hri_pack_a,
                        .pack_b = p->back ? pack_back : pack_rows,
                        .ctx = &w,
                        .c_type = HR_TYPE_F32,
                        .c = c->out[0],
                        .bias = c->sig->in_count > bias ? c->in[bias] : NULL,
                        .bias_type = HR_TYPE_F32,
                        .a = c->in[0],
                        .a_type = HR_TYPE_F32,
                        .lda = z.k,
                        .a_step = z.m * z.k};
    hri_gemm_run(&g, c->threads, c->workspace);
    return HR_OK;
}

/* ---- on a GPU ---- */

HRI_CU(weight_codes);

static uint64_t decoded_bytes(const hri_sig *s) {
    const sizes z = sizes_of(s);
    return ((uint64_t)(z.n * z.k) * 4 + 255) / 256 * 256;
}

static hri_gpu_matmul on_gpu(const hri_sig *s) {
    const codes_attr *p = s->attr;
    const sizes z = sizes_of(s);
    return (hri_gpu_matmul){.a_type = HR_TYPE_F32,
                            .b_type = HR_TYPE_F32,
                            .y_type = HR_TYPE_F32,
                            .bias_type = HR_TYPE_F32,
                            .tb = !p->back,
                            .epilogue = s->in_count > bias_at(p) ? HRI_GPU_BIAS : HRI_GPU_PLAIN,
                            .batch = 1,
                            .m = z.m,
                            .n = z.n,
                            .k = z.k,
                            .lda = z.k,
                            .ldb = p->depth,
                            .ldy = z.n,
                            .a_step = z.m * z.k,
                            .b_step = 0,
                            .y_step = z.m * z.n};
}

static uint64_t codes_cuda_workspace(const hri_sig *s, hri_gpu *gpu, uint32_t variant) {
    const hri_gpu_matmul x = on_gpu(s);
    (void)variant;
    return decoded_bytes(s) + hri_gpu_matmul_workspace(gpu, &x, HRI_GPU_LIMIT_MATMUL);
}

static hr_status codes_cuda(const hri_gpu_call *c) {
    const codes_attr *p = c->sig->attr;
    const hri_gpu_matmul x = on_gpu(c->sig);
    const uint32_t bias = bias_at(p);
    hr_addr codes = c->in[1], scale = c->in[2], zero = p->bits == 4 ? c->in[3] : 0,
            w = c->workspace;
    int64_t in = p->depth, group = p->group, count = c->sig->in[1].shape.dim[0] * p->depth;
    const uint64_t taken = decoded_bytes(c->sig);
    if (count) {
        const hr_status status =
            hri_gpu_launch(c->gpu, &hri_cu_weight_codes, "", p->bits == 4 ? "decode_4" : "decode_8",
                           &(hri_gpu_grid){.x = hri_launch_blocks(count, 1024), .threads = 256},
                           HRI_GPU_ARGS(&codes, &scale, &zero, &w, &in, &group, &count));
        if (status != HR_OK) {
            return status;
        }
    }
    return hri_gpu_matmul_run(c->gpu, &x, c->in[0], w, c->sig->in_count > bias ? c->in[bias] : 0,
                              c->out[0], c->workspace + taken, c->workspace_bytes - taken);
}

#define CODES .ids = 256, .low = 0.01, .high = 0.02, .tolerance = 3e-5

static const hri_case codes_cases[] = {
    {"one", "f32[1,1] i8[1,1] f32[1,1]", "depth=1", CODES},
    {"8 bits", "f32[3,5,70] i8[33,70] f32[33,1]", "depth=70,group=70", CODES, .batched = 1},
    {"8 bits, groups", "f32[7,70] i8[33,70] f32[33,5] f32[33]", "depth=70,group=16", CODES,
     .batched = 1},
    {"8 bits, back", "f32[7,33] i8[33,70] f32[33,5]", "depth=70,group=16,back", CODES,
     .batched = 1},
    {"4 bits", "f32[7,70] u8[33,35] bf16[33,2] u8[33,1]", "bits=4,depth=70", CODES, .batched = 1},
    {"4 bits, bias", "f32[2,3,71] u8[13,36] bf16[13,5] u8[13,3] f32[13]",
     "bits=4,depth=71,group=15", CODES, .batched = 1},
    {"4 bits, back", "f32[7,13] u8[13,36] bf16[13,5] u8[13,3]", "bits=4,depth=71,group=15,back",
     CODES, .batched = 1},
    {"4 bits, deep", "f32[5,600] u8[30,300] bf16[30,10] u8[30,5]", "bits=4,depth=600", CODES},
    {"4 bits, deep, back", "f32[5,300] u8[300,200] bf16[300,7] u8[300,4]", "bits=4,depth=400,back",
     CODES},
    {"no rows", "f32[0,70] i8[3,70] f32[3,1]", "depth=70,group=70", CODES},
    {"other bits", "f32[7,70] i8[33,70] f32[33,1]", "bits=5,depth=70,group=70",
     .flags = HRI_CASE_BAD},
    {"no zero points", "f32[7,70] u8[33,35] bf16[33,2]", "bits=4,depth=70", .flags = HRI_CASE_BAD},
    {"too few scales", "f32[7,70] i8[33,70] f32[33,1]", "depth=70,group=16", .flags = HRI_CASE_BAD},
    {"another depth", "f32[7,71] i8[33,70] f32[33,1]", "depth=70,group=70", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_matmul_codes = {
    .name = "matmul_codes",
    .formula = "y = x W^T + bias, W = (codes - zero) scale",
    .in_min = 3,
    .in_max = 5,
    .out_count = 1,
    .fields = codes_fields,
    .attr_bytes = sizeof(codes_attr),
    .infer = codes_infer,
    .grad = codes_grad,
    .keeps = {{.in = 0xe}, {0}, {0}, {0}, {0}},
    .no_grad = 4,
    .cost = codes_cost,
    .host = {.run = codes_host, .workspace = codes_workspace},
    .cases = HRI_CASES(codes_cases),
};

const hri_kernel hri_kernel_cuda_matmul_codes = {
    .launch = codes_cuda,
    .launch_workspace = codes_cuda_workspace,
};
