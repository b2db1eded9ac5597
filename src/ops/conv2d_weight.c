/* conv2d_weight(x, dy; stride, pad, dilation, groups, size): the gradient of conv2d for its weights, whose windows are
 * `size`.  A sum over the samples of the batch. */
#include "ops/common/conv.h"

static hr_shape weights_of(const hri_conv_attr *p, const hr_shape *x, const hr_shape *dy) {
    return (hr_shape){.rank = 4,
                      .dim = {p->size.at[0], p->size.at[1],
                              p->groups > 0 ? x->dim[3] / p->groups : 0, dy->dim[3]}};
}

static hr_status conv2d_weight_infer(hri_infer *c) {
    const hri_conv_attr *p = c->attr;
    hri_conv v;
    if (!hr_type_is_real(c->in[0].type) || c->in[0].type != c->in[1].type) {
        return hri_infer_fail(c, "image and gradient must have the same floating-point type");
    }
    if (c->in[0].shape.rank != 4 || c->in[1].shape.rank != 4 || p->size.count != 2) {
        return hri_infer_fail(c, "image and gradient have four dimensions, and size is needed");
    }
    const hr_shape w = weights_of(p, &c->in[0].shape, &c->in[1].shape);
    const hr_status status = hri_conv_make(c, p, &c->in[0].shape, &w, &v);
    if (status != HR_OK) {
        return status;
    }
    const hr_shape y = hri_conv_out(&v);
    if (!hr_shape_same(&y, &c->in[1].shape)) {
        return hri_infer_fail(c,
                              "the gradient does not have the shape of the convolution's result");
    }
    c->out[0] = (hr_meta){c->in[0].type, w};
    return HR_OK;
}

static hri_conv geometry(const hri_sig *s) {
    return hri_conv_of(s->attr, &s->in[0].shape, &s->out[0].shape);
}

static hri_samples conv2d_weight_samples(const hri_sig *s, uint32_t batched) {
    (void)s;
    return batched == 3u ? HRI_SAMPLES_SUM : batched ? HRI_SAMPLES_COUPLED : HRI_SAMPLES_APART;
}

static void conv2d_weight_cost(const hri_sig *s, hri_cost *cost) {
    const hri_conv v = geometry(s);
    cost->flops = hri_conv_flops(&v);
}

static uint64_t conv2d_weight_workspace(const hri_sig *s, uint32_t threads) {
    const hri_conv v = geometry(s);
    return hri_conv_weight_workspace(&v, s, threads);
}

static hr_status conv2d_weight_host(const hri_call *c) {
    const hri_conv v = geometry(c->sig);
    hri_conv_weight(&v, c);
    return HR_OK;
}

static uint64_t conv2d_weight_cuda_workspace(const hri_sig *s, hri_gpu *gpu, uint32_t variant) {
    const hri_conv v = geometry(s);
    (void)variant;
    return hri_conv_cuda_workspace(&v, HRI_GPU_CONV_WEIGHT, s, gpu);
}

static hr_status conv2d_weight_cuda(const hri_gpu_call *c) {
    const hri_conv v = geometry(c->sig);
    return hri_conv_cuda(&v, HRI_GPU_CONV_WEIGHT, c);
}

static const hri_case conv2d_weight_cases[] = {
    {"padded after", "f32[2,6,5,3] f32[2,3,2,4]", "stride=2,pad=0x0x1x1,size=3x3"},
    {"3x3", "f32[2,6,5,4] f32[2,6,5,6]", "pad=1,size=3x3", .batched = 3},
    {"several parts", "f32[3,30,30,4] f32[3,30,30,6]", "pad=1,size=3x3", .batched = 3},
    {"stride", "f32[2,9,8,3] f32[2,5,4,5]", "stride=2,pad=1,size=3x3"},
    {"first of a network", "f32[2,11,14,3] f32[2,6,7,64]", "stride=2,pad=3,size=7x7",
     .tolerance = 1e-2},
    {"first of a network, bf16", "bf16[2,11,14,3] bf16[2,6,7,64]", "stride=2,pad=3,size=7x7",
     .tolerance = 1e-2},
    {"1x1", "f32[2,5,6,3] f32[2,5,6,4]", "size=1x1"},
    {"patches", "f32[2,16,24,3] f32[2,2,3,5]", "stride=8,size=8x8", .batched = 3},
    {"patches, bf16", "bf16[2,32,16,3] bf16[2,2,1,24]", "stride=16,size=16x16", .tolerance = 1e-2},
    {"patches, f16", "f16[2,13,22,1] f16[2,1,2,9]", "stride=13x11,size=13x11", .tolerance = 1e-2},
    {"groups", "f32[2,5,5,6] f32[2,5,5,9]", "groups=3,pad=1,size=3x3"},
    {"depthwise, wide, stride", "f32[2,9,8,70] f32[2,5,4,70]", "groups=70,pad=1,stride=2,size=3x3",
     .batched = 3},
    {"depthwise, many rows", "f32[3,40,7,5] f32[3,40,7,5]", "groups=5,pad=1,size=3x3"},
    {"depthwise, f16", "f16[2,6,6,5] f16[2,6,6,5]", "groups=5,pad=1,size=3x3", .tolerance = 1e-2},
    {"depthwise, no images", "f32[0,6,6,5] f32[0,6,6,5]", "groups=5,pad=1,size=3x3"},
    {"bf16", "bf16[1,5,5,8] bf16[1,5,5,4]", "pad=1,size=3x3", .tolerance = 1e-2},
    {"f16", "f16[1,5,5,8] f16[1,5,5,4]", "pad=1,size=3x3", .tolerance = 1e-2},
    {"many channels", "f32[2,6,5,18] f32[2,6,5,20]", "pad=1,size=3x3", .batched = 3},
    {"many channels, stride", "f32[2,9,8,17] f32[2,5,4,18]", "stride=2,pad=1,size=3x3"},
    {"many channels, bf16", "bf16[1,5,5,18] bf16[1,5,5,17]", "pad=1,size=3x3", .tolerance = 1e-2},
    {"many channels, several parts", "f32[3,30,30,4] f32[3,30,30,18]", "pad=1,size=3x3"},
    {"3x3, blocks of channels", "f32[3,7,6,72] f32[3,7,6,36]", "pad=1,size=3x3", .batched = 3},
    {"3x3, bands and parts", "f32[1,21,68,32] f32[1,23,66,140]", "pad=2x0,size=3x3"},
    {"3x3, no images", "f32[0,6,6,32] f32[0,6,6,32]", "pad=1,size=3x3"},
    {"one channel to six", "f32[4,12,30,1] f32[4,12,30,6]", "pad=2,size=5x5", .batched = 3},
    {"pad above the window", "f32[1,3,3,2] f32[1,8,8,3]", "pad=3,size=2x2"},
    {"no images", "f32[0,6,6,5] f32[0,6,6,4]", "pad=1,size=3x3"},
    {"wrong size", "f32[2,6,5,4] f32[2,6,5,6]", "pad=1,size=5x3", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_conv2d_weight = {
    .name = "conv2d_weight",
    .formula = "dw[r,s,c,o] = sum x[n,si+r,sj+s,c] dy[n,i,j,o]",
    .in_min = 2,
    .in_max = 2,
    .out_count = 1,
    .fields = hri_conv_fields,
    .attr_bytes = sizeof(hri_conv_attr),
    .infer = conv2d_weight_infer,
    .samples = conv2d_weight_samples,
    .cost = conv2d_weight_cost,
    .host = {.run = conv2d_weight_host, .workspace = conv2d_weight_workspace},
    .cases = HRI_CASES(conv2d_weight_cases),
};

const hri_kernel hri_kernel_cuda_conv2d_weight = {
    .launch = conv2d_weight_cuda,
    .launch_workspace = conv2d_weight_cuda_workspace,
};
