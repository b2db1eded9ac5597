/* mean(x; axes, keep) = the mean over some dimensions, or over all of them.  With keep they stay as dimensions of 1.
 * The mean of nothing is NaN.  The gradient keeps nothing: dy / n is broadcast back. */
#include "ops/common/affine.h"
#include "ops/common/axes.h"
#include "ops/common/reduce_cuda.h"

static const hri_field mean_fields[] = {HRI_AXES_FIELDS, {0}};

static hr_status mean_infer(hri_infer *c) {
    uint32_t axes;
    int64_t each = 0;
    return hri_axes_infer(c, &axes, &each);
}

/* How many elements make one result. */
static double each_of(const hri_sig *s) {
    double each = 1.0;
    for (int d = 0; d < s->in[0].shape.rank; d++) {
        each *= hri_axes_of(s) >> d & 1u ? (double)s->in[0].shape.dim[d] : 1.0;
    }
    return each;
}

static void mean_grad(hri_grad *c) {
    const hri_attr_dims kept = hri_axes_kept(c->sig);
    const hri_attr_dims whole = {hri_dims_of(&c->sig->in[0].shape)};
    const double each = each_of(c->sig);
    const hri_attr_affine part = {.scale = each > 0.0 ? 1.0 / each : 0.0};
    const hr_value dy = HRI_NODE(c->g, "affine", &part, c->dout[0]);
    c->din[0] = HRI_NODE(c->g, "broadcast_to", &whole, HRI_NODE(c->g, "reshape", &kept, dy));
}

static hri_samples mean_samples(const hri_sig *s, uint32_t batched) {
    return batched & hri_axes_of(s) & 1u ? HRI_SAMPLES_MEAN : HRI_SAMPLES_APART;
}

static void mean_cost(const hri_sig *s, hri_cost *cost) {
    cost->flops = (double)hr_shape_count(&s->in[0].shape);
}

static uint64_t mean_workspace(const hri_sig *s, uint32_t threads) {
    hri_reduction r;
    (void)threads;
    hri_reduction_init(&r, &s->in[0].shape, hri_axes_of(s));
    return hri_reduction_workspace(&r, s->in[0].type);
}

static hr_status mean_host(const hri_call *c) {
    hri_reduction r;
    hri_reduction_init(&r, &c->sig->in[0].shape, hri_axes_of(c->sig));
    hri_reduction_sum(&r, c->threads, c->sig->in[0].type, c->in[0], c->out[0],
                      (float)(1.0 / each_of(c->sig)), c->workspace);
    return HR_OK;
}

static uint64_t mean_cuda_workspace(const hri_sig *s, hri_gpu *gpu, uint32_t variant) {
    hri_reduction r;
    (void)gpu;
    (void)variant;
    hri_reduction_init(&r, &s->in[0].shape, hri_axes_of(s));
    return hri_reduction_launch_workspace(&r, s->in[0].type);
}

static hr_status mean_cuda(const hri_gpu_call *c) {
    hri_reduction r;
    hri_reduction_init(&r, &c->sig->in[0].shape, hri_axes_of(c->sig));
    return hri_reduction_launch(c->gpu, &r, c->sig->in[0].type, c->in[0], c->out[0],
                                (float)(1.0 / each_of(c->sig)), c->workspace);
}

static const hri_case mean_cases[] = {
    {"scalar", "f32[]"},
    {"all", "f32[7,33]"},
    {"last", "f32[7,33]", "axes=-1"},
    {"first", "f32[700,33]", "axes=0"},
    {"images", "f32[3,5,7,4]", "axes=1x2"},
    {"both ends", "f32[5,3,4]", "axes=0x2,keep"},
    {"alternating", "f32[2,3,4,5]", "axes=1x3,keep"},
    {"one long row", "f32[30001]"},
    {"of nothing", "f32[0,3]", "axes=0"},
    {"no results", "f32[0,3]", "axes=1"},
    {"bf16", "bf16[9,7]", "axes=0"},
    {"f16", "f16[9,7]", "axes=1"},
    {"images, bf16", "bf16[2,9,9,16]", "axes=1x2"},
    {"long rows, f16", "f16[2,3000]", "axes=1"},
    {"axis out of range", "f32[2]", "axes=1", .flags = HRI_CASE_BAD},
    {"axis twice", "f32[2,3]", "axes=1x-1", .flags = HRI_CASE_BAD},
    {"integers", "i32[3]", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_mean = {
    .name = "mean",
    .formula = "y = mean of x over axes",
    .in_min = 1,
    .in_max = 1,
    .out_count = 1,
    .fields = mean_fields,
    .attr_bytes = sizeof(hri_attr_axes),
    .infer = mean_infer,
    .grad = mean_grad,
    .samples = mean_samples,
    .cost = mean_cost,
    .host = {.run = mean_host, .workspace = mean_workspace},
    .cases = HRI_CASES(mean_cases),
};

const hri_kernel hri_kernel_cuda_mean = {.launch = mean_cuda,
                                         .launch_workspace = mean_cuda_workspace};
