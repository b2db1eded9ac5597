/* sgd_velocity(v, g, weight, first; momentum): v <- (first ? momentum * v : v) + weight * g.
 *
 * The velocity of sgd_momentum, fed piece by piece: parts of a batch, or the several gradients of a weight that is used
 * twice, go straight into the velocity, so that no sum of gradients exists beside it.  The last piece goes through
 * sgd_momentum with momentum=1, which adds the decay and moves the weight.  Updates v in its own memory; weight and
 * first are scalars f32. */
#include "ops/common/update_cuda.h"

typedef struct sgd_velocity_attr {
    double momentum;
} sgd_velocity_attr;

static const hri_field sgd_velocity_fields[] = {
    {"momentum", "of the velocity", offsetof(sgd_velocity_attr, momentum), HRI_FIELD_DOUBLE, "0.9"},
    {0},
};

static void sgd_velocity_block(const hri_update *u, uint64_t n, float *v, const float *g, float *s0,
                               float *s1) {
    const sgd_velocity_attr *p = u->attr;
    const float weight = u->rate, keep = u->scalar != 0.0f ? (float)p->momentum : 1.0f;
    (void)s0;
    (void)s1;
    for (uint64_t i = 0; i < n; i++) {
        v[i] = keep * v[i] + weight * g[i];
    }
}

static void sgd_velocity_constants(const void *attr, float *c, float *decay) {
    c[0] = (float)((const sgd_velocity_attr *)attr)->momentum;
    *decay = 0.0f;
}

static const hri_update_rule sgd_velocity_rule = {
    .name = "sgd_velocity",
    .scalars = 2,
    .states = 0,
    .constants = sgd_velocity_constants,
    .block = sgd_velocity_block,
};
HRI_UPDATE_CUDA(sgd_velocity)

static hr_status sgd_velocity_host(const hri_call *c) {
    return hri_update_run(c, &sgd_velocity_rule);
}

static hr_status sgd_velocity_infer(hri_infer *c) {
    return hri_update_infer(c, &sgd_velocity_rule);
}

static void sgd_velocity_cost(const hri_sig *s, hri_cost *cost) {
    hri_update_cost(s, cost, 3.0);
}

static const hri_case sgd_velocity_cases[] = {
    {"odd", "f32[7,33] f32[7,33] f32[] f32[]"},
    {"chunks", "f32[20001] f32[20001] f32[] f32[]", "momentum=0.8"},
    {"bf16 gradient", "f32[301] bf16[301] f32[] f32[]"},
    {"empty", "f32[0] f32[0] f32[] f32[]"},
    {"all bf16", "bf16[9001] bf16[9001] f32[] f32[]"},
    {"f16 gradient", "f32[99] f16[99] f32[] f32[]"},
    {"shapes differ", "f32[3] f32[4] f32[] f32[]", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_sgd_velocity = {
    .name = "sgd_velocity",
    .formula = "v = (first ? m v : v) + weight * g",
    .in_min = 4,
    .in_max = 4,
    .out_count = 1,
    .fields = sgd_velocity_fields,
    .attr_bytes = sizeof(sgd_velocity_attr),
    .infer = sgd_velocity_infer,
    .updates = {1},
    .cost = sgd_velocity_cost,
    .host = {.run = sgd_velocity_host},
    .cases = HRI_CASES(sgd_velocity_cases),
};

const hri_kernel hri_kernel_cuda_sgd_velocity = {
    .launch = sgd_velocity_cuda,
    .launch_many = sgd_velocity_cuda_many,
};
