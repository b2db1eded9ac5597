/* square_sum_ranks(x0, x1, ...; ranks, sizes, more): square_sum of tensors that are cut between ranks, a scalar f32.
 *
 * Inputs are this rank's slices, f32; `sizes` (of the first eight) and `more` are the elements of the whole tensors.  A tensor
 * of which the input has all elements is not cut.  Sums of chunks travel, and every rank adds them in the order of the
 * whole tensors, so that the result has the bits of square_sum over those. */
#include "ops/common/ranks.h"
#include "ops/common/squares.h"

typedef struct square_sum_ranks_attr {
    int64_t ranks;
    hri_dims sizes, more;
} square_sum_ranks_attr;

static const hri_field square_sum_ranks_fields[] = {
    HRI_RANKS_FIELD(square_sum_ranks_attr),
    {"sizes", "elements of the first eight tensors", offsetof(square_sum_ranks_attr, sizes),
     HRI_FIELD_DIMS, NULL},
    {"more", "elements of the others", offsetof(square_sum_ranks_attr, more), HRI_FIELD_DIMS, NULL},
    {0},
};

static int64_t size_of(const square_sum_ranks_attr *p, uint32_t i) {
    return i < HRI_DIMS_MAX ? p->sizes.at[i] : p->more.at[i - HRI_DIMS_MAX];
}

static uint64_t chunks_of(int64_t count) {
    return ((uint64_t)count + HRI_SLICE_CHUNK - 1) / HRI_SLICE_CHUNK;
}

static hr_status square_sum_ranks_infer(hri_infer *c) {
    const square_sum_ranks_attr *p = c->attr;
    if (p->sizes.count + p->more.count != c->in_count ||
        (p->more.count && p->sizes.count != HRI_DIMS_MAX)) {
        return hri_infer_fail(c, "%u tensors have %lld sizes", c->in_count,
                              (long long)(p->sizes.count + p->more.count));
    }
    for (uint32_t i = 0; i < c->in_count; i++) {
        const int64_t is = hr_shape_count(&c->in[i].shape);
        if (c->in[i].type != HR_TYPE_F32 || is != hri_slice_count(size_of(p, i), p->ranks)) {
            return hri_infer_fail(c, "input %u is no slice of %lld elements in f32", i,
                                  (long long)size_of(p, i));
        }
    }
    c->out[0] = (hr_meta){.type = HR_TYPE_F32};
    return HR_OK;
}

/* Work space: ranges, the sums of this rank, those of all ranks, and all of them in order. */
typedef struct room {
    double *own, *all, *ordered;
    uint64_t own_count, all_count;
} room;

static uint64_t room_of(const hri_sig *s, char *at, room *out) {
    const square_sum_ranks_attr *p = s->attr;
    uint64_t own = 0, ordered = 0;
    for (uint32_t i = 0; i < s->in_count; i++) {
        own += chunks_of(hr_shape_count(&s->in[i].shape));
        ordered += chunks_of(size_of(p, i));
    }
    const uint64_t all = p->ranks > 1 ? own * (uint64_t)p->ranks : 0;
    const uint64_t ranges = hri_ranks_workspace(p->ranks);
    if (out) {
        double *sums = (double *)(void *)(at + ranges);
        *out = (room){sums, sums + own, sums + own + all, own, all};
    }
    return ranges + (own + all + ordered) * sizeof(double);
}

static void sum_own(const hri_call *c, const room *r) {
    uint64_t used = 0;
    for (uint32_t i = 0; i < c->sig->in_count; i++) {
        const uint64_t n = (uint64_t)hr_shape_count(&c->sig->in[i].shape);
        for (uint64_t at = 0; at < n; at += HRI_SLICE_CHUNK) {
            r->own[used++] = hri_squares_f32((const float *)c->in[i] + at,
                                             n - at < HRI_SLICE_CHUNK ? n - at : HRI_SLICE_CHUNK);
        }
    }
}

/* Chunk after chunk of the whole tensors; `all` has those of rank 0, of rank 1, ... */
static uint64_t put_in_order(const hri_call *c, const room *r) {
    const square_sum_ranks_attr *p = c->sig->attr;
    uint64_t used = 0, first = 0;
    for (uint32_t i = 0; i < c->sig->in_count; i++) {
        const int64_t slice = hr_shape_count(&c->sig->in[i].shape);
        const uint64_t each = chunks_of(slice), chunks = chunks_of(size_of(p, i));
        for (uint64_t k = 0; k < chunks; k++) {
            const double *of = slice < size_of(p, i) ? r->all + k / each * r->own_count : r->own;
            r->ordered[used++] = of[first + k % each];
        }
        first += each;
    }
    return used;
}

static hr_status square_sum_ranks_host(const hri_call *c) {
    const square_sum_ranks_attr *p = c->sig->attr;
    hr_status status = hri_ranks_check(c, p->ranks);
    if (status != HR_OK) {
        return status;
    }
    room r;
    (void)room_of(c->sig, c->workspace, &r);
    sum_own(c, &r);
    if (p->ranks > 1) {
        status = hri_ranks_gather(c, r.own, r.all, (int64_t)r.all_count, (int64_t)r.own_count,
                                  sizeof(double));
    }
    if (status == HR_OK) {
        *(float *)c->out[0] = (float)hri_sum(r.ordered, put_in_order(c, &r));
    }
    return status;
}

static uint64_t square_sum_ranks_workspace(const hri_sig *s, uint32_t threads) {
    (void)threads;
    return room_of(s, NULL, NULL);
}

static void square_sum_ranks_cost(const hri_sig *s, hri_cost *cost) {
    const square_sum_ranks_attr *p = s->attr;
    double chunks = 0;
    for (uint32_t i = 0; i < s->in_count; i++) {
        chunks += (double)chunks_of(hr_shape_count(&s->in[i].shape));
    }
    hri_ranks_cost(cost, p->ranks, chunks * (double)p->ranks * sizeof(double));
}

static const hri_case square_sum_ranks_cases[] = {
    {"one", "f32[7,33]", "sizes=231", .flags = HRI_CASE_NO_GRAD},
    {"chunks", "f32[40001] f32[3]", "sizes=40001x3", .flags = HRI_CASE_NO_GRAD},
    {"nine", "f32[1] f32[2] f32[3] f32[4] f32[5] f32[6] f32[7] f32[8] f32[9]",
     "sizes=1x2x3x4x5x6x7x8,more=9", .flags = HRI_CASE_NO_GRAD},
    {"another size", "f32[7]", "sizes=8", .flags = HRI_CASE_BAD},
    {"too few sizes", "f32[7] f32[3]", "sizes=7", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_square_sum_ranks = {
    .name = "square_sum_ranks",
    .formula = "y = sum x0^2 + sum x1^2 + ..., of tensors cut between ranks",
    .in_min = 1,
    .in_max = HRI_IN_MAX,
    .out_count = 1,
    .fields = square_sum_ranks_fields,
    .attr_bytes = sizeof(square_sum_ranks_attr),
    .infer = square_sum_ranks_infer,
    .samples = hri_ranks_samples,
    .cost = square_sum_ranks_cost,
    .net = 1,
    .host_only = 1,
    .host = {.run = square_sum_ranks_host, .workspace = square_sum_ranks_workspace},
    .cases = HRI_CASES(square_sum_ranks_cases),
};
