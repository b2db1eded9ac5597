/* rmsprop(w, g, rate, s [, factor]; alpha, epsilon, decay, root, stream, ranks):
 *
 *   d <- factor * g + decay * w    s <- alpha * s + (1 - alpha) * d * d    w <- w - rate * d / (sqrt(s + root) + epsilon)
 *
 * Updates w and s in their own memory, as torch.optim.RMSprop does without momentum; Keras has its epsilon under the root. */
#include "ops/common/update_cuda.h"

#include <math.h>

typedef struct rmsprop_attr {
    double alpha, epsilon, decay, root;
    hri_update_small small;
} rmsprop_attr;

static const hri_field rmsprop_fields[] = {
    {"alpha", "decay rate of the squared average", offsetof(rmsprop_attr, alpha), HRI_FIELD_DOUBLE,
     "0.99"},
    {"epsilon", "added to the denominator", offsetof(rmsprop_attr, epsilon), HRI_FIELD_DOUBLE,
     "1e-8"},
    {"decay", "weight decay", offsetof(rmsprop_attr, decay), HRI_FIELD_DOUBLE, "0"},
    {"root", "added under the root", offsetof(rmsprop_attr, root), HRI_FIELD_DOUBLE, "0"},
    HRI_UPDATE_SMALL_FIELDS(rmsprop_attr),
    {0},
};

static void rmsprop_block(const hri_update *u, uint64_t n, float *w, const float *g, float *s,
                          float *none) {
    const rmsprop_attr *p = u->attr;
    const float alpha = (float)p->alpha, more = (float)(1.0 - p->alpha);
    const float epsilon = (float)p->epsilon, decay = (float)p->decay, root = (float)p->root;
    const float rate = u->rate, factor = u->factor;
    (void)none;
    for (uint64_t i = 0; i < n; i++) {
        const float d = factor * g[i] + decay * w[i];
        s[i] = alpha * s[i] + more * d * d;
        w[i] -= rate * d / (sqrtf(s[i] + root) + epsilon);
    }
}

static void rmsprop_constants(const void *attr, float *c, float *decay) {
    const rmsprop_attr *p = attr;
    c[0] = (float)p->alpha;
    c[1] = (float)(1.0 - p->alpha);
    c[2] = (float)p->epsilon;
    c[4] = (float)p->root;
    *decay = (float)p->decay;
}

static const hri_update_rule rmsprop_rule = {
    .name = "rmsprop",
    .scalars = 1,
    .states = 1,
    .constants = rmsprop_constants,
    .block = rmsprop_block,
    .positive = 1,
    .small_at = offsetof(rmsprop_attr, small),
};
HRI_UPDATE_CUDA(rmsprop)

static hr_status rmsprop_host(const hri_call *c) {
    return hri_update_run(c, &rmsprop_rule);
}

static hr_status rmsprop_infer(hri_infer *c) {
    return hri_update_infer(c, &rmsprop_rule);
}

static void rmsprop_cost(const hri_sig *s, hri_cost *cost) {
    hri_update_cost(s, cost, 9.0);
}

static const hri_case rmsprop_cases[] = {
    {"odd", "f32[7,33] f32[7,33] f32[] f32[7,33]", .low = 0.5, .high = 2},
    {"all of it", "f32[20001] f32[20001] f32[] f32[20001] f32[]",
     "alpha=0.9,epsilon=1e-3,decay=0.1,root=0.01", .low = 0.5, .high = 2},
    {"bf16 gradient", "f32[33] bf16[33] f32[] f32[33]", .low = 0.5, .high = 2},
    {"empty", "f32[0] f32[0] f32[] f32[0]"},
    {"all bf16", "bf16[99] bf16[99] f32[] bf16[99]", .low = 0.5, .high = 2},
    {"f16 gradient", "f32[99] f16[99] f32[] f32[99]", .low = 0.5, .high = 2},
    {"average of another shape", "f32[3] f32[3] f32[] f32[4]", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_rmsprop = {
    .name = "rmsprop",
    .formula = "s = average of g^2; w -= rate * g / (sqrt(s) + eps)",
    .in_min = 4,
    .in_max = 5,
    .out_count = 2,
    .fields = rmsprop_fields,
    .attr_bytes = sizeof(rmsprop_attr),
    .infer = rmsprop_infer,
    .updates = {1, 4},
    .random = 1,
    .cost = rmsprop_cost,
    .host = {.run = rmsprop_host},
    .cases = HRI_CASES(rmsprop_cases),
};

const hri_kernel hri_kernel_cuda_rmsprop = {.launch = rmsprop_cuda,
                                            .launch_many = rmsprop_cuda_many};
