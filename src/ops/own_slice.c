/* own_slice(s, w; ranks): s <- this rank's slice of w, with zeros behind the end of w; all of w with one rank.  One type. */
#include "ops/common/ranks.h"

typedef struct own_slice_attr {
    int64_t ranks;
} own_slice_attr;

static const hri_field own_slice_fields[] = {HRI_RANKS_FIELD(own_slice_attr), {0}};

static hr_status own_slice_infer(hri_infer *c) {
    const own_slice_attr *p = c->attr;
    const int64_t slice = hri_slice_count(hr_shape_count(&c->in[1].shape), p->ranks);
    if (c->in[0].type != c->in[1].type || hr_shape_count(&c->in[0].shape) != slice) {
        return hri_infer_fail(c, "a slice of it has %lld elements of its type", (long long)slice);
    }
    c->out[0] = c->in[0];
    return HR_OK;
}

static hr_status own_slice_host(const hri_call *c) {
    const own_slice_attr *p = c->sig->attr;
    const hr_status status = p->ranks > 1 ? hri_ranks_check(c, p->ranks) : HR_OK;
    const uint64_t width = hr_type_bytes(c->sig->in[0].type);
    const int64_t count = hr_shape_count(&c->sig->in[1].shape),
                  slice = hr_shape_count(&c->sig->in[0].shape), own = hri_ranks_own(c);
    const int64_t first = slice < count ? own * slice : 0,
                  filled = hri_slice_filled(count, slice, own);
    if (status == HR_OK) {
        char *to = c->out[0];
        if (filled) {
            memcpy(to, (const char *)c->in[1] + (uint64_t)first * width, (uint64_t)filled * width);
        }
        memset(to + (uint64_t)filled * width, 0, (uint64_t)(slice - filled) * width);
    }
    return status;
}

/* Copies in one launch; zeros behind the end one by one: at most one slice of a tensor has any. */
static hr_status own_slice_cuda_many(const hri_gpu_call *calls, uint32_t count) {
    hri_gpu_range ranges[HRI_GPU_RANGES];
    uint32_t used = 0;
    hr_status status = HR_OK;
    for (uint32_t i = 0; i < count && status == HR_OK; i++) {
        const hri_gpu_call *c = &calls[i];
        const uint64_t width = hr_type_bytes(c->sig->in[0].type);
        const int64_t whole = hr_shape_count(&c->sig->in[1].shape),
                      slice = hr_shape_count(&c->sig->in[0].shape), own = c->rank;
        const uint64_t first = slice < whole ? (uint64_t)(own * slice) * width : 0,
                       filled = (uint64_t)hri_slice_filled(whole, slice, own) * width,
                       left = (uint64_t)slice * width - filled;
        status = left ? hri_gpu_fill(c->gpu, c->out[0] + filled, 0, left) : HR_OK;
        if (status == HR_OK && used == HRI_GPU_RANGES) {
            status = hri_gpu_copy_ranges(c->gpu, ranges, used);
            used = 0;
        }
        ranges[used] = (hri_gpu_range){c->out[0], c->in[1] + first, filled};
        used += filled > 0;
    }
    return status == HR_OK && used ? hri_gpu_copy_ranges(calls->gpu, ranges, used) : status;
}

static hr_status own_slice_cuda(const hri_gpu_call *c) {
    return own_slice_cuda_many(c, 1);
}

static const hri_case own_slice_cases[] = {
    {"alone", "f32[231] f32[7,33]"},
    {"bf16", "bf16[3001] bf16[3001]"},
    {"another size", "f32[6] f32[7]", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_own_slice = {
    .name = "own_slice",
    .formula = "s = this rank's slice of w",
    .in_min = 2,
    .in_max = 2,
    .out_count = 1,
    .fields = own_slice_fields,
    .attr_bytes = sizeof(own_slice_attr),
    .infer = own_slice_infer,
    .updates = {1},
    .samples = hri_ranks_samples,
    .host = {.run = own_slice_host},
    .cases = HRI_CASES(own_slice_cases),
};

const hri_kernel hri_kernel_cuda_own_slice = {.launch = own_slice_cuda,
                                              .launch_many = own_slice_cuda_many};
