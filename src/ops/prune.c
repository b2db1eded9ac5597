/* prune(w, mask [, whole]; schedule, ranks): in steps in which the mask changes, a new mask is chosen and w is 0 where it is 0.
 *
 *   w     f32, n elements           mask   u8 (1, (n + 7) / 8): bit i % 8 of byte i / 8, 1 stays
 *   whole f32, n elements: w is this rank's slice of it (graph/slices.h), of so many ranks, and the mask that of all of it
 *
 * In all other steps it does nothing.  Updates both in their own memory.  common/sparsity.h has the schedule, by the number
 * of the step, and the choice: the largest magnitudes, or with `inner` the two larger ones of every four. */
#include "ops/common/sparsity.h"

#include "graph/op.h"
#include "ops/common/launch.h"
#include "ops/common/prune_cuda.h"
#include "ops/common/ranks.h"

typedef struct prune_attr {
    hri_sparsity schedule;
    int64_t inner, ranks;
} prune_attr;

static const hri_field prune_fields[] = {
    HRI_SPARSITY_FIELDS(prune_attr, schedule),
    {"inner", "of every four weights that lie N elements apart two stay; 0: any share",
     offsetof(prune_attr, inner), HRI_FIELD_INT, "0", .min = 0, .max = 9e15},
    HRI_RANKS_FIELD(prune_attr),
    {0},
};

static hr_status prune_infer(hri_infer *c) {
    const prune_attr *p = c->attr;
    const uint32_t all = c->in_count > 2 ? 2 : 0; /* the input that has all weights */
    const int64_t n = hr_shape_count(&c->in[all].shape);
    const hr_shape bits = hr_shape_2(1, hri_mask_bytes(n));
    if (c->in[0].type != HR_TYPE_F32 || c->in[all].type != HR_TYPE_F32) {
        return hri_infer_fail(c, "weights are %s, not f32", hr_type_name(c->in[0].type));
    }
    if (all && hr_shape_count(&c->in[0].shape) != hri_slice_count(n, p->ranks)) {
        return hri_infer_fail(c, "a slice of %lld weights has %lld", (long long)n,
                              (long long)hri_slice_count(n, p->ranks));
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

typedef struct zeroing {
    const hri_call *c;
    uint64_t first; /* weight of all of them with which w begins */
} zeroing;

static void zero_range(void *arg, uint64_t begin, uint64_t end, uint32_t worker) {
    const zeroing *z = arg;
    float *w = z->c->out[0];
    (void)worker;
    for (uint64_t i = begin; i < end; i++) {
        w[i] = hri_mask_has(z->c->out[1], z->first + i) ? w[i] : 0.0f;
    }
}

/* The input with all weights. */
static uint32_t all_of(const hri_sig *s) {
    return s->in_count > 2 ? 2 : 0;
}

static hr_status prune_host(const hri_call *c) {
    const prune_attr *p = c->sig->attr;
    const uint32_t all = all_of(c->sig);
    const int64_t n = hr_shape_count(&c->sig->in[all].shape),
                  own = hr_shape_count(&c->sig->in[0].shape), rank = own < n ? hri_ranks_own(c) : 0;
    const float *w = all ? c->in[all] : c->out[0];
    const hr_status status = p->ranks > 1 ? hri_ranks_check(c, p->ranks) : HR_OK;
    if (status != HR_OK || !hri_sparsity_changes(&p->schedule, c->step) || n == 0) {
        return status;
    }
    if (p->inner) {
        hri_mask_select_2_of_4(w, n, p->inner, c->out[1]);
    } else {
        hri_mask_select(w, n, hri_sparsity_cut(n, hri_sparsity_at(&p->schedule, c->step)),
                        c->threads, c->workspace, c->out[1]);
    }
    zeroing z = {c, (uint64_t)(rank * own)};
    hri_threads_range(c->threads, (uint64_t)hri_slice_filled(n, own, rank), CHUNK, zero_range, &z);
    return HR_OK;
}

HRI_CU(prune);

static hr_status prune_cuda(const hri_gpu_call *c) {
    const prune_attr *p = c->sig->attr;
    const uint32_t all = all_of(c->sig);
    int64_t n = hr_shape_count(&c->sig->in[all].shape), inner = p->inner;
    hr_addr w = all ? c->in[all] : c->out[0], mask = c->out[1], control = c->control;
    hri_sparsity s = p->schedule;
    if (n == 0) {
        return HR_OK;
    }
    const hri_gpu_grid one = {.x = 1, .threads = 512},
                       many = {.x = hri_launch_blocks(hri_mask_bytes(n), 256), .threads = 256};
    const char *text = hri_prune_defines(HR_TYPE_F32).text;
    const hr_status status =
        inner ? hri_gpu_launch(c->gpu, &hri_cu_prune, text, "choose_2_of_4", &many,
                               HRI_GPU_ARGS(&w, &mask, &control, &n, &inner, &s))
              : hri_gpu_launch(c->gpu, &hri_cu_prune, text, "choose", &one,
                               HRI_GPU_ARGS(&w, &mask, &control, &n, &s));
    return status == HR_OK ? hri_prune_clear(c, 0, mask, n, &s) : status;
}

static uint64_t prune_workspace(const hri_sig *s, uint32_t threads) {
    return hri_mask_workspace(hr_shape_count(&s->in[all_of(s)].shape), threads);
}

/* Over many steps. */
static void prune_cost(const hri_sig *s, hri_cost *cost) {
    const prune_attr *p = s->attr;
    const double n = (double)hr_shape_count(&s->in[all_of(s)].shape);
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
    {"nearly all, ties", "f32[4099] u8[1,513]", NOW ",initial=0.3,final=0.3", .low = 1, .high = 1},
    {"by the formula", "f32[9001] u8[1,1126]", "initial=0.1,final=0.9,end=1000003,every=1"},
    {"all of it", "f32[7,33] u8[1,29] f32[7,33]", NOW ",initial=0.5,final=0.5"},
    {"a slice of another size", "f32[30] u8[1,29] f32[7,33]", NOW, .flags = HRI_CASE_BAD},
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
    .in_max = 3,
    .out_count = 2,
    .fields = prune_fields,
    .attr_bytes = sizeof(prune_attr),
    .infer = prune_infer,
    .updates = {1, 2},
    .random = 1, /* reads the number of the step */
    .cost = prune_cost,
    .host = {.run = prune_host, .workspace = prune_workspace},
    .cases = HRI_CASES(prune_cases),
};

const hri_kernel hri_kernel_cuda_prune = {.launch = prune_cuda};
