/* cross_entropy(x, ids; smoothing, sum): softmax and negative log-likelihood in one.
 *
 *   x (..., C)   ids (...)   loss ()   lse (...)
 *   lse_i = log sum_c exp(x_ic)
 *   loss  = mean_i [ lse_i - (1 - s) * x_i,ids - s / C * sum_c x_ic ]
 *
 * Rows whose id is negative do not count (torch's ignore_index is -100).  With `sum` the rows are added, not averaged.
 * The loss is f32 whatever the type of x.  The gradient keeps x and one f32 a row, never the probabilities, and may
 * lie over x.  An id of C or more is HR_E_RANGE; on a GPU, which cannot say so, the loss is NaN. */
#include "ops/common/blocks.h"
#include "ops/common/vmath.h"
#include "ops/common/row_loss_cuda.h"
#include "ops/common/rows.h"

#include <math.h>

typedef struct cross_entropy_attr {
    double smoothing;
    bool sum;
} cross_entropy_attr;

static const hri_field cross_entropy_fields[] = {
    {"smoothing", "label smoothing", offsetof(cross_entropy_attr, smoothing), HRI_FIELD_DOUBLE, "0",
     .min = 0, .max = 1},
    {"sum", "add the rows instead of averaging", offsetof(cross_entropy_attr, sum), HRI_FIELD_BOOL,
     NULL},
    {0},
};

static hr_status cross_entropy_infer(hri_infer *c) {
    const hr_shape *x = &c->in[0].shape, *ids = &c->in[1].shape;
    if (!hr_type_is_real(c->in[0].type)) {
        return hri_infer_fail(c, "the scores are %s, not a floating-point type",
                              hr_type_name(c->in[0].type));
    }
    if (c->in[1].type != HR_TYPE_I32 && c->in[1].type != HR_TYPE_I64) {
        return hri_infer_fail(c, "the ids must be i32 or i64");
    }
    hr_shape rows = *x;
    rows.rank--;
    rows.dim[x->rank > 0 ? x->rank - 1 : 0] = 0;
    if (x->rank < 1 || !hr_shape_same(&rows, ids)) {
        return hri_infer_fail(c, "the ids must have the shape of the scores without the last "
                                 "dimension");
    }
    c->out[0] = (hr_meta){.type = HR_TYPE_F32};
    c->out[1] = (hr_meta){HR_TYPE_F32, rows};
    return HR_OK;
}

static void cross_entropy_grad(hri_grad *c) {
    if (HRI_NEEDS(c, 0)) {
        c->din[0] = HRI_NODE(c->g, "cross_entropy_grad", c->sig->attr, c->dout[0], c->in[0],
                             c->in[1], c->out[1]);
    }
}

static hri_samples cross_entropy_samples(const hri_sig *s, uint32_t batched) {
    const cross_entropy_attr *p = s->attr;
    return !batched ? HRI_SAMPLES_APART : p->sum ? HRI_SAMPLES_SUM : HRI_SAMPLES_MEAN;
}

static void cross_entropy_cost(const hri_sig *s, hri_cost *cost) {
    cost->flops = 8.0 * (double)hr_shape_count(&s->in[0].shape);
}

/* A loss for each row, added up in order afterwards. */
static uint64_t cross_entropy_workspace(const hri_sig *s, uint32_t threads) {
    (void)threads;
    return (uint64_t)hr_shape_count(&s->in[1].shape) * sizeof(double);
}

static void cross_entropy_rows(void *arg, uint64_t begin, uint64_t end, uint32_t worker) {
    const hri_call *c = arg;
    const cross_entropy_attr *p = c->sig->attr;
    const int64_t width = hri_row_width(&c->sig->in[0].shape);
    double *loss = c->workspace;
    (void)worker;
    for (int64_t i = (int64_t)begin; i < (int64_t)end; i++) {
        const int64_t id = hri_row_id(c->sig->in[1].type, c->in[1], i);
        const hri_row x = {c->sig->in[0].type, c->in[0], i * width};
        float most = -INFINITY, room[HRI_BLOCK];
        double sum = 0.0, all = 0.0;
        for (int64_t k0 = 0; k0 < width; k0 += HRI_BLOCK) {
            const int64_t n = hri_min64(HRI_BLOCK, width - k0);
            most = hri_block_max(hri_block_in(x.type, x.data, x.first + k0, n, room), n, most);
        }
        for (int64_t k0 = 0; k0 < width; k0 += HRI_BLOCK) {
            const int64_t n = hri_min64(HRI_BLOCK, width - k0);
            const float *v = hri_block_in(x.type, x.data, x.first + k0, n, room);
            float exps[HRI_LANES] = {0}, lanes[HRI_LANES] = {0};
            HRI_LANES_ADD(exps, n, hri_exp(v[k] - most));
            hri_lanes_add(lanes, v, n);
            sum += (double)hri_lanes_sum(exps);
            all += (double)hri_lanes_sum(lanes);
        }
        const double lse = (double)most + log(sum);
        ((float *)c->out[1])[i] = (float)lse;
        loss[i] = id < 0        ? 0.0
                  : id >= width ? NAN
                                : lse - (1.0 - p->smoothing) * (double)hri_row_at(&x, id) -
                                      p->smoothing / (double)width * all;
    }
}

static hr_status cross_entropy_host(const hri_call *c) {
    const cross_entropy_attr *p = c->sig->attr;
    const int64_t rows = hr_shape_count(&c->sig->in[1].shape);
    const int64_t width = hri_row_width(&c->sig->in[0].shape);
    hri_call call = *c;
    int64_t counted = 0;
    for (int64_t i = 0; i < rows; i++) {
        const int64_t id = hri_row_id(c->sig->in[1].type, c->in[1], i);
        counted += id >= 0;
        if (id >= width) {
            return HR_E_RANGE;
        }
    }
    hri_threads_range(c->threads, (uint64_t)rows, hri_row_chunk(width), cross_entropy_rows, &call);
    const double sum = hri_sum(c->workspace, (size_t)rows);
    *(float *)c->out[0] = (float)(p->sum ? sum : counted ? sum / (double)counted : 0.0);
    return HR_OK;
}

/* A loss for each row, and the parts. */
static uint64_t cross_entropy_cuda_workspace(const hri_sig *s, hri_gpu *gpu, uint32_t variant) {
    (void)gpu;
    (void)variant;
    const int64_t rows = hr_shape_count(&s->in[1].shape);
    return (uint64_t)rows * sizeof(float) + hri_row_parts_bytes(rows);
}

static hr_status cross_entropy_cuda(const hri_gpu_call *c) {
    const cross_entropy_attr *p = c->sig->attr;
    const hri_row_loss r = hri_row_loss_of(&c->sig->in[0], c->in[0]);
    int64_t rows = hr_shape_count(&c->sig->in[1].shape);
    int64_t width = hri_row_width(&c->sig->in[0].shape);
    hr_addr x = c->in[0], ids = c->in[1], loss = c->out[0], lse = c->out[1], each = c->workspace;
    float smoothing = (float)p->smoothing;
    uint32_t add = p->sum, wide = c->sig->in[1].type == HR_TYPE_I64;
    hri_row_parts parts = hri_row_parts_of(rows, each + (uint64_t)rows * sizeof(float));
    hr_status status =
        hri_gpu_launch(c->gpu, &hri_cu_cross_entropy, r.defines.text, "rows_of_ids", &r.grid,
                       HRI_GPU_ARGS(&x, &ids, &wide, &lse, &each, &rows, &width, &smoothing));
    if (status == HR_OK) {
        status = hri_row_parts_launch(c->gpu, &r, &parts, each, ids, wide, rows);
    }
    return status != HR_OK
               ? status
               : hri_gpu_launch(
                     c->gpu, &hri_cu_cross_entropy, r.defines.text, "finish", &r.one,
                     HRI_GPU_ARGS(&each, &ids, &wide, &parts.at, &parts.count, &loss, &rows, &add));
}

static const hri_case cross_entropy_cases[] = {
    {"ignored", "f32[7,33] i32[7]", "smoothing=0.1", .ids = 33, .batched = 3, .negative = 1},
    {"ignored, a sum", "bf16[2,5,10] i64[2,5]", "sum", .batched = 3, .negative = 1},
    {"nothing counts", "f32[6,10] i64[6]", .batched = 3, .negative = 2},
    {"odd", "f32[7,33] i32[7]", .ids = 33, .batched = 3},
    {"one class", "f32[3,1] i64[3]", .ids = 1},
    {"smoothing", "f32[5,10] i64[5]", "smoothing=0.1"},
    {"sum over a sequence", "f32[2,3,10] i32[2,3]", "sum", .batched = 3},
    {"large scores", "f32[4,10] i32[4]", .low = -90, .high = 90, .grad_tolerance = 1e-2},
    {"no rows", "f32[0,10] i32[0]"},
    {"bf16", "bf16[7,10] i32[7]"},
    {"f16", "f16[7,10] i32[7]"},
    {"many classes", "f32[3,2051] i32[3]", .ids = 2051, .flags = HRI_CASE_NO_GRAD},
    {"many classes, bf16", "bf16[5,5001] i64[5]", "smoothing=0.1", .ids = 5001},
    {"many rows, f16", "f16[1100,9] i32[1100]", .ids = 9},
    {"two classes of very many, bf16", "bf16[3,8191,2] i64[3,8191]", .ids = 2, .batched = 3,
     .negative = 1, .flags = HRI_CASE_NO_GRAD},
    {"one class", "f32[5,1] i32[5]", "smoothing=0.1", .ids = 1, .flags = HRI_CASE_AS_IS},
    {"sixteen classes", "bf16[259,16] i32[259]", "smoothing=0.1", .ids = 16,
     .flags = HRI_CASE_NO_GRAD | HRI_CASE_AS_IS},
    {"none of many rows counts", "f16[8193,3] i32[8193]", .ids = 3, .negative = 2,
     .flags = HRI_CASE_NO_GRAD | HRI_CASE_AS_IS},
    {"many rows, added", "f32[16385,3] i32[16385]", "sum", .ids = 3, .negative = 1,
     .flags = HRI_CASE_NO_GRAD | HRI_CASE_AS_IS},
    {"ids of another shape", "f32[7,10] i32[6]", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_cross_entropy = {
    .name = "cross_entropy",
    .formula = "loss = mean(logsumexp(x) - x[id])",
    .in_min = 2,
    .in_max = 2,
    .out_count = 2,
    .fields = cross_entropy_fields,
    .attr_bytes = sizeof(cross_entropy_attr),
    .infer = cross_entropy_infer,
    .grad = cross_entropy_grad,
    .keeps = {{.in = 3, .out = 2}},
    .aux = 2,
    .samples = cross_entropy_samples,
    .cost = cross_entropy_cost,
    .host = {.run = cross_entropy_host, .workspace = cross_entropy_workspace},
    .cases = HRI_CASES(cross_entropy_cases),
};

const hri_kernel hri_kernel_cuda_cross_entropy = {
    .launch = cross_entropy_cuda,
    .launch_workspace = cross_entropy_cuda_workspace,
};
