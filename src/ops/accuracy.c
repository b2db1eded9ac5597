/* accuracy(x, ids; top): how often the right class is among the `top` best scores.
 *
 *   x (..., C)   ids (...) of i32 or i64   y () f32, from 0 to 1: the mean over rows whose id is not negative
 *
 * Of equal scores the class with the smaller number comes first.  A metric: no gradient.  An id of C or more is
 * HR_E_RANGE; on a GPU, which cannot say so, it is never right. */
#include "ops/common/launch.h"
#include "ops/common/rows.h"

typedef struct accuracy_attr {
    int64_t top;
} accuracy_attr;

static const hri_field accuracy_fields[] = {
    {"top", "places that count", offsetof(accuracy_attr, top), HRI_FIELD_INT, "1", .min = 1,
     .max = 9e18},
    {0},
};

static hr_status accuracy_infer(hri_infer *c) {
    hr_shape rows = c->in[0].shape;
    if (!hr_type_is_real(c->in[0].type) || rows.rank < 1 ||
        (c->in[1].type != HR_TYPE_I32 && c->in[1].type != HR_TYPE_I64)) {
        return hri_infer_fail(c, "expected floating-point scores (..., C) and ids of i32 or i64");
    }
    rows.dim[--rows.rank] = 0;
    if (!hr_shape_same(&rows, &c->in[1].shape)) {
        return hri_infer_fail(c, "the ids must have the shape of the scores without the last "
                                 "dimension");
    }
    c->out[0] = (hr_meta){.type = HR_TYPE_F32};
    return HR_OK;
}

/* A byte for each row: whether it was right. */
static uint64_t accuracy_workspace(const hri_sig *s, uint32_t threads) {
    (void)threads;
    return (uint64_t)hr_shape_count(&s->in[1].shape);
}

static void accuracy_rows(void *arg, uint64_t begin, uint64_t end, uint32_t worker) {
    const hri_call *c = arg;
    const int64_t top = ((const accuracy_attr *)c->sig->attr)->top;
    const int64_t width = hri_row_width(&c->sig->in[0].shape);
    (void)worker;
    for (int64_t i = (int64_t)begin; i < (int64_t)end; i++) {
        const int64_t id = hri_row_id(c->sig->in[1].type, c->in[1], i);
        const hri_row x = {c->sig->in[0].type, c->in[0], i * width};
        int64_t before = 0;
        for (int64_t k = 0; id >= 0 && k < width; k++) {
            const float own = hri_row_at(&x, id), other = hri_row_at(&x, k);
            before += other > own || (other == own && k < id) || own != own;
        }
        ((uint8_t *)c->workspace)[i] = id >= 0 && before < top;
    }
}

static hr_status accuracy_host(const hri_call *c) {
    const int64_t rows = hr_shape_count(&c->sig->in[1].shape);
    const int64_t width = hri_row_width(&c->sig->in[0].shape);
    int64_t counted = 0, right = 0;
    hri_call call = *c;
    for (int64_t i = 0; i < rows; i++) {
        const int64_t id = hri_row_id(c->sig->in[1].type, c->in[1], i);
        if (id >= width) {
            return HR_E_RANGE;
        }
        counted += id >= 0;
    }
    hri_threads_range(c->threads, (uint64_t)rows, hri_row_chunk(width), accuracy_rows, &call);
    for (int64_t i = 0; i < rows; i++) {
        right += ((const uint8_t *)c->workspace)[i];
    }
    *(float *)c->out[0] = counted ? (float)((double)right / (double)counted) : 0.0f;
    return HR_OK;
}

HRI_CU(rank);

static uint64_t accuracy_cuda_workspace(const hri_sig *s, hri_gpu *gpu, uint32_t variant) {
    (void)gpu;
    (void)variant;
    return accuracy_workspace(s, 1);
}

static hr_status accuracy_cuda(const hri_gpu_call *c) {
    enum { THREADS = 256, FINISH = 1024 };
    const hri_defines d = hri_launch_defines("-DHR_T=%s", hri_launch_type(c->sig->in[0].type));
    uint32_t wide = c->sig->in[1].type == HR_TYPE_I64;
    int64_t width = hri_row_width(&c->sig->in[0].shape);
    int64_t rows = hr_shape_count(&c->sig->in[1].shape);
    int64_t top = ((const accuracy_attr *)c->sig->attr)->top;
    hr_addr x = c->in[0], ids = c->in[1], out = c->out[0], right = c->workspace;
    const hr_status status =
        rows ? hri_gpu_launch(c->gpu, &hri_cu_rank, d.text, "rows_right",
                              &(hri_gpu_grid){.x = (uint32_t)rows, .threads = THREADS},
                              HRI_GPU_ARGS(&x, &ids, &wide, &right, &width, &top))
             : HR_OK;
    return status != HR_OK ? status
                           : hri_gpu_launch(c->gpu, &hri_cu_rank, d.text, "share_right",
                                            &(hri_gpu_grid){.x = 1, .threads = FINISH},
                                            HRI_GPU_ARGS(&right, &out, &rows));
}

static hri_samples accuracy_samples(const hri_sig *s, uint32_t batched) {
    (void)s;
    return batched ? HRI_SAMPLES_MEAN : HRI_SAMPLES_APART;
}

static void accuracy_cost(const hri_sig *s, hri_cost *cost) {
    cost->flops = 2.0 * (double)hr_shape_count(&s->in[0].shape);
}

static const hri_case accuracy_cases[] = {
    {"ignored", "f32[77,5] i32[77]", .ids = 5, .batched = 3, .negative = 1},
    {"ignored, among two", "bf16[2,9,5] i64[2,9]", "top=2", .ids = 5, .batched = 3, .negative = 1},
    {"nothing counts", "f32[4,5] i64[4]", .batched = 3, .negative = 2},
    {"odd", "f32[77,5] i32[77]", .ids = 5, .batched = 3},
    {"among three", "f32[50,7] i64[50]", "top=3", .ids = 7},
    {"sequence", "f32[4,9,3] i64[4,9]", .ids = 3},
    {"more places than classes", "f32[5,3] i32[5]", "top=9", .ids = 3},
    {"no rows", "f32[0,3] i32[0]"},
    {"bf16", "bf16[77,5] i32[77]", .ids = 5},
    {"f16", "f16[77,5] i32[77]", .ids = 5},
    {"many classes, bf16", "bf16[9,700] i32[9]", "top=400", .ids = 700},
    {"ids of another shape", "f32[7,5] i32[6]", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_accuracy = {
    .name = "accuracy",
    .formula = "y = mean(id among the best of x)",
    .in_min = 2,
    .in_max = 2,
    .out_count = 1,
    .fields = accuracy_fields,
    .attr_bytes = sizeof(accuracy_attr),
    .infer = accuracy_infer,
    .samples = accuracy_samples,
    .cost = accuracy_cost,
    .host = {.run = accuracy_host, .workspace = accuracy_workspace},
    .cases = HRI_CASES(accuracy_cases),
};

const hri_kernel hri_kernel_cuda_accuracy = {
    .launch = accuracy_cuda,
    .launch_workspace = accuracy_cuda_workspace,
};
