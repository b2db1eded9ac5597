/* rmsprop_momentum(w, g, rate, s, v [, factor]; momentum, alpha, epsilon, decay, root, stream, ranks):
 *
 *   d <- factor * g + decay * w              s <- alpha * s + (1 - alpha) * d * d
 *   v <- momentum * v + d / (sqrt(s + root) + epsilon)    w <- w - rate * v
 *
 * Updates w, s and v in their own memory, as torch.optim.RMSprop does with momentum; Keras has its epsilon under the root. */
#include "ops/common/update_cuda.h"

#include <math.h>

typedef struct rmsprop_momentum_attr {
    double momentum, alpha, epsilon, decay, root;
    hri_update_small small;
} rmsprop_momentum_attr;

static const hri_field rmsprop_momentum_fields[] = {
    {"momentum", "of the velocity", offsetof(rmsprop_momentum_attr, momentum), HRI_FIELD_DOUBLE,
     "0.9"},
    {"alpha", "decay rate of the squared average", offsetof(rmsprop_momentum_attr, alpha),
     HRI_FIELD_DOUBLE, "0.99"},
    {"epsilon", "added to the denominator", offsetof(rmsprop_momentum_attr, epsilon),
     HRI_FIELD_DOUBLE, "1e-8"},
    {"decay", "weight decay", offsetof(rmsprop_momentum_attr, decay), HRI_FIELD_DOUBLE, "0"},
    {"root", "added under the root", offsetof(rmsprop_momentum_attr, root), HRI_FIELD_DOUBLE, "0"},
    HRI_UPDATE_SMALL_FIELDS(rmsprop_momentum_attr),
    {0},
};

static void rmsprop_momentum_block(const hri_update *u, uint64_t n, float *w, const float *g,
                                   float *s, float *v) {
    const rmsprop_momentum_attr *p = u->attr;
    const float alpha = (float)p->alpha, more = (float)(1.0 - p->alpha);
    const float epsilon = (float)p->epsilon, decay = (float)p->decay, root = (float)p->root;
    const float rate = u->rate, factor = u->factor, momentum = (float)p->momentum;
    for (uint64_t i = 0; i < n; i++) {
        const float d = factor * g[i] + decay * w[i];
        s[i] = alpha * s[i] + more * d * d;
        v[i] = momentum * v[i] + d / (sqrtf(s[i] + root) + epsilon);
        w[i] -= rate * v[i];
    }
}

static void rmsprop_momentum_constants(const void *attr, float *c, float *decay) {
    const rmsprop_momentum_attr *p = attr;
    c[0] = (float)p->alpha;
    c[1] = (float)(1.0 - p->alpha);
    c[2] = (float)p->epsilon;
    c[3] = (float)p->momentum;
    c[4] = (float)p->root;
    *decay = (float)p->decay;
}

static const hri_update_rule rmsprop_momentum_rule = {
    .name = "rmsprop_momentum",
    .scalars = 1,
    .states = 2,
    .constants = rmsprop_momentum_constants,
    .block = rmsprop_momentum_block,
    .positive = 1,
    .small_at = offsetof(rmsprop_momentum_attr, small),
};
HRI_UPDATE_CUDA(rmsprop_momentum)

static hr_status rmsprop_momentum_host(const hri_call *c) {
    return hri_update_run(c, &rmsprop_momentum_rule);
}

static hr_status rmsprop_momentum_infer(hri_infer *c) {
    return hri_update_infer(c, &rmsprop_momentum_rule);
}

static void rmsprop_momentum_cost(const hri_sig *s, hri_cost *cost) {
    hri_update_cost(s, cost, 11.0);
}

static const hri_case rmsprop_momentum_cases[] = {
    {"odd", "f32[7,33] f32[7,33] f32[] f32[7,33] f32[7,33]", .low = 0.5, .high = 2},
    {"all of it", "f32[20001] f32[20001] f32[] f32[20001] f32[20001] f32[]",
     "momentum=0.8,alpha=0.9,epsilon=1e-3,decay=0.1,root=0.01", .low = 0.5, .high = 2},
    {"bf16 gradient", "f32[33] bf16[33] f32[] f32[33] f32[33]", .low = 0.5, .high = 2},
    {"empty", "f32[0] f32[0] f32[] f32[0] f32[0]"},
    {"all bf16", "bf16[99] bf16[99] f32[] bf16[99] bf16[99]", .low = 0.5, .high = 2},
    {"f16 gradient", "f32[99] f16[99] f32[] f32[99] f32[99]", .low = 0.5, .high = 2},
    {"no velocity", "f32[3] f32[3] f32[] f32[3] f32[]", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_rmsprop_momentum = {
    .name = "rmsprop_momentum",
    .formula = "s = average of g^2; v = m v + g / (sqrt(s) + eps); w -= rate * v",
    .in_min = 5,
    .in_max = 6,
    .out_count = 3,
    .fields = rmsprop_momentum_fields,
    .attr_bytes = sizeof(rmsprop_momentum_attr),
    .infer = rmsprop_momentum_infer,
    .updates = {1, 4, 5},
    .random = 1,
    .cost = rmsprop_momentum_cost,
    .host = {.run = rmsprop_momentum_host},
    .cases = HRI_CASES(rmsprop_momentum_cases),
};

const hri_kernel hri_kernel_cuda_rmsprop_momentum = {
    .launch = rmsprop_momentum_cuda,
    .launch_many = rmsprop_momentum_cuda_many,
};
