/* accumulate(sum, g, weight, first): sum <- (1 - first) * sum + weight * g.
 *
 * For batches that are trained in parts: weight is the share of the part in the batch.  Updates sum in its own memory;
 * with first = 1 what was there is not read, so nothing has to be cleared between steps; with first = 0 it stays as it
 * is; any other number scales it, when a part shows that those before it weigh more or less than was thought.  weight
 * and first are scalars f32. */
#include "ops/common/update_cuda.h"

static void accumulate_block(const hri_update *u, uint64_t n, float *sum, const float *g, float *s0,
                             float *s1) {
    const float weight = u->rate;
    (void)s0;
    (void)s1;
    if (u->scalar == 1.0f) {
        for (uint64_t i = 0; i < n; i++) {
            sum[i] = weight * g[i];
        }
    } else if (u->scalar == 0.0f) {
        for (uint64_t i = 0; i < n; i++) {
            sum[i] += weight * g[i];
        }
    } else {
        const float keep = 1.0f - u->scalar;
        for (uint64_t i = 0; i < n; i++) {
            sum[i] = keep * sum[i] + weight * g[i];
        }
    }
}

static const hri_update_rule accumulate_rule = {
    .name = "accumulate",
    .scalars = 2,
    .states = 0,
    .block = accumulate_block,
};
HRI_UPDATE_CUDA(accumulate)

static hr_status accumulate_host(const hri_call *c) {
    return hri_update_run(c, &accumulate_rule);
}

static hr_status accumulate_infer(hri_infer *c) {
    return hri_update_infer(c, &accumulate_rule);
}

static void accumulate_cost(const hri_sig *s, hri_cost *cost) {
    hri_update_cost(s, cost, 2.0);
}

static const hri_case accumulate_cases[] = {
    {"first", "f32[7,33] f32[7,33] f32[] f32[]"},
    {"chunks", "f32[20001] f32[20001] f32[] f32[]"},
    {"bf16 gradient", "f32[301] bf16[301] f32[] f32[]"},
    {"empty", "f32[0] f32[0] f32[] f32[]"},
    {"all bf16", "bf16[9001] bf16[9001] f32[] f32[]"},
    {"f16 gradient", "f32[99] f16[99] f32[] f32[]"},
    {"shapes differ", "f32[3] f32[4] f32[] f32[]", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_accumulate = {
    .name = "accumulate",
    .formula = "sum = (1 - first) * sum + weight * g",
    .in_min = 4,
    .in_max = 4,
    .out_count = 1,
    .infer = accumulate_infer,
    .updates = {1},
    .cost = accumulate_cost,
    .host = {.run = accumulate_host},
    .cases = HRI_CASES(accumulate_cases),
};

const hri_kernel hri_kernel_cuda_accumulate = {
    .launch = accumulate_cuda,
    .launch_many = accumulate_cuda_many,
};
