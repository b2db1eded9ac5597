/* linear_cross_entropy_grad(dloss, x, w, ids, lse [, scores]): the gradients of linear_cross_entropy for x and w.
 *
 *   d_iv = scale * (exp(s_iv - lse_i) - (1 - a) [v = id_i] - a / V),  s = x w^T,  scale = dloss / rows that count
 *   dx = d w   dw = d^T x
 *
 * d is made a block of classes at a time (common/linear_loss.h): scores (or those that were kept), d, both products.  A block of dw
 * is final at once and is written after the last look at the same block of w, so dw may lie over w.  dx is a sum over
 * blocks, in order, in f32; with 2-byte types it is summed in the workspace.  Rows whose id is negative give 0. */
#include "ops/common/linear_loss.h"
#include "ops/common/linear_loss_cuda.h"
#include "ops/common/rows.h"
#include "ops/common/vmath.h"

#include <string.h>

static const hri_field linear_cross_entropy_grad_fields[] = {HRI_LINEAR_LOSS_FIELDS, {0}};

static hr_status linear_cross_entropy_grad_infer(hri_infer *c) {
    if (c->in[0].type != HR_TYPE_F32 || c->in[0].shape.rank != 0) {
        return hri_infer_fail(c, "the gradient of the loss must be a scalar f32");
    }
    const hr_status status = hri_linear_loss_infer(c, 1);
    if (status != HR_OK) {
        return status;
    }
    if (c->in[4].type != HR_TYPE_F32 || !hr_shape_same(&c->in[3].shape, &c->in[4].shape)) {
        return hri_infer_fail(c, "ids and lse must have the same shape, and lse must be f32");
    }
    const bool keep = ((const hri_linear_loss_attr *)c->attr)->keep;
    const hr_meta kept = hri_linear_loss_kept(&c->in[2], &c->in[3], true);
    if (keep != (c->in_count == 6) ||
        (keep && (c->in[5].type != kept.type || !hr_shape_same(&c->in[5].shape, &kept.shape)))) {
        return hri_infer_fail(c, "kept scores must be f32 (..., classes), and come with \"keep\"");
    }
    c->out[0] = c->in[1];
    c->out[1] = c->in[2];
    return HR_OK;
}

static hri_samples linear_cross_entropy_grad_samples(const hri_sig *s, uint32_t batched) {
    const hri_linear_loss_attr *p = s->attr;
    return !batched       ? HRI_SAMPLES_APART
           : batched & 4u ? HRI_SAMPLES_COUPLED
           : p->sum       ? HRI_SAMPLES_SUM
                          : HRI_SAMPLES_MEAN;
}

static hri_linear_loss sizes_of(const hri_sig *s) {
    return hri_linear_loss_of(&s->in[1], &s->in[2], &s->in[3]);
}

static void linear_cross_entropy_grad_cost(const hri_sig *s, hri_cost *cost) {
    const hri_linear_loss z = sizes_of(s);
    const double products = ((const hri_linear_loss_attr *)s->attr)->keep ? 4.0 : 6.0;
    cost->flops = (double)z.rows * (double)z.classes * (products * (double)z.depth + 8.0);
}

/* ---- workspace: scores, the sum of dx, scratch of the products ---- */

static uint64_t sum_bytes(const hri_linear_loss *z, hr_type type) {
    return type == HR_TYPE_F32 ? 0
                               : hri_linear_loss_up((uint64_t)(z->rows * z->depth) * sizeof(float));
}

static uint64_t products_workspace(const hri_linear_loss *z, int64_t count, uint32_t threads) {
    const uint64_t of[] = {
        hri_gemm_workspace(1, z->rows, count, z->depth, threads),
        hri_gemm_workspace(1, z->rows, z->depth, count, threads),
        hri_gemm_workspace(1, count, z->depth, z->rows, threads),
    };
    const uint64_t most = of[0] > of[1] ? of[0] : of[1];
    return most > of[2] ? most : of[2];
}

static uint64_t linear_cross_entropy_grad_workspace(const hri_sig *s, uint32_t threads) {
    const hri_linear_loss z = sizes_of(s);
    const uint64_t a = products_workspace(&z, z.width, threads);
    const uint64_t b = products_workspace(&z, hri_linear_loss_last(&z), threads);
    return hri_linear_loss_bytes(&z) + sum_bytes(&z, s->in[1].type) + (a > b ? a : b);
}

/* ---- the block ---- */

typedef struct task {
    const hri_call *c;
    hri_linear_loss z;
    int64_t v0, count;
    float scale;
    const float *scores; /* (N, count); may be d */
    float *d;            /* (N, count) */
    float *dx;           /* (N, C) */
    void *scratch;
} task;

static void scores_to_d(void *arg, uint64_t begin, uint64_t end, uint32_t worker) {
    const task *t = arg;
    const hri_call *c = t->c;
    const float smoothing = (float)((const hri_linear_loss_attr *)c->sig->attr)->smoothing;
    const float scale = t->scale, even = smoothing / (float)t->z.classes;
    (void)worker;
    for (int64_t i = (int64_t)begin; i < (int64_t)end; i++) {
        float *d = t->d + i * t->count;
        const float *s = t->scores + i * t->count;
        const int64_t id = hri_row_id(c->sig->in[3].type, c->in[3], i);
        const float lse = ((const float *)c->in[4])[i];
        if (id < 0) {
            memset(d, 0, (size_t)t->count * sizeof *d);
            continue;
        }
        HRI_IVDEP for (int64_t k = 0; k < t->count; k++) {
            d[k] = scale * (hri_exp(s[k] - lse) - even);
        }
        if (id >= t->v0 && id < t->v0 + t->count) {
            d[id - t->v0] -= scale * (1.0f - smoothing);
        }
    }
}

static void add_to_dx(const task *t) {
    const hri_call *c = t->c;
    const hr_type type = c->sig->in[1].type;
    const hri_gemm g = {
        .batch = 1,
        .m = t->z.rows,
        .n = t->z.depth,
        .k = t->count,
        .pack_a = hri_pack_a,
        .pack_b = hri_pack_b,
        .c_type = HR_TYPE_F32,
        .c = t->dx,
        .add = t->v0 > 0,
        .a = t->d,
        .b = (const char *)c->in[2] + (size_t)(t->v0 * t->z.depth) * hr_type_bytes(type),
        .a_type = HR_TYPE_F32,
        .b_type = type,
        .lda = t->count,
        .ldb = t->z.depth,
    };
    hri_gemm_run(&g, c->threads, t->scratch);
}

static void make_dw(const task *t) {
    const hri_call *c = t->c;
    const hr_type type = c->sig->in[1].type;
    const hri_gemm g = {
        .batch = 1,
        .m = t->count,
        .n = t->z.depth,
        .k = t->z.rows,
        .pack_a = hri_pack_a_t,
        .pack_b = hri_pack_b,
        .c_type = type,
        .c = (char *)c->out[1] + (size_t)(t->v0 * t->z.depth) * hr_type_bytes(type),
        .a = t->d,
        .b = c->in[1],
        .a_type = HR_TYPE_F32,
        .b_type = type,
        .lda = t->count,
        .ldb = t->z.depth,
    };
    hri_gemm_run(&g, c->threads, t->scratch);
}

static void store_dx(void *arg, uint64_t begin, uint64_t end, uint32_t worker) {
    const task *t = arg;
    (void)worker;
    hri_block_put(t->c->sig->out[0].type, t->c->out[0], (int64_t)begin, (int64_t)(end - begin),
                  t->dx + begin);
}

static hr_status linear_cross_entropy_grad_host(const hri_call *c) {
    const hri_linear_loss_attr *p = c->sig->attr;
    const hri_linear_loss z = sizes_of(c->sig);
    const hr_type type = c->sig->in[1].type;
    const float dloss = *(const float *)c->in[0];
    char *after = (char *)c->workspace + hri_linear_loss_bytes(&z);
    task t = {.c = c, .z = z, .d = c->workspace, .scratch = after + sum_bytes(&z, type)};
    t.dx = type == HR_TYPE_F32 ? c->out[0] : (float *)(void *)after;
    int64_t counted = 0;
    for (int64_t i = 0; i < z.rows; i++) {
        counted += hri_row_id(c->sig->in[3].type, c->in[3], i) >= 0;
    }
    t.scale = p->sum || !counted ? dloss : dloss / (float)counted;
    for (t.v0 = 0; t.v0 < z.classes; t.v0 += z.width) {
        t.count = hri_min64(z.width, z.classes - t.v0);
        t.scores = p->keep ? (const float *)c->in[5] + t.v0 * z.rows : t.d;
        if (!p->keep) {
            hri_linear_loss_scores(&z, type, c->in[1], c->in[2], t.v0, t.count, t.d, c->threads,
                                   t.scratch);
        }
        hri_threads_range(c->threads, (uint64_t)z.rows, hri_row_chunk(t.count), scores_to_d, &t);
        add_to_dx(&t);
        make_dw(&t);
    }
    if (type != HR_TYPE_F32) {
        hri_threads_range(c->threads, (uint64_t)(z.rows * z.depth), 16384, store_dx, &t);
    }
    return HR_OK;
}

static const hri_case linear_cross_entropy_grad_cases[] = {
    {"ignored", "f32[] f32[7,5] f32[33,5] i32[7] f32[7]", "smoothing=0.1", .ids = 33,
     .negative = 1},
    {"ignored, kept", "f32[] f32[7,5] f32[33,5] i64[7] f32[7] f32[7,33]", "keep", .ids = 33,
     .negative = 1},
    {"nothing counts", "f32[] f32[4,5] f32[10,5] i32[4] f32[4]", .negative = 2},
    {"odd", "f32[] f32[7,5] f32[33,5] i32[7] f32[7]", .ids = 33},
    {"one row", "f32[] f32[1,5] f32[13,5] i64[1] f32[1]"},
    {"smoothing", "f32[] f32[5,6] f32[11,6] i64[5] f32[5]", "smoothing=0.1,sum"},
    {"several blocks", "f32[] f32[3,2] f32[13000,2] i32[3] f32[3]", "smoothing=0.1", .ids = 13000},
    {"a last block of another cut", "f32[] f32[150,40] f32[6150,40] i32[150] f32[150]",
     .ids = 6150},
    {"kept", "f32[] f32[7,5] f32[33,5] i32[7] f32[7] f32[7,33]", "keep", .ids = 33},
    {"kept, bf16", "f32[] bf16[2,5,7] bf16[10,7] i64[2,5] f32[2,5] f32[2,5,10]",
     "keep,smoothing=0.1", .tolerance = 1e-2},
    {"keep without scores", "f32[] f32[7,5] f32[10,5] i32[7] f32[7]", "keep",
     .flags = HRI_CASE_BAD},
    {"scores of another shape", "f32[] f32[7,5] f32[10,5] i32[7] f32[7] f32[7,9]", "keep",
     .flags = HRI_CASE_BAD},
    {"no rows", "f32[] f32[0,5] f32[10,5] i64[0] f32[0]"},
    {"no depth", "f32[] f32[3,0] f32[10,0] i64[3] f32[3]"},
    {"bf16", "f32[] bf16[5,7] bf16[10,7] i64[5] f32[5]", .tolerance = 1e-2},
    {"bf16, several blocks", "f32[] bf16[3,7] bf16[7000,7] i64[3] f32[3]", .ids = 7000,
     .tolerance = 1e-2},
    {"f16", "f32[] f16[5,7] f16[10,7] i64[5] f32[5]", .tolerance = 1e-2},
    {"lse of another shape", "f32[] f32[7,5] f32[10,5] i32[7] f32[6]", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_linear_cross_entropy_grad = {
    .name = "linear_cross_entropy_grad",
    .formula = "d = dloss / n * (softmax(x w^T) - onehot(id)); dx = d w; dw = d^T x",
    .in_min = 5,
    .in_max = 6,
    .out_count = 2,
    .fields = linear_cross_entropy_grad_fields,
    .attr_bytes = sizeof(hri_linear_loss_attr),
    .infer = linear_cross_entropy_grad_infer,
    .overwrite = {0, 1u << 2},
    .samples = linear_cross_entropy_grad_samples,
    .cost = linear_cross_entropy_grad_cost,
    .host = {.run = linear_cross_entropy_grad_host,
             .workspace = linear_cross_entropy_grad_workspace},
    .cases = HRI_CASES(linear_cross_entropy_grad_cases),
};

const hri_kernel hri_kernel_cuda_linear_cross_entropy_grad = {
    .launch = hri_linear_loss_grad_cuda,
    .launch_workspace = hri_linear_loss_grad_cuda_workspace,
};
