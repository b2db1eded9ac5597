/* conv2d_input(dy, w; stride, pad, dilation, groups, size): the gradient of conv2d for its image, of height and width
 * `size`; also the transposed convolution of dy.  It is linear in both: its gradients are conv2d and conv2d_weight. */
#include "ops/common/conv.h"

static hr_shape image_of(const hri_conv_attr *p, const hr_shape *dy, const hr_shape *w) {
    return (hr_shape){.rank = 4,
                      .dim = {dy->dim[0], p->size.at[0], p->size.at[1], w->dim[2] * p->groups}};
}

static hr_status conv2d_input_infer(hri_infer *c) {
    const hri_conv_attr *p = c->attr;
    hri_conv v;
    if (!hr_type_is_real(c->in[0].type) || c->in[0].type != c->in[1].type) {
        return hri_infer_fail(c, "gradient and weights must have the same floating-point type");
    }
    if (c->in[0].shape.rank != 4 || c->in[1].shape.rank != 4 || p->size.count != 2) {
        return hri_infer_fail(c, "gradient and weights have four dimensions, and size is needed");
    }
    const hr_shape x = image_of(p, &c->in[0].shape, &c->in[1].shape);
    const hr_status status = hri_conv_make(c, p, &x, &c->in[1].shape, &v);
    if (status != HR_OK) {
        return status;
    }
    const hr_shape y = hri_conv_out(&v);
    if (!hr_shape_same(&y, &c->in[0].shape)) {
        return hri_infer_fail(c,
                              "the gradient does not have the shape of the convolution's result");
    }
    c->out[0] = (hr_meta){c->in[0].type, x};
    return HR_OK;
}

static void conv2d_input_grad(hri_grad *c) {
    hri_conv_attr p = *(const hri_conv_attr *)c->sig->attr;
    const hr_shape *w = &c->sig->in[1].shape;
    if (HRI_NEEDS(c, 0)) {
        p.size = (hri_dims){0};
        c->din[0] = HRI_NODE(c->g, "conv2d", &p, c->dout[0], c->in[1]);
    }
    if (HRI_NEEDS(c, 1)) {
        p.size = (hri_dims){2, {w->dim[0], w->dim[1]}};
        c->din[1] = HRI_NODE(c->g, "conv2d_weight", &p, c->dout[0], c->in[0]);
    }
}

static hri_conv geometry(const hri_sig *s) {
    return hri_conv_of(s->attr, &s->out[0].shape, &s->in[1].shape);
}

static void conv2d_input_cost(const hri_sig *s, hri_cost *cost) {
    const hri_conv v = geometry(s);
    cost->flops = hri_conv_flops(&v);
}

static uint64_t conv2d_input_workspace(const hri_sig *s, uint32_t threads) {
    const hri_conv v = geometry(s);
    return hri_conv_input_workspace(&v, s, threads);
}

static hr_status conv2d_input_host(const hri_call *c) {
    const hri_conv v = geometry(c->sig);
    hri_conv_input(&v, c);
    return HR_OK;
}

static uint64_t conv2d_input_cuda_workspace(const hri_sig *s, hri_gpu *gpu, uint32_t variant) {
    const hri_conv v = geometry(s);
    (void)variant;
    return hri_conv_cuda_workspace(&v, HRI_GPU_CONV_INPUT, s, gpu);
}

static hr_status conv2d_input_cuda(const hri_gpu_call *c) {
    const hri_conv v = geometry(c->sig);
    return hri_conv_cuda(&v, HRI_GPU_CONV_INPUT, c);
}

static const hri_case conv2d_input_cases[] = {
    {"3x3", "f32[2,6,5,6] f32[3,3,4,6]", "pad=1,size=6x5"},
    {"stride", "f32[2,5,4,5] f32[3,3,3,5]", "stride=2,pad=1,size=9x8"},
    {"1x1 with stride", "f32[2,3,3,4] f32[1,1,3,4]", "stride=2,size=5x6"},
    {"1x1", "f32[2,5,6,4] f32[1,1,3,4]", "size=5x6"},
    {"groups", "f32[2,5,5,9] f32[3,3,2,9]", "groups=3,pad=1,size=5x5"},
    {"depthwise, wide, stride", "f32[2,5,4,70] f32[3,3,1,70]", "groups=70,pad=1,stride=2,size=9x8"},
    {"depthwise, bf16", "bf16[2,6,6,5] bf16[3,3,1,5]", "groups=5,pad=1,size=6x6",
     .tolerance = 1e-2},
    {"bf16", "bf16[1,5,5,4] bf16[3,3,8,4]", "pad=1,size=5x5", .tolerance = 1e-2},
    {"f16", "f16[1,5,5,4] f16[3,3,8,4]", "pad=1,size=5x5", .tolerance = 1e-2},
    {"transposed, 2x2 by 2", "f32[2,3,4,5] f32[2,2,3,5]", "stride=2,size=6x8"},
    {"patches", "f32[2,2,3,5] f32[8,8,3,5]", "stride=8,size=16x24", .batched = 1},
    {"patches, bf16", "bf16[2,2,1,24] bf16[16,16,3,24]", "stride=16,size=32x16", .tolerance = 1e-2},
    {"patches, f16", "f16[2,1,2,9] f16[13,11,1,9]", "stride=13x11,size=13x22", .tolerance = 1e-2},
    {"padded after", "f32[2,3,2,4] f32[3,3,3,4]", "stride=2,pad=0x0x1x1,size=6x5"},
    {"3x3, many channels", "f32[2,6,5,6] f32[3,3,18,6]", "pad=1,size=6x5"},
    {"3x3, blocks of channels", "f32[3,7,6,136] f32[3,3,36,136]", "pad=1,size=7x6",
     .flags = HRI_CASE_NO_GRAD},
    {"3x3, bands and parts", "f32[1,13,66,32] f32[3,3,140,32]", "pad=2x0,size=11x68",
     .flags = HRI_CASE_NO_GRAD},
    {"bf16, many channels", "bf16[1,5,5,4] bf16[3,3,18,4]", "pad=1,size=5x5", .tolerance = 1e-2},
    {"few channels, no pad", "f32[2,2,10,16] f32[5,5,6,16]", "size=6x14", .batched = 1},
    {"few channels, four sides", "f32[1,7,5,3] f32[4,2,2,3]", "pad=1x0x2x1,dilation=1x1,size=7x5"},
    {"pad above the window", "f32[1,8,8,3] f32[2,2,2,3]", "pad=3,size=3x3"},
    {"wrong size", "f32[2,6,5,6] f32[3,3,4,6]", "pad=1,size=7x5", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_conv2d_input = {
    .name = "conv2d_input",
    .formula = "dx[n,si+r,sj+s,c] += dy[n,i,j,o] w[r,s,c,o]",
    .in_min = 2,
    .in_max = 2,
    .out_count = 1,
    .fields = hri_conv_fields,
    .attr_bytes = sizeof(hri_conv_attr),
    .infer = conv2d_input_infer,
    .grad = conv2d_input_grad,
    .keeps = {{.in = 2}, {.in = 1}},
    .cost = conv2d_input_cost,
    .host = {.run = conv2d_input_host, .workspace = conv2d_input_workspace},
    .cases = HRI_CASES(conv2d_input_cases),
};

const hri_kernel hri_kernel_cuda_conv2d_input = {
    .launch = conv2d_input_cuda,
    .launch_workspace = conv2d_input_cuda_workspace,
};
