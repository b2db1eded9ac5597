/* transpose(x; order): dimension d of the result is dimension order[d] of x.  Without an order the dimensions are
 * reversed.  Any type.  The gradient keeps nothing: dy is turned back. */
#include "graph/dims.h"
#include "ops/common/strided_cuda.h"

static const hri_field transpose_fields[] = {
    {"order", "which dimension of the input each dimension of the result is; none: reversed",
     offsetof(hri_attr_dims, to), HRI_FIELD_DIMS, NULL},
    {0},
};

static int order_at(const hri_attr_dims *p, int rank, int d) {
    const int64_t at = p->to.count ? p->to.at[d] : rank - 1 - d;
    return (int)(at < 0 ? at + rank : at);
}

static hr_status transpose_infer(hri_infer *c) {
    const hri_attr_dims *p = c->attr;
    const hr_shape *in = &c->in[0].shape;
    uint32_t seen = 0;
    if (p->to.count && p->to.count != in->rank) {
        return hri_infer_fail(c, "the order names %lld dimensions, the input has %d",
                              (long long)p->to.count, in->rank);
    }
    c->out[0] = (hr_meta){c->in[0].type, *in};
    for (int d = 0; d < in->rank; d++) {
        const int64_t given = p->to.count ? p->to.at[d] : 0;
        if (given < -in->rank || given >= in->rank || (seen >> order_at(p, in->rank, d) & 1u)) {
            return hri_infer_fail(c, "the order is not one of %d dimensions", in->rank);
        }
        seen |= 1u << order_at(p, in->rank, d);
        c->out[0].shape.dim[d] = in->dim[order_at(p, in->rank, d)];
    }
    return HR_OK;
}

static void transpose_grad(hri_grad *c) {
    const int rank = c->sig->in[0].shape.rank;
    hri_attr_dims back = {{.count = rank}};
    for (int d = 0; d < rank; d++) {
        back.to.at[order_at(c->sig->attr, rank, d)] = d;
    }
    c->din[0] = HRI_NODE(c->g, "transpose", &back, c->dout[0]);
}

static hri_samples transpose_samples(const hri_sig *s, uint32_t batched) {
    const int rank = s->in[0].shape.rank;
    return batched && rank && order_at(s->attr, rank, 0) ? HRI_SAMPLES_COUPLED : HRI_SAMPLES_APART;
}

static hri_strided box_of(const hri_sig *sig) {
    const hr_shape *in = &sig->in[0].shape, *out = &sig->out[0].shape;
    hri_strided box = {.rank = out->rank, .bytes = hr_type_bytes(sig->out[0].type)};
    int64_t from[HR_RANK_MAX];
    hri_strides(in, from);
    hri_strides(out, box.to);
    for (int d = 0; d < out->rank; d++) {
        box.dim[d] = out->dim[d];
        box.from[d] = from[order_at(sig->attr, in->rank, d)];
    }
    return box;
}

static hr_status transpose_host(const hri_call *c) {
    hri_strided box = box_of(c->sig);
    box.in = c->in[0];
    box.out = c->out[0];
    hri_strided_copy(&box, c->threads);
    return HR_OK;
}

static hr_status transpose_cuda(const hri_gpu_call *c) {
    const hri_strided box = box_of(c->sig);
    return hri_strided_launch(c->gpu, &box, c->in[0], c->out[0]);
}

static const hri_case transpose_cases[] = {
    {"matrix", "f32[7,33]"},
    {"scalar", "f32[]"},
    {"nothing", "f32[3,5]", "order=0x1"},
    {"tiles", "f32[100,67]", "order=1x0"},
    {"heads", "f32[3,5,4,6]", "order=0x2x1x3"},
    {"images", "f32[2,3,5,7]", "order=0x2x3x1"},
    {"round", "f32[3,4,5]", "order=2x0x1"},
    {"from the end", "f32[3,4,5]", "order=0x-1x-2"},
    {"ones", "f32[1,4,1,5]", "order=3x2x1x0"},
    {"empty", "f32[0,3]"},
    {"bf16", "bf16[37,41]"},
    {"f16", "f16[5,6,7]", "order=1x2x0"},
    {"bytes", "u8[37,41]"},
    {"long numbers", "i64[9,5]", .negative = 1},
    {"batch", "f32[4,3,5]", "order=0x2x1", .batched = 1},
    {"wide, bf16", "bf16[40,64]"},
    {"batches, f16", "f16[3,40,37]", "order=0x2x1"},
    {"heads, bf16", "bf16[2,5,4,16]", "order=0x2x1x3"},
    {"few columns", "f32[50,3]"},
    {"twice the same", "f32[3,4]", "order=0x0", .flags = HRI_CASE_BAD},
    {"too few", "f32[3,4,5]", "order=1x0", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_transpose = {
    .name = "transpose",
    .formula = "y = x with its dimensions in another order",
    .in_min = 1,
    .in_max = 1,
    .out_count = 1,
    .fields = transpose_fields,
    .attr_bytes = sizeof(hri_attr_dims),
    .infer = transpose_infer,
    .grad = transpose_grad,
    .samples = transpose_samples,
    .host = {.run = transpose_host},
    .cases = HRI_CASES(transpose_cases),
};

const hri_kernel hri_kernel_cuda_transpose = {.launch = transpose_cuda};
