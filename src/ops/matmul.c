/* matmul(a, b [, bias]; transpose-a, transpose-b) = a b + bias over the last two dimensions.
 *
 *   a (..., M, K)   b (..., K, N)   bias (N)   y (..., M, N)
 *
 * With transpose-a, a is (..., K, M); with transpose-b, b is (..., N, K): torch's linear layer is transpose-b with
 * weights (out, in).  b may have two dimensions while a has more: then all rows of a are one matrix.  Otherwise the
 * leading dimensions are equal.  The gradient for a keeps b and the other way round. */
#include "ops/common/gemm.h"
#include "ops/common/matmul.h"

#include "graph/dims.h"

static const hri_field matmul_fields[] = {
    {"transpose-a", "a is (K, M)", offsetof(hri_matmul_attr, ta), HRI_FIELD_BOOL, NULL},
    {"transpose-b", "b is (N, K)", offsetof(hri_matmul_attr, tb), HRI_FIELD_BOOL, NULL},
    {0},
};

/* Sizes of one call; shared: b has no batch of its own and a's leading dimensions are rows. */
typedef struct sizes {
    int64_t batch, m, n, k;
    int shared;
} sizes;

static sizes sizes_of(const hr_meta *in, const hri_matmul_attr *p) {
    const hr_shape *a = &in[0].shape, *b = &in[1].shape;
    sizes s = {.batch = 1, .shared = b->rank == 2};
    s.m = a->dim[a->rank - (p->ta ? 1 : 2)];
    s.k = a->dim[a->rank - (p->ta ? 2 : 1)];
    s.n = b->dim[b->rank - (p->tb ? 2 : 1)];
    for (int d = 0; d < a->rank - 2; d++) {
        s.batch *= a->dim[d];
    }
    if (s.shared && !p->ta) {
        s.m *= s.batch;
        s.batch = 1;
    }
    return s;
}

static hr_status matmul_infer(hri_infer *c) {
    const hri_matmul_attr *p = c->attr;
    const hr_shape *a = &c->in[0].shape, *b = &c->in[1].shape;
    if (!hr_type_is_real(c->in[0].type) || c->in[0].type != c->in[1].type) {
        return hri_infer_fail(c, "a and b must have the same floating-point type");
    }
    if (a->rank < 2 || b->rank < 2 || (b->rank != 2 && b->rank != a->rank)) {
        return hri_infer_fail(c, "a and b need two dimensions or more, and b two or as many as a");
    }
    for (int d = 0; b->rank > 2 && d < a->rank - 2; d++) {
        if (a->dim[d] != b->dim[d]) {
            return hri_infer_fail(c, "dimension %d differs: %lld and %lld", d, (long long)a->dim[d],
                                  (long long)b->dim[d]);
        }
    }
    const int64_t ka = a->dim[a->rank - (p->ta ? 2 : 1)], kb = b->dim[b->rank - (p->tb ? 1 : 2)];
    const int64_t n = b->dim[b->rank - (p->tb ? 2 : 1)];
    if (ka != kb) {
        return hri_infer_fail(c, "the inner dimensions are %lld and %lld", (long long)ka,
                              (long long)kb);
    }
    if (c->in_count > 2 && (!hr_type_is_real(c->in[2].type) || c->in[2].shape.rank != 1 ||
                            c->in[2].shape.dim[0] != n)) {
        return hri_infer_fail(c, "the bias must have %lld elements", (long long)n);
    }
    c->out[0] = c->in[0];
    c->out[0].shape.dim[a->rank - 2] = a->dim[a->rank - (p->ta ? 1 : 2)];
    c->out[0].shape.dim[a->rank - 1] = n;
    return HR_OK;
}

/* The gradient of a shared b sums over all rows: seen as matrices. */
static hr_value as_matrix(hri_grad *c, hr_value v, const hr_shape *shape) {
    if (shape->rank == 2) {
        return v;
    }
    const hri_attr_dims to = {{.count = 2, .at = {-1, shape->dim[shape->rank - 1]}}};
    return HRI_NODE(c->g, "reshape", &to, v);
}

static hr_value product(hri_grad *c, hr_value a, hr_value b, bool ta, bool tb) {
    const hri_matmul_attr p = {ta, tb};
    return HRI_NODE(c->g, "matmul", &p, a, b);
}

static void matmul_grad(hri_grad *c) {
    const hri_matmul_attr *p = c->sig->attr;
    const hr_value a = c->in[0], b = c->in[1], dy = c->dout[0];
    if (c->sig->in_count > 2 && HRI_NEEDS(c, 2)) { /* first: who made dy may add it up */
        c->din[2] = hri_sum_to(c->g, dy, c->in[2]);
    }
    if (HRI_NEEDS(c, 0)) {
        c->din[0] = p->ta ? product(c, b, dy, p->tb, true) : product(c, dy, b, false, !p->tb);
    }
    if (HRI_NEEDS(c, 1)) {
        const hr_value x =
            c->sig->in[1].shape.rank == 2 ? as_matrix(c, a, &c->sig->in[0].shape) : a;
        const hr_value d =
            c->sig->in[1].shape.rank == 2 ? as_matrix(c, dy, &c->sig->out[0].shape) : dy;
        c->din[1] = p->tb ? product(c, d, x, true, p->ta) : product(c, x, d, !p->ta, false);
    }
}

static hri_samples matmul_samples(const hri_sig *s, uint32_t batched) {
    const hri_matmul_attr *p = s->attr;
    if (s->in[0].shape.rank > 2 && (s->in[1].shape.rank > 2 || !(batched & 2u))) {
        return HRI_SAMPLES_APART;
    }
    if (batched &
        2u) { /* b's rows are samples: summed over when they are the inner dimension on both sides */
        return (batched & 1u) && p->ta && !p->tb ? HRI_SAMPLES_SUM : HRI_SAMPLES_COUPLED;
    }
    return p->ta && batched ? HRI_SAMPLES_COUPLED : HRI_SAMPLES_APART;
}

static void matmul_cost(const hri_sig *s, hri_cost *cost) {
    const sizes z = sizes_of(s->in, s->attr);
    cost->flops = 2.0 * (double)z.batch * (double)z.m * (double)z.n * (double)z.k;
}

static uint64_t matmul_workspace(const hri_sig *s, uint32_t threads) {
    const sizes z = sizes_of(s->in, s->attr);
    return hri_gemm_workspace(z.batch, z.m, z.n, z.k, threads);
}

static hr_status matmul_host(const hri_call *c) {
    const hri_matmul_attr *p = c->sig->attr;
    const sizes z = sizes_of(c->sig->in, p);
    const hri_gemm g = {
        .batch = z.batch,
        .m = z.m,
        .n = z.n,
        .k = z.k,
        .pack_a = p->ta ? hri_pack_a_t : hri_pack_a,
        /* Turned, its lines lie far apart: packing them is faster. */
        .lines = p->ta ? NULL : hri_gemm_lines_a,
        .pack_b = p->tb ? hri_pack_b_t : hri_pack_b,
        .c_type = c->sig->out[0].type,
        .c = c->out[0],
        .bias = c->sig->in_count > 2 ? c->in[2] : NULL,
        .bias_type = c->sig->in_count > 2 ? c->sig->in[2].type : HR_TYPE_F32,
        .a = c->in[0],
        .b = c->in[1],
        .a_type = c->sig->in[0].type,
        .b_type = c->sig->in[1].type,
        .lda = p->ta ? z.m : z.k,
        .ldb = p->tb ? z.k : z.n,
        .a_step = z.m * z.k,
        .b_step = z.shared ? 0 : z.k * z.n,
    };
    hri_gemm_run(&g, c->threads, c->workspace);
    return HR_OK;
}

/* ---- on a GPU ---- */

static hri_gpu_matmul on_gpu(const hri_sig *s) {
    const hri_matmul_attr *p = s->attr;
    const sizes z = sizes_of(s->in, p);
    return (hri_gpu_matmul){
        .a_type = s->in[0].type,
        .b_type = s->in[1].type,
        .y_type = s->out[0].type,
        .bias_type = s->in_count > 2 ? s->in[2].type : HR_TYPE_F32,
        .ta = p->ta,
        .tb = p->tb,
        .epilogue = s->in_count > 2 ? HRI_GPU_BIAS : HRI_GPU_PLAIN,
        .batch = z.batch,
        .m = z.m,
        .n = z.n,
        .k = z.k,
        .lda = p->ta ? z.m : z.k,
        .ldb = p->tb ? z.k : z.n,
        .ldy = z.n,
        .a_step = z.m * z.k,
        .b_step = z.shared ? 0 : z.k * z.n,
        .y_step = z.m * z.n,
    };
}

static uint64_t matmul_cuda_workspace(const hri_sig *s, hri_gpu *gpu, uint32_t variant) {
    const hri_gpu_matmul x = on_gpu(s);
    (void)variant;
    return hri_gpu_matmul_workspace(gpu, &x, HRI_GPU_LIMIT_MATMUL);
}

static hr_status matmul_cuda(const hri_gpu_call *c) {
    const hri_gpu_matmul x = on_gpu(c->sig);
    return hri_gpu_matmul_run(c->gpu, &x, c->in[0], c->in[1], c->sig->in_count > 2 ? c->in[2] : 0,
                              c->out[0], c->workspace, c->workspace_bytes);
}

static const hri_case matmul_cases[] = {
    {"one", "f32[1,1] f32[1,1]"},
    {"odd", "f32[7,33] f32[33,5]"},
    {"several tiles", "f32[150,70] f32[70,410]"},
    {"deep", "f32[5,3000] f32[3000,3]", .tolerance = 1e-4},
    {"a transposed", "f32[33,7] f32[33,5]", "transpose-a"},
    {"b transposed", "f32[7,33] f32[5,33]", "transpose-b"},
    {"both transposed", "f32[33,7] f32[5,33]", "transpose-a,transpose-b"},
    {"with bias", "f32[9,6] f32[13,6] f32[13]", "transpose-b", .batched = 1},
    {"linear over a sequence", "f32[3,5,6] f32[4,6]", "transpose-b", .batched = 1},
    {"batched", "f32[2,3,5,6] f32[2,3,6,4]", .batched = 3},
    {"batched, b transposed", "f32[4,5,6] f32[4,3,6]", "transpose-b", .batched = 3},
    {"empty rows", "f32[0,6] f32[6,4]"},
    {"empty depth", "f32[3,0] f32[0,4]"},
    {"bf16", "bf16[7,33] bf16[33,5]", .tolerance = 1e-2},
    {"f16", "f16[7,33] f16[5,33]", "transpose-b", .tolerance = 1e-2},
    {"inner dimensions differ", "f32[3,4] f32[5,6]", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_matmul = {
    .name = "matmul",
    .formula = "y = a b + bias",
    .in_min = 2,
    .in_max = 3,
    .out_count = 1,
    .fields = matmul_fields,
    .attr_bytes = sizeof(hri_matmul_attr),
    .infer = matmul_infer,
    .grad = matmul_grad,
    .keeps = {{.in = 2}, {.in = 1}, {0}},
    .samples = matmul_samples,
    .product = 1,
    .cost = matmul_cost,
    .host = {.run = matmul_host, .workspace = matmul_workspace},
    .cases = HRI_CASES(matmul_cases),
};

const hri_kernel hri_kernel_cuda_matmul = {
    .launch = matmul_cuda,
    .launch_workspace = matmul_cuda_workspace,
};
