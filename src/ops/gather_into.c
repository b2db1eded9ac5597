/* gather_into(w, x; ranks): w <- the slices x of all ranks, one after the other.
 *
 * After an update of slices every rank has the whole again, in w's own memory.  One type; bytes are moved and nothing
 * else. */
#include "ops/common/ranks.h"

typedef struct gather_into_attr {
    int64_t ranks;
} gather_into_attr;

static const hri_field gather_into_fields[] = {HRI_RANKS_FIELD(gather_into_attr), {0}};

static hr_status gather_into_infer(hri_infer *c) {
    const gather_into_attr *p = c->attr;
    const int64_t slice = hri_slice_count(hr_shape_count(&c->in[0].shape), p->ranks);
    if (c->in[0].type != c->in[1].type || hr_shape_count(&c->in[1].shape) != slice ||
        (p->ranks > 1 && slice == hr_shape_count(&c->in[0].shape))) { /* that is not cut */
        return hri_infer_fail(c, "a slice of it has %lld elements of its type", (long long)slice);
    }
    c->out[0] = c->in[0];
    return HR_OK;
}

static hr_status gather_into_host(const hri_call *c) {
    const gather_into_attr *p = c->sig->attr;
    const hr_status status = hri_ranks_check(c, p->ranks);
    if (status == HR_OK && p->ranks == 1) {
        memcpy(c->out[0], c->in[1], hr_meta_bytes(&c->sig->out[0]));
        return HR_OK;
    }
    return status == HR_OK
               ? hri_ranks_gather(c, c->in[1], c->out[0], hr_shape_count(&c->sig->out[0].shape),
                                  hr_shape_count(&c->sig->in[1].shape),
                                  hr_type_bytes(c->sig->in[0].type))
               : status;
}

static void gather_into_moves(const hri_sig *s, uint32_t rank, hri_moves *out) {
    const gather_into_attr *p = s->attr;
    hri_ranks_moves(out, rank, p->ranks, 1, hr_shape_count(&s->out[0].shape),
                    hr_shape_count(&s->in[1].shape), hr_type_bytes(s->in[0].type));
}

static uint64_t gather_into_workspace(const hri_sig *s, uint32_t threads) {
    (void)threads;
    return hri_ranks_workspace(((const gather_into_attr *)s->attr)->ranks);
}

static void gather_into_cost(const hri_sig *s, hri_cost *cost) {
    hri_ranks_cost(cost, ((const gather_into_attr *)s->attr)->ranks,
                   (double)hr_meta_bytes(&s->out[0]));
}

static const hri_case gather_into_cases[] = {
    {"alone", "f32[7,33] f32[231]"},
    {"bf16", "bf16[3001] bf16[3001]"},
    {"another size", "f32[7] f32[6]", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_gather_into = {
    .name = "gather_into",
    .formula = "w = the slices x of all ranks, one after the other",
    .in_min = 2,
    .in_max = 2,
    .out_count = 1,
    .fields = gather_into_fields,
    .attr_bytes = sizeof(gather_into_attr),
    .infer = gather_into_infer,
    .updates = {1},
    .samples = hri_ranks_samples,
    .cost = gather_into_cost,
    .net = 1,
    .moves = gather_into_moves,
    .host = {.run = gather_into_host, .workspace = gather_into_workspace},
    .cases = HRI_CASES(gather_into_cases),
};

const hri_kernel hri_kernel_cuda_gather_into = {.launch = hri_ranks_launch};
