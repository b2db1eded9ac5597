/* sgd_momentum(w, g, rate, v [, factor]; momentum, nesterov, decay, stream, ranks):
 *
 *   d <- factor * g + decay * w    v <- momentum * v + d    w <- w - rate * (nesterov ? d + momentum * v : v)
 *
 * Updates w and v in their own memory, as torch.optim.SGD does without dampening. */
#include "ops/common/update_cuda.h"

typedef struct sgd_momentum_attr {
    double momentum, decay;
    bool nesterov;
    hri_update_small small;
} sgd_momentum_attr;

static const hri_field sgd_momentum_fields[] = {
    {"momentum", "of the velocity", offsetof(sgd_momentum_attr, momentum), HRI_FIELD_DOUBLE, "0.9"},
    {"decay", "weight decay", offsetof(sgd_momentum_attr, decay), HRI_FIELD_DOUBLE, "0"},
    {"nesterov", "look ahead", offsetof(sgd_momentum_attr, nesterov), HRI_FIELD_BOOL, NULL},
    HRI_UPDATE_SMALL_FIELDS(sgd_momentum_attr),
    {0},
};

static void sgd_momentum_block(const hri_update *u, uint64_t n, float *w, const float *g, float *v,
                               float *none) {
    const sgd_momentum_attr *p = u->attr;
    const float rate = u->rate, factor = u->factor;
    const float momentum = (float)p->momentum, decay = (float)p->decay;
    const float straight = p->nesterov ? 1.0f : 0.0f, ahead = p->nesterov ? momentum : 1.0f;
    (void)none;
    for (uint64_t i = 0; i < n; i++) {
        const float d = factor * g[i] + decay * w[i];
        v[i] = momentum * v[i] + d;
        w[i] -= rate * (straight * d + ahead * v[i]);
    }
}

static void sgd_momentum_constants(const void *attr, float *c, float *decay) {
    const sgd_momentum_attr *p = attr;
    c[0] = (float)p->momentum;
    c[1] = p->nesterov ? 1.0f : 0.0f;
    c[2] = p->nesterov ? c[0] : 1.0f;
    *decay = (float)p->decay;
}

static const hri_update_rule sgd_momentum_rule = {
    .name = "sgd_momentum",
    .scalars = 1,
    .states = 1,
    .constants = sgd_momentum_constants,
    .block = sgd_momentum_block,
    .small_at = offsetof(sgd_momentum_attr, small),
};
HRI_UPDATE_CUDA(sgd_momentum)

static hr_status sgd_momentum_host(const hri_call *c) {
    return hri_update_run(c, &sgd_momentum_rule);
}

static hr_status sgd_momentum_infer(hri_infer *c) {
    return hri_update_infer(c, &sgd_momentum_rule);
}

static void sgd_momentum_cost(const hri_sig *s, hri_cost *cost) {
    hri_update_cost(s, cost, 6.0);
}

static const hri_case sgd_momentum_cases[] = {
    {"odd", "f32[7,33] f32[7,33] f32[] f32[7,33]"},
    {"all of it", "f32[20001] f32[20001] f32[] f32[20001]", "momentum=0.8,nesterov,decay=0.1"},
    {"factor", "f32[301] f32[301] f32[] f32[301] f32[]", "nesterov,decay=0.1"},
    {"bf16 gradient", "f32[33] bf16[33] f32[] f32[33]"},
    {"empty", "f32[0] f32[0] f32[] f32[0]"},
    {"the last row", "f32[7,33] f32[3,231] f32[] f32[7,33] f32[]", "momentum=1"},
    {"the last row, bf16", "f32[64] bf16[2,64] f32[] f32[64]"},
    {"rows of another size", "f32[64] f32[2,32] f32[] f32[64]", .flags = HRI_CASE_BAD},
    {"all f16", "f16[99] f16[99] f32[] f16[99]"},
    {"many, bf16 gradient", "f32[9001] bf16[9001] f32[] f32[9001]", "decay=0.1"},
    {"velocity of another shape", "f32[3] f32[3] f32[] f32[4]", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_sgd_momentum = {
    .name = "sgd_momentum",
    .formula = "v = m v + g + decay w; w -= rate * v",
    .in_min = 4,
    .in_max = 5,
    .out_count = 2,
    .fields = sgd_momentum_fields,
    .attr_bytes = sizeof(sgd_momentum_attr),
    .infer = sgd_momentum_infer,
    .updates = {1, 4},
    .random = 1,
    .cost = sgd_momentum_cost,
    .host = {.run = sgd_momentum_host},
    .cases = HRI_CASES(sgd_momentum_cases),
};

const hri_kernel hri_kernel_cuda_sgd_momentum = {
    .launch = sgd_momentum_cuda,
    .launch_many = sgd_momentum_cuda_many,
};
