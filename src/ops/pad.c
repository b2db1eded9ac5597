/* pad(x; before, after, step, value): x with a border of one number, and with step - 1 of it between neighbours.  The lists start
 * at the first dimension; dimensions beyond them get none.  Any type; whole numbers take the value cut to its whole part.
 * The gradient keeps nothing: it is the slice of dy where x was. */
#include "graph/dims.h"
#include "graph/half.h"
#include "ops/common/box.h"
#include "ops/common/strided_cuda.h"

#include <string.h>

static const hri_field pad_fields[] = {
    {"before", "padding before each dimension", offsetof(hri_attr_pad, before), HRI_FIELD_DIMS,
     NULL},
    {"after", "padding after each dimension", offsetof(hri_attr_pad, after), HRI_FIELD_DIMS, NULL},
    {"step", "from one element to the next; 1 unless given", offsetof(hri_attr_pad, step),
     HRI_FIELD_DIMS, NULL},
    {"value", "what the border holds", offsetof(hri_attr_pad, value), HRI_FIELD_DOUBLE, "0"},
    {0},
};

static hr_status pad_infer(hri_infer *c) {
    const hri_attr_pad *p = c->attr;
    const hr_shape *in = &c->in[0].shape;
    if (p->before.count > in->rank || p->after.count > in->rank || p->step.count > in->rank) {
        return hri_infer_fail(c, "more dimensions are named than the input has, %d", in->rank);
    }
    const int wide = c->in[0].type == HR_TYPE_I32 || c->in[0].type == HR_TYPE_I64;
    if (!hr_type_is_real(c->in[0].type) &&
        !(p->value >= (wide ? INT32_MIN : 0.0) && p->value <= (wide ? INT32_MAX : 255.0))) {
        return hri_infer_fail(c, "a padding value of %g is invalid for %s", p->value,
                              hr_type_name(c->in[0].type));
    }
    c->out[0] = (hr_meta){c->in[0].type, *in};
    for (int d = 0; d < in->rank; d++) {
        int64_t *size = &c->out[0].shape.dim[d]; /* unused places of the lists are 0 */
        const int64_t step = hri_box_step(&p->step, d);
        if (p->before.at[d] < 0 || p->after.at[d] < 0 || step < 1 ||
            __builtin_mul_overflow(*size ? *size - 1 : 0, step, size) ||
            __builtin_add_overflow(*size, in->dim[d] ? 1 : 0, size) ||
            __builtin_add_overflow(*size, p->before.at[d], size) ||
            __builtin_add_overflow(*size, p->after.at[d], size)) {
            return hri_infer_fail(
                c, "the padding or the step of dimension %d is too small or too large", d);
        }
    }
    return HR_OK;
}

static void pad_grad(hri_grad *c) {
    const hri_attr_pad *p = c->sig->attr;
    hri_attr_slice inside = {
        .begin = p->before, .size = hri_dims_of(&c->sig->in[0].shape), .step = p->step};
    inside.begin.count = c->sig->in[0].shape.rank;
    c->din[0] = HRI_NODE(c->g, "slice", &inside, c->dout[0]);
}

static hri_samples pad_samples(const hri_sig *s, uint32_t batched) {
    return batched && s->in[0].shape.rank && s->in[0].shape.dim[0] != s->out[0].shape.dim[0]
               ? HRI_SAMPLES_COUPLED
               : HRI_SAMPLES_APART;
}

typedef struct task {
    const hri_call *c;
    size_t bytes;    /* of an element */
    char element[8]; /* of the border */
} task;

static void fill(const task *t, char *y, int64_t n) {
    switch (t->bytes) {
    case 4: {
        uint32_t v;
        memcpy(&v, t->element, 4);
        for (int64_t i = 0; i < n; i++) {
            ((uint32_t *)(void *)y)[i] = v;
        }
        break;
    }
    case 1:
        memset(y, t->element[0], (size_t)n);
        break;
    default:
        for (int64_t i = 0; i < n; i++) {
            memcpy(y + (size_t)i * t->bytes, t->element, t->bytes);
        }
    }
}

/* Range over rows of the result: all border, or border, a row of x, border. */
static void pad_rows(void *arg, uint64_t begin, uint64_t end, uint32_t worker) {
    const task *t = arg;
    const hri_attr_pad *p = t->c->sig->attr;
    const hr_shape *in = &t->c->sig->in[0].shape, *out = &t->c->sig->out[0].shape;
    const int last = out->rank - 1;
    const int64_t width = out->dim[last], left = p->before.at[last], middle = in->dim[last];
    const int64_t step = hri_box_step(&p->step, last);
    (void)worker;
    for (int64_t row = (int64_t)begin; row < (int64_t)end; row++) {
        char *y = (char *)t->c->out[0] + (size_t)(row * width) * t->bytes;
        int64_t rest = row, from = 0, stride = 1;
        int inside = 1;
        for (int d = last - 1; d >= 0; d--) {
            const int64_t at = rest % out->dim[d] - p->before.at[d];
            const int64_t apart = hri_box_step(&p->step, d);
            rest /= out->dim[d];
            inside &= at >= 0 && at % apart == 0 && at / apart < in->dim[d];
            from += at / apart * stride;
            stride *= in->dim[d];
        }
        if (!inside || middle == 0) {
            fill(t, y, width);
            continue;
        }
        const char *x = (const char *)t->c->in[0] + (size_t)(from * middle) * t->bytes;
        if (step > 1) {
            fill(t, y, width);
            for (int64_t i = 0; i < middle; i++) {
                memcpy(y + (size_t)(left + i * step) * t->bytes, x + (size_t)i * t->bytes,
                       t->bytes);
            }
            continue;
        }
        fill(t, y, left);
        memcpy(y + (size_t)left * t->bytes, x, (size_t)middle * t->bytes);
        fill(t, y + (size_t)(left + middle) * t->bytes, width - left - middle);
    }
}

static void store(hr_type type, double value, char element[8]) {
    const float f = (float)value;
    const int32_t i32 = hr_type_is_real(type) ? 0 : (int32_t)value;
    const int64_t i64 = i32;
    const uint8_t u8 = (uint8_t)i32;
    const int8_t i8 = (int8_t)i32;
    const hri_bf16 bf16 = hri_to_bf16(f);
    const hri_f16 f16 = hri_to_f16(f);
    const void *from[HR_TYPE_COUNT] = {
        [HR_TYPE_F32] = &f,   [HR_TYPE_BF16] = &bf16, [HR_TYPE_F16] = &f16, [HR_TYPE_I32] = &i32,
        [HR_TYPE_I64] = &i64, [HR_TYPE_U8] = &u8,     [HR_TYPE_I8] = &i8,
    };
    memcpy(element, from[type], hr_type_bytes(type));
}

static hr_status pad_host(const hri_call *c) {
    const hr_meta *out = &c->sig->out[0];
    task t = {.c = c, .bytes = hr_type_bytes(out->type)};
    store(out->type, ((const hri_attr_pad *)c->sig->attr)->value, t.element);
    if (out->shape.rank == 0) {
        memcpy(c->out[0], c->in[0], t.bytes);
        return HR_OK;
    }
    const int64_t width = out->shape.dim[out->shape.rank - 1];
    const int64_t count = hr_shape_count(&out->shape);
    if (count) {
        hri_threads_range(c->threads, (uint64_t)(count / width), (uint64_t)(16384 / width + 1),
                          pad_rows, &t);
    }
    return HR_OK;
}

static hr_status pad_cuda(const hri_gpu_call *c) {
    const hri_attr_pad *p = c->sig->attr;
    const hr_meta *in = &c->sig->in[0], *out = &c->sig->out[0];
    hri_border border = {.before = {0}};
    char element[8];
    if (hr_shape_count(&out->shape) == 0) {
        return HR_OK;
    }
    if (out->shape.rank == 0) {
        return hri_gpu_copy(c->gpu, c->out[0], c->in[0], hr_meta_bytes(out));
    }
    store(out->type, p->value, element);
    memcpy(border.element, element, hr_type_bytes(out->type));
    for (int d = 0; d < in->shape.rank; d++) {
        border.before[d] = p->before.at[d];
        border.inside[d] = in->shape.dim[d];
        border.step[d] = hri_box_step(&p->step, d);
    }
    return hri_border_launch(c->gpu, &out->shape, hr_type_bytes(out->type), &border, c->in[0],
                             c->out[0]);
}

static const hri_case pad_cases[] = {
    {"all round", "f32[7,33]", "before=1x2,after=3x4"},
    {"images", "f32[2,5,6,3]", "before=0x1x1,after=0x1x1"},
    {"value", "f32[3,5]", "before=1x1,value=-2.5"},
    {"before", "f32[3,5]", "before=2"},
    {"behind", "f32[3,5]", "after=0x2"},
    {"scalar", "f32[]"},
    {"nothing", "f32[3,5]"},
    {"of nothing", "f32[0,3]", "before=2", .flags = HRI_CASE_NO_GRAD},
    {"long rows", "f32[3,20001]", "before=1x5"},
    {"bf16", "bf16[3,5]", "before=1x1,value=0.5"},
    {"f16", "f16[3,5]", "after=1x1,value=0.5"},
    {"bytes", "u8[3,5]", "after=1x1,value=7"},
    {"long numbers", "i64[3,5]", "after=1x1,value=7", .negative = 1},
    {"numbers below 0", "i32[3,5]", "after=0x1,value=-100", .negative = 1},
    {"batch", "f32[4,5]", "before=0x2", .batched = 1},
    {"wide, bf16", "bf16[4,16]", "before=1x8,after=0x16,value=2"},
    {"wide, f16", "f16[2,3,8]", "before=0x1,after=0x2"},
    {"between", "f32[5,4]", "step=2x3"},
    {"between and around", "f32[3,4,5]", "before=1x0x2,after=2,step=1x2x2,value=1.5"},
    {"between, bf16", "bf16[3,8]", "after=1x1,step=3"},
    {"no step", "f32[3]", "step=0", .flags = HRI_CASE_BAD},
    {"negative", "f32[3]", "before=-1", .flags = HRI_CASE_BAD},
    {"too many dimensions", "f32[3]", "before=1x1", .flags = HRI_CASE_BAD},
    {"value out of range", "u8[3]", "before=1,value=-1", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_pad = {
    .name = "pad",
    .formula = "y = x with a border",
    .in_min = 1,
    .in_max = 1,
    .out_count = 1,
    .fields = pad_fields,
    .attr_bytes = sizeof(hri_attr_pad),
    .infer = pad_infer,
    .grad = pad_grad,
    .samples = pad_samples,
    .host = {.run = pad_host},
    .cases = HRI_CASES(pad_cases),
};

const hri_kernel hri_kernel_cuda_pad = {.launch = pad_cuda};
