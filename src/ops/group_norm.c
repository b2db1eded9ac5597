/* group_norm(x, gamma, beta; groups, eps): normalises groups of channels over the places of a sample.
 *
 *   x (N, ..., C)   gamma, beta (C)   y like x   mean, inv (N, groups) f32
 *   y = (x - mean) * inv * gamma + beta,   inv = 1 / sqrt(var + eps)
 *
 * The gradient keeps x and two numbers a sample and group. */
#include "ops/common/norm.h"

static const hri_field group_norm_fields[] = {
    HRI_NORM_EPS,
    {"groups", "of channels", offsetof(hri_norm_attr, groups), HRI_FIELD_INT, "32", .min = 1,
     .max = 1e9},
    {0},
};

static hr_status group_norm_infer(hri_infer *c) {
    const hr_shape *x = &c->in[0].shape;
    const int64_t groups = ((const hri_norm_attr *)c->attr)->groups;
    if (!hr_type_is_real(c->in[0].type) || x->rank < 2) {
        return hri_infer_fail(c, "the input must be floating point, (N, ..., C)");
    }
    if (x->dim[x->rank - 1] < 1 || x->dim[x->rank - 1] % groups) {
        return hri_infer_fail(c, "%lld groups do not divide the channels", (long long)groups);
    }
    if (hri_norm_groups(x, groups).s == 0) {
        return hri_infer_fail(c, "a sample has no place to take the mean of");
    }
    const hr_shape stats = {.rank = 2, .dim = {x->dim[0], groups}};
    return hri_norm_infer(c, &stats, 0);
}

static void group_norm_grad(hri_grad *c) {
    hri_norm_set_grads(c, HRI_NODE(c->g, "group_norm_grad", c->sig->attr, c->dout[0], c->in[0],
                                   c->in[1], c->out[1], c->out[2]));
}

static hr_status group_norm_host(const hri_call *c) {
    const hri_norm_attr *p = c->sig->attr;
    const hri_norm v = hri_norm_groups(&c->sig->in[0].shape, p->groups);
    hri_norm_run(&v, c, p->eps);
    return HR_OK;
}

static hr_status group_norm_cuda(const hri_gpu_call *c) {
    const hri_norm_attr *p = c->sig->attr;
    const hri_norm v = hri_norm_groups(&c->sig->in[0].shape, p->groups);
    return hri_norm_cuda(&v, c, p->eps);
}

static const hri_case group_norm_cases[] = {
    {"odd", "f32[3,5,7,21] f32[21] f32[21]", "groups=3", .batched = 1},
    {"one group", "f32[2,3,3,5] f32[5] f32[5]", "groups=1,eps=0.01"},
    {"a channel a group", "f32[2,4,3,5] f32[5] f32[5]", "groups=5"},
    {"wide", "f32[2,3,600] f32[600] f32[600]", "groups=2"},
    {"no samples", "f32[0,3,4] f32[4] f32[4]", "groups=2"},
    {"bf16", "bf16[2,4,4,8] f32[8] f32[8]", "groups=2"},
    {"f16", "f16[2,4,4,8] f16[8] f16[8]", "groups=2"},
    {"groups that do not divide", "f32[2,4,4,8] f32[8] f32[8]", "groups=3", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_group_norm = {
    .name = "group_norm",
    .formula = "y = (x - mean) / sqrt(var + eps) * gamma + beta",
    .in_min = 3,
    .in_max = 3,
    .out_count = 3,
    .fields = group_norm_fields,
    .attr_bytes = sizeof(hri_norm_attr),
    .infer = group_norm_infer,
    .grad = group_norm_grad,
    .keeps = {{.in = 3, .out = 6}, {.in = 3, .out = 6}, {.in = 3, .out = 6}},
    .aux = 6,
    .overwrite = {1},
    .cost = hri_norm_cost,
    .host = {.run = group_norm_host},
    .cases = HRI_CASES(group_norm_cases),
};

const hri_kernel hri_kernel_cuda_group_norm = {.launch = group_norm_cuda};
