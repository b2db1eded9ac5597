/* flip(x; axes): x backwards along some dimensions, or along all of them.  Any type.  The gradient keeps nothing: dy is
 * flipped back. */
#include "graph/dims.h"
#include "ops/common/strided_cuda.h"

static const hri_field flip_fields[] = {
    {"axes", "dimensions to reverse; none: all", offsetof(hri_attr_dims, to), HRI_FIELD_DIMS, NULL},
    {0},
};

static hr_status flip_infer(hri_infer *c) {
    const hri_attr_dims *p = c->attr;
    uint32_t axes;
    if (hri_dims_axes(&p->to, c->in[0].shape.rank, &axes)) {
        return hri_infer_fail(c, "an axis is outside the input's %d dimensions, or named twice",
                              c->in[0].shape.rank);
    }
    c->out[0] = c->in[0];
    return HR_OK;
}

static void flip_grad(hri_grad *c) {
    c->din[0] = HRI_NODE(c->g, "flip", c->sig->attr, c->dout[0]);
}

static uint32_t axes_of(const hri_sig *s) {
    uint32_t axes = 0;
    (void)hri_dims_axes(&((const hri_attr_dims *)s->attr)->to, s->in[0].shape.rank, &axes);
    return axes;
}

static hri_samples flip_samples(const hri_sig *s, uint32_t batched) {
    return batched && axes_of(s) & 1u ? HRI_SAMPLES_COUPLED : HRI_SAMPLES_APART;
}

/* The box without its memory, walked backwards; gives the byte in x at which it begins. */
static uint64_t box_of(const hri_sig *s, hri_strided *box) {
    const hr_shape *x = &s->in[0].shape;
    const uint32_t axes = axes_of(s);
    int64_t first = 0;
    *box = (hri_strided){.rank = x->rank, .bytes = hr_type_bytes(s->in[0].type)};
    hri_strides(x, box->from);
    hri_strides(x, box->to);
    for (int d = 0; d < x->rank; d++) {
        box->dim[d] = x->dim[d];
        if (axes >> d & 1u) {
            first += (x->dim[d] - 1) * box->from[d];
            box->from[d] = -box->from[d];
        }
    }
    return (uint64_t)first * box->bytes;
}

static hr_status flip_host(const hri_call *c) {
    hri_strided box;
    if (hr_shape_count(&c->sig->out[0].shape) == 0) {
        return HR_OK;
    }
    const uint64_t first = box_of(c->sig, &box);
    box.in = (const char *)c->in[0] + first;
    box.out = c->out[0];
    hri_strided_copy(&box, c->threads);
    return HR_OK;
}

static hr_status flip_cuda(const hri_gpu_call *c) {
    hri_strided box;
    if (hr_shape_count(&c->sig->out[0].shape) == 0) {
        return HR_OK;
    }
    const uint64_t first = box_of(c->sig, &box);
    return hri_strided_launch(c->gpu, &box, c->in[0] + first, c->out[0]);
}

static const hri_case flip_cases[] = {
    {"columns", "f32[7,33]", "axes=1", .batched = 1},
    {"rows", "f32[7,33]", "axes=0"},
    {"all", "f32[3,4,5]"},
    {"both sides of an image", "f32[2,6,8,3]", "axes=1x2"},
    {"of ones", "f32[1,1,4]", "axes=-1"},
    {"scalar", "f32[]"},
    {"long", "f32[40000]"},
    {"empty", "f32[0,3]"},
    {"wide rows, bf16", "bf16[5,64]", "axes=0"},
    {"bf16", "bf16[7,9]", "axes=1"},
    {"f16", "f16[7,9]", "axes=0"},
    {"integers", "i32[3,4]", "axes=1", .negative = 1},
    {"bytes", "u8[7,9]"},
    {"no such axis", "f32[3]", "axes=1", .flags = HRI_CASE_BAD},
    {"twice", "f32[3,4]", "axes=0x0", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_flip = {
    .name = "flip",
    .formula = "y = x backwards along some dimensions",
    .in_min = 1,
    .in_max = 1,
    .out_count = 1,
    .fields = flip_fields,
    .attr_bytes = sizeof(hri_attr_dims),
    .infer = flip_infer,
    .grad = flip_grad,
    .samples = flip_samples,
    .host = {.run = flip_host},
    .cases = HRI_CASES(flip_cases),
};

const hri_kernel hri_kernel_cuda_flip = {.launch = flip_cuda};
