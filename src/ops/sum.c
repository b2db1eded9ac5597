/* sum(x; axes, keep) = the sum over some dimensions, or over all of them.  With keep they stay as dimensions of 1.
 * The gradient keeps nothing: dy is broadcast back. */
#include "graph/dims.h"
#include "ops/common/reduce_cuda.h"

typedef struct sum_attr {
    hri_dims axes;
    bool keep;
} sum_attr;

static const hri_field sum_fields[] = {
    {"axes", "dimensions to sum over; none: all", offsetof(sum_attr, axes), HRI_FIELD_DIMS, NULL},
    {"keep", "keep them as dimensions of 1", offsetof(sum_attr, keep), HRI_FIELD_BOOL, NULL},
    {0},
};

static hr_status sum_infer(hri_infer *c) {
    const sum_attr *p = c->attr;
    const hr_shape *in = &c->in[0].shape;
    uint32_t axes;
    if (!hr_type_is_real(c->in[0].type)) {
        return hri_infer_fail(c, "the input is %s, not a floating-point type",
                              hr_type_name(c->in[0].type));
    }
    if (hri_dims_axes(&p->axes, in->rank, &axes)) {
        return hri_infer_fail(c, "an axis is out of range or given twice");
    }
    c->out[0].type = c->in[0].type;
    for (int d = 0; d < in->rank; d++) {
        if (p->keep || !(axes >> d & 1u)) {
            c->out[0].shape.dim[c->out[0].shape.rank++] = axes >> d & 1u ? 1 : in->dim[d];
        }
    }
    return HR_OK;
}

static uint32_t axes_of(const hri_sig *s) {
    uint32_t axes = 0;
    (void)hri_dims_axes(&((const sum_attr *)s->attr)->axes, s->in[0].shape.rank, &axes);
    return axes;
}

static void sum_grad(hri_grad *c) {
    const hr_shape *in = &c->sig->in[0].shape;
    const uint32_t axes = axes_of(c->sig);
    hri_attr_dims kept = {hri_dims_of(in)};
    for (int d = 0; d < in->rank; d++) {
        kept.to.at[d] = axes >> d & 1u ? 1 : in->dim[d];
    }
    const hri_attr_dims whole = {hri_dims_of(in)};
    const hr_value dy = HRI_NODE(c->g, "reshape", &kept, c->dout[0]);
    c->din[0] = HRI_NODE(c->g, "broadcast_to", &whole, dy);
}

static hri_samples sum_samples(const hri_sig *s, uint32_t batched) {
    return batched & axes_of(s) & 1u ? HRI_SAMPLES_SUM : HRI_SAMPLES_APART;
}

static void sum_cost(const hri_sig *s, hri_cost *cost) {
    cost->flops = (double)hr_shape_count(&s->in[0].shape);
}

static uint64_t sum_workspace(const hri_sig *s, uint32_t threads) {
    hri_reduction r;
    (void)threads;
    hri_reduction_init(&r, &s->in[0].shape, axes_of(s));
    return hri_reduction_workspace(&r, s->in[0].type);
}

static hr_status sum_host(const hri_call *c) {
    hri_reduction r;
    hri_reduction_init(&r, &c->sig->in[0].shape, axes_of(c->sig));
    hri_reduction_sum(&r, c->threads, c->sig->in[0].type, c->in[0], c->out[0], 1.0f, c->workspace);
    return HR_OK;
}

static uint64_t sum_cuda_workspace(const hri_sig *s, hri_gpu *gpu, uint32_t variant) {
    hri_reduction r;
    (void)gpu;
    (void)variant;
    hri_reduction_init(&r, &s->in[0].shape, axes_of(s));
    return hri_reduction_launch_workspace(&r, s->in[0].type);
}

static hr_status sum_cuda(const hri_gpu_call *c) {
    hri_reduction r;
    hri_reduction_init(&r, &c->sig->in[0].shape, axes_of(c->sig));
    return hri_reduction_launch(c->gpu, &r, c->sig->in[0].type, c->in[0], c->out[0], 1.0f,
                                c->workspace);
}

static const hri_case sum_cases[] = {
    {"scalar", "f32[]"},
    {"all", "f32[7,33]"},
    {"last", "f32[7,33]", "axes=-1"},
    {"first", "f32[700,33]", "axes=0", .batched = 1},
    {"long column", "f32[5000,3]", "axes=0,keep"},
    {"middle", "f32[3,50,5]", "axes=1,keep"},
    {"both ends", "f32[5,3,4]", "axes=0x2"},
    {"alternating", "f32[2,3,4,5]", "axes=1x3,keep"},
    {"one long row", "f32[30001]"},
    {"empty", "f32[0,3]", "axes=0"},
    {"bf16", "bf16[9,7]", "axes=0"},
    {"f16", "f16[9,7]", "axes=1"},
    {"many rows, bf16", "bf16[700,72]", "axes=0"},
    {"many rows, f16", "f16[3,300,40]", "axes=1"},
    {"short columns", "f32[3,5,1040]", "axes=1"},
    {"wide rows", "f32[5,4096]", "axes=1", .flags = HRI_CASE_NO_GRAD},
    {"long row, bf16", "bf16[20000]"},
    {"long rows, f16", "f16[3,9000]", "axes=1"},
    {"axis out of range", "f32[2]", "axes=1", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_sum = {
    .name = "sum",
    .formula = "y = sum of x over axes",
    .in_min = 1,
    .in_max = 1,
    .out_count = 1,
    .fields = sum_fields,
    .attr_bytes = sizeof(sum_attr),
    .infer = sum_infer,
    .grad = sum_grad,
    .samples = sum_samples,
    .cost = sum_cost,
    .host = {.run = sum_host, .workspace = sum_workspace},
    .cases = HRI_CASES(sum_cases),
};

const hri_kernel hri_kernel_cuda_sum = {.launch = sum_cuda, .launch_workspace = sum_cuda_workspace};
