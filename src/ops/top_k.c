/* top_k(x; k): the k largest values of each row, the largest first, and where they were.
 *
 *   x (..., C)   values (..., k) like x   index (..., k) i32
 *
 * Of equal values the first comes first; NaN comes last.  The gradient goes to the values where they were (put_along) and keeps
 * the index alone. */
#include "ops/common/along.h"
#include "ops/common/launch.h"
#include "ops/common/rows.h"

typedef struct top_k_attr {
    int64_t k;
} top_k_attr;

static const hri_field top_k_fields[] = {
    {"k", "how many", offsetof(top_k_attr, k), HRI_FIELD_INT, "1", .min = 1, .max = 9e18},
    {0},
};

static hr_status top_k_infer(hri_infer *c) {
    const int64_t k = ((const top_k_attr *)c->attr)->k;
    hr_shape rows = c->in[0].shape;
    if (!hr_type_is_real(c->in[0].type) || rows.rank < 1) {
        return hri_infer_fail(c, "the input must be floating point, (..., C)");
    }
    if (k > rows.dim[rows.rank - 1] || rows.dim[rows.rank - 1] > INT32_MAX) {
        return hri_infer_fail(c, "%lld values cannot be picked from a row", (long long)k);
    }
    rows.dim[rows.rank - 1] = k;
    c->out[0] = (hr_meta){c->in[0].type, rows};
    c->out[1] = (hr_meta){HR_TYPE_I32, rows};
    return HR_OK;
}

static void top_k_grad(hri_grad *c) {
    const hri_along_attr attr = {.axis = -1, .size = hri_row_width(&c->sig->in[0].shape)};
    c->din[0] = HRI_NODE(c->g, "put_along", &attr, c->dout[0], c->out[1]);
}

/* Whether a at i comes before b at j. */
static int before(float a, int64_t i, float b, int64_t j) {
    return a > b || (b != b && a == a) || ((a == b || (a != a && b != b)) && i < j);
}

/* Each place is the first of those that come after the place before it. */
static void top_k_rows(void *arg, uint64_t begin, uint64_t end, uint32_t worker) {
    const hri_call *c = arg;
    const int64_t k = ((const top_k_attr *)c->sig->attr)->k;
    const int64_t width = hri_row_width(&c->sig->in[0].shape);
    (void)worker;
    for (int64_t r = (int64_t)begin; r < (int64_t)end; r++) {
        const hri_row x = {c->sig->in[0].type, c->in[0], r * width};
        const hri_row_out y = {c->sig->out[0].type, c->out[0], r * k};
        int64_t last = -1;
        for (int64_t place = 0; place < k; place++) {
            int64_t best = -1;
            for (int64_t i = 0; i < width; i++) {
                const float v = hri_row_at(&x, i);
                if ((last < 0 || before(hri_row_at(&x, last), last, v, i)) &&
                    (best < 0 || before(v, i, hri_row_at(&x, best), best))) {
                    best = i;
                }
            }
            hri_row_put(&y, place, hri_row_at(&x, best));
            ((int32_t *)c->out[1])[r * k + place] = (int32_t)best;
            last = best;
        }
    }
}

static hr_status top_k_host(const hri_call *c) {
    const int64_t width = hri_row_width(&c->sig->in[0].shape);
    hri_call call = *c;
    hri_threads_range(c->threads, (uint64_t)(hr_shape_count(&c->sig->in[0].shape) / width),
                      hri_row_chunk(width), top_k_rows, &call);
    return HR_OK;
}

HRI_CU(rank);

static hr_status top_k_cuda(const hri_gpu_call *c) {
    enum { THREADS = 256 };
    const hri_defines d = hri_launch_defines("-DHR_T=%s", hri_launch_type(c->sig->in[0].type));
    int64_t width = hri_row_width(&c->sig->in[0].shape);
    int64_t k = ((const top_k_attr *)c->sig->attr)->k;
    hr_addr x = c->in[0], values = c->out[0], index = c->out[1];
    const int64_t rows = hr_shape_count(&c->sig->in[0].shape) / width;
    return rows ? hri_gpu_launch(c->gpu, &hri_cu_rank, d.text, "top_k",
                                 &(hri_gpu_grid){.x = (uint32_t)rows, .threads = THREADS},
                                 HRI_GPU_ARGS(&x, &values, &index, &width, &k))
                : HR_OK;
}

static void top_k_cost(const hri_sig *s, hri_cost *cost) {
    cost->flops =
        2.0 * (double)((const top_k_attr *)s->attr)->k * (double)hr_shape_count(&s->in[0].shape);
}

static const hri_case top_k_cases[] = {
    {"odd", "f32[7,33]", "k=5", .batched = 1},
    {"the best", "f32[2,3,10]"},
    {"all of them", "f32[4,6]", "k=6"},
    {"one wide", "f32[3,1]"},
    {"no rows", "f32[0,3]", "k=2"},
    {"bf16", "bf16[7,33]", "k=5"},
    {"f16", "f16[7,33]", "k=5"},
    {"long rows", "f32[2,700]", "k=3"},
    {"long rows, bf16", "bf16[2,1300]", "k=3"},
    {"more than there are", "f32[7,3]", "k=4", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_top_k = {
    .name = "top_k",
    .formula = "values, index = the k largest of each row",
    .in_min = 1,
    .in_max = 1,
    .out_count = 2,
    .fields = top_k_fields,
    .attr_bytes = sizeof(top_k_attr),
    .infer = top_k_infer,
    .grad = top_k_grad,
    .keeps = {{.out = 2}},
    .aux = 2,
    .cost = top_k_cost,
    .host = {.run = top_k_host},
    .cases = HRI_CASES(top_k_cases),
};

const hri_kernel hri_kernel_cuda_top_k = {.launch = top_k_cuda};
