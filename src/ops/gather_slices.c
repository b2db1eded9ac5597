/* gather_slices(x; ranks, to): the tensor of shape `to` whose slices the ranks hold; x is this rank's.
 *
 * So a parameter that every rank holds a slice of is there whole for as long as it is read, and may be dropped and gathered
 * again.  Any type; bytes are moved and nothing else. */
#include "ops/common/ranks.h"

typedef struct gather_slices_attr {
    int64_t ranks;
    hri_dims to;
} gather_slices_attr;

static const hri_field gather_slices_fields[] = {
    HRI_RANKS_FIELD(gather_slices_attr),
    {"to", "the shape of the whole", offsetof(gather_slices_attr, to), HRI_FIELD_DIMS, NULL},
    {0},
};

static hr_status gather_slices_infer(hri_infer *c) {
    const gather_slices_attr *p = c->attr;
    const hr_shape to = hr_shape_from((int)p->to.count, p->to.at);
    const int64_t slice = hri_slice_count(hr_shape_count(&to), p->ranks);
    if (hr_shape_count(&c->in[0].shape) != slice ||
        (p->ranks > 1 && slice == hr_shape_count(&to))) { /* that is not cut */
        return hri_infer_fail(c, "a slice of %lld elements in place of %lld",
                              (long long)hr_shape_count(&c->in[0].shape), (long long)slice);
    }
    c->out[0] = (hr_meta){c->in[0].type, to};
    return HR_OK;
}

static hr_status gather_slices_host(const hri_call *c) {
    const gather_slices_attr *p = c->sig->attr;
    const hr_status status = hri_ranks_check(c, p->ranks);
    const uint64_t width = hr_type_bytes(c->sig->in[0].type);
    if (status == HR_OK && p->ranks == 1) {
        memcpy(c->out[0], c->in[0], hr_meta_bytes(&c->sig->out[0]));
        return HR_OK;
    }
    return status == HR_OK
               ? hri_ranks_gather(c, c->in[0], c->out[0], hr_shape_count(&c->sig->out[0].shape),
                                  hr_shape_count(&c->sig->in[0].shape), width)
               : status;
}

static void gather_slices_moves(const hri_sig *s, uint32_t rank, hri_moves *out) {
    const gather_slices_attr *p = s->attr;
    hri_ranks_moves(out, rank, p->ranks, 0, hr_shape_count(&s->out[0].shape),
                    hr_shape_count(&s->in[0].shape), hr_type_bytes(s->in[0].type));
}

static uint64_t gather_slices_workspace(const hri_sig *s, uint32_t threads) {
    (void)threads;
    return hri_ranks_workspace(((const gather_slices_attr *)s->attr)->ranks);
}

static void gather_slices_cost(const hri_sig *s, hri_cost *cost) {
    hri_ranks_cost(cost, ((const gather_slices_attr *)s->attr)->ranks,
                   (double)hr_meta_bytes(&s->out[0]));
}

static const hri_case gather_slices_cases[] = {
    {"alone", "f32[231]", "to=7x33", .flags = HRI_CASE_NO_GRAD},
    {"long, bf16", "bf16[3001]", "to=3001", .flags = HRI_CASE_NO_GRAD},
    {"another size", "f32[230]", "to=7x33", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_gather_slices = {
    .name = "gather_slices",
    .formula = "y = the slices x of all ranks, one after the other",
    .in_min = 1,
    .in_max = 1,
    .out_count = 1,
    .fields = gather_slices_fields,
    .attr_bytes = sizeof(gather_slices_attr),
    .infer = gather_slices_infer,
    .samples = hri_ranks_samples,
    .cost = gather_slices_cost,
    .net = 1,
    .moves = gather_slices_moves,
    .host = {.run = gather_slices_host, .workspace = gather_slices_workspace},
    .cases = HRI_CASES(gather_slices_cases),
};

const hri_kernel hri_kernel_cuda_gather_slices = {.launch = hri_ranks_launch};
