/* See conv_codes.h. */
#include "ops/common/conv_codes.h"

#include "ops/common/product_i8.h"
#include "ops/common/quantized.h"

#define AT(FIELD) offsetof(hri_conv_codes_attr, FIELD)

const hri_field hri_conv_codes_fields[] = {
    {"stride", "stride of the window", AT(conv.stride), HRI_FIELD_DIMS, "1"},
    {"pad", "zeros at each edge; four numbers: top, left, bottom, right", AT(conv.pad),
     HRI_FIELD_DIMS, "0"},
    {"dilation", "step between taps", AT(conv.dilation), HRI_FIELD_DIMS, "1"},
    {"groups", "independent groups of channels", AT(conv.groups), HRI_FIELD_INT, "1", .min = 1,
     .max = 1e9},
    {"relu", "negative results become 0", AT(relu), HRI_FIELD_BOOL, NULL},
    {0},
};

hr_status hri_conv_codes_make(hri_infer *c, hri_conv *out) {
    const hri_conv_codes_attr *p = c->attr;
    return hri_conv_make(c, &p->conv, &c->in[0].shape, &c->in[1].shape, out);
}

hr_status hri_conv_codes_infer_i8(hri_infer *c, hri_conv *v) {
    if (c->in[0].type != HR_TYPE_U8 || c->in[1].type != HR_TYPE_I8 || c->in_count == 7) {
        return hri_infer_fail(c,
                              "the image must be u8, the weights i8, and a result has both scale "
                              "and zero point or neither");
    }
    hr_status status = hri_conv_codes_make(c, v);
    status = status == HR_OK ? hri_quantized_infer(c, v->o, v->kh * v->kw * v->cg) : status;
    if (status == HR_OK) {
        c->out[0] = (hr_meta){c->in_count > 6 ? HR_TYPE_U8 : HR_TYPE_F32, hri_conv_out(v)};
    }
    return status;
}

hri_conv hri_conv_codes_of(const hri_sig *s) {
    const hri_conv_codes_attr *p = s->attr;
    return hri_conv_of(&p->conv, &s->in[0].shape, &s->in[1].shape);
}

bool hri_conv_codes_relu(const hri_sig *s) {
    return ((const hri_conv_codes_attr *)s->attr)->relu;
}

uint64_t hri_conv_codes_cuda_workspace(const hri_sig *s, hri_gpu *gpu, uint32_t variant) {
    const hri_conv v = hri_conv_codes_of(s);
    (void)gpu;
    (void)variant;
    return hri_product_i8_workspace(&v);
}

hr_status hri_conv_codes_cuda(const hri_gpu_call *c) {
    const hri_conv v = hri_conv_codes_of(c->sig);
    return hri_product_i8_cuda(&v, 0, hri_conv_codes_relu(c->sig), c);
}
