/* sgd(w, g, rate [, factor]; decay): w <- w - rate * (factor * g + decay * w).
 *
 * Updates w in its own memory.  common/update.h has the rules of all updates. */
#include "ops/common/update_cuda.h"

typedef struct sgd_attr {
    double decay;
} sgd_attr;

static const hri_field sgd_fields[] = {
    {"decay", "weight decay", offsetof(sgd_attr, decay), HRI_FIELD_DOUBLE, "0"},
    {0},
};

static void sgd_block(const hri_update *u, uint64_t n, float *w, const float *g, float *s0,
                      float *s1) {
    const float decay = (float)((const sgd_attr *)u->attr)->decay;
    const float rate = u->rate, factor = u->factor;
    (void)s0;
    (void)s1;
    for (uint64_t i = 0; i < n; i++) {
        w[i] -= rate * (factor * g[i] + decay * w[i]);
    }
}

static void sgd_constants(const void *attr, float *c, float *decay) {
    (void)c;
    *decay = (float)((const sgd_attr *)attr)->decay;
}

static const hri_update_rule sgd_rule = {
    .name = "sgd",
    .scalars = 1,
    .states = 0,
    .constants = sgd_constants,
    .block = sgd_block,
};
HRI_UPDATE_CUDA(sgd)

static hr_status sgd_host(const hri_call *c) {
    return hri_update_run(c, &sgd_rule);
}

static hr_status sgd_infer(hri_infer *c) {
    return hri_update_infer(c, &sgd_rule);
}

static void sgd_cost(const hri_sig *s, hri_cost *cost) {
    hri_update_cost(s, cost, 4.0);
}

static const hri_case sgd_cases[] = {
    {"odd", "f32[7,33] f32[7,33] f32[]"},
    {"decay", "f32[20001] f32[20001] f32[]", "decay=0.1"},
    {"factor", "f32[301] f32[301] f32[] f32[]", "decay=0.1"},
    {"bf16 gradient", "f32[33] bf16[33] f32[]"},
    {"bf16 weights", "bf16[33] bf16[33] f32[]"},
    {"a scalar", "f32[] f32[] f32[] f32[]"},
    {"empty", "f32[0] f32[0] f32[]"},
    {"f16 weights", "f16[99] f16[99] f32[]"},
    {"many, bf16 weights", "bf16[9001] bf16[9001] f32[] f32[]", "decay=0.1"},
    {"shapes differ", "f32[3] f32[4] f32[]", .flags = HRI_CASE_BAD},
    {"rate is a vector", "f32[3] f32[3] f32[3]", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_sgd = {
    .name = "sgd",
    .formula = "w -= rate * (g + decay * w)",
    .in_min = 3,
    .in_max = 4,
    .out_count = 1,
    .fields = sgd_fields,
    .attr_bytes = sizeof(sgd_attr),
    .infer = sgd_infer,
    .updates = {1},
    .cost = sgd_cost,
    .host = {.run = sgd_host},
    .cases = HRI_CASES(sgd_cases),
};

const hri_kernel hri_kernel_cuda_sgd = {.launch = sgd_cuda, .launch_many = sgd_cuda_many};
