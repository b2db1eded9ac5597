/* slice(x; begin, size, step): a box of x.  The lists start at the first dimension; dimensions beyond them are whole.  A
 * begin below 0 counts from the end, a size of -1 is what is left; with a step of 2 every second element is taken, and the
 * size counts those.  Any type.  The gradient keeps nothing: dy is padded with zeros.  flip goes backwards. */
#include "ops/common/box.h"
#include "ops/common/strided_cuda.h"

static const hri_field slice_fields[] = {
    {"begin", "the first element of each dimension", offsetof(hri_attr_slice, begin),
     HRI_FIELD_DIMS, NULL},
    {"size", "size along each dimension; -1: the rest", offsetof(hri_attr_slice, size),
     HRI_FIELD_DIMS, NULL},
    {"step", "from one element to the next; 1 unless given", offsetof(hri_attr_slice, step),
     HRI_FIELD_DIMS, NULL},
    {0},
};

/* The box along dimension d, its size in elements of the result; -1 when it does not lie in the input. */
static int box_of(const hri_attr_slice *p, const hr_shape *in, int d, int64_t *begin,
                  int64_t *size) {
    *begin = d < p->begin.count ? p->begin.at[d] : 0;
    *begin += *begin < 0 ? in->dim[d] : 0;
    const int64_t left = in->dim[d] - *begin, step = hri_box_step(&p->step, d);
    *size = d < p->size.count ? p->size.at[d] : -1;
    if (step < 1 || *begin < 0 || left < 0) {
        return -1;
    }
    const int64_t most = left / step + (left % step != 0);
    *size = *size == -1 ? most : *size;
    return *size < 0 || *size > most ? -1 : 0;
}

static hr_status slice_infer(hri_infer *c) {
    const hri_attr_slice *p = c->attr;
    const hr_shape *in = &c->in[0].shape;
    if (p->begin.count > in->rank || p->size.count > in->rank || p->step.count > in->rank) {
        return hri_infer_fail(c, "more dimensions are named than the input has, %d", in->rank);
    }
    c->out[0] = (hr_meta){c->in[0].type, *in};
    for (int d = 0; d < in->rank; d++) {
        int64_t begin;
        if (box_of(p, in, d, &begin, &c->out[0].shape.dim[d])) {
            return hri_infer_fail(
                c, "%lld elements from %lld on, %lld apart, are outside dimension %d of size %lld",
                (long long)c->out[0].shape.dim[d], (long long)begin,
                (long long)hri_box_step(&p->step, d), d, (long long)in->dim[d]);
        }
    }
    return HR_OK;
}

static void slice_grad(hri_grad *c) {
    const hr_shape *in = &c->sig->in[0].shape;
    const hri_attr_slice *p = c->sig->attr;
    hri_attr_pad pad = {
        .before = {.count = in->rank}, .after = {.count = in->rank}, .step = p->step};
    for (int d = 0; d < in->rank; d++) {
        int64_t begin, size;
        (void)box_of(p, in, d, &begin, &size);
        pad.before.at[d] = begin;
        pad.after.at[d] = in->dim[d] - begin - hri_box_reach(size, hri_box_step(&p->step, d));
    }
    c->din[0] = HRI_NODE(c->g, "pad", &pad, c->dout[0]);
}

static hri_samples slice_samples(const hri_sig *s, uint32_t batched) {
    return batched && s->in[0].shape.rank && s->in[0].shape.dim[0] != s->out[0].shape.dim[0]
               ? HRI_SAMPLES_COUPLED
               : HRI_SAMPLES_APART;
}

/* The box without its memory; gives the byte at which it begins in x. */
static uint64_t box_in(const hri_sig *sig, hri_strided *box) {
    const hr_shape *in = &sig->in[0].shape;
    *box = (hri_strided){.rank = in->rank, .bytes = hr_type_bytes(sig->out[0].type)};
    int64_t first = 0;
    hri_strides(in, box->from);
    hri_strides(&sig->out[0].shape, box->to);
    for (int d = 0; d < in->rank; d++) {
        int64_t begin;
        (void)box_of(sig->attr, in, d, &begin, &box->dim[d]);
        first += begin * box->from[d];
        box->from[d] *= hri_box_step(&((const hri_attr_slice *)sig->attr)->step, d);
    }
    return (uint64_t)first * box->bytes;
}

static hr_status slice_host(const hri_call *c) {
    hri_strided box;
    const uint64_t first = box_in(c->sig, &box);
    if (hr_shape_count(&c->sig->out[0].shape) == 0) {
        return HR_OK;
    }
    box.in = (const char *)c->in[0] + first;
    box.out = c->out[0];
    hri_strided_copy(&box, c->threads);
    return HR_OK;
}

static hr_status slice_cuda(const hri_gpu_call *c) {
    hri_strided box;
    const uint64_t first = box_in(c->sig, &box);
    return hri_strided_launch(c->gpu, &box, c->in[0] + first, c->out[0]);
}

static const hri_case slice_cases[] = {
    {"rows", "f32[7,33]", "begin=2,size=3"},
    {"columns", "f32[7,33]", "begin=0x5,size=-1x11"},
    {"middle", "f32[4,5,6]", "begin=1x2x3,size=2x2x2"},
    {"last row", "f32[7,3]", "begin=-1"},
    {"whole", "f32[3,5]"},
    {"one number", "f32[3,5]", "begin=2x4,size=1x1"},
    {"long rows", "f32[3,40000]", "begin=1x7,size=2x39990"},
    {"nothing", "f32[3,5]", "size=0"},
    {"bf16", "bf16[7,9]", "begin=1x1"},
    {"f16", "f16[7,9]", "begin=1x1,size=3x3"},
    {"bytes", "u8[7,9]", "begin=0x3"},
    {"batch", "f32[4,9]", "begin=0x3,size=-1x2", .batched = 1},
    {"wide, bf16", "bf16[8,64]", "begin=0x8,size=-1x16"},
    {"wide, f16", "f16[3,6,32]", "begin=1x2x16"},
    {"every second", "f32[7,33]", "step=1x2"},
    {"every third row", "f32[8,4,6]", "begin=1,step=3x1x2"},
    {"steps, bf16", "bf16[9,16]", "begin=1x2,size=3x4,step=3x2"},
    {"too far in steps", "f32[3,5]", "size=2,step=3", .flags = HRI_CASE_BAD},
    {"no step", "f32[3,5]", "step=0", .flags = HRI_CASE_BAD},
    {"too far", "f32[3,5]", "begin=1,size=3", .flags = HRI_CASE_BAD},
    {"begins outside", "f32[3,5]", "begin=4", .flags = HRI_CASE_BAD},
    {"too many dimensions", "f32[3]", "begin=0x0", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_slice = {
    .name = "slice",
    .formula = "y = a box of x",
    .in_min = 1,
    .in_max = 1,
    .out_count = 1,
    .fields = slice_fields,
    .attr_bytes = sizeof(hri_attr_slice),
    .infer = slice_infer,
    .grad = slice_grad,
    .samples = slice_samples,
    .host = {.run = slice_host},
    .cases = HRI_CASES(slice_cases),
};

const hri_kernel hri_kernel_cuda_slice = {.launch = slice_cuda};
