/* adamw(w, g, rate, t, m, v [, factor]; beta1, beta2, epsilon, decay, stream, ranks):
 *
 *   d <- factor * g
 *   m <- beta1 * m + (1 - beta1) * d     v <- beta2 * v + (1 - beta2) * d * d
 *   w <- (1 - rate * decay) * w - rate / (1 - beta1^t) * m / (sqrt(v / (1 - beta2^t)) + epsilon)
 *
 * t is the number of this update, from 1, an f32 (exact up to 2^24).  Updates w, m and v in their own memory, as
 * torch.optim.AdamW does; the decay never enters the moments. */
#include "ops/common/adam.h"
#include "ops/common/update_cuda.h"

static void adamw_block(const hri_update *u, uint64_t n, float *w, const float *g, float *m,
                        float *v) {
    const hri_adam_attr *p = u->attr;
    const double t = (double)u->scalar;
    /* In double: 1 - 0.999 has three digits left in f32. */
    const float step = (float)((double)u->rate / (1.0 - pow(p->beta1, t)));
    const float root = (float)(1.0 / sqrt(1.0 - pow(p->beta2, t)));
    const float beta1 = (float)p->beta1, beta2 = (float)p->beta2, epsilon = (float)p->epsilon;
    const float more1 = (float)(1.0 - p->beta1), more2 = (float)(1.0 - p->beta2);
    const float keep = (float)(1.0 - (double)u->rate * p->decay);
    const float factor = u->factor;
    for (uint64_t i = 0; i < n; i++) {
        const float d = factor * g[i];
        m[i] = beta1 * m[i] + more1 * d;
        v[i] = beta2 * v[i] + more2 * d * d;
        w[i] = w[i] * keep - step * m[i] / (sqrtf(v[i]) * root + epsilon);
    }
}

static const hri_update_rule adamw_rule = {
    .name = "adamw",
    .scalars = 2,
    .states = 2,
    .constants = hri_adam_constants,
    .block = adamw_block,
    .positive = 2,
    .small_at = offsetof(hri_adam_attr, small),
};
HRI_UPDATE_CUDA(adamw)

static hr_status adamw_host(const hri_call *c) {
    return hri_update_run(c, &adamw_rule);
}

static hr_status adamw_infer(hri_infer *c) {
    return hri_update_infer(c, &adamw_rule);
}

static void adamw_cost(const hri_sig *s, hri_cost *cost) {
    hri_update_cost(s, cost, 14.0);
}

static const hri_case adamw_cases[] = {
    {"odd", "f32[7,33] f32[7,33] f32[] f32[] f32[7,33] f32[7,33]", .low = 0.5, .high = 2},
    {"all of it", "f32[20001] f32[20001] f32[] f32[] f32[20001] f32[20001]",
     "beta1=0.8,beta2=0.95,epsilon=1e-3,decay=0.1", .low = 0.5, .high = 2},
    {"factor", "f32[301] f32[301] f32[] f32[] f32[301] f32[301] f32[]", "decay=0.1", .low = 0.5,
     .high = 2},
    {"bf16 gradient", "f32[33] bf16[33] f32[] f32[] f32[33] f32[33]", .low = 0.5, .high = 2},
    {"bf16 moments", "f32[33] f32[33] f32[] f32[] bf16[33] bf16[33]", .low = 0.5, .high = 2},
    {"bf16 moments, drawn", "f32[4001] f32[4001] f32[] f32[] bf16[4001] bf16[4001]", "stream=77",
     .low = 0.5, .high = 2, .tolerance = 0.01, .flags = HRI_CASE_AS_IS},
    {"8-bit moments of another length", "f32[300] f32[300] f32[] f32[] u8[260] u8[260]",
     "stream=77", .flags = HRI_CASE_BAD},
    {"8-bit moments without a stream", "f32[300] f32[300] f32[] f32[] u8[520] u8[520]",
     .flags = HRI_CASE_BAD},
    {"empty", "f32[0] f32[0] f32[] f32[] f32[0] f32[0]", .low = 0.5, .high = 2},
    {"all bf16", "bf16[99] bf16[99] f32[] f32[] bf16[99] bf16[99]", .low = 0.5, .high = 2},
    {"all f16", "f16[99] f16[99] f32[] f32[] f16[99] f16[99]", .low = 0.5, .high = 2},
    {"many, bf16 gradient", "f32[9001] bf16[9001] f32[] f32[] f32[9001] f32[9001]", "decay=0.1",
     .low = 0.5, .high = 2},
    {"no number of the update", "f32[3] f32[3] f32[] f32[3] f32[3] f32[3]", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_adamw = {
    .name = "adamw",
    .formula = "m, v = moments of g; w -= rate * (m' / (sqrt(v') + eps) + decay w)",
    .in_min = 6,
    .in_max = 7,
    .out_count = 3,
    .fields = hri_adam_fields,
    .attr_bytes = sizeof(hri_adam_attr),
    .infer = adamw_infer,
    .updates = {1, 5, 6},
    .random = 1,
    .cost = adamw_cost,
    .host = {.run = adamw_host},
    .cases = HRI_CASES(adamw_cases),
};

const hri_kernel hri_kernel_cuda_adamw = {.launch = adamw_cuda, .launch_many = adamw_cuda_many};
