/* concat(x0, x1, ...; axis): up to 16 values one behind the other along one dimension.  Any type, all the same one.  The
 * gradient keeps nothing: each input gets its slice of dy. */
#include "graph/dims.h"
#include "ops/common/box.h"
#include "ops/common/strided_cuda.h"

typedef struct concat_attr {
    int64_t axis;
} concat_attr;

static const hri_field concat_fields[] = {
    {"axis", "the dimension that grows; below 0: from the end", offsetof(concat_attr, axis),
     HRI_FIELD_INT, "0"},
    {0},
};

static int axis_of(const void *attr, int rank) {
    const int64_t axis = ((const concat_attr *)attr)->axis;
    return (int)(axis < 0 ? axis + rank : axis);
}

static hr_status concat_infer(hri_infer *c) {
    const concat_attr *p = c->attr;
    const hr_shape *first = &c->in[0].shape;
    if (p->axis < -first->rank || p->axis >= first->rank) {
        return hri_infer_fail(c, "there is no dimension %lld", (long long)p->axis);
    }
    const int axis = axis_of(p, first->rank);
    c->out[0] = c->in[0];
    for (uint32_t i = 1; i < c->in_count; i++) {
        const hr_shape *x = &c->in[i].shape;
        int same = c->in[i].type == c->in[0].type && x->rank == first->rank;
        for (int d = 0; same && d < first->rank; d++) {
            same &= d == axis || x->dim[d] == first->dim[d];
        }
        if (!same) {
            return hri_infer_fail(c, "inputs 0 and %u differ in more than dimension %d", i, axis);
        }
        int64_t *size = &c->out[0].shape.dim[axis];
        if (__builtin_add_overflow(*size, x->dim[axis], size)) {
            return hri_infer_fail(c, "dimension %d becomes too large", axis);
        }
    }
    return HR_OK;
}

static void concat_grad(hri_grad *c) {
    const int rank = c->sig->out[0].shape.rank, axis = axis_of(c->sig->attr, rank);
    int64_t begin = 0;
    for (uint32_t i = 0; i < c->sig->in_count; i++) {
        const hr_shape *x = &c->sig->in[i].shape;
        if (HRI_NEEDS(c, i)) {
            hri_attr_slice part = {.begin = {.count = rank}, .size = hri_dims_of(x)};
            part.begin.at[axis] = begin;
            c->din[i] = HRI_NODE(c->g, "slice", &part, c->dout[0]);
        }
        begin += x->dim[axis];
    }
}

static hri_samples concat_samples(const hri_sig *s, uint32_t batched) {
    return batched && axis_of(s->attr, s->out[0].shape.rank) == 0 ? HRI_SAMPLES_COUPLED
                                                                  : HRI_SAMPLES_APART;
}

static hr_status concat_host(const hri_call *c) {
    const hr_meta *out = &c->sig->out[0];
    const int axis = axis_of(c->sig->attr, out->shape.rank);
    hri_strided box = {.rank = out->shape.rank, .bytes = hr_type_bytes(out->type)};
    int64_t begin = 0;
    hri_strides(&out->shape, box.to);
    for (uint32_t i = 0; i < c->sig->in_count; i++) {
        const hr_shape *x = &c->sig->in[i].shape;
        if (hr_shape_count(x)) {
            hri_strides(x, box.from);
            for (int d = 0; d < x->rank; d++) {
                box.dim[d] = x->dim[d];
            }
            hri_strided part = box; /* the copy simplifies its own */
            part.in = c->in[i];
            part.out = (char *)c->out[0] + (size_t)(begin * box.to[axis]) * box.bytes;
            hri_strided_copy(&part, c->threads);
        }
        begin += x->dim[axis];
    }
    return HR_OK;
}

/* One launch an input. */
static hr_status concat_cuda(const hri_gpu_call *c) {
    const hr_meta *out = &c->sig->out[0];
    const int axis = axis_of(c->sig->attr, out->shape.rank);
    hri_strided box = {.rank = out->shape.rank, .bytes = hr_type_bytes(out->type)};
    hr_status status = HR_OK;
    int64_t begin = 0;
    hri_strides(&out->shape, box.to);
    for (uint32_t i = 0; i < c->sig->in_count && status == HR_OK; i++) {
        const hr_shape *x = &c->sig->in[i].shape;
        hri_strides(x, box.from);
        for (int d = 0; d < x->rank; d++) {
            box.dim[d] = x->dim[d];
        }
        status = hri_strided_launch(c->gpu, &box, c->in[i],
                                    c->out[0] + (uint64_t)(begin * box.to[axis]) * box.bytes);
        begin += x->dim[axis];
    }
    return status;
}

static const hri_case concat_cases[] = {
    {"rows", "f32[7,33] f32[2,33]"},
    {"columns", "f32[7,3] f32[7,5] f32[7,1]", "axis=1"},
    {"channels", "f32[2,3,4,5] f32[2,3,4,2]", "axis=-1"},
    {"one", "f32[3,4]", "axis=1"},
    {"an empty part", "f32[3,0] f32[3,4]", "axis=1"},
    {"all empty", "f32[0,3] f32[0,3]"},
    {"sixteen", "f32[1] f32[1] f32[1] f32[1] f32[1] f32[1] f32[1] f32[1] "
                "f32[1] f32[1] f32[1] f32[1] f32[1] f32[1] f32[1] f32[1]"},
    {"bf16", "bf16[3,5] bf16[3,2]", "axis=1"},
    {"f16", "f16[3,5] f16[1,5]"},
    {"integers", "i32[3] i32[4]", .negative = 1},
    {"bytes", "u8[3,3] u8[3,4]", "axis=1"},
    {"batch", "f32[4,3] f32[4,2]", "axis=1", .batched = 3},
    {"wide, bf16", "bf16[8,64] bf16[8,16]", "axis=1"},
    {"wide, f16", "f16[4,8] f16[2,8]"},
    {"shapes differ", "f32[3,5] f32[3,4]", .flags = HRI_CASE_BAD},
    {"types differ", "f32[3] bf16[3]", .flags = HRI_CASE_BAD},
    {"no such axis", "f32[3] f32[3]", "axis=1", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_concat = {
    .name = "concat",
    .formula = "y = x0, x1, ... along one dimension",
    .in_min = 1,
    .in_max = HRI_IN_MAX,
    .out_count = 1,
    .fields = concat_fields,
    .attr_bytes = sizeof(concat_attr),
    .infer = concat_infer,
    .grad = concat_grad,
    .samples = concat_samples,
    .host = {.run = concat_host},
    .cases = HRI_CASES(concat_cases),
};

const hri_kernel hri_kernel_cuda_concat = {.launch = concat_cuda};
