/* conv2d(x, w [, bias]; stride, pad, dilation, groups): convolution of images.
 *
 *   x (N, H, W, C)   w (KH, KW, C / groups, O)   bias (O)   y (N, OH, OW, O)
 *   OH = (H + 2 pad - dilation (KH - 1) - 1) / stride + 1;   a pad of four numbers is top, left, bottom, right
 *
 * The gradient for x keeps w, the gradient for w keeps x.  common/conv.h says how it is computed. */
#include "ops/common/conv.h"

#include <headroom/ops.h>
#include "graph/dims.h"

static hr_status conv2d_infer(hri_infer *c) {
    hri_conv v;
    if (!hr_type_is_real(c->in[0].type) || c->in[0].type != c->in[1].type) {
        return hri_infer_fail(c, "image and weights must have the same floating-point type");
    }
    const hr_status status = hri_conv_make(c, c->attr, &c->in[0].shape, &c->in[1].shape, &v);
    if (status != HR_OK) {
        return status;
    }
    if (c->in_count > 2 && (!hr_type_is_real(c->in[2].type) || c->in[2].shape.rank != 1 ||
                            c->in[2].shape.dim[0] != v.o)) {
        return hri_infer_fail(c, "the bias must have %lld elements", (long long)v.o);
    }
    c->out[0] = (hr_meta){c->in[0].type, hri_conv_out(&v)};
    return HR_OK;
}

static void conv2d_grad(hri_grad *c) {
    hri_conv_attr p = *(const hri_conv_attr *)c->sig->attr;
    const hr_shape *x = &c->sig->in[0].shape, *w = &c->sig->in[1].shape;
    if (HRI_NEEDS(c, 0)) {
        p.size = (hri_dims){2, {x->dim[1], x->dim[2]}};
        c->din[0] = HRI_NODE(c->g, "conv2d_input", &p, c->dout[0], c->in[1]);
    }
    if (HRI_NEEDS(c, 1)) {
        p.size = (hri_dims){2, {w->dim[0], w->dim[1]}};
        c->din[1] = HRI_NODE(c->g, "conv2d_weight", &p, c->in[0], c->dout[0]);
    }
    if (c->sig->in_count > 2 && HRI_NEEDS(c, 2)) {
        const hr_meta *bias = &c->sig->in[2];
        const hr_value sum = hri_sum_to(c->g, c->dout[0], c->in[2]);
        c->din[2] =
            bias->type == c->sig->out[0].type ? sum : hr_cast(c->g, sum, (hr_type)bias->type);
    }
}

static hri_conv geometry(const hri_sig *s) {
    return hri_conv_of(s->attr, &s->in[0].shape, &s->in[1].shape);
}

static void conv2d_cost(const hri_sig *s, hri_cost *cost) {
    const hri_conv v = geometry(s);
    cost->flops = hri_conv_flops(&v);
}

static uint64_t conv2d_workspace(const hri_sig *s, uint32_t threads) {
    const hri_conv v = geometry(s);
    return hri_conv_forward_workspace(&v, s, threads);
}

static hr_status conv2d_host(const hri_call *c) {
    const hri_conv v = geometry(c->sig);
    hri_conv_forward(&v, c);
    return HR_OK;
}

static uint64_t conv2d_cuda_workspace(const hri_sig *s, hri_gpu *gpu, uint32_t variant) {
    const hri_conv v = geometry(s);
    (void)variant;
    return hri_conv_cuda_workspace(&v, HRI_GPU_CONV_FORWARD, s, gpu);
}

static hr_status conv2d_cuda(const hri_gpu_call *c) {
    const hri_conv v = geometry(c->sig);
    return hri_conv_cuda(&v, HRI_GPU_CONV_FORWARD, c);
}

static const hri_case conv2d_cases[] = {
    {"one pixel", "f32[1,1,1,1] f32[1,1,1,1]"},
    {"1x1", "f32[2,5,4,7] f32[1,1,7,9]", .batched = 1},
    {"3x3", "f32[2,6,5,4] f32[3,3,4,6]", "pad=1", .batched = 1},
    {"stride", "f32[2,9,8,3] f32[3,3,3,5]", "stride=2,pad=1"},
    {"stem", "f32[1,17,19,3] f32[7,7,3,4]", "stride=2,pad=3"},
    {"stem, bf16", "bf16[2,17,19,3] bf16[7,7,3,64]", "stride=2,pad=3"},
    {"1x1 with stride", "f32[2,5,6,3] f32[1,1,3,4]", "stride=2"},
    {"stride above the window", "f32[1,9,9,2] f32[2,2,2,3]", "stride=3"},
    {"patches", "f32[2,16,24,3] f32[8,8,3,5] f32[5]", "stride=8", .batched = 1},
    {"patches, bf16", "bf16[2,32,16,3] bf16[16,16,3,24]", "stride=16", .tolerance = 1e-2},
    {"patches, f16", "f16[2,13,22,1] f16[13,11,1,9] f16[9]", "stride=13x11", .tolerance = 1e-2},
    {"dilation", "f32[1,9,9,2] f32[3,3,2,3]", "dilation=2,pad=2"},
    {"stride and dilation", "f32[1,11,9,2] f32[3,2,2,3]", "dilation=2,stride=3x2,pad=2x1"},
    {"groups", "f32[2,5,5,6] f32[3,3,2,9]", "groups=3,pad=1"},
    {"depthwise", "f32[2,5,5,6] f32[3,3,1,6]", "groups=6,pad=1"},
    {"depthwise, wide, stride", "f32[2,9,8,70] f32[3,3,1,70] f32[70]", "groups=70,pad=1,stride=2"},
    {"depthwise, dilation", "f32[1,9,8,3] f32[3,2,1,3]", "groups=3,pad=2x1,dilation=2"},
    {"depthwise, bf16", "bf16[2,6,6,5] bf16[3,3,1,5]", "groups=5,pad=1", .tolerance = 1e-2},
    {"one channel", "f32[2,6,6,1] f32[3,3,1,1]", "pad=1"},
    {"depthwise with stride", "f32[1,8,7,5] f32[3,3,1,10]", "groups=5,pad=1,stride=2"},
    {"bias", "f32[2,4,4,3] f32[3,3,3,5] f32[5]", "pad=1"},
    {"bias of another type", "bf16[2,4,4,3] bf16[3,3,3,16] f32[16]", "pad=1", .tolerance = 1e-2},
    {"several tiles", "f32[2,12,11,20] f32[3,3,20,13]", "pad=1"},
    {"wide", "f32[1,3,3,40] f32[3,3,40,400]", "pad=1", .flags = HRI_CASE_NO_GRAD},
    {"stride, many channels", "f32[2,9,8,18] f32[3,3,18,20] f32[20]", "stride=2,pad=1",
     .flags = HRI_CASE_NO_GRAD},
    {"dilation, many channels", "f32[1,9,9,17] f32[3,3,17,18]", "dilation=2,pad=2",
     .flags = HRI_CASE_NO_GRAD},
    {"3x3, many channels", "f32[2,9,7,40] f32[3,3,40,72] f32[72]", "pad=1", .batched = 1,
     .flags = HRI_CASE_NO_GRAD},
    {"3x3, blocks of channels", "f32[3,7,6,136] f32[3,3,136,36]", .flags = HRI_CASE_NO_GRAD},
    {"3x3, bands and parts", "f32[1,11,68,32] f32[3,3,32,140]", "pad=2x0",
     .flags = HRI_CASE_NO_GRAD},
    {"few channels", "f32[2,5,30,1] f32[5,5,1,6] f32[6]", "pad=2", .batched = 1},
    {"few channels, no pad", "f32[2,6,14,6] f32[5,5,6,16]", .flags = HRI_CASE_NO_GRAD},
    {"few channels, three vectors", "f32[1,4,23,2] f32[2,3,2,11] f32[11]", "stride=1x2"},
    {"few channels, bf16", "bf16[1,5,9,3] bf16[3,3,3,14] bf16[14]", "pad=1", .tolerance = 1e-2},
    {"pad above the window", "f32[1,3,3,2] f32[2,2,2,3]", "pad=3"},
    {"no images", "f32[0,4,4,3] f32[3,3,3,5]"},
    {"bf16", "bf16[1,5,5,8] bf16[3,3,8,4]", "pad=1", .tolerance = 1e-2},
    {"f16", "f16[1,5,5,3] f16[3,3,3,4]", "pad=1", .tolerance = 1e-2},
    {"padded after", "f32[2,6,5,3] f32[3,3,3,4] f32[4]", "stride=2,pad=0x0x1x1"},
    {"padded on four sides", "f32[1,7,6,2] f32[4,2,2,3]", "pad=1x0x2x1,dilation=1x2"},
    {"1x1, padded after", "f32[2,3,4,3] f32[1,1,3,4]", "pad=0x0x1x0"},
    {"depthwise, padded after", "f32[2,6,6,5] f32[3,3,1,5]", "groups=5,stride=2,pad=0x0x1x1"},
    {"three pads", "f32[1,5,5,8] f32[3,3,8,4]", "pad=1x1x1", .flags = HRI_CASE_BAD},
    {"channels differ", "f32[1,5,5,8] f32[3,3,7,4]", .flags = HRI_CASE_BAD},
    {"window too large", "f32[1,2,2,3] f32[3,3,3,4]", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_conv2d = {
    .name = "conv2d",
    .formula = "y[n,i,j,o] = sum x[n,si+r,sj+s,c] w[r,s,c,o] + bias[o]",
    .in_min = 2,
    .in_max = 3,
    .out_count = 1,
    .fields = hri_conv_fields,
    .attr_bytes = sizeof(hri_conv_attr),
    .infer = conv2d_infer,
    .grad = conv2d_grad,
    .keeps = {{.in = 2}, {.in = 1}, {0}},
    .product = 1,
    .cost = conv2d_cost,
    .host = {.run = conv2d_host, .workspace = conv2d_workspace},
    .cases = HRI_CASES(conv2d_cases),
};

const hri_kernel hri_kernel_cuda_conv2d = {
    .launch = conv2d_cuda,
    .launch_workspace = conv2d_cuda_workspace,
};
