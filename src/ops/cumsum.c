/* cumsum(x; axis, reverse, exclusive): sums from the beginning of an axis on (`reverse`: from its end).
 *
 *   y[k] = x[0] + ... + x[k]; exclusive: without x[k]
 *
 * Sums are made in f32.  The gradient keeps nothing: it is the same op the other way. */
#include "ops/common/launch.h"
#include "ops/common/rows.h"

typedef struct cumsum_attr {
    int64_t axis;
    bool reverse, exclusive;
} cumsum_attr;

static const hri_field cumsum_fields[] = {
    {"axis", "the axis; below 0: from the end", offsetof(cumsum_attr, axis), HRI_FIELD_INT, "-1",
     .min = -HR_RANK_MAX, .max = HR_RANK_MAX},
    {"reverse", "from the end", offsetof(cumsum_attr, reverse), HRI_FIELD_BOOL, NULL},
    {"exclusive", "without the element itself", offsetof(cumsum_attr, exclusive), HRI_FIELD_BOOL,
     NULL},
    {0},
};

static int axis_of(const cumsum_attr *p, int rank) {
    return (int)(p->axis < 0 ? p->axis + rank : p->axis);
}

static hr_status cumsum_infer(hri_infer *c) {
    const int rank = c->in[0].shape.rank, axis = axis_of(c->attr, rank);
    if (!hr_type_is_real(c->in[0].type)) {
        return hri_infer_fail(c, "the input must be floating point");
    }
    if (axis < 0 || axis >= rank) {
        return hri_infer_fail(c, "the axis is outside the input's %d dimensions", rank);
    }
    c->out[0] = c->in[0];
    return HR_OK;
}

static void cumsum_grad(hri_grad *c) {
    cumsum_attr attr = *(const cumsum_attr *)c->sig->attr;
    attr.reverse = !attr.reverse;
    c->din[0] = HRI_NODE(c->g, "cumsum", &attr, c->dout[0]);
}

static hri_samples cumsum_samples(const hri_sig *s, uint32_t batched) {
    return batched && axis_of(s->attr, s->in[0].shape.rank) == 0 ? HRI_SAMPLES_COUPLED
                                                                 : HRI_SAMPLES_APART;
}

/* (outer, size, inner), and which way; as cumsum.cu has it. */
typedef struct lines {
    int64_t outer, size, inner;
    int32_t reverse, exclusive;
} lines;

static lines lines_of(const hri_sig *s) {
    const cumsum_attr *p = s->attr;
    const hr_shape *x = &s->in[0].shape;
    const int axis = axis_of(p, x->rank);
    lines l = {1, x->dim[axis], 1, p->reverse, p->exclusive};
    for (int d = 0; d < x->rank; d++) {
        l.outer *= d < axis ? x->dim[d] : 1;
        l.inner *= d > axis ? x->dim[d] : 1;
    }
    return l;
}

static void cumsum_lines(void *arg, uint64_t begin, uint64_t end, uint32_t worker) {
    const hri_call *c = arg;
    const hr_type type = c->sig->in[0].type;
    const lines l = lines_of(c->sig);
    (void)worker;
    for (int64_t i = (int64_t)begin; i < (int64_t)end; i++) {
        const int64_t first = i / l.inner * l.size * l.inner + i % l.inner;
        const hri_row x = {type, c->in[0], first};
        const hri_row_out y = {type, c->out[0], first};
        float sum = 0.0f;
        for (int64_t n = 0; n < l.size; n++) {
            const int64_t at = (l.reverse ? l.size - 1 - n : n) * l.inner;
            const float v = hri_row_at(&x, at), before = sum;
            sum += v;
            hri_row_put(&y, at, l.exclusive ? before : sum);
        }
    }
}

static hr_status cumsum_host(const hri_call *c) {
    const lines l = lines_of(c->sig);
    hri_call call = *c;
    hri_threads_range(c->threads, (uint64_t)(l.outer * l.inner), hri_row_chunk(l.size),
                      cumsum_lines, &call);
    return HR_OK;
}

HRI_CU(cumsum);

static hr_status cumsum_cuda(const hri_gpu_call *c) {
    enum { THREADS = 256 };
    lines l = lines_of(c->sig);
    hr_addr x = c->in[0], y = c->out[0];
    const int64_t count = l.outer * l.inner;
    /* A block to a line where they are dense, a thread to a line where lines lie side by side. */
    const int dense = l.inner == 1;
    return count > 0 && l.size > 0
               ? hri_gpu_launch(c->gpu, &hri_cu_cumsum, hri_launch_t(c->sig->in[0].type, 1).text,
                                dense ? "dense_lines" : "lines",
                                &(hri_gpu_grid){.x = dense ? (uint32_t)count
                                                           : hri_launch_blocks(count, THREADS),
                                                .threads = THREADS},
                                HRI_GPU_ARGS(&x, &y, &l))
               : HR_OK;
}

static const hri_case cumsum_cases[] = {
    {"rows", "f32[7,33]", .batched = 1},
    {"columns", "f32[7,33]", "axis=0"},
    {"the middle, from the end", "f32[2,9,5]", "axis=1,reverse"},
    {"exclusive", "f32[3,700]", "exclusive", .flags = HRI_CASE_NO_GRAD},
    {"exclusive from the end", "f32[3,5]", "exclusive,reverse"},
    {"one", "f32[1]"},
    {"none", "f32[3,0]"},
    {"long", "f32[2,1300]", "reverse", .tolerance = 1e-4, .flags = HRI_CASE_NO_GRAD},
    {"bf16", "bf16[7,33]"},
    {"f16", "f16[7,33]", "axis=0"},
    {"no such axis", "f32[3]", "axis=1", .flags = HRI_CASE_BAD},
    {"integers", "i32[3]", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_cumsum = {
    .name = "cumsum",
    .formula = "y[k] = x[0] + ... + x[k]",
    .in_min = 1,
    .in_max = 1,
    .out_count = 1,
    .fields = cumsum_fields,
    .attr_bytes = sizeof(cumsum_attr),
    .infer = cumsum_infer,
    .grad = cumsum_grad,
    .overwrite = {1},
    .samples = cumsum_samples,
    .host = {.run = cumsum_host},
    .cases = HRI_CASES(cumsum_cases),
};

const hri_kernel hri_kernel_cuda_cumsum = {.launch = cumsum_cuda};
