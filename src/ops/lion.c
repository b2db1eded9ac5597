/* lion(w, g, rate, m [, factor]; beta1, beta2, decay, stream, ranks):
 *
 *   d <- factor * g
 *   w <- (1 - rate * decay) * w - rate * sign(beta1 * m + (1 - beta1) * d)     m <- beta2 * m + (1 - beta2) * d
 *
 * sign(0) is 0.  Updates w and m in their own memory (Chen et al. 2023); the decay never enters the moment. */
#include "ops/common/update_cuda.h"

typedef struct lion_attr {
    double beta1, beta2, decay;
    hri_update_small small;
} lion_attr;

static const hri_field lion_fields[] = {
    {"beta1", "share of the moment in the update", offsetof(lion_attr, beta1), HRI_FIELD_DOUBLE,
     "0.9"},
    {"beta2", "decay rate of the moment", offsetof(lion_attr, beta2), HRI_FIELD_DOUBLE, "0.99"},
    {"decay", "weight decay", offsetof(lion_attr, decay), HRI_FIELD_DOUBLE, "0"},
    HRI_UPDATE_SMALL_FIELDS(lion_attr),
    {0},
};

static void lion_block(const hri_update *u, uint64_t n, float *w, const float *g, float *m,
                       float *none) {
    const lion_attr *p = u->attr;
    const float beta1 = (float)p->beta1, more1 = (float)(1.0 - p->beta1);
    const float beta2 = (float)p->beta2, more2 = (float)(1.0 - p->beta2);
    const float rate = u->rate, factor = u->factor;
    const float keep = (float)(1.0 - (double)u->rate * p->decay);
    (void)none;
    for (uint64_t i = 0; i < n; i++) {
        const float d = factor * g[i], x = beta1 * m[i] + more1 * d;
        w[i] = w[i] * keep - (x > 0.0f ? rate : x < 0.0f ? -rate : 0.0f);
        m[i] = beta2 * m[i] + more2 * d;
    }
}

static void lion_constants(const void *attr, float *c, float *decay) {
    const lion_attr *p = attr;
    c[0] = (float)p->beta1;
    c[1] = (float)(1.0 - p->beta1);
    c[2] = (float)p->beta2;
    c[3] = (float)(1.0 - p->beta2);
    *decay = (float)p->decay;
}

static const hri_update_rule lion_rule = {
    .name = "lion",
    .scalars = 1,
    .states = 1,
    .constants = lion_constants,
    .block = lion_block,
    .small_at = offsetof(lion_attr, small),
};
HRI_UPDATE_CUDA(lion)

static hr_status lion_host(const hri_call *c) {
    return hri_update_run(c, &lion_rule);
}

static hr_status lion_infer(hri_infer *c) {
    return hri_update_infer(c, &lion_rule);
}

static void lion_cost(const hri_sig *s, hri_cost *cost) {
    hri_update_cost(s, cost, 8.0);
}

/* Positive inputs: signs do not depend on rounding. */
static const hri_case lion_cases[] = {
    {"odd", "f32[7,33] f32[7,33] f32[] f32[7,33]", .low = 0.5, .high = 2},
    {"downwards", "f32[7,33] f32[7,33] f32[] f32[7,33]", .low = -2, .high = -0.5},
    {"all of it", "f32[20001] f32[20001] f32[] f32[20001] f32[]", "beta1=0.8,beta2=0.95,decay=0.1",
     .low = 0.5, .high = 2},
    {"bf16 gradient", "f32[33] bf16[33] f32[] f32[33]", .low = 0.5, .high = 2},
    {"bf16 moment, drawn", "f32[4001] f32[4001] f32[] bf16[4001]", "stream=77", .low = 0.5,
     .high = 2, .tolerance = 0.01, .flags = HRI_CASE_AS_IS},
    {"8-bit moment of another length", "f32[300] f32[300] f32[] u8[260]", "stream=77",
     .flags = HRI_CASE_BAD},
    {"empty", "f32[0] f32[0] f32[] f32[0]"},
    {"all bf16", "bf16[99] bf16[99] f32[] bf16[99]", .low = 0.5, .high = 2},
    {"f16 gradient", "f32[99] f16[99] f32[] f32[99]", .low = 0.5, .high = 2},
    {"moment of another shape", "f32[3] f32[3] f32[] f32[4]", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_lion = {
    .name = "lion",
    .formula = "w -= rate * (sign(beta1 m + (1 - beta1) g) + decay w); m = average of g",
    .in_min = 4,
    .in_max = 5,
    .out_count = 2,
    .fields = lion_fields,
    .attr_bytes = sizeof(lion_attr),
    .infer = lion_infer,
    .updates = {1, 4},
    .random = 1,
    .cost = lion_cost,
    .host = {.run = lion_host},
    .cases = HRI_CASES(lion_cases),
};

const hri_kernel hri_kernel_cuda_lion = {.launch = lion_cuda, .launch_many = lion_cuda_many};
