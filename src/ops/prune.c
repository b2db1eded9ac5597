/* prune(w, mask; schedule): in steps in which the mask changes, a new mask is chosen and w is 0 where it is 0.
 *
 *   w     f32, n elements           mask   u8 (1, (n + 7) / 8): bit i % 8 of byte i / 8, 1 stays
 *
 * In all other steps it does nothing.  Updates both in their own memory.  common/sparsity.h has the schedule, by the number
 * of the step, and the choice: the largest magnitudes, or with `inner` the two larger ones of every four. */
#include "ops/common/sparsity.h"

#include <string.h>

#include "graph/op.h"

typedef struct prune_attr {
    hri_sparsity schedule;
    int64_t inner;
} prune_attr;

static const hri_field prune_fields[] = {
    HRI_SPARSITY_FIELDS(prune_attr, schedule),
    {"inner", "of every four weights that lie N elements apart two stay; 0: any share",
     offsetof(prune_attr, inner), HRI_FIELD_INT, "0", .min = 0, .max = 9e15},
    {0},
};

static hr_status prune_infer(hri_infer *c) {
    const prune_attr *p = c->attr;
    const int64_t n = hr_shape_count(&c->in[0].shape);
    const hr_shape bits = hr_shape_2(1, hri_mask_bytes(n));
    if (c->in[0].type != HR_TYPE_F32) {
        return hri_infer_fail(c, "weights are %s, not f32", hr_type_name(c->in[0].type));
    }
    if (c->in[1].type != HR_TYPE_U8 || !hr_shape_same(&c->in[1].shape, &bits)) {
        return hri_infer_fail(c, "the mask of %lld weights is not u8[1,%lld]", (long long)n,
                              (long long)bits.dim[1]);
    }
    if (p->schedule.end < p->schedule.begin || p->schedule.final < p->schedule.initial) {
        return hri_infer_fail(c, "the end is before the beginning");
    }
    if (p->inner && n % (4 * p->inner)) {
        return hri_infer_fail(c, "%lld weights cannot be put into groups of four", (long long)n);
    }
    c->out[0] = c->in[0];
    c->out[1] = c->in[1];
    return HR_OK;
}

enum { CHUNK = 16384 };

static void zero_range(void *arg, uint64_t begin, uint64_t end, uint32_t worker) {
    const hri_call *c = arg;
    float *w = c->out[0];
    (void)worker;
    for (uint64_t i = begin; i < end; i++) {
        w[i] = hri_mask_has(c->out[1], i) ? w[i] : 0.0f;
    }
}

static hr_status prune_host(const hri_call *c) {
    const prune_attr *p = c->sig->attr;
    const int64_t n = hr_shape_count(&c->sig->in[0].shape);
    if (!hri_sparsity_changes(&p->schedule, c->step) || n == 0) {
        return HR_OK;
    }
    if (p->inner) {
        hri_mask_select_2_of_4(c->out[0], n, p->inner, c->out[1]);
    } else {
        hri_mask_select(c->out[0], n, hri_sparsity_cut(n, hri_sparsity_at(&p->schedule, c->step)),
                        c->threads, c->workspace, c->out[1]);
    }
    hri_call call = *c;
    hri_threads_range(c->threads, (uint64_t)n, CHUNK, zero_range, &call);
    return HR_OK;
}

static uint64_t prune_workspace(const hri_sig *s, uint32_t threads) {
    return hri_mask_workspace(hr_shape_count(&s->in[0].shape), threads);
}

/* Over many steps. */
static void prune_cost(const hri_sig *s, hri_cost *cost) {
    const prune_attr *p = s->attr;
    const double n = (double)hr_shape_count(&s->in[0].shape);
    cost->flops = 8.0 * n / (double)p->schedule.every;
    cost->bytes = 24.0 * n / (double)p->schedule.every;
}

/* Every step changes it, whatever its number is. */
#define NOW "end=1000000,every=1"

static const hri_case prune_cases[] = {
    {"half", "f32[7,33] u8[1,29]", NOW ",initial=0.5,final=0.5"},
    {"most", "f32[20001] u8[1,2501]", NOW ",initial=0.999,final=0.999"},
    {"none", "f32[33] u8[1,5]", NOW ",initial=0,final=0"},
    {"not yet", "f32[33] u8[1,5]", "begin=1000000,end=1000000"},
    {"two of four", "f32[8,3] u8[1,3]", NOW ",inner=3"},
    {"two of four, dense", "f32[3,8] u8[1,3]", NOW ",inner=1"},
    {"one", "f32[] u8[1,1]", NOW ",initial=0.9,final=0.9"},
    {"empty", "f32[0] u8[1,0]", NOW},
    {"another mask", "f32[33] u8[1,4]", .flags = HRI_CASE_BAD},
    {"bf16", "bf16[33] u8[1,5]", .flags = HRI_CASE_BAD},
    {"no groups", "f32[9] u8[1,2]", "inner=3", .flags = HRI_CASE_BAD},
    {"backwards", "f32[9] u8[1,2]", "begin=3,end=2", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_prune = {
    .name = "prune",
    .formula = "mask = the largest |w|, w = mask ? w : 0; now and then",
    .in_min = 2,
    .in_max = 2,
    .out_count = 2,
    .fields = prune_fields,
    .attr_bytes = sizeof(prune_attr),
    .infer = prune_infer,
    .updates = {1, 2},
    .cost = prune_cost,
    .host_only = 1,
    .host = {.run = prune_host, .workspace = prune_workspace},
    .cases = prune_cases,
};
