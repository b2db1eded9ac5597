/* cross_entropy_grad(dloss, x, ids, lse): the gradient of cross_entropy for its scores.
 *
 *   dx_ic = scale * (exp(x_ic - lse_i) - (1 - s) [c = id_i] - s / C),  scale = dloss / rows that count
 *
 * Rows whose id is negative get 0.  May lie over x: a row is read before it is written. */
#include "ops/common/blocks.h"
#include "ops/common/vmath.h"
#include "ops/common/row_loss_cuda.h"
#include "ops/common/rows.h"

typedef struct cross_entropy_attr {
    double smoothing;
    bool sum;
} cross_entropy_attr;

static const hri_field cross_entropy_grad_fields[] = {
    {"smoothing", "label smoothing", offsetof(cross_entropy_attr, smoothing), HRI_FIELD_DOUBLE,
     "0"},
    {"sum", "the rows were added", offsetof(cross_entropy_attr, sum), HRI_FIELD_BOOL, NULL},
    {0},
};

static hr_status cross_entropy_grad_infer(hri_infer *c) {
    if (c->in[0].type != HR_TYPE_F32 || c->in[0].shape.rank != 0) {
        return hri_infer_fail(c, "the gradient of the loss must be a scalar f32");
    }
    hr_shape rows = c->in[1].shape;
    if (!hr_type_is_real(c->in[1].type) || rows.rank < 1) {
        return hri_infer_fail(c, "the scores must be floating point, (..., C)");
    }
    rows.dim[--rows.rank] = 0;
    if ((c->in[2].type != HR_TYPE_I32 && c->in[2].type != HR_TYPE_I64) ||
        c->in[3].type != HR_TYPE_F32 || !hr_shape_same(&rows, &c->in[2].shape) ||
        !hr_shape_same(&rows, &c->in[3].shape)) {
        return hri_infer_fail(c, "ids of i32 or i64 and lse of f32 must be one per row");
    }
    c->out[0] = c->in[1];
    return HR_OK;
}

typedef struct task {
    const hri_call *c;
    float scale;
} task;

static void cross_entropy_grad_rows(void *arg, uint64_t begin, uint64_t end, uint32_t worker) {
    const task *t = arg;
    const hri_call *c = t->c;
    const float smoothing = (float)((const cross_entropy_attr *)c->sig->attr)->smoothing;
    const int64_t width = hri_row_width(&c->sig->in[1].shape);
    (void)worker;
    for (int64_t i = (int64_t)begin; i < (int64_t)end; i++) {
        const int64_t id = hri_row_id(c->sig->in[2].type, c->in[2], i);
        const float lse = ((const float *)c->in[3])[i], even = smoothing / (float)width;
        const float scale = id < 0 ? 0.0f : t->scale;
        const hr_type type = c->sig->in[1].type;
        for (int64_t k0 = 0; k0 < width; k0 += HRI_BLOCK) {
            const int64_t n = hri_min64(HRI_BLOCK, width - k0), at = i * width + k0;
            float room[2][HRI_BLOCK];
            const float *x = hri_block_in(type, c->in[1], at, n, room[0]);
            float *dx = hri_block_out(type, c->out[0], at, room[1]);
            HRI_IVDEP for (int64_t k = 0; k < n; k++) {
                dx[k] = scale * (hri_exp(x[k] - lse) - even);
            }
            if (id >= k0 && id < k0 + n) {
                dx[id - k0] -= scale * (1.0f - smoothing);
            }
            hri_block_put(type, c->out[0], at, n, dx);
        }
    }
}

static hr_status cross_entropy_grad_host(const hri_call *c) {
    const cross_entropy_attr *p = c->sig->attr;
    const int64_t rows = hr_shape_count(&c->sig->in[2].shape);
    int64_t counted = 0;
    for (int64_t i = 0; i < rows; i++) {
        counted += hri_row_id(c->sig->in[2].type, c->in[2], i) >= 0;
    }
    const float dloss = *(const float *)c->in[0];
    task t = {c, p->sum || !counted ? dloss : dloss / (float)counted};
    hri_threads_range(c->threads, (uint64_t)rows,
                      hri_row_chunk(hri_row_width(&c->sig->in[1].shape)), cross_entropy_grad_rows,
                      &t);
    return HR_OK;
}

/* The scale, which the rows that count decide. */
static uint64_t cross_entropy_grad_cuda_workspace(const hri_sig *s, hri_gpu *gpu,
                                                  uint32_t variant) {
    (void)gpu;
    (void)variant;
    return 2 * sizeof(float) + hri_row_parts_bytes(hr_shape_count(&s->in[2].shape));
}

static hr_status cross_entropy_grad_cuda(const hri_gpu_call *c) {
    const cross_entropy_attr *p = c->sig->attr;
    const hri_row_loss r = hri_row_loss_of(&c->sig->in[1], c->in[1] | c->out[0]);
    int64_t rows = hr_shape_count(&c->sig->in[2].shape);
    int64_t width = hri_row_width(&c->sig->in[1].shape);
    hr_addr dloss = c->in[0], x = c->in[1], ids = c->in[2], lse = c->in[3], dx = c->out[0],
            scale = c->workspace;
    float smoothing = (float)p->smoothing;
    uint32_t add = p->sum, wide = c->sig->in[2].type == HR_TYPE_I64;
    hri_row_parts parts = hri_row_parts_of(rows, scale + 2 * sizeof(float));
    hr_status status = hri_row_parts_launch(c->gpu, &r, &parts, 0, ids, wide, rows);
    if (status == HR_OK) {
        status = hri_gpu_launch(
            c->gpu, &hri_cu_cross_entropy, r.defines.text, "scale_of", &r.one,
            HRI_GPU_ARGS(&dloss, &ids, &wide, &parts.at, &parts.count, &scale, &rows, &add));
    }
    return status != HR_OK
               ? status
               : hri_gpu_launch(
                     c->gpu, &hri_cu_cross_entropy, r.defines.text, "grad_of_ids", &r.grid,
                     HRI_GPU_ARGS(&x, &ids, &wide, &lse, &scale, &dx, &rows, &width, &smoothing));
}

static hri_samples cross_entropy_grad_samples(const hri_sig *s, uint32_t batched) {
    const cross_entropy_attr *p = s->attr;
    (void)batched; /* the scale of a mean knows how many rows there are */
    return p->sum ? HRI_SAMPLES_APART : HRI_SAMPLES_MEAN;
}

static void cross_entropy_grad_cost(const hri_sig *s, hri_cost *cost) {
    cost->flops = 8.0 * (double)hr_shape_count(&s->in[1].shape);
}

static const hri_case cross_entropy_grad_cases[] = {
    {"ignored", "f32[] f32[7,33] i32[7] f32[7]", "smoothing=0.1", .ids = 33, .negative = 1},
    {"ignored, a sum", "f32[] bf16[7,9] i64[7] f32[7]", "sum", .ids = 9, .negative = 1},
    {"nothing counts", "f32[] f32[6,10] i64[6] f32[6]", .negative = 2},
    {"odd", "f32[] f32[7,33] i32[7] f32[7]", .ids = 33},
    {"smoothing", "f32[] f32[5,10] i64[5] f32[5]", "smoothing=0.1,sum"},
    {"no rows", "f32[] f32[0,10] i64[0] f32[0]"},
    {"bf16", "f32[] bf16[5,10] i64[5] f32[5]"},
    {"f16", "f32[] f16[5,10] i64[5] f32[5]"},
    {"two classes of very many, bf16", "f32[] bf16[3,8191,2] i64[3,8191] f32[3,8191]", .ids = 2,
     .negative = 1},
    {"one class", "f32[] f32[5,1] i32[5] f32[5]", "smoothing=0.1", .ids = 1,
     .flags = HRI_CASE_AS_IS},
    {"none of many rows counts", "f32[] f16[8193,3] i32[8193] f32[8193]", .ids = 3, .negative = 2,
     .flags = HRI_CASE_AS_IS},
    {"many rows, added", "f32[] f32[16385,3] i32[16385] f32[16385]", "sum", .ids = 3, .negative = 1,
     .flags = HRI_CASE_AS_IS},
    {"many classes", "f32[] f32[3,2051] i32[3] f32[3]", .ids = 2051},
    {"many classes, bf16", "f32[] bf16[5,5001] i64[5] f32[5]", "smoothing=0.1", .ids = 5001},
    {"many classes, f16", "f32[] f16[5,1999] i32[5] f32[5]", .ids = 1999},
    {"lse of another type", "f32[] f32[7,10] i32[7] bf16[7]", .flags = HRI_CASE_BAD},
    {"lse of another shape", "f32[] f32[7,10] i32[7] f32[6]", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_cross_entropy_grad = {
    .name = "cross_entropy_grad",
    .formula = "dx = dloss / n * (softmax(x) - onehot(id))",
    .in_min = 4,
    .in_max = 4,
    .out_count = 1,
    .fields = cross_entropy_grad_fields,
    .attr_bytes = sizeof(cross_entropy_attr),
    .infer = cross_entropy_grad_infer,
    .overwrite = {2},
    .samples = cross_entropy_grad_samples,
    .cost = cross_entropy_grad_cost,
    .host = {.run = cross_entropy_grad_host},
    .cases = HRI_CASES(cross_entropy_grad_cases),
};

const hri_kernel hri_kernel_cuda_cross_entropy_grad = {
    .launch = cross_entropy_grad_cuda,
    .launch_workspace = cross_entropy_grad_cuda_workspace,
};
