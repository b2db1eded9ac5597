/* sgd_momentum(w, g, rate, v; momentum, nesterov, decay):
 *
 *   d <- g + decay * w      v <- momentum * v + d      w <- w - rate * (nesterov ? d + momentum * v : v)
 *
 * Updates w and v in their own memory, as torch.optim.SGD does without dampening. */
#include "graph/half.h"
#include "graph/op.h"
#include "ops/common/update.h"

typedef struct sgd_momentum_attr {
    double momentum, decay;
    bool nesterov;
} sgd_momentum_attr;

static const hri_field sgd_momentum_fields[] = {
    {"momentum", "of the velocity", offsetof(sgd_momentum_attr, momentum), HRI_FIELD_DOUBLE, "0.9"},
    {"decay", "weight decay", offsetof(sgd_momentum_attr, decay), HRI_FIELD_DOUBLE, "0"},
    {"nesterov", "look ahead", offsetof(sgd_momentum_attr, nesterov), HRI_FIELD_BOOL, NULL},
    {0},
};

static void sgd_momentum_range(void *arg, uint64_t begin, uint64_t end, uint32_t worker) {
    const hri_call *c = arg;
    const sgd_momentum_attr *p = c->sig->attr;
    const float rate = *(const float *)c->in[2], momentum = (float)p->momentum;
    const float decay = (float)p->decay, ahead = p->nesterov ? 1.0f : 0.0f;
    (void)worker;
    hri_update_block block;
    for (uint64_t i = begin; i < end; i += block.count) {
        hri_update_load(&block, c, 4, i, end);
        float *w = block.x[0], *g = block.x[1], *v = block.x[3];
        for (uint64_t k = 0; k < block.count; k++) {
            const float d = g[k] + decay * w[k];
            v[k] = momentum * v[k] + d;
            w[k] -= rate * (ahead != 0.0f ? d + momentum * v[k] : v[k]);
        }
        block.x[1] = block.x[3];
        hri_update_store(&block, c, 2, i);
    }
}

static hr_status sgd_momentum_host(const hri_call *c) {
    hri_call call = *c;
    hri_threads_range(c->threads, (uint64_t)hr_shape_count(&c->sig->in[0].shape), 16384,
                      sgd_momentum_range, &call);
    return HR_OK;
}

static hr_status sgd_momentum_infer(hri_infer *c) {
    const hr_status status = hri_update_infer(c, 4, 1, 2);
    c->out[1] = c->in[3];
    return status;
}

static void sgd_momentum_cost(const hri_sig *s, hri_cost *cost) {
    cost->flops = 6.0 * (double)hr_shape_count(&s->in[0].shape);
}

static const hri_case sgd_momentum_cases[] = {
    {"odd", "f32[7,33] f32[7,33] f32[] f32[7,33]"},
    {"all of it", "f32[20001] f32[20001] f32[] f32[20001]", "momentum=0.8,nesterov,decay=0.1"},
    {"bf16 gradient", "f32[33] bf16[33] f32[] f32[33]"},
    {"empty", "f32[0] f32[0] f32[] f32[0]"},
    {NULL, NULL},
};

const hr_op hr_op_sgd_momentum = {
    .name = "sgd_momentum",
    .formula = "v = m v + g + decay w; w -= rate * v",
    .in_min = 4,
    .in_max = 4,
    .out_count = 2,
    .fields = sgd_momentum_fields,
    .attr_bytes = sizeof(sgd_momentum_attr),
    .infer = sgd_momentum_infer,
    .updates = {1, 4},
    .cost = sgd_momentum_cost,
    .host = sgd_momentum_host,
    .cases = sgd_momentum_cases,
};
