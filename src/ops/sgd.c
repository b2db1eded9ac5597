/* sgd(w, g, rate; decay): w <- w - rate * (g + decay * w).
 *
 * Updates w in its own memory.  w and g may be of different real types; rate is a scalar f32, so that a schedule
 * needs no new graph. */
#include "graph/half.h"
#include "graph/op.h"
#include "ops/common/update.h"

typedef struct sgd_attr {
    double decay;
} sgd_attr;

static const hri_field sgd_fields[] = {
    {"decay", "weight decay", offsetof(sgd_attr, decay), HRI_FIELD_DOUBLE, "0"},
    {0},
};

static void sgd_range(void *arg, uint64_t begin, uint64_t end, uint32_t worker) {
    const hri_call *c = arg;
    const float rate = *(const float *)c->in[2];
    const float decay = (float)((const sgd_attr *)c->sig->attr)->decay;
    (void)worker;
    hri_update_block block;
    for (uint64_t i = begin; i < end; i += block.count) {
        hri_update_load(&block, c, 2, i, end);
        float *w = block.x[0], *g = block.x[1];
        for (uint64_t k = 0; k < block.count; k++) {
            w[k] -= rate * (g[k] + decay * w[k]);
        }
        hri_update_store(&block, c, 1, i);
    }
}

static hr_status sgd_host(const hri_call *c) {
    hri_call call = *c;
    hri_threads_range(c->threads, (uint64_t)hr_shape_count(&c->sig->in[0].shape), 16384, sgd_range,
                      &call);
    return HR_OK;
}

static hr_status sgd_infer(hri_infer *c) {
    return hri_update_infer(c, 2, 1, 2);
}

static void sgd_cost(const hri_sig *s, hri_cost *cost) {
    cost->flops = 4.0 * (double)hr_shape_count(&s->in[0].shape);
}

static const hri_case sgd_cases[] = {
    {"odd", "f32[7,33] f32[7,33] f32[]"},
    {"decay", "f32[20001] f32[20001] f32[]", "decay=0.1"},
    {"bf16 gradient", "f32[33] bf16[33] f32[]"},
    {"bf16 weights", "bf16[33] bf16[33] f32[]"},
    {"empty", "f32[0] f32[0] f32[]"},
    {"shapes differ", "f32[3] f32[4] f32[]", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_sgd = {
    .name = "sgd",
    .formula = "w -= rate * (g + decay * w)",
    .in_min = 3,
    .in_max = 3,
    .out_count = 1,
    .fields = sgd_fields,
    .attr_bytes = sizeof(sgd_attr),
    .infer = sgd_infer,
    .updates = {1},
    .cost = sgd_cost,
    .host = sgd_host,
    .cases = sgd_cases,
};
