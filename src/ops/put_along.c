/* put_along(x, index; axis, size): the elements of x added up where their numbers say, along one axis: scatter-add, and the
 * gradient of take_along and of top_k.
 *
 *   x, index (A, K, B)   y (A, size, B),   y[a, c, b] = sum of x[a, k, b] where index[a, k, b] = c
 *
 * A and B stand for any dimensions.  Sums are made in f32 in the order of k, so the bits are the same every time; what nobody
 * names is 0.  An index below 0 or from `size` on is HR_E_RANGE; on a GPU it counts nowhere.  The gradient keeps the index
 * alone: take_along.  On a GPU a thread has 8 numbers of the result and goes over all k: meant for few picks a row
 * (gather_grad sorts, for rows of a table). */
#include "ops/common/along.h"
#include "ops/common/launch.h"
#include "ops/common/rows.h"

#include <string.h>

static const hri_field put_along_fields[] = {
    {"axis", "the axis; below 0: from the end", offsetof(hri_along_attr, axis), HRI_FIELD_INT, "-1",
     .min = -HR_RANK_MAX, .max = HR_RANK_MAX},
    {"size", "size of the result along the axis", offsetof(hri_along_attr, size), HRI_FIELD_INT,
     "1", .min = 0, .max = 9e18},
    {0},
};

static hr_status put_along_infer(hri_infer *c) {
    const hri_along_attr *p = c->attr;
    if (!hr_type_is_real(c->in[0].type)) {
        return hri_infer_fail(c, "the input must be floating point");
    }
    const hr_status status = hri_along_infer(c, 1);
    if (status == HR_OK) {
        c->out[0] = c->in[0];
        c->out[0].shape.dim[p->axis < 0 ? p->axis + c->in[0].shape.rank : p->axis] = p->size;
    }
    return status;
}

static hri_along along_of(const hri_sig *s) {
    const hri_along_attr *p = s->attr;
    return hri_along_of(p, &s->in[1].shape, p->size);
}

static void put_along_grad(hri_grad *c) {
    if (HRI_NEEDS(c, 0)) {
        const hri_along_attr attr = {.axis = ((const hri_along_attr *)c->sig->attr)->axis};
        c->din[0] = HRI_NODE(c->g, "take_along", &attr, c->dout[0], c->in[1]);
    }
}

static uint64_t put_along_workspace(const hri_sig *s, uint32_t threads) {
    return (uint64_t)along_of(s).size * sizeof(float) * threads;
}

/* Range over (outer, inner): one line of the result each, added up in f32. */
static void put_lines(void *arg, uint64_t begin, uint64_t end, uint32_t worker) {
    const hri_call *c = arg;
    const hri_along a = along_of(c->sig);
    const hr_type type = c->sig->in[0].type;
    float *sum = (float *)c->workspace + (int64_t)worker * a.size;
    for (int64_t line = (int64_t)begin; line < (int64_t)end; line++) {
        const int64_t o = line / a.inner, b = line % a.inner;
        const int64_t from = o * a.picks * a.inner + b;
        const hri_row x = {type, c->in[0], from};
        const hri_row_out y = {type, c->out[0], o * a.size * a.inner + b};
        memset(sum, 0, (size_t)a.size * sizeof *sum);
        for (int64_t k = 0; k < a.picks; k++) {
            sum[hri_row_id(c->sig->in[1].type, c->in[1], from + k * a.inner)] +=
                hri_row_at(&x, k * a.inner);
        }
        for (int64_t k = 0; k < a.size; k++) {
            hri_row_put(&y, k * a.inner, sum[k]);
        }
    }
}

static hr_status put_along_host(const hri_call *c) {
    const hri_along a = along_of(c->sig);
    hri_call call = *c;
    for (int64_t i = 0, n = hr_shape_count(&c->sig->in[1].shape); i < n; i++) {
        const int64_t id = hri_row_id(c->sig->in[1].type, c->in[1], i);
        if (id < 0 || id >= a.size) {
            return HR_E_RANGE;
        }
    }
    if (a.size) {
        hri_threads_range(c->threads, (uint64_t)(a.outer * a.inner),
                          hri_row_chunk(a.size + a.picks), put_lines, &call);
    }
    return HR_OK;
}

HRI_CU(along);

static hr_status put_along_cuda(const hri_gpu_call *c) {
    enum { THREADS = 256, EACH = 8 };
    const hri_defines d =
        hri_launch_defines("-DHR_T=%s -DHR_REAL=1", hri_launch_type(c->sig->in[0].type));
    hri_along a = along_of(c->sig);
    hr_addr x = c->in[0], index = c->in[1], y = c->out[0];
    uint32_t wide = c->sig->in[1].type == HR_TYPE_I64;
    int64_t pieces = hri_launch_up(a.size, EACH), count = a.outer * pieces * a.inner;
    return count ? hri_gpu_launch(
                       c->gpu, &hri_cu_along, d.text, "put_along",
                       &(hri_gpu_grid){.x = hri_launch_blocks(count, THREADS), .threads = THREADS},
                       HRI_GPU_ARGS(&x, &index, &wide, &y, &count, &pieces, &a))
                 : HR_OK;
}

static void put_along_cost(const hri_sig *s, hri_cost *cost) {
    cost->flops = (double)hr_shape_count(&s->in[0].shape);
}

static const hri_case put_along_cases[] = {
    {"columns", "f32[7,5] i32[7,5]", "size=33", .ids = 33, .batched = 3},
    {"many of few", "f32[3,200] i64[3,200]", "size=3", .ids = 3},
    {"rows", "f32[14,7] i64[14,7]", "axis=0,size=10"},
    {"the middle", "f32[2,12,3] i32[2,12,3]", "axis=1,size=10"},
    {"none", "f32[3,0] i32[3,0]", "size=10"},
    {"bf16", "bf16[7,5] i32[7,5]", "size=10"},
    {"f16", "f16[7,5,3] i64[7,5,3]", "axis=-2,size=20"},
    {"integers", "i32[3,4] i32[3,4]", "size=10", .flags = HRI_CASE_BAD},
    {"another shape", "f32[7,5] i32[7,4]", "size=10", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_put_along = {
    .name = "put_along",
    .formula = "y[a, c, b] = sum of x[a, k, b] where index[a, k, b] = c",
    .in_min = 2,
    .in_max = 2,
    .out_count = 1,
    .fields = put_along_fields,
    .attr_bytes = sizeof(hri_along_attr),
    .infer = put_along_infer,
    .grad = put_along_grad,
    .keeps = {{.in = 2}},
    .samples = hri_along_samples,
    .cost = put_along_cost,
    .host = {.run = put_along_host, .workspace = put_along_workspace},
    .cases = HRI_CASES(put_along_cases),
};

const hri_kernel hri_kernel_cuda_put_along = {.launch = put_along_cuda};
