/* sum_to(x; to) sums x over the dimensions along which a value of shape `to` would be broadcast to x's shape: the
 * gradient of broadcasting. */
#include "graph/dims.h"
#include "ops/common/reduce_cuda.h"

static const hri_field sum_to_fields[] = {
    {"to", "the shape of the result", offsetof(hri_attr_dims, to), HRI_FIELD_DIMS, NULL},
    {0},
};

static uint32_t axes_of(const hr_shape *from, const hr_shape *to) {
    uint32_t axes = 0;
    for (int d = 0; d < from->rank && d < HR_RANK_MAX; d++) {
        const int at = d - (from->rank - to->rank);
        axes |= (uint32_t)(at < 0 || to->dim[at] != from->dim[d]) << d;
    }
    return axes;
}

static hr_status sum_to_infer(hri_infer *c) {
    const hr_shape to = hri_dims_shape(&((const hri_attr_dims *)c->attr)->to);
    const hr_shape *from = &c->in[0].shape;
    if (!hr_type_is_real(c->in[0].type)) {
        return hri_infer_fail(c, "the input is %s, not a floating-point type",
                              hr_type_name(c->in[0].type));
    }
    if (to.rank > from->rank) {
        return hri_infer_fail(c, "the result would have more dimensions than the input");
    }
    for (int d = 0; d < to.rank; d++) {
        const int64_t is = from->dim[d + from->rank - to.rank];
        if (to.dim[d] != is && to.dim[d] != 1) {
            return hri_infer_fail(c, "dimension %d of the result is %lld, the input has %lld", d,
                                  (long long)to.dim[d], (long long)is);
        }
    }
    c->out[0] = (hr_meta){c->in[0].type, to};
    return HR_OK;
}

static void sum_to_grad(hri_grad *c) {
    const hri_attr_dims whole = {hri_dims_of(&c->sig->in[0].shape)};
    c->din[0] = HRI_NODE(c->g, "broadcast_to", &whole, c->dout[0]);
}

static hri_samples sum_to_samples(const hri_sig *s, uint32_t batched) {
    return batched & axes_of(&s->in[0].shape, &s->out[0].shape) & 1u ? HRI_SAMPLES_SUM
                                                                     : HRI_SAMPLES_APART;
}

static void sum_to_cost(const hri_sig *s, hri_cost *cost) {
    cost->flops = (double)hr_shape_count(&s->in[0].shape);
}

static uint64_t sum_to_workspace(const hri_sig *s, uint32_t threads) {
    hri_reduction r;
    (void)threads;
    hri_reduction_init(&r, &s->in[0].shape, axes_of(&s->in[0].shape, &s->out[0].shape));
    return hri_reduction_workspace(&r, s->in[0].type);
}

static hr_status sum_to_host(const hri_call *c) {
    hri_reduction r;
    hri_reduction_init(&r, &c->sig->in[0].shape,
                       axes_of(&c->sig->in[0].shape, &c->sig->out[0].shape));
    hri_reduction_sum(&r, c->threads, c->sig->in[0].type, c->in[0], c->out[0], 1.0f, c->workspace);
    return HR_OK;
}

static uint64_t sum_to_cuda_workspace(const hri_sig *s, hri_gpu *gpu, uint32_t variant) {
    hri_reduction r;
    (void)gpu;
    (void)variant;
    hri_reduction_init(&r, &s->in[0].shape, axes_of(&s->in[0].shape, &s->out[0].shape));
    return hri_reduction_launch_workspace(&r, s->in[0].type);
}

static hr_status sum_to_cuda(const hri_gpu_call *c) {
    hri_reduction r;
    hri_reduction_init(&r, &c->sig->in[0].shape,
                       axes_of(&c->sig->in[0].shape, &c->sig->out[0].shape));
    return hri_reduction_launch(c->gpu, &r, c->sig->in[0].type, c->in[0], c->out[0], 1.0f,
                                c->workspace);
}

static hr_status sum_to_cuda_made(const hri_gpu_call *c, const hri_gpu_call *maker,
                                  const hri_gpu_call *again) {
    hri_reduction r;
    hri_reduction_init(&r, &c->sig->in[0].shape,
                       axes_of(&c->sig->in[0].shape, &c->sig->out[0].shape));
    return hri_reduction_launch_made(maker, again, &r, c->out[0], c->workspace);
}

static const hri_case sum_to_cases[] = {
    {"bias", "f32[50,7,33]", "to=33"},
    {"scalar", "f32[5,7]"},
    {"column", "f32[5,7]", "to=5x1"},
    {"both", "f32[4,5,3]", "to=1x5x1"},
    {"nothing", "f32[4,5]", "to=4x5"},
    {"bf16", "bf16[9,7]", "to=7"},
    {"f16", "f16[9,7]", "to=9x1"},
    {"bias of many, bf16", "bf16[900,64]", "to=64"},
    {"bias of many, f32", "f32[900,24]", "to=24", .flags = HRI_CASE_NO_GRAD},
    {"bias of wide rows, bf16", "bf16[300,768]", "to=768", .flags = HRI_CASE_NO_GRAD},
    {"bias of wide rows, f32", "f32[5,14,256]", "to=256", .flags = HRI_CASE_NO_GRAD},
    {"alternating, f16", "f16[4,5,6,7]", "to=1x5x1x7"},
    {"does not fit", "f32[4,5]", "to=4", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_sum_to = {
    .name = "sum_to",
    .formula = "y = x summed to the shape of `to`",
    .in_min = 1,
    .in_max = 1,
    .out_count = 1,
    .fields = sum_to_fields,
    .attr_bytes = sizeof(hri_attr_dims),
    .infer = sum_to_infer,
    .grad = sum_to_grad,
    .samples = sum_to_samples,
    .cost = sum_to_cost,
    .host = {.run = sum_to_host, .workspace = sum_to_workspace},
    .cases = HRI_CASES(sum_to_cases),
};

const hri_kernel hri_kernel_cuda_sum_to = {
    .launch = sum_to_cuda,
    .launch_workspace = sum_to_cuda_workspace,
    .launch_made = sum_to_cuda_made,
};
