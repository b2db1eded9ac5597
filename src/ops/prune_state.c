/* prune_state(s, mask; begin, end, every, ranks): in steps in which the mask changes, s is 0 where the mask is 0.
 *
 *   s     optimizer state of n weights: real, n elements; or u8 of hri_codes_bytes(n) (common/codes.h), whose code 0 is 0
 *   mask  u8 (1, (n + 7) / 8), as of prune, which made it in the same step; with several ranks that of the whole tensor, of
 *         which s is this rank's slice (graph/slices.h)
 *
 * In all other steps it does nothing.  Updates s in its own memory. */
#include "graph/op.h"
#include "ops/common/codes.h"
#include "ops/common/prune_cuda.h"
#include "ops/common/ranks.h"
#include "ops/common/sparsity.h"

typedef struct prune_state_attr {
    hri_sparsity schedule;
    int64_t ranks;
} prune_state_attr;

static const hri_field prune_state_fields[] = {
    HRI_SPARSITY_FIELDS(prune_state_attr, schedule), HRI_RANKS_FIELD(prune_state_attr), {0}};

static hr_status prune_state_infer(hri_infer *c) {
    const hr_shape *bits = &c->in[1].shape;
    const int64_t n = hr_shape_count(&c->in[0].shape), bytes = bits->rank == 2 ? bits->dim[1] : 0;
    if (c->in[1].type != HR_TYPE_U8 || bits->rank != 2 || bits->dim[0] != 1) {
        return hri_infer_fail(c, "the mask is not u8[1,...]");
    }
    if (((const prune_state_attr *)c->attr)->ranks >
        1) { /* how many weights there are is not said */
        if (c->in[0].type != HR_TYPE_U8 && !hr_type_is_real(c->in[0].type)) {
            return hri_infer_fail(c, "the state is neither real nor 8 bit");
        }
    } else if (c->in[0].type == HR_TYPE_U8) {
        if (n != hri_codes_bytes(8 * bytes)) { /* blocks begin at whole bytes of the mask */
            return hri_infer_fail(c,
                                  "the state has %lld bytes, which are not those of %lld weights",
                                  (long long)n, (long long)(8 * bytes));
        }
    } else if (!hr_type_is_real(c->in[0].type) || hri_mask_bytes(n) != bytes) {
        return hri_infer_fail(c, "the state is not one of %lld weights", (long long)(8 * bytes));
    }
    c->out[0] = c->in[0];
    return HR_OK;
}

enum { CHUNK = 16384 };

static void zero(hr_type type, void *state, uint64_t i) {
    if (type == HR_TYPE_F32) {
        ((float *)state)[i] = 0.0f;
    } else if (type == HR_TYPE_U8) {
        unsigned char *block = (unsigned char *)state + i / HRI_CODES_BLOCK * HRI_CODES_BLOCK_BYTES;
        block[sizeof(float) + i % HRI_CODES_BLOCK] = 0;
    } else {
        ((uint16_t *)state)[i] = 0;
    }
}

typedef struct zeroing {
    const hri_call *c;
    const unsigned char *mask; /* from the weight on with which the state begins */
    uint64_t n;                /* weights of the state */
} zeroing;

/* Bytes of the mask. */
static void zero_range(void *arg, uint64_t begin, uint64_t end, uint32_t worker) {
    const zeroing *z = arg;
    const hr_type type = (hr_type)z->c->sig->in[0].type;
    (void)worker;
    for (uint64_t i = begin; i < end; i++) {
        for (uint64_t k = 0; k < 8 && z->mask[i] != 0xff; k++) {
            /* a mask may come from a file: bits behind the last weight are nobody's */
            if (!(z->mask[i] >> k & 1) && 8 * i + k < z->n) {
                zero(type, z->c->out[0], 8 * i + k);
            }
        }
    }
}

/* Weights of a state: of 8 bit with its padding. */
static int64_t weights_of(const hri_sig *s) {
    const int64_t n = hr_shape_count(&s->in[0].shape);
    return s->in[0].type == HR_TYPE_U8 ? n / HRI_CODES_BLOCK_BYTES * HRI_CODES_BLOCK : n;
}

static hr_status prune_state_host(const hri_call *c) {
    const prune_state_attr *p = c->sig->attr;
    const hr_status status = p->ranks > 1 ? hri_ranks_check(c, p->ranks) : HR_OK;
    const int64_t n = weights_of(c->sig), bytes = c->sig->in[1].shape.dim[1];
    const int64_t first = p->ranks > 1 ? hri_ranks_own(c) * n / 8 : 0;
    const int64_t left = first < bytes ? bytes - first : 0;
    zeroing z = {c, (const unsigned char *)c->in[1] + (left ? first : 0), (uint64_t)n};
    if (status == HR_OK && left && hri_sparsity_changes(&p->schedule, c->step)) {
        const int64_t own = hri_mask_bytes(n);
        hri_threads_range(c->threads, (uint64_t)(left < own ? left : own), CHUNK / 8, zero_range,
                          &z);
    }
    return status;
}

HRI_CU(prune);

hr_status hri_prune_clear(const hri_gpu_call *c, uint32_t k, hr_addr mask, int64_t all,
                          const hri_sparsity *schedule) {
    const hr_type type = (hr_type)c->sig->out[k].type;
    int64_t n = hr_shape_count(&c->sig->out[k].shape);
    n = type == HR_TYPE_U8 ? n / HRI_CODES_BLOCK_BYTES * HRI_CODES_BLOCK : n;
    int64_t first = n < all ? (int64_t)c->rank * n : 0, bytes = hri_mask_bytes(all);
    hr_addr x = c->out[k], control = c->control;
    hri_sparsity s = *schedule;
    if (n == 0) {
        return HR_OK;
    }
    return hri_gpu_launch(c->gpu, &hri_cu_prune, hri_prune_defines(type).text, "clear",
                          &(hri_gpu_grid){.x = hri_launch_blocks(n, 256), .threads = 256},
                          HRI_GPU_ARGS(&x, &mask, &control, &n, &first, &bytes, &s));
}

static hr_status prune_state_cuda(const hri_gpu_call *c) {
    const prune_state_attr *p = c->sig->attr;
    const int64_t all = 8 * c->sig->in[1].shape.dim[1], own = weights_of(c->sig);
    return hri_prune_clear(c, 0, c->in[1],
                           p->ranks > 1 ? all
                           : own < all  ? own
                                        : all,
                           &p->schedule);
}

static void prune_state_cost(const hri_sig *s, hri_cost *cost) {
    const prune_state_attr *p = s->attr;
    cost->flops = (double)hr_shape_count(&s->in[0].shape) / (double)p->schedule.every;
    cost->bytes = 4.0 * cost->flops;
}

static const hri_case prune_state_cases[] = {
    {"odd", "f32[7,33] u8[1,29]", "end=1000000,every=1", .ids = 256},
    {"not yet", "f32[33] u8[1,5]", "begin=1000000,end=1000000"},
    {"bf16", "bf16[16] u8[1,2]", "end=1000000,every=1", .ids = 256},
    {"f16", "f16[20001] u8[1,2501]", "end=1000000,every=1", .ids = 256},
    {"codes", "u8[520] u8[1,33]", "end=1000000,every=1", .ids = 256},
    {"empty", "f32[0] u8[1,0]", "end=1000000,every=1"},
    {"another mask", "f32[33] u8[1,4]", .flags = HRI_CASE_BAD},
    {"integers", "i32[32] u8[1,4]", .flags = HRI_CASE_BAD},
    {"codes of another number", "u8[520] u8[1,4]", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_prune_state = {
    .name = "prune_state",
    .formula = "s = mask ? s : 0, when the mask has changed",
    .in_min = 2,
    .in_max = 2,
    .out_count = 1,
    .fields = prune_state_fields,
    .attr_bytes = sizeof(prune_state_attr),
    .infer = prune_state_infer,
    .updates = {1},
    .random = 1, /* reads the number of the step */
    .cost = prune_state_cost,
    .host = {.run = prune_state_host},
    .cases = HRI_CASES(prune_state_cases),
};

const hri_kernel hri_kernel_cuda_prune_state = {.launch = prune_state_cuda};
