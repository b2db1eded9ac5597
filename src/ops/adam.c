/* adam(w, g, rate, t, m, v [, factor]; beta1, beta2, epsilon, decay, stream, ranks):
 *
 *   d <- factor * g + decay * w
 *   m <- beta1 * m + (1 - beta1) * d     v <- beta2 * v + (1 - beta2) * d * d
 *   w <- w - rate / (1 - beta1^t) * m / (sqrt(v / (1 - beta2^t)) + epsilon)
 *
 * t is the number of this update, from 1, an f32 (exact up to 2^24).  Updates w, m and v in their own memory, as
 * torch.optim.Adam does; the decay is part of the gradient. */
#include "ops/common/adam.h"
#include "ops/common/update_cuda.h"

static void adam_block(const hri_update *u, uint64_t n, float *w, const float *g, float *m,
                       float *v) {
    const hri_adam_attr *p = u->attr;
    const double t = (double)u->scalar;
    /* In double: 1 - 0.999 has three digits left in f32. */
    const float step = (float)((double)u->rate / (1.0 - pow(p->beta1, t)));
    const float root = (float)(1.0 / sqrt(1.0 - pow(p->beta2, t)));
    const float beta1 = (float)p->beta1, beta2 = (float)p->beta2, epsilon = (float)p->epsilon;
    const float more1 = (float)(1.0 - p->beta1), more2 = (float)(1.0 - p->beta2);
    const float decay = (float)p->decay;
    const float factor = u->factor;
    for (uint64_t i = 0; i < n; i++) {
        const float d = factor * g[i] + decay * w[i];
        m[i] = beta1 * m[i] + more1 * d;
        v[i] = beta2 * v[i] + more2 * d * d;
        w[i] = w[i] - step * m[i] / (sqrtf(v[i]) * root + epsilon);
    }
}

static const hri_update_rule adam_rule = {
    .name = "adam",
    .scalars = 2,
    .states = 2,
    .constants = hri_adam_constants,
    .block = adam_block,
    .positive = 2,
    .small_at = offsetof(hri_adam_attr, small),
};
HRI_UPDATE_CUDA(adam)

static hr_status adam_host(const hri_call *c) {
    return hri_update_run(c, &adam_rule);
}

static hr_status adam_infer(hri_infer *c) {
    return hri_update_infer(c, &adam_rule);
}

static void adam_cost(const hri_sig *s, hri_cost *cost) {
    hri_update_cost(s, cost, 14.0);
}

static const hri_case adam_cases[] = {
    {"odd", "f32[7,33] f32[7,33] f32[] f32[] f32[7,33] f32[7,33]", .low = 0.5, .high = 2},
    {"all of it", "f32[20001] f32[20001] f32[] f32[] f32[20001] f32[20001]",
     "beta1=0.8,beta2=0.95,epsilon=1e-3,decay=0.1", .low = 0.5, .high = 2},
    {"factor", "f32[301] f32[301] f32[] f32[] f32[301] f32[301] f32[]", "decay=0.1", .low = 0.5,
     .high = 2},
    {"bf16 gradient", "f32[33] bf16[33] f32[] f32[] f32[33] f32[33]", .low = 0.5, .high = 2},
    {"bf16 moments", "f32[33] f32[33] f32[] f32[] bf16[33] bf16[33]", .low = 0.5, .high = 2},
    {"empty", "f32[0] f32[0] f32[] f32[] f32[0] f32[0]", .low = 0.5, .high = 2},
    {"all bf16", "bf16[99] bf16[99] f32[] f32[] bf16[99] bf16[99]", .low = 0.5, .high = 2},
    {"all f16", "f16[99] f16[99] f32[] f32[] f16[99] f16[99]", .low = 0.5, .high = 2},
    {"many, bf16 gradient", "f32[9001] bf16[9001] f32[] f32[] f32[9001] f32[9001]", "decay=0.1",
     .low = 0.5, .high = 2},
    {"no number of the update", "f32[3] f32[3] f32[] f32[3] f32[3] f32[3]", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_adam = {
    .name = "adam",
    .formula = "m, v = moments of g + decay w; w -= rate * m' / (sqrt(v') + eps)",
    .in_min = 6,
    .in_max = 7,
    .out_count = 3,
    .fields = hri_adam_fields,
    .attr_bytes = sizeof(hri_adam_attr),
    .infer = adam_infer,
    .updates = {1, 5, 6},
    .random = 1,
    .cost = adam_cost,
    .host = {.run = adam_host},
    .cases = HRI_CASES(adam_cases),
};

const hri_kernel hri_kernel_cuda_adam = {.launch = adam_cuda, .launch_many = adam_cuda_many};
