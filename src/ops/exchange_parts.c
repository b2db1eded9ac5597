/* exchange_parts(x; ranks, rows, whole): what the ranks have of x, (rows, slice): row i is this rank's slice of rank i's x.
 *
 * The first `rows` ranks give theirs, and all take; elements beyond the end of x are zeros.  A tensor that is not cut
 * (graph/slices.h), or with `whole`, goes whole to every rank.  Any type; bytes are moved, and nothing is added: folding
 * the rows in their order is fold_parts. */
#include "ops/common/ranks.h"

typedef struct exchange_parts_attr {
    int64_t ranks, rows;
    bool whole;
} exchange_parts_attr;

static const hri_field exchange_parts_fields[] = {
    HRI_RANKS_FIELD(exchange_parts_attr),
    {"rows", "ranks that give theirs", offsetof(exchange_parts_attr, rows), HRI_FIELD_INT, "1",
     .min = 1, .max = HRI_RANKS_MOST},
    {"whole", "every rank takes all of it", offsetof(exchange_parts_attr, whole), HRI_FIELD_BOOL,
     "false"},
    {0},
};

static int64_t slice_of(const exchange_parts_attr *p, const hr_meta *x) {
    const int64_t count = hr_shape_count(&x->shape);
    return p->whole ? count : hri_slice_count(count, p->ranks);
}

static hr_status exchange_parts_infer(hri_infer *c) {
    const exchange_parts_attr *p = c->attr;
    if (p->rows > p->ranks) {
        return hri_infer_fail(c, "%lld rows of %lld ranks", (long long)p->rows,
                              (long long)p->ranks);
    }
    c->out[0] = (hr_meta){c->in[0].type, hr_shape_2(p->rows, slice_of(p, &c->in[0]))};
    return HR_OK;
}

/* Zeros behind what arrives. */
static void clear_tails(const hri_call *c, int64_t slice, int64_t filled, uint64_t width) {
    const exchange_parts_attr *p = c->sig->attr;
    for (int64_t i = 0; i < p->rows && filled < slice; i++) {
        memset((char *)c->out[0] + (uint64_t)(i * slice + filled) * width, 0,
               (uint64_t)(slice - filled) * width);
    }
}

static hr_status exchange_parts_host(const hri_call *c) {
    const exchange_parts_attr *p = c->sig->attr;
    const int64_t count = hr_shape_count(&c->sig->in[0].shape), slice = slice_of(p, &c->sig->in[0]);
    const uint64_t width = hr_type_bytes(c->sig->in[0].type);
    hr_status status = hri_ranks_check(c, p->ranks);
    if (status != HR_OK) {
        return status;
    }
    if (p->ranks == 1) {
        memcpy(c->out[0], c->in[0], (uint64_t)count * width);
        return HR_OK;
    }
    const int64_t own = hri_ranks_own(c), filled = hri_slice_filled(count, slice, own);
    hri_net_range *to = c->workspace, *from = to + p->ranks;
    uint64_t ticket = 0;
    for (int64_t i = 0; i < p->ranks; i++) {
        const int64_t first = slice < count ? i * slice : 0;
        const uint64_t give =
            own < p->rows ? (uint64_t)hri_slice_filled(count, slice, i) * width : 0;
        const uint64_t take = i < p->rows ? (uint64_t)filled * width : 0;
        to[i] = (hri_net_range){give ? (char *)(uintptr_t)c->in[0] + (uint64_t)first * width : NULL,
                                give};
        from[i] =
            (hri_net_range){take ? (char *)c->out[0] + (uint64_t)(i * slice) * width : NULL, take};
    }
    clear_tails(c, slice, filled, width);
    status = hri_net_exchange(c->net, to, from, &ticket);
    return status == HR_OK ? hri_net_wait(c->net, ticket, 0) : status;
}

static void exchange_parts_moves(const hri_sig *s, uint32_t rank, hri_moves *out) {
    const exchange_parts_attr *p = s->attr;
    const int64_t count = hr_shape_count(&s->in[0].shape), slice = slice_of(p, &s->in[0]);
    const uint64_t width = hr_type_bytes(s->in[0].type);
    out->ranks = (uint32_t)p->ranks;
    for (int64_t i = 0; i < p->ranks && out->to; i++) {
        const int64_t filled = hri_slice_filled(count, slice, i),
                      own = hri_slice_filled(count, slice, rank);
        out->to[i] = (struct hri_move_range){slice < count ? (uint64_t)(i * slice) * width : 0,
                                             rank < p->rows ? (uint64_t)filled * width : 0};
        out->from[i] = (struct hri_move_range){(uint64_t)(i * slice) * width,
                                               i < p->rows ? (uint64_t)own * width : 0};
    }
}

static uint64_t exchange_parts_workspace(const hri_sig *s, uint32_t threads) {
    (void)threads;
    return hri_ranks_workspace(((const exchange_parts_attr *)s->attr)->ranks);
}

static void exchange_parts_cost(const hri_sig *s, hri_cost *cost) {
    const exchange_parts_attr *p = s->attr;
    const double bytes = (double)hr_meta_bytes(&s->in[0]);
    const int cut = slice_of(p, &s->in[0]) < hr_shape_count(&s->in[0].shape);
    hri_ranks_cost(cost, p->ranks, cut ? bytes : bytes * (double)p->ranks);
}

static const hri_case exchange_parts_cases[] = {
    {"alone", "f32[7,33]", .flags = HRI_CASE_NO_GRAD},
    {"long, bf16", "bf16[3001]", .flags = HRI_CASE_NO_GRAD},
    {"integers", "i32[5]", "whole=true", .flags = HRI_CASE_NO_GRAD},
    {"more rows than ranks", "f32[7]", "rows=2", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_exchange_parts = {
    .name = "exchange_parts",
    .formula = "y[i] = this rank's slice of the x of rank i",
    .in_min = 1,
    .in_max = 1,
    .out_count = 1,
    .fields = exchange_parts_fields,
    .attr_bytes = sizeof(exchange_parts_attr),
    .infer = exchange_parts_infer,
    .samples = hri_ranks_samples,
    .cost = exchange_parts_cost,
    .net = 1,
    .moves = exchange_parts_moves,
    .host = {.run = exchange_parts_host, .workspace = exchange_parts_workspace},
    .cases = HRI_CASES(exchange_parts_cases),
};

const hri_kernel hri_kernel_cuda_exchange_parts = {.launch = hri_ranks_launch};
