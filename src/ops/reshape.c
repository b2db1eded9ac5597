/* reshape(x; to): the same elements in row-major order under another shape.  One dimension may be -1: what is left.
 * A view: when input and output share their memory there is nothing to do. */
#include "graph/dims.h"

#include <string.h>

static const hri_field reshape_fields[] = {
    {"to", "the new shape; one dimension may be -1", offsetof(hri_attr_dims, to), HRI_FIELD_DIMS,
     NULL},
    {0},
};

static hr_status reshape_infer(hri_infer *c) {
    hr_shape to = hri_dims_shape(&((const hri_attr_dims *)c->attr)->to);
    const int64_t count = hr_shape_count(&c->in[0].shape);
    int64_t known = 1;
    int open = -1;
    for (int d = 0; d < to.rank; d++) {
        if (to.dim[d] == -1 && open < 0) {
            open = d;
        } else if (to.dim[d] < 0 || __builtin_mul_overflow(known, to.dim[d], &known)) {
            return hri_infer_fail(c, "dimension %d is invalid", d);
        }
    }
    if (open >= 0 && known > 0 && count % known == 0) {
        to.dim[open] = count / known;
        known = count;
    }
    if (known != count || (open >= 0 && to.dim[open] < 0)) {
        return hri_infer_fail(c, "%lld elements do not fit the new shape", (long long)count);
    }
    c->out[0] = (hr_meta){c->in[0].type, to};
    return HR_OK;
}

static void reshape_grad(hri_grad *c) {
    const hri_attr_dims back = {hri_dims_of(&c->sig->in[0].shape)};
    c->din[0] = HRI_NODE(c->g, "reshape", &back, c->dout[0]);
}

/* Samples stay apart as long as each keeps a run of whole rows. */
static hri_samples reshape_samples(const hri_sig *s, uint32_t batched) {
    const int64_t from = s->in[0].shape.rank ? s->in[0].shape.dim[0] : 1;
    const int64_t to = s->out[0].shape.rank ? s->out[0].shape.dim[0] : 1;
    return batched && (from == 0 || to % from) ? HRI_SAMPLES_COUPLED : HRI_SAMPLES_APART;
}

static hr_status reshape_host(const hri_call *c) {
    if (c->out[0] != c->in[0]) {
        memcpy(c->out[0], c->in[0], hr_meta_bytes(&c->sig->out[0]));
    }
    return HR_OK;
}

static hr_status reshape_cuda(const hri_gpu_call *c) {
    const uint64_t bytes = hr_meta_bytes(&c->sig->out[0]);
    return c->out[0] == c->in[0] || bytes == 0 ? HR_OK
                                               : hri_gpu_copy(c->gpu, c->out[0], c->in[0], bytes);
}

static const hri_case reshape_cases[] = {
    {"flatten", "f32[5,3,2]", "to=5x-1"},
    {"unflatten", "f32[30]", "to=5x3x2"},
    {"scalar", "f32[1,1]"},
    {"empty", "f32[0,3]", "to=0x5"},
    {"bf16", "bf16[6]", "to=2x3"},
    {"f16", "f16[6]", "to=2x3"},
    {"bytes", "u8[6]", "to=3x2"},
    {"does not fit", "f32[6]", "to=4x-1", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_reshape = {
    .name = "reshape",
    .formula = "y = x under another shape",
    .in_min = 1,
    .in_max = 1,
    .out_count = 1,
    .fields = reshape_fields,
    .attr_bytes = sizeof(hri_attr_dims),
    .infer = reshape_infer,
    .grad = reshape_grad,
    .overwrite = {1},
    .view = 1,
    .samples = reshape_samples,
    .host = {.run = reshape_host},
    .cases = HRI_CASES(reshape_cases),
};

const hri_kernel hri_kernel_cuda_reshape = {.launch = reshape_cuda};
